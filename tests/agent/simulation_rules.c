/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold at every event, whatever breaks. All is seen from above: of every machine, over all of its
 * lives. */
#include "simulation_state.h"

#include <inttypes.h>

/* FNV-1a: to tell contents apart, not to withstand anybody. */
static uint64_t hash(uint64_t value, const void *bytes, size_t count)
{
    const uint8_t *byte = bytes;
    if (value == 0)
        value = 0xcbf29ce484222325ULL;
    for (size_t i = 0; i < count; i++)
        value = (value ^ byte[i]) * 0x100000001b3ULL;
    return value;
}

static bool same_slot(const struct machine *a, const struct machine *b)
{
    return memcmp(a->slot.bytes, b->slot.bytes, sizeof a->slot.bytes) == 0;
}

static bool same_lineage(const uint8_t *a, const uint8_t *b)
{
    return memcmp(a, b, MEMBERSHIP_LINEAGE_BYTES) == 0;
}

/* ---- proposals ---- */

static uint64_t hash_ballot(uint64_t value, const struct membership_ballot *ballot)
{
    value = hash(value, &ballot->view, sizeof ballot->view);
    value = hash(value, ballot->lineage, sizeof ballot->lineage);
    value = hash(value, ballot->digest, sizeof ballot->digest);
    for (size_t p = 0; p < ballot->count; p++) {
        value = hash(value, ballot->places[p].slot.bytes, MEMBERSHIP_SLOT_BYTES);
        value = hash(value, &ballot->places[p].part, sizeof ballot->places[p].part);
    }
    return value;
}

static uint64_t hash_proposal(const struct membership_message *message)
{
    uint64_t value = hash(0, &message->step, sizeof message->step);
    value = hash(value, &message->leaving, sizeof message->leaving);
    value = hash_ballot(value, &message->vow.held);
    for (size_t a = 0; a < message->vow.count; a++)
        value = hash_ballot(value, &message->vow.attempts[a]);
    for (size_t w = 0; w < message->count; w++)
        value = hash(value, message->workers[w].id.bytes, MEMBERSHIP_ID_BYTES);
    return value;
}

static const struct proposal *find_proposal(const struct simulation *simulation, size_t machine,
                                            uint64_t incarnation, uint64_t view)
{
    for (size_t p = simulation->proposal_count; p-- > 0;) {
        const struct proposal *proposal = &simulation->proposals[p];
        if (proposal->machine == machine && proposal->incarnation == incarnation && proposal->view == view)
            return proposal;
    }
    return NULL;
}

static void say_ballot(struct simulation *simulation, const char *what,
                       const struct membership_ballot *ballot)
{
    char text[8 * MACHINES] = "";
    for (size_t p = 0; p < ballot->count; p++)
        for (size_t m = 0; m < simulation->machine_count; m++)
            if (memcmp(ballot->places[p].slot.bytes, simulation->machines[m].slot.bytes,
                       MEMBERSHIP_SLOT_BYTES) == 0)
                (void)snprintf(text + strlen(text), sizeof text - strlen(text), " %sm%zu",
                               ballot->places[p].part == MEMBERSHIP_ABSENT    ? "-"
                               : ballot->places[p].part == MEMBERSHIP_WITNESS ? "^"
                                                                              : "",
                               m);
    simulation_say(simulation, "    %s %" PRIu64 ", %02x%02x of %02x%02x:%s", what, ballot->view,
                   ballot->digest[0], ballot->digest[1], ballot->lineage[0], ballot->lineage[1], text);
}

static void say_proposal(const struct machine *machine, const struct membership_message *message)
{
    struct simulation *simulation = machine->simulation;
    char text[8 * MACHINES] = "";
    for (size_t w = 0; w < message->count; w++)
        for (size_t m = 0; m < simulation->machine_count; m++)
            if (membership_id_equal(&simulation->machines[m].self.id, &message->workers[w].id))
                (void)snprintf(text + strlen(text), sizeof text - strlen(text), " m%zu", m);
    simulation_say(simulation, "m%zu proposes %" PRIu64 "%s after step %" PRIu64 " and reaches%s",
                   machine->index, message->view, message->leaving ? ", leaving," : "", message->step, text);
    if (message->vow.held.view > 0)
        say_ballot(simulation, "held", &message->vow.held);
    for (size_t a = 0; a < message->vow.count; a++)
        say_ballot(simulation, "tried", &message->vow.attempts[a]);
}

