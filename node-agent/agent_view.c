/* SPDX-License-Identifier: Apache-2.0 */
#include "agent_state.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/log.h"
#include "report.h"
#include "vow.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define FAREWELL_NS   (2 * MST_NS_PER_S)
#define STALL_NS      (8 * MST_NS_PER_S) /* an exchange gives up after 10 s without a byte, a dial after 5 */
#define RUNNER_END_MS 2000
#define VIEW_SHOWN                                                                                           \
    24 /* members named in one event: a line has its limit, and each member says its own rank */

struct member *agent_find_member(const struct agent *agent, const uint8_t *incarnation)
{
    for (size_t m = 0; m < agent->world; m++)
        if (memcmp(agent->members[m].identity.incarnation, incarnation, DISCOVERY_INCARNATION_BYTES) == 0)
            return &agent->members[m];
    return NULL;
}

void agent_give_data(struct agent *agent, const struct discovery_identity *from, int fd)
{
    const struct member *member = agent_find_member(agent, from->incarnation);
    if (from->view != agent->view || !member || !agent->runner) {
        mst_log_debug("agent",
                      "data connection from %s of view %" PRIu64 " dropped: here it is view %" PRIu64,
                      from->slot, from->view, agent->view);
        mst_closep(&fd);
        return;
    }
    runner_give_data(agent->runner, (uint32_t)(member - agent->members), fd);
}

/* Those that came early; who is of another view gave up since. */
static void give_pending(struct agent *agent)
{
    for (size_t p = 0; p < agent->pending_count; p++)
        agent_give_data(agent, &agent->pending[p].from, agent->pending[p].fd);
    agent->pending_count = 0;
}

static void start_job(struct agent *agent, const uint64_t *steps)
{
    struct mst_error err = MST_ERROR_INIT;
    mst_cleanup(mst_freep) struct discovery_identity *members = calloc(agent->world, sizeof *members);
    for (size_t m = 0; members && m < agent->world; m++)
        members[m] = agent->members[m].identity;
    struct runner_options options = {
        .job = &agent->job,
        .view = agent->view,
        .rank = (uint32_t)agent->rank,
        .world = (uint32_t)agent->world,
        .members = members,
        .steps = steps,
        .self = agent->station.self,
        .collect = agent->config->collect && agent->mesh,
    };
    memcpy(&options.key, agent->station.self.identity.job_key, sizeof options.key);
    int r = members ? runner_start(&options, &agent->runner, &err)
                    : mst_error_set(&err, -ENOMEM, "start the job: no memory");
    mst_forget(&options.self, sizeof options.self);
    if (r == 0)
        r = loop_add(agent->loop, runner_fd(agent->runner), EPOLLIN, agent_runner_changed, agent, &err);
    if (r < 0) {
        agent_fail(agent, MST_EXIT_FAILED, true, "%s", err.text);
        return;
    }
    if (agent->collector_known)
        runner_give_collector(agent->runner, &agent->collector);
    give_pending(agent);
}

static void report_view(struct agent *agent)
{
    struct report report = report_begin(&agent->station.events, "view");
    report_number(&report, "view", (double)agent->view);
    report_number(&report, "rank", (double)agent->rank);
    report_number(&report, "world", (double)agent->world);
    report_number(&report, "step", (double)agent->view_step);
    report_text(&report, "cause", agent_change_cause(agent));
    report_number(&report, "since_start_ms", mst_ms_since(agent->start_ns));
    cJSON *members = report_array(&report, "members");
    for (size_t m = 0; m < agent->world && m < VIEW_SHOWN; m++) {
        char address[MST_IPV4_TEXT_BYTES];
        if (agent->mesh)
            report_append_pair(&report, members, "slot", agent->members[m].identity.slot, "address",
                               mst_ipv4_text(agent->members[m].identity.ipv4, address));
        else
            report_put_text(&report, report_append_object(&report, members), "slot",
                            agent->members[m].identity.slot);
    }
    report_send(&report);
}

bool agent_wants_search(const struct agent *agent)
{
    switch (agent->state) {
    case AGENT_FORMING:
    case AGENT_CHANGING:
        return true;
    case AGENT_RUNNING:
        return agent->world < agent->config->workers_max ||
               (agent->config->collect && !agent->collector_known);
    case AGENT_FAREWELL:
    case AGENT_ENDED:
        break;
    }
    return false;
}

void agent_set_searching(struct agent *agent)
{
    if (agent->search)
        search_set_wanted(agent->search, agent_wants_search(agent));
    if (agent->mesh)
        mesh_set_dialling(agent->mesh, agent_wants_search(agent));
}

