/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor.h"

#include "loop.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/log.h"
#include "muster/signals.h"
#include "orphans.h"
#include "supervisor_private.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define ORPHAN_NS     (2 * MST_NS_PER_S)   /* for what programs left behind, before SIGKILL */
#define LOOK_AGAIN_NS (50 * MST_NS_PER_MS) /* at orphans, whose end is not always told */
#define LONGEST_MS    60000

/* All but CHLD are passed on to CMD. TERM and INT also make this worker leave. */
static const int caught[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};

/* ---- signals ---- */

static void set_of_signals(sigset_t *ret_set)
{
    (void)sigemptyset(ret_set);
    for (size_t s = 0; s < MST_ARRAY_COUNT(caught); s++)
        (void)sigaddset(ret_set, caught[s]);
}

/* ---- to the network part ---- */

void supervisor_stop_listening(struct supervisor *supervisor)
{
    mst_closep(&supervisor->wire_fd);
    supervisor->answer_stop = false;
}

void supervisor_tell(struct supervisor *supervisor, const struct exec_wire_message *message)
{
    struct mst_error err = MST_ERROR_INIT;
    if (supervisor->wire_fd < 0)
        return;
    if (exec_wire_send(supervisor->wire_fd, message, &err) < 0) {
        if (err.code != -EPIPE) /* it is about to be reaped, which says more */
            mst_log_error("exec", "%s", err.text);
        supervisor_stop_listening(supervisor);
    }
}

void supervisor_distrust(struct supervisor *supervisor, const char *why)
{
    mst_log_error("exec", "the network part is not to be trusted: %s", why);
    supervisor->broken = true;
    supervisor_stop_listening(supervisor);
    if (supervisor->network > 0)
        (void)kill(supervisor->network, SIGKILL);
}

/* ---- ending ---- */

static bool is_known(const void *context, pid_t pid)
{
    const struct supervisor *supervisor = context;
    if (pid == supervisor->network ||
        (supervisor->command.state != EXEC_GROUP_NONE && pid == supervisor->command.pid))
        return true;
    for (size_t s = 0; s < SUPERVISOR_SPAWNS; s++)
        if (supervisor->spawns[s].group.state != EXEC_GROUP_NONE && pid == supervisor->spawns[s].group.pid)
            return true;
    return false;
}

static bool programs_left(const struct supervisor *supervisor)
{
    if (supervisor->command.state != EXEC_GROUP_NONE)
        return true;
    for (size_t s = 0; s < SUPERVISOR_SPAWNS; s++)
        if (supervisor->spawns[s].group.state != EXEC_GROUP_NONE)
            return true;
    return false;
}

void supervisor_stop_all(struct supervisor *supervisor)
{
    const uint64_t now_ns = mst_now_ns();
    const uint64_t grace_ns = supervisor->options->settings->grace_ns;
    supervisor->stopping = true;
    exec_group_end(&supervisor->command, grace_ns, now_ns);
    for (size_t s = 0; s < SUPERVISOR_SPAWNS; s++)
        exec_group_end(&supervisor->spawns[s].group, grace_ns, now_ns);
}

/* Those that left their group behind (daemons), once all groups are gone. True when none is left. */
static bool orphans_gone(struct supervisor *supervisor, uint64_t now_ns)
{
    int number = 0;
    if (supervisor->orphan_kill_ns == 0) {
        number = SIGTERM;
        supervisor->orphan_kill_ns = now_ns + ORPHAN_NS;
    } else if (now_ns >= supervisor->orphan_kill_ns) {
        number = SIGKILL;
    }
    const size_t left = exec_orphans_signal(number, is_known, supervisor);
    if (left > 0 && now_ns < supervisor->orphan_kill_ns + EXEC_GROUP_GIVE_UP_MS * MST_NS_PER_MS)
        return false;
    if (left > 0)
        mst_log_warn("exec", "%zu processes that were left behind do not end after SIGKILL", left);
    return true;
}

static void check_stopped(struct supervisor *supervisor, uint64_t now_ns)
{
    if (!supervisor->stopping || programs_left(supervisor) || !orphans_gone(supervisor, now_ns))
        return;
    supervisor->stopping = false;
    supervisor->orphan_kill_ns = 0;
    supervisor->over = supervisor->network == 0;
    if (!supervisor->answer_stop)
        return;
    supervisor->answer_stop = false;
    const struct exec_wire_message stopped = {.type = EXEC_WIRE_STOPPED};
    supervisor_tell(supervisor, &stopped);
}

