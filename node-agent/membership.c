/* SPDX-License-Identifier: Apache-2.0 */
/* The state machine is in one of four conditions:
 *
 *     silent     no view, nothing proposed: too few workers are known, or they may still be coming
 *     talking    a number is on the table: proposals for it are sent and awaited, then signatures
 *     holding    a view holds, the job runs
 *     stopping   a view holds, but the job was told to stop; talking follows
 */
#include "membership.h"

#include "membership_fault.h"
#include "membership_outcome.h"
#include "muster/cleanup.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define RETRIES_MAX 3                /* doublings */
#define VIEW_MAX    (UINT64_MAX / 2) /* far beyond what is ever tried, and numbers are added to */
/* Someone left the view for a reason that this worker may not know of: so long the step under way may take to
 * end by itself. */
#define STOP_PATIENCE_NS 300000000ULL
/* A worker that is there but takes no part in so many tries is left out. */
#define MUTE_AFTER_RETRIES 2

/* A vow with its own places. */
struct kept_vow {
    struct membership_vow vow;
    struct membership_place *places; /* owned: vow.places */
};

/* What a peer says of itself, kept as long as the connection stands. */
struct peer {
    struct membership_worker worker;
    bool up;
    bool muted;

    uint64_t proposed_view; /* 0: nothing */
    bool leaving;
    uint64_t step;
    struct kept_vow kept;
    struct membership_worker *reach; /* owned */
    size_t reach_count;

    uint64_t signed_view; /* a signature counts for the number that it names and no other */
    uint8_t signed_digest[MST_SHA256_BYTES];

    struct membership_message held; /* its HOLD, view 0: none that stands; no pointers in use */
    struct membership_message told; /* ours to it: both sides compare the same two */
};

enum condition { SILENT, TALKING, HOLDING, STOPPING };

struct membership {
    struct membership_options options;
    struct membership_callbacks callbacks;
    enum condition condition;
    bool leaving;
    bool live; /* was in a view since the start */
    uint64_t step;

    struct peer **peers; /* owned, in ascending order of ids */
    size_t peer_count, peer_capacity;

    /* TALKING */
    uint64_t number;
    struct membership_worker
        *table; /* owned: whom this number's proposal names as reached, itself included */
    size_t table_count;
    struct outcome outcome; /* verdict is what it came to, once `concluded` */
    bool concluded, is_signed;
    uint64_t talk_began; /* the first number of these talks */
    uint64_t retry_ns;
    unsigned retries;

    uint64_t quiet_ns;    /* SILENT: when nobody new has come for long enough */
    uint64_t hurry_ns;    /* STOPPING: when to insist; 0: insisted already */
    uint64_t highest;     /* number seen anywhere */
    uint64_t last_number; /* proposed here: never one below it is signed */

    struct kept_vow kept; /* signed last */
    /* What was said with the number on the table, which stands. */
    struct kept_vow proposed;
    uint64_t proposed_step;
    bool proposed_leaving;

    struct membership_view view;
    struct membership_member *members; /* owned: view.members */
};

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

/* ---- memory ---- */

/* Copy one ballot's places to `*next`, and move that on. */
static struct membership_ballot copy_ballot(const struct membership_ballot *ballot,
                                            struct membership_place **next)
{
    struct membership_ballot copy = *ballot;
    if (ballot->count > 0)
        memcpy(*next, ballot->places, ballot->count * sizeof **next);
    copy.places = *next;
    *next += ballot->count;
    return copy;
}

/* `vow` may point into what is kept already. */
static int keep_vow(struct kept_vow *kept, const struct membership_vow *vow)
{
    size_t count = vow->held.count;
    for (size_t a = 0; a < vow->count; a++)
        count += vow->attempts[a].count;
    struct membership_place *places = calloc(count > 0 ? count : 1, sizeof *places), *next = places;
    if (!places)
        return -ENOMEM;
    struct membership_vow copy = {.count = vow->count};
    copy.held = copy_ballot(&vow->held, &next);
    for (size_t a = 0; a < vow->count; a++)
        copy.attempts[a] = copy_ballot(&vow->attempts[a], &next);
    free(kept->places);
    kept->places = places;
    kept->vow = copy;
    return 0;
}

