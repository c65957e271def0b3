/* SPDX-License-Identifier: Apache-2.0 */
/* Service logs over connections that end. */
#include "../common/test.h"
#include "fake_engine.h"
#include "logfollow.h"
#include "muster/clock.h"

#define DETAILS " com.docker.swarm.node.id=n,com.docker.swarm.service.id=s,com.docker.swarm.task.id="

struct bench {
    struct fake_engine *fake;
    struct session session;
    struct logfollow *follow;
    FILE *report; /* takes the session's */
    char *told;
    size_t told_bytes;
    char seen[1024]; /* "t1:one|t2:two|" */
    int stop_with;
};

static int take(void *context, const struct log_message *message, struct mst_error *err)
{
    struct bench *bench = context;
    const size_t used = strlen(bench->seen);

    (void)snprintf(bench->seen + used, sizeof bench->seen - used, "%s:%s|", message->task_id, message->text);
    return bench->stop_with < 0 ? mst_error_set(err, bench->stop_with, "enough") : 0;
}

static void open_bench(struct bench *bench, struct fake_rule *rules, size_t rule_count, bool follow)
{
    const struct logfollow_options options = {.follow = follow};

    *bench = (struct bench){.fake = fake_engine_start(rules, rule_count)};
    assert_int_equal(session_open(&bench->session, fake_engine_host(bench->fake), NULL, NULL), 0);
    bench->report = open_memstream(&bench->told, &bench->told_bytes);
    assert_non_null(bench->report);
    bench->session.report.stream = bench->report;
    bench->session.report.is_terminal = false;
    assert_int_equal(logfollow_new(&bench->session, &options, take, bench, &bench->follow, NULL), 0);
}

static void close_bench(struct bench *bench)
{
    logfollow_free(bench->follow);
    session_close(&bench->session);
    (void)fclose(bench->report);
    free(bench->told);
    fake_engine_stop(bench->fake);
}

static void add_frame(struct mst_buf *log, unsigned char stream, const char *time, const char *task,
                      const char *text)
{
    char line[128];

    (void)snprintf(line, sizeof line, "%s\n", text);
    fake_engine_frame(log, stream, time, task, line);
}

/* Rounds until `requests` logs were asked for, or the follower ends. */
static int follow_until(struct bench *bench, size_t requests)
{
    const uint64_t deadline_ns = mst_now_ns() + 20 * MST_NS_PER_S;
    int r = 0;

    while (r == 0 && (requests == 0 || fake_engine_count(bench->fake, "GET /services/s/logs") < requests)) {
        assert_true(mst_now_ns() < deadline_ns);
        r = session_wait(&bench->session, 20, 0, NULL);
        if (r == 0)
            r = logfollow_tick(bench->follow, NULL);
        if (requests == 0 && logfollow_open_count(bench->follow) == 0)
            break;
    }
    return r;
}

static void a_log_that_ends_is_followed_again_without_repeats(void **state)
{
    mst_cleanup(mst_buf_release) struct mst_buf log = MST_BUF_INIT(65536);
    struct bench bench;

    (void)state;
    add_frame(&log, 1, "01", "t1", "one");
    add_frame(&log, 1, "03", "t1", "two");
    add_frame(&log, 1, "02", "t2", "late, from another node");
    add_frame(&log, 2, "02", "t1", "stderr has its own order");
    open_bench(&bench, NULL, 0, true);
    fake_engine_stream(bench.fake, "/services/s/logs", log.bytes, log.count);
    assert_int_equal(logfollow_add(bench.follow, "s", "st_x", false, NULL), 0);
    assert_int_equal(follow_until(&bench, 3), 0);
    assert_string_equal(bench.seen, "t1:one|t1:two|t2:late, from another node|t1:stderr has its own order|");
    close_bench(&bench);
}

static void a_log_that_is_cut_or_refused_is_tried_again(void **state)
{
    struct fake_rule rules[] = {
        {"GET", "/services/s/logs", 1, 1, FAKE_CLOSE, 0, NULL, 0},
        {"GET", "/services/s/logs", 1, 1, FAKE_REFUSE, 500, "not now", 0},
    };
    mst_cleanup(mst_buf_release) struct mst_buf log = MST_BUF_INIT(65536);
    struct bench bench;

    (void)state;
    add_frame(&log, 1, "01", "t1", "one");
    open_bench(&bench, rules, MST_ARRAY_COUNT(rules), true);
    fake_engine_stream(bench.fake, "/services/s/logs", log.bytes, log.count);
    assert_int_equal(logfollow_add(bench.follow, "s", "st_x", false, NULL), 0);
    assert_int_equal(follow_until(&bench, 4), 0);
    assert_string_equal(bench.seen, "t1:one|");
    close_bench(&bench);
}

static void no_line_is_lost_where_a_clock_goes_back(void **state)
{
    mst_cleanup(mst_buf_release) struct mst_buf log = MST_BUF_INIT(65536);
    struct bench bench;

    (void)state;
    add_frame(&log, 1, "50", "t1", "one");
    add_frame(&log, 1, "20", "t1", "two");
    add_frame(&log, 1, "21", "t1", "three");
    add_frame(&log, 1, "21", "t1", "three again");
    open_bench(&bench, NULL, 0, true);
    fake_engine_stream(bench.fake, "/services/s/logs", log.bytes, log.count);
    assert_int_equal(logfollow_add(bench.follow, "s", "st_x", false, NULL), 0);
    assert_int_equal(follow_until(&bench, 3), 0);
    assert_string_equal(bench.seen, "t1:one|t1:two|t1:three|t1:three again|");
    close_bench(&bench);
}

