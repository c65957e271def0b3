/* SPDX-License-Identifier: Apache-2.0 */
/* The program itself, on an engine that does as it is told. */
#include "../common/test.h"
#include "fake_engine.h"
#include "muster/clock.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#define ARGUMENTS_MAX 16

struct program {
    pid_t pid;
    int in_fd; /* ours, of its stdin */
    int out_fd, err_fd;
    struct mst_buf out, err;
    int status; /* as a shell shows it */
};

/* `arguments` end with NULL; "muster" comes in front. */
static void start(struct program *program, const struct fake_engine *fake, const char *const *arguments)
{
    char *argv[ARGUMENTS_MAX] = {strdup("muster")};
    int in[2], out[2], err[2];

    for (size_t i = 0; arguments[i]; i++) {
        assert_true(i + 2 < ARGUMENTS_MAX);
        argv[i + 1] = strdup(arguments[i]);
    }
    assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC) | pipe2(err, O_CLOEXEC), 0);
    *program = (struct program){.in_fd = in[1],
                                .out_fd = out[0],
                                .err_fd = err[0],
                                .out = MST_BUF_INIT(1 << 20),
                                .err = MST_BUF_INIT(1 << 20)};
    program->pid = fork();
    assert_true(program->pid >= 0);
    if (program->pid == 0) {
        (void)dup2(in[0], STDIN_FILENO);
        (void)dup2(out[1], STDOUT_FILENO);
        (void)dup2(err[1], STDERR_FILENO);
        (void)setenv("MUSTER_HOST", fake_engine_host(fake), 1);
        (void)execv(MUSTER, argv);
        _exit(125);
    }
    (void)close(in[0]);
    (void)close(out[1]);
    (void)close(err[1]);
    for (size_t i = 0; i < ARGUMENTS_MAX; i++)
        free(argv[i]);
}

/* False at the end. */
static bool take(int fd, struct mst_buf *text)
{
    char bytes[4096];
    const ssize_t got = read(fd, bytes, sizeof bytes);

    assert_true(got >= 0);
    assert_int_equal(mst_buf_append(text, bytes, (size_t)got), 0);
    return got > 0;
}

static void finish(struct program *program)
{
    const uint64_t deadline_ns = mst_now_ns() + 20 * MST_NS_PER_S;
    struct pollfd fds[] = {{program->out_fd, POLLIN, 0}, {program->err_fd, POLLIN, 0}};
    int status;

    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
        assert_true(poll(fds, 2, mst_ms_until(deadline_ns, 20000)) > 0);
        if (fds[0].revents != 0 && !take(fds[0].fd, &program->out))
            fds[0].fd = -1;
        if (fds[1].revents != 0 && !take(fds[1].fd, &program->err))
            fds[1].fd = -1;
    }
    assert_int_equal(waitpid(program->pid, &status, 0), program->pid);
    program->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    for (size_t i = 0; i < 3; i++) {
        const int fd = (int[]){program->in_fd, program->out_fd, program->err_fd}[i];
        if (fd >= 0)
            (void)close(fd);
    }
}

static void release(struct program *program)
{
    mst_buf_release(&program->out);
    mst_buf_release(&program->err);
}

static void options_may_stand_in_front_of_the_verb(void **state)
{
    static const struct {
        const char *arguments[6];
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
        start(&program, fake, cases[i].arguments);
        finish(&program);
        if (program.status != cases[i].status || !strstr(mst_buf_text(&program.out), cases[i].out) ||
            !strstr(mst_buf_text(&program.err), cases[i].err))
            fail_msg("case %zu: %d, '%s', '%s'", i, program.status, mst_buf_text(&program.out),
                     mst_buf_text(&program.err));
        release(&program);
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
        start(&program, fake, arguments);
        /* It asks the engine first, and then waits for the file. */
        while (fake_engine_count(fake, "GET /nodes") <= i)
            assert_true(mst_now_ns() < deadline_ns);
        assert_int_equal(kill(program.pid, signals[i]), 0);
        finish(&program);
        assert_int_equal(program.status, 128 + signals[i]);
        assert_string_equal(mst_buf_text(&program.err), "");
        release(&program);
    }
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
        start(&program, fake, arguments);
        assert_int_equal(mst_write_all(program.in_fd, file, sizeof file - 1), 0);
        (void)close(program.in_fd);
        program.in_fd = -1;
        finish(&program);
        (void)unsetenv("MUSTER_RUNS");
        assert_int_equal(program.status, 2);
        if (!strstr(mst_buf_text(&program.err),
                    "muster: stdin:2:3: services.w1.environment.MUSTER_EPOCHS: 'abc' is not"))
            fail_msg("%s: %s", verbs[i], mst_buf_text(&program.err));
        release(&program);
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
        start(&program, fake, arguments);
        assert_int_equal(mst_write_all(program.in_fd, file, sizeof file - 1), 0);
        (void)close(program.in_fd);
        program.in_fd = -1;
        finish(&program);
        if (program.status != 0 || !strstr(mst_buf_text(&program.err), "stack 'st': ") ||
            !!strstr(mst_buf_text(&program.err), "nothing to change") != again)
            fail_msg("%d: %s", program.status, mst_buf_text(&program.err));
        release(&program);
    }
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
    start(&program, fake, arguments);
    (void)close(program.out_fd);
    program.out_fd = -1;
    finish(&program);
    assert_string_equal(mst_buf_text(&program.err), "");
    assert_int_equal(program.status, 0);
    release(&program);
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
    start(&program, fake, arguments);
    finish(&program);
    assert_int_equal(program.status, 3);
    assert_non_null(strstr(mst_buf_text(&program.err), "500 Internal Server Error: a 2J b\n"));
    release(&program);
    fake_engine_stop(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_may_stand_in_front_of_the_verb),
        cmocka_unit_test(a_stack_file_on_a_silent_stdin_is_not_waited_for_after_ctrl_c),
        cmocka_unit_test_setup_teardown(a_value_that_no_program_takes_is_found_before_anything_is_made,
                                        test_folder_setup, test_folder_teardown),
        cmocka_unit_test(a_deployment_of_what_stands_says_so),
        cmocka_unit_test(a_reader_that_left_is_no_failure),
        cmocka_unit_test(what_others_wrote_reaches_no_terminal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
