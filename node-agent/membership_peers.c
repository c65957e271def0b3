/* SPDX-License-Identifier: Apache-2.0 */
#include "membership_private.h"

#include <stdlib.h>
#include <string.h>

void membership_peer_free(struct peer *peer)
{
    free(peer->kept.places);
    free(peer->reach);
    free(peer);
}

/* Where a worker of this id stands, or would. */
static size_t peer_index(const struct membership *membership, const struct membership_id *id)
{
    size_t low = 0, high = membership->peer_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (memcmp(membership->peers[middle]->worker.id.bytes, id->bytes, sizeof id->bytes) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct peer *membership_find_peer(const struct membership *membership, const struct membership_id *id)
{
    const size_t at = peer_index(membership, id);
    return at < membership->peer_count && membership_id_equal(&membership->peers[at]->worker.id, id)
               ? membership->peers[at]
               : NULL;
}

struct peer *membership_add_peer(struct membership *membership, const struct membership_worker *worker)
{
    if (membership->peer_count == membership->peer_capacity) {
        const size_t capacity = membership->peer_capacity ? 2 * membership->peer_capacity : 8;
        struct peer **peers = reallocarray(membership->peers, capacity, sizeof *peers);
        if (!peers)
            return NULL;
        membership->peers = peers;
        membership->peer_capacity = capacity;
    }
    struct peer *peer = calloc(1, sizeof *peer);
    if (!peer)
        return NULL;
    const size_t at = peer_index(membership, &worker->id);
    memmove(membership->peers + at + 1, membership->peers + at,
            (membership->peer_count - at) * sizeof *membership->peers);
    membership->peers[at] = peer;
    membership->peer_count++;
    return peer;
}

/* A worker that is gone does not come back under the same id, unless it was only cut off: what it said then
 * does not count any more. */
void membership_remove_peer(struct membership *membership, const struct membership_id *id)
{
    const size_t at = peer_index(membership, id);
    membership_peer_free(membership->peers[at]);
    membership->peer_count--;
    memmove(membership->peers + at, membership->peers + at + 1,
            (membership->peer_count - at) * sizeof *membership->peers);
}

bool membership_is_self(const struct membership *membership, const struct membership_id *id)
{
    return membership_id_equal(&membership->options.self.id, id);
}

const struct membership_member *membership_find_member(const struct membership *membership,
                                                       const struct membership_id *id)
{
    for (size_t m = 0; m < membership->view.count; m++)
        if (membership_id_equal(&membership->members[m].worker.id, id))
            return &membership->members[m];
    return NULL;
}

bool membership_holds(const struct membership *membership)
{
    return membership->condition == HOLDING || membership->condition == STOPPING;
}

size_t membership_reachable(const struct membership *membership)
{
    size_t count = 1;
    for (size_t p = 0; p < membership->peer_count; p++)
        count += membership->peers[p]->up && !membership->peers[p]->muted;
    return count;
}

void membership_send_to_all(const struct membership *membership, const struct membership_message *message)
{
    for (size_t p = 0; p < membership->peer_count; p++)
        if (membership->peers[p]->up)
            membership->callbacks.send(membership->callbacks.context, &membership->peers[p]->worker.id,
                                       message);
}
