/* SPDX-License-Identifier: Apache-2.0 */
/* What is done to the machines: a table of stories, each told in as many ways as there are seeds. */
#include "simulation_state.h"

#define SET(m) (1ULL << (m))

static uint64_t pick(struct simulation *simulation, const uint64_t *values, size_t count)
{
    return values[simulation_below(simulation, count)];
}

static size_t any_machine(struct simulation *simulation)
{
    return simulation_below(simulation, simulation->machine_count);
}

/* ---- single events ---- */

static void at(struct simulation *simulation, uint64_t time_ns, enum event_kind kind, size_t machine,
               uint64_t number)
{
    simulation_push(simulation,
                    (struct event){.kind = kind, .time_ns = time_ns, .to = machine, .number = number});
}

static void start(struct simulation *simulation, size_t machine, uint64_t time_ns)
{
    simulation_push(simulation,
                    (struct event){.kind = EVENT_START, .time_ns = time_ns, .to = machine, .flag = true});
}

static void start_all(struct simulation *simulation, uint64_t within_ns)
{
    for (size_t m = 0; m < simulation->machine_count; m++)
        start(simulation, m, simulation_below(simulation, within_ns));
}

static void crash(struct simulation *simulation, size_t machine, uint64_t time_ns, uint64_t down_ns)
{
    at(simulation, time_ns, EVENT_CRASH, machine, down_ns);
}

static void crash_with_disk(struct simulation *simulation, size_t machine, uint64_t time_ns, uint64_t down_ns)
{
    simulation_push(
        simulation,
        (struct event){
            .kind = EVENT_CRASH, .time_ns = time_ns, .to = machine, .number = down_ns, .flag = true});
}

static struct cut *new_cut(struct simulation *simulation, uint64_t from_ns, uint64_t to_ns)
{
    assert_true(simulation->cut_count < CUTS_MAX);
    const size_t index = simulation->cut_count++;
    at(simulation, from_ns, EVENT_CUT, 0, index);
    if (to_ns > 0)
        at(simulation, to_ns, EVENT_HEAL, 0, index);
    return &simulation->cuts[index];
}

static void cut_pair(struct cut *cut, size_t a, size_t b)
{
    cut->rows[a] |= 1U << b;
    cut->rows[b] |= 1U << a;
}

/* Those of different parts do not reach each other; `parts` by machine. */
static void cut_parts(const struct simulation *simulation, struct cut *cut, const size_t *parts)
{
    for (size_t a = 0; a < simulation->machine_count; a++)
        for (size_t b = 0; b < a; b++)
            if (parts[a] != parts[b])
                cut_pair(cut, a, b);
}

static void expect(struct simulation *simulation, uint64_t from_ns, uint64_t to_ns, uint64_t set,
                   bool progress)
{
    at(simulation, from_ns, EVENT_MARK, 0, 0);
    simulation_push(simulation,
                    (struct event){.kind = EVENT_EXPECT, .time_ns = to_ns, .number = set, .flag = progress});
}

static void crash_at(struct simulation *simulation, enum simulation_crash where, uint64_t nth)
{
    assert_true(simulation->crash_point_count < CRASHES_MAX);
    simulation->crash_points[simulation->crash_point_count++] =
        (struct crash_point){.where = where, .countdown = nth};
}

/* ---- surroundings ---- */

static void network(struct simulation *simulation, uint64_t quiet_ns)
{
    static const uint64_t delays[] = {1 * MS, 5 * MS, 30 * MS, 100 * MS};
    simulation->delay_ns = pick(simulation, delays, MST_ARRAY_COUNT(delays));
    simulation->step_ns = simulation_between(simulation, 30 * MS, 80 * MS);
    simulation->quiet_ns = quiet_ns;
}

static void fast_network(struct simulation *simulation, uint64_t quiet_ns)
{
    network(simulation, quiet_ns);
    simulation->delay_ns = simulation_between(simulation, 1, 5) * MS;
}

static uint64_t some_time(struct simulation *simulation, uint64_t from_ns)
{
    return simulation_between(simulation, from_ns, simulation->quiet_ns);
}