void rules_proposed(struct machine *machine, const struct membership_message *message)
{
    struct simulation *simulation = machine->simulation;
    const uint64_t value = hash_proposal(message);
    const struct proposal *said =
        find_proposal(simulation, machine->index, machine->incarnation, message->view);
    if (said) {
        if (said->hash != value)
            simulation_violate(simulation, "m%zu changed what it proposed for view %" PRIu64, machine->index,
                               message->view);
        return;
    }
    if (message->view < machine->proposed_view)
        simulation_violate(simulation, "m%zu proposed view %" PRIu64 " after %" PRIu64, machine->index,
                           message->view, machine->proposed_view);
    if (machine->job.stage != JOB_NONE)
        simulation_violate(simulation, "m%zu proposed view %" PRIu64 " while its job runs", machine->index,
                           message->view);
    machine->proposed_view = message->view;
    assert_true(message->count <= MACHINES);
    simulation->proposals = simulation_grow(simulation->proposals, &simulation->proposal_count,
                                            &simulation->proposal_capacity, sizeof *simulation->proposals);
    struct proposal *proposal = &simulation->proposals[simulation->proposal_count - 1];
    *proposal = (struct proposal){.machine = machine->index,
                                  .incarnation = machine->incarnation,
                                  .view = message->view,
                                  .hash = value,
                                  .step = message->step,
                                  .leaving = message->leaving,
                                  .count = message->count};
    for (size_t w = 0; w < message->count; w++)
        proposal->reach[w] = message->workers[w].id;
    if (simulation->trace)
        say_proposal(machine, message);
}

static bool reaches(const struct proposal *proposal, const struct membership_id *id)
{
    for (size_t r = 0; r < proposal->count; r++)
        if (membership_id_equal(&proposal->reach[r], id))
            return true;
    return false;
}

/* ---- views that held ---- */

static bool is_place_of(const struct simulation *simulation, const struct membership_place *place,
                        size_t machine)
{
    return memcmp(place->slot.bytes, simulation->machines[machine].slot.bytes, MEMBERSHIP_SLOT_BYTES) == 0;
}

static bool signs_place(const struct simulation *simulation, const struct membership_place *place,
                        uint32_t signers)
{
    for (size_t m = 0; m < simulation->machine_count; m++)
        if (signers & 1U << m && is_place_of(simulation, place, m))
            return true;
    return false;
}

/* More than half of the slots of `before` have signed `after`, or half of them with the first one's. */
static void check_quorum(struct simulation *simulation, const struct held *before, const struct held *after)
{
    size_t have = 0, slots = 0;
    bool has_first = false;
    for (size_t p = 0; p < before->count; p++) {
        if (before->places[p].part != MEMBERSHIP_PRESENT)
            continue;
        const bool signs = signs_place(simulation, &before->places[p], after->signers);
        has_first = has_first || (slots == 0 && signs);
        have += signs;
        slots++;
    }
    if (2 * have < slots || (2 * have == slots && !has_first))
        simulation_violate(simulation, "view %" PRIu64 " has no quorum of view %" PRIu64 ": %zu of %zu slots",
                           after->view, before->view, have, slots);
}

/* The next ones in its lineage, before and after. */
static void find_neighbours(const struct simulation *simulation, const struct held *held,
                            const struct held **ret_before, const struct held **ret_after)
{
    *ret_before = *ret_after = NULL;
    for (size_t h = 0; h < simulation->held_count; h++) {
        const struct held *other = &simulation->held[h];
        if (other == held || !same_lineage(other->lineage, held->lineage))
            continue;
        if (other->view < held->view && (!*ret_before || other->view > (*ret_before)->view))
            *ret_before = other;
        if (other->view > held->view && (!*ret_after || other->view < (*ret_after)->view))
            *ret_after = other;
    }
}

/* ---- order ---- */