void supervisor_command_gone(struct supervisor *supervisor, int status, bool asked)
{
    supervisor->command_ended = true;
    supervisor->command_status = status;
    const struct exec_wire_message exited = {
        .type = EXEC_WIRE_EXITED, .status = (uint32_t)status, .number = asked};
    supervisor_tell(supervisor, &exited);
}

void supervisor_spawn_gone(struct supervisor *supervisor, uint32_t id, int status)
{
    const struct exec_wire_message exited = {
        .type = EXEC_WIRE_SPAWN_EXITED, .id = id, .status = (uint32_t)status};
    supervisor_tell(supervisor, &exited);
}

/* ---- what happens here ---- */

static void pass_on(struct supervisor *supervisor, int number)
{
    const bool leave = number == SIGTERM || number == SIGINT;
    exec_group_signal(&supervisor->command, number);
    if (!leave)
        return;
    supervisor->leaving = number;
    supervisor->command.asked = true;
    if (supervisor->network == 0) {
        supervisor_stop_all(supervisor);
        return;
    }
    (void)kill(supervisor->network, number);
    if (supervisor->network_kill_ns == 0)
        supervisor->network_kill_ns = mst_now_ns() + SUPERVISOR_LEAVE_NS;
}

static void network_ended(struct supervisor *supervisor, int status)
{
    supervisor_listen(supervisor); /* it may have said a last word */
    supervisor->network = 0;
    supervisor_stop_listening(supervisor);
    if (!supervisor->ended && supervisor->leaving == 0 && status > 128)
        mst_log_error("exec", "the network part was ended by signal %d", status - 128);
    /* A program that looks after itself does so without the others, too. */
    const bool goes_on = supervisor->options->settings->on_change == EXEC_IGNORE && !supervisor->broken &&
                         !supervisor->ended && supervisor->leaving == 0 &&
                         supervisor->command.state == EXEC_GROUP_RUNNING;
    if (goes_on)
        mst_log_warn("exec", "the other workers are given up: the command goes on alone");
    else
        supervisor_stop_all(supervisor);
}

static void child_ended(struct supervisor *supervisor, pid_t pid, int status)
{
    const uint64_t now_ns = mst_now_ns();
    if (supervisor->command.state == EXEC_GROUP_RUNNING && pid == supervisor->command.pid)
        exec_group_reaped(&supervisor->command, status, now_ns);
    for (size_t s = 0; s < SUPERVISOR_SPAWNS; s++) {
        struct exec_group *group = &supervisor->spawns[s].group;
        if (group->state == EXEC_GROUP_RUNNING && pid == group->pid)
            exec_group_reaped(group, status, now_ns);
    }
}

static void reap(struct supervisor *supervisor)
{
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
            return;
        const int status = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
        const bool is_network = info.si_pid == supervisor->network;
        child_ended(supervisor, info.si_pid, status);
        (void)waitpid(info.si_pid, NULL, 0); /* it has ended: cannot hang */
        if (is_network)
            network_ended(supervisor, status);
    }
}

static void read_signals(struct supervisor *supervisor)
{
    int number;
    while ((number = mst_signals_read(supervisor->signal_fd)) != 0)
        if (number != SIGCHLD)
            pass_on(supervisor, number);
    reap(supervisor);
}

static void tick(struct supervisor *supervisor)
{
    const uint64_t now_ns = mst_now_ns();
    const bool asked = supervisor->command.asked;
    if (exec_group_tick(&supervisor->command, now_ns)) {
        supervisor_command_gone(supervisor, supervisor->command.status, asked);
        if (supervisor->network == 0)
            supervisor_stop_all(supervisor); /* whatever else there is */
    }
    for (size_t s = 0; s < SUPERVISOR_SPAWNS; s++)
        if (exec_group_tick(&supervisor->spawns[s].group, now_ns))
            supervisor_spawn_gone(supervisor, supervisor->spawns[s].id, supervisor->spawns[s].group.status);
    check_stopped(supervisor, now_ns);
    if (supervisor->network > 0 && supervisor->network_kill_ns != 0 &&
        now_ns >= supervisor->network_kill_ns) {
        mst_log_warn("exec", "the network part does not end: it is killed");
        (void)kill(supervisor->network, SIGKILL);
        supervisor->network_kill_ns = now_ns + SUPERVISOR_FAREWELL_NS;
    }
}

static uint64_t next_deadline_ns(const struct supervisor *supervisor)
{
    const uint64_t now_ns = mst_now_ns();
    uint64_t deadline_ns = exec_group_deadline_ns(&supervisor->command, now_ns);
    for (size_t s = 0; s < SUPERVISOR_SPAWNS; s++)
        loop_sooner(&deadline_ns, exec_group_deadline_ns(&supervisor->spawns[s].group, now_ns));
    if (supervisor->stopping && !programs_left(supervisor))
        loop_sooner(&deadline_ns, now_ns + LOOK_AGAIN_NS);
    if (supervisor->network > 0 && supervisor->network_kill_ns != 0)
        loop_sooner(&deadline_ns, supervisor->network_kill_ns);
    return deadline_ns;
}

