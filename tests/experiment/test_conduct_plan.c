/* SPDX-License-Identifier: Apache-2.0 */
#include "../common/test.h"
#include "experiment/conduct.h"
#include "muster/cleanup.h"

#include <stdio.h>
#include <string.h>

/* "bare0 container0 | ..." : each cell's mode and repeat, series by series where there are several. */
static void describe(const struct conduct_options *options, const struct conduct_plan *plan,
                     const char *series, struct mst_buf *text)
{
    for (size_t i = 0; i < plan->count; i++) {
        const struct conduct_cell *cell = &plan->cells[i];
        if (strcmp(cell->series, series) == 0)
            assert_int_equal(mst_buf_printf(text, "%s%s%u", text->count > 0 ? " " : "",
                                            options->modes[cell->mode].name, cell->repeat),
                             0);
    }
}

static void modes_take_turns_forwards_and_backwards(void **state)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(1024);
    mst_cleanup(conduct_plan_release) struct conduct_plan plan = {0};
    struct conduct_options options = {.repeats = 3, .warmups = 1, .workloads = {1}, .workloads_count = 1};

    (void)state;
    assert_int_equal(conduct_modes_parse("container,bare", false, CONDUCT_MONITOR_ON, &options, NULL), 0);
    assert_int_equal(conduct_plan_make(&options, "direct", &plan, NULL), 0);
    describe(&options, &plan, "w1-direct", &text);
    assert_string_equal(mst_buf_text(&text),
                        "container0 bare0 container1 bare1 bare2 container2 container3 bare3");
    for (size_t i = 0; i < plan.count; i++) {
        assert_int_equal(plan.cells[i].position, i + 1);
        assert_int_equal(plan.cells[i].is_warmup, i < 2);
    }
    assert_int_equal(options.baseline, 1);
    assert_int_equal(conduct_plan_left(&plan), 8);
    assert_ptr_equal(conduct_plan_find(&plan, "w1-direct", 1, 2, 5), &plan.cells[4]);
    assert_null(conduct_plan_find(&plan, "w1-direct", 1, 2, 4));
}

static void every_repeat_goes_through_all_series(void **state)
{
    mst_cleanup(conduct_plan_release) struct conduct_plan plan = {0};
    struct conduct_options options = {.repeats = 2, .warmups = 0, .workloads = {1, 2}, .workloads_count = 2};
    static const char *const first[] = {"w1-ring", "w1-factors", "w2-ring", "w2-factors"};

    (void)state;
    assert_int_equal(conduct_modes_parse("bare,bare", false, CONDUCT_MONITOR_ON, &options, NULL), 0);
    assert_int_equal(conduct_exchanges_parse("ring,factors", &options, NULL), 0);
    assert_int_equal(conduct_plan_make(&options, "direct", &plan, NULL), 0);
    assert_int_equal(plan.count, 16);
    for (size_t s = 0; s < 4; s++) {
        assert_string_equal(plan.cells[2 * s].series, first[s]);
        assert_string_equal(plan.cells[8 + 2 * s].series, first[s]);
        assert_int_equal(plan.cells[2 * s].mode, 0);
        assert_int_equal(plan.cells[8 + 2 * s].mode, 1); /* the second repeat backwards */
        assert_int_equal(plan.cells[2 * s].workloads, s < 2 ? 1 : 2);
    }
}

static void more_runs_than_a_report_takes_are_refused(void **state)
{
    mst_cleanup(conduct_plan_release) struct conduct_plan plan = {0};
    struct conduct_options options = {
        .repeats = 1000, .attempts = 5, .workloads = {1}, .workloads_count = 1};

    (void)state;
    assert_int_equal(conduct_modes_parse("bare,bare", false, CONDUCT_MONITOR_ON, &options, NULL), 0);
    assert_int_equal(conduct_plan_make(&options, "direct", &plan, NULL), 0);
    conduct_plan_release(&plan);
    options.attempts = 6;
    assert_int_equal(conduct_plan_make(&options, "direct", &plan, NULL), -EINVAL);
}

static void modes_are_named_apart(void **state)
{
    static const struct {
        const char *text;
        bool host_network;
        enum conduct_monitor monitor;
        const char *names;
    } cases[] = {
        {"bare,bare", false, CONDUCT_MONITOR_ON, "bare bare-2"},
        {"container,bare", true, CONDUCT_MONITOR_ON, "container bare container-host"},
        {"container-host,bare", true, CONDUCT_MONITOR_ON, "container-host bare"},
        {"container,bare", false, CONDUCT_MONITOR_BOTH, "container container-unwatched bare"},
        {"container,container", false, CONDUCT_MONITOR_ON, "container container-2"},
        {"container-encrypted,container", false, CONDUCT_MONITOR_OFF, "container-encrypted container"},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(1024);
        struct conduct_options options = {0};
        assert_int_equal(
            conduct_modes_parse(cases[i].text, cases[i].host_network, cases[i].monitor, &options, NULL), 0);
        for (size_t m = 0; m < options.mode_count; m++)
            assert_int_equal(mst_buf_printf(&text, "%s%s", m > 0 ? " " : "", options.modes[m].name), 0);
        assert_string_equal(mst_buf_text(&text), cases[i].names);
    }
}

static void what_is_no_list_is_refused(void **state)
{
    static const char *const modes[] = {"", "bare", "bare,", "container,metal", "container,,bare"};
    static const char *const exchanges[] = {"rings", "ring,ring", "ring,,direct"};
    static const char *const workloads[] = {"", "0", "3", "2,1", "1,2,3"};
    struct conduct_options options = {0};

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(modes); i++)
        assert_int_equal(conduct_modes_parse(modes[i], false, CONDUCT_MONITOR_ON, &options, NULL), -EINVAL);
    for (size_t i = 0; i < MST_ARRAY_COUNT(exchanges); i++)
        assert_int_equal(conduct_exchanges_parse(exchanges[i], &options, NULL), -EINVAL);
    for (size_t i = 0; i < MST_ARRAY_COUNT(workloads); i++)
        assert_int_equal(conduct_workloads_parse(workloads[i], &options, NULL), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modes_take_turns_forwards_and_backwards),
        cmocka_unit_test(every_repeat_goes_through_all_series),
        cmocka_unit_test(more_runs_than_a_report_takes_are_refused),
        cmocka_unit_test(modes_are_named_apart),
        cmocka_unit_test(what_is_no_list_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
