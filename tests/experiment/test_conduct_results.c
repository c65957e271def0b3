/* SPDX-License-Identifier: Apache-2.0 */
#include "../common/test.h"
#include "experiment/conduct_results.h"
#include "muster/cleanup.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void write_text(void **state, const char *name, const char *text)
{
    char path[320];

    test_write(test_path(*state, name, path), text, strlen(text));
}

static void first_step_and_end_are_the_workers(void **state)
{
    struct conduct_results results;
    struct mst_error err = MST_ERROR_INIT;
    char path[320];

    write_text(state, "run.json", "{\"workers\":[{\"slot\":\"a\",\"node\":\"n\"}]}");
    write_text(state, "events.jsonl",
               "{\"event\":\"start\",\"t\":90.5,\"slot\":\"a\",\"pid_age_ms\":500}\n"
               "{\"event\":\"first_step\",\"t\":101,\"slot\":\"b\"}\n"
               "{\"event\":\"first_step\",\"t\":100,\"slot\":\"a\"}\n"
               "{\"event\":\"first_steps\",\"t\":1}\n"
               "{\"event\":\"done\",\"t\":120,\"slot\":\"a\"}\n"
               "{\"event\":\"done\",\"t\":119,\"slot\":\"b\"}\n");
    if (conduct_results_read(test_path(*state, ".", path), &results, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(results.start_count, 1);
    assert_true(results.starts[0].s == 90);
    assert_true(results.first_step_s == 100);
    assert_true(results.done_s == 120);
    conduct_results_release(&results);
}

static void overlap_is_of_the_longer_time(void **state)
{
    static const struct {
        double begin_a, end_a, begin_b, end_b, overlap;
    } cases[] = {
        {0, 10, 0, 10, 1},  {0, 10, 1, 11, 0.9}, {0, 10, 0, 5, 0.5},
        {0, 10, 20, 30, 0}, {20, 30, 0, 10, 0},  {-1, 10, 20, 30, 1}, /* not known */
        {0, 10, 20, -1, 1},
    };

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        const struct conduct_results a = {.first_step_s = cases[i].begin_a, .done_s = cases[i].end_a},
                                     b = {.first_step_s = cases[i].begin_b, .done_s = cases[i].end_b};
        assert_true(fabs(conduct_results_overlap(&a, &b) - cases[i].overlap) < 1e-9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(first_step_and_end_are_the_workers, test_folder_setup,
                                        test_folder_teardown),
        cmocka_unit_test(overlap_is_of_the_longer_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
