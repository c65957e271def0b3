/* SPDX-License-Identifier: Apache-2.0 */
#include "process.h"

#include "muster/buf.h"
#include "muster/cleanup.h"
#include "muster/file.h"
#include "muster/log.h"
#include "muster/signals.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STAT_MAX_BYTES 4096
#define STAT_START_TIME_FIELD                                                                                \
    20 /* of /proc/PID/stat, counted from the state behind the name: proc(5), field 22 */

int process_signals_open(int *ret_fd, struct mst_error *err)
{
    static const int caught[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD};
    return mst_signals_open(caught, MST_ARRAY_COUNT(caught), ret_fd, err);
}

static void reap(void)
{
    int status;
    for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG))
        mst_log_debug("process", "reaped process %d", (int)pid);
}

int process_signals_read(int fd)
{
    int number, stop = 0;
    while ((number = mst_signals_read(fd)) != 0) {
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
