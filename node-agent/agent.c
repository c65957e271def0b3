/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"

#include "agent_state.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/file.h"
#include "muster/log.h"
#include "process.h"
#include "report.h"
#include "vow.h"

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

#define FLUSH_NS    (2 * MST_NS_PER_S)
#define STOP_JOB_MS 2000 /* with the 2 s of silence: the others end within 5 s of a loss */

static void tell_end(struct agent *agent, const char *event, const char *reason, bool tell)
{
    struct report report = report_begin(&agent->station.events, event);
    report_text(&report, "reason", reason);
    report_send(&report);
    mst_cleanup(mst_buf_release) struct mst_buf payload = MST_BUF_INIT(CONTROL_TEXT_BYTES + 8);
    if (tell && agent->mesh && control_pack_text(&payload, agent->view, reason) == 0)
        mesh_send_all(agent->mesh, CONTROL_ABORT, &payload);
}

static void end(struct agent *agent, int exit_status)
{
    agent->state = AGENT_ENDED;
    agent->exit_status = exit_status;
    if (agent->runner)
        runner_cancel(agent->runner);
}

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
    if (!agent->failed) {
        tell_end(agent, "failed", reason, tell);
        (void)mst_error_set(&err, -ECANCELED, "%s", reason);
        (void)mst_fail(exit_status, &err);
    }
    end(agent, exit_status);
}

void agent_fail_and_leave(struct agent *agent, const char *reason)
{
    struct mst_error err = MST_ERROR_INIT;
    const bool may_wait = agent->membership && !agent->all_done;
    const int r = may_wait ? membership_leave(agent->membership, mst_now_ns(), &err) : 1;
    if (r != 0) {
        agent_fail(agent, MST_EXIT_FAILED, true, "%s", reason);
        return;
    }
    tell_end(agent, "failed", reason, true);
    (void)mst_error_set(&err, -ECANCELED, "%s", reason);
    (void)mst_fail(MST_EXIT_FAILED, &err);
    agent->failed = true;
    agent->stop_due = !agent->runner; /* the membership may have asked for that before, and waits for it */
    agent->leave_status = MST_EXIT_FAILED;
    agent->leave_deadline_ns = mst_now_ns() + AGENT_LEAVE_NS;
}

void agent_end(struct agent *agent, int exit_status, const char *event, const char *reason)
{
    if (agent->state == AGENT_ENDED)
        return;
    if (!agent->failed) {
        mst_log_info("agent", "%s", reason);
        tell_end(agent, event, reason, false);
    }
    end(agent, exit_status);
}

struct job_progress agent_progress(const struct agent *agent)
{
    if (agent->runner)
        return runner_progress(agent->runner);
    const uint64_t step = agent->job.kind->position(agent->job.state);
    const uint32_t steps = agent->job.steps_per_epoch;
    return (struct job_progress){.step = step, .epoch = steps > 0 ? (uint32_t)(step / steps) + 1 : 0};
}

/* In words: for health checks and people. */
static const char *state_text(const struct agent *agent)
{
    switch (agent->state) {
    case AGENT_FORMING:
        return "forming";
    case AGENT_RUNNING:
        return "running";
    case AGENT_CHANGING:
        return agent_is_paused(agent) ? "paused" : "changing";
    case AGENT_FAREWELL:
        return "farewell";
    case AGENT_ENDED:
        break;
    }
    return "ended";
}

static void signalled(void *context, uint32_t events)
{
    struct agent *agent = context;
    (void)events;
    const int stop = process_signals_read(agent->signal_fd);
    if (stop == SIGINT)
        agent_leave(agent, MST_EXIT_INTERRUPTED, "SIGINT");
    else if (stop != 0)
        agent_leave(agent, MST_EXIT_TERMINATED, "SIGTERM");
}

static void describe(void *context, char text[static HEALTH_TEXT_BYTES])
{
    struct agent *agent = context;
    const struct job_progress progress = agent_progress(agent);
    (void)snprintf(text, HEALTH_TEXT_BYTES,
                   "{\"slot\":\"%s\",\"state\":\"%s\",\"view\":%" PRIu64
                   ",\"rank\":%zu,\"world\":%zu,\"epoch\":%" PRIu32 ",\"step\":%" PRIu64 "}\n",
                   agent->station.slot, state_text(agent), agent->view, agent->rank, agent->world,
                   progress.epoch, progress.step);
}

/* ---- from start to end ---- */

