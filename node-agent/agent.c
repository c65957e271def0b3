/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"

#include "control.h"
#include "health.h"
#include "membership.h"
#include "mesh.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/file.h"
#include "muster/log.h"
#include "process.h"
#include "report.h"
#include "runner.h"
#include "search.h"
#include "station.h"
#include "train.h"

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
#define VERDICT_NS        MESH_SILENCE_NS + 500 * MST_NS_PER_MS
#define FAREWELL_NS       (2 * MST_NS_PER_S)
#define STOP_JOB_MS       3000
#define LOOP_LONGEST_NS   MST_NS_PER_S
#define PENDING_DATA_MAX  16

enum agent_state {
    AGENT_FORMING,  /* searching and agreeing */
    AGENT_RUNNING,  /* the job's thread is at work */
    AGENT_FAREWELL, /* all are done: BYE is on its way */
    AGENT_ENDED,
};

static const char *const state_names[] = {"forming", "running", "farewell", "ended"};

/* A worker of the view. */
struct member {
    struct discovery_identity identity;
    bool self, done, gone;
    struct control_done result;
};

/* A data connection that came before the view was committed here. */
struct pending_data {
    struct discovery_identity from;
    int fd;
};

struct agent {
    const struct agent_config *config;
    uint64_t start_ns; /* of the process, on the monotonic clock */
    struct station station;
    struct loop *loop;
    int signal_fd;
    struct health *health;
    struct train *train;
    struct job job;
    struct mesh *mesh;     /* NULL when alone, as the next two */
    struct search *search; /* NULL with --peers, too */
    struct membership *membership;
    struct discovery_workers known; /* peers that are or were up */
    struct pending_data pending[PENDING_DATA_MAX];
    size_t pending_count;
    bool collector_known;
    struct discovery_identity collector;
    bool hosts_written; /* ips.xml */

    enum agent_state state;
    uint64_t view;
    struct member *members; /* owned, in rank order */
    size_t world, rank;
    struct runner *runner;

    uint64_t heartbeat_ns, waiting_ns, form_deadline_ns;
    uint64_t verdict_ns; /* the job failed by its connections: until then the mesh may say why; 0: no */
    struct mst_error job_err;
    uint64_t farewell_ns;
    int exit_status;
};

/* The end with a reason, once: the first one counts. `tell`: the others do not know it yet. */
static void fail(struct agent *agent, int exit_status, bool tell, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void fail(struct agent *agent, int exit_status, bool tell, const char *format, ...)
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

static struct member *find_member(const struct agent *agent, const uint8_t *incarnation)
{
    for (size_t m = 0; m < agent->world; m++)
        if (memcmp(agent->members[m].identity.incarnation, incarnation, DISCOVERY_INCARNATION_BYTES) == 0)
            return &agent->members[m];
    return NULL;
}

/* ---- what the search found ---- */

static void write_hosts(struct agent *agent)
{
    const struct discovery_sweep_result *result =
        agent->search ? search_result(agent->search, &agent->known) : NULL;
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
        fail(agent, MST_EXIT_FAILED, true, "write the list of hosts: no memory");
    else if (discovery_ips_xml_write(path, &report, &err) < 0)
        fail(agent, MST_EXIT_FAILED, true, "%s", err.text);
}

/* ---- the job ---- */

static void give_data(struct agent *agent, const struct discovery_identity *from, int fd)
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
        fail(agent, MST_EXIT_FAILED, true, "%s", err.text);
        return;
    }
    if (agent->collector_known)
        runner_give_collector(agent->runner, &agent->collector);
    for (size_t p = 0; p < agent->pending_count; p++)
        give_data(agent, &agent->pending[p].from, agent->pending[p].fd);
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
    /* A line has its limit; every member says its own rank anyway. */
    for (size_t m = 0; m < agent->world && m < 24; m++) {
        char address[MST_IPV4_TEXT_BYTES];
        report_append_pair(&report, members, "slot", agent->members[m].identity.slot, "address",
                           mst_ipv4_text(agent->members[m].identity.ipv4, address));
    }
    report_send(&report);
}