static size_t place_of(const struct held *held, const struct membership_place *place)
{
    for (size_t p = 0; p < held->count; p++)
        if (memcmp(held->places[p].slot.bytes, place->slot.bytes, MEMBERSHIP_SLOT_BYTES) == 0)
            return p;
    return SIZE_MAX;
}

/* Has this slot ever said that it leaves? Then its place may be gone, or not, where that was not agreed to.
 * Or is it new here, but was in a list before that was never seen to hold? Then it may have its place from
 * there. */
static bool may_stand_anywhere(const struct simulation *simulation, const struct membership_place *place,
                               uint64_t view, bool newcomer)
{
    for (size_t p = 0; p < simulation->proposal_count; p++)
        if (simulation->proposals[p].leaving &&
            is_place_of(simulation, place, simulation->proposals[p].machine))
            return true;
    if (newcomer && place->part == MEMBERSHIP_ABSENT)
        return true;
    for (size_t m = 0; newcomer && m < simulation->machine_count; m++)
        if (is_place_of(simulation, place, m) && simulation->machines[m].first_listed > 0 &&
            simulation->machines[m].first_listed < view)
            return true;
    return false;
}

/* As it was when this was signed. */
static uint32_t address_of(const struct simulation *simulation, const struct membership_place *place,
                           const struct held *held)
{
    for (size_t s = 0; s < simulation->signature_count; s++) {
        const struct signature *signature = &simulation->signatures[s];
        if (signature->view == held->view && memcmp(signature->digest, held->digest, MST_SHA256_BYTES) == 0 &&
            is_place_of(simulation, place, signature->machine))
            return signature->ipv4;
    }
    return 0;
}

/* Survivors and those who come back in their order, then newcomers by address. */
static void check_order(struct simulation *simulation, const struct held *before, const struct held *held)
{
    size_t last_place = 0;
    uint32_t last_ipv4 = 0;
    bool newcomers = false;
    for (size_t p = 0; p < held->count; p++) {
        const size_t place = before ? place_of(before, &held->places[p]) : SIZE_MAX;
        if (may_stand_anywhere(simulation, &held->places[p], held->view, place == SIZE_MAX))
            continue;
        if (place != SIZE_MAX && (newcomers || place < last_place))
            simulation_violate(simulation, "view %" PRIu64 " has somebody out of place %zu", held->view,
                               place);
        if (place != SIZE_MAX) {
            last_place = place;
            continue;
        }
        const uint32_t ipv4 = address_of(simulation, &held->places[p], held);
        if (ipv4 <= last_ipv4)
            simulation_violate(simulation, "view %" PRIu64 " does not have its newcomers by address",
                               held->view);
        newcomers = true;
        last_ipv4 = ipv4;
    }
}

/* Everybody who is in it has signed it, and whoever leaves with it. */
static void check_signed(struct simulation *simulation, const struct held *held)
{
    for (size_t p = 0; p < held->count; p++)
        if (held->places[p].part != MEMBERSHIP_ABSENT &&
            !signs_place(simulation, &held->places[p], held->signers))
            simulation_violate(simulation, "view %" PRIu64 " holds without the signature of place %zu",
                               held->view, p);
}

static void check_number(struct simulation *simulation, const struct held *held)
{
    for (size_t h = 0; h < simulation->held_count; h++) {
        const struct held *other = &simulation->held[h];
        if (other != held && other->view == held->view && same_lineage(other->lineage, held->lineage))
            simulation_violate(simulation, "two views hold under number %" PRIu64, held->view);
    }
}

