/* SPDX-License-Identifier: Apache-2.0 */
#include "exec.h"

#include "bytes.h"
#include "environment.h"
#include "exec_private.h"
#include "group.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/log.h"
#include "muster/net.h"
#include "report.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#define STOPPED_NS                                                                                           \
    (2 * EXEC_GROUP_GIVE_UP_MS * MST_NS_PER_MS) /* beyond the grace, for SIGKILL and orphans                 \
                                                 */
#define RECORDS_NS (30 * MST_NS_PER_S)          /* beyond the grace, for all others */
#define LONGEST_MS 60000

/* ---- the supervisor ---- */

int exec_tell(struct exec *exec, const struct exec_wire_message *message, struct mst_error *err)
{
    const int r = exec_wire_send(exec->options.wire_fd, message, err);
    return r < 0 ? mst_error_wrap(err, -EPROTO, "supervisor") : 0; /* EPIPE would be taken for a peer's */
}

int exec_stop_all(struct exec *exec, struct mst_error *err)
{
    const struct exec_wire_message stop = {.type = EXEC_WIRE_STOP};
    if (exec->stop_pending)
        return 0;
    exec->stop_pending = true;
    if (exec->launch)
        exec_launch_hang_up(exec->launch);
    return exec_tell(exec, &stop, err);
}

int exec_end(struct exec *exec, int status, enum exec_over over, struct mst_error *err)
{
    const struct exec_wire_message end = {.type = EXEC_WIRE_END, .status = (uint32_t)status};
    exec->over = over;
    return exec_tell(exec, &end, err);
}

static void report_started(struct exec *exec, uint32_t pid)
{
    struct report report = report_begin(exec->options.events, "command");
    report_number(&report, "view", (double)exec->round.view);
    report_number(&report, "rank", exec->round.rank);
    report_number(&report, "world", exec->round.world);
    report_number(&report, "pid", pid);
    report_send(&report);
}

static void report_exited(struct exec *exec, uint32_t status)
{
    struct report report = report_begin(exec->options.events, "exited");
    report_number(&report, "view", (double)exec->started_view);
    report_number(&report, "status", status);
    report_send(&report);
}

static int heard(struct exec *exec, const struct exec_wire_message *message, struct mst_error *err)
{
    switch (message->type) {
    case EXEC_WIRE_STARTED:
        report_started(exec, message->number);
        return 0;
    case EXEC_WIRE_EXITED:
        exec->running = false;
        report_exited(exec, message->status);
        if (message->number == 0) /* by itself */
            exec->own = (struct exec_outcome){EXEC_OUTCOME_ENDED, (uint8_t)message->status};
        return 0;
    case EXEC_WIRE_STOPPED:
        exec->stop_pending = false;
        exec->running = false;
        return 0;
    case EXEC_WIRE_SPAWN_EXITED:
        if (exec->launch)
            exec_launch_exited(exec->launch, message->id, (int)message->status);
        return 0;
    default:
        return mst_error_set(err, -EPROTO, "the supervisor sent a message of type %d", (int)message->type);
    }
}

int exec_listen(struct exec *exec, struct mst_error *err)
{
    for (;;) {
        struct exec_wire_message message;
        int r = exec_wire_receive(exec->options.wire_fd, &exec->packet, &message, err);
        if (r < 0)
            return mst_error_wrap(err, -EPROTO, "supervisor");
        if (r == 0)
            return 0;
        r = heard(exec, &message, err);
        if (r < 0)
            return r;
    }
}

/* CMD of the view before, and whatever it started, must be gone. */
static int await_stopped(struct exec *exec, int cancel_fd, struct mst_error *err)
{
    const uint64_t deadline_ns = mst_now_ns() + exec->options.settings->grace_ns + STOPPED_NS;
    for (;;) {
        int r = exec_listen(exec, err);
        if (r < 0 || !exec->stop_pending)
            return r;
        struct pollfd fds[] = {{.fd = cancel_fd, .events = POLLIN},
                               {.fd = exec->options.wire_fd, .events = POLLIN}};
        r = poll(fds, 2, mst_ms_until(deadline_ns, LONGEST_MS));
        if (r < 0 && errno != EINTR)
            return mst_error_errno(err, -EPROTO, "wait for the supervisor");
        if (r > 0 && fds[0].revents)
            return mst_error_set(err, -ECANCELED, "stopped");
        if (mst_now_ns() >= deadline_ns)
            return mst_error_set(err, -EPROTO, "the command of the view before does not end");
    }
}

/* ---- a view begins ---- */

bool exec_runs_here(const struct exec *exec)
{
    if (!exec->options.settings->chief_only)
        return true;
    /* A chief that comes back finds the one that stood in for it at work. */
    for (uint32_t rank = 0; rank < exec->round.world; rank++)
        if (exec->records[rank].running)
            return rank == exec->round.rank;
    return exec->round.rank == 0;
}

