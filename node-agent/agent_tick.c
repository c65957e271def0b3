/* SPDX-License-Identifier: Apache-2.0 */
#include "agent_state.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "report.h"

#include <stdio.h>

#ifndef MUSTER_VERSION
#define MUSTER_VERSION "unknown"
#endif

#define WAITING_STRANGERS 8 /* named in one event: a line has its limit */
#define LOOP_LONGEST_NS   MST_NS_PER_S

bool agent_is_paused(const struct agent *agent)
{
    if (agent->state != AGENT_CHANGING || agent->runner)
        return false;
    const struct membership_wait wait = membership_waits_for(agent->membership);
    return wait.have < wait.want;
}

/* As hellos say it. */
static enum discovery_state hello_state(const struct agent *agent)
{
    if (agent->leave_deadline_ns != 0)
        return DISCOVERY_STATE_LEAVING;
    switch (agent->state) {
    case AGENT_FORMING:
        return DISCOVERY_STATE_FORMING;
    case AGENT_RUNNING:
        return DISCOVERY_STATE_RUNNING;
    case AGENT_CHANGING:
        return agent_is_paused(agent) ? DISCOVERY_STATE_PAUSED : DISCOVERY_STATE_CHANGING;
    case AGENT_FAREWELL:
    case AGENT_ENDED:
        break;
    }
    return DISCOVERY_STATE_DONE;
}

/* Once a view: it names workers that came after the sweep. */
static void write_hosts(struct agent *agent)
{
    if (agent->hosts_written || !agent->search || !agent->config->out || agent->state == AGENT_FORMING)
        return;
    const struct discovery_sweep_result *result =
        search_result(agent->search, agent->station.slot, &agent->known);
    if (!result)
        return;
    agent->hosts_written = true; /* or tried: a second try would fail the same way */
    struct mst_error err = MST_ERROR_INIT;
    mst_cleanup(mst_freep) char *path = mst_format("%s/ips-%s.xml", agent->config->out, agent->station.slot);
    const double now_s = mst_wall_s();
    const struct discovery_report report = {
        .program = "muster-agent train",
        .version = MUSTER_VERSION,
        .start_s = now_s - result->ms / 1000,
        .end_s = now_s,
        .port = agent->config->port,
        .result = result,
    };
    if (!path)
        agent_fail(agent, MST_EXIT_FAILED, true, "write the list of hosts: no memory");
    else if (discovery_ips_xml_write(path, &report, &err) < 0)
        agent_fail(agent, MST_EXIT_FAILED, true, "%s", err.text);
}

static uint64_t heartbeat_pause_ns(const struct agent *agent)
{
    const uint64_t pause_ns = agent->known.count * MESH_HEARTBEAT_PER_PEER_NS;
    if (pause_ns < MESH_HEARTBEAT_NS)
        return MESH_HEARTBEAT_NS;
    return pause_ns < MESH_HEARTBEAT_LONGEST_NS ? pause_ns : MESH_HEARTBEAT_LONGEST_NS;
}

static void send_heartbeat(struct agent *agent)
{
    const struct control_heartbeat heartbeat = {.view = agent->view, .step = agent_progress(agent).step};
    agent->station.self.identity.step = heartbeat.step;
    agent->station.self.identity.state = (uint8_t)hello_state(agent);
    mst_cleanup(mst_buf_release) struct mst_buf payload = MST_BUF_INIT(64);
    if (control_pack_heartbeat(&payload, &heartbeat) == 0)
        mesh_send_all(agent->mesh, CONTROL_HEARTBEAT, &payload);
}

/* No view holds: who is there, who is not, and why that is too few. */
static void say_waiting(struct agent *agent)
{
    const struct membership_wait wait = membership_waits_for(agent->membership);
    struct report report = report_begin(&agent->station.events, "waiting");
    report_number(&report, "have", (double)wait.have);
    report_number(&report, "want", (double)wait.want);
    report_number(&report, "view", (double)wait.last_view);
    report_bool(&report, "quorum", wait.quorum);
    cJSON *missing = report_array(&report, "missing");
    for (size_t m = 0; m < agent->world && m < WAITING_STRANGERS; m++)
        if (!agent->members[m].self && agent->members[m].gone)
            report_append_text(&report, missing, agent->members[m].identity.slot);
    if (agent->notice[0])
        report_append_text(&report, missing, agent->notice);
    char text[MESH_STRANGER_BYTES];
    for (size_t s = 0; s < WAITING_STRANGERS && mesh_stranger(agent->mesh, s, text); s++)
        report_append_text(&report, missing, text);
    report_send(&report);
}

