/* SPDX-License-Identifier: Apache-2.0 */
/* The decision, case by case and under simulated load, with a clock that the test moves. */
#include "../common/test.h"
#include "autoscale/decide.h"
#include "muster/clock.h"

#include <math.h>

#define S MST_NS_PER_S

static struct autoscale_policy policy_of(uint32_t min, uint32_t max)
{
    return (struct autoscale_policy){
        .min = min,
        .max = max,
        .metric = AUTOSCALE_CPU,
        .target = 50,
        .tolerance = 0.1,
        .cooldown_out_ns = 20 * S,
        .cooldown_in_ns = 60 * S,
        .window_ns = 120 * S,
        .average_ns = 15 * S,
    };
}

static struct autoscale_input input_of(uint32_t replicas, double value)
{
    return (struct autoscale_input){.now_ns = 1000 * S,
                                    .replicas = replicas,
                                    .running = replicas,
                                    .value = value,
                                    .is_without_window = true};
}

static void expect(const struct autoscale_decision *decision, enum autoscale_action action,
                   enum autoscale_cause cause, uint32_t to, const char *reason, size_t number)
{
    if (decision->action != action || decision->cause != cause || decision->to != to ||
        !strstr(decision->reason, reason))
        fail_msg("case %zu: %s, %s, %u, '%s' instead of %s, %s, %u, '%s'", number,
                 autoscale_action_text(decision->action), autoscale_cause_text(decision->cause),
                 (unsigned)decision->to, decision->reason, autoscale_action_text(action),
                 autoscale_cause_text(cause), (unsigned)to, reason);
}

static void one_look_decides(void **state)
{
    static const struct {
        uint32_t replicas;
        double value;
        enum autoscale_action action;
        enum autoscale_cause cause;
        uint32_t to;
        const char *reason;
    } cases[] = {
        {3, 50, AUTOSCALE_KEEP, AUTOSCALE_ON_TARGET, 3, "cpu 50.0 % a task, target 50 %"},
        {3, 55, AUTOSCALE_KEEP, AUTOSCALE_ON_TARGET, 3, ""}, /* within the tolerance */
        {3, 55.1, AUTOSCALE_OUT, AUTOSCALE_ABOVE, 4, "4 needed"},
        {3, 100, AUTOSCALE_OUT, AUTOSCALE_ABOVE, 6, "6 needed"},
        {2, 500, AUTOSCALE_OUT, AUTOSCALE_ABOVE, 4, "10 needed, one step at a time"}, /* at most doubled */
        {1, 500, AUTOSCALE_OUT, AUTOSCALE_ABOVE, 2, ""},
        {8, 100, AUTOSCALE_OUT, AUTOSCALE_ABOVE, 10, ""}, /* the maximum */
        {10, 100, AUTOSCALE_KEEP, AUTOSCALE_AT_MAX, 10, "20 needed, and the maximum is 10"},
        {4, 45, AUTOSCALE_KEEP, AUTOSCALE_ON_TARGET, 4, ""},
        {4, 37, AUTOSCALE_KEEP, AUTOSCALE_ON_TARGET, 4, ""}, /* three would stand at 49.3: too near */
        {4, 33, AUTOSCALE_IN, AUTOSCALE_BELOW, 3, "3 will do"},
        {10, 1, AUTOSCALE_IN, AUTOSCALE_BELOW, 5, "2 will do, one step at a time"}, /* at most halved */
        {2, 0, AUTOSCALE_KEEP, AUTOSCALE_AT_MIN, 2, "the minimum is 2"},
        {1, 90, AUTOSCALE_OUT, AUTOSCALE_BELOW_MIN, 2, "the minimum is 2"},
        {12, 90, AUTOSCALE_IN, AUTOSCALE_BEYOND_MAX, 10, "the maximum is 10"},
        {0, 0, AUTOSCALE_HOLD, AUTOSCALE_STOPPED, 0, "somebody scaled it to 0"},
    };
    const struct autoscale_policy policy = policy_of(2, 10);

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        const struct autoscale_input input = input_of(cases[i].replicas, cases[i].value);
        struct autoscale_memory memory = {.since_ns = 0};
        struct autoscale_policy its = policy;
        struct autoscale_decision decision;
        its.min = cases[i].replicas == 1 && cases[i].value > 100 ? 1 : its.min;
        autoscale_decide(&its, &input, &memory, &decision);
        expect(&decision, cases[i].action, cases[i].cause, cases[i].to, cases[i].reason, i);
        assert_int_equal(decision.from, cases[i].replicas);
    }
}