static void note_held(struct simulation *simulation, const struct membership_ballot *ballot)
{
    for (size_t h = simulation->held_count; h-- > 0;)
        if (simulation->held[h].view == ballot->view &&
            memcmp(simulation->held[h].digest, ballot->digest, MST_SHA256_BYTES) == 0)
            return;
    simulation->held = simulation_grow(simulation->held, &simulation->held_count, &simulation->held_capacity,
                                       sizeof *simulation->held);
    struct held *held = &simulation->held[simulation->held_count - 1];
    const struct held *before, *after;
    held->view = ballot->view;
    held->count = ballot->count;
    assert_true(ballot->count <= MST_ARRAY_COUNT(held->places));
    memcpy(held->places, ballot->places, ballot->count * sizeof *ballot->places);
    memcpy(held->digest, ballot->digest, MST_SHA256_BYTES);
    memcpy(held->lineage, ballot->lineage, MEMBERSHIP_LINEAGE_BYTES);
    for (size_t s = 0; s < simulation->signature_count; s++)
        if (simulation->signatures[s].view == held->view &&
            memcmp(simulation->signatures[s].digest, held->digest, MST_SHA256_BYTES) == 0)
            held->signers |= 1U << simulation->signatures[s].machine;
    check_signed(simulation, held);
    if (simulation->scenario->flags & SCENARIO_MINORITY)
        return;
    check_number(simulation, held);
    find_neighbours(simulation, held, &before, &after);
    if (before)
        check_quorum(simulation, before, held);
    if (after)
        check_quorum(simulation, held, after);
    check_order(simulation, before, held);
}

/* ---- signatures ---- */

static bool is_kept(const struct membership_vow *vow, uint64_t view, const uint8_t *digest)
{
    for (size_t a = 0; a < vow->count; a++)
        if (vow->attempts[a].view == view && memcmp(vow->attempts[a].digest, digest, MST_SHA256_BYTES) == 0)
            return true;
    return vow->held.view == view && memcmp(vow->held.digest, digest, MST_SHA256_BYTES) == 0;
}

/* One list a number for a disk, and never one below another. */
static void note_signature(struct machine *machine, const struct membership_ballot *ballot)
{
    struct simulation *simulation = machine->simulation;
    for (size_t s = simulation->signature_count; s-- > 0;) {
        const struct signature *signature = &simulation->signatures[s];
        if (signature->machine != machine->index || signature->generation != machine->disk.generation)
            continue;
        if (signature->view == ballot->view)
            simulation_violate(simulation, "m%zu signed two lists for view %" PRIu64, machine->index,
                               ballot->view);
        if (signature->view > ballot->view)
            simulation_violate(simulation, "m%zu signed view %" PRIu64 " after %" PRIu64, machine->index,
                               ballot->view, signature->view);
    }
    simulation->signatures = simulation_grow(simulation->signatures, &simulation->signature_count,
                                             &simulation->signature_capacity, sizeof *simulation->signatures);
    struct signature *signature = &simulation->signatures[simulation->signature_count - 1];
    *signature = (struct signature){.machine = machine->index,
                                    .generation = machine->disk.generation,
                                    .incarnation = machine->incarnation,
                                    .view = ballot->view,
                                    .ipv4 = machine->ipv4};
    memcpy(signature->digest, ballot->digest, MST_SHA256_BYTES);
    memcpy(signature->lineage, ballot->lineage, MEMBERSHIP_LINEAGE_BYTES);
    for (size_t p = 0; p < ballot->count; p++)
        for (size_t m = 0; m < simulation->machine_count; m++)
            if (is_place_of(simulation, &ballot->places[p], m) && simulation->machines[m].first_listed == 0)
                simulation->machines[m].first_listed = ballot->view;
    simulation->outcome->signatures++;
    simulation_say(simulation, "m%zu signs %" PRIu64 ", %02x%02x", machine->index, ballot->view,
                   ballot->digest[0], ballot->digest[1]);
}

/* Called before the disk has it. */
void rules_saved(struct machine *machine, const struct membership_vow *vow)
{
    const struct membership_vow *kept = &machine->disk.kept.vow;
    const uint64_t view = machine_signed_view(vow), before = machine_signed_view(kept);
    if (view < before)
        simulation_violate(machine->simulation, "m%zu saved a vow of view %" PRIu64 " over one of %" PRIu64,
                           machine->index, view, before);
    if (view < machine->proposed_view)
        simulation_violate(machine->simulation,
                           "m%zu saved a vow of view %" PRIu64 " after it proposed %" PRIu64, machine->index,
                           view, machine->proposed_view);
    for (size_t a = 0; a < vow->count; a++)
        if (!is_kept(kept, vow->attempts[a].view, vow->attempts[a].digest) && vow->attempts[a].view == view)
            note_signature(machine, &vow->attempts[a]);
    if (vow->held.view > 0)
        note_held(machine->simulation, &vow->held);
}

