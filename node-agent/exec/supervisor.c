/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor.h"

#include "environment.h"
#include "group.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/log.h"
#include "orphans.h"
#include "wire.h"
#include "workspace.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define SPAWNS_MAX    64                   /* programs of other workers at a time */
#define ORPHAN_NS     (2 * MST_NS_PER_S)   /* for what programs left behind, before SIGKILL */
#define LOOK_AGAIN_NS (50 * MST_NS_PER_MS) /* at orphans, whose end is not always told */
#define FAREWELL_NS   (60 * MST_NS_PER_S)  /* for the network part, once it has said how this ends */
#define LONGEST_MS    60000
#define SPAWN_REFUSED 255 /* what ssh says of its own faults */

/* Passed on to CMD. TERM and INT also make this worker leave. */
static const int passed_on[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};

struct spawn {
    uint32_t id;
    struct exec_group group;
};

struct supervisor {
    const struct exec_supervision *options;
    int signal_fd, wire_fd; /* wire_fd: -1 once the network part is not listened to any more */
    pid_t network;          /* 0: it has ended */
    uint64_t network_kill_ns;
    struct mst_buf packet;

    bool has_facts;
    struct exec_strings environment;
    struct exec_workspace workspace;

    struct exec_group command;
    bool command_ended; /* in this attempt, with command_status */
    int command_status;
    struct spawn spawns[SPAWNS_MAX];

    bool stopping; /* everything is to end: orphans, too */
    uint64_t grace_ns, orphan_kill_ns;
    bool answer_stop; /* the network part awaits STOPPED */

    int leaving; /* the signal that told this worker to go; 0: none */
    bool ended;  /* the network part has said how this ends */
    int end_status;
    bool broken; /* the network part cannot be trusted: 125 */
    bool over;   /* nothing is left, and nothing can be asked for */
};

/* ---- signals ---- */

/* As in process.c: dispositions belong to the process, and so does the one place that a handler writes to. */
static int signal_write_fd = -1;

static void write_signal(int number)
{
    const int saved_errno = errno;
    const unsigned char byte = (unsigned char)number;
    (void)!write(signal_write_fd, &byte, 1); /* full: enough is waiting to be read */
    errno = saved_errno;
}

static void set_of_signals(sigset_t *ret_set)
{
    (void)sigemptyset(ret_set);
    (void)sigaddset(ret_set, SIGCHLD);
    for (size_t s = 0; s < MST_ARRAY_COUNT(passed_on); s++)
        (void)sigaddset(ret_set, passed_on[s]);
}

static int catch_signals(int *ret_fd, struct mst_error *err)
{
    struct sigaction handle = {.sa_handler = write_signal, .sa_flags = SA_RESTART};
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    int fds[2];
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
        return mst_error_errno(err, -errno, "set up signals");
    signal_write_fd = fds[1];
    int r = sigaction(SIGPIPE, &ignore, NULL) < 0 || sigaction(SIGCHLD, &handle, NULL) < 0 ? -errno : 0;
    for (size_t s = 0; r == 0 && s < MST_ARRAY_COUNT(passed_on); s++)
        r = sigaction(passed_on[s], &handle, NULL) < 0 ? -errno : 0;
    if (r < 0)
        return mst_error_errno(err, r, "set up signals"); /* the process ends on it: nothing is closed */
    *ret_fd = fds[0];
    return 0;
}

/* ---- to the network part ---- */

static void stop_listening(struct supervisor *supervisor)
{
    mst_closep(&supervisor->wire_fd);
    supervisor->answer_stop = false;
}

static void tell(struct supervisor *supervisor, const struct exec_wire_message *message)
{
    struct mst_error err = MST_ERROR_INIT;
    if (supervisor->wire_fd < 0)
        return;
    if (exec_wire_send(supervisor->wire_fd, message, &err) < 0) {
        if (err.code != -EPIPE) /* it is about to be reaped, which says more */
            mst_log_error("exec", "%s", err.text);
        stop_listening(supervisor);
    }
}