static void steps_are_what_the_labels_say(void **state)
{
    struct autoscale_policy policy = policy_of(1, 100);
    struct autoscale_memory memory = {.since_ns = 0};
    struct autoscale_input input = input_of(10, 500);
    struct autoscale_decision decision;

    (void)state;
    policy.step_out = 3;
    policy.step_in = 2;
    autoscale_decide(&policy, &input, &memory, &decision);
    expect(&decision, AUTOSCALE_OUT, AUTOSCALE_ABOVE, 13, "", 0);
    input.value = 0;
    autoscale_decide(&policy, &input, &memory, &decision);
    expect(&decision, AUTOSCALE_IN, AUTOSCALE_BELOW, 8, "", 1);
}

/* A queue of 30 of which a task is to have 10 needs three, however many there are now. */
static void a_gauge_counts_in_all(void **state)
{
    struct autoscale_policy policy = policy_of(0, 10);
    struct autoscale_memory memory = {.since_ns = 0};
    struct autoscale_input input = input_of(2, 30);
    struct autoscale_decision decision;

    (void)state;
    policy.metric = AUTOSCALE_GAUGE;
    policy.target = 10;
    (void)snprintf(policy.gauge, sizeof policy.gauge, "queue");
    autoscale_decide(&policy, &input, &memory, &decision);
    expect(&decision, AUTOSCALE_OUT, AUTOSCALE_ABOVE, 3, "gauge 'queue' 30, target 10 a task: 3 needed", 0);
    input.value = 0;
    input.replicas = input.running = 1;
    autoscale_decide(&policy, &input, &memory, &decision);
    expect(&decision, AUTOSCALE_IN, AUTOSCALE_BELOW, 0, "0 will do", 1);
    /* From nothing: whoever reports the queue is another service. */
    input.value = 1;
    input.replicas = input.running = 0;
    autoscale_decide(&policy, &input, &memory, &decision);
    expect(&decision, AUTOSCALE_OUT, AUTOSCALE_ABOVE, 1, "1 needed", 2);
    input.value = 0;
    autoscale_decide(&policy, &input, &memory, &decision);
    expect(&decision, AUTOSCALE_KEEP, AUTOSCALE_ON_TARGET, 0, "", 3);
}

static void what_is_not_known_changes_nothing(void **state)
{
    const struct autoscale_policy policy = policy_of(2, 10);
    struct autoscale_memory memory = {.since_ns = 0};
    struct autoscale_input input = input_of(4, 500);
    struct autoscale_decision decision;

    (void)state;
    input.missing = "no value for 1 of 4 tasks";
    autoscale_decide(&policy, &input, &memory, &decision);
    expect(&decision, AUTOSCALE_HOLD, AUTOSCALE_NO_VALUE, 4, "no value for 1 of 4 tasks", 0);
    assert_false(decision.has_value);
    assert_int_equal(memory.since_ns, 0);
    input.missing = NULL;
    input.rollout = "an update is under way";
    autoscale_decide(&policy, &input, &memory, &decision);
    expect(&decision, AUTOSCALE_HOLD, AUTOSCALE_ROLLOUT, 4, "an update is under way", 1);
    /* Not even what the bounds ask for. */
    input.replicas = input.running = 12;
    autoscale_decide(&policy, &input, &memory, &decision);
    expect(&decision, AUTOSCALE_HOLD, AUTOSCALE_ROLLOUT, 12, "", 2);
    input = input_of(4, 500);
    input.running = 3;
    autoscale_decide(&policy, &input, &memory, &decision);
    expect(&decision, AUTOSCALE_HOLD, AUTOSCALE_STARTING, 4, "3 of its 4 tasks run", 3);
}