/* Two or three parts, or one pair, or one direction of it. */
static void some_cut(struct simulation *simulation, uint64_t from_ns)
{
    const uint64_t begin_ns = some_time(simulation, from_ns);
    static const uint64_t lengths[] = {50 * MS, 300 * MS, 1000 * MS, 2500 * MS, 4000 * MS};
    struct cut *cut = new_cut(simulation, begin_ns,
                              begin_ns + pick(simulation, lengths, MST_ARRAY_COUNT(lengths)) +
                                  simulation_below(simulation, 500 * MS));
    const size_t a = any_machine(simulation), b = any_machine(simulation);
    const uint64_t kind = simulation_below(simulation, 4);
    if (kind < 2) {
        size_t parts[MACHINES];
        for (size_t m = 0; m < simulation->machine_count; m++)
            parts[m] = simulation_below(simulation, 2 + kind);
        cut_parts(simulation, cut, parts);
    } else if (a != b && kind == 2) {
        cut_pair(cut, a, b);
    } else if (a != b) {
        cut->rows[a] |= 1U << b;
    }
}

static void some_resets(struct simulation *simulation, uint64_t from_ns, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        const size_t a = any_machine(simulation), b = any_machine(simulation);
        if (a != b)
            simulation_push(
                simulation,
                (struct event){.kind = simulation_below(simulation, 3) ? EVENT_RESET : EVENT_BREAK_DATA,
                               .time_ns = some_time(simulation, from_ns),
                               .from = a,
                               .to = b});
    }
}

static void some_crash_points(struct simulation *simulation, uint64_t count)
{
    for (uint64_t c = 0; c < count; c++)
        crash_at(simulation,
                 (enum simulation_crash)(1 + simulation_below(simulation, SIMULATION_CRASH_COUNT - 1)),
                 1 + simulation_below(simulation, 6 * simulation->machine_count));
}

/* Everything that may break, from a time on. Restarts take their turn by themselves. */
static void chaos(struct simulation *simulation, uint64_t from_ns)
{
    const bool restless = simulation_below(simulation, 4) == 0;
    for (uint64_t c = simulation_below(simulation, restless ? 9 : 4); c > 0; c--)
        some_cut(simulation, from_ns);
    some_resets(simulation, from_ns, simulation_below(simulation, restless ? 40 : 5));
    some_crash_points(simulation, simulation_below(simulation, 4));
    for (uint64_t c = simulation_below(simulation, 4); c > 0; c--)
        crash(simulation, any_machine(simulation), some_time(simulation, from_ns), 0);
    for (uint64_t f = simulation_below(simulation, 4); f > 0; f--)
        at(simulation, some_time(simulation, from_ns), EVENT_FREEZE, any_machine(simulation),
           simulation_between(simulation, 300 * MS, 4 * S));
    if (simulation_below(simulation, 16) == 0)
        simulation->save_fails_one_in = 10;
}

/* ---- stories ---- */

static void plan_stable(struct simulation *simulation)
{
    static const uint64_t delays[] = {1 * MS, 50 * MS, 300 * MS, 1200 * MS};
    network(simulation, 5 * S);
    simulation->delay_ns = pick(simulation, delays, MST_ARRAY_COUNT(delays));
    start_all(simulation, simulation_below(simulation, 3) == 0 ? 5 * S : 300 * MS);
}

static void plan_chaos(struct simulation *simulation)
{
    network(simulation, simulation_between(simulation, 5 * S, 10 * S));
    start_all(simulation, 2 * S);
    chaos(simulation, 300 * MS);
}

/* Links that break while many agree: lists are signed by some, and never hold. */
static void plan_torn(struct simulation *simulation)
{
    network(simulation, 12 * S);
    start_all(simulation, 200 * MS);
    for (size_t c = 0; c < CUTS_MAX - 2; c++)
        some_cut(simulation, 2 * S);
    some_resets(simulation, 2 * S, 10 * simulation->machine_count);
}