/* What it says makes no sense: it may have been taken over. */
static void distrust(struct supervisor *supervisor, const char *why)
{
    mst_log_error("exec", "the network part is not to be trusted: %s", why);
    supervisor->broken = true;
    stop_listening(supervisor);
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
    for (size_t s = 0; s < SPAWNS_MAX; s++)
        if (supervisor->spawns[s].group.state != EXEC_GROUP_NONE && pid == supervisor->spawns[s].group.pid)
            return true;
    return false;
}

static bool programs_left(const struct supervisor *supervisor)
{
    if (supervisor->command.state != EXEC_GROUP_NONE)
        return true;
    for (size_t s = 0; s < SPAWNS_MAX; s++)
        if (supervisor->spawns[s].group.state != EXEC_GROUP_NONE)
            return true;
    return false;
}

static void stop_all(struct supervisor *supervisor)
{
    const uint64_t now_ns = mst_now_ns();
    const uint64_t grace_ns = supervisor->options->settings->grace_ns;
    supervisor->stopping = true;
    exec_group_end(&supervisor->command, grace_ns, now_ns);
    for (size_t s = 0; s < SPAWNS_MAX; s++)
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
    tell(supervisor, &stopped);
}

static void command_gone(struct supervisor *supervisor, int status, bool asked)
{
    supervisor->command_ended = true;
    supervisor->command_status = status;
    const struct exec_wire_message exited = {
        .type = EXEC_WIRE_EXITED, .status = (uint32_t)status, .number = asked};
    tell(supervisor, &exited);
}

static void spawn_gone(struct supervisor *supervisor, uint32_t id, int status)
{
    const struct exec_wire_message exited = {
        .type = EXEC_WIRE_SPAWN_EXITED, .id = id, .status = (uint32_t)status};
    tell(supervisor, &exited);
}

/* ---- what the network part asks for ---- */

static int take_facts(struct supervisor *supervisor, const struct exec_wire_message *message,
                      struct mst_error *err)
{
    const struct exec_settings *settings = supervisor->options->settings;
    mst_cleanup(exec_facts_release) struct exec_facts facts = {0};
    mst_cleanup(mst_buf_release) struct mst_buf hosts = MST_BUF_INIT(EXEC_FACTS_MAX_BYTES);
    const struct exec_tools tools = {
        .program = settings->program,
        .folder = supervisor->workspace.folder,
        .host_file = supervisor->workspace.host_file,
    };
    int r = exec_facts_unpack(message->facts, message->facts_bytes, &facts, err);
    if (r == 0 && tools.folder)
        r = exec_host_file(&facts, &hosts, err);
    if (r == 0 && tools.folder)
        r = exec_workspace_write_hosts(&supervisor->workspace, &hosts, err);
    if (r < 0)
        return r;
    exec_strings_release(&supervisor->environment);
    supervisor->has_facts = false;
    r = exec_environment(settings->frameworks, &facts, &tools, supervisor->options->environment,
                         &supervisor->environment, err);
    supervisor->has_facts = r == 0;
    return r;
}

static void start_command(struct supervisor *supervisor)
{
    struct mst_error err = MST_ERROR_INIT;
    const struct exec_start start = {.argv = supervisor->options->settings->command,
                                     .environment = supervisor->environment.items,
                                     .foreground = true};
    supervisor->command_ended = false;
    const int r = exec_group_start(&supervisor->command, &start, &err);
    if (r < 0) {
        mst_log_error("exec", "%s", err.text);
        command_gone(supervisor, exec_group_start_status(r), false);
        return;
    }
    const struct exec_wire_message started = {.type = EXEC_WIRE_STARTED,
                                              .number = (uint32_t)supervisor->command.pid};
    tell(supervisor, &started);
}

