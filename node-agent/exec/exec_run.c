/* SPDX-License-Identifier: Apache-2.0 */
#include "exec_private.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/log.h"
#include "supervisor.h"

#include <inttypes.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define VERDICT_NS (EXEC_VERDICT_MS * MST_NS_PER_MS)
#define ENDS_NS    (30 * MST_NS_PER_S) /* beyond the grace, for all to end once one has failed */
#define LONGEST_NS MST_NS_PER_S

/* run() is to return this; the first one counts. */
static void decide(struct exec *exec, int result)
{
    if (exec->decided)
        return;
    exec->decided = true;
    exec->result = result;
}

/* `r` < 0: exec->err says why. */
static void check(struct exec *exec, int r)
{
    if (r < 0)
        decide(exec, r);
}

/* ---- around the ring ---- */

static void flush(struct exec *exec)
{
    size_t done = 0;
    int code = 0;
    while (code == 0 && done < exec->out.count && exec->round.fd_out >= 0) {
        const ssize_t sent =
            send(exec->round.fd_out, exec->out.bytes + done, exec->out.count - done, MSG_NOSIGNAL);
        if (sent >= 0)
            done += (size_t)sent;
        else if (errno != EINTR)
            code = errno;
    }
    mst_buf_consume(&exec->out, done);
    if (code != 0 && code != EAGAIN) {
        mst_log_debug("exec", "to the next worker: %s", strerrordesc_np(code));
        exec->torn_ns = exec->torn_ns != 0 ? exec->torn_ns : mst_now_ns() + VERDICT_NS;
        loop_remove(exec->loop, exec->round.fd_out);
        mst_buf_clear(&exec->out);
        mst_closep(&exec->round.fd_out);
        return;
    }
    const bool wants_write = exec->out.count > 0;
    if (wants_write != exec->wants_write && exec->round.fd_out >= 0) {
        exec->wants_write = wants_write;
        check(exec, loop_change(exec->loop, exec->round.fd_out, wants_write ? EPOLLOUT : 0, &exec->err));
    }
}

static void pass_on(struct exec *exec, uint32_t author, const struct exec_outcome *outcome)
{
    if (exec->round.fd_out < 0 || !exec_round_passes_on(&exec->round, author))
        return;
    const int r = exec_round_pack_outcome(&exec->out, &exec->round, author, outcome);
    if (r < 0)
        check(exec, mst_error_errno(&exec->err, r, "tell how a command ended"));
    else
        flush(exec);
}

static void declare(struct exec *exec, const struct exec_outcome *outcome)
{
    const uint32_t rank = exec->round.rank;
    const int r = exec_outcomes_set(&exec->outcomes, rank, outcome, &exec->err);
    check(exec, r);
    if (r == 1)
        pass_on(exec, rank, outcome);
}

static void take_message(struct exec *exec)
{
    uint32_t author;
    struct exec_outcome outcome;
    int r = exec_round_unpack_outcome(exec->message, &exec->round, &author, &outcome, &exec->err);
    if (r == 0)
        r = exec_outcomes_set(&exec->outcomes, author, &outcome, &exec->err);
    if (r < 0)
        check(exec, mst_error_wrap(&exec->err, -EPROTO, "the worker before this one"));
    else if (r == 1)
        pass_on(exec, author, &outcome);
}

