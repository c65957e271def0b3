/* SPDX-License-Identifier: Apache-2.0 */
/* Peers tell each other whom they have met, so that a worker that one of them found is found by all, whatever
 * their own sweeps missed. Told are the addresses to which an authenticated connection stands at the moment,
 * each peer of each once, some at a time; what is told is no more than an address worth a hello, and is never
 * passed on by hearsay. */
#include "mesh_private.h"
#include "muster/big_endian.h"
#include "muster/clock.h"
#include "muster/log.h"

#define TELL_AFTER_NS (100 * MST_NS_PER_MS) /* those who come up together are told of together */
#define TELL_MOST     256U                  /* addresses in one frame */
#define TOLD_MOST     1024U                 /* hosts that are known from peers only */
#define ENTRY_BYTES   6U                    /* IPv4 address, port */

void tell_later(struct mesh *mesh, uint64_t now_ns)
{
    if (mesh->tell_ns == 0)
        mesh->tell_ns = now_ns + TELL_AFTER_NS;
}

static bool may_be_told(const struct mesh *mesh, const struct link *link)
{
    return mesh->options.self->identity.role == DISCOVERY_ROLE_WORKER && link->stage == LINK_CONTROL &&
           !link->fault[0] && link->peer.role == DISCOVERY_ROLE_WORKER &&
           (link->peer.features & DISCOVERY_FEATURE_TELLS);
}

static void send_told(struct link *link, const uint8_t *payload, size_t entries)
{
    struct mst_error err = MST_ERROR_INIT;
    if (entries > 0 && link_send(link, MESH_FRAME_HOSTS, payload, entries * ENTRY_BYTES, &err) < 0)
        mst_log_debug("mesh", "cannot tell a peer of others: %s", err.text);
}

/* Tell one peer of all that came up since it was told last. */
static void tell(struct mesh *mesh, struct link *link)
{
    uint8_t payload[TELL_MOST * ENTRY_BYTES];
    size_t entries = 0;
    for (const struct link *other = mesh->links; other; other = other->next) {
        if (other == link || other->stage != LINK_CONTROL || other->number <= link->told ||
            other->peer.role != DISCOVERY_ROLE_WORKER)
            continue;
        mst_be_put_u32(payload + entries * ENTRY_BYTES, other->peer.ipv4);
        mst_be_put_u16(payload + entries * ENTRY_BYTES + 4, other->peer.port);
        if (++entries == TELL_MOST) {
            send_told(link, payload, entries);
            entries = 0;
        }
    }
    send_told(link, payload, entries);
    link->told = mesh->control_ups;
}

void tell_tick(struct mesh *mesh, uint64_t now_ns)
{
    if (mesh->tell_ns == 0 || now_ns < mesh->tell_ns)
        return;
    mesh->tell_ns = 0;
    for (struct link *link = mesh->links; link; link = link->next)
        if (may_be_told(mesh, link))
            tell(mesh, link);
}

int tell_receive(struct mesh *mesh, uint16_t type, const uint8_t *payload, size_t count,
                 struct mst_error *err)
{
    const struct discovery_identity *self = &mesh->options.self->identity;
    if (type != MESH_FRAME_HOSTS)
        return 0; /* a later version's: nothing that this one needs */
    if (count % ENTRY_BYTES != 0 || count > TELL_MOST * ENTRY_BYTES)
        return mst_error_set(err, -EBADMSG, "a list of hosts of %zu bytes", count);
    for (size_t at = 0; at < count && mesh->hosts_told < TOLD_MOST; at += ENTRY_BYTES) {
        const uint32_t ipv4 = mst_be_get_u32(payload + at);
        const uint16_t port = mst_be_get_u16(payload + at + 4);
        const bool ours = ipv4 == self->ipv4 && port == self->port;
        if (ipv4 == 0 || port == 0 || ours || !mst_cidr_contains(mesh->options.subnet, ipv4) ||
            hosts_find(&mesh->hosts, ipv4, port))
            continue;
        if (mesh_learn(mesh, ipv4, port, NULL) < 0)
            break; /* there are too many already */
        mesh->hosts_told++;
    }
    return 0;
}