static struct spawn *find_spawn(struct supervisor *supervisor, uint32_t id)
{
    for (size_t s = 0; s < SPAWNS_MAX; s++)
        if (supervisor->spawns[s].group.state != EXEC_GROUP_NONE && supervisor->spawns[s].id == id)
            return &supervisor->spawns[s];
    return NULL;
}

static int start_spawn(struct supervisor *supervisor, const struct exec_wire_message *message,
                       struct mst_error *err)
{
    struct spawn *spawn = NULL;
    for (size_t s = 0; s < SPAWNS_MAX && !spawn; s++)
        if (supervisor->spawns[s].group.state == EXEC_GROUP_NONE)
            spawn = &supervisor->spawns[s];
    if (!spawn)
        return mst_error_set(err, -EAGAIN, "%d programs of other workers run already", SPAWNS_MAX);
    char shell[] = "/bin/sh", flag[] = "-c";
    mst_cleanup(mst_freep) char *command = strdup(message->text);
    if (!command)
        return mst_error_set(err, -ENOMEM, "no memory");
    char *const argv[] = {shell, flag, command, NULL};
    const struct exec_start start = {
        .argv = argv, .environment = supervisor->environment.items, .fds = message->fds};
    const int r = exec_group_start(&spawn->group, &start, err);
    if (r == 0)
        spawn->id = message->id;
    return r;
}

/* The first gate on what another worker may run here: only where the user chose a framework that launches. */
static void spawn(struct supervisor *supervisor, const struct exec_wire_message *message)
{
    struct mst_error err = MST_ERROR_INIT;
    int r = 0;
    if (!exec_frameworks_launch(supervisor->options->settings->frameworks))
        r = mst_error_set(&err, -EPERM, "option '--framework' names neither mpi nor horovod");
    else if (supervisor->stopping || !supervisor->has_facts)
        r = mst_error_set(&err, -EAGAIN, "membership is changing");
    else if (find_spawn(supervisor, message->id))
        r = mst_error_set(&err, -EEXIST, "number %u is in use", (unsigned)message->id);
    if (r == 0)
        r = start_spawn(supervisor, message, &err);
    if (r < 0) {
        mst_log_warn("exec", "a program of another worker was not started: %s", err.text);
        spawn_gone(supervisor, message->id, SPAWN_REFUSED);
    }
}

static void asked_to(struct supervisor *supervisor, struct exec_wire_message *message)
{
    struct mst_error err = MST_ERROR_INIT;
    struct spawn *found;
    switch (message->type) {
    case EXEC_WIRE_FACTS:
        if (take_facts(supervisor, message, &err) < 0)
            distrust(supervisor, err.text);
        return;
    case EXEC_WIRE_START:
        if (!supervisor->has_facts || supervisor->stopping || supervisor->command.state != EXEC_GROUP_NONE)
            distrust(supervisor, "it would start the command at the wrong time");
        else if (supervisor->leaving == 0) /* else it is about to hear of that */
            start_command(supervisor);
        return;
    case EXEC_WIRE_STOP:
        supervisor->answer_stop = true;
        stop_all(supervisor);
        return;
    case EXEC_WIRE_SPAWN:
        spawn(supervisor, message);
        for (size_t f = 0; f < EXEC_WIRE_FDS; f++)
            mst_closep(&message->fds[f]);
        return;
    case EXEC_WIRE_SIGNAL:
        found = find_spawn(supervisor, message->id);
        if (found)
            exec_group_signal(&found->group, (int)message->number);
        return;
    case EXEC_WIRE_END:
        supervisor->ended = true;
        supervisor->end_status = (int)message->status;
        supervisor->network_kill_ns = mst_now_ns() + FAREWELL_NS;
        return;
    default:
        distrust(supervisor, "a message that only this side sends");
    }
}