/* Workers come and go while other things break. */
static void plan_elastic(struct simulation *simulation)
{
    network(simulation, simulation_between(simulation, 6 * S, 10 * S));
    start_all(simulation, 4 * S);
    for (uint64_t l = simulation_below(simulation, 4); l > 0; l--) {
        const size_t machine = any_machine(simulation);
        const uint64_t time_ns = some_time(simulation, S);
        at(simulation, time_ns, EVENT_LEAVE, machine, 0);
        const uint64_t back_ns = time_ns + simulation_between(simulation, 500 * MS, 4 * S);
        start(simulation, machine, back_ns < simulation->quiet_ns ? back_ns : simulation->quiet_ns);
    }
    if (simulation_below(simulation, 3) > 0)
        chaos(simulation, 300 * MS);
}

/* All at nearly the same time; the checkpoints differ by then. */
static void plan_all_killed(struct simulation *simulation)
{
    network(simulation, 6 * S);
    start_all(simulation, 300 * MS);
    if (simulation_below(simulation, 2) == 0) /* somebody is left behind before */
        crash(simulation, any_machine(simulation), 3 * S, 4 * S);
    for (size_t m = 0; m < simulation->machine_count; m++)
        crash(simulation, m, 4500 * MS + simulation_below(simulation, 200 * MS), 0);
}

/* The one that is left must wait, and goes on once the first of the others is back. Where they die one after
 * the other, a list of two may have been signed by one in between: then it takes that other one. */
static void plan_two_of_three_killed(struct simulation *simulation)
{
    fast_network(simulation, 12 * S);
    start_all(simulation, 300 * MS);
    const size_t survivor = any_machine(simulation);
    const size_t early = (survivor + 1 + simulation_below(simulation, 2)) % 3;
    const size_t late = 3 - survivor - early;
    const bool at_once = simulation_below(simulation, 3) > 0;
    crash(simulation, early, 4 * S, 5 * S);
    crash(simulation, late, 4 * S + (at_once ? 0 : simulation_below(simulation, 20 * MS)),
          at_once ? 30 * S : 6 * S);
    if (at_once)
        expect(simulation, 6500 * MS, 8800 * MS, SET(survivor), false);
    expect(simulation, 12 * S, 15 * S, SET(survivor) | SET(early), true);
}

/* Who has the quorum goes on, and who has not waits. */
static void plan_halves(struct simulation *simulation)
{
    size_t parts[MACHINES] = {0}, sizes[2] = {0};
    fast_network(simulation, 12 * S);
    start_all(simulation, 100 * MS);
    const uint64_t turn = simulation_below(simulation, simulation->machine_count);
    uint64_t sets[2] = {0};
    for (size_t m = 0; m < simulation->machine_count; m++) {
        parts[m] = (m + turn) % simulation->machine_count < simulation->machine_count / 2;
        sizes[parts[m]]++;
        sets[parts[m]] |= SET(m);
    }
    const size_t on = sizes[0] == sizes[1] ? parts[0] : sizes[1] > sizes[0];
    cut_parts(simulation, new_cut(simulation, 4 * S, 12 * S), parts);
    expect(simulation, 8 * S, 11 * S, sets[on], true);
    expect(simulation, 8 * S, 11 * S, sets[1 - on], false);
}

/* None of three parts has a quorum, as long as it lasts. */
static void plan_three_parts(struct simulation *simulation)
{
    static const size_t parts[] = {0, 0, 1, 1, 2};
    size_t turned[MACHINES];
    fast_network(simulation, 12 * S);
    start_all(simulation, 100 * MS);
    const size_t turn = any_machine(simulation);
    for (size_t m = 0; m < simulation->machine_count; m++)
        turned[m] = parts[(m + turn) % MST_ARRAY_COUNT(parts)];
    cut_parts(simulation, new_cut(simulation, 4 * S, 12 * S), turned);
    expect(simulation, 8 * S, 11 * S, SET(simulation->machine_count) - 1, false);
}

