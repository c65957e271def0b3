/* SPDX-License-Identifier: Apache-2.0 */
/* The Engine's stats as the source, from a scripted engine: whoever asks for metrics at the same time must
 * not cut the answers off, and an engine that is away is no empty node. */
#include "muster/clock.h"
#include "sampler.h"
#include "scripted_engine.h"

/* The first asks for the machine, the second for the container, the others for its stats, which take a
 * moment. */
static void reply_stats(struct scripted_counts *counts, int fd, int which)
{
    if (which == 1) {
        say_json(fd, "{\"MemTotal\":1000000,\"NCPU\":3,\"OperatingSystem\":\"Debian 12\"}");
        return;
    }
    if (which == 2) {
        reply_inspect(counts, fd, which);
        return;
    }
    (void)usleep(20000);
    say_json(fd, "{\"read\":\"2026-01-31T12:00:00Z\",\"cpu_stats\":{\"cpu_usage\":{\"total_usage\":5}},"
                 "\"memory_stats\":{\"usage\":10,\"limit\":1000000},"
                 "\"blkio_stats\":{\"io_service_bytes_recursive\":null}}");
}

static void answers_are_waited_for_whoever_knocks(void **state)
{
    struct scripted_engine engine = {
        .events = reply_events_that_stay, .list = reply_list_of_one, .inspect = reply_stats};
    struct sampler sampler;
    const struct monitor_pass *pass;
    int stop[2], wake[2];
    (void)state;
    scripted_engine_start(&engine);
    assert_int_equal(pipe2(stop, O_CLOEXEC) + pipe2(wake, O_CLOEXEC), 0);
    const struct monitor_options options = {.host = engine.host,
                                            .paths = v1_paths,
                                            .rootfs = "/nowhere",
                                            .source = MONITOR_SOURCE_API,
                                            .stop_fd = stop[0]};
    assert_int_equal(sampler_init(&sampler, &options, false, wake[0], NULL), 0);
    assert_string_equal(sampler.pass.machine.os, "Debian 12");
    assert_int_equal(sampler_settle(&sampler, NULL), 0);
    assert_int_equal(write(wake[1], "x", 1), 1); /* somebody wants the page, and may wait for it */
    assert_int_equal(sampler_take(&sampler, MONITOR_GROUPS_ALL, &pass, NULL), 0);
    assert_int_equal(pass->count, 1);
    assert_true(pass->samples[0].cpu_ns == 5 && pass->has_source);
    /* The Engine shows its machine's memory where there is no limit. */
    assert_true(pass->samples[0].memory_limit_bytes == 0 && pass->machine.memory_bytes == 1000000);
    assert_true(pass->machine.cpus == 3);
    assert_true((pass->samples[0].groups & MONITOR_IO) && pass->samples[0].io_read_bytes == 0);
    assert_int_equal(sampler_wait(&sampler, UINT64_MAX, NULL), -ECANCELED); /* it wakes as before */
    assert_int_equal(write(stop[1], "x", 1), 1);                            /* but the end does not wait */
    const uint64_t before_ns = mst_now_ns();
    assert_int_equal(sampler_take(&sampler, MONITOR_GROUPS_ALL, &pass, NULL), 0);
    assert_true(mst_now_ns() - before_ns < MST_NS_PER_S);
    sampler_release(&sampler);
    assert_int_equal(close(stop[0]) + close(stop[1]) + close(wake[0]) + close(wake[1]), 0);
    scripted_engine_stop(&engine);
}

/* An exporter listens before it knows anything: a scrape of that moment waits until it does. */
static void a_request_that_comes_early_is_answered_in_full(void **state)
{
    struct scripted_engine engine = {
        .events = reply_events_that_stay, .list = reply_list_of_one, .inspect = reply_stats};
    struct sampler sampler;
    const struct monitor_pass *pass;
    int stop[2], wake[2];
    (void)state;
    scripted_engine_start(&engine);
    assert_int_equal(pipe2(stop, O_CLOEXEC) + pipe2(wake, O_CLOEXEC), 0);
    const struct monitor_options options = {
        .host = engine.host, .paths = v1_paths, .source = MONITOR_SOURCE_API, .stop_fd = stop[0]};
    assert_int_equal(write(wake[1], "x", 1), 1);
    assert_int_equal(sampler_init(&sampler, &options, false, wake[0], NULL), 0);
    assert_true(sampler.pass.machine.memory_bytes == 1000000);
    assert_int_equal(sampler_settle(&sampler, NULL), 0);
    assert_int_equal(sampler_wait(&sampler, UINT64_MAX, NULL), -ECANCELED);
    assert_int_equal(sampler_take(&sampler, MONITOR_GROUPS_ALL, &pass, NULL), 0);
    assert_int_equal(pass->count, 1);
    sampler_release(&sampler);
    assert_int_equal(close(stop[0]) + close(stop[1]) + close(wake[0]) + close(wake[1]), 0);
    scripted_engine_stop(&engine);
}

static void without_the_engine_nothing_can_be_read(void **state)
{
    struct scripted_engine engine = {
        .events = reply_events_that_stay, .list = reply_list_of_one, .inspect = reply_stats};
    struct sampler sampler;
    const struct monitor_pass *pass;
    int stop[2];
    (void)state;
    scripted_engine_start(&engine);
    assert_int_equal(pipe2(stop, O_CLOEXEC), 0);
    const struct monitor_options options = {
        .host = engine.host, .paths = v1_paths, .source = MONITOR_SOURCE_API, .stop_fd = stop[0]};
    assert_int_equal(sampler_init(&sampler, &options, false, stop[0], NULL), 0);
    assert_int_equal(sampler_settle(&sampler, NULL), 0);
    assert_int_equal(sampler_wait(&sampler, mst_now_ns(), NULL), 0);
    assert_int_equal(sampler_take(&sampler, MONITOR_GROUPS_ALL, &pass, NULL), 0);
    assert_true(pass->has_source);
    scripted_engine_stop(&engine);
    const uint64_t deadline_ns = mst_now_ns() + 20 * MST_NS_PER_S;
    do {
        assert_int_equal(sampler_wait(&sampler, mst_now_ns() + 10 * MST_NS_PER_MS, NULL), 0);
        assert_int_equal(sampler_take(&sampler, MONITOR_GROUPS_ALL, &pass, NULL), 0);
    } while (pass->has_source && mst_now_ns() < deadline_ns);
    assert_false(pass->has_source);
    assert_int_equal(pass->count, 0);
    sampler_release(&sampler);
    assert_int_equal(close(stop[0]) + close(stop[1]), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_waited_for_whoever_knocks),
        cmocka_unit_test(a_request_that_comes_early_is_answered_in_full),
        cmocka_unit_test(without_the_engine_nothing_can_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
