/* SPDX-License-Identifier: Apache-2.0 */
#include "membership_private.h"
#include "muster/cleanup.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static struct membership_ballot as_ballot(const struct membership *membership)
{
    const struct outcome *outcome = &membership->outcome;
    struct membership_ballot ballot = {
        .view = membership->number, .count = outcome->place_count, .places = outcome->places};
    memcpy(ballot.lineage, outcome->lineage, sizeof ballot.lineage);
    memcpy(ballot.digest, outcome->digest, sizeof ballot.digest);
    return ballot;
}

static int save_vow(struct membership *membership, const struct membership_vow *vow, struct mst_error *err)
{
    const int r = membership_keep_vow(&membership->kept, vow);
    if (r < 0)
        return mst_error_set(err, r, "keep view %" PRIu64 ": no memory", membership->number);
    if (FAULT(VOW_NOT_SAVED))
        return 0;
    return membership->callbacks.save_vow(membership->callbacks.context, &membership->kept.vow, err);
}

static int take_view(struct membership *membership, uint64_t now_ns, struct mst_error *err)
{
    struct outcome *outcome = &membership->outcome;
    /* Nothing signed before is in doubt any more. */
    const struct membership_vow vow = {.held = as_ballot(membership)};
    const int r = save_vow(membership, &vow, err);
    if (r < 0)
        return r;
    free(membership->members);
    membership->members = outcome->members;
    outcome->members = NULL;
    membership->view = (struct membership_view){
        .view = membership->number, .count = outcome->count, .members = membership->members};
    memcpy(membership->view.lineage, outcome->lineage, sizeof outcome->lineage);
    outcome_release(outcome);
    membership->condition = HOLDING;
    membership->number = 0;
    membership->concluded = membership->is_signed = false;
    membership->retries /= 2; /* a slow network is still one at the next change */
    membership->live = true;
    for (size_t m = 0; m < membership->view.count; m++)
        if (membership->members[m].step > membership->step)
            membership->step = membership->members[m].step;

    if (!membership_find_member(membership, &membership->options.self.id)) {
        /* A witness has nothing to hold. It talks on until a member says that it holds the view, too. */
        membership->condition = TALKING;
        membership->number = membership->view.view;
        membership->concluded = true;
        return 0;
    }
    for (size_t p = 0; p < membership->peer_count; p++) {
        struct peer *peer = membership->peers[p];
        peer->muted = false;
        peer->held = (struct membership_message){0};
        if (peer->up && !membership_find_member(membership, &peer->worker.id))
            membership_tell_hold(membership, peer);
    }
    membership->callbacks.committed(membership->callbacks.context, &membership->view);
    if (membership->leaving)
        membership_ask_to_pause(membership, "this worker leaves", now_ns);
    membership_consider_all(membership, now_ns);
    return 0;
}

bool membership_has_signed(const struct membership *membership, const struct peer *peer)
{
    if (FAULT(FENCE_MISSING) && peer->signed_view > 0)
        return true;
    return peer->signed_view == membership->number &&
           memcmp(peer->signed_digest, membership->outcome.digest, MST_SHA256_BYTES) == 0;
}

int membership_take_view_if_all_signed(struct membership *membership, uint64_t now_ns, struct mst_error *err)
{
    size_t missing = 0;
    if (membership->condition != TALKING || !membership->is_signed)
        return 0;
    for (size_t s = 0; s < membership->outcome.signer_count && missing < 2; s++) {
        const struct membership_id *id = &membership->outcome.signers[s];
        if (membership_is_self(membership, id))
            continue;
        const struct peer *peer = membership_find_peer(membership, id);
        missing += !peer || !membership_has_signed(membership, peer);
    }
    if (missing == 0 || (FAULT(SIGNATURE_TOO_FEW) && missing == 1))
        return take_view(membership, now_ns, err);
    return 0;
}

static bool is_signer(const struct membership *membership, const struct membership_id *id)
{
    for (size_t s = 0; s < membership->outcome.signer_count; s++)
        if (membership_id_equal(&membership->outcome.signers[s], id))
            return true;
    return false;
}

static void add_attempt(struct membership_vow *vow, const struct membership_ballot *attempt)
{
    if (vow->count < MEMBERSHIP_MAX_ATTEMPTS)
        vow->attempts[vow->count] = *attempt;
    vow->count++; /* also beyond: then it does not fit */
}

/* What to keep when the list on the table is signed. What is known to hold comes from whoever knows most. A
 * worker of another lineage keeps its own view and what it tried there until it is in, and beside that all of
 * this one. */