/* Two reach the third and not each other, or hear but are not heard. All but one go on. */
static void plan_one_pair(struct simulation *simulation)
{
    fast_network(simulation, 14 * S);
    start_all(simulation, 100 * MS);
    const size_t a = any_machine(simulation);
    const size_t b =
        (a + 1 + simulation_below(simulation, simulation->machine_count - 1)) % simulation->machine_count;
    struct cut *cut = new_cut(simulation, 4 * S, 14 * S);
    if (simulation_below(simulation, 2) == 0)
        cut_pair(cut, a, b);
    else
        cut->rows[a] |= 1U << b;
    expect(simulation, 9 * S, 13 * S, SET(simulation->machine_count) - 1, true);
}

/* Two groups form their first views apart, and meet. */
static void plan_two_groups(struct simulation *simulation)
{
    size_t parts[MACHINES];
    network(simulation, 6 * S);
    start_all(simulation, 1 * S);
    const uint64_t size = simulation_between(simulation, 2, simulation->machine_count - 2);
    for (size_t m = 0; m < simulation->machine_count; m++)
        parts[m] = m < size;
    cut_parts(simulation, new_cut(simulation, 0, 6 * S), parts);
    if (simulation_below(simulation, 2) == 0)
        chaos(simulation, 3 * S);
}

/* 3 -> 5 -> 2, as `docker service scale` does it. */
static void plan_scale(struct simulation *simulation)
{
    network(simulation, 10 * S);
    for (size_t m = 0; m < 3; m++)
        start(simulation, m, simulation_below(simulation, 300 * MS));
    for (size_t m = 3; m < 5; m++)
        start(simulation, m, 3 * S + simulation_below(simulation, 300 * MS));
    const size_t turn = any_machine(simulation);
    const uint64_t spread_ns = simulation_below(simulation, 2) == 0 ? 3 * S : 50 * MS;
    for (size_t m = 0; m < 3; m++)
        at(simulation, 6 * S + simulation_below(simulation, spread_ns), EVENT_LEAVE, (m + turn) % 5, 0);
    const uint64_t kind = simulation_below(simulation, 4);
    if (kind == 1)
        some_resets(simulation, 3 * S, 5);
    else if (kind == 2)
        crash_at(simulation, simulation_below(simulation, 2) ? SIMULATION_CRASH_LEAVE : SIMULATION_CRASH_LEFT,
                 1 + simulation_below(simulation, 4));
    else if (kind == 3)
        crash(simulation, any_machine(simulation), some_time(simulation, 3 * S), 0);
}

/* A second task of a slot that is there: it waits, and takes the place when it is free. */
static void plan_same_slot(struct simulation *simulation)
{
    network(simulation, 12 * S);
    const size_t last = simulation->machine_count - 1;
    const size_t twin = simulation_below(simulation, last);
    simulation->machines[last].slot = simulation->machines[twin].slot;
    for (size_t m = 0; m < last; m++)
        start(simulation, m, simulation_below(simulation, 300 * MS));
    start(simulation, last, simulation_between(simulation, 2 * S, 4 * S));
    if (simulation_below(simulation, 2) == 0)
        crash(simulation, twin, 5 * S, simulation_between(simulation, 100 * MS, 5 * S));
}

static void plan_minority(struct simulation *simulation)
{
    fast_network(simulation, 6 * S);
    start_all(simulation, 100 * MS);
    const size_t survivor = any_machine(simulation);
    for (size_t m = 0; m < simulation->machine_count; m++)
        if (m != survivor)
            crash(simulation, m, 4 * S + simulation_below(simulation, 50 * MS), 20 * S);
    expect(simulation, 8 * S, 10 * S, SET(survivor), true);
}

/* One after the other, or all. No cuts: what a lost disk had signed nobody can know. */
static void plan_disks_lost(struct simulation *simulation)
{
    network(simulation, 10 * S);
    start_all(simulation, 300 * MS);
    if (simulation_below(simulation, 2) == 0) {
        for (size_t m = 0; m < simulation->machine_count; m++)
            crash_with_disk(simulation, m, 4 * S + simulation_below(simulation, 50 * MS), 0);
        return;
    }
    crash_with_disk(simulation, any_machine(simulation), 4 * S, 0);
    crash_with_disk(simulation, any_machine(simulation), 8 * S, 0);
}