/* The highest number in it; 0: nothing was ever signed. */
static uint64_t last_signed(const struct membership_vow *vow)
{
    uint64_t view = vow->held.view;
    for (size_t a = 0; a < vow->count; a++)
        if (vow->attempts[a].view > view)
            view = vow->attempts[a].view;
    return view;
}

static bool vow_fits(const struct membership_vow *vow)
{
    size_t places = vow->held.count;
    if (vow->count > MEMBERSHIP_MAX_ATTEMPTS || vow->held.count > MEMBERSHIP_MAX_PLACES)
        return false;
    for (size_t a = 0; a < vow->count; a++) {
        if (vow->attempts[a].count > MEMBERSHIP_MAX_PLACES)
            return false;
        places += vow->attempts[a].count;
    }
    return places <= MEMBERSHIP_MAX_VOW && last_signed(vow) <= VIEW_MAX;
}

static void peer_free(struct peer *peer)
{
    free(peer->kept.places);
    free(peer->reach);
    free(peer);
}

void membership_free(struct membership *membership)
{
    if (!membership)
        return;
    for (size_t p = 0; p < membership->peer_count; p++)
        peer_free(membership->peers[p]);
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
    if (!vow_fits(&options->vow))
        return mst_error_set(err, -EINVAL, "a vow of view %" PRIu64 " and %zu attempts",
                             options->vow.held.view, options->vow.count);
    struct membership *membership = calloc(1, sizeof *membership);
    if (!membership || keep_vow(&membership->kept, &options->vow) < 0) {
        membership_free(membership);
        return mst_error_set(err, -ENOMEM, "make a membership: no memory");
    }
    membership->options = *options;
    membership->options.vow = (struct membership_vow){0}; /* borrowed places; the copy counts */
    if (membership->options.quiet_ns == 0)
        membership->options.quiet_ns = MEMBERSHIP_QUIET_NS;
    membership->callbacks = *callbacks;
    membership->highest = last_signed(&membership->kept.vow);
    membership->last_number = membership->highest;
    *ret_membership = membership;
    return 0;
}

/* ---- peers ---- */

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

static struct peer *find_peer(const struct membership *membership, const struct membership_id *id)
{
    const size_t at = peer_index(membership, id);
    return at < membership->peer_count && membership_id_equal(&membership->peers[at]->worker.id, id)
               ? membership->peers[at]
               : NULL;
}

static struct peer *add_peer(struct membership *membership, const struct membership_worker *worker)
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
static void remove_peer(struct membership *membership, const struct membership_id *id)
{
    const size_t at = peer_index(membership, id);
    peer_free(membership->peers[at]);
    membership->peer_count--;
    memmove(membership->peers + at, membership->peers + at + 1,
            (membership->peer_count - at) * sizeof *membership->peers);
}

static bool is_self(const struct membership *membership, const struct membership_id *id)
{
    return membership_id_equal(&membership->options.self.id, id);
}

static const struct membership_member *find_member(const struct membership *membership,
                                                   const struct membership_id *id)
{
    for (size_t m = 0; m < membership->view.count; m++)
        if (membership_id_equal(&membership->members[m].worker.id, id))
            return &membership->members[m];
    return NULL;
}

static bool holds(const struct membership *membership)
{
    return membership->condition == HOLDING || membership->condition == STOPPING;
}

static size_t reachable(const struct membership *membership)
{
    size_t count = 1;
    for (size_t p = 0; p < membership->peer_count; p++)
        count += membership->peers[p]->up && !membership->peers[p]->muted;
    return count;
}

static void send_to_all(const struct membership *membership, const struct membership_message *message)
{
    for (size_t p = 0; p < membership->peer_count; p++)
        if (membership->peers[p]->up)
            membership->callbacks.send(membership->callbacks.context, &membership->peers[p]->worker.id,
                                       message);
}

/* ---- holding a view ---- */

static void tell_hold(struct membership *membership, struct peer *peer)
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
static bool hold_is_further(const struct membership_message *a, const struct membership_message *b)
{
    if (a->view != b->view)
        return a->view > b->view;
    if (a->step != b->step)
        return a->step > b->step;
    if (a->size != b->size)
        return a->size > b->size;
    return memcmp(a->lineage, b->lineage, sizeof a->lineage) < 0;
}