static void run(struct supervisor *supervisor)
{
    for (tick(supervisor); !supervisor->over; tick(supervisor)) {
        struct pollfd fds[] = {{.fd = supervisor->signal_fd, .events = POLLIN},
                               {.fd = supervisor->wire_fd, .events = POLLIN}}; /* -1 is passed over */
        if (poll(fds, 2, mst_ms_until(next_deadline_ns(supervisor), LONGEST_MS)) < 0 && errno != EINTR) {
            mst_log_error("exec", "wait for events: %s", strerrordesc_np(errno));
            return;
        }
        if (fds[1].revents)
            supervisor_listen(supervisor);
        read_signals(supervisor);
    }
}

static int status_of(const struct supervisor *supervisor)
{
    if (supervisor->broken)
        return EXEC_STATUS_FAULT;
    if (supervisor->leaving != 0)
        return supervisor->command_ended ? supervisor->command_status : 128 + supervisor->leaving;
    if (supervisor->ended)
        return supervisor->end_status;
    const bool own_end = supervisor->command_ended && supervisor->options->settings->on_change == EXEC_IGNORE;
    if (own_end ||
        (supervisor->command_ended && !supervisor->command.asked && supervisor->command_status != 0))
        return supervisor->command_status;
    return EXEC_STATUS_FAULT;
}

/* ---- the beginning ---- */

static int network_main(const struct exec_supervision *options, int wire_fd, pid_t parent)
{
    /* Whatever becomes of the supervisor, its network part ends with it. Giving up root undoes this, and the
     * end of `wire_fd` tells, too. And whoever shares this user may not look into its memory: a key is there.
     */
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent)
        return EXEC_STATUS_FAULT;
#ifndef __SANITIZE_ADDRESS__ /* the search for leaks has to look */
    if (prctl(PR_SET_DUMPABLE, 0) < 0)
        return EXEC_STATUS_FAULT;
#endif
    (void)setpgid(0, 0); /* signals from a terminal are the supervisor's to pass on */
    return options->network(options->context, wire_fd);
}

static int start_network(struct supervisor *supervisor, struct mst_error *err)
{
    int fds[2];
    const pid_t self = getpid();
    int r = exec_wire_pair(fds, err);
    if (r < 0)
        return r;
    /* Until both sides have their handlers: a signal waits. */
    sigset_t set, before;
    set_of_signals(&set);
    (void)sigprocmask(SIG_BLOCK, &set, &before);
    const pid_t pid = fork();
    const int code = pid < 0 ? -errno : 0;
    if (pid == 0) {
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
        mst_closep(&fds[0]);
        exit(network_main(supervisor->options, fds[1], self));
    }
    mst_closep(&fds[1]);
    if (code < 0) {
        mst_closep(&fds[0]);
        r = mst_error_errno(err, code, "start the network part");
    } else {
        supervisor->network = pid;
        supervisor->wire_fd = fds[0];
        r = mst_signals_open(caught, MST_ARRAY_COUNT(caught), &supervisor->signal_fd, err);
    }
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    return r;
}

int exec_supervise(const struct exec_supervision *supervision)
{
    struct mst_error err = MST_ERROR_INIT;
    struct supervisor supervisor = {
        .options = supervision, .signal_fd = -1, .wire_fd = -1, .packet = MST_BUF_INIT(EXEC_WIRE_MAX_BYTES)};
    if (exec_workspace_open(&supervisor.workspace, supervision->settings->program, &err) < 0)
        mst_log_warn("exec", "%s: going on without a host file", err.text);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        mst_log_warn("exec", "cannot wait for orphans: %s", strerrordesc_np(errno));
    int status = EXEC_STATUS_FAULT;
    if (start_network(&supervisor, &err) < 0) {
        (void)mst_fail(EXEC_STATUS_FAULT, &err);
        if (supervisor.network > 0)
            (void)kill(supervisor.network, SIGKILL);
    } else {
        run(&supervisor);
        status = status_of(&supervisor);
    }
    exec_workspace_close(&supervisor.workspace);
    exec_strings_release(&supervisor.environment);
    mst_buf_release(&supervisor.packet);
    mst_closep(&supervisor.wire_fd);
    mst_closep(&supervisor.signal_fd);
    return status;
}
