/* SPDX-License-Identifier: Apache-2.0 */
/* The program itself, on an engine that does as it is told. */
#include "../common/test.h"
#include "fake_engine.h"
#include "muster/clock.h"
#include "muster/json.h"
#include "program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

static void options_may_stand_in_front_of_the_verb(void **state)
{
    static const struct {
        const char *arguments[8];
        int status;
        const char *out, *err;
    } cases[] = {
        {{"ls"}, 0, "NAME  SERVICES", ""},
        {{"-v", "--log-format", "text", "ls"}, 0, "NAME  SERVICES", ""},
        {{"--log-format=text", "ls", "--format", "json"}, 0, "[]", ""},
        {{"-H", "unix:///nowhere/s", "ls"}, 1, "", "engine at unix:///nowhere/s: No such file"},
        {{"-Hunix:///nowhere/s", "ls"}, 1, "", "engine at unix:///nowhere/s: No such file"},
        {{"--format", "json", "ls"}, 2, "", "option '--format' stands in front of the verb"},
        {{"-x", "ls"}, 2, "", "option '-x' stands in front of the verb"},
        {{"deploy", "-H", "unix:///nowhere/s", "-c", "/nowhere/file", "st"},
         2,
         "",
         "muster: open '/nowhere/file': No such"},
        {{"-v"}, 2, "", "Usage: muster"},
        {{"-H"}, 2, "", "Usage: muster"},
        {{"-h"}, 0, "Usage: muster", ""},
        {{"--help"}, 0, "Usage: muster", ""},
        {{"help"}, 0, "Usage: muster", ""},
        {{"help", "run"}, 0, "Usage: muster run", ""},
        {{"help", "rum"}, 2, "", "unknown verb 'rum'; did you mean"},
        {{"lss"}, 2, "", "unknown verb 'lss'; did you mean 'ls'?"},
    };
    struct fake_engine *fake = fake_engine_start(NULL, 0);

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        struct program program;
        program_start(&program, fake, cases[i].arguments);
        program_finish(&program);
        if (program.status != cases[i].status || !strstr(mst_buf_text(&program.out), cases[i].out) ||
            !strstr(mst_buf_text(&program.err), cases[i].err))
            fail_msg("case %zu: %d, '%s', '%s'", i, program.status, mst_buf_text(&program.out),
                     mst_buf_text(&program.err));
        program_release(&program);
    }
    fake_engine_stop(fake);
}

static void a_stack_file_on_a_silent_stdin_is_not_waited_for_after_ctrl_c(void **state)
{
    static const char *const arguments[] = {"plan", "-c", "-", "st", NULL};
    static const int signals[] = {SIGINT, SIGTERM};
    struct fake_engine *fake = fake_engine_start(NULL, 0);

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(signals); i++) {
        const uint64_t deadline_ns = mst_now_ns() + 10 * MST_NS_PER_S;
        struct program program;
        program_start(&program, fake, arguments);
        /* It asks the engine first, and then waits for the file. */
        while (fake_engine_count(fake, "GET /nodes") <= i)
            assert_true(mst_now_ns() < deadline_ns);
        assert_int_equal(kill(program.pid, signals[i]), 0);
        program_finish(&program);
        assert_int_equal(program.status, 128 + signals[i]);
        assert_string_equal(mst_buf_text(&program.err), "");
        program_release(&program);
    }
    fake_engine_stop(fake);
}