/* Tasks that no node takes must not keep the idle rest from being scaled in. */
static void tasks_without_room_are_not_waited_for(void **state)
{
    const struct autoscale_policy policy = policy_of(1, 10);
    struct autoscale_memory memory = {.since_ns = 0};
    struct autoscale_input input = input_of(5, 100);
    struct autoscale_decision decision;

    (void)state;
    input.running = 4;
    input.without_room = 1;
    autoscale_decide(&policy, &input, &memory, &decision);
    expect(&decision, AUTOSCALE_HOLD, AUTOSCALE_NO_ROOM, 5, "no node takes 1 of its tasks", 0);
    input.value = 30;
    autoscale_decide(&policy, &input, &memory, &decision);
    expect(&decision, AUTOSCALE_IN, AUTOSCALE_BELOW, 3, "", 1);
}

static void cooldowns_are_kept(void **state)
{
    static const struct {
        enum autoscale_change changed;
        uint64_t ago_s;
        double value;
        enum autoscale_action action;
        enum autoscale_cause cause;
    } cases[] = {
        {AUTOSCALE_BY_US_OUT, 19, 100, AUTOSCALE_HOLD, AUTOSCALE_COOLDOWN},
        {AUTOSCALE_BY_US_OUT, 20, 100, AUTOSCALE_OUT, AUTOSCALE_ABOVE},
        {AUTOSCALE_BY_US_OUT, 59, 10, AUTOSCALE_HOLD, AUTOSCALE_COOLDOWN},
        {AUTOSCALE_BY_US_OUT, 60, 10, AUTOSCALE_IN, AUTOSCALE_BELOW},
        {AUTOSCALE_BY_US_IN, 1, 100, AUTOSCALE_OUT, AUTOSCALE_ABOVE}, /* it was too few: at once */
        {AUTOSCALE_BY_US_IN, 59, 10, AUTOSCALE_HOLD, AUTOSCALE_COOLDOWN},
        {AUTOSCALE_BY_OTHERS, 19, 100, AUTOSCALE_HOLD, AUTOSCALE_COOLDOWN},
        {AUTOSCALE_BY_OTHERS, 20, 100, AUTOSCALE_OUT, AUTOSCALE_ABOVE},
        {AUTOSCALE_BY_OTHERS, 59, 10, AUTOSCALE_HOLD, AUTOSCALE_COOLDOWN},
        {AUTOSCALE_UNCHANGED, 0, 10, AUTOSCALE_IN, AUTOSCALE_BELOW},
    };
    const struct autoscale_policy policy = policy_of(1, 10);

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct autoscale_input input = input_of(4, cases[i].value);
        struct autoscale_memory memory = {.changed = cases[i].changed,
                                          .changed_ns = input.now_ns - cases[i].ago_s * S};
        struct autoscale_decision decision;
        autoscale_decide(&policy, &input, &memory, &decision);
        if (decision.action != cases[i].action || decision.cause != cases[i].cause)
            fail_msg("case %zu: %s, %s: '%s'", i, autoscale_action_text(decision.action),
                     autoscale_cause_text(decision.cause), decision.reason);
    }
}

/* ---- simulated services: load in tasks' worth of 100 %, shared by those that run ---- */

struct simulation {
    struct autoscale_policy policy;
    struct autoscale_memory memory;
    uint64_t now_ns;
    uint32_t replicas;
    uint64_t changed_ns;   /* the newest change; a new task runs 3 s later */
    unsigned outs, ins;    /* decisions */
    uint32_t largest_step; /* in tasks */
    uint64_t closest_ns;   /* between two changes outwards */
    uint64_t last_out_ns;
    uint32_t seed;
    uint64_t interval_ns; /* between looks; 0: 5 s */
};

static struct simulation simulation_of(uint32_t min, uint32_t max, uint32_t replicas)
{
    return (struct simulation){.policy = policy_of(min, max),
                               .now_ns = 100000 * S,
                               .replicas = replicas,
                               .closest_ns = UINT64_MAX,
                               .seed = 1};
}

/* -1 to 1. */
static double noise(struct simulation *simulation)
{
    simulation->seed = simulation->seed * 1664525U + 1013904223U;
    return (double)(simulation->seed >> 8) / (double)(1U << 23) - 1;
}

