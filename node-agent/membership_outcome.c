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
    const struct membership_vow *top,
        *order; /* the furthest vow; the one that gives the order. NULL: none yet */

    enum outcome_verdict verdict;
    size_t have, want;
    size_t members, signers;
    size_t holders; /* members that signed the furthest view */
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

static size_t present_places(const struct membership_vow *vow)
{
    size_t present = 0;
    for (size_t p = 0; p < vow->count; p++)
        present += vow->places[p].present;
    return present;
}

/* Which of two is further: by number, then state, then size; a lineage's bytes at last, so that there is
 * always an answer. */
static bool is_further(const struct outcome_proposal *a, const struct outcome_proposal *b)
{
    if (a->vow.view != b->vow.view)
        return a->vow.view > b->vow.view;
    if (a->step != b->step)
        return a->step > b->step;
    const size_t size_a = present_places(&a->vow), size_b = present_places(&b->vow);
    if (size_a != size_b)
        return size_a > size_b;
    return memcmp(a->vow.lineage, b->vow.lineage, sizeof a->vow.lineage) < 0;
}

static bool same_lineage(const struct membership_vow *a, const struct membership_vow *b)
{
    return FAULT(LINEAGE_DROPPED) || memcmp(a->lineage, b->lineage, sizeof a->lineage) == 0;
}

static int compare_vows(const struct membership_vow *a, const struct membership_vow *b)
{
    if (a->count != b->count)
        return a->count < b->count ? -1 : 1;
    for (size_t p = 0; p < a->count; p++) {
        const int order = memcmp(a->places[p].slot.bytes, b->places[p].slot.bytes, MEMBERSHIP_SLOT_BYTES);
        if (order != 0)
            return order;
        if (a->places[p].present != b->places[p].present)
            return a->places[p].present ? -1 : 1;
    }
    return 0;
}

/* A list signed last under the highest number by one of the chosen. Usually there is one; where an agreement
 * was cut off half-way there may be several, and a view must have the quorum of each. */
static bool is_signed_last(const struct choice *choice, size_t i)
{
    const struct membership_vow *vow = &choice->proposals[i].vow;
    return choice->in[i] && choice->top && vow->view == choice->top->view && same_lineage(vow, choice->top);
}

static void find_vows(struct choice *choice)
{
    const struct outcome_proposal *furthest = NULL;
    for (size_t i = 0; i < choice->count; i++) {
        const struct outcome_proposal *proposal = &choice->proposals[i];
        if (choice->in[i] && proposal->vow.view > 0 && (!furthest || is_further(proposal, furthest)))
            furthest = proposal;
    }
    choice->top = furthest ? &furthest->vow : NULL;
    choice->order = NULL;
    for (size_t i = 0; i < choice->count; i++) {
        const struct membership_vow *vow = &choice->proposals[i].vow;
        if (is_signed_last(choice, i) && (!choice->order || compare_vows(vow, choice->order) < 0))
            choice->order = vow;
    }
}

/* ---- parts ---- */

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