/* What is signed has been kept before anybody hears of it. */
void rules_signed(struct machine *machine, const struct membership_message *message)
{
    if (!is_kept(&machine->disk.kept.vow, message->view, message->digest))
        simulation_violate(machine->simulation, "m%zu signed view %" PRIu64 ", and its disk does not say so",
                           machine->index, message->view);
    if (message->view < machine->proposed_view)
        simulation_violate(machine->simulation, "m%zu signed view %" PRIu64 " after it proposed %" PRIu64,
                           machine->index, message->view, machine->proposed_view);
}

static const struct signature *find_signature(const struct simulation *simulation, size_t machine,
                                              uint64_t incarnation, uint64_t view)
{
    for (size_t s = simulation->signature_count; s-- > 0;) {
        const struct signature *signature = &simulation->signatures[s];
        if (signature->machine == machine && signature->incarnation == incarnation && signature->view == view)
            return signature;
    }
    return NULL;
}

/* ---- views as they are told ---- */

static uint64_t hash_view(const struct membership_view *view)
{
    uint64_t value = hash(0, &view->view, sizeof view->view);
    value = hash(value, view->lineage, sizeof view->lineage);
    for (size_t m = 0; m < view->count; m++) {
        value = hash(value, view->members[m].worker.id.bytes, MEMBERSHIP_ID_BYTES);
        value = hash(value, &view->members[m].step, sizeof view->members[m].step);
    }
    return value;
}

/* The machine of this id, also where a later life of it has another one. */
static size_t find_machine(const struct simulation *simulation, const struct membership_worker *worker,
                           uint64_t *ret_incarnation)
{
    memcpy(ret_incarnation, worker->id.bytes + 8, sizeof *ret_incarnation);
    for (size_t p = simulation->proposal_count; p-- > 0;)
        if (simulation->proposals[p].incarnation == *ret_incarnation)
            return simulation->proposals[p].machine;
    for (size_t m = 0; m < simulation->machine_count; m++)
        if (simulation->machines[m].incarnation == *ret_incarnation)
            return m;
    return SIZE_MAX;
}

static struct session *new_session(struct simulation *simulation, const struct membership_view *view)
{
    simulation->sessions = simulation_grow(simulation->sessions, &simulation->session_count,
                                           &simulation->session_capacity, sizeof *simulation->sessions);
    struct session *session = &simulation->sessions[simulation->session_count - 1];
    session->view = view->view;
    session->hash = hash_view(view);
    session->count = view->count;
    memcpy(session->lineage, view->lineage, sizeof session->lineage);
    memcpy(session->members, view->members, view->count * sizeof *view->members);
    for (size_t m = 0; m < view->count; m++) {
        session->machines[m] = find_machine(simulation, &view->members[m].worker, &session->incarnations[m]);
        if (session->machines[m] == SIZE_MAX) {
            simulation_violate(simulation, "view %" PRIu64 " names somebody who is not there", view->view);
            session->machines[m] = 0;
        }
    }
    return session;
}

/* The numbers of workers, and nobody twice. A first view that was signed and never told may be made up for by
 * a smaller one. */
static void check_shape(struct simulation *simulation, const struct session *session)
{
    const struct simulation_scenario *scenario = simulation->scenario;
    bool first = true;
    for (size_t s = 0; s < simulation->signature_count; s++)
        first = first && (simulation->signatures[s].view >= session->view ||
                          !same_lineage(simulation->signatures[s].lineage, session->lineage));
    const size_t least = first ? scenario->first : scenario->least;
    if (session->count < least || session->count > scenario->most)
        simulation_violate(simulation, "view %" PRIu64 " of %zu workers, %zu to %zu are wanted",
                           session->view, session->count, least, scenario->most);
    for (size_t a = 0; a < session->count; a++)
        for (size_t b = 0; b < a; b++)
            if (same_slot(&simulation->machines[session->machines[a]],
                          &simulation->machines[session->machines[b]]))
                simulation_violate(simulation, "view %" PRIu64 " names a slot twice", session->view);
}

