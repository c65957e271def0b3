/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/cleanup.h"
#include "test.h"

#define S 1000000000ULL

static void cpu_percent_is_the_difference_of_two_samples(void **state)
{
    static const struct {
        struct monitor_sample before, now;
        bool known;
        double percent;
    } cases[] = {
        {{.groups = MONITOR_CPU, .read_ns = 10 * S, .cpu_ns = 5 * S},
         {.groups = MONITOR_CPU, .read_ns = 11 * S, .cpu_ns = 6 * S},
         true,
         100},
        {{.groups = MONITOR_CPU, .read_ns = 10 * S, .cpu_ns = 5 * S},
         {.groups = MONITOR_CPU, .read_ns = 12 * S, .cpu_ns = 8 * S},
         true,
         150},
        {{.groups = MONITOR_CPU, .read_ns = 10 * S, .cpu_ns = 5 * S},
         {.groups = MONITOR_CPU, .read_ns = 11 * S, .cpu_ns = 5 * S},
         true,
         0},
        /* began anew: never 18446744073709 % */
        {{.groups = MONITOR_CPU, .read_ns = 10 * S, .cpu_ns = 5 * S},
         {.groups = MONITOR_CPU, .read_ns = 11 * S, .cpu_ns = 1},
         false,
         -1},
        {{.groups = MONITOR_CPU, .read_ns = 10 * S, .cpu_ns = 5 * S},
         {.groups = MONITOR_CPU, .read_ns = 10 * S, .cpu_ns = 6 * S},
         false,
         -1},
        {{.groups = MONITOR_CPU, .read_ns = 10 * S, .cpu_ns = 5 * S},
         {.groups = MONITOR_CPU, .read_ns = 9 * S, .cpu_ns = 6 * S},
         false,
         -1},
        {{.groups = MONITOR_MEMORY, .read_ns = 10 * S},
         {.groups = MONITOR_CPU, .read_ns = 11 * S, .cpu_ns = 6 * S},
         false,
         -1},
        {{.groups = MONITOR_CPU, .read_ns = 10 * S}, {.groups = 0, .read_ns = 11 * S}, false, -1},
    };
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        double percent = -1;
        assert_int_equal(monitor_cpu_percent(&cases[i].before, &cases[i].now, &percent), cases[i].known);
        assert_true(percent == cases[i].percent);
    }
}

static void a_first_sample_has_no_cpu_percent(void **state)
{
    const struct monitor_sample now = {.groups = MONITOR_CPU, .read_ns = S, .cpu_ns = S};
    double percent = -1;
    (void)state;
    assert_false(monitor_cpu_percent(NULL, &now, &percent));
    assert_true(percent == -1);
}

/* The numbers of one container in two replies of an Engine, and what `docker stats` made of them. */
static void dockers_percent_is_dockers_formula(void **state)
{
    const struct monitor_sample before = {.groups = MONITOR_CPU,
                                          .cpu_ns = 12345678901,
                                          .system_cpu_ns = 9876540000000,
                                          .online_cpus = 2};
    struct monitor_sample now = before;
    double percent = 7777;
    (void)state;
    assert_true(monitor_docker_percent(&before, &now, &percent) && percent == 0); /* nothing has grown */
    now.cpu_ns += 301000000;
    assert_true(monitor_docker_percent(&before, &now, &percent) && percent == 0);
    now.system_cpu_ns += 1990000000;
    assert_true(monitor_docker_percent(&before, &now, &percent));
    assert_true(percent == 301000000.0 / 1990000000.0 * 2.0 * 100.0);
    now.cpu_ns = before.cpu_ns - 1; /* began anew: no spike */
    assert_true(monitor_docker_percent(&before, &now, &percent) && percent == 0);
    now.system_cpu_ns = 0;
    percent = 7777;
    assert_false(monitor_docker_percent(&before, &now, &percent));
    assert_false(monitor_docker_percent(NULL, &before, &percent));
    assert_true(percent == 7777);
}

static void memory_in_use_leaves_out_what_can_be_had_back(void **state)
{
    static const struct {
        unsigned groups;
        uint64_t usage, inactive;
        bool known;
        uint64_t used;
    } cases[] = {
        {MONITOR_MEMORY | MONITOR_MEMORY_STAT, 1000, 300, true, 700},
        {MONITOR_MEMORY | MONITOR_MEMORY_STAT, 1000, 1000, true, 0},
        {MONITOR_MEMORY | MONITOR_MEMORY_STAT, 1000, 2000, true, 0},
        {MONITOR_MEMORY, 1000, 300, true, 1000},
        {MONITOR_MEMORY_STAT, 1000, 300, false, 7777},
    };
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        const struct monitor_sample sample = {.groups = cases[i].groups,
                                              .memory_usage_bytes = cases[i].usage,
                                              .memory_inactive_file_bytes = cases[i].inactive};
        uint64_t used = 7777;
        assert_int_equal(monitor_memory_used(&sample, &used), cases[i].known);
        assert_true(used == cases[i].used);
    }
}

static void without_a_limit_the_machine_is_the_limit(void **state)
{
    static const struct {
        unsigned groups;
        uint64_t limit;
        bool known;
        uint64_t shown;
    } cases[] = {
        {MONITOR_MEMORY_LIMIT, 100, true, 100},
        {MONITOR_MEMORY_LIMIT, 0, true, 1000},
        {MONITOR_MEMORY_LIMIT, 5000, true, 1000},
        {0, 100, false, 7777},
    };
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        const struct monitor_sample sample = {.groups = cases[i].groups,
                                              .memory_limit_bytes = cases[i].limit};
        uint64_t shown = 7777;
        assert_int_equal(monitor_memory_limit(&sample, 1000, &shown), cases[i].known);
        assert_true(shown == cases[i].shown);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cpu_percent_is_the_difference_of_two_samples),
        cmocka_unit_test(a_first_sample_has_no_cpu_percent),
        cmocka_unit_test(dockers_percent_is_dockers_formula),
        cmocka_unit_test(memory_in_use_leaves_out_what_can_be_had_back),
        cmocka_unit_test(without_a_limit_the_machine_is_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
