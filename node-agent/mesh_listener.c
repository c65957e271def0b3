/* SPDX-License-Identifier: Apache-2.0 */
/* Who is let in. Anybody on the network can connect, so what a stranger can take is bounded: the number of
 * connections that have not said their hello (one address's share of it apart), the time that each may take,
 * and the work in one turn of the loop. Newcomers are not kept out by those who are there: with no place left
 * the oldest has to go, since a real hello is over in a few milliseconds. */
#include "mesh_private.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/log.h"
#include "muster/net.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#define LISTEN_BACKLOG    1024
#define ACCEPTS_A_TURN    16
#define PLACES_AN_ADDRESS (DISCOVERY_UNAUTHENTICATED / 4) /* several workers may be on one machine */

/* Only whoever is a peer of ours already, by its own control connection, may start a program here. */
static enum discovery_reason judge_launch(const struct mesh *mesh, const struct discovery_session *session)
{
    const struct discovery_identity *self = &mesh->options.self->identity;
    if (!mesh->callbacks.launch || session->purpose != DISCOVERY_PURPOSE_CONTROL)
        return DISCOVERY_REASON_ROLE;
    if (memcmp(session->peer.job_key, self->job_key, sizeof self->job_key) != 0)
        return DISCOVERY_REASON_JOB;
    return link_find_control(mesh, session->peer.incarnation) ? DISCOVERY_REASON_NONE : DISCOVERY_REASON_BUSY;
}

/* Asked by the listener's side of a hello, once the dialer has proved that it knows the key. */
static enum discovery_reason judge(void *context, const struct discovery_session *session)
{
    const struct mesh *mesh = context;
    const struct discovery_identity *self = &mesh->options.self->identity;
    if (session->purpose == DISCOVERY_PURPOSE_HELLO)
        return DISCOVERY_REASON_NONE;
    if (mesh->options.only_hello)
        return DISCOVERY_REASON_BUSY;
    if (session->peer.role == DISCOVERY_ROLE_LAUNCH)
        return judge_launch(mesh, session);
    if (session->peer.role != DISCOVERY_ROLE_WORKER)
        return DISCOVERY_REASON_ROLE;
    if (self->role == DISCOVERY_ROLE_COLLECTOR)
        return session->purpose == DISCOVERY_PURPOSE_CONTROL ? DISCOVERY_REASON_NONE : DISCOVERY_REASON_ROLE;
    if (memcmp(session->peer.job_key, self->job_key, sizeof self->job_key) != 0)
        return DISCOVERY_REASON_JOB;
    if (session->purpose == DISCOVERY_PURPOSE_CONTROL) {
        const bool lower = memcmp(session->peer.incarnation, self->incarnation, sizeof self->incarnation) < 0;
        return lower ? DISCOVERY_REASON_NONE : DISCOVERY_REASON_ROLE;
    }
    return mesh->callbacks.data && link_find_control(mesh, session->peer.incarnation) ? DISCOVERY_REASON_NONE
                                                                                      : DISCOVERY_REASON_BUSY;
}

/* Those who are in their hello: how many, how many of them from `ipv4`, and the oldest of each (the list is
 * newest first). */
struct crowd {
    size_t count, from_there;
    struct link *oldest, *oldest_from_there;
};

static struct crowd look_around(const struct mesh *mesh, uint32_t ipv4)
{
    struct crowd crowd = {0};
    for (struct link *link = mesh->links; link; link = link->next) {
        if (link->dialer || link->stage != LINK_HELLO)
            continue;
        crowd.count++;
        crowd.oldest = link;
        if (link->ipv4 == ipv4) {
            crowd.from_there++;
            crowd.oldest_from_there = link;
        }
    }
    return crowd;
}

/* Whoever loses its place hears nothing, or that the connection is closed: reason enough to try again. */
static void make_room(struct mesh *mesh, uint32_t ipv4)
{
    const struct crowd crowd = look_around(mesh, ipv4);
    if (crowd.from_there >= PLACES_AN_ADDRESS)
        link_lost(crowd.oldest_from_there, "its address has all the places that one address may have");
    else if (crowd.count >= DISCOVERY_UNAUTHENTICATED + mesh->options.expected)
        link_lost(crowd.oldest, "its place was needed for a newer connection");
}

static void admit(struct mesh *mesh, int fd, uint32_t ipv4, uint16_t port)
{
    struct mst_error err = MST_ERROR_INIT;
    make_room(mesh, ipv4);
    struct link *link = link_new(mesh, fd, ipv4, port);
    if (!link) {
        discovery_hello_turn_away(fd, DISCOVERY_REASON_FULL);
        mst_closep(&fd);
        return;
    }
    link->stage = LINK_HELLO;
    int r = discovery_hello_listener(&link->hello, mesh->options.self, judge, mesh, ipv4, port, &err);
    if (r == 0)
        r = loop_add(mesh->options.loop, fd, EPOLLIN, link_ready, link, &err);
    if (r < 0)
        link_lost(link, err.text);
}

static void accept_ready(void *context, uint32_t events)
{
    struct listener *listener = context;
    (void)events;
    /* What is left makes the listener readable in the next turn. */
    for (int accepted = 0; accepted < ACCEPTS_A_TURN; accepted++) {
        uint32_t ipv4;
        uint16_t port;
        const int fd = mst_tcp_accept(listener->fd, &ipv4, &port);
        if (fd == -EINTR || fd == -ECONNABORTED)
            continue;
        if (fd == -EAGAIN)
            return;
        if (fd < 0) {
            mst_log_warn("mesh", "cannot accept a connection: %s", strerrordesc_np(-fd));
            loop_rest(listener->mesh->options.loop, listener->fd,
                      LOOP_REST_NS); /* out of descriptors, most likely */
            return;
        }
        admit(listener->mesh, fd, ipv4, port);
    }
}

static int open_one(struct mesh *mesh, uint32_t ipv4, struct mst_error *err)
{
    struct listener *listener = &mesh->listeners[mesh->listener_count];
    listener->mesh = mesh;
    int r = mst_tcp_listen(ipv4, mesh->options.self->identity.port, LISTEN_BACKLOG, &listener->fd, NULL, err);
    if (r < 0)
        return r;
    mesh->listener_count++;
    return loop_add(mesh->options.loop, listener->fd, EPOLLIN, accept_ready, listener, err);
}

int listener_open(struct mesh *mesh, struct mst_error *err)
{
    int r = open_one(mesh, mesh->options.self->identity.ipv4, err);
    for (size_t a = 0; r == 0 && a < mesh->options.also_count && a < MESH_ALSO_MAX; a++) {
        struct mst_error why = MST_ERROR_INIT;
        if (open_one(mesh, mesh->options.also[a], &why) < 0)
            mst_log_info("mesh", "found on one network less: %s", why.text);
    }
    return r;
}

void listener_close(struct mesh *mesh)
{
    for (size_t l = 0; l < mesh->listener_count; l++) {
        loop_remove(mesh->options.loop, mesh->listeners[l].fd);
        mst_closep(&mesh->listeners[l].fd);
    }
}
