/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/clock.h"
#include "muster/net.h"
#include "process.h"
#include "test.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

static uint64_t in_ms(unsigned ms)
{
    return mst_now_ns() + ms * MST_NS_PER_MS;
}

static void signals_are_read_as_requests_to_stop(void **state)
{
    (void)state;
    static const struct {
        int sent, read;
    } cases[] = {{SIGTERM, SIGTERM}, {SIGINT, SIGINT}, {SIGHUP, SIGTERM}};
    mst_cleanup(mst_closep) int fd = -1;
    assert_int_equal(process_signals_open(&fd, NULL), 0);
    assert_int_equal(process_signals_read(fd), 0);
    for (size_t c = 0; c < MST_ARRAY_COUNT(cases); c++) {
        assert_int_equal(raise(cases[c].sent), 0);
        assert_int_equal(mst_wait_fd(fd, POLLIN, in_ms(5000)), 0);
        assert_int_equal(process_signals_read(fd), cases[c].read);
        assert_int_equal(process_signals_read(fd), 0);
    }
    assert_int_equal(raise(SIGPIPE), 0); /* ignored: the test goes on */

    /* More than a pipe holds: the handler must not block. */
    for (int i = 0; i < 70000; i++)
        assert_int_equal(raise(SIGTERM), 0);
    assert_int_equal(process_signals_read(fd), SIGTERM);
    assert_int_equal(process_signals_read(fd), 0);
}

static void children_are_reaped(void **state)
{
    (void)state;
    mst_cleanup(mst_closep) int fd = -1;
    assert_int_equal(process_signals_open(&fd, NULL), 0);
    pid_t pids[3];
    for (size_t p = 0; p < 3; p++) {
        pids[p] = fork();
        if (pids[p] == 0)
            _exit((int)p);
        assert_true(pids[p] > 0);
    }
    const uint64_t deadline_ns = in_ms(5000);
    size_t left = 3;
    while (left > 0 && mst_wait_fd(fd, POLLIN, deadline_ns) == 0) {
        assert_int_equal(process_signals_read(fd), 0);
        left = 0;
        for (size_t p = 0; p < 3; p++)
            left += kill(pids[p], 0) == 0; /* a zombie still answers */
    }
    assert_int_equal(left, 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void the_age_of_the_process_is_plausible(void **state)
{
    (void)state;
    const double age_ms = process_age_ms();
    assert_true(age_ms >= 0 && age_ms < 60000);
    const pid_t pid = fork();
    if (pid == 0) {
        /* The parent's age is not the child's. A tick is 10 ms. */
        const double own_ms = process_age_ms();
        _exit(own_ms >= 0 && own_ms < 5000 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_true(process_age_ms() >= age_ms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_age_of_the_process_is_plausible),
        cmocka_unit_test(signals_are_read_as_requests_to_stop),
        cmocka_unit_test(children_are_reaped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