/* Every member has proposed this number, does not leave, and reaches all the others. */
static void check_proposals(struct simulation *simulation, const struct session *session)
{
    for (size_t m = 0; m < session->count; m++) {
        const size_t machine = session->machines[m];
        const struct proposal *proposal =
            find_proposal(simulation, machine, session->incarnations[m], session->view);
        if (!proposal) {
            if (session->count > 1) /* a lone worker tells nobody */
                simulation_violate(simulation, "view %" PRIu64 " names m%zu, which did not propose it",
                                   session->view, machine);
            continue;
        }
        if (proposal->leaving)
            simulation_violate(simulation, "view %" PRIu64 " has m%zu as a member, which leaves",
                               session->view, machine);
        for (size_t other = 0; other < session->count; other++)
            if (!reaches(proposal, &session->members[other].worker.id))
                simulation_violate(simulation,
                                   "view %" PRIu64 " has m%zu and m%zu, which do not reach each other",
                                   session->view, machine, session->machines[other]);
        if (session->members[m].step != proposal->step && session->members[m].step != 0)
            simulation_violate(simulation,
                               "view %" PRIu64 " says step %" PRIu64 " of m%zu, which said %" PRIu64,
                               session->view, session->members[m].step, machine, proposal->step);
    }
}

/* All members have signed it, in these lives of theirs. */
static void check_signatures(struct simulation *simulation, struct session *session,
                             const struct machine *machine)
{
    const struct signature *own =
        find_signature(simulation, machine->index, machine->incarnation, session->view);
    if (!own) {
        simulation_violate(simulation, "m%zu holds view %" PRIu64 ", which it did not sign", machine->index,
                           session->view);
        return;
    }
    memcpy(session->digest, own->digest, MST_SHA256_BYTES);
    for (size_t m = 0; m < session->count; m++) {
        const struct signature *signature =
            find_signature(simulation, session->machines[m], session->incarnations[m], session->view);
        if (!signature || memcmp(signature->digest, own->digest, MST_SHA256_BYTES) != 0)
            simulation_violate(simulation, "m%zu holds view %" PRIu64 " without the signature of m%zu",
                               machine->index, session->view, session->machines[m]);
    }
}

static void check_against_others(struct simulation *simulation, const struct session *session)
{
    const unsigned flags = simulation->scenario->flags;
    for (size_t s = 0; s < simulation->session_count; s++) {
        const struct session *other = &simulation->sessions[s];
        if (other == session)
            continue;
        const bool same = same_lineage(other->lineage, session->lineage);
        if (other->view == session->view && same && !(flags & SCENARIO_MINORITY))
            simulation_violate(simulation, "two views hold under number %" PRIu64, session->view);
        if (!same && !(flags & SCENARIO_LINEAGES))
            simulation_violate(simulation, "view %" PRIu64 " and view %" PRIu64 " have nothing in common",
                               other->view, session->view);
        if (memcmp(other->digest, session->digest, MST_SHA256_BYTES) == 0)
            simulation_violate(simulation, "two views have the same digest");
    }
}

/* A view that nobody was told before. */
static void check_new(struct simulation *simulation, struct session *session, const struct machine *machine)
{
    check_signatures(simulation, session, machine);
    check_proposals(simulation, session);
    check_against_others(simulation, session);
    check_shape(simulation, session);
}

static void say_view(struct simulation *simulation, const struct machine *machine,
                     const struct session *session)
{
    char text[8 * MACHINES] = "";
    for (size_t m = 0; m < session->count && simulation->trace; m++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), " m%zu", session->machines[m]);
    simulation_say(simulation, "m%zu holds view %" PRIu64 ":%s", machine->index, session->view, text);
}

