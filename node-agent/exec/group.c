/* SPDX-License-Identifier: Apache-2.0 */
#include "group.h"

#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/log.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEFT_BEHIND_NS (2 * MST_NS_PER_S)   /* for what the first process leaves to end by itself */
#define LOOK_AGAIN_NS  (50 * MST_NS_PER_MS) /* a member that is nobody's child of ours ends without a sign */

int exec_shell_status(int wait_status)
{
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

int exec_group_start_status(int code)
{
    return code == -ENOENT || code == -ENOTDIR ? 127
           : code == -EACCES || code == -ENOEXEC || code == -EPERM || code == -EISDIR || code == -E2BIG ||
                   code == -ELOOP || code == -ETXTBSY
               ? 126
               : 125;
}

/* ---- the new process, between fork() and execve(): async-signal-safe calls only ---- */

static void default_signals(void)
{
    const struct sigaction standard = {.sa_handler = SIG_DFL};
    sigset_t none;
    for (int number = 1; number < NSIG; number++)
        (void)sigaction(number, &standard, NULL); /* fails for KILL, STOP and libc's own: nothing to do */
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static int place_fds(const int *fds)
{
    int high[3];
    /* First out of the way of 0, 1 and 2, so that none overwrites another. */
    for (int f = 0; f < 3; f++) {
        high[f] = fcntl(fds[f], F_DUPFD_CLOEXEC, 3);
        if (high[f] < 0)
            return -errno;
    }
    for (int f = 0; f < 3; f++)
        if (dup2(high[f], f) < 0)
            return -errno;
    return 0;
}

static void take_terminal(pid_t group)
{
    sigset_t stop;
    (void)sigemptyset(&stop);
    (void)sigaddset(&stop, SIGTTOU); /* which a process of another group would get for this */
    (void)sigprocmask(SIG_BLOCK, &stop, NULL);
    (void)tcsetpgrp(STDIN_FILENO, group); /* not ours any more: it does without */
    (void)sigprocmask(SIG_UNBLOCK, &stop, NULL);
}

static void become(const struct exec_start *start, bool foreground, pid_t parent, int error_fd)
{
    int r = setpgid(0, 0) < 0 ? -errno : 0;
    /* No program outlives its supervisor, whatever ends that one. */
    if (r == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        r = -errno;
    if (r == 0 && getppid() != parent)
        r = -ECANCELED;
    if (r == 0 && foreground)
        take_terminal(getpid());
    if (r == 0 && start->fds)
        r = place_fds(start->fds);
    default_signals();
    if (r == 0) {
        (void)execvpe(start->argv[0], start->argv, start->environment);
        r = -errno;
    }
    (void)!write(error_fd, &r, sizeof r); /* nobody reads: nobody to tell */
    _exit(125);
}

/* ---- the supervisor's side ---- */

/* Waits until the new process is another program, or could not become it. */
static int await_exec(int error_fd)
{
    int code = 0;
    ssize_t got;
    do {
        got = read(error_fd, &code, sizeof code);
    } while (got < 0 && errno == EINTR);
    return got == sizeof code ? code : got < 0 ? -errno : 0;
}

int exec_group_start(struct exec_group *group, const struct exec_start *start, struct mst_error *err)
{
    int fds[2];
    const pid_t self = getpid();
    const bool foreground =
        start->foreground && isatty(STDIN_FILENO) == 1 && tcgetpgrp(STDIN_FILENO) == getpgrp();
    if (pipe2(fds, O_CLOEXEC) < 0)
        return mst_error_errno(err, -errno, "start '%s'", start->argv[0]);
    mst_cleanup(mst_closep) int read_fd = fds[0];
    const pid_t pid = fork();
    if (pid == 0)
        become(start, foreground, self, fds[1]);
    const int fork_code = pid < 0 ? -errno : 0;
    mst_closep(&fds[1]);
    if (fork_code < 0)
        return mst_error_errno(err, fork_code, "start '%s'", start->argv[0]);
    (void)setpgid(pid, pid); /* the new process does the same: whoever comes first */
    const int r = await_exec(read_fd);
    if (r < 0) {
        (void)waitpid(pid, NULL, 0); /* about to end: cannot hang */
        if (foreground)
            take_terminal(getpgrp());
        return mst_error_errno(err, r, "start '%s'", start->argv[0]);
    }
    *group = (struct exec_group){.state = EXEC_GROUP_RUNNING, .pid = pid, .foreground = foreground};
    return 0;
}

void exec_group_signal(const struct exec_group *group, int number)
{
    if (group->state != EXEC_GROUP_NONE)
        (void)kill(-group->pid, number); /* all of it has ended: the tick finds out */
}

void exec_group_end(struct exec_group *group, uint64_t grace_ns, uint64_t now_ns)
{
    if (group->state == EXEC_GROUP_NONE)
        return;
    if (!group->asked) { /* else it has had its signal, and may be about to obey */
        exec_group_signal(group, SIGTERM);
        exec_group_signal(group, SIGCONT); /* one that is stopped would not see it */
    }
    group->asked = true;
    if (group->kill_ns == 0 || now_ns + grace_ns < group->kill_ns)
        group->kill_ns = now_ns + grace_ns;
}

void exec_group_reaped(struct exec_group *group, int status, uint64_t now_ns)
{
    group->state = EXEC_GROUP_ENDED;
    group->status = status;
    if (group->foreground)
        take_terminal(getpgrp());
    group->foreground = false;
    /* The number of a group is its own as long as its first process is there, dead or not: so the signal
     * goes before that one is waited for. */
    if (group->kill_ns == 0) {
        exec_group_signal(group, SIGTERM);
        exec_group_signal(group, SIGCONT);
        group->kill_ns = now_ns + LEFT_BEHIND_NS;
    }
}

bool exec_group_tick(struct exec_group *group, uint64_t now_ns)
{
    if (group->state == EXEC_GROUP_NONE)
        return false;
    if (group->state == EXEC_GROUP_ENDED && kill(-group->pid, 0) < 0 && errno == ESRCH) {
        group->state = EXEC_GROUP_NONE;
        return true;
    }
    if (group->kill_ns == 0 || now_ns < group->kill_ns)
        return false;
    if (!group->killed) {
        group->killed = true;
        group->kill_ns = now_ns + EXEC_GROUP_GIVE_UP_MS * MST_NS_PER_MS;
        exec_group_signal(group, SIGKILL);
        return false;
    }
    mst_log_warn("exec", "process group %d does not end after SIGKILL: going on without", (int)group->pid);
    if (group->state == EXEC_GROUP_RUNNING)
        group->status = 128 + SIGKILL;
    group->state = EXEC_GROUP_NONE;
    return true;
}

uint64_t exec_group_deadline_ns(const struct exec_group *group, uint64_t now_ns)
{
    if (group->state == EXEC_GROUP_NONE)
        return UINT64_MAX;
    uint64_t deadline_ns = group->kill_ns != 0 ? group->kill_ns : UINT64_MAX;
    if (group->state == EXEC_GROUP_ENDED && now_ns + LOOK_AGAIN_NS < deadline_ns)
        deadline_ns = now_ns + LOOK_AGAIN_NS;
    return deadline_ns;
}