/* What asks for a password on some screen may wait for ever. */
static void a_credential_helper_that_hangs_is_not_waited_for_after_ctrl_c(void **state)
{
    static const char file[] = "services: {a: {image: 'reg:5000/img:1'}}\n";
    static const char helper[] = "#!/bin/sh\n: >\"$0.asked\"\nexec sleep 60\n";
    static const char config[] = "{\"credsStore\":\"hangs\"}";
    static const char *const arguments[] = {"deploy", "--with-registry-auth", "-c", "-", "st", NULL};
    struct fake_engine *fake = fake_engine_start(NULL, 0);
    const struct test_folder *folder = *state;
    const uint64_t begun_ns = mst_now_ns(), deadline_ns = begun_ns + 10 * MST_NS_PER_S;
    mst_cleanup(mst_freep) char *path_before = strdup(getenv("PATH"));
    char path[320], asked[320], search[4096];
    struct program program;

    (void)snprintf(search, sizeof search, "%s:%s", folder->path, path_before);
    (void)test_path(folder, "config.json", path);
    assert_int_equal(mst_file_write_atomic(path, config, sizeof config - 1, 0600, NULL), 0);
    (void)test_path(folder, "docker-credential-hangs", path);
    assert_int_equal(mst_file_write_atomic(path, helper, sizeof helper - 1, 0755, NULL), 0);
    (void)test_path(folder, "docker-credential-hangs.asked", asked);
    (void)setenv("PATH", search, 1);
    (void)setenv("DOCKER_CONFIG", folder->path, 1);
    program_start(&program, fake, arguments);
    (void)setenv("PATH", path_before, 1);
    (void)unsetenv("DOCKER_CONFIG");
    assert_int_equal(mst_write_all(program.in_fd, file, sizeof file - 1), 0);
    (void)close(program.in_fd);
    program.in_fd = -1;
    while (access(asked, F_OK) < 0)
        assert_true(mst_now_ns() < deadline_ns);
    assert_int_equal(kill(program.pid, SIGINT), 0); /* it alone: the helper does not hear of it */
    program_finish(&program);
    assert_int_equal(program.status, 130);
    assert_non_null(strstr(mst_buf_text(&program.err), "muster: interrupted"));
    assert_true(mst_now_ns() < deadline_ns);
    program_release(&program);
    assert_int_equal(fake_engine_count(fake, "POST "), 0);
    fake_engine_stop(fake);
}

static void a_value_that_no_program_takes_is_found_before_anything_is_made(void **state)
{
    static const char file[] = "services:\n"
                               "  w1:\n"
                               "    image: 'img:1'\n"
                               "    command: [muster-agent, train]\n"
                               "    environment: {MUSTER_EPOCHS: abc}\n";
    static const char *const verbs[] = {"plan", "deploy", "run"};
    struct fake_engine *fake = fake_engine_start(NULL, 0);
    const struct test_folder *folder = *state;

    for (size_t i = 0; i < MST_ARRAY_COUNT(verbs); i++) {
        const char *const arguments[] = {verbs[i], "-c", "-", "st", NULL};
        struct program program;
        (void)setenv("MUSTER_RUNS", folder->path, 1);
        program_start(&program, fake, arguments);
        assert_int_equal(mst_write_all(program.in_fd, file, sizeof file - 1), 0);
        (void)close(program.in_fd);
        program.in_fd = -1;
        program_finish(&program);
        (void)unsetenv("MUSTER_RUNS");
        assert_int_equal(program.status, 2);
        if (!strstr(mst_buf_text(&program.err),
                    "muster: stdin:2:3: services.w1.environment.MUSTER_EPOCHS: 'abc' is not"))
            fail_msg("%s: %s", verbs[i], mst_buf_text(&program.err));
        program_release(&program);
    }
    assert_int_equal(fake_engine_count(fake, "POST "), 0);
    assert_int_equal(test_entries(folder->path), 0);
    fake_engine_stop(fake);
}

static void a_deployment_of_what_stands_says_so(void **state)
{
    static const char file[] = "services: {a: {image: 'img:1', deploy: {replicas: 0}}}\n";
    static const char *const arguments[] = {"deploy", "--detach", "--resolve-image", "never", "-c", "-",
                                            "st",     NULL};
    struct fake_engine *fake = fake_engine_start(NULL, 0);

    (void)state;
    for (int again = 0; again < 2; again++) {
        struct program program;
        program_start(&program, fake, arguments);
        assert_int_equal(mst_write_all(program.in_fd, file, sizeof file - 1), 0);
        (void)close(program.in_fd);
        program.in_fd = -1;
        program_finish(&program);
        if (program.status != 0 || !strstr(mst_buf_text(&program.err), "stack 'st': ") ||
            !!strstr(mst_buf_text(&program.err), "nothing to change") != again)
            fail_msg("%d: %s", program.status, mst_buf_text(&program.err));
        program_release(&program);
    }
    fake_engine_stop(fake);
}

#define PS_TASK(id, slot, state)                                                                             \
    "{\"ID\":\"" id "\",\"ServiceID\":\"s\",\"Slot\":" slot ",\"NodeID\":\"n1\",\"Labels\":{"                \
    "\"com.docker.stack.namespace\":\"st\"},\"DesiredState\":\"running\",\"Status\":{\"State\":\"" state     \
    "\"}}"

