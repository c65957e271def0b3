/* SPDX-License-Identifier: Apache-2.0 */
#include "simulation.h"

#include "simulation_state.h"

#include <inttypes.h>

#define EVENTS_MAX  400000   /* a run that needs more does not come to an end */
#define PATIENCE_NS (90 * S) /* from when nothing breaks any more */
#define SETTLE_NS   (1 * S)  /* so long it must be as it shall be */
#define CALM_NS     (3 * S)  /* and so long it must stay as it is then */
#define PAUSE_NS    (15 * S) /* nobody trains in a scenario that ends without a quorum */

void *simulation_grow(void *array, size_t *count, size_t *capacity, size_t entry_bytes)
{
    if (*count == *capacity) {
        *capacity = *capacity ? 2 * *capacity : 64;
        array = reallocarray(array, *capacity, entry_bytes);
        assert_non_null(array);
    }
    memset((char *)array + *count * entry_bytes, 0, entry_bytes);
    (*count)++;
    return array;
}

void simulation_violate(struct simulation *simulation, const char *format, ...)
{
    va_list arguments;
    if (simulation->outcome->violated)
        return;
    simulation->outcome->violated = true;
    va_start(arguments, format);
    (void)vsnprintf(simulation->outcome->text, sizeof simulation->outcome->text, format, arguments);
    va_end(arguments);
    simulation_say(simulation, "BROKEN RULE: %s", simulation->outcome->text);
}

void simulation_say(struct simulation *simulation, const char *format, ...)
{
    va_list arguments;
    if (!simulation->trace)
        return;
    (void)fprintf(simulation->trace, "%10.3f  ", (double)simulation->now_ns / 1e6);
    va_start(arguments, format);
    (void)vfprintf(simulation->trace, format, arguments);
    va_end(arguments);
    (void)fputc('\n', simulation->trace);
}

uint64_t simulation_below(struct simulation *simulation, uint64_t bound)
{
    return test_below(&simulation->random, bound);
}

uint64_t simulation_between(struct simulation *simulation, uint64_t low, uint64_t high)
{
    return low + test_below(&simulation->random, high - low + 1);
}

bool simulation_is_quiet(const struct simulation *simulation)
{
    return simulation->now_ns >= simulation->quiet_ns;
}

const char *simulation_name(const struct simulation_scenario *scenario)
{
    return scenario->name;
}

/* ---- events by time ---- */

static bool is_before(const struct event *a, const struct event *b)
{
    return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->order < b->order;
}

void simulation_push(struct simulation *simulation, struct event event)
{
    event.order = simulation->next_order++;
    size_t at = simulation->heap_count;
    simulation->heap = simulation_grow(simulation->heap, &simulation->heap_count, &simulation->heap_capacity,
                                       sizeof *simulation->heap);
    for (; at > 0 && is_before(&event, &simulation->heap[(at - 1) / 2]); at = (at - 1) / 2)
        simulation->heap[at] = simulation->heap[(at - 1) / 2];
    simulation->heap[at] = event;
}

static struct event pop(struct simulation *simulation)
{
    const struct event first = simulation->heap[0];
    const struct event last = simulation->heap[--simulation->heap_count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= simulation->heap_count)
            break;
        if (child + 1 < simulation->heap_count &&
            is_before(&simulation->heap[child + 1], &simulation->heap[child]))
            child++;
        if (!is_before(&simulation->heap[child], &last))
            break;
        simulation->heap[at] = simulation->heap[child];
        at = child;
    }
    if (simulation->heap_count > 0)
        simulation->heap[at] = last;
    return first;
}

/* ---- what is expected ---- */

static bool same_slot(const struct machine *a, const struct machine *b)
{
    return memcmp(a->slot.bytes, b->slot.bytes, sizeof a->slot.bytes) == 0;
}

static bool is_member(const struct session *session, const struct machine *machine)
{
    for (size_t m = 0; m < session->count; m++)
        if (session->machines[m] == machine->index && session->incarnations[m] == machine->incarnation)
            return true;
    return false;
}

/* May this machine, which shall run, be outside of the view? Where the view is full, or its slot is held. */
static bool is_surplus(const struct simulation *simulation, const struct session *session,
                       const struct machine *machine)
{
    if (session->count == simulation->scenario->most)
        return true;
    for (size_t m = 0; m < session->count; m++)
        if (same_slot(&simulation->machines[session->machines[m]], machine))
            return true;
    return false;
}