static struct membership_vow next_vow(const struct membership *membership)
{
    const struct outcome *outcome = &membership->outcome;
    const struct membership_vow *own = &membership->kept.vow;
    const struct membership_ballot *base = &outcome->base, ballot = as_ballot(membership);
    struct membership_vow vow = {.held = own->held};
    if (base->view > 0 && own->held.view > 0 &&
        memcmp(own->held.lineage, base->lineage, sizeof base->lineage) != 0)
        add_attempt(&vow, base);
    else if (base->view > 0)
        vow.held = *base;
    for (size_t a = 0; base->view > 0 && a < own->count; a++)
        if (memcmp(own->attempts[a].lineage, base->lineage, sizeof base->lineage) != 0)
            add_attempt(&vow, &own->attempts[a]);
    for (size_t d = 0; d < outcome->doubt_count; d++)
        add_attempt(&vow, &outcome->doubts[d]);
    add_attempt(&vow, &ballot);
    return vow;
}

static int sign(struct membership *membership, uint64_t now_ns, struct mst_error *err)
{
    const struct membership_vow vow = next_vow(membership);
    if (!membership_vow_fits(&vow))
        return 0; /* too much is in doubt already */
    const int r = save_vow(membership, &vow, err);
    if (r < 0)
        return r;
    membership->is_signed = true;
    /* The others' signatures may take as long as their proposals did. */
    membership->retry_ns = now_ns + (MEMBERSHIP_RETRY_NS << membership->retries);
    struct membership_message message = {.kind = MEMBERSHIP_COMMIT, .view = membership->number};
    memcpy(message.digest, membership->outcome.digest, sizeof message.digest);
    membership_send_to_all(membership, &message);
    return 0;
}

static struct outcome_proposal as_proposal(const struct membership *membership,
                                           const struct membership_worker *worker)
{
    if (membership_is_self(membership, &worker->id))
        return (struct outcome_proposal){.worker = *worker,
                                         .leaving = membership->proposed_leaving,
                                         .step = membership->proposed_step,
                                         .vow = &membership->proposed.vow,
                                         .reach = membership->table,
                                         .reach_count = membership->table_count};
    const struct peer *peer = membership_find_peer(membership, &worker->id);
    return (struct outcome_proposal){.worker = *worker,
                                     .leaving = peer->leaving,
                                     .step = peer->step,
                                     .vow = &peer->kept.vow,
                                     .reach = peer->reach,
                                     .reach_count = peer->reach_count};
}

static bool has_all_proposals(const struct membership *membership)
{
    for (size_t t = 0; t < membership->table_count; t++) {
        if (membership_is_self(membership, &membership->table[t].id))
            continue;
        const struct peer *peer = membership_find_peer(membership, &membership->table[t].id);
        const bool counts = peer && (peer->proposed_view == membership->number ||
                                     (FAULT(FENCE_MISSING) && peer->proposed_view > 0));
        if (!counts)
            return false;
    }
    return true;
}

/* All proposals for the number on the table are in: compute the view, and sign it if this worker is in. */
int membership_conclude(struct membership *membership, uint64_t now_ns, struct mst_error *err)
{
    if (membership->condition != TALKING || membership->concluded || !has_all_proposals(membership))
        return 0;
    mst_cleanup(mst_freep) struct outcome_proposal *proposals =
        calloc(membership->table_count, sizeof *proposals);
    if (!proposals)
        return mst_error_set(err, -ENOMEM, "compute a view: no memory");
    for (size_t t = 0; t < membership->table_count; t++)
        proposals[t] = as_proposal(membership, &membership->table[t]);
    const struct outcome_rules rules = {.first = membership->options.first,
                                        .least = membership->options.least,
                                        .most = membership->options.most,
                                        .allow_minority = membership->options.allow_minority};
    outcome_release(&membership->outcome);
    int r = outcome_compute(membership->number, proposals, membership->table_count, &rules,
                            &membership->outcome, err);
    if (r < 0)
        return r;
    membership->concluded = true;
    if (membership->outcome.verdict == OUTCOME_ALL_LEAVE && membership->leaving) {
        membership->callbacks.left(membership->callbacks.context, membership->view.view);
        return 0;
    }
    if (membership->outcome.verdict != OUTCOME_VIEW || !is_signer(membership, &membership->options.self.id))
        return 0;
    r = sign(membership, now_ns, err);
    return r < 0 ? r : membership_take_view_if_all_signed(membership, now_ns, err);
}

void membership_send_proposal(const struct membership *membership, const struct membership_id *only_to)
{
    const struct membership_message message = {.kind = MEMBERSHIP_PROPOSE,
                                               .view = membership->number,
                                               .leaving = membership->proposed_leaving,
                                               .step = membership->proposed_step,
                                               .vow = membership->proposed.vow,
                                               .count = membership->table_count,
                                               .workers = membership->table};
    if (only_to)
        membership->callbacks.send(membership->callbacks.context, only_to, &message);
    else
        membership_send_to_all(membership, &message);
}