static bool wants_search(const struct agent *agent)
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
        search_set_wanted(agent->search, wants_search(agent));
    if (agent->mesh)
        mesh_set_dialling(agent->mesh, wants_search(agent));
    report_view(agent);
    start_job(agent);
}

static void view_committed(void *context, uint64_t view, const struct membership_worker *workers,
                           size_t count)
{
    struct agent *agent = context;
    agent->members = calloc(count, sizeof *agent->members);
    if (!agent->members) {
        fail(agent, MST_EXIT_FAILED, true, "keep a view of %zu workers: no memory", count);
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
static void begin_alone(struct agent *agent)
{
    agent->members = calloc(1, sizeof *agent->members);
    if (!agent->members) {
        fail(agent, MST_EXIT_FAILED, false, "no memory");
        return;
    }
    memcpy(agent->members[0].identity.slot, agent->station.slot, sizeof agent->station.slot);
    agent->members[0].self = true;
    agent->world = 1;
    agent->view = 1;
    begin_view(agent);
}

static void check_all_done(struct agent *agent)
{
    const struct member *self = &agent->members[agent->rank];
    for (size_t m = 0; m < agent->world; m++) {
        const struct member *member = &agent->members[m];
        if (!member->done)
            return;
        if (member->result.step != self->result.step ||
            memcmp(member->result.digest, self->result.digest, sizeof self->result.digest) != 0) {
            fail(agent, MST_EXIT_FAILED, true, "%s and %s ended with different models", member->identity.slot,
                 self->identity.slot);
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
        fail(agent, MST_EXIT_FAILED, true, "no memory");
        return;
    }
    if (agent->mesh)
        mesh_send_all(agent->mesh, CONTROL_DONE, &payload);
    check_all_done(agent);
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
    fail(agent, MST_EXIT_FAILED, true, "%s", err->text);
}

static void runner_changed(void *context, uint32_t events)
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

/* ---- what the mesh says ---- */

static void seen(void *context, const struct discovery_identity *who)
{
    struct agent *agent = context;
    if (who->role != DISCOVERY_ROLE_COLLECTOR || agent->collector_known)
        return;
    agent->collector = *who;
    agent->collector_known = true;
    if (agent->runner)
        runner_give_collector(agent->runner, who);
    if (agent->search)
        search_set_wanted(agent->search, wants_search(agent));
    mesh_set_dialling(agent->mesh, wants_search(agent));
}

static struct membership_worker as_worker(const struct discovery_identity *identity)
{
    struct membership_worker worker = {.ipv4 = identity->ipv4, .port = identity->port};
    memcpy(worker.id.bytes, identity->incarnation, sizeof worker.id.bytes);
    return worker;
}

static void peer_up(void *context, const struct discovery_identity *peer)
{
    struct agent *agent = context;
    struct mst_error err = MST_ERROR_INIT;
    const struct membership_worker worker = as_worker(peer);
    int r = discovery_workers_add(&agent->known, peer, &err);
    if (r >= 0)
        r = membership_peer_up(agent->membership, &worker, mst_now_ns(), &err);
    if (r < 0)
        fail(agent, MST_EXIT_FAILED, true, "%s", err.text);
}

static void peer_down(void *context, const struct discovery_identity *peer, const char *reason)
{
    struct agent *agent = context;
    struct mst_error err = MST_ERROR_INIT;
    struct membership_id id;
    memcpy(id.bytes, peer->incarnation, sizeof id.bytes);
    if (membership_peer_down(agent->membership, &id, mst_now_ns(), &err) < 0)
        fail(agent, MST_EXIT_FAILED, true, "%s", err.text);
    struct member *member = find_member(agent, peer->incarnation);
    if (!member)
        return;
    member->gone = true;
    if (agent->state != AGENT_RUNNING)
        return;
    char address[MST_IPV4_TEXT_BYTES];
    uint64_t step = 0;
    uint32_t epoch = 0;
    runner_progress(agent->runner, &step, &epoch);
    fail(agent, MST_EXIT_FAILED, true,
         "lost worker %s at %s: %s (view %" PRIu64 ", epoch %" PRIu32 ", step %" PRIu64 ")", peer->slot,
         mst_ipv4_text(peer->ipv4, address), reason, agent->view, epoch, step);
}

static int membership_frame(struct agent *agent, const struct discovery_identity *from,
                            enum control_type type, const uint8_t *payload, size_t count,
                            struct mst_error *err)
{
    mst_cleanup(mst_freep) struct membership_worker *workers = NULL;
    struct membership_message message;
    struct membership_id id;
    int r = control_unpack_membership(type, payload, count, &message, &workers, err);
    if (r < 0)
        return r;
    if (agent->view > 0 && !find_member(agent, from->incarnation)) {
        char text[CONTROL_TEXT_BYTES];
        mst_cleanup(mst_buf_release) struct mst_buf refusal = MST_BUF_INIT(CONTROL_TEXT_BYTES + 8);
        (void)snprintf(text, sizeof text,
                       "%s runs view %" PRIu64 " with %zu workers already: there is no place left",
                       agent->station.slot, agent->view, agent->world);
        r = control_pack_text(&refusal, agent->view, text);
        return r < 0 ? r : mesh_send(agent->mesh, from->incarnation, CONTROL_REFUSED, &refusal, err);
    }
    memcpy(id.bytes, from->incarnation, sizeof id.bytes);
    return membership_receive(agent->membership, &id, &message, mst_now_ns(), err);
}

static int done_frame(struct agent *agent, const struct discovery_identity *from, const uint8_t *payload,
                      size_t count, struct mst_error *err)
{
    struct control_done done;
    struct member *member = find_member(agent, from->incarnation);
    const int r = control_unpack_done(payload, count, &done, err);
    if (r < 0)
        return r;
    if (!member || done.view != agent->view)
        return mst_error_set(err, -EPROTO, "done with view %" PRIu64 ", which is not this worker's",
                             done.view);
    member->done = true;
    member->result = done;
    if (agent->members[agent->rank].done)
        check_all_done(agent);
    return 0;
}

static int text_frame(struct agent *agent, enum control_type type, const uint8_t *payload, size_t count,
                      struct mst_error *err)
{
    uint64_t view;
    char text[CONTROL_TEXT_BYTES];
    const int r = control_unpack_text(payload, count, &view, text, err);
    if (r < 0)
        return r;
    /* An abort of a view that is not ours, and a refusal once we are in, are late mail. */
    if ((type == CONTROL_ABORT && agent->view > 0 && view == agent->view && agent->state == AGENT_RUNNING) ||
        (type == CONTROL_REFUSED && agent->view == 0))
        fail(agent, MST_EXIT_FAILED, false, "%s", text);
    return 0;
}

static int frame(void *context, const struct discovery_identity *from, uint16_t type, const uint8_t *payload,
                 size_t count, struct mst_error *err)
{
    struct agent *agent = context;
    struct control_heartbeat heartbeat;
    struct member *member;
    switch (type) {
    case CONTROL_HEARTBEAT:
        return control_unpack_heartbeat(payload, count, &heartbeat, err);
    case CONTROL_PROPOSE:
    case CONTROL_COMMIT:
        return membership_frame(agent, from, type, payload, count, err);
    case CONTROL_DONE:
        return done_frame(agent, from, payload, count, err);
    case CONTROL_ABORT:
    case CONTROL_REFUSED:
        return text_frame(agent, type, payload, count, err);
    case CONTROL_BYE:
        member = find_member(agent, from->incarnation);
        if (member)
            member->gone = true;
        return 0;
    default:
        return mst_error_set(err, -EPROTO, "a control frame of unknown type %u", type);
    }
}

static void data_arrived(void *context, const struct discovery_identity *from, int fd)
{
    struct agent *agent = context;
    if (agent->runner) {
        give_data(agent, from, fd);
    } else if (agent->state == AGENT_FORMING && agent->pending_count < PENDING_DATA_MAX) {
        agent->pending[agent->pending_count++] = (struct pending_data){.from = *from, .fd = fd};
    } else {
        mst_closep(&fd);
    }
}

static void send_membership(void *context, const struct membership_id *to,
                            const struct membership_message *message)
{
    struct agent *agent = context;
    struct mst_error err = MST_ERROR_INIT;
    mst_cleanup(mst_buf_release) struct mst_buf payload = MST_BUF_INIT(DISCOVERY_FRAME_MAX_BYTES);
    const uint16_t type = message->kind == MEMBERSHIP_PROPOSE ? CONTROL_PROPOSE : CONTROL_COMMIT;
    int r = control_pack_membership(&payload, message);
    if (r == 0)
        r = mesh_send(agent->mesh, to->bytes, type, &payload, &err);
    if (r < 0) /* the connection is on its way down, and its end is told to the state machine */
        mst_log_debug("agent", "membership message not sent: %s", err.text);
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
    fail(agent, MST_EXIT_TIMEOUT, false, "%zu of %u workers found in %.0f s%s%s",
         membership_reachable(agent->membership), agent->config->workers,
         (double)agent->config->wait_ns / 1e9, strangers.count > 0 ? "; no workers: " : "",
         mst_buf_text(&strangers));
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
        fail(agent, MST_EXIT_FAILED, true, "%s", err.text);
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
        fail(agent, MST_EXIT_FAILED, true, "%s", agent->job_err.text);
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
        fail(agent, MST_EXIT_INTERRUPTED, true, "%s was interrupted (SIGINT)", agent->station.slot);
    else if (stop != 0)
        fail(agent, MST_EXIT_TERMINATED, true, "%s was told to stop (SIGTERM)", agent->station.slot);
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
        return r;
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
    const struct mesh_callbacks mesh_callbacks = {.context = agent,
                                                  .seen = seen,
                                                  .peer_up = peer_up,
                                                  .peer_down = peer_down,
                                                  .frame = frame,
                                                  .data = data_arrived};
    const struct membership_callbacks membership_callbacks = {
        .context = agent, .send = send_membership, .committed = view_committed};
    const struct membership_worker self = as_worker(&agent->station.self.identity);
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
        begin_alone(agent);
    else if (membership_start(agent->membership, mst_now_ns(), &err) < 0)
        fail(agent, MST_EXIT_FAILED, false, "%s", err.text);
    while (agent->state != AGENT_ENDED) {
        if (agent->runner && !watching_runner) {
            watching_runner = true;
            if (loop_add(agent->loop, runner_fd(agent->runner), EPOLLIN, runner_changed, agent, &err) < 0)
                fail(agent, MST_EXIT_FAILED, true, "%s", err.text);
        }
        if (loop_run_once(agent->loop, next_deadline_ns(agent), &err) < 0)
            fail(agent, MST_EXIT_FAILED, true, "%s", err.text);
        tick(agent);
    }
    /* The reason may still be on its way to the others. */
    const uint64_t flush_ns = mst_now_ns() + FAREWELL_NS;
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
    if (!agent)
        return MST_EXIT_FAILED;
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
        const bool not_the_input = r == -ENOMEM || r == -EPERM;
        mst_closep(&agent->signal_fd);
        status = mst_fail(not_the_input ? MST_EXIT_FAILED : MST_EXIT_USAGE, &err);
        goto out;
    }
    r = open_rest(agent, &err);
    if (r < 0)
        fail(agent, MST_EXIT_FAILED, false, "%s", err.text);
    else
        run(agent);
    status = close_all(agent);
out:
    free(agent);
    return status;
}
