/* SPDX-License-Identifier: Apache-2.0 */
/* The program as others see it: output, signals, exit codes, and what is left of root. */
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/json.h"
#include "muster/net.h"
#include "scripted_engine.h"

#include <poll.h>
#include <sys/stat.h>

#define PATIENCE_NS (10 * MST_NS_PER_S)

struct program {
    pid_t pid;
    int out; /* its stdout */
};

/* argv without the program's name; stderr goes to /dev/null. */
static struct program start(const char *const *argv)
{
    const char *full[16] = {MUSTER_MONITOR};
    struct program program;
    int fds[2];
    for (size_t i = 0; argv[i]; i++) {
        assert_true(i + 2 < MST_ARRAY_COUNT(full));
        full[i + 1] = argv[i];
    }
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    program.pid = fork();
    assert_true(program.pid >= 0);
    if (program.pid == 0) {
        const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        (void)unsetenv("DOCKER_HOST");
        if (null < 0 || dup2(fds[1], STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0)
            _exit(99);
        (void)execv(full[0], (char *const *)(uintptr_t)full);
        _exit(99);
    }
    assert_int_equal(close(fds[1]), 0);
    program.out = fds[0];
    return program;
}

static int finish(struct program *program)
{
    int status = 0;
    assert_int_equal(waitpid(program->pid, &status, 0), program->pid);
    assert_int_equal(close(program->out), 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The next line of its stdout, into `line` with a NUL and without the line's end. */
static void read_line(const struct program *program, char *line, size_t capacity)
{
    const uint64_t deadline_ns = mst_now_ns() + PATIENCE_NS;
    size_t count = 0;
    for (;;) {
        assert_true(count + 1 < capacity);
        assert_int_equal(mst_wait_fd(program->out, POLLIN, deadline_ns), 0);
        assert_int_equal(read(program->out, line + count, 1), 1);
        if (line[count] == '\n')
            break;
        count++;
    }
    line[count] = '\0';
}

static int end_by(struct program *program, int signal_number)
{
    const uint64_t start_ns = mst_now_ns();
    assert_int_equal(kill(program->pid, signal_number), 0);
    const int status = finish(program);
    assert_true(mst_ms_since(start_ns) < 1000);
    return status;
}

static char procfs[160], sysfs[160];

/* An engine whose socket the program may still use after it gave root up, and a tree that it may read: the
 * sources may lie in a home folder that is closed to others. */
static void start_engine(struct scripted_engine *engine)
{
    char command[1024];
    *engine = (struct scripted_engine){
        .events = reply_events_that_stay, .list = reply_list_of_one, .inspect = reply_inspect};
    scripted_engine_start(engine);
    (void)snprintf(procfs, sizeof procfs, "%s/v1/proc", engine->folder);
    (void)snprintf(sysfs, sizeof sysfs, "%s/v1/sys", engine->folder);
    (void)snprintf(command, sizeof command, "cp -r %s/v1 %s && chmod -R a+rX %s && chmod 660 %s/sock",
                   MUSTER_TEST_DATA, engine->folder, engine->folder, engine->folder);
    assert_int_equal(system(command), 0);
}

static void emit_writes_events_until_it_is_told_to_end(void **state)
{
    static const int signals[] = {SIGTERM, SIGINT};
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(signals); i++) {
        struct scripted_engine engine;
        char line[MST_EVENT_MAX_BYTES];
        start_engine(&engine);
        struct program program = start((const char *const[]){
            "emit", "--host", engine.host, "--path.procfs", procfs, "--path.sysfs", sysfs, "--interval",
            "100ms", "--node", "node1", "--slot=web_monitor.1", NULL});
        for (int tick = 0; tick < 2; tick++) {
            mst_cleanup(mst_json_deletep) cJSON *event = NULL;
            read_line(&program, line, sizeof line);
            assert_int_equal(mst_json_parse(line, strlen(line), "event", &event, NULL), 0);
            assert_string_equal(mst_json_string_or(event, "event", ""), "sample");
            assert_string_equal(mst_json_string_or(event, "slot", ""), "web_monitor.1");
            assert_string_equal(mst_json_string_or(event, "task_slot", ""), "web_w.2");
        }
        assert_int_equal(end_by(&program, signals[i]), 0);
        scripted_engine_stop(&engine);
    }
}

static void csv_writes_a_header_and_rows_that_are_whole(void **state)
{
    struct scripted_engine engine;
    char line[1024];
    (void)state;
    start_engine(&engine);
    struct program program =
        start((const char *const[]){"csv", "-H", engine.host, "--path.procfs", procfs, "--path.sysfs", sysfs,
                                    "--node", "node1", "--interval", "100ms", "-", NULL});
    read_line(&program, line, sizeof line);
    assert_memory_equal(line, "time,node,stack,", 16);
    read_line(&program, line, sizeof line);
    assert_non_null(
        strstr(line, ",node1,web,web_w,web_w.2," CONTAINER_ID ",web_w.2.m8adw1f21fgpvi8xvn2ckf10h,,4.124"));
    read_line(&program, line, sizeof line);
    assert_non_null(
        strstr(line, ",web_w.2.m8adw1f21fgpvi8xvn2ckf10h,0.00,4.124098266,1011712,67108864,1000796,"));
    assert_int_equal(end_by(&program, SIGINT), 0);
    scripted_engine_stop(&engine);
}

static void root_is_given_up_before_the_engine_is_asked(void **state)
{
    struct scripted_engine engine;
    char line[MST_EVENT_MAX_BYTES], path[64];
    (void)state;
    if (geteuid() != 0)
        skip();
    start_engine(&engine);
    struct program program = start((const char *const[]){"emit", "-H", engine.host, "--path.procfs", procfs,
                                                         "--path.sysfs", sysfs, NULL});
    read_line(&program, line, sizeof line);
    (void)snprintf(path, sizeof path, "/proc/%ld/status", (long)program.pid);
    mst_cleanup(mst_buf_release) struct mst_buf status = load(path);
    assert_non_null(strstr(status.bytes, "\nUid:\t65532\t65532\t65532\t65532\n"));
    assert_non_null(strstr(status.bytes, "\nGid:\t65532\t65532\t65532\t65532\n"));
    assert_non_null(strstr(status.bytes, "\nCapEff:\t0000000000000000\n"));
    assert_non_null(strstr(status.bytes, "\nNoNewPrivs:\t1\n"));
    assert_int_equal(end_by(&program, SIGTERM), 0);
    scripted_engine_stop(&engine);
}

static void root_is_kept_where_the_socket_would_be_out_of_reach(void **state)
{
    struct scripted_engine engine;
    char line[MST_EVENT_MAX_BYTES], path[64];
    (void)state;
    if (geteuid() != 0)
        skip();
    start_engine(&engine);
    assert_int_equal(chmod(engine.folder, 0700), 0);
    struct program program = start((const char *const[]){"emit", "-H", engine.host, "--path.procfs", procfs,
                                                         "--path.sysfs", sysfs, NULL});
    read_line(&program, line, sizeof line);
    (void)snprintf(path, sizeof path, "/proc/%ld/status", (long)program.pid);
    mst_cleanup(mst_buf_release) struct mst_buf status = load(path);
    assert_non_null(strstr(status.bytes, "\nUid:\t0\t0\t0\t0\n"));
    assert_int_equal(end_by(&program, SIGTERM), 0);
    scripted_engine_stop(&engine);
}

static void a_reader_that_has_had_enough_is_no_failure(void **state)
{
    struct scripted_engine engine;
    char line[MST_EVENT_MAX_BYTES];
    int status = 0;
    (void)state;
    start_engine(&engine);
    struct program program = start((const char *const[]){"emit", "-H", engine.host, "--path.procfs", procfs,
                                                         "--path.sysfs", sysfs, "--interval", "100ms", NULL});
    read_line(&program, line, sizeof line);
    assert_int_equal(close(program.out), 0);
    assert_int_equal(waitpid(program.pid, &status, 0), program.pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    scripted_engine_stop(&engine);
}

static void exit_codes_tell_what_went_wrong(void **state)
{
    static const struct {
        int status;
        const char *argv[8];
    } cases[] = {
        {0, {"--help"}},
        {0, {"--version"}},
        {0, {"emit", "--help"}},
        {2, {NULL}},
        {2, {"emti"}},
        {2, {"emit", "operand"}},
        {2, {"csv"}},
        {2, {"csv", "a", "b"}},
        {2, {"emit", "--intervall", "1s"}},
        {2, {"emit", "--interval", "1"}},
        {2, {"emit", "--interval", "1ms"}},
        {2, {"emit", "--node", ""}},
        {2, {"emit", "--log-format", "xml"}},
        {2, {"emit", "--host", "ftp://nowhere"}},
        {1, {"emit", "--host", "unix:///nonexistent/engine.sock"}},
        {1, {"csv", "--host", "unix:///nonexistent/engine.sock", "-"}},
        {1, {"csv", "/nonexistent/stats.csv"}},
        {2, {"csv", MUSTER_TEST_DATA "/engine/list.json"}},
    };
    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(cases); i++) {
        char byte;
        struct program program = start(cases[i].argv);
        while (read(program.out, &byte, 1) > 0) /* the help must not meet a closed pipe */
            continue;
        assert_int_equal(finish(&program), cases[i].status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(emit_writes_events_until_it_is_told_to_end),
        cmocka_unit_test(csv_writes_a_header_and_rows_that_are_whole),
        cmocka_unit_test(root_is_given_up_before_the_engine_is_asked),
        cmocka_unit_test(root_is_kept_where_the_socket_would_be_out_of_reach),
        cmocka_unit_test(a_reader_that_has_had_enough_is_no_failure),
        cmocka_unit_test(exit_codes_tell_what_went_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