/* Whom this worker reaches now, in ascending order of ids. */
static int lay_table(struct membership *membership, struct mst_error *err)
{
    const size_t count = membership_reachable(membership);
    struct membership_worker *table = reallocarray(membership->table, count, sizeof *table);
    if (!table)
        return mst_error_set(err, -ENOMEM, "propose a view: no memory");
    membership->table = table;
    membership->table_count = 0;
    bool placed = false;
    for (size_t p = 0; p < membership->peer_count; p++) {
        const struct peer *peer = membership->peers[p];
        if (!peer->up || peer->muted)
            continue;
        if (!placed && memcmp(peer->worker.id.bytes, membership->options.self.id.bytes,
                              sizeof peer->worker.id.bytes) > 0) {
            table[membership->table_count++] = membership->options.self;
            placed = true;
        }
        table[membership->table_count++] = peer->worker;
    }
    if (!placed)
        table[membership->table_count++] = membership->options.self;
    return 0;
}

/* Put a number on the table: `number`, or the lowest that may still be signed. */
int membership_propose(struct membership *membership, uint64_t number, uint64_t now_ns, struct mst_error *err)
{
    if (number <= membership->last_number)
        number = membership->last_number + (FAULT(LOCK_FORGOTTEN) && membership->last_number > 0 ? 0 : 1);
    int r = lay_table(membership, err);
    if (r < 0)
        return r;
    r = membership_keep_vow(&membership->proposed, &membership->kept.vow);
    if (r < 0)
        return mst_error_set(err, r, "propose a view: no memory");
    membership->proposed_step = membership->step;
    membership->proposed_leaving = membership->leaving;
    if (membership->condition != TALKING)
        membership->talk_began = number;
    membership->condition = TALKING;
    membership->number = number;
    membership->last_number = number;
    membership->concluded = membership->is_signed = false;
    outcome_release(&membership->outcome);
    if (number > membership->highest)
        membership->highest = number;
    /* Longer each time: on a network slower than the first wait no number would ever come through. */
    membership->retry_ns = now_ns + (MEMBERSHIP_RETRY_NS << membership->retries);
    membership_send_proposal(membership, NULL);
    return membership_conclude(membership, now_ns, err);
}

/* ---- when to speak ---- */

/* Is there a view at somebody else's? */
bool membership_any_holds(const struct membership *membership)
{
    for (size_t p = 0; p < membership->peer_count; p++)
        if (membership->peers[p]->up && membership->peers[p]->held.view > 0)
            return true;
    return false;
}

/* Is there a view, or was there one, that goes on with or without us? */
static bool knows_lineage(const struct membership *membership)
{
    if (membership->live || membership_any_holds(membership))
        return true;
    for (size_t p = 0; p < membership->peer_count; p++) {
        const struct peer *peer = membership->peers[p];
        if (peer->up && peer->proposed_view > 0 && peer->kept.vow.held.view > 0)
            return true;
    }
    return false;
}

/* After a restart of everybody: are all there that signed the last view? They need not be waited for. */
static bool all_places_here(const struct membership *membership)
{
    const struct membership_ballot *last = &membership->kept.vow.held;
    for (size_t v = 0; v < last->count; v++) {
        const struct membership_place *place = &last->places[v];
        bool here =
            place->part != MEMBERSHIP_PRESENT ||
            memcmp(place->slot.bytes, membership->options.self.slot.bytes, MEMBERSHIP_SLOT_BYTES) == 0;
        for (size_t p = 0; p < membership->peer_count && !here; p++)
            here = membership->peers[p]->up && memcmp(membership->peers[p]->worker.slot.bytes,
                                                      place->slot.bytes, MEMBERSHIP_SLOT_BYTES) == 0;
        if (!here)
            return false;
    }
    return true;
}

/* Do others count on this worker's slot? Also right after a restart, when it is in no view yet. */
bool membership_has_a_part(const struct membership *membership)
{
    return membership->live || membership_last_signed(&membership->kept.vow) > 0;
}

bool membership_may_speak(const struct membership *membership, uint64_t now_ns)
{
    const size_t count = membership_reachable(membership);
    const bool quiet = now_ns >= membership->quiet_ns;
    if (membership->leaving && (quiet || !membership_has_a_part(membership)))
        return membership_has_a_part(membership);
    if (knows_lineage(membership))
        return true;
    if (membership->kept.vow.held.view > 0)
        return quiet || all_places_here(membership);
    if (count < membership->options.first)
        return false;
    return membership->options.first == membership->options.most || count >= membership->options.most ||
           quiet;
}

int membership_speak_if_due(struct membership *membership, uint64_t now_ns, struct mst_error *err)
{
    if (membership->condition != SILENT || !membership_may_speak(membership, now_ns))
        return 0;
    return membership_propose(membership, membership->highest, now_ns, err);
}

/* The first view needs more than are left: back to waiting. */
int membership_speak_again(struct membership *membership, uint64_t now_ns, struct mst_error *err)
{
    membership->retries = 0;
    if (membership_may_speak(membership, now_ns))
        return membership_propose(membership, membership->highest, now_ns, err);
    membership->condition = SILENT;
    membership->number = 0;
    return 0;
}