static void ps_says_how_far_each_worker_is(void **state)
{
    static const char *const table[] = {"ps", "st", NULL}, *const json[] = {"ps", "--format", "json", "st",
                                                                            NULL};
    static const struct {
        const char *id, *columns;
    } rows[] = {
        {"training", "training     7     1  3/41"}, {"paused", "paused       7     0  3/40"},
        {"forming", "forming      -     -  -"},     {"silent", "-            -     -  -"},
        {"done", "done         7     2  12/70"},    {"killed", "-            7     3  3/9"},
        {"starts", "training     7     5  3/41"},
    };
    mst_cleanup(mst_buf_release) struct mst_buf log = MST_BUF_INIT(65536), starting = MST_BUF_INIT(65536);
    struct fake_engine *fake = fake_engine_start(NULL, 0);
    struct program program;

    (void)state;
    fake_engine_add(fake, "services",
                    "{\"ID\":\"s\",\"Spec\":{\"Name\":\"st_w\",\"Labels\":{\"muster.role\":\"worker\","
                    "\"com.docker.stack.namespace\":\"st\"}}}");
    fake_engine_add(fake, "tasks", PS_TASK("training", "1", "running"));
    fake_engine_add(fake, "tasks", PS_TASK("paused", "2", "running"));
    fake_engine_add(fake, "tasks", PS_TASK("forming", "3", "running"));
    fake_engine_add(fake, "tasks", PS_TASK("silent", "4", "starting"));
    fake_engine_add(fake, "tasks", PS_TASK("done", "5", "complete"));
    fake_engine_add(fake, "tasks", PS_TASK("killed", "6", "failed"));
    fake_engine_add(fake, "tasks", PS_TASK("starts", "7", "starting"));
    /* The ends of the logs: no `start` is in them. */
#define PROGRESS(rank, epoch, step)                                                                          \
    "{\"event\":\"progress\",\"view\":7,\"rank\":" rank ",\"world\":4,\"epoch\":" epoch ",\"step\":" step    \
    ",\"steps\":70}\n"
    fake_engine_frame(&log, 1, "01", "training", PROGRESS("1", "3", "41"));
    fake_engine_frame(&log, 1, "01", "paused", PROGRESS("0", "3", "40"));
    fake_engine_frame(&log, 1, "02", "paused",
                      "{\"event\":\"waiting\",\"have\":1,\"want\":3,\"view\":7,\"quorum\":true}\n");
    fake_engine_frame(&log, 1, "01", "forming", "{\"event\":\"start\",\"slot\":\"st_w.3\"}\n");
    fake_engine_frame(&log, 1, "01", "silent", "no event\n");
    fake_engine_frame(&log, 1, "01", "done", PROGRESS("2", "12", "70"));
    fake_engine_frame(&log, 1, "02", "done", "{\"event\":\"done\",\"epochs\":12}\n");
    fake_engine_frame(&log, 1, "01", "killed", PROGRESS("3", "3", "9"));
    fake_engine_stream(fake, "/services/s/logs", log.bytes, log.count);
    /* The engine leaves tasks out of a service's log until they are healthy. */
    fake_engine_frame(&starting, 1, "01", "starts", PROGRESS("5", "3", "41"));
    fake_engine_stream(fake, "/tasks/starts/logs", starting.bytes, starting.count);
    fake_engine_stream(fake, "/tasks/silent/logs", "", 0);
    program_start(&program, fake, table);
    program_finish(&program);
    assert_int_equal(program.status, 0);
    for (size_t i = 0; i < MST_ARRAY_COUNT(rows); i++) {
        const char *line = strstr(mst_buf_text(&program.out), rows[i].id);
        const char *columns = line ? strstr(line, rows[i].columns) : NULL;
        if (!columns || memchr(line, '\n', (size_t)(columns - line)))
            fail_msg("%s: no '%s' in\n%s", rows[i].id, rows[i].columns, mst_buf_text(&program.out));
    }
    program_release(&program);
    program_start(&program, fake, json);
    program_finish(&program);
    mst_cleanup(mst_json_deletep) cJSON *list = cJSON_Parse(mst_buf_text(&program.out));
    const cJSON *first = cJSON_GetArrayItem(list, 0), *third = cJSON_GetArrayItem(list, 2);
    assert_string_equal(mst_json_string_or(first, "worker", ""), "training");
    assert_int_equal(mst_json_u64_or(first, "view", 0), 7);
    assert_int_equal(mst_json_u64_or(first, "rank", 0), 1);
    assert_string_equal(mst_json_string_or(first, "step", ""), "3/41");
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(third, "view")));
    program_release(&program);
    fake_engine_stop(fake);
}