/* The view in which all train that shall run; SIZE_MAX: there is none yet. */
static size_t find_settled(const struct simulation *simulation)
{
    const size_t found = simulation->latest_training;
    if (found == SIZE_MAX || simulation->last_step_ns < simulation->quiet_ns)
        return SIZE_MAX;
    const struct session *session = &simulation->sessions[found];
    for (size_t m = 0; m < session->count; m++) {
        const struct machine *machine = &simulation->machines[session->machines[m]];
        for (size_t other = 0; other < session->count; other++)
            if (!network_is_calm(simulation, session->machines[m], session->machines[other]))
                return SIZE_MAX;
        if (!machine->wanted || machine->stage != MACHINE_RUNNING || machine->job.stage != JOB_TRAINING ||
            machine->incarnation != session->incarnations[m])
            return SIZE_MAX;
    }
    for (size_t m = 0; m < simulation->machine_count; m++) {
        const struct machine *machine = &simulation->machines[m];
        if (machine->wanted && !is_member(session, machine) && !is_surplus(simulation, session, machine))
            return SIZE_MAX;
        if (machine->comes_back || (!machine->wanted && machine->membership))
            return SIZE_MAX; /* about to leave */
    }
    return found;
}

/* What was under way when it became quiet may still arrive. */
static void check_settled(struct simulation *simulation)
{
    const size_t found = find_settled(simulation);
    if (found == simulation->settled_session) {
        simulation->settled =
            simulation->settled ||
            (found != SIZE_MAX && simulation->now_ns > simulation->settled_at_ns + SETTLE_NS);
        return;
    }
    if (simulation->settled)
        simulation_violate(simulation, "a view that all were in was left although nothing had happened");
    simulation->settled_session = found;
    simulation->settled_at_ns = simulation->now_ns;
}

/* Somebody of a set must have made steps since the mark, or nobody may have. */
static void check_expectation(struct simulation *simulation, const struct event *event)
{
    bool progress = false;
    for (size_t m = 0; m < simulation->machine_count; m++) {
        const struct machine *machine = &simulation->machines[m];
        if (event->number & 1ULL << m)
            progress = progress || machine->step > machine->marked_step + 1;
    }
    if (progress != event->flag)
        simulation_violate(simulation, "the machines of set %#" PRIx64 " %s", event->number,
                           progress ? "train, and must not" : "do not train, and should");
}

static void mark(struct simulation *simulation)
{
    for (size_t m = 0; m < simulation->machine_count; m++)
        simulation->machines[m].marked_step = simulation->machines[m].step;
}

/* From here on nothing breaks any more. */
static void quieten(struct simulation *simulation)
{
    simulation_say(simulation, "quiet");
    for (size_t c = 0; c < simulation->cut_count; c++)
        if (!(simulation->scenario->flags & SCENARIO_PAUSED))
            network_heal(simulation, c);
    for (size_t c = 0; c < simulation->crash_point_count; c++)
        simulation->crash_points[c].countdown = 0;
    simulation->save_fails_one_in = 0;
}

/* ---- the run ---- */

static void happen(struct simulation *simulation, const struct event *event)
{
    switch (event->kind) {
    case EVENT_START:
    case EVENT_CRASH:
    case EVENT_LEAVE:
    case EVENT_GRACE:
    case EVENT_FREEZE:
    case EVENT_WAKE:
        machine_event(&simulation->machines[event->to], event);
        break;
    case EVENT_CONNECT:
    case EVENT_DELIVER:
    case EVENT_SILENCE:
    case EVENT_STALE:
    case EVENT_RESET:
        network_event(simulation, event);
        break;
    case EVENT_CUT:
        network_cut(simulation, event->number);
        break;
    case EVENT_HEAL:
        network_heal(simulation, event->number);
        break;
    case EVENT_BREAK_DATA:
    case EVENT_JOB_STOPPED:
    case EVENT_JOB_BROKEN:
    case EVENT_JOB_LATE:
    case EVENT_PULSE:
    case EVENT_SYNCHRONISED:
    case EVENT_APPLY:
        job_event(simulation, event);
        break;
    case EVENT_MARK:
        mark(simulation);
        break;
    case EVENT_EXPECT:
        check_expectation(simulation, event);
        break;
    case EVENT_QUIET:
        quieten(simulation);
        break;
    }
}