static enum part part_of(const struct choice *choice, size_t i)
{
    const struct outcome_proposal *proposal = &choice->proposals[i];
    if (!choice->in[i])
        return PART_NONE;
    if (!proposal->leaving || FAULT(LEAVER_COUNTED))
        return is_outranked(choice, i) ? PART_NONE : PART_MEMBER;
    /* Only who is in has anything to take leave of. */
    const size_t place = choice->places[i];
    const bool is_in = choice->order && place < choice->order->count &&
                       choice->order->places[place].present && same_lineage(&proposal->vow, choice->top);
    return is_in ? PART_WITNESS : PART_NONE;
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

static size_t place_of(const struct membership_vow *order, const struct membership_slot *slot)
{
    size_t p = 0;
    while (order && p < order->count && !slot_equal(&order->places[p].slot, slot))
        p++;
    return p;
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
        choice->holders += choice->parts[i] == PART_MEMBER && is_signed_last(choice, i);
}

/* ---- what comes of it ---- */

static bool signs_for(const struct choice *choice, const struct membership_slot *slot)
{
    for (size_t i = 0; i < choice->count; i++)
        if (choice->parts[i] != PART_NONE && slot_equal(&choice->proposals[i].worker.slot, slot))
            return true;
    return false;
}

/* Do the signers hold the quorum of the view that this vow is of? */
static bool has_quorum(struct choice *choice, const struct membership_vow *vow)
{
    size_t have = 0, slots = 0;
    bool has_first = false;
    for (size_t p = 0; p < vow->count; p++) {
        if (!vow->places[p].present)
            continue;
        const bool signs = signs_for(choice, &vow->places[p].slot);
        has_first = has_first || (signs && slots == 0);
        have += signs;
        slots++;
    }
    choice->have = have;
    choice->want = 2 * have == slots ? slots / 2 + 1 : slots - (slots - 1) / 2;
    if (FAULT(QUORUM_OFF_BY_ONE))
        have++;
    return choice->rules->allow_minority || 2 * have > slots ||
           (2 * have == slots && (has_first || FAULT(QUORUM_ANY_HALF)));
}

static bool has_every_quorum(struct choice *choice)
{
    const struct membership_vow *checked = NULL;
    for (size_t i = 0; i < choice->count; i++) {
        const struct membership_vow *vow = &choice->proposals[i].vow;
        if (!is_signed_last(choice, i) || (checked && compare_vows(vow, checked) == 0))
            continue; /* as a rule they are all the same */
        if (!has_quorum(choice, vow))
            return false;
        checked = vow;
    }
    return true;
}

static void judge(struct choice *choice)
{
    find_vows(choice);
    share_out(choice);
    const size_t least = choice->top ? choice->rules->least : choice->rules->first;
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
    const uint64_t top_a = a->top ? a->top->view : 0, top_b = b->top ? b->top->view : 0;
    if (view_a != view_b)
        return view_a;
    if (top_a != top_b)
        return top_a > top_b;
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
    return !choice->top || same_lineage(&proposal->vow, choice->top) ? proposal->step : 0;
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

/* The order for the next time: the places that there were, without those that took their leave, and the
 * newcomers behind. */
static void fill_places(const struct choice *choice, struct outcome *outcome)
{
    size_t member = 0, next = 0;
    for (size_t p = 0; choice->order && p < choice->order->count; p++) {
        const struct membership_slot *slot = &choice->order->places[p].slot;
        const bool present =
            member < outcome->count && slot_equal(&outcome->members[member].worker.slot, slot);
        member += present;
        const size_t needed = next + 1 + (outcome->count - member);
        if (present || (!is_witness_slot(choice, slot) && needed <= MEMBERSHIP_MAX_PLACES))
            outcome->places[next++] = (struct membership_place){.slot = *slot, .present = present};
    }
    for (; member < outcome->count; member++)
        outcome->places[next++] =
            (struct membership_place){.slot = outcome->members[member].worker.slot, .present = true};
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
        place[MEMBERSHIP_SLOT_BYTES] = outcome->places[p].present;
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
    if (choice->top) {
        memcpy(outcome->lineage, choice->top->lineage, sizeof outcome->lineage);
    } else {
        r = digest(view, outcome, err);
        memcpy(outcome->lineage, outcome->digest, sizeof outcome->lineage);
    }
    return r < 0 ? r : digest(view, outcome, err);
}

void outcome_release(struct outcome *outcome)
{
    free(outcome->members);
    free(outcome->signers);
    free(outcome->places);
    *outcome = (struct outcome){0};
}

/* Both ways: what is told by one side only may be a wire that works in one direction. */
static int find_links(const struct outcome_proposal *proposals, size_t count, struct clique_links *links)
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
    return 0;
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
    if (r == 0)
        r = clique_links_init(&links, count);
    if (r == 0 && !FAULT(CLIQUE_DROPPED))
        r = find_links(proposals, count, &links);
    if (r == 0)
        r = clique_search(&links, try_clique, &search);
    if (r < 0)
        return mst_error_set(err, r, "compute a view from %zu proposals: no memory", count);
    const struct choice *best = search.best;
    struct outcome outcome = {.verdict = best->verdict,
                              .have = best->have,
                              .want = best->want,
                              .last_view = best->top ? best->top->view : 0};
    if (best->verdict == OUTCOME_VIEW)
        r = make_view(view, best, &outcome, err);
    if (r < 0) {
        outcome_release(&outcome);
        return r;
    }
    *ret_outcome = outcome;
    return 0;
}
