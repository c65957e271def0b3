/* SPDX-License-Identifier: Apache-2.0 */
#include "membership_private.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define RETRIES_MAX 3 /* doublings */
/* A worker that is there but takes no part in so many tries is left out. */
#define MUTE_AFTER_RETRIES 2

bool membership_id_equal(const struct membership_id *a, const struct membership_id *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

struct membership_slot membership_slot_of(const char *name)
{
    struct membership_slot slot = {0};
    uint8_t digest[MST_SHA256_BYTES] = {0};
    struct mst_error err = MST_ERROR_INIT;
    if (mst_sha256(name, strlen(name), digest, &err) < 0)
        abort(); /* libcrypto without SHA-256: nothing works */
    memcpy(slot.bytes, digest, sizeof slot.bytes);
    return slot;
}

void membership_free(struct membership *membership)
{
    if (!membership)
        return;
    for (size_t p = 0; p < membership->peer_count; p++)
        membership_peer_free(membership->peers[p]);
    free(membership->peers);
    free(membership->table);
    outcome_release(&membership->outcome);
    free(membership->kept.places);
    free(membership->proposed.places);
    free(membership->members);
    free(membership);
}

int membership_new(const struct membership_options *options, const struct membership_callbacks *callbacks,
                   struct membership **ret_membership, struct mst_error *err)
{
    if (options->first < 1 || options->first > options->most || options->most > MEMBERSHIP_MAX_WORKERS ||
        options->least < 1 || options->least > options->first)
        return mst_error_set(err, -EINVAL,
                             "%zu to %zu workers, later at least %zu: from 1 to %d are possible",
                             options->first, options->most, options->least, MEMBERSHIP_MAX_WORKERS);
    if (!membership_vow_fits(&options->vow))
        return mst_error_set(err, -EINVAL, "a vow of view %" PRIu64 " and %zu attempts",
                             options->vow.held.view, options->vow.count);
    struct membership *membership = calloc(1, sizeof *membership);
    if (!membership || membership_keep_vow(&membership->kept, &options->vow) < 0) {
        membership_free(membership);
        return mst_error_set(err, -ENOMEM, "make a membership: no memory");
    }
    membership->options = *options;
    membership->options.vow = (struct membership_vow){0}; /* borrowed places; the copy counts */
    if (membership->options.quiet_ns == 0)
        membership->options.quiet_ns = MEMBERSHIP_QUIET_NS;
    membership->callbacks = *callbacks;
    membership->highest = membership_last_signed(&membership->kept.vow);
    membership->last_number = membership->highest;
    *ret_membership = membership;
    return 0;
}

int membership_start(struct membership *membership, uint64_t step, uint64_t now_ns, struct mst_error *err)
{
    membership->step = step;
    membership->quiet_ns = now_ns + membership->options.quiet_ns;
    return membership_speak_if_due(membership, now_ns, err);
}

/* ---- events ---- */

int membership_peer_up(struct membership *membership, const struct membership_worker *worker, uint64_t now_ns,
                       struct mst_error *err)
{
    if (membership_is_self(membership, &worker->id))
        return 0;
    struct peer *peer = membership_find_peer(membership, &worker->id);
    if (!peer)
        peer = membership_add_peer(membership, worker);
    if (!peer)
        return mst_error_set(err, -ENOMEM, "remember a peer: no memory");
    peer->worker = *worker;
    peer->up = true;
    switch (membership->condition) {
    case SILENT:
        membership->quiet_ns = now_ns + membership->options.quiet_ns;
        return membership_speak_if_due(membership, now_ns, err);
    case TALKING:
        /* What is signed may be agreed on already, and what can be a view need not wait for a newcomer. */
        if (membership->concluded && membership->outcome.verdict != OUTCOME_VIEW)
            return membership_speak_again(membership, now_ns, err);
        /* Who wants to join must reach all members: it says so as soon as it does. */
        if (!membership->is_signed && membership_any_holds(membership))
            return membership_propose(membership, membership->highest, now_ns, err);
        membership_send_proposal(membership, &worker->id);
        return 0;
    case HOLDING:
    case STOPPING:
        if (!membership_find_member(membership, &worker->id))
            membership_tell_hold(membership, peer);
        return 0;
    }
    return 0;
}

static bool is_on_table(const struct membership *membership, const struct membership_id *id)
{
    for (size_t t = 0; t < membership->table_count; t++)
        if (membership_id_equal(&membership->table[t].id, id))
            return true;
    return false;
}

int membership_peer_down(struct membership *membership, const struct membership_id *id, uint64_t now_ns,
                         struct mst_error *err)
{
    if (!membership_find_peer(membership, id))
        return 0;
    membership_remove_peer(membership, id);
    if (membership_holds(membership)) {
        if (membership_find_member(membership, id))
            membership_ask_to_stop(membership, true, "a worker is lost", now_ns);
        else
            membership_consider_all(membership, now_ns);
        return 0;
    }
    if (membership->condition != TALKING || !is_on_table(membership, id))
        return 0;
    return membership_speak_again(membership, now_ns, err);
}

int membership_stopped(struct membership *membership, uint64_t step, uint64_t now_ns, struct mst_error *err)
{
    membership->step = step;
    if (!membership_holds(membership))
        return 0;
    return membership_propose(membership, membership->highest, now_ns, err);
}

int membership_leave(struct membership *membership, uint64_t now_ns, struct mst_error *err)
{
    if (membership->leaving)
        return 0;
    membership->leaving = true;
    if (!membership_has_a_part(membership) || (membership->live && membership_reachable(membership) == 1))
        return 1;
    if (membership->condition == HOLDING)
        membership_ask_to_pause(membership, "this worker leaves", now_ns);
    else if (membership->condition == TALKING && !membership->is_signed)
        return membership_speak_again(membership, now_ns, err);
    return 0;
}

/* ---- messages ---- */

/* One that this number needs will not sign it: it has gone on. */
static bool is_given_up(const struct membership *membership)
{
    for (size_t s = 0; s < membership->outcome.signer_count; s++) {
        const struct peer *peer = membership_find_peer(membership, &membership->outcome.signers[s]);
        if (peer && !membership_has_signed(membership, peer) && peer->proposed_view > membership->number)
            return true;
    }
    return false;
}

/* Meet at the highest number instead of chasing each other, unless what is signed may still be agreed on. */
static int follow(struct membership *membership, uint64_t now_ns, struct mst_error *err)
{
    if (membership->highest <= membership->number)
        return membership_conclude(membership, now_ns, err);
    if (membership->is_signed && !is_given_up(membership))
        return 0;
    return membership_propose(membership, membership->highest, now_ns, err);
}

static int check_proposal(const struct membership_message *message, const struct membership_id *from,
                          struct mst_error *err)
{
    bool names_sender = false;
    if (message->count < 1 || message->count > MEMBERSHIP_MAX_WORKERS || !membership_vow_fits(&message->vow))
        return mst_error_set(err, -EPROTO, "a proposal of %zu workers and %zu attempts", message->count,
                             message->vow.count);
    if (membership_last_signed(&message->vow) >= message->view)
        return mst_error_set(err, -EPROTO,
                             "a proposal for view %" PRIu64 " by one that signed %" PRIu64 " already",
                             message->view, membership_last_signed(&message->vow));
    for (size_t w = 0; w < message->count; w++) {
        if (w > 0 &&
            memcmp(message->workers[w - 1].id.bytes, message->workers[w].id.bytes, MEMBERSHIP_ID_BYTES) >= 0)
            return mst_error_set(err, -EPROTO, "a proposal whose workers are not in order");
        names_sender = names_sender || membership_id_equal(&message->workers[w].id, from);
    }
    return names_sender ? 0 : mst_error_set(err, -EPROTO, "a proposal that does not name its sender");
}

static int keep_proposal(struct peer *peer, const struct membership_message *message, struct mst_error *err)
{
    struct membership_worker *reach = calloc(message->count, sizeof *reach);
    if (!reach || membership_keep_vow(&peer->kept, &message->vow) < 0) {
        free(reach);
        return mst_error_set(err, -ENOMEM, "keep a proposal of %zu workers: no memory", message->count);
    }
    memcpy(reach, message->workers, message->count * sizeof *reach);
    free(peer->reach);
    peer->reach = reach;
    peer->reach_count = message->count;
    peer->proposed_view = message->view;
    peer->leaving = message->leaving;
    peer->step = message->step;
    peer->muted = false;
    peer->held = (struct membership_message){0}; /* who proposes holds nothing any more */
    return 0;
}

static int receive_proposal(struct membership *membership, struct peer *peer,
                            const struct membership_message *message, uint64_t now_ns, struct mst_error *err)
{
    int r = check_proposal(message, &peer->worker.id, err);
    if (r < 0)
        return r;
    if (message->view <= peer->proposed_view)
        return 0; /* said before, or overtaken */
    r = keep_proposal(peer, message, err);
    if (r < 0)
        return r;
    if (message->view > membership->highest)
        membership->highest = message->view;
    switch (membership->condition) {
    case SILENT:
        return membership_speak_if_due(membership, now_ns, err);
    case TALKING:
        /* A newcomer is in nobody's way, unless without it there is no view. */
        if (message->view == membership->number && !is_on_table(membership, &peer->worker.id) &&
            membership->concluded && membership->outcome.verdict != OUTCOME_VIEW)
            return membership_speak_again(membership, now_ns, err);
        return follow(membership, now_ns, err);
    case HOLDING:
    case STOPPING:
        if (membership_find_member(membership, &peer->worker.id)) {
            if (message->view > membership->view.view)
                membership_ask_to_stop(membership, false, "a worker asks for another view", now_ns);
        } else if (message->view <= membership->view.view) {
            membership_tell_hold(membership, peer); /* its number has gone by */
        } else if (membership->condition == HOLDING) {
            membership_consider_joining(membership, peer, now_ns);
        }
        return 0;
    }
    return 0;
}

static bool is_of_lineage(const struct membership_vow *vow, const uint8_t *lineage)
{
    bool found = vow->held.view > 0 && memcmp(vow->held.lineage, lineage, MEMBERSHIP_LINEAGE_BYTES) == 0;
    for (size_t a = 0; a < vow->count; a++)
        found = found || memcmp(vow->attempts[a].lineage, lineage, MEMBERSHIP_LINEAGE_BYTES) == 0;
    return found;
}

/* Is there somebody who may need this worker's signature, to go on without it? */
static bool any_of_own_lineage(const struct membership *membership)
{
    for (size_t p = 0; p < membership->peer_count; p++) {
        const struct peer *peer = membership->peers[p];
        const struct membership_vow *vow = &peer->kept.vow;
        bool shared = peer->held.view > 0
                          ? is_of_lineage(&membership->kept.vow, peer->held.lineage)
                          : vow->held.view > 0 && is_of_lineage(&membership->kept.vow, vow->held.lineage);
        for (size_t a = 0; peer->held.view == 0 && a < vow->count; a++)
            shared = shared || is_of_lineage(&membership->kept.vow, vow->attempts[a].lineage);
        if (peer->up && !peer->leaving && shared)
            return true;
    }
    return false;
}

/* Others run a view without this worker, which wants to leave: is that the end of it? In another lineage,
 * they know nothing of those that were left behind with this one. */
static bool may_go(const struct membership *membership, const struct membership_message *hold)
{
    if (!membership->leaving || membership->condition == SILENT)
        return false;
    if (is_of_lineage(&membership->kept.vow, hold->lineage))
        return hold->view > membership->view.view ||
               (hold->view == membership->view.view &&
                !membership_find_member(membership, &membership->options.self.id));
    return membership->condition == TALKING && !any_of_own_lineage(membership);
}

/* Each of two workers that hold views without the other decides this from the same two messages, and one of
 * them yields. Equal numbers of one lineage there are only where a minority was allowed to go on. */
static bool yields_to(const struct membership *membership, const struct peer *peer)
{
    const uint64_t own = membership->view.view;
    const bool same = memcmp(peer->held.lineage, membership->view.lineage, MEMBERSHIP_LINEAGE_BYTES) == 0;
    if (FAULT(LINEAGE_DROPPED) || (same && peer->held.view != own))
        return peer->held.view > own;
    if (membership_hold_is_further(&peer->held, &peer->told))
        return true;
    return same && !membership_hold_is_further(&peer->told, &peer->held) &&
           memcmp(peer->worker.id.bytes, membership->options.self.id.bytes, MEMBERSHIP_ID_BYTES) < 0;
}

static int receive_hold(struct membership *membership, struct peer *peer,
                        const struct membership_message *message, uint64_t now_ns, struct mst_error *err)
{
    peer->held = (struct membership_message){
        .kind = MEMBERSHIP_HOLD, .view = message->view, .step = message->step, .size = message->size};
    memcpy(peer->held.lineage, message->lineage, sizeof message->lineage);
    if (message->view > membership->highest)
        membership->highest = message->view;
    if (may_go(membership, message)) {
        membership->callbacks.left(membership->callbacks.context, message->view);
        return 0;
    }
    if (membership->condition == SILENT)
        return membership_speak_if_due(membership, now_ns, err);
    /* The others have agreed without us, or came to this number before: ask to be let in. */
    if (membership->condition == TALKING &&
        (message->view >= membership->number || (membership->concluded && !membership->is_signed)))
        return membership_propose(membership, membership->highest, now_ns, err);
    if (membership->condition != HOLDING || membership_find_member(membership, &peer->worker.id))
        return 0;
    if (yields_to(membership, peer))
        membership_ask_to_stop(membership, true, "the job goes on in a view without this worker", now_ns);
    return 0;
}

int membership_receive(struct membership *membership, const struct membership_id *from,
                       const struct membership_message *message, uint64_t now_ns, struct mst_error *err)
{
    struct peer *peer = membership_find_peer(membership, from);
    if (!peer || !peer->up)
        return mst_error_set(err, -EPROTO, "a membership message from a peer that is not up");
    if (message->view == 0 || message->view > MEMBERSHIP_VIEW_MAX)
        return mst_error_set(err, -EPROTO, "a membership message for view %" PRIu64, message->view);
    switch (message->kind) {
    case MEMBERSHIP_PROPOSE:
        return receive_proposal(membership, peer, message, now_ns, err);
    case MEMBERSHIP_COMMIT:
        peer->signed_view = message->view;
        memcpy(peer->signed_digest, message->digest, sizeof peer->signed_digest);
        return membership_take_view_if_all_signed(membership, now_ns, err);
    case MEMBERSHIP_HOLD:
        return receive_hold(membership, peer, message, now_ns, err);
    }
    return mst_error_set(err, -EPROTO, "a membership message of kind %d", (int)message->kind);
}

/* ---- time ---- */

uint64_t membership_deadline_ns(const struct membership *membership)
{
    switch (membership->condition) {
    case SILENT:
        /* Once quiet, only an event can change what is missing. */
        return membership_may_speak(membership, membership->quiet_ns) ? membership->quiet_ns : UINT64_MAX;
    case TALKING:
        return membership->retry_ns;
    case STOPPING:
        return membership->hurry_ns > 0 ? membership->hurry_ns : UINT64_MAX;
    case HOLDING:
        break;
    }
    return UINT64_MAX;
}

/* Who is there but says nothing, try after try, is not waited for; unless it runs a view, and we wait to be
 * let in. */
static void mute_silent_peers(struct membership *membership)
{
    for (size_t p = 0; p < membership->peer_count; p++) {
        struct peer *peer = membership->peers[p];
        if (peer->up && peer->held.view == 0 && peer->proposed_view < membership->talk_began)
            peer->muted = true;
    }
}

int membership_tick(struct membership *membership, uint64_t now_ns, struct mst_error *err)
{
    if (now_ns < membership_deadline_ns(membership))
        return 0;
    switch (membership->condition) {
    case SILENT:
        return membership_speak_if_due(membership, now_ns, err);
    case TALKING:
        if (membership->retries < RETRIES_MAX)
            membership->retries++;
        if (membership->retries >= MUTE_AFTER_RETRIES)
            mute_silent_peers(membership);
        return membership_propose(membership, membership->highest, now_ns, err);
    case STOPPING:
        membership_ask_to_stop(membership, true, "a worker asks for another view", now_ns);
        return 0;
    case HOLDING:
        break;
    }
    return 0;
}

/* ---- for others to see ---- */

struct membership_view membership_view(const struct membership *membership)
{
    return membership->condition == HOLDING ? membership->view : (struct membership_view){0};
}

struct membership_wait membership_waits_for(const struct membership *membership)
{
    struct membership_wait wait = {.have = membership_reachable(membership),
                                   .want = membership->kept.vow.held.view > 0 || membership->live
                                               ? membership->options.least
                                               : membership->options.first,
                                   .last_view = membership_last_signed(&membership->kept.vow)};
    if (membership->condition == TALKING && membership->concluded &&
        membership->outcome.verdict == OUTCOME_NO_QUORUM) {
        wait.quorum = true;
        wait.have = membership->outcome.have;
        wait.want = membership->outcome.want;
        wait.last_view = membership->outcome.last_view;
    }
    return wait;
}
