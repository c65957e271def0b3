/* SPDX-License-Identifier: Apache-2.0 */
#include "job.h"
#include "test.h"

#include <sys/eventfd.h>

/* A job that writes down its calls: "p" prepare, "b1" begin, "s" step, "e1" end, "v" save, "f" finish. */
struct diary {
    char text[128];
    char fail_at; /* the letter whose call fails, at its fail_on-th time */
    int fail_on;
    int cancel_fd, cancel_after; /* steps; 0: never */
    int steps;
};

static int note(struct diary *diary, char letter, uint32_t number, struct mst_error *err)
{
    const size_t used = strlen(diary->text);
    if (number > 0)
        (void)snprintf(diary->text + used, sizeof diary->text - used, "%c%u", letter, (unsigned)number);
    else
        (void)snprintf(diary->text + used, sizeof diary->text - used, "%c", letter);
    if (letter == diary->fail_at && --diary->fail_on == 0)
        return mst_error_set(err, -EIO, "failed at %c", letter);
    return 0;
}

static int prepare(void *job, struct job_view *view, struct mst_error *err)
{
    (void)view;
    return note(job, 'p', 0, err);
}
static int epoch_begin(void *job, uint32_t epoch, struct mst_error *err)
{
    return note(job, 'b', epoch, err);
}
static int step(void *job, struct mst_error *err)
{
    struct diary *diary = job;
    if (++diary->steps == diary->cancel_after)
        assert_int_equal(eventfd_write(diary->cancel_fd, 1), 0);
    return note(diary, 's', 0, err);
}
static int epoch_end(void *job, uint32_t epoch, struct mst_error *err)
{
    return note(job, 'e', epoch, err);
}
static int save(void *job, struct mst_error *err)
{
    return note(job, 'v', 0, err);
}
static int finish(void *job, struct job_result *ret_result, struct mst_error *err)
{
    const int r = note(job, 'f', 0, err);
    if (r == 0)
        ret_result->step = 99;
    return r;
}

static const struct job_kind diary_kind = {.name = "diary",
                                           .prepare = prepare,
                                           .epoch_begin = epoch_begin,
                                           .step = step,
                                           .epoch_end = epoch_end,
                                           .save = save,
                                           .finish = finish};

static void calls_come_in_order_and_stop_at_the_first_failure(void **state)
{
    (void)state;
    static const struct {
        char fail_at;
        int fail_on, cancel_after;
        int code;
        const char *text;
        uint64_t steps;
        uint32_t epoch;
    } cases[] = {
        {0, 0, 0, 0, "pb1sse1b2sse2vf", 4, 2},
        {'p', 1, 0, -EIO, "p", 0, 0},
        {'b', 1, 0, -EIO, "pb1", 0, 1},
        {'b', 2, 0, -EIO, "pb1sse1b2", 2, 2},
        {'s', 1, 0, -EIO, "pb1s", 0, 1},
        {'s', 2, 0, -EIO, "pb1ss", 1, 1},
        {'s', 4, 0, -EIO, "pb1sse1b2ss", 3, 2},
        {'e', 1, 0, -EIO, "pb1sse1", 2, 1},
        {'v', 1, 0, -EIO, "pb1sse1b2sse2v", 4, 2},
        {'f', 1, 0, -EIO, "pb1sse1b2sse2vf", 4, 2},
        {0, 0, 1, -ECANCELED, "pb1s", 1, 1},
        {0, 0, 3, -ECANCELED, "pb1sse1b2s", 3, 2},
    };
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        mst_cleanup(mst_closep) int cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        struct diary diary = {.fail_at = cases[c].fail_at,
                              .fail_on = cases[c].fail_on,
                              .cancel_fd = cancel_fd,
                              .cancel_after = cases[c].cancel_after};
        const struct job job = {.kind = &diary_kind, .state = &diary, .epochs = 2, .steps_per_epoch = 2};
        struct job_view view = {.view = 1, .world = 1, .fd_prev = -1, .fd_next = -1, .cancel_fd = cancel_fd};
        struct job_progress progress;
        struct job_result result = {.step = 7};
        struct mst_error err = MST_ERROR_INIT;
        uint64_t steps = 7;
        uint32_t epoch = 7;
        assert_int_equal(job_progress_init(&progress, NULL), 0);
        assert_int_equal(job_run(&job, &view, &progress, &result, &err), cases[c].code);
        assert_string_equal(diary.text, cases[c].text);
        job_progress_get(&progress, &steps, &epoch);
        assert_int_equal(steps, cases[c].steps);
        assert_int_equal(epoch, cases[c].epoch);
        assert_int_equal(result.step, cases[c].code == 0 ? 99 : 7);
        assert_int_equal(strlen(err.text) > 0, cases[c].code != 0);
        job_progress_release(&progress);
    }
}

static void a_file_can_be_released_twice(void **state)
{
    (void)state;
    struct job_file file = {.path = strdup("/a/b"), .name = strdup("b")};
    job_file_release(&file);
    job_file_release(&file);
    assert_null(file.path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_come_in_order_and_stop_at_the_first_failure),
        cmocka_unit_test(a_file_can_be_released_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
