/* SPDX-License-Identifier: Apache-2.0 */
#include "signals.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

/* A handler has nowhere else to look. */
static volatile sig_atomic_t caught;
static int write_fd = -1;

static void on_signal(int number)
{
    const int saved_errno = errno;

    caught = number;
    (void)!write(write_fd, "", 1); /* a full pipe is readable too */
    errno = saved_errno;
}

int signals_install(int *ret_fd, struct mst_error *err)
{
    struct sigaction action = {.sa_handler = on_signal};
    int fds[2];

    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
        return mst_error_errno(err, -errno, "pipe for signals");
    write_fd = fds[1];
    (void)sigemptyset(&action.sa_mask);
    if (sigaction(SIGINT, &action, NULL) < 0 || sigaction(SIGTERM, &action, NULL) < 0 ||
        signal(SIGPIPE, SIG_IGN) == SIG_ERR)
        return mst_error_errno(err, -errno, "signal handlers");
    *ret_fd = fds[0];
    return 0;
}

int signals_caught(void)
{
    return caught;
}

void signals_restore(void)
{
    (void)signal(SIGINT, SIG_DFL);
    (void)signal(SIGTERM, SIG_DFL);
}