static void ps_shows_tasks_although_logs_cannot_be_read(void **state)
{
    static const char *const arguments[] = {"ps", "st", NULL};
    struct fake_rule rule = {"GET", "/services/s/logs", 1, 0, FAKE_REFUSE, 500, "no logs here", 0};
    struct fake_engine *fake = fake_engine_start(&rule, 1);
    struct program program;

    (void)state;
    fake_engine_add(fake, "services",
                    "{\"ID\":\"s\",\"Spec\":{\"Name\":\"st_w\",\"Labels\":{\"muster.role\":\"worker\","
                    "\"com.docker.stack.namespace\":\"st\"}}}");
    fake_engine_add(fake, "tasks", PS_TASK("a", "1", "running"));
    program_start(&program, fake, arguments);
    program_finish(&program);
    assert_int_equal(program.status, 0);
    assert_non_null(strstr(mst_buf_text(&program.out), "st_w.1"));
    assert_non_null(strstr(mst_buf_text(&program.err), "warning: states of workers may be missing: GET "));
    program_release(&program);
    fake_engine_stop(fake);
}

static void logs_come_in_order_of_time_and_without_samples(void **state)
{
    static const char *const plain[] = {"logs", "st", NULL}, *const all[] = {"logs", "--samples", "--raw",
                                                                             "st", NULL};
    mst_cleanup(mst_buf_release) struct mst_buf a = MST_BUF_INIT(65536), b = MST_BUF_INIT(65536);
    struct fake_engine *fake = fake_engine_start(NULL, 0);
    struct program program;

    (void)state;
    for (int i = 0; i < 2; i++)
        fake_engine_add(fake, "services",
                        i == 0 ? "{\"ID\":\"a\",\"Spec\":{\"Name\":\"st_a\",\"Labels\":{"
                                 "\"com.docker.stack.namespace\":\"st\"}}}"
                               : "{\"ID\":\"b\",\"Spec\":{\"Name\":\"st_b\",\"Labels\":{"
                                 "\"com.docker.stack.namespace\":\"st\"}}}");
    fake_engine_add(fake, "tasks", "{\"ID\":\"t1\",\"Slot\":1}");
    fake_engine_add(fake, "tasks", "{\"ID\":\"t2\",\"Slot\":2}");
    /* As the engine sends them: one task's after the other's. */
    fake_engine_frame(&a, 1, "01", "t1", "one\n");
    fake_engine_frame(&a, 1, "03", "t1", "three\n");
    fake_engine_frame(&a, 1, "03", "t1", "three again\n");
    fake_engine_frame(&a, 1, "02", "t2", "two\n");
    fake_engine_frame(&a, 1, "05", "t2", "{\"event\":\"sample\",\"t\":1}\n");
    fake_engine_frame(&b, 1, "04", "t1", "four\n");
    fake_engine_stream(fake, "/services/a/logs", a.bytes, a.count);
    fake_engine_stream(fake, "/services/b/logs", b.bytes, b.count);
    program_start(&program, fake, plain);
    program_finish(&program);
    assert_int_equal(program.status, 0);
    assert_string_equal(mst_buf_text(&program.out),
                        "st_a.1@fake1 | one\nst_a.2@fake1 | two\nst_a.1@fake1 | three\n"
                        "st_a.1@fake1 | three again\nst_b.1@fake1 | four\n");
    program_release(&program);
    program_start(&program, fake, all);
    program_finish(&program);
    assert_string_equal(mst_buf_text(&program.out),
                        "one\ntwo\nthree\nthree again\nfour\n{\"event\":\"sample\",\"t\":1}\n");
    program_release(&program);
    program_start(&program, fake, plain);
    (void)close(program.out_fd);
    program.out_fd = -1;
    program_finish(&program);
    assert_int_equal(program.status, 0);
    assert_string_equal(mst_buf_text(&program.err), "");
    program_release(&program);
    fake_engine_stop(fake);
}

