/* SPDX-License-Identifier: Apache-2.0 */
#include "membership_outcome.h"

#include "membership_clique.h"
#include "membership_fault.h"
#include "muster/cleanup.h"

#include <stdlib.h>
#include <string.h>

/* Who of the chosen takes what part. */
enum part { PART_NONE, PART_MEMBER, PART_WITNESS };

/* One way to choose among those who proposed, and what would come of it; arrays by index into the proposals.
 */
struct choice {
    const struct outcome_proposal *proposals;
    size_t count;
    const struct outcome_rules *rules;

    bool *in; /* owned, as the next two: who is chosen */
    enum part *parts;
    size_t *places; /* of each one's slot in *order */

    /* The last view known to have held, and what may have come to hold since; the one of these that gives the
     * order and the lineage. NULL and none: nothing was ever signed. */
    const struct membership_ballot *base, *order;
    const struct membership_ballot *doubts[MEMBERSHIP_MAX_ATTEMPTS];
    size_t doubt_count;
    bool too_many_doubts;

    enum outcome_verdict verdict;
    size_t have, want;
    size_t members, signers;
    size_t holders; /* members that know the last view */
};

static void choice_release(struct choice *choice)
{
    free(choice->in);
    free(choice->parts);
    free(choice->places);
}

static int choice_init(struct choice *choice, const struct outcome_proposal *proposals, size_t count,
                       const struct outcome_rules *rules)
{
    *choice = (struct choice){.proposals = proposals,
                              .count = count,
                              .rules = rules,
                              .in = calloc(count, sizeof *choice->in),
                              .parts = calloc(count, sizeof *choice->parts),
                              .places = calloc(count, sizeof *choice->places)};
    return choice->in && choice->parts && choice->places ? 0 : -ENOMEM;
}

/* ---- vows ---- */