static void give_up_forming(struct agent *agent)
{
    char text[MESH_STRANGER_BYTES];
    mst_cleanup(mst_buf_release) struct mst_buf strangers = MST_BUF_INIT(CONTROL_TEXT_BYTES);
    for (size_t s = 0; mesh_stranger(agent->mesh, s, text); s++)
        if (mst_buf_printf(&strangers, "%s%s", s > 0 ? "; " : "", text) < 0)
            break; /* the reason is cut anyway */
    /* The others' time is over, too, and they go one after the other. */
    const struct membership_wait wait = membership_waits_for(agent->membership);
    const size_t gone = agent->known.count + 1 > wait.have ? agent->known.count + 1 - wait.have : 0;
    char left[64] = "";
    if (gone > 0 && !wait.quorum)
        (void)snprintf(left, sizeof left, ", and %zu that left again", gone);
    char found[96];
    if (!wait.quorum &&
        wait.have >= wait.want) /* as where another has its slot, or they do not reach each other */
        (void)snprintf(found, sizeof found, "no view came about among the %zu workers found", wait.have);
    else
        (void)snprintf(found, sizeof found, "%zu of %zu %s found", wait.have, wait.want,
                       wait.quorum ? "slots that the last view's quorum needs" : "workers");
    agent_fail(agent, MST_EXIT_TIMEOUT, false, "%s in %.0f s%s%s%s%s%s", found,
               (double)agent->config->wait_ns / 1e9, left, agent->notice[0] ? ": " : "", agent->notice,
               strangers.count > 0 ? "; no workers: " : "", mst_buf_text(&strangers));
}

static bool all_gone(const struct agent *agent)
{
    for (size_t m = 0; m < agent->world; m++)
        if (!agent->members[m].self && !agent->members[m].gone)
            return false;
    return true;
}

/* A stop that was asked for while no job ran. */
static void stop_without_job(struct agent *agent)
{
    agent->stop_due = false;
    agent_job_stopped(agent, 0);
}

static bool is_waiting(const struct agent *agent)
{
    return agent->state == AGENT_FORMING || agent->state == AGENT_CHANGING;
}

static void tick_parts(struct agent *agent, uint64_t now_ns)
{
    struct mst_error err = MST_ERROR_INIT;
    int r = 0;
    if (agent->search)
        r = search_tick(agent->search, now_ns, &err);
    if (r == 0 && agent->membership && (is_waiting(agent) || agent->state == AGENT_RUNNING))
        r = membership_tick(agent->membership, now_ns, &err);
    if (r < 0)
        agent_fail(agent, MST_EXIT_FAILED, true, "%s", err.text);
    if (!agent->mesh)
        return;
    mesh_tick(agent->mesh, now_ns);
    write_hosts(agent);
    if (now_ns >= agent->heartbeat_ns) {
        agent->heartbeat_ns = now_ns + heartbeat_pause_ns(agent);
        send_heartbeat(agent);
    }
}

void agent_tick(struct agent *agent)
{
    const uint64_t now_ns = mst_now_ns();
    tick_parts(agent, now_ns);
    if (agent->stop_due && agent->state != AGENT_ENDED)
        stop_without_job(agent);
    agent_check_recovered(agent);
    if (agent->runner && runner_lacks_collector(agent->runner)) {
        agent->collector_known = false;
        mesh_ask_again(agent->mesh, agent->collector.ipv4,
                       agent->collector.port); /* or it is elsewhere now */
        agent_set_searching(agent);
    }
    if (!is_waiting(agent))
        agent->waiting_ns = now_ns + AGENT_WAITING_EVERY_NS;
    if (is_waiting(agent) && now_ns >= agent->waiting_ns) {
        agent->waiting_ns = now_ns + AGENT_WAITING_EVERY_NS;
        say_waiting(agent);
    }
    if (!is_waiting(agent))
        agent->form_deadline_ns = now_ns + agent->config->wait_ns;
    if (is_waiting(agent) && !agent->runner && now_ns >= agent->form_deadline_ns)
        give_up_forming(agent);
    if (agent->leave_deadline_ns != 0 && now_ns >= agent->leave_deadline_ns)
        agent_end(agent, agent->leave_status, "left", "the others did not agree in time to go on without it");
    if (agent->state == AGENT_FAREWELL && (all_gone(agent) || now_ns >= agent->farewell_ns))
        agent->state = AGENT_ENDED;
}

uint64_t agent_deadline_ns(const struct agent *agent)
{
    uint64_t deadline_ns = mst_now_ns() + LOOP_LONGEST_NS;
    if (agent->search)
        loop_sooner(&deadline_ns, search_deadline_ns(agent->search));
    if (agent->membership && (is_waiting(agent) || agent->state == AGENT_RUNNING))
        loop_sooner(&deadline_ns, membership_deadline_ns(agent->membership));
    if (agent->mesh) {
        loop_sooner(&deadline_ns, mesh_deadline_ns(agent->mesh));
        loop_sooner(&deadline_ns, agent->heartbeat_ns);
    }
    if (is_waiting(agent)) {
        loop_sooner(&deadline_ns, agent->waiting_ns);
        loop_sooner(&deadline_ns, agent->form_deadline_ns);
    }
    if (agent->leave_deadline_ns != 0)
        loop_sooner(&deadline_ns, agent->leave_deadline_ns);
    if (agent->state == AGENT_FAREWELL)
        loop_sooner(&deadline_ns, agent->farewell_ns);
    if (agent->stop_due)
        deadline_ns = 0;
    return deadline_ns;
}
