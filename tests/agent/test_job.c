/* SPDX-License-Identifier: Apache-2.0 */
#include "job.h"
#include "test.h"

#include <sys/eventfd.h>

/* A job that writes down its calls: "n" enter, "b1" begin, "s" step, "e1" end, "v" save, "f" finish, "l"
 * leave. Its others want to pause after step `pause_after`. */
struct diary {
    char text[128];
    char fail_at; /* the letter whose call fails, at its fail_on-th time */
    int fail_on;
    int cancel_fd;
    uint64_t cancel_after; /* steps; 0: never */
    uint64_t steps, pause_after;
    uint32_t last_epoch; /* whatever was planned; 0: as planned */
    bool paused;         /* the last step was told that this worker wants to */
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

static int enter(void *job, struct job_view *view, struct mst_error *err)
{
    (void)view;
    return note(job, 'n', 0, err);
}
static int epoch_begin(void *job, uint32_t epoch, struct mst_error *err)
{
    return note(job, 'b', epoch, err);
}
static uint64_t position(void *job)
{
    return ((struct diary *)job)->steps;
}
static int step(void *job, bool pause, struct mst_error *err)
{
    struct diary *diary = job;
    diary->paused = pause;
    const int r = note(diary, 's', 0, err);
    if (r < 0)
        return r;
    if (++diary->steps == diary->cancel_after)
        assert_int_equal(eventfd_write(diary->cancel_fd, 1), 0);
    return pause || diary->steps == diary->pause_after;
}
static int epoch_end(void *job, uint32_t epoch, struct mst_error *err)
{
    const int r = note(job, 'e', epoch, err);
    return r < 0 ? r : epoch == ((struct diary *)job)->last_epoch;
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

static void leave(void *job)
{
    assert_int_equal(note(job, 'l', 0, NULL), 0);
}

static const struct job_kind diary_kind = {.name = "diary",
                                           .enter = enter,
                                           .position = position,
                                           .epoch_begin = epoch_begin,
                                           .step = step,
                                           .epoch_end = epoch_end,
                                           .save = save,
                                           .finish = finish,
                                           .leave = leave};

struct eventfds {
    int cancel, pause;
};

static struct eventfds open_eventfds(void)
{
    const struct eventfds fds = {eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                 eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    assert_true(fds.cancel >= 0 && fds.pause >= 0);
    return fds;
}

static void close_eventfds(struct eventfds *fds)
{
    mst_closep(&fds->cancel);
    mst_closep(&fds->pause);
}

static void calls_come_in_order_and_stop_at_the_first_failure(void **state)
{
    (void)state;
    static const struct {
        uint64_t from; /* the step that the state is after at the beginning */
        char fail_at;
        int fail_on;
        uint64_t cancel_after, pause_after;
        int code;
        const char *text;
        uint64_t steps;
        uint32_t epoch;
    } cases[] = {
        {0, 0, 0, 0, 0, 0, "nb1sse1b2sse2vfl", 4, 2},
        {0, 'n', 1, 0, 0, -EIO, "nl", 0, 0},
        {0, 'b', 1, 0, 0, -EIO, "nb1l", 0, 1},
        {0, 'b', 2, 0, 0, -EIO, "nb1sse1b2l", 2, 2},
        {0, 's', 1, 0, 0, -EIO, "nb1sl", 0, 1},
        {0, 's', 2, 0, 0, -EIO, "nb1ssl", 1, 1},
        {0, 's', 4, 0, 0, -EIO, "nb1sse1b2ssl", 3, 2},
        {0, 'e', 1, 0, 0, -EIO, "nb1sse1l", 2, 1},
        {0, 'v', 1, 0, 0, -EIO, "nb1sse1b2sse2vl", 4, 2},
        {0, 'f', 1, 0, 0, -EIO, "nb1sse1b2sse2vfl", 4, 2},
        {0, 0, 0, 1, 0, -ECANCELED, "nb1sl", 1, 1},
        {0, 0, 0, 3, 0, -ECANCELED, "nb1sse1b2sl", 3, 2},
        /* Stopped together, also where an epoch ends, or the job. */
        {0, 0, 0, 0, 1, 1, "nb1sl", 1, 1},
        {0, 0, 0, 0, 2, 1, "nb1ssl", 2, 1},
        {0, 0, 0, 0, 4, 1, "nb1sse1b2ssl", 4, 2},
        /* Going on from where the state is; an epoch's end is made up for. */
        {1, 0, 0, 0, 0, 0, "nb1se1b2sse2vfl", 4, 2},
        {2, 0, 0, 0, 0, 0, "ne1b2sse2vfl", 4, 2},
        {4, 0, 0, 0, 0, 0, "ne2vfl", 4, 2},
    };
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        mst_cleanup(close_eventfds) struct eventfds fds = open_eventfds();
        struct diary diary = {.fail_at = cases[c].fail_at,
                              .fail_on = cases[c].fail_on,
                              .steps = cases[c].from,
                              .cancel_fd = fds.cancel,
                              .cancel_after = cases[c].cancel_after,
                              .pause_after = cases[c].pause_after};
        const struct job job = {.kind = &diary_kind, .state = &diary, .epochs = 2, .steps_per_epoch = 2};
        struct job_view view = {.view = 1, .world = 1, .cancel_fd = fds.cancel, .pause_fd = fds.pause};
        struct job_progress progress;
        struct job_result result = {.step = 7};
        struct mst_error err = MST_ERROR_INIT;
        assert_int_equal(job_progress_init(&progress, NULL), 0);
        assert_int_equal(job_run(&job, &view, &progress, &result, &err), cases[c].code);
        assert_string_equal(diary.text, cases[c].text);
        const struct job_progress seen = job_progress_get(&progress);
        assert_int_equal(seen.step, cases[c].steps);
        assert_int_equal(seen.epoch, cases[c].epoch);
        assert_int_equal(seen.stepped_ns > 0, cases[c].steps > cases[c].from);
        assert_int_equal(result.step, cases[c].code == 0 ? 99 : 7);
        assert_int_equal(strlen(err.text) > 0, cases[c].code < 0);
        job_progress_release(&progress);
    }
}

static void a_job_may_end_with_any_epoch(void **state)
{
    (void)state;
    struct eventfds fds = open_eventfds();
    struct job_progress progress;
    assert_int_equal(job_progress_init(&progress, NULL), 0);
    for (uint64_t from = 0; from <= 2; from += 2) { /* 2: a view begins where the last epoch ended */
        struct diary diary = {.steps = from, .last_epoch = 1};
        const struct job job = {.kind = &diary_kind, .state = &diary, .epochs = 5, .steps_per_epoch = 2};
        struct job_view view = {.world = 1, .cancel_fd = fds.cancel, .pause_fd = fds.pause};
        struct job_result result = {0};
        assert_int_equal(job_run(&job, &view, &progress, &result, NULL), 0);
        assert_string_equal(diary.text, from == 0 ? "nb1sse1vfl" : "ne1vfl");
        assert_int_equal(result.step, 99);
    }
    job_progress_release(&progress);
    close_eventfds(&fds);
}

static void a_worker_that_is_asked_to_pause_says_so_in_its_next_step(void **state)
{
    (void)state;
    mst_cleanup(close_eventfds) struct eventfds fds = open_eventfds();
    struct diary diary = {0};
    const struct job job = {.kind = &diary_kind, .state = &diary, .epochs = 2, .steps_per_epoch = 2};
    struct job_view view = {.view = 1, .world = 1, .cancel_fd = fds.cancel, .pause_fd = fds.pause};
    struct job_progress progress;
    struct job_result result;
    assert_int_equal(job_progress_init(&progress, NULL), 0);
    assert_int_equal(eventfd_write(fds.pause, 1), 0);
    assert_int_equal(job_run(&job, &view, &progress, &result, NULL), 1);
    assert_true(diary.paused);
    assert_string_equal(diary.text, "nb1sl");
    job_progress_release(&progress);
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
        cmocka_unit_test(a_job_may_end_with_any_epoch),
        cmocka_unit_test(a_worker_that_is_asked_to_pause_says_so_in_its_next_step),
        cmocka_unit_test(a_file_can_be_released_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
