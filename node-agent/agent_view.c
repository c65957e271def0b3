/* SPDX-License-Identifier: Apache-2.0 */
#include "agent_state.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/log.h"
#include "report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERDICT_NS  (MESH_SILENCE_NS + 500 * MST_NS_PER_MS)
#define FAREWELL_NS (2 * MST_NS_PER_S)
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
    const size_t previous = (agent->rank + agent->world - 1) % agent->world;
    const struct discovery_identity *expected = &agent->members[previous].identity;
    if (from->view != agent->view ||
        memcmp(from->incarnation, expected->incarnation, sizeof from->incarnation) != 0) {
        mst_log_warn("agent",
                     "data connection from %s of view %" PRIu64 " dropped: it is not the worker before "
                     "this one in view %" PRIu64,
                     from->slot, from->view, agent->view);
        mst_closep(&fd);
        return;
    }
    runner_give_previous(agent->runner, fd);
}

static void start_job(struct agent *agent)
{
    struct mst_error err = MST_ERROR_INIT;
    const struct discovery_identity *next = &agent->members[(agent->rank + 1) % agent->world].identity;
    struct runner_options options = {
        .job = &agent->job,
        .view = {.view = agent->view, .rank = (uint32_t)agent->rank, .world = (uint32_t)agent->world},
        .self = agent->station.self,
        .next = *next,
        .collect = agent->config->collect && agent->mesh,
    };
    memcpy(&options.view.key, agent->station.self.identity.job_key, sizeof options.view.key);
    int r = runner_start(&options, &agent->runner, &err);
    mst_forget(&options.self, sizeof options.self);
    if (r < 0) {
        agent_fail(agent, MST_EXIT_FAILED, true, "%s", err.text);
        return;
    }
    if (agent->collector_known)
        runner_give_collector(agent->runner, &agent->collector);
    for (size_t p = 0; p < agent->pending_count; p++)
        agent_give_data(agent, &agent->pending[p].from, agent->pending[p].fd);
    agent->pending_count = 0;
}

static void report_view(struct agent *agent)
{
    struct report report = report_begin(&agent->station.events, "view");
    report_number(&report, "view", (double)agent->view);
    report_number(&report, "rank", (double)agent->rank);
    report_number(&report, "world", (double)agent->world);
    report_number(&report, "since_start_ms", mst_ms_since(agent->start_ns));
    cJSON *members = report_array(&report, "members");
    for (size_t m = 0; m < agent->world && m < VIEW_SHOWN; m++) {
        char address[MST_IPV4_TEXT_BYTES];
        report_append_pair(&report, members, "slot", agent->members[m].identity.slot, "address",
                           mst_ipv4_text(agent->members[m].identity.ipv4, address));
    }
    report_send(&report);
}

bool agent_wants_search(const struct agent *agent)
{
    return agent->state == AGENT_FORMING ||
           (agent->state == AGENT_RUNNING && agent->config->collect && !agent->collector_known);
}

/* The view holds: from here on the members are fixed. */
static void begin_view(struct agent *agent)
{
    agent->state = AGENT_RUNNING;
    agent->station.self.identity.view = agent->view;
    if (agent->search)
        search_set_wanted(agent->search, agent_wants_search(agent));
    if (agent->mesh)
        mesh_set_dialling(agent->mesh, agent_wants_search(agent));
    report_view(agent);
    start_job(agent);
}

void agent_view_committed(void *context, uint64_t view, const struct membership_worker *workers, size_t count)
{
    struct agent *agent = context;
    if (agent->state == AGENT_ENDED)
        return; /* told to stop while the last signature was on its way */
    agent->members = calloc(count, sizeof *agent->members);
    if (!agent->members) {
        agent_fail(agent, MST_EXIT_FAILED, true, "keep a view of %zu workers: no memory", count);
        return;
    }
    agent->view = view;
    agent->world = count;
    for (size_t w = 0; w < count; w++) {
        struct member *member = &agent->members[w];
        const struct discovery_identity *identity =
            discovery_workers_find(&agent->known, workers[w].id.bytes);
        member->self = memcmp(workers[w].id.bytes, agent->station.self.identity.incarnation,
                              sizeof workers[w].id.bytes) == 0;
        if (member->self)
            agent->rank = w;
        member->identity =
            member->self ? agent->station.self.identity : *identity; /* agreed with: so known */
    }
    begin_view(agent);
}

/* A job that runs alone has a view of its own. */
void agent_begin_alone(struct agent *agent)
{
    agent->members = calloc(1, sizeof *agent->members);
    if (!agent->members) {
        agent_fail(agent, MST_EXIT_FAILED, false, "no memory");
        return;
    }
    memcpy(agent->members[0].identity.slot, agent->station.slot, sizeof agent->station.slot);
    agent->members[0].self = true;
    agent->world = 1;
    agent->view = 1;
    begin_view(agent);
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
    runner_give_all_done(agent->runner);
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

static void say_bye(struct agent *agent)
{
    const struct mst_buf nothing = MST_BUF_INIT(0);
    agent->state = AGENT_FAREWELL;
    agent->farewell_ns = mst_now_ns() + FAREWELL_NS;
    if (agent->mesh)
        mesh_send_all(agent->mesh, CONTROL_BYE, &nothing);
}

static void job_failed(struct agent *agent, const struct mst_error *err)
{
    const bool by_connection = err->code == -EPIPE || err->code == -ECONNRESET || err->code == -ETIMEDOUT;
    if (by_connection && agent->mesh && agent->verdict_ns == 0) {
        /* The mesh is about to learn who is lost, and says it better. */
        agent->job_err = *err;
        agent->verdict_ns = mst_now_ns() + VERDICT_NS;
        return;
    }
    agent_fail(agent, MST_EXIT_FAILED, true, "%s", err->text);
}

void agent_runner_changed(void *context, uint32_t events)
{
    struct agent *agent = context;
    struct job_result result;
    struct mst_error err;
    (void)events;
    const enum runner_stage stage = runner_stage(agent->runner, &result, &err);
    if (agent->state == AGENT_ENDED)
        return;
    if (stage == RUNNER_FAILED)
        job_failed(agent, &err);
    if ((stage == RUNNER_DELIVERED || stage == RUNNER_COMPLETED) && !agent->members[agent->rank].done)
        tell_done(agent, &result);
    if (stage == RUNNER_COMPLETED && agent->state == AGENT_RUNNING)
        say_bye(agent);
}
