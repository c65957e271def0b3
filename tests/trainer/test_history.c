/* SPDX-License-Identifier: Apache-2.0 */
#include "helpers.h"
#include "muster/buf.h"
#include "muster/file.h"

static void check_file(const char *path, const char *expected)
{
    struct mst_buf text = MST_BUF_INIT(100000);

    assert_int_equal(mst_file_read(path, &text, NULL), 0);
    assert_string_equal(mst_buf_text(&text), expected);
    mst_buf_release(&text);
}

#define HEADER                                                                                               \
    "slot,rank,view,epoch,steps,seconds,ms_per_step,loss,accuracy,wait_ms,transfer_ms,compute_ms,bytes_"     \
    "sent\n"

static void writes_a_header_and_a_row_an_epoch(void **state)
{
    char path[512];
    struct mst_error err = MST_ERROR_INIT;
    struct trainer_history *history;
    struct trainer_history_row row = {.rank = 1,
                                      .view = 2,
                                      .epoch = 1,
                                      .steps = 70,
                                      .seconds = 3.5,
                                      .loss = 2.25,
                                      .accuracy = 0.5,
                                      .wait_ms = 1.5,
                                      .transfer_ms = 2.5,
                                      .compute_ms = 1000,
                                      .bytes_sent = 12345678901};

    helper_path(state, "history-w1.1.csv", path, sizeof path);
    if (trainer_history_new(path, "w1.1", &history, &err) < 0)
        fail_msg("%s", err.text);
    check_file(path, HEADER);
    assert_int_equal(trainer_history_append(history, &row, &err), 0);
    row.epoch = 2;
    row.steps = 0;
    assert_int_equal(trainer_history_append(history, &row, &err), 0);
    check_file(path,
               HEADER "w1.1,1,2,1,70,3.500000,50.000,2.250000,0.500000,1.500,2.500,1000.000,12345678901\n"
                      "w1.1,1,2,2,0,3.500000,0.000,2.250000,0.500000,1.500,2.500,1000.000,12345678901\n");
    trainer_history_free(history);
    trainer_history_free(NULL);
}

static void refuses_slots_that_would_break_the_rows(void **state)
{
    static const char *const slots[] = {"", "a,b", "a\"b", "a\nb", "a\x7f"};
    char path[512];

    helper_path(state, "history.csv", path, sizeof path);
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++) {
        struct trainer_history *history = NULL;
        assert_int_equal(trainer_history_new(path, slots[i], &history, NULL), -EINVAL);
        assert_null(history);
        assert_int_not_equal(access(path, F_OK), 0);
    }
}

static void says_which_file_cannot_be_written(void **state)
{
    (void)state;
    struct mst_error err = MST_ERROR_INIT;
    struct trainer_history *history = NULL;

    assert_true(trainer_history_new("/nonexistent/history.csv", "w1.1", &history, &err) < 0);
    assert_non_null(strstr(err.text, "/nonexistent/history.csv"));
    assert_null(history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(writes_a_header_and_a_row_an_epoch, helper_make_folder,
                                        helper_remove_folder),
        cmocka_unit_test_setup_teardown(refuses_slots_that_would_break_the_rows, helper_make_folder,
                                        helper_remove_folder),
        cmocka_unit_test(says_which_file_cannot_be_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