/* Without a network: the loopback's, so that the variables are of the same kind. */
static uint32_t own_ipv4(const struct exec *exec)
{
    const uint32_t ipv4 = exec->options.self->identity.ipv4;
    return ipv4 != 0 ? ipv4 : INADDR_LOOPBACK;
}

static int own_record(struct exec *exec, struct exec_record *ret_record, struct mst_error *err)
{
    const struct discovery_identity *self = &exec->options.self->identity;
    const struct exec_settings *settings = exec->options.settings;
    const bool keeps = settings->on_change == EXEC_IGNORE && exec->started;
    if (!keeps) {
        mst_closep(&exec->port_fd);
        const int r = exec_ports_reserve(own_ipv4(exec), settings->ports, &exec->port, &exec->port_fd, err);
        if (r < 0)
            return mst_error_wrap(err, -EPROTO, "option '--ports'");
    }
    *ret_record = (struct exec_record){
        .view = exec->round.view,
        .over = exec->over,
        .running = exec->running,
        .member = {.ipv4 = own_ipv4(exec),
                   .agent_port = self->port != 0 ? self->port : DISCOVERY_PORT,
                   .port = exec->port},
    };
    memcpy(ret_record->incarnation, self->incarnation, sizeof ret_record->incarnation);
    (void)snprintf(ret_record->member.slot, sizeof ret_record->member.slot, "%s", exec->options.slot);
    return 0;
}

static int tell_facts(struct exec *exec, struct mst_error *err)
{
    const struct discovery_interface *interface = &exec->options.choice->interface;
    const bool alone = exec->options.self->identity.ipv4 == 0;
    const uint32_t prefix = alone ? 8 : interface->prefix;
    const uint32_t mask = prefix > 0 ? UINT32_MAX << (32 - prefix) : 0;
    mst_cleanup(exec_facts_release) struct exec_facts facts = {
        .view = exec->round.view,
        .rank = exec->round.rank,
        .world = exec->round.world,
        .subnet = {own_ipv4(exec) & mask, prefix},
        .members = calloc(exec->round.world, sizeof *facts.members),
    };
    if (!facts.members)
        return mst_error_set(err, -ENOMEM, "tell who is in the view: no memory");
    memcpy(facts.interface, alone ? "lo" : interface->name, alone ? sizeof "lo" : sizeof facts.interface);
    for (uint32_t rank = 0; rank < facts.world; rank++)
        facts.members[rank] = exec->records[rank].member;
    mst_cleanup(mst_buf_release) struct mst_buf packed = MST_BUF_INIT(EXEC_FACTS_MAX_BYTES);
    if (exec_facts_check(&facts, err) < 0)
        return mst_error_wrap(err, -EPROTO, "view %" PRIu64, exec->round.view);
    const int r = exec_facts_pack(&packed, &facts);
    if (r < 0)
        return mst_error_errno(err, r, "tell who is in the view");
    const struct exec_wire_message message = {
        .type = EXEC_WIRE_FACTS, .facts = (const uint8_t *)packed.bytes, .facts_bytes = packed.count};
    return exec_tell(exec, &message, err);
}

static int take_view(struct exec *exec, struct job_view *view, struct mst_error *err)
{
    const uint32_t world = view->world;
    exec->round = (struct exec_round){.rank = view->rank,
                                      .world = world,
                                      .view = view->view,
                                      .fd_in = -1,
                                      .fd_out = -1,
                                      .cancel_fd = view->cancel_fd};
    if (world > 1) {
        int *in = &view->fds_in[(view->rank + world - 1) % world];
        int *out = &view->fds_out[(view->rank + 1) % world];
        exec->round.fd_in = *in;
        exec->round.fd_out = *out;
        *in = *out = -1;
    }
    exec->out.max_bytes = (size_t)world * 2 * EXEC_ROUND_BYTES;
    exec->records = calloc(world, sizeof *exec->records);
    if (!exec->records)
        return mst_error_set(err, -ENOMEM, "run with %" PRIu32 " workers: no memory", world);
    return exec_outcomes_init(&exec->outcomes, view->rank, world, err);
}

static int enter(void *job, struct job_view *view, struct mst_error *err)
{
    struct exec *exec = job;
    struct exec_record own;
    int r = take_view(exec, view, err);
    /* The first time: giving up root has undone what the supervisor set. */
    if (r == 0 && prctl(PR_SET_PDEATHSIG, SIGTERM) < 0)
        r = mst_error_errno(err, -EPROTO, "tie this process to its supervisor");
    if (r == 0)
        r = await_stopped(exec, view->cancel_fd, err);
    if (r == 0)
        r = own_record(exec, &own, err);
    if (r == 0)
        r = exec_round_records(&exec->round, &own,
                               mst_now_ns() + exec->options.settings->grace_ns + RECORDS_NS, exec->records,
                               err);
    if (r == 0)
        r = tell_facts(exec, err);
    if (r == 0 && exec->launch)
        r = exec_launch_set_members(exec->launch, exec->records, exec->round.world, err);
    return r;
}