static void ask_to_stop(struct membership *membership, bool at_once, const char *reason, uint64_t now_ns)
{
    const bool was_holding = membership->condition == HOLDING;
    if (!was_holding && (!at_once || membership->hurry_ns == 0))
        return; /* asked already */
    membership->condition = STOPPING;
    membership->hurry_ns = at_once ? 0 : now_ns + STOP_PATIENCE_NS;
    membership->callbacks.stop(membership->callbacks.context, at_once, reason);
}

/* A planned stop without a limit: the others may be in the middle of a long step. */
static void ask_to_pause(struct membership *membership, const char *reason, uint64_t now_ns)
{
    if (membership->condition != HOLDING)
        return;
    ask_to_stop(membership, false, reason, now_ns);
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
    if (is_self(membership, &worker->id))
        return membership->leaving;
    const struct peer *peer = find_peer(membership, &worker->id);
    return !peer || !peer->up || (peer->proposed_view > membership->view.view && peer->leaving);
}

/* Somebody who is not in the view has proposed a number: it wants to be in. It is let in when it reaches all
 * the members and there is a place. */
static void consider_joining(struct membership *membership, struct peer *peer, uint64_t now_ns)
{
    size_t staying = 0;
    if (peer->leaving)
        tell_hold(membership, peer); /* it waits for this to go */
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
        ask_to_pause(membership, "a worker joins", now_ns);
}

static void consider_all(struct membership *membership, uint64_t now_ns)
{
    for (size_t p = 0; p < membership->peer_count && membership->condition == HOLDING; p++) {
        struct peer *peer = membership->peers[p];
        if (peer->up && !find_member(membership, &peer->worker.id))
            consider_joining(membership, peer, now_ns);
    }
}

/* ---- talking ---- */

static struct membership_ballot as_ballot(const struct membership *membership)
{
    const struct outcome *outcome = &membership->outcome;
    struct membership_ballot ballot = {
        .view = membership->number, .count = outcome->place_count, .places = outcome->places};
    memcpy(ballot.lineage, outcome->lineage, sizeof ballot.lineage);
    memcpy(ballot.digest, outcome->digest, sizeof ballot.digest);
    return ballot;
}

static bool save_vow(struct membership *membership, const struct membership_vow *vow, int *ret_error,
                     struct mst_error *err)
{
    int r = keep_vow(&membership->kept, vow);
    if (r < 0)
        (void)mst_error_set(err, r, "keep view %" PRIu64 ": no memory", membership->number);
    else if (!FAULT(VOW_NOT_SAVED))
        r = membership->callbacks.save_vow(membership->callbacks.context, &membership->kept.vow, err);
    *ret_error = r;
    return r == 0;
}

/* The view holds: nothing signed before is in doubt any more. */
static int vow_to_view(struct membership *membership, struct mst_error *err)
{
    const struct membership_vow vow = {.held = as_ballot(membership)};
    int r;
    (void)save_vow(membership, &vow, &r, err);
    return r;
}

static int take_view(struct membership *membership, uint64_t now_ns, struct mst_error *err)
{
    struct outcome *outcome = &membership->outcome;
    const int r = vow_to_view(membership, err);
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

    if (!find_member(membership, &membership->options.self.id)) {
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
        if (peer->up && !find_member(membership, &peer->worker.id))
            tell_hold(membership, peer);
    }
    membership->callbacks.committed(membership->callbacks.context, &membership->view);
    if (membership->leaving)
        ask_to_pause(membership, "this worker leaves", now_ns);
    consider_all(membership, now_ns);
    return 0;
}

static bool has_signed(const struct membership *membership, const struct peer *peer)
{
    if (FAULT(FENCE_MISSING) && peer->signed_view > 0)
        return true;
    return peer->signed_view == membership->number &&
           memcmp(peer->signed_digest, membership->outcome.digest, MST_SHA256_BYTES) == 0;
}