/* The view holds: its members are fixed. */
static void begin_view(struct agent *agent, const uint64_t *steps)
{
    agent->state = AGENT_RUNNING;
    agent->notice[0] = '\0';
    agent->all_done = false;
    agent->station.self.identity.view = agent->view;
    agent->hosts_written = false;
    agent->view_began_ns = mst_now_ns();
    agent_set_searching(agent);
    report_view(agent);
    start_job(agent, steps);
}

static void fill_member(struct agent *agent, const struct membership_worker *worker, struct member *member)
{
    member->self =
        memcmp(worker->id.bytes, agent->station.self.identity.incarnation, sizeof worker->id.bytes) == 0;
    /* Agreed with: so known. */
    member->identity = member->self ? agent->station.self.identity
                                    : *discovery_workers_find(&agent->known, worker->id.bytes);
    member->heard_ns = mst_now_ns();
}

void agent_view_committed(void *context, const struct membership_view *view)
{
    struct agent *agent = context;
    if (agent->state == AGENT_ENDED)
        return; /* told to stop while the last signature was on its way */
    struct member *members = calloc(view->count, sizeof *members);
    mst_cleanup(mst_freep) uint64_t *steps = calloc(view->count, sizeof *steps);
    if (!members || !steps) {
        free(members);
        agent_fail(agent, MST_EXIT_FAILED, true, "keep a view of %zu workers: no memory", view->count);
        return;
    }
    agent_change_agreed(agent);
    agent->view_step = 0;
    for (size_t m = 0; m < view->count; m++) {
        fill_member(agent, &view->members[m].worker, &members[m]);
        steps[m] = view->members[m].step;
        if (steps[m] > agent->view_step)
            agent->view_step = steps[m];
        if (members[m].self)
            agent->rank = m;
    }
    free(agent->members);
    agent->members = members;
    agent->world = view->count;
    agent->view = view->view;
    begin_view(agent, steps);
}

/* A job that runs alone has a view of its own. */
void agent_begin_alone(struct agent *agent)
{
    const uint64_t step = agent->job.kind->position(agent->job.state);
    agent->members = calloc(1, sizeof *agent->members);
    if (!agent->members) {
        agent_fail(agent, MST_EXIT_FAILED, false, "no memory");
        return;
    }
    memcpy(agent->members[0].identity.slot, agent->station.slot, sizeof agent->station.slot);
    agent->members[0].self = true;
    agent->world = 1;
    agent->view = 1;
    agent->view_step = step;
    begin_view(agent, &step);
}

void agent_check_all_done(struct agent *agent)
{
    const struct member *self = &agent->members[agent->rank];
    for (size_t m = 0; m < agent->world; m++) {
        const struct member *member = &agent->members[m];
        if (!member->done)
            return;
        if (member->result.step != self->result.step ||
            memcmp(member->result.digest, self->result.digest, sizeof self->result.digest) != 0) {
            agent_fail(agent, MST_EXIT_FAILED, true, "%s and %s ended with different models",
                       member->identity.slot, self->identity.slot);
            return;
        }
    }
    agent_note_all_done(agent);
}

void agent_note_all_done(struct agent *agent)
{
    if (agent->state == AGENT_FAREWELL || agent->state == AGENT_ENDED)
        return;
    agent->all_done = true;
    if (agent->runner)
        runner_give_all_done(agent->runner);
    else
        agent_say_bye(agent); /* it was stopped for a view that nobody needs any more */
}

static void tell_done(struct agent *agent, const struct job_result *result)
{
    struct member *self = &agent->members[agent->rank];
    self->done = true;
    self->result = (struct control_done){.view = agent->view, .step = result->step};
    memcpy(self->result.digest, result->digest, sizeof self->result.digest);
    mst_cleanup(mst_buf_release) struct mst_buf payload = MST_BUF_INIT(128);
    if (control_pack_done(&payload, &self->result) < 0) {
        agent_fail(agent, MST_EXIT_FAILED, true, "no memory");
        return;
    }
    if (agent->mesh)
        mesh_send_all(agent->mesh, CONTROL_DONE, &payload);
    agent_check_all_done(agent);
}