/* What autoscale_known_update() makes of the stamp. */
static void apply(struct simulation *simulation, const struct autoscale_decision *decision)
{
    const uint32_t step =
        decision->to > decision->from ? decision->to - decision->from : decision->from - decision->to;

    simulation->replicas = decision->to;
    simulation->changed_ns = simulation->memory.changed_ns = simulation->now_ns;
    simulation->memory.changed = decision->action == AUTOSCALE_OUT ? AUTOSCALE_BY_US_OUT : AUTOSCALE_BY_US_IN;
    simulation->largest_step = step > simulation->largest_step ? step : simulation->largest_step;
    if (decision->action == AUTOSCALE_IN) {
        simulation->ins++;
        return;
    }
    if (simulation->last_out_ns > 0 && simulation->now_ns - simulation->last_out_ns < simulation->closest_ns)
        simulation->closest_ns = simulation->now_ns - simulation->last_out_ns;
    simulation->last_out_ns = simulation->now_ns;
    simulation->outs++;
}

/* One look, 5 s after the one before where nothing else is said. */
static void look(struct simulation *simulation, double load, double noise_share)
{
    const uint64_t interval_ns = simulation->interval_ns > 0 ? simulation->interval_ns : 5 * S;
    struct autoscale_input input = {.now_ns = simulation->now_ns += interval_ns,
                                    .interval_ns = interval_ns,
                                    .replicas = simulation->replicas};
    struct autoscale_decision decision;

    input.running =
        simulation->now_ns - simulation->changed_ns >= 3 * S ? input.replicas : input.replicas - 1;
    input.value = 100 * load / (double)simulation->replicas * (1 + noise_share * noise(simulation));
    autoscale_decide(&simulation->policy, &input, &simulation->memory, &decision);
    if (decision.action == AUTOSCALE_OUT || decision.action == AUTOSCALE_IN)
        apply(simulation, &decision);
}

static void run(struct simulation *simulation, unsigned seconds, double load, double noise_share)
{
    for (unsigned s = 0; s < seconds; s += 5)
        look(simulation, load, noise_share);
}

static void noise_does_not_make_it_swing(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 50; seed++) {
        for (double load = 0.3; load < 9; load += 0.37) {
            struct simulation simulation = simulation_of(1, 20, 1);
            unsigned outs, ins;
            simulation.seed = seed;
            run(&simulation, 1800, load, 0.08); /* it settles */
            outs = simulation.outs;
            ins = simulation.ins;
            run(&simulation, 7200, load, 0.08); /* within the tolerance: nothing moves any more */
            if (simulation.outs != outs || simulation.ins != ins)
                fail_msg("seed %u, load %.2f: %u out, %u in after it had settled at %u", (unsigned)seed, load,
                         simulation.outs - outs, simulation.ins - ins, (unsigned)simulation.replicas);
        }
    }
}

/* Noise of 40 % beats any tolerance: it may drift outwards, but not in and out. */
static void strong_noise_moves_it_seldom(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 50; seed++) {
        struct simulation simulation = simulation_of(1, 20, 6);
        simulation.seed = seed;
        run(&simulation, 7200, 3, 0.4);
        if (simulation.outs + simulation.ins > 8)
            fail_msg("seed %u: %u out, %u in within two hours", (unsigned)seed, simulation.outs,
                     simulation.ins);
    }
}

static void a_step_of_load_is_answered_in_bounds(void **state)
{
    struct simulation simulation = simulation_of(1, 20, 1);
    uint32_t most = 0;

    (void)state;
    run(&simulation, 600, 0.4, 0);
    assert_int_equal(simulation.replicas, 1);
    for (unsigned s = 0; s < 120; s += 5) {
        look(&simulation, 6, 0);
        most = simulation.replicas > most ? simulation.replicas : most;
    }
    assert_int_equal(simulation.replicas, 12); /* 6 tasks' worth at 50 % each, within two minutes */
    assert_int_equal(most, 12);                /* and never more */
    assert_true(simulation.closest_ns >= 20 * S);
    assert_true(simulation.largest_step <= 6);
    /* It goes: not before the window and the cooldown have passed. */
    run(&simulation, 115, 0.2, 0);
    assert_int_equal(simulation.replicas, 12);
    run(&simulation, 900, 0.2, 0);
    assert_int_equal(simulation.replicas, 1);
    assert_int_equal(simulation.ins, 4); /* 12, 6, 3, 2, 1 */
}