static bool slot_equal(const struct membership_slot *a, const struct membership_slot *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

static size_t present_places(const struct membership_ballot *ballot)
{
    size_t present = 0;
    for (size_t p = 0; p < ballot->count; p++)
        present += ballot->places[p].part == MEMBERSHIP_PRESENT;
    return present;
}

/* Which of two is further: by number, then state, then size; a lineage's bytes at last, so that there is
 * always an answer. */
static bool is_further(const struct outcome_proposal *a, const struct outcome_proposal *b)
{
    const struct membership_ballot *held_a = &a->vow->held, *held_b = &b->vow->held;
    if (held_a->view != held_b->view)
        return held_a->view > held_b->view;
    if (a->step != b->step)
        return a->step > b->step;
    const size_t size_a = present_places(held_a), size_b = present_places(held_b);
    if (size_a != size_b)
        return size_a > size_b;
    return memcmp(held_a->lineage, held_b->lineage, sizeof held_a->lineage) < 0;
}

static bool same_lineage(const struct membership_ballot *a, const struct membership_ballot *b)
{
    return FAULT(LINEAGE_DROPPED) || memcmp(a->lineage, b->lineage, sizeof a->lineage) == 0;
}

static bool same_ballot(const struct membership_ballot *a, const struct membership_ballot *b)
{
    return a->view == b->view && memcmp(a->digest, b->digest, sizeof a->digest) == 0;
}

static const struct membership_ballot *find_base(const struct choice *choice)
{
    const struct outcome_proposal *furthest = NULL;
    for (size_t i = 0; i < choice->count; i++) {
        const struct outcome_proposal *proposal = &choice->proposals[i];
        if (choice->in[i] && proposal->vow->held.view > 0 && (!furthest || is_further(proposal, furthest)))
            furthest = proposal;
    }
    return furthest ? &furthest->vow->held : NULL;
}

/* The first entry of a vow that is of this ballot's lineage, after the view that held; NULL: none. */
static const struct membership_ballot *first_attempt_of(const struct membership_vow *vow,
                                                        const struct membership_ballot *ballot)
{
    const struct membership_ballot *first = NULL;
    for (size_t a = 0; a < vow->count; a++)
        if (same_lineage(&vow->attempts[a], ballot) && (!first || vow->attempts[a].view < first->view))
            first = &vow->attempts[a];
    return first;
}

/* Does this worker know all that it signed in the ballot's lineage since? What is forgotten when a view holds
 * are the numbers up to that one; unless the disk was lost: that risk is the operator's. */
static bool remembers(const struct membership_vow *vow, const struct membership_ballot *ballot)
{
    return vow->held.view < ballot->view || same_lineage(&vow->held, ballot) || first_attempt_of(vow, ballot);
}

/* Has it certainly not signed this one? */
static bool has_not_signed(const struct membership_vow *vow, const struct membership_ballot *attempt)
{
    for (size_t a = 0; a < vow->count; a++)
        if (same_ballot(&vow->attempts[a], attempt))
            return false;
    /* Who comes from another lineage keeps the view that held in this one among its attempts. */
    const struct membership_ballot *first = first_attempt_of(vow, attempt);
    if (vow->held.view > 0 && !same_lineage(&vow->held, attempt) && first)
        return first->view < attempt->view;
    return vow->held.view < attempt->view;
}

/* An attempt can never have come to hold, nor ever will, when one whose signature it needed is here without
 * having signed it: it has proposed a higher number since. */
static bool is_dead(const struct choice *choice, const struct membership_ballot *attempt)
{
    for (size_t i = 0; i < choice->count; i++) {
        const struct outcome_proposal *proposal = &choice->proposals[i];
        if (!choice->in[i] || !has_not_signed(proposal->vow, attempt))
            continue;
        for (size_t p = 0; p < attempt->count; p++)
            if (attempt->places[p].part != MEMBERSHIP_ABSENT &&
                slot_equal(&attempt->places[p].slot, &proposal->worker.slot))
                return true;
    }
    return false;
}

static void add_doubt(struct choice *choice, const struct membership_ballot *attempt)
{
    if (choice->base && (attempt->view <= choice->base->view || !same_lineage(attempt, choice->base)))
        return;
    for (size_t d = 0; d < choice->doubt_count; d++)
        if (same_ballot(choice->doubts[d], attempt))
            return;
    if (is_dead(choice, attempt))
        return;
    if (choice->doubt_count == MEMBERSHIP_MAX_ATTEMPTS)
        choice->too_many_doubts = true;
    else
        choice->doubts[choice->doubt_count++] = attempt;
}

static void find_ballots(struct choice *choice)
{
    choice->base = find_base(choice);
    choice->doubt_count = 0;
    choice->too_many_doubts = false;
    for (size_t i = 0; i < choice->count; i++)
        for (size_t a = 0; choice->in[i] && a < choice->proposals[i].vow->count; a++)
            add_doubt(choice, &choice->proposals[i].vow->attempts[a]);
    /* What may have come to hold last gives the order: who survives it stands where it stood there. */
    choice->order = choice->base;
    for (size_t d = 0; d < choice->doubt_count; d++) {
        const struct membership_ballot *doubt = choice->doubts[d], *order = choice->order;
        if (!order || doubt->view > order->view ||
            (doubt->view == order->view && memcmp(doubt->digest, order->digest, sizeof doubt->digest) < 0))
            choice->order = doubt;
    }
}

/* ---- parts ---- */

static size_t place_of(const struct membership_ballot *order, const struct membership_slot *slot)
{
    size_t p = 0;
    while (order && p < order->count && !slot_equal(&order->places[p].slot, slot))
        p++;
    return p;
}

/* Is there a better claim to this worker's slot among the chosen? Its state counts, then its id. A worker
 * that leaves makes no claim. */
static bool is_outranked(const struct choice *choice, size_t i)
{
    const struct outcome_proposal *self = &choice->proposals[i];
    for (size_t j = 0; j < choice->count; j++) {
        const struct outcome_proposal *other = &choice->proposals[j];
        if (j == i || !choice->in[j] || other->leaving ||
            !slot_equal(&other->worker.slot, &self->worker.slot))
            continue;
        if (other->step != self->step ? other->step > self->step : j < i)
            return true;
    }
    return false;
}

static bool is_present_in(const struct membership_ballot *ballot, const struct outcome_proposal *proposal)
{
    const size_t place = place_of(ballot, &proposal->worker.slot);
    return ballot && place < ballot->count && ballot->places[place].part == MEMBERSHIP_PRESENT &&
           remembers(proposal->vow, ballot);
}

/* Only who is in, or may be, has anything to take leave of. */
static bool is_needed(const struct choice *choice, const struct outcome_proposal *proposal)
{
    bool needed = is_present_in(choice->base, proposal);
    for (size_t d = 0; d < choice->doubt_count; d++)
        needed = needed || is_present_in(choice->doubts[d], proposal);
    return needed;
}

static enum part part_of(const struct choice *choice, size_t i)
{
    const struct outcome_proposal *proposal = &choice->proposals[i];
    if (!choice->in[i])
        return PART_NONE;
    if (!proposal->leaving || FAULT(LEAVER_COUNTED))
        return is_outranked(choice, i) ? PART_NONE : PART_MEMBER;
    return is_needed(choice, proposal) ? PART_WITNESS : PART_NONE;
}

/* Before whom a newcomer stands in the list: by place, then by the whole address as a number. */
static bool stands_before(const struct choice *choice, size_t i, size_t j)
{
    const struct membership_worker *a = &choice->proposals[i].worker, *b = &choice->proposals[j].worker;
    if (choice->places[i] != choice->places[j])
        return choice->places[i] < choice->places[j];
    if (a->ipv4 != b->ipv4)
        return a->ipv4 < b->ipv4;
    return a->port != b->port ? a->port < b->port : i < j;
}

/* No more than the most that there may be: the last of the list stay out. */
static void cut(struct choice *choice)
{
    while (choice->members > choice->rules->most) {
        size_t last = choice->count;
        for (size_t i = 0; i < choice->count; i++)
            if (choice->parts[i] == PART_MEMBER && (last == choice->count || stands_before(choice, last, i)))
                last = i;
        choice->parts[last] = PART_NONE;
        choice->members--;
        choice->signers--;
    }
}

static void share_out(struct choice *choice)
{
    choice->members = choice->signers = choice->holders = 0;
    for (size_t i = 0; i < choice->count; i++)
        choice->places[i] = place_of(choice->order, &choice->proposals[i].worker.slot);
    for (size_t i = 0; i < choice->count; i++) {
        choice->parts[i] = part_of(choice, i);
        choice->members += choice->parts[i] == PART_MEMBER;
        choice->signers += choice->parts[i] != PART_NONE;
    }
    cut(choice);
    for (size_t i = 0; i < choice->count; i++)
        choice->holders += choice->parts[i] == PART_MEMBER && choice->base &&
                           same_ballot(&choice->proposals[i].vow->held, choice->base);
}

/* ---- what comes of it ---- */

/* A slot that has followed another lineage in between does not know what it signed in this one, and counts
 * for nothing in its quorums. */
static bool signs_for(const struct choice *choice, const struct membership_ballot *ballot,
                      const struct membership_slot *slot)
{
    for (size_t i = 0; i < choice->count; i++)
        if (choice->parts[i] != PART_NONE && slot_equal(&choice->proposals[i].worker.slot, slot) &&
            remembers(choice->proposals[i].vow, ballot))
            return true;
    return false;
}

/* Are the signers a quorum of this ballot's slots? */
static bool has_quorum(struct choice *choice, const struct membership_ballot *ballot)
{
    size_t have = 0, slots = 0;
    bool has_first = false;
    for (size_t p = 0; p < ballot->count; p++) {
        if (ballot->places[p].part != MEMBERSHIP_PRESENT)
            continue;
        const bool signs = signs_for(choice, ballot, &ballot->places[p].slot);
        has_first = has_first || (signs && slots == 0);
        have += signs;
        slots++;
    }
    choice->have = have;
    choice->want = slots / 2 + 1;
    if (FAULT(QUORUM_OFF_BY_ONE))
        have++;
    return choice->rules->allow_minority || 2 * have > slots ||
           (2 * have == slots && (has_first || FAULT(QUORUM_ANY_HALF)));
}

static bool has_every_quorum(struct choice *choice)
{
    if (choice->too_many_doubts || (choice->base && !has_quorum(choice, choice->base)))
        return false;
    for (size_t d = 0; d < choice->doubt_count; d++)
        if (!has_quorum(choice, choice->doubts[d]))
            return false;
    return true;
}

static void judge(struct choice *choice)
{
    find_ballots(choice);
    share_out(choice);
    const size_t least = choice->order ? choice->rules->least : choice->rules->first;
    if (choice->members == 0) {
        choice->verdict = OUTCOME_ALL_LEAVE;
    } else if (!has_every_quorum(choice)) {
        choice->verdict = OUTCOME_NO_QUORUM;
    } else if (choice->members < least) {
        choice->verdict = OUTCOME_FEW;
        choice->have = choice->members;
        choice->want = least;
    } else {
        choice->verdict = OUTCOME_VIEW;
    }
}

/* Of two cliques, the same one for everybody: one that can be a view, then the further one, then the larger
 * one, then the one of the lowest ids. */
static bool is_better(const struct choice *a, const struct choice *b)
{
    const bool view_a = a->verdict == OUTCOME_VIEW, view_b = b->verdict == OUTCOME_VIEW;
    const uint64_t base_a = a->base ? a->base->view : 0, base_b = b->base ? b->base->view : 0;
    if (view_a != view_b)
        return view_a;
    if (base_a != base_b)
        return base_a > base_b;
    if (a->holders != b->holders)
        return a->holders > b->holders;
    if (a->members != b->members)
        return a->members > b->members;
    for (size_t i = 0; i < a->count; i++)
        if (a->in[i] != b->in[i])
            return a->in[i];
    return false;
}

struct search {
    struct choice *tried, *best;
    bool any;
};

/* struct clique_search.found */
static void try_clique(void *context, const bool *in)
{
    struct search *search = context;
    memcpy(search->tried->in, in, search->tried->count * sizeof *in);
    judge(search->tried);
    if (search->any && !is_better(search->tried, search->best))
        return;
    search->any = true;
    struct choice *loser = search->best;
    search->best = search->tried;
    search->tried = loser;
}

/* ---- the view ---- */

/* The members' indices in rank order. By insertion: a list that is nearly in order already. */
static void order_members(const struct choice *choice, size_t *ret_ranks)
{
    size_t count = 0;
    for (size_t i = 0; i < choice->count; i++) {
        if (choice->parts[i] != PART_MEMBER)
            continue;
        size_t at = count++;
        for (; at > 0 && stands_before(choice, i, ret_ranks[at - 1]); at--)
            ret_ranks[at] = ret_ranks[at - 1];
        ret_ranks[at] = i;
    }
}

/* A state counts only in the lineage that it was made in. */
static uint64_t step_of(const struct choice *choice, const struct outcome_proposal *proposal)
{
    return !choice->base || same_lineage(&proposal->vow->held, choice->base) ? proposal->step : 0;
}

static void fill_signers(const struct choice *choice, const size_t *ranks, struct outcome *outcome)
{
    for (size_t m = 0; m < choice->members; m++) {
        const struct outcome_proposal *proposal = &choice->proposals[ranks[m]];
        outcome->members[m] =
            (struct membership_member){.worker = proposal->worker, .step = step_of(choice, proposal)};
        outcome->signers[outcome->signer_count++] = proposal->worker.id;
    }
    outcome->count = choice->members;
    for (size_t i = 0; i < choice->count; i++)
        if (choice->parts[i] == PART_WITNESS)
            outcome->signers[outcome->signer_count++] = choice->proposals[i].worker.id;
}

static bool is_witness_slot(const struct choice *choice, const struct membership_slot *slot)
{
    for (size_t i = 0; i < choice->count; i++)
        if (choice->parts[i] == PART_WITNESS && slot_equal(&choice->proposals[i].worker.slot, slot))
            return true;
    return false;
}

/* The order for the next time: the places that there were, and the newcomers behind. Those that take their
 * leave stand in the list for the last time, as they sign it. */
static void fill_places(const struct choice *choice, struct outcome *outcome)
{
    size_t member = 0, next = 0;
    for (size_t p = 0; choice->order && p < choice->order->count; p++) {
        const struct membership_place *before = &choice->order->places[p];
        enum membership_part part = MEMBERSHIP_ABSENT;
        if (member < outcome->count && slot_equal(&outcome->members[member].worker.slot, &before->slot))
            part = MEMBERSHIP_PRESENT;
        else if (is_witness_slot(choice, &before->slot))
            part = MEMBERSHIP_WITNESS;
        member += part == MEMBERSHIP_PRESENT;
        const size_t needed = next + 1 + (outcome->count - member);
        if (part == MEMBERSHIP_ABSENT &&
            (before->part == MEMBERSHIP_WITNESS || needed > MEMBERSHIP_MAX_PLACES))
            continue; /* gone for good, or no room to remember it */
        outcome->places[next++] = (struct membership_place){.slot = before->slot, .part = part};
    }
    for (; member < outcome->count; member++)
        outcome->places[next++] = (struct membership_place){.slot = outcome->members[member].worker.slot,
                                                            .part = MEMBERSHIP_PRESENT};
    outcome->place_count = next;
}

static void write_number(uint64_t number, uint8_t ret_bytes[static 8])
{
    for (size_t i = 0; i < 8; i++)
        ret_bytes[i] = (uint8_t)(number >> (56 - 8 * i));
}

/* Everything that the signers agree on, in a byte order that all machines share. */
static int digest(uint64_t view, struct outcome *outcome, struct mst_error *err)
{
    mst_cleanup(mst_sha256_release) struct mst_sha256 sha = {0};
    uint8_t head[8 + 8 + MEMBERSHIP_LINEAGE_BYTES];
    write_number(view, head);
    write_number(outcome->count, head + 8);
    memcpy(head + 16, outcome->lineage, sizeof outcome->lineage);
    int r = mst_sha256_init(&sha, err);
    if (r == 0)
        r = mst_sha256_update(&sha, head, sizeof head, err);
    for (size_t m = 0; r == 0 && m < outcome->count; m++) {
        uint8_t step[8];
        write_number(outcome->members[m].step, step);
        r = mst_sha256_update(&sha, step, sizeof step, err);
    }
    if (r == 0)
        r = mst_sha256_update(&sha, outcome->signers, outcome->signer_count * sizeof *outcome->signers, err);
    for (size_t p = 0; r == 0 && p < outcome->place_count; p++) {
        uint8_t place[MEMBERSHIP_SLOT_BYTES + 1];
        memcpy(place, outcome->places[p].slot.bytes, MEMBERSHIP_SLOT_BYTES);
        place[MEMBERSHIP_SLOT_BYTES] = (uint8_t)outcome->places[p].part;
        r = mst_sha256_update(&sha, place, sizeof place, err);
    }
    return r < 0 ? r : mst_sha256_finish(&sha, outcome->digest, err);
}

static int make_view(uint64_t view, const struct choice *choice, struct outcome *outcome,
                     struct mst_error *err)
{
    const size_t places = (choice->order ? choice->order->count : 0) + choice->members;
    mst_cleanup(mst_freep) size_t *ranks = calloc(choice->members, sizeof *ranks);
    outcome->members = calloc(choice->members, sizeof *outcome->members);
    outcome->signers = calloc(choice->signers, sizeof *outcome->signers);
    outcome->places = calloc(places, sizeof *outcome->places);
    if (!ranks || !outcome->members || !outcome->signers || !outcome->places)
        return mst_error_set(err, -ENOMEM, "compute a view of %zu workers: no memory", choice->members);
    order_members(choice, ranks);
    fill_signers(choice, ranks, outcome);
    fill_places(choice, outcome);
    int r = 0;
    if (choice->order) {
        memcpy(outcome->lineage, choice->order->lineage, sizeof outcome->lineage);
    } else {
        r = digest(view, outcome, err);
        memcpy(outcome->lineage, outcome->digest, sizeof outcome->lineage);
    }
    return r < 0 ? r : digest(view, outcome, err);
}

/* What a signer must keep besides the view itself: pointers into the proposals. */
static void tell_ballots(const struct choice *choice, struct outcome *outcome)
{
    if (choice->base)
        outcome->base = *choice->base;
    for (size_t d = 0; d < choice->doubt_count; d++)
        outcome->doubts[d] = *choice->doubts[d];
    outcome->doubt_count = choice->doubt_count;
}

void outcome_release(struct outcome *outcome)
{
    free(outcome->members);
    free(outcome->signers);
    free(outcome->places);
    *outcome = (struct outcome){0};
}

/* Both ways: what is told by one side only may be a wire that works in one direction. */
static void find_links(const struct outcome_proposal *proposals, size_t count, struct clique_links *links)
{
    for (size_t i = 0; i < count; i++) {
        size_t next = 0;
        for (size_t j = 0; j < count; j++) {
            const struct membership_id *id = &proposals[j].worker.id;
            int order = -1;
            while (next < proposals[i].reach_count &&
                   (order = memcmp(proposals[i].reach[next].id.bytes, id->bytes, sizeof id->bytes)) < 0)
                next++;
            if (next == proposals[i].reach_count || order != 0)
                clique_cut(links, i, j);
        }
    }
}

int outcome_compute(uint64_t view, const struct outcome_proposal *proposals, size_t count,
                    const struct outcome_rules *rules, struct outcome *ret_outcome, struct mst_error *err)
{
    mst_cleanup(choice_release) struct choice a = {0}, b = {0};
    mst_cleanup(clique_links_release) struct clique_links links = {0};
    struct search search = {.tried = &a, .best = &b};
    int r = choice_init(&a, proposals, count, rules);
    if (r == 0)
        r = choice_init(&b, proposals, count, rules);
    clique_links_init(&links, count);
    if (r == 0 && !FAULT(CLIQUE_DROPPED))
        find_links(proposals, count, &links);
    if (r == 0)
        r = clique_search(&links, try_clique, &search);
    if (r < 0)
        return mst_error_set(err, r, "compute a view from %zu proposals: no memory", count);
    const struct choice *best = search.best;
    struct outcome outcome = {.verdict = best->verdict,
                              .have = best->have,
                              .want = best->want,
                              .last_view = best->order ? best->order->view : 0};
    tell_ballots(best, &outcome);
    if (best->verdict == OUTCOME_VIEW)
        r = make_view(view, best, &outcome, err);
    if (r < 0) {
        outcome_release(&outcome);
        return r;
    }
    *ret_outcome = outcome;
    return 0;
}
