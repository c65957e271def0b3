/* SPDX-License-Identifier: Apache-2.0 */
#include "mesh.h"

#include "mesh_private.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIALS_MAX 128 /* hellos of ours under way at once */

/* ---- hosts ---- */

int mesh_learn(struct mesh *mesh, uint32_t ipv4, uint16_t port, struct mst_error *err)
{
    const struct discovery_identity *self = &mesh->options.self->identity;
    return ipv4 == self->ipv4 && port == self->port ? 0 : hosts_learn(&mesh->hosts, ipv4, port, err);
}

void mesh_ask_again(struct mesh *mesh, uint32_t ipv4, uint16_t port)
{
    struct host *host = hosts_find(&mesh->hosts, ipv4, port);
    if (!host || !host->known)
        return; /* it is asked already */
    host->known = false;
    host->retry_ns = 0;
}

void mesh_set_dialling(struct mesh *mesh, bool on)
{
    mesh->dialling = on;
}

void mesh_host_failed(struct mesh *mesh, uint32_t ipv4, uint16_t port, const char *reason)
{
    struct host *host = hosts_find(&mesh->hosts, ipv4, port);
    if (host)
        hosts_failed(host, reason, mst_now_ns());
}

/* Why a worker that has proved who it is does not become a peer; NULL when it may. */
static const char *unfit(const struct mesh *mesh, const struct discovery_identity *who,
                         char text[static HOSTS_REASON_BYTES])
{
    const struct discovery_identity *self = &mesh->options.self->identity;
    if (who->state == DISCOVERY_STATE_LOOKING)
        return "it looks for the network that the others are on";
    if (memcmp(who->job_key, self->job_key, sizeof self->job_key) == 0)
        return NULL;
    (void)snprintf(text, HOSTS_REASON_BYTES, "%s runs another job (model, data or settings differ)",
                   who->slot);
    return text;
}

void mesh_meet(struct mesh *mesh, const struct discovery_identity *who)
{
    const struct discovery_identity *self = &mesh->options.self->identity;
    char text[HOSTS_REASON_BYTES];
    mesh->callbacks.seen(mesh->callbacks.context, who);
    if (who->ipv4 == 0 || who->role == DISCOVERY_ROLE_PROBE)
        return;
    if (mesh_learn(mesh, who->ipv4, who->port, NULL) < 0)
        return;
    struct host *host = hosts_find(&mesh->hosts, who->ipv4, who->port);
    if (!host)
        return; /* ourselves */
    hosts_succeeded(host);
    if (mesh->options.only_hello || who->role != DISCOVERY_ROLE_WORKER || self->role != DISCOVERY_ROLE_WORKER)
        return;
    const char *reason = unfit(mesh, who, text);
    if (reason)
        hosts_failed(host, reason, mst_now_ns()); /* asked again: it may be replaced */
    else if (memcmp(self->incarnation, who->incarnation, sizeof self->incarnation) < 0 && !host->dialing &&
             !link_find_control(mesh, who->incarnation))
        link_dial(mesh, who->ipv4, who->port, DISCOVERY_PURPOSE_CONTROL);
}

const char *mesh_stranger(const struct mesh *mesh, size_t index, char text[static MESH_STRANGER_BYTES])
{
    for (size_t h = 0; h < mesh->hosts.count; h++) {
        const struct host *host = &mesh->hosts.items[h];
        char address[MST_IPV4_TEXT_BYTES];
        if (host->known || host->reason[0] == '\0' || index-- > 0)
            continue;
        (void)snprintf(text, MESH_STRANGER_BYTES, "%s:%u: %s", mst_ipv4_text(host->ipv4, address),
                       (unsigned)host->port, host->reason);
        return text;
    }
    return NULL;
}

/* ---- sending ---- */

int mesh_send(struct mesh *mesh, const uint8_t incarnation[static DISCOVERY_INCARNATION_BYTES], uint16_t type,
              const struct mst_buf *payload, struct mst_error *err)
{
    struct link *link = link_find_control(mesh, incarnation);
    if (!link)
        return mst_error_set(err, -ENOTCONN, "no control connection to that worker");
    return link_send(link, type, mst_buf_text(payload), payload->count, err);
}