static void followed_logs_are_put_in_order_as_they_come(void **state)
{
    static const char *const arguments[] = {"logs", "--follow", "--raw", "st", NULL};
    static const char expected[] = "one\ntwo\nthree\n";
    mst_cleanup(mst_buf_release) struct mst_buf log = MST_BUF_INIT(65536);
    struct fake_engine *fake = fake_engine_start(NULL, 0);
    const uint64_t deadline_ns = mst_now_ns() + 20 * MST_NS_PER_S;
    struct program program;

    (void)state;
    fake_engine_add(fake, "services",
                    "{\"ID\":\"a\",\"Spec\":{\"Name\":\"st_a\",\"Labels\":{"
                    "\"com.docker.stack.namespace\":\"st\"}}}");
    fake_engine_frame(&log, 1, "01", "t1", "one\n");
    fake_engine_frame(&log, 1, "03", "t1", "three\n");
    fake_engine_frame(&log, 1, "02", "t2", "two\n");
    fake_engine_stream(fake, "/services/a/logs", log.bytes, log.count);
    program_start(&program, fake, arguments);
    while (program.out.count < sizeof expected - 1) {
        struct pollfd waiting = {program.out_fd, POLLIN, 0};
        assert_int_equal(poll(&waiting, 1, mst_ms_until(deadline_ns, 20000)), 1);
        if (!program_take(program.out_fd, &program.out)) {
            program_finish(&program);
            fail_msg("it ended with %d: '%s', '%s'", program.status, mst_buf_text(&program.out),
                     mst_buf_text(&program.err));
        }
    }
    assert_string_equal(mst_buf_text(&program.out), expected);
    assert_int_equal(kill(program.pid, SIGINT), 0);
    program_finish(&program);
    assert_int_equal(program.status, 130);
    assert_string_equal(mst_buf_text(&program.out), expected);
    program_release(&program);
    fake_engine_stop(fake);
}

static void a_reader_that_left_is_no_failure(void **state)
{
    static const char *const arguments[] = {"services", "st", NULL};
    struct fake_engine *fake = fake_engine_start(NULL, 0);
    struct program program;

    (void)state;
    for (int i = 0; i < 200; i++) { /* more than a stream holds back */
        char service[256];
        (void)snprintf(service, sizeof service,
                       "{\"ID\":\"s%d\",\"Spec\":{\"Name\":\"st_%d\",\"Labels\":{"
                       "\"com.docker.stack.namespace\":\"st\"}}}",
                       i, i);
        fake_engine_add(fake, "services", service);
    }
    program_start(&program, fake, arguments);
    (void)close(program.out_fd);
    program.out_fd = -1;
    program_finish(&program);
    assert_string_equal(mst_buf_text(&program.err), "");
    assert_int_equal(program.status, 0);
    program_release(&program);
    fake_engine_stop(fake);
}

static void what_others_wrote_reaches_no_terminal(void **state)
{
    struct fake_rule rule = {"GET",
                             "/services",
                             1,
                             0,
                             FAKE_REFUSE,
                             500,
                             "a\xc2\x9b"
                             "2J\xe2\x80\xae"
                             "b",
                             0};
    static const char *const arguments[] = {"services", "st", NULL};
    struct fake_engine *fake = fake_engine_start(&rule, 1);
    struct program program;

    (void)state;
    program_start(&program, fake, arguments);
    program_finish(&program);
    assert_int_equal(program.status, 3);
    assert_non_null(strstr(mst_buf_text(&program.err), "500 Internal Server Error: a 2J b\n"));
    program_release(&program);
    fake_engine_stop(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_may_stand_in_front_of_the_verb),
        cmocka_unit_test(a_stack_file_on_a_silent_stdin_is_not_waited_for_after_ctrl_c),
        cmocka_unit_test_setup_teardown(a_credential_helper_that_hangs_is_not_waited_for_after_ctrl_c,
                                        test_folder_setup, test_folder_teardown),
        cmocka_unit_test_setup_teardown(a_value_that_no_program_takes_is_found_before_anything_is_made,
                                        test_folder_setup, test_folder_teardown),
        cmocka_unit_test(a_deployment_of_what_stands_says_so),
        cmocka_unit_test(ps_says_how_far_each_worker_is),
        cmocka_unit_test(ps_shows_tasks_although_logs_cannot_be_read),
        cmocka_unit_test(logs_come_in_order_of_time_and_without_samples),
        cmocka_unit_test(followed_logs_are_put_in_order_as_they_come),
        cmocka_unit_test(a_reader_that_left_is_no_failure),
        cmocka_unit_test(what_others_wrote_reaches_no_terminal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