static void lines_that_docker_cut_are_put_together(void **state)
{
    mst_cleanup(mst_buf_release) struct mst_buf log = MST_BUF_INIT(65536);
    struct bench bench;

    (void)state;
    fake_engine_frame(&log, 1, "01", "t1", "be");
    fake_engine_frame(&log, 2, "01", "t1", "another stream\n");
    fake_engine_frame(&log, 1, "01", "t2", "another task\n");
    fake_engine_frame(&log, 1, "02", "t1", "gin");
    fake_engine_frame(&log, 1, "03", "t1", "ning\n");
    fake_engine_frame(&log, 1, "04", "t1", "whole\n");
    fake_engine_frame(&log, 1, "05", "t2", "killed in the middle of a l");
    for (int follow = 0; follow < 2; follow++) {
        open_bench(&bench, NULL, 0, follow);
        fake_engine_stream(bench.fake, "/services/s/logs", log.bytes, log.count);
        assert_int_equal(logfollow_add(bench.follow, "s", "st_x", false, NULL), 0);
        assert_int_equal(follow_until(&bench, follow ? 3 : 0), 0);
        assert_string_equal(bench.seen, follow ? "t1:another stream|t2:another task|t1:beginning|t1:whole|"
                                               : "t1:another stream|t2:another task|t1:beginning|t1:whole|"
                                                 "t2:killed in the middle of a l|");
        close_bench(&bench);
    }
}

static void a_log_that_cannot_be_read_is_told_of_once(void **state)
{
    /* The words are the server's, and no status. */
    struct fake_rule rule = {
        "GET", "/services/s/logs", 1, 5, FAKE_REFUSE, 500, "upstream said: 404 not found", 0};
    mst_cleanup(mst_buf_release) struct mst_buf log = MST_BUF_INIT(65536);
    struct bench bench;

    (void)state;
    add_frame(&log, 1, "01", "t1", "one");
    open_bench(&bench, &rule, 1, true);
    fake_engine_stream(bench.fake, "/services/s/logs", log.bytes, log.count);
    assert_int_equal(logfollow_add(bench.follow, "s", "st_x", false, NULL), 0);
    assert_int_equal(follow_until(&bench, 7), 0);
    assert_string_equal(bench.seen, "t1:one|");
    (void)fflush(bench.report);
    assert_string_equal(bench.told, "warning: GET /v1.43/services/s/logs (st_x): 500 Internal Server Error: "
                                    "upstream said: 404 not found; trying again\n");
    close_bench(&bench);
}

static void a_removed_service_ends_what_is_followed(void **state)
{
    struct bench bench;

    (void)state;
    open_bench(&bench, NULL, 0, true);
    assert_int_equal(logfollow_add(bench.follow, "s", "st_x", false, NULL), 0);
    assert_int_equal(follow_until(&bench, 0), 0);
    assert_int_equal(fake_engine_count(bench.fake, "GET /services/s/logs"), 1);
    close_bench(&bench);
}

static void a_removed_service_is_a_failure_to_who_reads_once(void **state)
{
    struct bench bench;
    int r;

    (void)state;
    open_bench(&bench, NULL, 0, false);
    assert_int_equal(logfollow_add(bench.follow, "s", "st_x", false, NULL), 0);
    r = follow_until(&bench, 0);
    assert_int_equal(r == 0 ? logfollow_tick(bench.follow, NULL) : r, -EREMOTEIO);
    close_bench(&bench);
}

static void what_the_taker_refuses_ends_it_all(void **state)
{
    mst_cleanup(mst_buf_release) struct mst_buf log = MST_BUF_INIT(65536);
    struct bench bench;
    int r;

    (void)state;
    add_frame(&log, 1, "01", "t1", "one");
    add_frame(&log, 1, "02", "t1", "two");
    open_bench(&bench, NULL, 0, true);
    bench.stop_with = -ENOSPC;
    fake_engine_stream(bench.fake, "/services/s/logs", log.bytes, log.count);
    assert_int_equal(logfollow_add(bench.follow, "s", "st_x", false, NULL), 0);
    r = follow_until(&bench, 0);
    assert_int_equal(r == 0 ? logfollow_tick(bench.follow, NULL) : r, -ENOSPC);
    assert_string_equal(bench.seen, "t1:one|");
    close_bench(&bench);
}

static void a_terminals_log_is_lines(void **state)
{
    static const char log[] = "2026-01-01T00:00:01.000000000Z" DETAILS "t1 one\r\n"
                              "2026-01-01T00:00:02.000000000Z" DETAILS "t1 two\r\n";
    struct bench bench;

    (void)state;
    open_bench(&bench, NULL, 0, false);
    fake_engine_stream(bench.fake, "/services/s/logs", log, sizeof log - 1);
    assert_int_equal(logfollow_add(bench.follow, "s", "st_x", true, NULL), 0);
    assert_int_equal(follow_until(&bench, 0), 0);
    assert_string_equal(bench.seen, "t1:one|t1:two|");
    close_bench(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_log_that_ends_is_followed_again_without_repeats),
        cmocka_unit_test(a_log_that_is_cut_or_refused_is_tried_again),
        cmocka_unit_test(no_line_is_lost_where_a_clock_goes_back),
        cmocka_unit_test(lines_that_docker_cut_are_put_together),
        cmocka_unit_test(a_log_that_cannot_be_read_is_told_of_once),
        cmocka_unit_test(a_removed_service_ends_what_is_followed),
        cmocka_unit_test(a_removed_service_is_a_failure_to_who_reads_once),
        cmocka_unit_test(what_the_taker_refuses_ends_it_all),
        cmocka_unit_test(a_terminals_log_is_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
