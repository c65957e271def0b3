/* SPDX-License-Identifier: Apache-2.0 */
#include "process.h"

#include "muster/buf.h"
#include "muster/cleanup.h"
#include "muster/file.h"
#include "muster/log.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STAT_MAX_BYTES 4096
#define STAT_START_TIME_FIELD                                                                                \
    20 /* of /proc/PID/stat, counted from the state behind the name: proc(5), field 22 */

/* Signal dispositions belong to the process, and so does the one place that a handler can write to.
 * signalfd(2) would be neater, but needs the signals blocked in every thread, and OpenBLAS starts its threads
 * when the library is loaded, before main(): a SIGTERM would reach one of those and end the process. */
static int signal_write_fd = -1;

static void write_signal(int number)
{
    const int saved_errno = errno;
    const unsigned char byte = (unsigned char)number;
    (void)!write(signal_write_fd, &byte, 1); /* full: enough is waiting to be read */
    errno = saved_errno;
}

int process_signals_open(int *ret_fd, struct mst_error *err)
{
    static const int caught[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD};
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    const struct sigaction handle = {.sa_handler = write_signal, .sa_flags = SA_RESTART | SA_NOCLDSTOP};
    int fds[2];
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
        return mst_error_errno(err, -errno, "set up signals");
    signal_write_fd = fds[1];
    int r = sigaction(SIGPIPE, &ignore, NULL) < 0 ? -errno : 0;
    for (size_t s = 0; r == 0 && s < MST_ARRAY_COUNT(caught); s++)
        r = sigaction(caught[s], &handle, NULL) < 0 ? -errno : 0;
    if (r < 0) {
        mst_closep(&fds[0]);
        mst_closep(&signal_write_fd);
        return mst_error_errno(err, r, "set up signals");
    }
    *ret_fd = fds[0];
    return 0;
}

static void reap(void)
{
    int status;
    for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG))
        mst_log_debug("process", "reaped process %d", (int)pid);
}

int process_signals_read(int fd)
{
    unsigned char number;
    int stop = 0;
    while (read(fd, &number, 1) == 1) {
        if (number == SIGCHLD)
            reap();
        else
            stop = number == SIGINT ? SIGINT : SIGTERM;
    }
    return stop;
}

double process_age_ms(void)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(STAT_MAX_BYTES);
    if (mst_file_read("/proc/self/stat", &text, NULL) < 0)
        return 0;
    const char *next = strrchr(mst_buf_text(&text), ')'); /* the name may hold spaces and brackets */
    for (int field = 0; next && field < STAT_START_TIME_FIELD; field++)
        next = strchr(next + 1, ' ');
    unsigned long long start_ticks;
    struct timespec now;
    if (!next || sscanf(next, " %llu", &start_ticks) != 1 || clock_gettime(CLOCK_BOOTTIME, &now) < 0)
        return 0;
    const double now_ms = (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
    const double age_ms = now_ms - (double)start_ticks * 1e3 / (double)sysconf(_SC_CLK_TCK);
    return age_ms > 0 ? age_ms : 0;
}
