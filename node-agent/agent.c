/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"

#include "agent_state.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/file.h"
#include "muster/log.h"
#include "process.h"
#include "report.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#ifndef MUSTER_VERSION
#define MUSTER_VERSION "unknown"
#endif

#define WAITING_EVERY_NS  (2 * MST_NS_PER_S)
#define WAITING_STRANGERS 8 /* named in one event: a line has its limit */
#define FLUSH_NS          (2 * MST_NS_PER_S)
#define STOP_JOB_MS       2000 /* with the 2 s of silence: the others end within 5 s of a loss */
#define LOOP_LONGEST_NS   MST_NS_PER_S

static const char *const state_names[] = {"forming", "running", "farewell", "ended"};

void agent_fail(struct agent *agent, int exit_status, bool tell, const char *format, ...)
{
    if (agent->state == AGENT_ENDED)
        return;
    struct mst_error err = MST_ERROR_INIT;
    char reason[CONTROL_TEXT_BYTES];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    agent->state = AGENT_ENDED;
    agent->exit_status = exit_status;

    struct report report = report_begin(&agent->station.events, "failed");
    report_text(&report, "reason", reason);
    report_send(&report);
    (void)mst_error_set(&err, -ECANCELED, "%s", reason);
    (void)mst_fail(exit_status, &err);

    mst_cleanup(mst_buf_release) struct mst_buf payload = MST_BUF_INIT(CONTROL_TEXT_BYTES + 8);
    if (tell && agent->mesh && control_pack_text(&payload, agent->view, reason) == 0)
        mesh_send_all(agent->mesh, CONTROL_ABORT, &payload);
    if (agent->runner)
        runner_cancel(agent->runner);
}

