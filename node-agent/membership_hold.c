/* SPDX-License-Identifier: Apache-2.0 */
#include "membership_private.h"

#include <string.h>

/* Someone left the view for a reason that this worker may not know of: so long the step under way may take to
 * end by itself. */
#define STOP_PATIENCE_NS 300000000ULL

void membership_tell_hold(struct membership *membership, struct peer *peer)
{
    struct membership_message message = {.kind = MEMBERSHIP_HOLD,
                                         .view = membership->view.view,
                                         .step = membership->step,
                                         .size = membership->view.count};
    memcpy(message.lineage, membership->view.lineage, sizeof message.lineage);
    peer->told = message;
    membership->callbacks.send(membership->callbacks.context, &peer->worker.id, &message);
}

/* Is the view told in `a` further than the one in `b`? Never true both ways round. */
bool membership_hold_is_further(const struct membership_message *a, const struct membership_message *b)
{
    if (a->view != b->view)
        return a->view > b->view;
    if (a->step != b->step)
        return a->step > b->step;
    if (a->size != b->size)
        return a->size > b->size;
    return memcmp(a->lineage, b->lineage, sizeof a->lineage) < 0;
}

void membership_ask_to_stop(struct membership *membership, bool at_once, const char *reason, uint64_t now_ns)
{
    const bool was_holding = membership->condition == HOLDING;
    if (!was_holding && (!at_once || membership->hurry_ns == 0))
        return; /* asked already */
    membership->condition = STOPPING;
    membership->hurry_ns = at_once ? 0 : now_ns + STOP_PATIENCE_NS;
    membership->callbacks.stop(membership->callbacks.context, at_once, reason);
}

/* A planned stop without a limit: the others may be in the middle of a long step. */
void membership_ask_to_pause(struct membership *membership, const char *reason, uint64_t now_ns)
{
    if (membership->condition != HOLDING)
        return;
    membership_ask_to_stop(membership, false, reason, now_ns);
    membership->hurry_ns = UINT64_MAX;
}

static bool reaches(const struct peer *peer, const struct membership_id *id)
{
    size_t low = 0, high = peer->reach_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = memcmp(peer->reach[middle].id.bytes, id->bytes, sizeof id->bytes);
        if (order == 0)
            return true;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

static bool is_going(const struct membership *membership, const struct membership_worker *worker)
{
    if (membership_is_self(membership, &worker->id))
        return membership->leaving;
    const struct peer *peer = membership_find_peer(membership, &worker->id);
    return !peer || !peer->up || (peer->proposed_view > membership->view.view && peer->leaving);
}

/* Somebody who is not in the view has proposed a number: it wants to be in. It is let in when it reaches all
 * the members and there is a place. */
void membership_consider_joining(struct membership *membership, struct peer *peer, uint64_t now_ns)
{
    size_t staying = 0;
    if (peer->leaving)
        membership_tell_hold(membership, peer); /* it waits for this to go */
    if (peer->leaving || peer->proposed_view == 0)
        return;
    for (size_t m = 0; m < membership->view.count; m++) {
        const struct membership_worker *member = &membership->members[m].worker;
        if (is_going(membership, member))
            continue;
        staying++;
        if (memcmp(member->slot.bytes, peer->worker.slot.bytes, sizeof member->slot.bytes) == 0) {
            membership->callbacks.refuse(membership->callbacks.context, &peer->worker.id, false);
            return;
        }
        if (!reaches(peer, &member->id))
            return; /* it is about to, or never will: it says so when it does */
    }
    if (staying >= membership->options.most)
        membership->callbacks.refuse(membership->callbacks.context, &peer->worker.id, true);
    else
        membership_ask_to_pause(membership, "a worker joins", now_ns);
}

void membership_consider_all(struct membership *membership, uint64_t now_ns)
{
    for (size_t p = 0; p < membership->peer_count && membership->condition == HOLDING; p++) {
        struct peer *peer = membership->peers[p];
        if (peer->up && !membership_find_member(membership, &peer->worker.id))
            membership_consider_joining(membership, peer, now_ns);
    }
}