size_t rules_committed(struct machine *machine, const struct membership_view *view)
{
    struct simulation *simulation = machine->simulation;
    const uint64_t value = hash_view(view);
    struct session *session = NULL;
    bool self = false;
    assert_true(view->count <= MACHINES);
    for (size_t s = 0; s < simulation->session_count && !session; s++)
        if (simulation->sessions[s].hash == value && simulation->sessions[s].view == view->view)
            session = &simulation->sessions[s];
    if (machine->job.stage != JOB_NONE)
        simulation_violate(simulation, "m%zu is given view %" PRIu64 " while its job runs", machine->index,
                           view->view);
    if (view->view <= machine->committed_view)
        simulation_violate(simulation, "m%zu is given view %" PRIu64 " after %" PRIu64, machine->index,
                           view->view, machine->committed_view);
    machine->committed_view = view->view;
    for (size_t m = 0; m < view->count; m++)
        self = self || membership_id_equal(&view->members[m].worker.id, &machine->self.id);
    if (!self)
        simulation_violate(simulation, "m%zu is given view %" PRIu64 ", which does not name it",
                           machine->index, view->view);
    if (!session) {
        session = new_session(simulation, view);
        say_view(simulation, machine, session);
        check_new(simulation, session, machine);
    } else {
        say_view(simulation, machine, session);
        const struct signature *own =
            find_signature(simulation, machine->index, machine->incarnation, session->view);
        if (!own || memcmp(own->digest, session->digest, MST_SHA256_BYTES) != 0)
            simulation_violate(simulation, "m%zu holds view %" PRIu64 " under another digest", machine->index,
                               session->view);
    }
    return (size_t)(session - simulation->sessions);
}

void rules_left(struct machine *machine, uint64_t view)
{
    if (!machine->leaving)
        simulation_violate(machine->simulation, "m%zu is let go from view %" PRIu64 ", and did not ask",
                           machine->index, view);
}

/* ---- training ---- */

/* Is a later incarnation's or the same one's signature under a higher number on this member's disk? */
void rules_step(struct simulation *simulation, size_t index)
{
    const struct session *session = &simulation->sessions[index];
    const unsigned flags = simulation->scenario->flags;
    simulation->last_step_ns = simulation->now_ns;
    simulation->latest_training = index;
    for (size_t m = 0; m < session->count; m++) {
        const struct machine *machine = &simulation->machines[session->machines[m]];
        const uint64_t view = machine_signed_view(&machine->disk.kept.vow);
        if (view > session->view)
            simulation_violate(simulation,
                               "a step is made in view %" PRIu64 " after m%zu signed view %" PRIu64,
                               session->view, machine->index, view);
    }
    if (flags & SCENARIO_MINORITY)
        return;
    for (size_t s = 0; s < simulation->session_count; s++) {
        const struct session *other = &simulation->sessions[s];
        if (other == session || other->steps_made == 0)
            continue;
        const bool same = same_lineage(other->lineage, session->lineage);
        if (same ? other->view >= session->view : !(flags & SCENARIO_LINEAGES))
            simulation_violate(simulation,
                               "step %" PRIu64 " is made in view %" PRIu64 " after view %" PRIu64
                               " made step %" PRIu64,
                               session->step + 1, session->view, other->view, other->step);
    }
}

/* Where somebody lives on from the last view that made steps, no more than the step under way is lost. */
void rules_synchronised(struct simulation *simulation, size_t index, uint64_t step)
{
    const struct session *session = &simulation->sessions[index], *last = NULL;
    for (size_t m = 0; m < session->count; m++) {
        const struct machine *machine = &simulation->machines[session->machines[m]];
        const uint64_t said = session->members[m].step;
        if (said != machine->step && said != 0)
            simulation_violate(
                simulation, "view %" PRIu64 " says that m%zu is after step %" PRIu64 ", it is after %" PRIu64,
                session->view, machine->index, said, machine->step);
        if (said != 0 && step < machine->step)
            simulation_violate(simulation, "m%zu goes back from step %" PRIu64 " to %" PRIu64, machine->index,
                               machine->step, step);
    }
    for (size_t s = 0; s < simulation->session_count; s++) {
        const struct session *other = &simulation->sessions[s];
        if (other != session && other->steps_made > 0 && same_lineage(other->lineage, session->lineage) &&
            (!last || other->view > last->view))
            last = other;
    }
    for (size_t m = 0; last && m < session->count; m++)
        for (size_t l = 0; l < last->count; l++)
            if (session->incarnations[m] == last->incarnations[l] && step + 1 < last->step)
                simulation_violate(simulation,
                                   "view %" PRIu64 " begins after step %" PRIu64 ", and view %" PRIu64
                                   " made step %" PRIu64,
                                   session->view, step, last->view, last->step);
}