void mesh_send_all(struct mesh *mesh, uint16_t type, const struct mst_buf *payload)
{
    for (struct link *link = mesh->links; link; link = link->next)
        if (link->stage == LINK_CONTROL && !link->fault[0])
            (void)link_send(link, type, mst_buf_text(payload), payload->count, NULL); /* it remembers */
}

bool mesh_flushed(const struct mesh *mesh)
{
    for (const struct link *link = mesh->links; link; link = link->next)
        if (link->stage == LINK_CONTROL && !link->fault[0] && link->out.count > link->out_done)
            return false;
    return true;
}

/* ---- time ---- */

static bool is_dial_under_way(const struct link *link)
{
    return link->dialer && (link->stage == LINK_CONNECTING || link->stage == LINK_HELLO);
}

/* When a host is to be dialled; UINT64_MAX: not at all. */
static uint64_t dial_ns(const struct mesh *mesh, const struct host *host)
{
    if (!hosts_may_be_dialled(host) || (!mesh->dialling && host->retry_ns >= host->keep_until_ns))
        return UINT64_MAX;
    return host->retry_ns;
}

uint64_t mesh_deadline_ns(const struct mesh *mesh)
{
    uint64_t deadline_ns = UINT64_MAX;
    size_t dials = 0;
    if (mesh->tell_ns > 0 && mesh->tell_ns < deadline_ns)
        deadline_ns = mesh->tell_ns;
    for (const struct link *link = mesh->links; link; link = link->next) {
        dials += is_dial_under_way(link);
        if (link_deadline_ns(link) < deadline_ns)
            deadline_ns = link_deadline_ns(link);
    }
    /* With as many dials as there may be, a host that is due waits for one of them to end. */
    for (size_t h = 0; h < mesh->hosts.count && dials < DIALS_MAX; h++)
        if (dial_ns(mesh, &mesh->hosts.items[h]) < deadline_ns)
            deadline_ns = dial_ns(mesh, &mesh->hosts.items[h]);
    return deadline_ns;
}

static void free_closed(struct mesh *mesh)
{
    struct link **next = &mesh->links;
    while (*next) {
        struct link *link = *next;
        if (link->stage == LINK_CLOSED) {
            *next = link->next;
            link_free(link);
        } else {
            next = &link->next;
        }
    }
}

void mesh_tick(struct mesh *mesh, uint64_t now_ns)
{
    size_t dials = 0;
    for (struct link *link = mesh->links; link; link = link->next) {
        link_tick(link, now_ns);
        dials += is_dial_under_way(link);
    }
    free_closed(mesh);
    tell_tick(mesh, now_ns);
    /* By index: dialling may learn nothing, but failing at once changes the entry. */
    for (size_t h = 0; h < mesh->hosts.count && dials < DIALS_MAX; h++) {
        const struct host *host = &mesh->hosts.items[h];
        if (now_ns >= dial_ns(mesh, host)) {
            link_dial(mesh, host->ipv4, host->port, DISCOVERY_PURPOSE_HELLO);
            dials++;
        }
    }
}

/* ---- life ---- */

int mesh_new(const struct mesh_options *options, const struct mesh_callbacks *callbacks,
             struct mesh **ret_mesh, struct mst_error *err)
{
    struct mesh *mesh = calloc(1, sizeof *mesh);
    if (!mesh)
        return mst_error_set(err, -ENOMEM, "make a mesh: no memory");
    mesh->options = *options;
    if (mesh->options.silence_ns == 0)
        mesh->options.silence_ns = MESH_SILENCE_NS;
    mesh->callbacks = *callbacks;
    mesh->dialling = true;
    const int r = listener_open(mesh, err);
    if (r < 0) {
        mesh_free(mesh);
        return r;
    }
    *ret_mesh = mesh;
    return 0;
}

void mesh_free(struct mesh *mesh)
{
    if (!mesh)
        return;
    for (struct link *link = mesh->links; link; link = link->next)
        link_close(link);
    free_closed(mesh);
    listener_close(mesh);
    hosts_release(&mesh->hosts);
    free(mesh);
}