static struct machine *next_to_tick(struct simulation *simulation, uint64_t *ret_ns)
{
    struct machine *next = NULL;
    *ret_ns = UINT64_MAX;
    for (size_t m = 0; m < simulation->machine_count; m++) {
        struct machine *machine = &simulation->machines[m];
        if (machine->stage != MACHINE_RUNNING)
            continue;
        const uint64_t deadline_ns = membership_deadline_ns(machine->membership);
        if (deadline_ns < *ret_ns) {
            *ret_ns = deadline_ns;
            next = machine;
        }
    }
    return next;
}

/* One event; false: none is left before `end_ns`. */
static bool advance(struct simulation *simulation, uint64_t end_ns)
{
    uint64_t tick_ns;
    struct machine *machine = next_to_tick(simulation, &tick_ns);
    const uint64_t event_ns = simulation->heap_count > 0 ? simulation->heap[0].time_ns : UINT64_MAX;
    if ((tick_ns < event_ns ? tick_ns : event_ns) > end_ns)
        return false;
    if (tick_ns < event_ns) {
        if (tick_ns > simulation->now_ns) /* else it woke too late */
            simulation->now_ns = tick_ns;
        machine_tick(machine);
    } else {
        const struct event event = pop(simulation);
        simulation->now_ns = event.time_ns;
        happen(simulation, &event);
    }
    return true;
}

static bool is_over(const struct simulation *simulation)
{
    if (simulation->outcome->violated)
        return true;
    return simulation->settled && simulation->now_ns > simulation->settled_at_ns + CALM_NS;
}

static void run(struct simulation *simulation)
{
    const bool pauses = simulation->scenario->flags & SCENARIO_PAUSED;
    const uint64_t end_ns = simulation->quiet_ns + (pauses ? PAUSE_NS : PATIENCE_NS);
    size_t events = 0;
    while (!is_over(simulation) && advance(simulation, end_ns)) {
        if (++events > EVENTS_MAX)
            simulation_violate(simulation, "it does not come to an end");
        if (!pauses && simulation_is_quiet(simulation))
            check_settled(simulation);
    }
    if (pauses)
        simulation->settled = simulation->last_step_ns < simulation->quiet_ns;
}

static void release(struct simulation *simulation)
{
    for (size_t m = 0; m < simulation->machine_count; m++)
        machine_release(&simulation->machines[m]);
    network_release(simulation);
    free(simulation->heap);
    free(simulation->signatures);
    free(simulation->proposals);
    free(simulation->held);
    free(simulation->sessions);
    free(simulation);
}

void simulation_run(const struct simulation_scenario *scenario, uint64_t seed, FILE *trace,
                    struct simulation_outcome *ret_outcome)
{
    struct simulation *simulation = calloc(1, sizeof *simulation);
    assert_non_null(simulation);
    *ret_outcome = (struct simulation_outcome){0};
    simulation->scenario = scenario;
    simulation->outcome = ret_outcome;
    simulation->trace = trace;
    simulation->seed = simulation->random = seed;
    simulation->latest_training = simulation->settled_session = SIZE_MAX;
    simulation->machine_count = scenario->machines;
    for (size_t m = 0; m < scenario->machines; m++) {
        char name[32];
        (void)snprintf(name, sizeof name, "train.%zu", m);
        simulation->machines[m].simulation = simulation;
        simulation->machines[m].index = m;
        simulation->machines[m].slot = membership_slot_of(name);
        simulation->machines[m].ipv4 = 0x0a000001U + (uint32_t)m;
    }
    scenario->plan(simulation);
    assert_true(simulation->machine_count <= MACHINES && simulation->delay_ns > 0 && simulation->step_ns > 0);
    simulation_push(simulation, (struct event){.kind = EVENT_QUIET, .time_ns = simulation->quiet_ns});
    run(simulation);
    ret_outcome->settled = simulation->settled;
    if (simulation->settled && !(scenario->flags & SCENARIO_PAUSED)) {
        const struct session *session = &simulation->sessions[simulation->settled_session];
        ret_outcome->settled_ns = simulation->settled_at_ns - simulation->quiet_ns;
        ret_outcome->view = session->view;
        ret_outcome->step = session->step;
    }
    release(simulation);
}
