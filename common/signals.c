/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/signals.h"

#include "muster/cleanup.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

/* A handler has nowhere else to look. */
static volatile sig_atomic_t newest;
static int write_fd = -1;

static void on_signal(int number)
{
    const int saved_errno = errno;
    const unsigned char byte = (unsigned char)number;

    newest = number;
    (void)!write(write_fd, &byte, 1); /* full: enough is waiting to be read */
    errno = saved_errno;
}

int mst_signals_open(const int *numbers, size_t count, int *ret_fd, struct mst_error *err)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    const struct sigaction handle = {.sa_handler = on_signal, .sa_flags = SA_RESTART | SA_NOCLDSTOP};
    mst_cleanup(mst_closep) int fd = -1;
    int fds[2];

    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
        return mst_error_errno(err, -errno, "open a pipe for signals");
    fd = fds[0];
    const int old_fd = write_fd;
    write_fd = fds[1];
    if (old_fd >= 0)
        (void)close(old_fd);
    int r = sigaction(SIGPIPE, &ignore, NULL) < 0 ? -errno : 0;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = sigaction(numbers[i], &handle, NULL) < 0 ? -errno : 0;
    if (r < 0)
        return mst_error_errno(err, r, "catch signals");
    *ret_fd = fd;
    fd = -1;
    return 0;
}

int mst_signals_read(int fd)
{
    unsigned char number;

    return read(fd, &number, 1) == 1 ? number : 0;
}

int mst_signals_newest(void)
{
    return newest;
}

void mst_signals_restore(const int *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        (void)signal(numbers[i], SIG_DFL);
}
