/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/signals.h"
#include "test.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static const int both[] = {SIGTERM, SIGUSR1};

static bool is_readable(int fd)
{
    struct pollfd waiting = {.fd = fd, .events = POLLIN};

    return poll(&waiting, 1, 0) == 1;
}

static void signals_are_read_in_their_order(void **state)
{
    mst_cleanup(mst_closep) int fd = -1;

    (void)state;
    assert_int_equal(mst_signals_open(both, MST_ARRAY_COUNT(both), &fd, NULL), 0);
    assert_false(is_readable(fd));
    assert_int_equal(raise(SIGUSR1), 0);
    assert_int_equal(raise(SIGTERM), 0);
    assert_true(is_readable(fd));
    assert_int_equal(mst_signals_newest(), SIGTERM);
    assert_int_equal(mst_signals_read(fd), SIGUSR1);
    assert_int_equal(mst_signals_read(fd), SIGTERM);
    assert_int_equal(mst_signals_read(fd), 0);
    assert_int_equal(mst_signals_newest(), SIGTERM);
    mst_signals_restore(both, MST_ARRAY_COUNT(both));
}

static void a_pipe_without_reader_ends_no_process(void **state)
{
    mst_cleanup(mst_closep) int fd = -1;
    int fds[2];

    (void)state;
    assert_int_equal(mst_signals_open(both, MST_ARRAY_COUNT(both), &fd, NULL), 0);
    assert_int_equal(pipe(fds), 0);
    (void)close(fds[0]);
    assert_int_equal(write(fds[1], "x", 1), -1);
    assert_int_equal(errno, EPIPE);
    (void)close(fds[1]);
    mst_signals_restore(both, MST_ARRAY_COUNT(both));
}

static void of_two_calls_the_newest_hears(void **state)
{
    mst_cleanup(mst_closep) int old_fd = -1, fd = -1;

    (void)state;
    assert_int_equal(mst_signals_open(both, MST_ARRAY_COUNT(both), &old_fd, NULL), 0);
    assert_int_equal(mst_signals_open(both, MST_ARRAY_COUNT(both), &fd, NULL), 0);
    assert_int_equal(raise(SIGUSR1), 0);
    assert_int_equal(mst_signals_read(old_fd), 0);
    assert_int_equal(mst_signals_read(fd), SIGUSR1);
    mst_signals_restore(both, MST_ARRAY_COUNT(both));
}

static void what_cannot_be_caught_is_an_error(void **state)
{
    static const int none[] = {SIGKILL};
    struct mst_error err = MST_ERROR_INIT;
    int fd = 77;

    (void)state;
    assert_int_equal(mst_signals_open(none, 1, &fd, &err), -EINVAL);
    assert_int_equal(fd, 77);
    assert_non_null(strstr(err.text, "catch signals"));
}

static void after_restoring_a_signal_ends_the_process(void **state)
{
    int status;
    const pid_t pid = fork();

    (void)state;
    assert_true(pid >= 0);
    if (pid == 0) {
        int fd = -1;
        if (mst_signals_open(both, MST_ARRAY_COUNT(both), &fd, NULL) < 0 || raise(SIGTERM) != 0)
            _exit(1);
        mst_signals_restore(both, MST_ARRAY_COUNT(both));
        (void)raise(SIGTERM);
        _exit(2);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_are_read_in_their_order),
        cmocka_unit_test(a_pipe_without_reader_ends_no_process),
        cmocka_unit_test(of_two_calls_the_newest_hears),
        cmocka_unit_test(what_cannot_be_caught_is_an_error),
        cmocka_unit_test(after_restoring_a_signal_ends_the_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