/* A load that comes and goes faster than the window keeps its tasks. */
static void short_pauses_take_nothing_away(void **state)
{
    struct simulation simulation = simulation_of(1, 20, 1);

    (void)state;
    run(&simulation, 300, 4, 0);
    for (unsigned i = 0; i < 20; i++) {
        run(&simulation, 60, 4, 0);
        run(&simulation, 60, 0.1, 0);
        assert_int_equal(simulation.replicas, 8);
    }
    assert_int_equal(simulation.ins, 0);
}

/* What is left after a restart is the stamp: the last change and its time. */
static void restart(struct simulation *simulation)
{
    const struct autoscale_memory before = simulation->memory;

    simulation->memory =
        (struct autoscale_memory){.changed = before.changed, .changed_ns = before.changed_ns};
}

/* Adding tasks depends on nothing that a restart could lose. */
static void a_restart_while_it_grows_changes_nothing(void **state)
{
    static const double loads[] = {0.4, 1, 1.1, 2.2, 5, 5.2, 9, 9};

    (void)state;
    for (unsigned at_s = 0; at_s < 800; at_s += 5) {
        struct simulation through = simulation_of(1, 20, 1), restarted = through;
        for (unsigned s = 0; s < 800; s += 5) {
            if (s == at_s)
                restart(&restarted);
            look(&through, loads[s / 100], 0.05);
            look(&restarted, loads[s / 100], 0.05);
            assert_int_equal(restarted.replicas, through.replicas);
        }
    }
}

/* Taking away begins to watch anew: later than without the restart, and to where the load rests. */
static void a_restart_never_leaves_too_few(void **state)
{
    static const double loads[] = {0.4, 6, 6, 2.2, 9, 0.1, 3, 3};

    (void)state;
    for (unsigned at_s = 0; at_s < 2400; at_s += 35) {
        struct simulation through = simulation_of(1, 20, 1), restarted = through;
        for (unsigned s = 0; s < 2400; s += 5) {
            if (s == at_s)
                restart(&restarted);
            look(&through, loads[s / 300], 0);
            look(&restarted, loads[s / 300], 0);
            if (restarted.replicas < through.replicas)
                fail_msg("restart at %u s: %u instead of %u at %u s", at_s, (unsigned)restarted.replicas,
                         (unsigned)through.replicas, s);
        }
        run(&restarted, 600, 3, 0);
        assert_in_range(restarted.replicas, 6, 7); /* 300 % at 50 each, or at 45 and less */
        assert_true(restarted.closest_ns >= 20 * S);
    }
}

/* Looks may be further apart than the window is long. */
static void seldom_looks_scale_in_too(void **state)
{
    struct simulation simulation = simulation_of(1, 20, 8);

    (void)state;
    simulation.interval_ns = 600 * S;
    for (unsigned i = 0; i < 12; i++)
        look(&simulation, 0.1, 0);
    assert_int_equal(simulation.replicas, 1);
}

/* Monitors that are away for a while: the window begins anew, for nobody knows what was needed. */
static void a_gap_begins_the_window_anew(void **state)
{
    struct simulation simulation = simulation_of(1, 20, 8);

    (void)state;
    run(&simulation, 200, 4, 0);
    assert_int_equal(simulation.replicas, 8);
    simulation.now_ns += 600 * S;
    run(&simulation, 115, 0.1, 0);
    assert_int_equal(simulation.replicas, 8);
    run(&simulation, 10, 0.1, 0);
    assert_int_equal(simulation.replicas, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_look_decides),
        cmocka_unit_test(steps_are_what_the_labels_say),
        cmocka_unit_test(a_gauge_counts_in_all),
        cmocka_unit_test(what_is_not_known_changes_nothing),
        cmocka_unit_test(tasks_without_room_are_not_waited_for),
        cmocka_unit_test(cooldowns_are_kept),
        cmocka_unit_test(noise_does_not_make_it_swing),
        cmocka_unit_test(strong_noise_moves_it_seldom),
        cmocka_unit_test(a_step_of_load_is_answered_in_bounds),
        cmocka_unit_test(short_pauses_take_nothing_away),
        cmocka_unit_test(a_restart_while_it_grows_changes_nothing),
        cmocka_unit_test(a_restart_never_leaves_too_few),
        cmocka_unit_test(seldom_looks_scale_in_too),
        cmocka_unit_test(a_gap_begins_the_window_anew),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