static int check_folder(const char *what, const char *path, struct mst_error *err)
{
    const int r = mst_make_folders(path, 0755, err);
    if (r < 0)
        return mst_error_wrap(err, r, "folder for %s (as uid %u; see option '--user')", what,
                              (unsigned)geteuid());
    if (access(path, W_OK) < 0)
        return mst_error_errno(err, -errno, "folder for %s '%s' (as uid %u; see option '--user')", what, path,
                               (unsigned)geteuid());
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

static int open_membership(struct agent *agent, struct mst_error *err)
{
    const struct agent_config *config = agent->config;
    const struct membership_callbacks callbacks = agent_membership_callbacks(agent);
    struct membership_options options = {
        .self = agent_as_worker(&agent->station.self.identity),
        .first = config->workers,
        .least = config->workers == config->workers_max && !agent->work->needs_all ? 1 : config->workers,
        .most = config->workers_max,
        .allow_minority = config->allow_minority,
    };
    mst_cleanup(mst_freep) struct membership_place *places = NULL;
    int r = 0;
    if (config->state)
        r = vow_read(config->state, agent->station.self.identity.job_key, &options.vow, &places, err);
    else
        mst_log_debug("agent",
                      "no option '--state': after a restart this worker knows nothing of earlier views");
    if (r >= 0)
        r = membership_new(&options, &callbacks, &agent->membership, err);
    return r;
}

static int open_network(struct agent *agent, struct mst_error *err)
{
    uint32_t also[DISCOVERY_CHOICES_MAX];
    const struct mesh_options mesh_options = {
        .loop = agent->loop,
        .self = &agent->station.self,
        .expected = agent->config->workers_max,
        .subnet = agent->config->peer_count > 0 ? (struct mst_cidr){0}
                                                : discovery_own_subnet(&agent->station.choice.interface),
        .also = also,
        .also_count = station_others(&agent->station, also),
    };
    const struct mesh_callbacks mesh_callbacks = agent_mesh_callbacks(agent);
    agent->pending = calloc(agent->config->workers_max, sizeof *agent->pending);
    if (!agent->pending)
        return mst_error_set(err, -ENOMEM, "open the network for %u workers: no memory",
                             agent->config->workers_max);
    int r = mesh_new(&mesh_options, &mesh_callbacks, &agent->mesh, err);
    if (r == 0)
        r = open_membership(agent, err);
    if (r < 0 || agent->config->peer_count > 0)
        return r < 0 ? r : learn_peers(agent, err);
    const struct search_options search_options = {
        .loop = agent->loop,
        .mesh = agent->mesh,
        .events = &agent->station.events,
        .arp = agent->station.arp,
        .choice = agent->station.choice,
        .port = agent->config->port,
        .dns = agent->station.dns,
        .hints = agent->station.hints,
        .hint_count = agent->station.hint_count,
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
    if (agent->config->workers_max > agent->config->workers)
        report_number(&report, "workers_max", agent->config->workers_max);
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

/* Workers meet only if their jobs are the same, and the rules by which they agree. */
static int make_job_key(const struct agent *agent, uint8_t key[static MST_SHA256_BYTES],
                        struct mst_error *err)
{
    const struct agent_config *config = agent->config;
    const uint32_t limits[] = {config->workers, config->workers_max};
    mst_cleanup(mst_sha256_release) struct mst_sha256 sha = {0};
    int r = mst_sha256_init(&sha, err);
    if (r == 0)
        r = mst_sha256_update(&sha, key, MST_SHA256_BYTES, err);
    if (r == 0)
        r = mst_sha256_update(&sha, limits, sizeof limits, err);
    if (r == 0)
        r = mst_sha256_update(&sha, config->run, strlen(config->run), err);
    return r < 0 ? r : mst_sha256_finish(&sha, key, err);
}

static int open_station(struct agent *agent, struct mst_error *err)
{
    return agent->config->standalone
               ? station_open_alone(&agent->station, agent->config, err)
               : station_open(&agent->station, agent->config, DISCOVERY_ROLE_WORKER, STATION_SWEEPS, err);
}

/* With open_station(), everything that can be wrong with options and input files is found here. The station
 * is closed after an error. */
static int open_inputs(struct agent *agent, struct mst_error *err)
{
    const struct agent_config *config = agent->config;
    const struct agent_site site = {
        .config = config, .station = &agent->station, .start_ns = agent->start_ns};
    uint8_t *key = agent->station.self.identity.job_key;
    int r = agent->work->open(agent->work->context, &site, &agent->job, key, err);
    if (r == 0)
        r = make_job_key(agent, key, err);
    /* With one worker there is nobody to meet, but for a collector. */
    if (r == 0 && !config->standalone)
        r = station_settle(&agent->station, mst_now_ns() + config->wait_ns,
                           config->workers > 1 ? 0 : MST_NS_PER_S, agent->signal_fd, err);
    if (r < 0) {
        agent->work->close(agent->work->context);
        station_close(&agent->station);
    }
    return r;
}

/* A worker answers on its port or not at all; trainings without a network may be many on one machine. */
static int open_health(struct agent *agent, struct mst_error *err)
{
    const struct agent_config *config = agent->config;
    const int r = health_new(agent->loop, config->port, describe, agent, &agent->health, err);
    if (r != -EADDRINUSE || !config->standalone)
        return r;
    mst_log_warn("agent", "another agent of this machine answers the health checks of port %u, this one none",
                 (unsigned)config->port);
    return 0;
}

static int open_rest(struct agent *agent, struct mst_error *err)
{
    int r = agent->config->out ? check_folder("results", agent->config->out, err) : 0;
    if (r == 0)
        r = loop_new(&agent->loop, err);
    if (r == 0)
        r = loop_add(agent->loop, agent->signal_fd, EPOLLIN, signalled, agent, err);
    if (r == 0)
        r = open_health(agent, err);
    if (r == 0 && !agent->config->standalone)
        r = open_network(agent, err);
    return r;
}

static void begin(struct agent *agent)
{
    struct mst_error err = MST_ERROR_INIT;
    const uint64_t step = agent->job.kind->position(agent->job.state);
    agent->form_deadline_ns = mst_now_ns() + agent->config->wait_ns;
    agent->waiting_ns = mst_now_ns() + AGENT_WAITING_EVERY_NS;
    report_start(agent);
    if (agent->work->begun)
        agent->work->begun(agent->work->context);
    if (agent->config->standalone)
        agent_begin_alone(agent);
    else if (membership_start(agent->membership, step, mst_now_ns(), &err) < 0)
        agent_fail(agent, MST_EXIT_FAILED, false, "%s", err.text);
}

static void run(struct agent *agent)
{
    struct mst_error err = MST_ERROR_INIT;
    begin(agent);
    while (agent->state != AGENT_ENDED) {
        if (loop_run_once(agent->loop, agent_deadline_ns(agent), &err) < 0)
            agent_fail(agent, MST_EXIT_FAILED, true, "%s", err.text);
        agent_tick(agent);
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
    const bool told = agent->exit_status == MST_EXIT_INTERRUPTED || agent->exit_status == MST_EXIT_TERMINATED;
    if (told && agent->world == 1 && agent->work->stopped)
        agent->work->stopped(agent->work->context);
    for (size_t p = 0; p < agent->pending_count; p++)
        mst_closep(&agent->pending[p].fd);
    free(agent->pending);
    search_free(agent->search);
    mesh_free(agent->mesh);
    membership_free(agent->membership);
    health_free(agent->health);
    loop_free(agent->loop);
    discovery_workers_release(&agent->known);
    agent->work->close(agent->work->context);
    station_close(&agent->station);
    free(agent->members);
    agent_change_release(&agent->change);
    mst_closep(&agent->signal_fd);
    return agent->exit_status;
}

int agent_run(const struct agent_config *config, const struct agent_work *work)
{
    struct mst_error err = MST_ERROR_INIT;
    struct agent *agent = calloc(1, sizeof *agent); /* too large for comfort on the stack */
    if (!agent) {
        (void)mst_error_set(&err, -ENOMEM, "start: no memory");
        return mst_fail(MST_EXIT_FAILED, &err);
    }
    agent->config = config;
    agent->work = work;
    agent->signal_fd = -1;
    agent->start_ns = mst_now_ns() - (uint64_t)(process_age_ms() * (double)MST_NS_PER_MS);

    int status = MST_EXIT_FAILED;
    int r = process_signals_open(&agent->signal_fd, &err);
    if (r < 0) {
        status = mst_fail(MST_EXIT_FAILED, &err);
        goto out;
    }
    r = open_station(agent, &err);
    /* Before the inputs, which are read from it as well: a folder that cannot be written is no wrong input.
     */
    if (r == 0 && config->state && check_folder("state", config->state, &err) < 0) {
        station_close(&agent->station);
        mst_closep(&agent->signal_fd);
        status = mst_fail(MST_EXIT_FAILED, &err);
        goto out;
    }
    if (r == 0)
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