static void write_hosts(struct agent *agent)
{
    const struct discovery_sweep_result *result =
        agent->search ? search_result(agent->search, agent->station.slot, &agent->known) : NULL;
    if (agent->hosts_written || !result || agent->state == AGENT_FORMING)
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

/* ---- time ---- */

static void send_heartbeat(struct agent *agent)
{
    struct control_heartbeat heartbeat = {.view = agent->view};
    uint32_t epoch;
    if (agent->runner)
        runner_progress(agent->runner, &heartbeat.step, &epoch);
    mst_cleanup(mst_buf_release) struct mst_buf payload = MST_BUF_INIT(64);
    if (control_pack_heartbeat(&payload, &heartbeat) == 0)
        mesh_send_all(agent->mesh, CONTROL_HEARTBEAT, &payload);
}

static void say_waiting(struct agent *agent)
{
    struct report report = report_begin(&agent->station.events, "waiting");
    report_number(&report, "have", (double)membership_reachable(agent->membership));
    report_number(&report, "want", agent->config->workers);
    cJSON *missing = report_array(&report, "missing");
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
    const size_t here = membership_reachable(agent->membership);
    const size_t gone = agent->known.count + 1 > here ? agent->known.count + 1 - here : 0;
    char left[64] = "";
    if (gone > 0)
        (void)snprintf(left, sizeof left, ", and %zu that left again", gone);
    agent_fail(agent, MST_EXIT_TIMEOUT, false, "%zu of %u workers found in %.0f s%s%s%s", here,
               agent->config->workers, (double)agent->config->wait_ns / 1e9, left,
               strangers.count > 0 ? "; no workers: " : "", mst_buf_text(&strangers));
}

static bool all_gone(const struct agent *agent)
{
    for (size_t m = 0; m < agent->world; m++)
        if (!agent->members[m].self && !agent->members[m].gone)
            return false;
    return true;
}

/* What is due by the clock. */
static void tick(struct agent *agent)
{
    struct mst_error err = MST_ERROR_INIT;
    const uint64_t now_ns = mst_now_ns();
    int r = 0;
    if (agent->search)
        r = search_tick(agent->search, now_ns, &err);
    if (r == 0 && agent->membership)
        r = membership_tick(agent->membership, now_ns, &err);
    if (r < 0)
        agent_fail(agent, MST_EXIT_FAILED, true, "%s", err.text);
    if (agent->mesh) {
        mesh_tick(agent->mesh, now_ns);
        write_hosts(agent);
    }
    if (agent->mesh && now_ns >= agent->heartbeat_ns) {
        agent->heartbeat_ns = now_ns + MESH_HEARTBEAT_NS;
        send_heartbeat(agent);
    }
    if (agent->state == AGENT_FORMING && now_ns >= agent->waiting_ns) {
        agent->waiting_ns = now_ns + WAITING_EVERY_NS;
        say_waiting(agent);
    }
    if (agent->state == AGENT_FORMING && now_ns >= agent->form_deadline_ns)
        give_up_forming(agent);
    if (agent->state == AGENT_RUNNING && agent->verdict_ns != 0 && now_ns >= agent->verdict_ns)
        agent_fail(agent, MST_EXIT_FAILED, true, "%s", agent->job_err.text);
    if (agent->state == AGENT_FAREWELL && (all_gone(agent) || now_ns >= agent->farewell_ns))
        agent->state = AGENT_ENDED;
}

static void sooner(uint64_t *deadline_ns, uint64_t other_ns)
{
    if (other_ns < *deadline_ns)
        *deadline_ns = other_ns;
}

static uint64_t next_deadline_ns(const struct agent *agent)
{
    uint64_t deadline_ns = mst_now_ns() + LOOP_LONGEST_NS;
    if (agent->search)
        sooner(&deadline_ns, search_deadline_ns(agent->search));
    if (agent->membership)
        sooner(&deadline_ns, membership_deadline_ns(agent->membership));
    if (agent->mesh) {
        sooner(&deadline_ns, mesh_deadline_ns(agent->mesh));
        sooner(&deadline_ns, agent->heartbeat_ns);
    }
    if (agent->state == AGENT_FORMING) {
        sooner(&deadline_ns, agent->waiting_ns);
        sooner(&deadline_ns, agent->form_deadline_ns);
    }
    if (agent->state == AGENT_FAREWELL)
        sooner(&deadline_ns, agent->farewell_ns);
    if (agent->verdict_ns != 0)
        sooner(&deadline_ns, agent->verdict_ns);
    return deadline_ns;
}

static void signalled(void *context, uint32_t events)
{
    struct agent *agent = context;
    (void)events;
    const int stop = process_signals_read(agent->signal_fd);
    if (stop == SIGINT)
        agent_fail(agent, MST_EXIT_INTERRUPTED, true, "%s was interrupted (SIGINT)", agent->station.slot);
    else if (stop != 0)
        agent_fail(agent, MST_EXIT_TERMINATED, true, "%s was told to stop (SIGTERM)", agent->station.slot);
}

static void describe(void *context, char text[static HEALTH_TEXT_BYTES])
{
    struct agent *agent = context;
    uint64_t step = 0;
    uint32_t epoch = 0;
    if (agent->runner)
        runner_progress(agent->runner, &step, &epoch);
    (void)snprintf(text, HEALTH_TEXT_BYTES,
                   "{\"slot\":\"%s\",\"state\":\"%s\",\"view\":%" PRIu64
                   ",\"rank\":%zu,\"world\":%zu,\"epoch\":%" PRIu32 ",\"step\":%" PRIu64 "}\n",
                   agent->station.slot, state_names[agent->state], agent->view, agent->rank, agent->world,
                   epoch, step);
}

/* ---- from start to end ---- */

static int check_out_folder(const struct agent_config *config, struct mst_error *err)
{
    const int r = mst_make_folders(config->out, 0755, err);
    if (r < 0)
        return mst_error_wrap(err, r, "folder for results (as uid %u; see option '--user')",
                              (unsigned)geteuid());
    if (access(config->out, W_OK) < 0)
        return mst_error_errno(err, -errno, "folder for results '%s' (as uid %u; see option '--user')",
                               config->out, (unsigned)geteuid());
    return 0;
}

static int learn_peers(struct agent *agent, struct mst_error *err)
{
    int r = 0;
    for (size_t p = 0; r == 0 && p < agent->config->peer_count; p++) {
        const struct config_address *peer = &agent->config->peers[p];
        r = mesh_learn(agent->mesh, peer->ipv4, peer->port ? peer->port : agent->config->port, err);
    }
    return r;
}

static int open_network(struct agent *agent, struct mst_error *err)
{
    const struct mesh_options mesh_options = {
        .loop = agent->loop, .self = &agent->station.self, .expected = agent->config->workers};
    const struct mesh_callbacks mesh_callbacks = agent_mesh_callbacks(agent);
    const struct membership_callbacks membership_callbacks = agent_membership_callbacks(agent);
    const struct membership_worker self = agent_as_worker(&agent->station.self.identity);
    int r = mesh_new(&mesh_options, &mesh_callbacks, &agent->mesh, err);
    if (r == 0)
        r = membership_new(&self, agent->config->workers, &membership_callbacks, &agent->membership, err);
    if (r < 0 || agent->config->peer_count > 0)
        return r < 0 ? r : learn_peers(agent, err);
    const struct search_options search_options = {
        .loop = agent->loop,
        .mesh = agent->mesh,
        .events = &agent->station.events,
        .arp = agent->station.arp,
        .choice = agent->station.choice,
        .port = agent->config->port,
    };
    return search_new(&search_options, &agent->search, err);
}

static void report_start(struct agent *agent)
{
    const struct discovery_choice *choice = &agent->station.choice;
    char address[MST_IPV4_TEXT_BYTES], subnet[MST_IPV4_TEXT_BYTES + 3];
    struct report report = report_begin(&agent->station.events, "start");
    report_text(&report, "version", MUSTER_VERSION);
    report_text(&report, "cluster", agent->config->cluster);
    report_number(&report, "workers", agent->config->workers);
    report_number(&report, "pid_age_ms", mst_ms_since(agent->start_ns));
    if (agent->mesh) {
        (void)snprintf(subnet, sizeof subnet, "%s/%u", mst_ipv4_text(choice->subnet.network, address),
                       choice->subnet.prefix);
        report_text(&report, "interface", choice->interface.name);
        report_text(&report, "address", mst_ipv4_text(choice->interface.ipv4, address));
        report_text(&report, "subnet", subnet);
        report_text(&report, "reason", choice->reason);
    }
    report_send(&report);
}

/* Everything that can be wrong with options and input files is found here. */
static int open_inputs(struct agent *agent, struct mst_error *err)
{
    const struct agent_config *config = agent->config;
    int r = config->standalone
                ? station_open_alone(&agent->station, config, err)
                : station_open(&agent->station, config, DISCOVERY_ROLE_WORKER, STATION_SWEEPS, err);
    if (r < 0)
        return r;
    const struct train_options options = {
        .config = config,
        .slot = agent->station.slot,
        .events = &agent->station.events,
        .start_ns = agent->start_ns,
    };
    r = train_new(&options, &agent->train, err);
    if (r == 0)
        r = train_key(agent->train, agent->station.self.identity.job_key, err);
    if (r < 0) {
        train_free(agent->train);
        agent->train = NULL;
        station_close(&agent->station);
        return r;
    }
    agent->job = train_job(agent->train);
    return 0;
}

static int open_rest(struct agent *agent, struct mst_error *err)
{
    int r = check_out_folder(agent->config, err);
    if (r == 0)
        r = loop_new(&agent->loop, err);
    if (r == 0)
        r = loop_add(agent->loop, agent->signal_fd, EPOLLIN, signalled, agent, err);
    if (r == 0)
        r = health_new(agent->loop, agent->config->port, describe, agent, &agent->health, err);
    if (r == 0 && !agent->config->standalone)
        r = open_network(agent, err);
    return r;
}

static void run(struct agent *agent)
{
    struct mst_error err = MST_ERROR_INIT;
    bool watching_runner = false;
    agent->form_deadline_ns = mst_now_ns() + agent->config->wait_ns;
    agent->waiting_ns = mst_now_ns() + WAITING_EVERY_NS;
    report_start(agent);
    if (agent->config->standalone)
        agent_begin_alone(agent);
    else if (membership_start(agent->membership, mst_now_ns(), &err) < 0)
        agent_fail(agent, MST_EXIT_FAILED, false, "%s", err.text);
    while (agent->state != AGENT_ENDED) {
        if (agent->runner && !watching_runner) {
            watching_runner = true;
            if (loop_add(agent->loop, runner_fd(agent->runner), EPOLLIN, agent_runner_changed, agent, &err) <
                0)
                agent_fail(agent, MST_EXIT_FAILED, true, "%s", err.text);
        }
        if (loop_run_once(agent->loop, next_deadline_ns(agent), &err) < 0)
            agent_fail(agent, MST_EXIT_FAILED, true, "%s", err.text);
        tick(agent);
    }
    /* The reason may still be on its way to the others. */
    const uint64_t flush_ns = mst_now_ns() + FLUSH_NS;
    while (agent->mesh && !mesh_flushed(agent->mesh) && mst_now_ns() < flush_ns)
        if (loop_run_once(agent->loop, mst_now_ns() + MESH_HEARTBEAT_NS, &err) < 0)
            break;
}

static int close_all(struct agent *agent)
{
    if (agent->runner && runner_stop(agent->runner, STOP_JOB_MS) < 0) {
        mst_log_error("agent", "the job did not stop in %d ms: leaving it behind", STOP_JOB_MS);
        _exit(agent->exit_status ? agent->exit_status : MST_EXIT_FAILED);
    }
    for (size_t p = 0; p < agent->pending_count; p++)
        mst_closep(&agent->pending[p].fd);
    search_free(agent->search);
    mesh_free(agent->mesh);
    membership_free(agent->membership);
    health_free(agent->health);
    loop_free(agent->loop);
    discovery_workers_release(&agent->known);
    train_free(agent->train);
    station_close(&agent->station);
    free(agent->members);
    mst_closep(&agent->signal_fd);
    return agent->exit_status;
}

int agent_train(const struct agent_config *config)
{
    struct mst_error err = MST_ERROR_INIT;
    struct agent *agent = calloc(1, sizeof *agent); /* too large for comfort on the stack */
    if (!agent) {
        (void)mst_error_set(&err, -ENOMEM, "start: no memory");
        return mst_fail(MST_EXIT_FAILED, &err);
    }
    agent->config = config;
    agent->signal_fd = -1;
    agent->start_ns = mst_now_ns() - (uint64_t)(process_age_ms() * (double)MST_NS_PER_MS);

    int status = MST_EXIT_FAILED;
    int r = process_signals_open(&agent->signal_fd, &err);
    if (r < 0) {
        status = mst_fail(MST_EXIT_FAILED, &err);
        goto out;
    }
    r = open_inputs(agent, &err);
    if (r < 0) {
        mst_closep(&agent->signal_fd);
        status = mst_fail(station_exit_status(r), &err);
        goto out;
    }
    r = open_rest(agent, &err);
    if (r < 0)
        agent_fail(agent, MST_EXIT_FAILED, false, "%s", err.text);
    else
        run(agent);
    status = close_all(agent);
out:
    free(agent);
    return status;
}
