/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "scripted_engine.h"

#define TICK_NS (20 * MST_NS_PER_MS)

/* Remembers what it was given, and ends the run after a number of ticks or with an error. */
struct recorder {
    int stop_write_fd;
    int ticks, end_after_ticks, fail_with;
    int samples, first_samples;
    uint64_t read_ns[64];
    struct monitor_container container;
};

static int record_sample(void *context, const struct monitor_sample *sample,
                         const struct monitor_sample *before, struct mst_error *err)
{
    struct recorder *recorder = context;
    if (recorder->fail_with < 0)
        return mst_error_set(err, recorder->fail_with, "the output is broken");
    assert_true(recorder->samples < 64);
    recorder->read_ns[recorder->samples++] = sample->read_ns;
    recorder->first_samples += before == NULL;
    if (before)
        assert_true(before->read_ns < sample->read_ns);
    recorder->container = *sample->container;
    return 0;
}

static int record_tick(void *context, struct mst_error *err)
{
    struct recorder *recorder = context;
    (void)err;
    if (++recorder->ticks == recorder->end_after_ticks)
        assert_int_equal(write(recorder->stop_write_fd, "x", 1), 1);
    return 0;
}

static int run(struct recorder *recorder, scripted_reply_fn *events, scripted_reply_fn *list,
               struct mst_error *err)
{
    struct scripted_engine engine = {.events = events, .list = list, .inspect = reply_inspect};
    int stop[2];
    scripted_engine_start(&engine);
    assert_int_equal(pipe2(stop, O_CLOEXEC), 0);
    recorder->stop_write_fd = stop[1];
    const struct monitor_options options = {
        .host = engine.host, .paths = v1_paths, .interval_ns = TICK_NS, .stop_fd = stop[0]};
    const struct monitor_output output = {record_sample, record_tick, recorder};
    const int r = monitor_run(&options, &output, err);
    assert_int_equal(close(stop[0]) + close(stop[1]), 0);
    scripted_engine_stop(&engine);
    return r;
}

static void each_tick_gives_a_sample_with_the_one_before(void **state)
{
    struct recorder recorder = {.end_after_ticks = 5};
    (void)state;
    assert_int_equal(run(&recorder, reply_events_that_stay, reply_list_of_one, NULL), 0);
    assert_int_equal(recorder.ticks, 5);
    assert_int_equal(recorder.samples, 5); /* also the first tick: it waits for the first list */
    assert_int_equal(recorder.first_samples, 1);
    assert_string_equal(recorder.container.slot, "web_w.2");
    /* On a grid: no drift by what a pass takes. A loaded machine may skip ticks, never hurry. */
    for (int i = 1; i < 5; i++)
        assert_true(recorder.read_ns[i] - recorder.read_ns[0] > (unsigned)i * TICK_NS - TICK_NS / 2);
}

static void reply_die_at_once(struct scripted_counts *counts, int fd, int which)
{
    (void)which;
    say_events(fd);
    while (atomic_load(&counts->inspects) == 0)
        (void)usleep(1000);
    say_chunk(fd, "{\"Type\":\"container\",\"Action\":\"die\",\"Actor\":{\"ID\":\"" CONTAINER_ID "\"}}\n");
    hold(fd);
}

static void a_container_that_died_is_not_sampled_any_more(void **state)
{
    struct recorder recorder = {.end_after_ticks = 20};
    (void)state;
    assert_int_equal(run(&recorder, reply_die_at_once, reply_list_of_one, NULL), 0);
    assert_int_equal(recorder.ticks, 20); /* ticks go on without it */
    assert_true(recorder.samples < 20);
}

static void reply_cut_after_the_inspect(struct scripted_counts *counts, int fd, int which)
{
    (void)which;
    say_events(fd);
    while (atomic_load(&counts->inspects) == 0)
        (void)usleep(1000);
}

static void reply_list_once(struct scripted_counts *counts, int fd, int which)
{
    if (which == 1)
        reply_list_of_one(counts, fd, which); /* then the daemon is away */
}

static void sampling_goes_on_while_the_engine_is_away(void **state)
{
    struct recorder recorder = {.end_after_ticks = 20};
    (void)state;
    assert_int_equal(run(&recorder, reply_cut_after_the_inspect, reply_list_once, NULL), 0);
    assert_int_equal(recorder.samples, 20);
    assert_int_equal(recorder.first_samples, 1);
}

static void an_output_that_fails_ends_the_run_with_its_error(void **state)
{
    struct recorder recorder = {.fail_with = -ENOSPC};
    struct mst_error err = MST_ERROR_INIT;
    (void)state;
    assert_int_equal(run(&recorder, reply_events_that_stay, reply_list_of_one, &err), -ENOSPC);
    assert_string_equal(err.text, "the output is broken");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_tick_gives_a_sample_with_the_one_before),
        cmocka_unit_test(a_container_that_died_is_not_sampled_any_more),
        cmocka_unit_test(sampling_goes_on_while_the_engine_is_away),
        cmocka_unit_test(an_output_that_fails_ends_the_run_with_its_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