static int take_view_if_all_signed(struct membership *membership, uint64_t now_ns, struct mst_error *err)
{
    size_t missing = 0;
    if (membership->condition != TALKING || !membership->is_signed)
        return 0;
    for (size_t s = 0; s < membership->outcome.signer_count && missing < 2; s++) {
        const struct membership_id *id = &membership->outcome.signers[s];
        if (is_self(membership, id))
            continue;
        const struct peer *peer = find_peer(membership, id);
        missing += !peer || !has_signed(membership, peer);
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
    int r;
    if (!vow_fits(&vow))
        return 0; /* too much is in doubt already */
    if (!save_vow(membership, &vow, &r, err))
        return r;
    membership->is_signed = true;
    /* The others' signatures may take as long as their proposals did. */
    membership->retry_ns = now_ns + (MEMBERSHIP_RETRY_NS << membership->retries);
    struct membership_message message = {.kind = MEMBERSHIP_COMMIT, .view = membership->number};
    memcpy(message.digest, membership->outcome.digest, sizeof message.digest);
    send_to_all(membership, &message);
    return 0;
}

static struct outcome_proposal as_proposal(const struct membership *membership,
                                           const struct membership_worker *worker)
{
    if (is_self(membership, &worker->id))
        return (struct outcome_proposal){.worker = *worker,
                                         .leaving = membership->proposed_leaving,
                                         .step = membership->proposed_step,
                                         .vow = &membership->proposed.vow,
                                         .reach = membership->table,
                                         .reach_count = membership->table_count};
    const struct peer *peer = find_peer(membership, &worker->id);
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
        if (is_self(membership, &membership->table[t].id))
            continue;
        const struct peer *peer = find_peer(membership, &membership->table[t].id);
        const bool counts = peer && (peer->proposed_view == membership->number ||
                                     (FAULT(FENCE_MISSING) && peer->proposed_view > 0));
        if (!counts)
            return false;
    }
    return true;
}

/* All proposals for the number on the table are in: compute the view, and sign it if this worker is in. */
static int conclude(struct membership *membership, uint64_t now_ns, struct mst_error *err)
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
    return r < 0 ? r : take_view_if_all_signed(membership, now_ns, err);
}

static void send_proposal(const struct membership *membership, const struct membership_id *only_to)
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
        send_to_all(membership, &message);
}