static void listen_to_network(struct supervisor *supervisor)
{
    while (supervisor->wire_fd >= 0) {
        struct mst_error err = MST_ERROR_INIT;
        struct exec_wire_message message;
        const int r = exec_wire_receive(supervisor->wire_fd, &supervisor->packet, &message, &err);
        if (r == 0)
            return;
        if (r == 1)
            asked_to(supervisor, &message);
        else if (r == -EPIPE || r == -ECONNRESET)
            stop_listening(supervisor);
        else
            distrust(supervisor, err.text);
    }
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
    if (supervisor->network > 0)
        (void)kill(supervisor->network, number);
    else
        stop_all(supervisor);
}

static void network_ended(struct supervisor *supervisor, int status)
{
    listen_to_network(supervisor); /* it may have said a last word */
    supervisor->network = 0;
    stop_listening(supervisor);
    if (!supervisor->ended && supervisor->leaving == 0 && status > 128)
        mst_log_error("exec", "the network part was ended by signal %d", status - 128);
    /* A program that looks after itself does so without the others, too. */
    const bool goes_on = supervisor->options->settings->on_change == EXEC_IGNORE && !supervisor->broken &&
                         !supervisor->ended && supervisor->leaving == 0 &&
                         supervisor->command.state == EXEC_GROUP_RUNNING;
    if (goes_on)
        mst_log_warn("exec", "the other workers are given up: the command goes on alone");
    else
        stop_all(supervisor);
}

static void child_ended(struct supervisor *supervisor, pid_t pid, int status)
{
    const uint64_t now_ns = mst_now_ns();
    if (supervisor->command.state == EXEC_GROUP_RUNNING && pid == supervisor->command.pid)
        exec_group_reaped(&supervisor->command, status, now_ns);
    for (size_t s = 0; s < SPAWNS_MAX; s++) {
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
    unsigned char number;
    while (read(supervisor->signal_fd, &number, 1) == 1) {
        if (number != SIGCHLD)
            pass_on(supervisor, number);
    }
    reap(supervisor);
}

static void tick(struct supervisor *supervisor)
{
    const uint64_t now_ns = mst_now_ns();
    const bool asked = supervisor->command.asked;
    if (exec_group_tick(&supervisor->command, now_ns)) {
        command_gone(supervisor, supervisor->command.status, asked);
        if (supervisor->network == 0)
            stop_all(supervisor); /* whatever else there is */
    }
    for (size_t s = 0; s < SPAWNS_MAX; s++)
        if (exec_group_tick(&supervisor->spawns[s].group, now_ns))
            spawn_gone(supervisor, supervisor->spawns[s].id, supervisor->spawns[s].group.status);
    check_stopped(supervisor, now_ns);
    if (supervisor->network > 0 && supervisor->network_kill_ns != 0 &&
        now_ns >= supervisor->network_kill_ns) {
        mst_log_warn("exec", "the network part does not end: it is killed");
        (void)kill(supervisor->network, SIGKILL);
        supervisor->network_kill_ns = now_ns + FAREWELL_NS;
    }
}

static void sooner(uint64_t *deadline_ns, uint64_t other_ns)
{
    if (other_ns < *deadline_ns)
        *deadline_ns = other_ns;
}

static uint64_t next_deadline_ns(const struct supervisor *supervisor)
{
    const uint64_t now_ns = mst_now_ns();
    uint64_t deadline_ns = exec_group_deadline_ns(&supervisor->command, now_ns);
    for (size_t s = 0; s < SPAWNS_MAX; s++)
        sooner(&deadline_ns, exec_group_deadline_ns(&supervisor->spawns[s].group, now_ns));
    if (supervisor->stopping && !programs_left(supervisor))
        sooner(&deadline_ns, now_ns + LOOK_AGAIN_NS);
    if (supervisor->network > 0 && supervisor->network_kill_ns != 0)
        sooner(&deadline_ns, supervisor->network_kill_ns);
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
            listen_to_network(supervisor);
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
        r = catch_signals(&supervisor->signal_fd, err);
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
    mst_closep(&signal_write_fd);
    return status;
}