static void ring_in(void *context, uint32_t events)
{
    struct exec *exec = context;
    (void)events;
    for (;;) {
        const ssize_t got = recv(exec->round.fd_in, exec->message + exec->message_count,
                                 sizeof exec->message - exec->message_count, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return;
        if (got <= 0) { /* done with the view, or lost: membership knows */
            exec->torn_ns = exec->torn_ns != 0 ? exec->torn_ns : mst_now_ns() + VERDICT_NS;
            loop_remove(exec->loop, exec->round.fd_in);
            mst_closep(&exec->round.fd_in);
            return;
        }
        exec->message_count += (size_t)got;
        if (exec->message_count == sizeof exec->message) {
            exec->message_count = 0;
            take_message(exec);
        }
    }
}

static void ring_out(void *context, uint32_t events)
{
    (void)events;
    flush(context);
}

/* ---- what happens to CMD ---- */

static void supervisor_speaks(void *context, uint32_t events)
{
    struct exec *exec = context;
    (void)events;
    check(exec, exec_listen(exec, &exec->err));
}

static void start_command(struct exec *exec)
{
    const struct exec_wire_message start = {.type = EXEC_WIRE_START};
    exec->own = (struct exec_outcome){EXEC_OUTCOME_NONE, 0};
    exec->started = exec->running = true;
    exec->started_view = exec->round.view;
    check(exec, exec_tell(exec, &start, &exec->err));
}

/* Another worker's command failed, or the chief's is done: what is this worker's part in it? */
static void follow(struct exec *exec)
{
    const struct exec_outcomes *outcomes = &exec->outcomes;
    const bool chief_done =
        exec->options.settings->chief_only && outcomes->items[0].kind == EXEC_OUTCOME_ENDED;
    if (outcomes->items[exec->round.rank].kind != EXEC_OUTCOME_NONE || exec->verdict_ns != 0)
        return;
    if (!exec->started && !exec_runs_here(exec)) {
        const struct exec_outcome served = {EXEC_OUTCOME_SERVED, 0};
        if (outcomes->failed || chief_done)
            declare(exec, &served);
    } else if (outcomes->failed && exec->running) {
        check(exec, exec_stop_all(exec, &exec->err));
    } else if (outcomes->failed && !exec->stop_pending && exec->own.kind == EXEC_OUTCOME_NONE) {
        const struct exec_outcome stopped = {EXEC_OUTCOME_STOPPED, 0};
        exec->own = stopped;
        declare(exec, &stopped);
    }
}

/* CMD ended here. Where a lost worker makes it start anew, its failure may be only the first sign of the
 * loss: the others' programs notice a closed connection as fast as the agents do. */
static void judge_own_end(struct exec *exec, uint64_t now_ns)
{
    if (exec->own.kind == EXEC_OUTCOME_NONE ||
        exec->outcomes.items[exec->round.rank].kind != EXEC_OUTCOME_NONE)
        return;
    const bool may_be_a_loss = exec->own.status != 0 && exec->round.world > 1 &&
                               exec->options.settings->on_change == EXEC_RESTART && !exec->outcomes.failed;
    if (may_be_a_loss && exec->verdict_ns == 0)
        exec->verdict_ns = now_ns + VERDICT_NS;
    if (may_be_a_loss && now_ns < exec->verdict_ns)
        return;
    exec->verdict_ns = 0;
    declare(exec, &exec->own);
}

static void tell_of_failure(struct exec *exec, uint64_t now_ns)
{
    if (!exec->outcomes.failed || exec->ends_ns != 0)
        return;
    const uint32_t rank = exec->outcomes.failed_rank;
    exec->ends_ns = now_ns + exec->options.settings->grace_ns + ENDS_NS;
    mst_log_error("exec", "the command of %s (rank %" PRIu32 ") ended with status %u%s",
                  exec->records[rank].member.slot, rank, (unsigned)exec->outcomes.items[rank].status,
                  rank == exec->round.rank ? "" : ": this worker's is ended, too");
}

/* Everybody has told its end, and everything is told. */
static void check_complete(struct exec *exec)
{
    const struct exec_outcomes *outcomes = &exec->outcomes;
    if (exec->decided || !exec_outcomes_complete(outcomes) || exec->out.count > 0)
        return;
    check(exec, exec_end(exec, exec_outcomes_status(outcomes),
                         outcomes->failed ? EXEC_OVER_FAILED : EXEC_OVER_WELL, &exec->err));
    decide(exec, 0);
}

static void tick(struct exec *exec)
{
    const uint64_t now_ns = mst_now_ns();
    judge_own_end(exec, now_ns);
    tell_of_failure(exec, now_ns);
    follow(exec);
    check_complete(exec);
    if (exec->launch)
        exec_launch_tick(exec->launch, now_ns);
    if (exec->decided)
        return;
    if (exec->ends_ns != 0 && now_ns >= exec->ends_ns) {
        const int status = exec->own.kind == EXEC_OUTCOME_ENDED ? exec->own.status : EXEC_STATUS_STOPPED;
        check(exec, exec_end(exec, status, EXEC_OVER_FAILED, &exec->err));
        check(exec, mst_error_set(&exec->err, -EPROTO, "not all workers have ended their commands in time"));
    } else if (exec->torn_ns != 0 && now_ns >= exec->torn_ns) {
        check(exec, mst_error_set(&exec->err, -EPIPE, "the connection to a neighbour is gone"));
    }
}

static uint64_t next_deadline_ns(const struct exec *exec)
{
    const uint64_t deadlines_ns[] = {exec->verdict_ns, exec->ends_ns, exec->torn_ns};
    uint64_t next_ns = mst_now_ns() + LONGEST_NS;
    for (size_t d = 0; d < MST_ARRAY_COUNT(deadlines_ns); d++)
        if (deadlines_ns[d] != 0 && deadlines_ns[d] < next_ns)
            next_ns = deadlines_ns[d];
    const uint64_t launch_ns = exec->launch ? exec_launch_deadline_ns(exec->launch) : UINT64_MAX;
    return launch_ns < next_ns ? launch_ns : next_ns;
}

/* ---- the view is to be left ---- */

static void change(struct exec *exec, int result)
{
    if (exec->decided)
        return;
    int r = 0;
    if (result == -ECANCELED)
        (void)mst_error_set(&exec->err, result, "stopped");
    switch (exec->options.settings->on_change) {
    case EXEC_RESTART:
        r = exec_stop_all(exec, &exec->err);
        break;
    case EXEC_IGNORE:
        break;
    case EXEC_STOP:
        r = exec_stop_all(exec, &exec->err);
        if (r == 0)
            r = exec_end(exec, EXEC_STATUS_STOPPED, EXEC_OVER_FAILED, &exec->err);
        if (r == 0)
            r = mst_error_set(&exec->err, -EPROTO,
                              "membership changed, and '--on-change stop' was asked for");
        break;
    }
    check(exec, r);
    decide(exec, result);
}

static void cancelled(void *context, uint32_t events)
{
    (void)events;
    change(context, -ECANCELED);
}

static void paused(void *context, uint32_t events)
{
    (void)events;
    change(context, 1);
}

/* ---- run() ---- */

/* Somebody had heard of all ends when the view before was left: there is nothing to begin again. */
static enum exec_over over_already(const struct exec *exec)
{
    for (uint32_t rank = 0; rank < exec->round.world; rank++)
        if (exec->records[rank].over != EXEC_NOT_OVER)
            return exec->records[rank].over;
    return EXEC_NOT_OVER;
}

static int end_again(struct exec *exec, enum exec_over over, struct mst_error *err)
{
    const int others = over == EXEC_OVER_WELL ? 0 : EXEC_STATUS_STOPPED;
    return exec_end(exec, exec->own.kind == EXEC_OUTCOME_ENDED ? exec->own.status : others, over, err);
}

static int watch(struct exec *exec, const struct job_view *view, struct mst_error *err)
{
    int r = loop_add(exec->loop, view->cancel_fd, EPOLLIN, cancelled, exec, err);
    if (r == 0)
        r = loop_add(exec->loop, view->pause_fd, EPOLLIN, paused, exec, err);
    if (r == 0)
        r = loop_add(exec->loop, exec->options.wire_fd, EPOLLIN, supervisor_speaks, exec, err);
    if (r == 0 && exec->round.fd_in >= 0)
        r = loop_add(exec->loop, exec->round.fd_in, EPOLLIN, ring_in, exec, err);
    if (r == 0 && exec->round.fd_out >= 0)
        r = loop_add(exec->loop, exec->round.fd_out, 0, ring_out, exec, err);
    return r;
}

static void unwatch(struct exec *exec, const struct job_view *view)
{
    loop_remove(exec->loop, view->cancel_fd);
    loop_remove(exec->loop, view->pause_fd);
    loop_remove(exec->loop, exec->options.wire_fd);
    loop_remove(exec->loop, exec->round.fd_in);
    loop_remove(exec->loop, exec->round.fd_out);
}

static void begin(struct exec *exec)
{
    const bool keeps = exec->options.settings->on_change == EXEC_IGNORE && exec->started;
    mst_closep(&exec->port_fd); /* the program's now */
    if (!keeps)
        exec->own = (struct exec_outcome){EXEC_OUTCOME_NONE, 0};
    if (!keeps && exec_runs_here(exec))
        start_command(exec);
}

int exec_run_view(struct exec *exec, const struct job_view *view, struct job_result *ret_result,
                  struct mst_error *err)
{
    struct job_result result = {0};
    const enum exec_over over = over_already(exec);
    int r = over != EXEC_NOT_OVER ? end_again(exec, over, err) : watch(exec, view, err);
    if (r == 0 && over == EXEC_NOT_OVER) {
        begin(exec);
        for (tick(exec); !exec->decided; tick(exec))
            check(exec, loop_run_once(exec->loop, next_deadline_ns(exec), &exec->err));
        r = exec->result;
        if (r == 0)
            r = exec_outcomes_digest(&exec->outcomes, result.digest, &exec->err);
        if (r < 0 && err)
            *err = exec->err;
    }
    unwatch(exec, view);
    if (r == 0)
        *ret_result = result;
    return r;
}