void agent_say_bye(struct agent *agent)
{
    const struct mst_buf nothing = MST_BUF_INIT(0);
    struct mst_error err = MST_ERROR_INIT;
    agent->state = AGENT_FAREWELL;
    agent->stop_due = false;
    agent->farewell_ns = mst_now_ns() + FAREWELL_NS;
    if (agent->config->state && vow_remove(agent->config->state, &err) < 0)
        mst_log_warn("agent", "%s", err.text);
    if (agent->work->done)
        agent->work->done(agent->work->context);
    if (agent->mesh)
        mesh_send_all(agent->mesh, CONTROL_BYE, &nothing);
}

/* What means that others are lost or have left the view, and says nothing about this worker's own job. */
static bool is_about_others(int code)
{
    switch (code) {
    case -EPIPE:
    case -ECONNRESET:
    case -ECONNREFUSED:
    case -ECONNABORTED:
    case -EHOSTUNREACH:
    case -ENETUNREACH:
    case -ENETDOWN:
    case -ETIMEDOUT:
    case -ECANCELED:
    case -ESTALE:
    case -EAGAIN:
        return true;
    default:
        return false;
    }
}

static bool all_are_here(const struct agent *agent)
{
    for (size_t m = 0; m < agent->world; m++)
        if (agent->members[m].gone || agent->members[m].leaving)
            return false;
    return true;
}

/* The workers hear each other, and yet nothing came about in all the time that an exchange waits for bytes:
 * as where a tunnel on the way takes smaller packets than the interface does, and does not say so. */
static void suspect_large_packets(struct agent *agent, const struct job_progress *progress)
{
    static const int segment_bytes[] = {1160, 536}; /* an MTU of 1200; what every path for IPv4 takes */
    if (agent->world == 1 || progress->stepped_ns != 0 || agent->narrow == MST_ARRAY_COUNT(segment_bytes) ||
        mst_now_ns() < agent->view_began_ns + STALL_NS || !all_are_here(agent))
        return;
    agent->station.self.segment_bytes = segment_bytes[agent->narrow++];
    mst_log_warn("agent",
                 "view %" PRIu64
                 ": no step in %.0f s, though the workers hear each other: data in TCP segments "
                 "of %d bytes from now on, in case that larger packets are lost on the way (MTU)",
                 agent->view, mst_ms_since(agent->view_began_ns) / 1e3, agent->station.self.segment_bytes);
}

/* The view's job came to its end, or was stopped, before it came to that; `begun` as agent_job_stopped()'s.
 */
static void job_ended_early(struct agent *agent, enum runner_stage stage, uint64_t begun,
                            const struct mst_error *err)
{
    if (stage == RUNNER_FAILED && err->code != -ECANCELED)
        mst_log_debug("agent", "view %" PRIu64 ": %s", agent->view, err->text);
    if (agent->all_done) /* the others are gone, or about to go: they would agree on nothing any more */
        agent_say_bye(agent);
    else
        agent_job_stopped(agent, begun);
}

/* The thread has ended: nothing of the view's job is left but its state. False: it has not, and nothing of
 * the job may be touched any more. */
static bool end_runner(struct agent *agent)
{
    loop_remove(agent->loop, runner_fd(agent->runner));
    if (runner_stop(agent->runner, RUNNER_END_MS) < 0) {
        agent_fail(agent, MST_EXIT_FAILED, true, "the job's thread does not end");
        return false;
    }
    agent->runner = NULL;
    return true;
}

void agent_runner_changed(void *context, uint32_t events)
{
    struct agent *agent = context;
    struct job_result result;
    struct mst_error err;
    (void)events;
    const enum runner_stage stage = runner_stage(agent->runner, &result, &err);
    const struct job_progress progress = runner_progress(agent->runner);
    if (agent->state == AGENT_ENDED)
        return;
    agent_check_recovered(agent); /* its figures go with the runner */
    if ((stage == RUNNER_DELIVERED || stage == RUNNER_COMPLETED) && !agent->members[agent->rank].done)
        tell_done(agent, &result);
    /* Also when membership has asked it to stop a moment too late. */
    if (stage == RUNNER_COMPLETED && agent->state != AGENT_FAREWELL)
        agent_say_bye(agent);
    if (stage == RUNNER_FAILED && (!agent->membership || !is_about_others(err.code))) {
        if (end_runner(agent))
            agent_fail_and_leave(agent, err.text);
    } else if (stage == RUNNER_FAILED || stage == RUNNER_PAUSED) {
        if (stage == RUNNER_FAILED)
            suspect_large_packets(agent, &progress);
        const uint64_t begun = progress.step + (stage == RUNNER_FAILED && progress.entered_ns != 0);
        if (end_runner(agent))
            job_ended_early(agent, stage, begun, &err);
    }
}