/* Whom this worker reaches now, in ascending order of ids. */
static int lay_table(struct membership *membership, struct mst_error *err)
{
    const size_t count = reachable(membership);
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
static int propose(struct membership *membership, uint64_t number, uint64_t now_ns, struct mst_error *err)
{
    if (number <= membership->last_number)
        number = membership->last_number + (FAULT(LOCK_FORGOTTEN) && membership->last_number > 0 ? 0 : 1);
    int r = lay_table(membership, err);
    if (r < 0)
        return r;
    r = keep_vow(&membership->proposed, &membership->kept.vow);
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
    send_proposal(membership, NULL);
    return conclude(membership, now_ns, err);
}

/* ---- when to speak ---- */

/* Is there a view at somebody else's? */
static bool any_holds(const struct membership *membership)
{
    for (size_t p = 0; p < membership->peer_count; p++)
        if (membership->peers[p]->up && membership->peers[p]->held.view > 0)
            return true;
    return false;
}

/* Is there a view, or was there one, that goes on with or without us? */
static bool knows_lineage(const struct membership *membership)
{
    if (membership->live || any_holds(membership))
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
static bool has_a_part(const struct membership *membership)
{
    return membership->live || last_signed(&membership->kept.vow) > 0;
}

static bool may_speak(const struct membership *membership, uint64_t now_ns)
{
    const size_t count = reachable(membership);
    const bool quiet = now_ns >= membership->quiet_ns;
    if (membership->leaving && (quiet || !has_a_part(membership)))
        return has_a_part(membership);
    if (knows_lineage(membership))
        return true;
    if (membership->kept.vow.held.view > 0)
        return quiet || all_places_here(membership);
    if (count < membership->options.first)
        return false;
    return membership->options.first == membership->options.most || count >= membership->options.most ||
           quiet;
}

static int speak_if_due(struct membership *membership, uint64_t now_ns, struct mst_error *err)
{
    if (membership->condition != SILENT || !may_speak(membership, now_ns))
        return 0;
    return propose(membership, membership->highest, now_ns, err);
}

/* The first view needs more than are left: back to waiting. */
static int speak_again(struct membership *membership, uint64_t now_ns, struct mst_error *err)
{
    membership->retries = 0;
    if (may_speak(membership, now_ns))
        return propose(membership, membership->highest, now_ns, err);
    membership->condition = SILENT;
    membership->number = 0;
    return 0;
}

int membership_start(struct membership *membership, uint64_t step, uint64_t now_ns, struct mst_error *err)
{
    membership->step = step;
    membership->quiet_ns = now_ns + membership->options.quiet_ns;
    return speak_if_due(membership, now_ns, err);
}

/* ---- events ---- */

int membership_peer_up(struct membership *membership, const struct membership_worker *worker, uint64_t now_ns,
                       struct mst_error *err)
{
    if (is_self(membership, &worker->id))
        return 0;
    struct peer *peer = find_peer(membership, &worker->id);
    if (!peer)
        peer = add_peer(membership, worker);
    if (!peer)
        return mst_error_set(err, -ENOMEM, "remember a peer: no memory");
    peer->worker = *worker;
    peer->up = true;
    switch (membership->condition) {
    case SILENT:
        membership->quiet_ns = now_ns + membership->options.quiet_ns;
        return speak_if_due(membership, now_ns, err);
    case TALKING:
        /* What is signed may be agreed on already, and what can be a view need not wait for a newcomer. */
        if (membership->concluded && membership->outcome.verdict != OUTCOME_VIEW)
            return speak_again(membership, now_ns, err);
        /* Who wants to join must reach all members: it says so as soon as it does. */
        if (!membership->is_signed && any_holds(membership))
            return propose(membership, membership->highest, now_ns, err);
        send_proposal(membership, &worker->id);
        return 0;
    case HOLDING:
    case STOPPING:
        if (!find_member(membership, &worker->id))
            tell_hold(membership, peer);
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
    if (!find_peer(membership, id))
        return 0;
    remove_peer(membership, id);
    if (holds(membership)) {
        if (find_member(membership, id))
            ask_to_stop(membership, true, "a worker is lost", now_ns);
        else
            consider_all(membership, now_ns);
        return 0;
    }
    if (membership->condition != TALKING || !is_on_table(membership, id))
        return 0;
    return speak_again(membership, now_ns, err);
}

int membership_stopped(struct membership *membership, uint64_t step, uint64_t now_ns, struct mst_error *err)
{
    membership->step = step;
    if (!holds(membership))
        return 0;
    return propose(membership, membership->highest, now_ns, err);
}

int membership_leave(struct membership *membership, uint64_t now_ns, struct mst_error *err)
{
    if (membership->leaving)
        return 0;
    membership->leaving = true;
    if (!has_a_part(membership) || (membership->live && reachable(membership) == 1))
        return 1;
    if (membership->condition == HOLDING)
        ask_to_pause(membership, "this worker leaves", now_ns);
    else if (membership->condition == TALKING && !membership->is_signed)
        return speak_again(membership, now_ns, err);
    return 0;
}

/* ---- messages ---- */

/* One that this number needs will not sign it: it has gone on. */
static bool is_given_up(const struct membership *membership)
{
    for (size_t s = 0; s < membership->outcome.signer_count; s++) {
        const struct peer *peer = find_peer(membership, &membership->outcome.signers[s]);
        if (peer && !has_signed(membership, peer) && peer->proposed_view > membership->number)
            return true;
    }
    return false;
}

/* Meet at the highest number instead of chasing each other, unless what is signed may still be agreed on. */
static int follow(struct membership *membership, uint64_t now_ns, struct mst_error *err)
{
    if (membership->highest <= membership->number)
        return conclude(membership, now_ns, err);
    if (membership->is_signed && !is_given_up(membership))
        return 0;
    return propose(membership, membership->highest, now_ns, err);
}

static int check_proposal(const struct membership_message *message, const struct membership_id *from,
                          struct mst_error *err)
{
    bool names_sender = false;
    if (message->count < 1 || message->count > MEMBERSHIP_MAX_WORKERS || !vow_fits(&message->vow))
        return mst_error_set(err, -EPROTO, "a proposal of %zu workers and %zu attempts", message->count,
                             message->vow.count);
    if (last_signed(&message->vow) >= message->view)
        return mst_error_set(err, -EPROTO,
                             "a proposal for view %" PRIu64 " by one that signed %" PRIu64 " already",
                             message->view, last_signed(&message->vow));
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
    if (!reach || keep_vow(&peer->kept, &message->vow) < 0) {
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
        return speak_if_due(membership, now_ns, err);
    case TALKING:
        /* A newcomer is in nobody's way, unless without it there is no view. */
        if (message->view == membership->number && !is_on_table(membership, &peer->worker.id) &&
            membership->concluded && membership->outcome.verdict != OUTCOME_VIEW)
            return speak_again(membership, now_ns, err);
        return follow(membership, now_ns, err);
    case HOLDING:
    case STOPPING:
        if (find_member(membership, &peer->worker.id)) {
            if (message->view > membership->view.view)
                ask_to_stop(membership, false, "a worker asks for another view", now_ns);
        } else if (message->view <= membership->view.view) {
            tell_hold(membership, peer); /* its number has gone by */
        } else if (membership->condition == HOLDING) {
            consider_joining(membership, peer, now_ns);
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
        return hold->view > membership->view.view || (hold->view == membership->view.view &&
                                                      !find_member(membership, &membership->options.self.id));
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
    if (hold_is_further(&peer->held, &peer->told))
        return true;
    return same && !hold_is_further(&peer->told, &peer->held) &&
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
        return speak_if_due(membership, now_ns, err);
    /* The others have agreed without us, or came to this number before: ask to be let in. */
    if (membership->condition == TALKING &&
        (message->view >= membership->number || (membership->concluded && !membership->is_signed)))
        return propose(membership, membership->highest, now_ns, err);
    if (membership->condition != HOLDING || find_member(membership, &peer->worker.id))
        return 0;
    if (yields_to(membership, peer))
        ask_to_stop(membership, true, "the job goes on in a view without this worker", now_ns);
    return 0;
}

int membership_receive(struct membership *membership, const struct membership_id *from,
                       const struct membership_message *message, uint64_t now_ns, struct mst_error *err)
{
    struct peer *peer = find_peer(membership, from);
    if (!peer || !peer->up)
        return mst_error_set(err, -EPROTO, "a membership message from a peer that is not up");
    if (message->view == 0 || message->view > VIEW_MAX)
        return mst_error_set(err, -EPROTO, "a membership message for view %" PRIu64, message->view);
    switch (message->kind) {
    case MEMBERSHIP_PROPOSE:
        return receive_proposal(membership, peer, message, now_ns, err);
    case MEMBERSHIP_COMMIT:
        peer->signed_view = message->view;
        memcpy(peer->signed_digest, message->digest, sizeof peer->signed_digest);
        return take_view_if_all_signed(membership, now_ns, err);
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
        return may_speak(membership, membership->quiet_ns) ? membership->quiet_ns : UINT64_MAX;
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
        return speak_if_due(membership, now_ns, err);
    case TALKING:
        if (membership->retries < RETRIES_MAX)
            membership->retries++;
        if (membership->retries >= MUTE_AFTER_RETRIES)
            mute_silent_peers(membership);
        return propose(membership, membership->highest, now_ns, err);
    case STOPPING:
        ask_to_stop(membership, true, "a worker asks for another view", now_ns);
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
    struct membership_wait wait = {.have = reachable(membership),
                                   .want = membership->kept.vow.held.view > 0 || membership->live
                                               ? membership->options.least
                                               : membership->options.first,
                                   .last_view = last_signed(&membership->kept.vow)};
    if (membership->condition == TALKING && membership->concluded &&
        membership->outcome.verdict == OUTCOME_NO_QUORUM) {
        wait.quorum = true;
        wait.have = membership->outcome.have;
        wait.want = membership->outcome.want;
        wait.last_view = membership->outcome.last_view;
    }
    return wait;
}