static int run(void *job, struct job_view *view, struct job_result *ret_result, struct mst_error *err)
{
    return exec_run_view(job, view, ret_result, err);
}

static void leave(void *job)
{
    struct exec *exec = job;
    mst_closep(&exec->round.fd_in);
    mst_closep(&exec->round.fd_out);
    mst_closep(&exec->port_fd);
    exec_outcomes_release(&exec->outcomes);
    free(exec->records);
    exec->records = NULL;
    mst_buf_clear(&exec->out);
    exec->message_count = 0;
    exec->wants_write = false;
    exec->verdict_ns = exec->ends_ns = exec->torn_ns = 0;
    exec->decided = false;
}

static uint64_t position(void *job)
{
    (void)job;
    return 0; /* CMD keeps its own state: to the agent all workers are equally far */
}

static int no_file(void *job, size_t index, struct job_file *ret_file, struct mst_error *err)
{
    (void)job, (void)index, (void)ret_file, (void)err;
    return 0;
}

struct job exec_job(struct exec *exec)
{
    static const struct job_kind kind = {
        .name = "exec",
        .data = JOB_DATA_RING,
        .enter = enter,
        .position = position,
        .run = run,
        .leave = leave,
        .file = no_file,
    };
    return (struct job){.kind = &kind, .state = exec};
}

/* ---- from start to end ---- */

static int spawn(void *context, uint32_t id, const char *command, const int fds[static 3],
                 struct mst_error *err)
{
    const struct exec_wire_message message = {
        .type = EXEC_WIRE_SPAWN, .id = id, .text = command, .fds = {fds[0], fds[1], fds[2]}};
    return exec_tell(context, &message, err);
}

static void signal_spawned(void *context, uint32_t id, int number)
{
    const struct exec_wire_message message = {.type = EXEC_WIRE_SIGNAL, .id = id, .number = (uint32_t)number};
    (void)exec_tell(context, &message, NULL); /* the supervisor is gone: so is what it started */
}

int exec_new(const struct exec_options *options, struct exec **ret_exec, struct mst_error *err)
{
    struct exec *exec = calloc(1, sizeof *exec);
    if (!exec)
        return mst_error_set(err, -ENOMEM, "start: no memory");
    exec->options = *options;
    exec->packet = (struct mst_buf)MST_BUF_INIT(EXEC_WIRE_MAX_BYTES);
    exec->out = (struct mst_buf)MST_BUF_INIT(0);
    exec->port_fd = exec->round.fd_in = exec->round.fd_out = -1;
    int r = loop_new(&exec->loop, err);
    if (r == 0 && exec_frameworks_launch(options->settings->frameworks)) {
        const struct exec_launch_options launch = {
            .loop = exec->loop,
            .self = options->self,
            .uid = options->uid,
            .context = exec,
            .spawn = spawn,
            .signal = signal_spawned,
        };
        r = exec_launch_new(&launch, &exec->launch, err);
    }
    if (r < 0) {
        exec_free(exec);
        return r;
    }
    *ret_exec = exec;
    return 0;
}

void exec_free(struct exec *exec)
{
    if (!exec)
        return;
    exec_launch_free(exec->launch);
    loop_free(exec->loop);
    mst_closep(&exec->round.fd_in);
    mst_closep(&exec->round.fd_out);
    mst_closep(&exec->port_fd);
    exec_outcomes_release(&exec->outcomes);
    free(exec->records);
    mst_buf_release(&exec->out);
    mst_buf_release(&exec->packet);
    free(exec);
}

void exec_give_launch(struct exec *exec, const struct discovery_session *session, int fd)
{
    if (exec->launch)
        exec_launch_give(exec->launch, session, fd);
    else
        mst_closep(&fd);
}

int exec_key(const struct exec_settings *settings, uint8_t ret_key[static MST_SHA256_BYTES],
             struct mst_error *err)
{
    mst_cleanup(mst_sha256_release) struct mst_sha256 sha = {0};
    mst_cleanup(mst_buf_release) struct mst_buf numbers = MST_BUF_INIT(64);
    int r = mst_buf_append_text(&numbers, "muster exec v1");
    if (r == 0)
        r = bytes_put(&numbers, settings->frameworks, 4);
    if (r == 0)
        r = bytes_put(&numbers, settings->chief_only, 1);
    if (r == 0)
        r = bytes_put(&numbers, (uint64_t)settings->on_change, 1);
    if (r == 0)
        r = bytes_put(&numbers, settings->any_command, 1);
    if (r < 0)
        return mst_error_errno(err, r, "digest of the command");
    r = mst_sha256_init(&sha, err);
    if (r == 0)
        r = mst_sha256_update(&sha, numbers.bytes, numbers.count, err);
    for (char *const *word = settings->command; r == 0 && !settings->any_command && *word; word++)
        r = mst_sha256_update(&sha, *word, strlen(*word) + 1, err);
    return r < 0 ? r : mst_sha256_finish(&sha, ret_key, err);
}
