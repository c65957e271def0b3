/* SPDX-License-Identifier: Apache-2.0 */
/* The real state machine in a network that breaks in every way that we can think of (simulation.h), and the
 * same with faults put into it, each of which must be found. MUSTER_SEEDS=10000 runs so many seeds of each
 * story, MUSTER_TRACE="SEED STORY" prints what happens in one run. */
#include "membership_fault.h"
#include "simulation.h"
#include "test.h"

#include <inttypes.h>

#define TRACE_TAIL_BYTES 6000 /* of a run that failed */
#define FAULT_RUNS       2000 /* at most, until a fault must have been found */

enum membership_fault membership_fault = MEMBERSHIP_FAULT_NONE;

static uint64_t number_of(const char *variable, uint64_t usual)
{
    const char *text = getenv(variable);
    return text ? strtoull(text, NULL, 10) : usual;
}

static bool fails(const struct simulation_outcome *outcome)
{
    return outcome->violated || !outcome->settled;
}

/* The same again, for people. */
static void show(const struct simulation_scenario *scenario, uint64_t seed)
{
    struct simulation_outcome outcome;
    char *text = NULL;
    size_t bytes = 0;
    FILE *trace = open_memstream(&text, &bytes);
    assert_non_null(trace);
    simulation_run(scenario, seed, trace, &outcome);
    (void)fclose(trace);
    (void)fputs(bytes > TRACE_TAIL_BYTES ? text + bytes - TRACE_TAIL_BYTES : text, stderr);
    free(text);
}

static void check(const struct simulation_scenario *scenario, uint64_t seed,
                  const struct simulation_outcome *outcome)
{
    if (!fails(outcome))
        return;
    show(scenario, seed);
    fail_msg("seed %" PRIu64 ", '%s': %s", seed, simulation_name(scenario),
             outcome->violated ? outcome->text : "no view that all are in");
}

static void add(struct simulation_outcome *sum, const struct simulation_outcome *outcome)
{
    sum->commits += outcome->commits;
    sum->signatures += outcome->signatures;
    sum->messages += outcome->messages;
    sum->restarts += outcome->restarts;
    sum->refused += outcome->refused;
    sum->left += outcome->left;
    sum->saves += outcome->saves;
    for (size_t c = 0; c < SIMULATION_CRASH_COUNT; c++)
        sum->crashes[c] += outcome->crashes[c];
    if (outcome->settled_ns > sum->settled_ns)
        sum->settled_ns = outcome->settled_ns;
}

/* 500 seeds in the suite, dealt over the stories; with MUSTER_SEEDS so many of each. */
static void whatever_breaks_the_rules_hold_and_all_go_on_together_afterwards(void **state)
{
    (void)state;
    struct simulation_outcome sum = {0};
    const uint64_t of_each = number_of("MUSTER_SEEDS", getenv("MUSTER_TEST_LONG") ? 10000 : 0);
    const uint64_t runs = of_each > 0 ? of_each * simulation_scenario_count : 500;
    const uint64_t first = number_of("MUSTER_FIRST_SEED", 0);
    for (uint64_t run = 0; run < runs; run++) {
        const struct simulation_scenario *scenario = simulation_scenarios[run % simulation_scenario_count];
        struct simulation_outcome outcome;
        simulation_run(scenario, first + run, NULL, &outcome);
        check(scenario, first + run, &outcome);
        add(&sum, &outcome);
    }
    print_message("%" PRIu64
                  " runs, %zu commits, %zu signatures, %zu messages, %zu restarts, %zu refused, %zu "
                  "left, settled within %.1f s\n",
                  runs, sum.commits, sum.signatures, sum.messages, sum.restarts, sum.refused, sum.left,
                  (double)sum.settled_ns / 1e9);
    /* What shall have been tried was tried. */
    for (size_t c = 0; c < SIMULATION_CRASH_COUNT; c++) {
        print_message("crashed at point %zu: %zu\n", c, sum.crashes[c]);
        assert_true(sum.crashes[c] > 0);
    }
    assert_true(sum.refused > 0 && sum.left > 0);
}

/* A machine that is broken in one way, until a rule finds it. */
static void find_fault(enum membership_fault fault, const char *name)
{
    for (uint64_t run = 0; run < FAULT_RUNS; run++) {
        const struct simulation_scenario *scenario = simulation_scenarios[run % simulation_scenario_count];
        struct simulation_outcome outcome;
        membership_fault = fault;
        simulation_run(scenario, run, NULL, &outcome);
        membership_fault = MEMBERSHIP_FAULT_NONE;
        if (!fails(&outcome))
            continue;
        print_message("%-18s found in run %4" PRIu64 ", '%s': %s\n", name, run, simulation_name(scenario),
                      outcome.violated ? outcome.text : "no view that all are in");
        return;
    }
    fail_msg("fault '%s' was not found in %d runs", name, FAULT_RUNS);
}

static void every_fault_in_the_protocol_is_found(void **state)
{
    (void)state;
    static const struct {
        enum membership_fault fault;
        const char *name;
    } faults[] = {
        {MEMBERSHIP_FAULT_QUORUM_OFF_BY_ONE, "quorum off by one"},
        {MEMBERSHIP_FAULT_QUORUM_ANY_HALF, "quorum of any half"},
        {MEMBERSHIP_FAULT_LOCK_FORGOTTEN, "lock forgotten"},
        {MEMBERSHIP_FAULT_VOW_NOT_SAVED, "vow not saved"},
        {MEMBERSHIP_FAULT_FENCE_MISSING, "fence missing"},
        {MEMBERSHIP_FAULT_SIGNATURE_TOO_FEW, "signature too few"},
        {MEMBERSHIP_FAULT_CLIQUE_DROPPED, "clique dropped"},
        {MEMBERSHIP_FAULT_LEAVER_COUNTED, "leaver counted"},
        {MEMBERSHIP_FAULT_LINEAGE_DROPPED, "lineage dropped"},
    };
    assert_int_equal(MST_ARRAY_COUNT(faults), MEMBERSHIP_FAULT_COUNT - 1); /* none is left out */
    for (size_t f = 0; f < MST_ARRAY_COUNT(faults); f++)
        find_fault(faults[f].fault, faults[f].name);
}

int main(void)
{
    const char *wanted = getenv("MUSTER_TRACE");
    if (wanted) {
        char *end;
        struct simulation_outcome outcome;
        const uint64_t seed = strtoull(wanted, &end, 10);
        const uint64_t scenario = strtoull(end, NULL, 10);
        if (scenario >= simulation_scenario_count)
            return 1;
        simulation_run(simulation_scenarios[scenario], seed, stdout, &outcome);
        return fails(&outcome);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_breaks_the_rules_hold_and_all_go_on_together_afterwards),
        cmocka_unit_test(every_fault_in_the_protocol_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