/* Nobody comes back, and one of three is left: it waits for ever, and says so. */
static void plan_pause(struct simulation *simulation)
{
    fast_network(simulation, 10 * S);
    start_all(simulation, 100 * MS);
    const size_t survivor = any_machine(simulation);
    for (size_t m = 0; m < simulation->machine_count; m++)
        if (m != survivor)
            crash(simulation, m, 4 * S, 60 * S);
}

#define SCENARIO(...) (&(const struct simulation_scenario){__VA_ARGS__})

const struct simulation_scenario *const simulation_scenarios[] = {
    SCENARIO("one alone", 1, 1, 1, 1, 0, plan_chaos),
    SCENARIO("2 in a stable network", 2, 2, 1, 2, 0, plan_stable),
    SCENARIO("5 in a stable network", 5, 5, 1, 5, 0, plan_stable),
    SCENARIO("3 to 8 in a stable network", 8, 5, 3, 8, 0, plan_stable),
    SCENARIO("6 for 4 places", 6, 4, 1, 4, 0, plan_stable),
    SCENARIO("2, anything breaks", 2, 2, 1, 2, 0, plan_chaos),
    SCENARIO("3, anything breaks", 3, 3, 1, 3, 0, plan_chaos),
    SCENARIO("5, anything breaks", 5, 5, 1, 5, 0, plan_chaos),
    SCENARIO("8, anything breaks", 8, 8, 1, 8, 0, plan_chaos),
    SCENARIO("5 for 4 places, anything breaks", 5, 4, 1, 4, 0, plan_chaos),
    SCENARIO("3, torn links", 3, 3, 1, 3, 0, plan_torn),
    SCENARIO("5, torn links", 5, 5, 1, 5, 0, plan_torn),
    SCENARIO("8, torn links", 8, 8, 1, 8, 0, plan_torn),
    SCENARIO("3 to 5, coming and going", 5, 3, 2, 5, 0, plan_elastic),
    SCENARIO("2 to 8, coming and going", 8, 2, 1, 8, SCENARIO_LINEAGES, plan_elastic),
    SCENARIO("3, all killed", 3, 3, 1, 3, 0, plan_all_killed),
    SCENARIO("5, all killed", 5, 5, 1, 5, 0, plan_all_killed),
    SCENARIO("two of three killed", 3, 3, 1, 3, 0, plan_two_of_three_killed),
    SCENARIO("halves of 2", 2, 2, 1, 2, 0, plan_halves),
    SCENARIO("halves of 4", 4, 4, 1, 4, 0, plan_halves),
    SCENARIO("3 and 2 of 5", 5, 5, 1, 5, 0, plan_halves),
    SCENARIO("halves of 8", 8, 8, 1, 8, 0, plan_halves),
    SCENARIO("three parts of 5", 5, 5, 1, 5, 0, plan_three_parts),
    SCENARIO("a pair of 3 cut", 3, 3, 1, 3, 0, plan_one_pair),
    SCENARIO("a pair of 5 cut", 5, 5, 1, 5, 0, plan_one_pair),
    SCENARIO("two groups meet", 6, 2, 1, 8, SCENARIO_LINEAGES, plan_two_groups),
    SCENARIO("3 to 5 to 2", 5, 3, 1, 5, 0, plan_scale),
    SCENARIO("a slot twice", 4, 3, 1, 3, 0, plan_same_slot),
    SCENARIO("a minority allowed", 3, 3, 1, 3, SCENARIO_MINORITY, plan_minority),
    SCENARIO("disks lost", 3, 3, 1, 3, SCENARIO_LINEAGES | SCENARIO_DISKS_LOST, plan_disks_lost),
    SCENARIO("one of three left", 3, 3, 1, 3, SCENARIO_PAUSED, plan_pause),
};
const size_t simulation_scenario_count = MST_ARRAY_COUNT(simulation_scenarios);
