/* SPDX-License-Identifier: Apache-2.0 */
#include "agent_state.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/log.h"
#include "vow.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void seen(void *context, const struct discovery_identity *who)
{
    struct agent *agent = context;
    if (who->role != DISCOVERY_ROLE_COLLECTOR)
        return;
    const bool same = memcmp(who->incarnation, agent->collector.incarnation, sizeof who->incarnation) == 0;
    if (agent->collector_known && same)
        return;
    agent->collector = *who;
    agent->collector_known = true;
    if (agent->runner)
        runner_give_collector(agent->runner, who);
    agent_set_searching(agent);
}

struct membership_worker agent_as_worker(const struct discovery_identity *identity)
{
    struct membership_worker worker = {.ipv4 = identity->ipv4, .port = identity->port};
    memcpy(worker.id.bytes, identity->incarnation, sizeof worker.id.bytes);
    worker.slot = membership_slot_of(identity->slot);
    return worker;
}

static void peer_up(void *context, const struct discovery_identity *peer)
{
    struct agent *agent = context;
    struct mst_error err = MST_ERROR_INIT;
    const struct membership_worker worker = agent_as_worker(peer);
    int r = discovery_workers_add(&agent->known, peer, &err);
    if (r >= 0)
        r = membership_peer_up(agent->membership, &worker, mst_now_ns(), &err);
    if (r < 0)
        agent_fail(agent, MST_EXIT_FAILED, true, "%s", err.text);
}

/* Whatever others say or do, no other view is agreed on. */
static bool is_over(const struct agent *agent)
{
    return agent->state == AGENT_FAREWELL || agent->state == AGENT_ENDED || agent->all_done;
}

static void drop_early(struct agent *agent, const uint8_t *incarnation)
{
    for (size_t p = 0; p < agent->pending_count; p++) {
        struct pending_data *pending = &agent->pending[p];
        if (memcmp(pending->from.incarnation, incarnation, sizeof pending->from.incarnation) != 0)
            continue;
        mst_closep(&pending->fd);
        *pending = agent->pending[--agent->pending_count];
        return;
    }
}

static void peer_down(void *context, const struct discovery_identity *peer, const char *reason)
{
    struct agent *agent = context;
    struct mst_error err = MST_ERROR_INIT;
    struct membership_id id;
    memcpy(id.bytes, peer->incarnation, sizeof id.bytes);
    drop_early(agent, peer->incarnation);
    struct member *member = agent_find_member(agent, peer->incarnation);
    if (member)
        agent_lost_member(agent, member, reason);
    if (is_over(agent))
        return;
    if (membership_peer_down(agent->membership, &id, mst_now_ns(), &err) < 0)
        agent_fail(agent, MST_EXIT_FAILED, true, "%s", err.text);
    if (agent->known.count > DISCOVERY_WORKERS_MAX / 2) /* many restarts: room for those to come */
        (void)discovery_workers_remove(&agent->known, peer->incarnation);
}

/* Others hold a view that will take this worker in. */
static void prepare_job(struct agent *agent)
{
    struct mst_error err = MST_ERROR_INIT;
    const struct job *job = &agent->job;
    if (agent->state == AGENT_FORMING && job->kind->prepare && job->kind->prepare(job->state, &err) < 0)
        agent_fail(agent, MST_EXIT_FAILED, true, "%s", err.text);
}

static int membership_frame(struct agent *agent, const struct discovery_identity *from,
                            enum control_type type, const uint8_t *payload, size_t count,
                            struct mst_error *err)
{
    mst_cleanup(control_membership_release) struct control_membership membership = {0};
    struct membership_id id;
    const int r = control_unpack_membership(type, payload, count, &membership, err);
    if (r < 0 || is_over(agent))
        return r;
    if (membership.message.leaving)
        agent_note_leaving(agent, from->incarnation);
    if (type == CONTROL_HOLD)
        prepare_job(agent);
    memcpy(id.bytes, from->incarnation, sizeof id.bytes);
    const int received = membership_receive(agent->membership, &id, &membership.message, mst_now_ns(), err);
    if (received == 0 || received == -EPROTO)
        return received;
    /* A full disk, no memory: no fault of whoever sent it, who would be dropped, and lost to this view. */
    agent_fail(agent, MST_EXIT_FAILED, true, "%s", err->text);
    return 0;
}

static int done_frame(struct agent *agent, const struct discovery_identity *from, const uint8_t *payload,
                      size_t count, struct mst_error *err)
{
    struct control_done done;
    struct member *member = agent_find_member(agent, from->incarnation);
    const int r = control_unpack_done(payload, count, &done, err);
    if (r < 0)
        return r;
    if (!member || done.view != agent->view)
        return 0; /* of a view that is not ours any more, or not yet: it is said again in the next */
    member->done = true;
    member->result = done;
    if (agent->members[agent->rank].done)
        agent_check_all_done(agent);
    return 0;
}

static int text_frame(struct agent *agent, const struct discovery_identity *from, enum control_type type,
                      const uint8_t *payload, size_t count, struct mst_error *err)
{
    uint64_t view;
    char text[CONTROL_TEXT_BYTES];
    struct member *member = agent_find_member(agent, from->incarnation);
    const int r = control_unpack_text(payload, count, &view, text, err);
    if (r < 0)
        return r;
    if (type == CONTROL_ABORT && member)
        agent_lost_member(agent, member, text); /* now, while it is known why */
    else if (type == CONTROL_NOTICE)
        memcpy(agent->notice, text, sizeof agent->notice);
    else if (type == CONTROL_REFUSED && agent->state == AGENT_FORMING)
        agent_fail(agent, MST_EXIT_FAILED, false, "%s", text);
    return 0;
}

/* Who says BYE knows that all its view's workers are done, and so are we if we are one of them. */
static void bye_frame(struct agent *agent, const struct discovery_identity *from)
{
    struct member *member = agent_find_member(agent, from->incarnation);
    if (member)
        member->gone = true;
    if (agent->state == AGENT_FAREWELL || agent->state == AGENT_ENDED)
        return;
    if (member && agent->members[agent->rank].done)
        agent_note_all_done(agent);
    else if (agent->state != AGENT_RUNNING)
        agent_end(agent, MST_EXIT_DONE, "dismissed", "the job was finished without this worker");
}

static int frame(void *context, const struct discovery_identity *from, uint16_t type, const uint8_t *payload,
                 size_t count, struct mst_error *err)
{
    struct agent *agent = context;
    struct control_heartbeat heartbeat;
    struct member *member = agent_find_member(agent, from->incarnation);
    if (member)
        member->heard_ns = mst_now_ns();
    switch (type) {
    case CONTROL_HEARTBEAT:
        return control_unpack_heartbeat(payload, count, &heartbeat, err);
    case CONTROL_PROPOSE:
    case CONTROL_COMMIT:
    case CONTROL_HOLD:
        return membership_frame(agent, from, type, payload, count, err);
    case CONTROL_DONE:
        return done_frame(agent, from, payload, count, err);
    case CONTROL_ABORT:
    case CONTROL_REFUSED:
    case CONTROL_NOTICE:
        return text_frame(agent, from, type, payload, count, err);
    case CONTROL_BYE:
        bye_frame(agent, from);
        return 0;
    default:
        return mst_error_set(err, -EPROTO, "a control frame of unknown type %u", type);
    }
}

/* A connection for a view that is not committed here yet waits for it. Whoever dials again has given up the
 * one before. */
static void keep_early(struct agent *agent, const struct discovery_identity *from, int fd)
{
    drop_early(agent, from->incarnation);
    if (agent->pending_count < agent->config->workers_max)
        agent->pending[agent->pending_count++] = (struct pending_data){.from = *from, .fd = fd};
    else
        mst_closep(&fd);
}

static void data_arrived(void *context, const struct discovery_identity *from, int fd)
{
    struct agent *agent = context;
    const bool early =
        from->view > agent->view &&
        (agent->state == AGENT_FORMING || agent->state == AGENT_CHANGING || agent->state == AGENT_RUNNING);
    if (early)
        keep_early(agent, from, fd);
    else
        agent_give_data(agent, from, fd);
}

static uint16_t frame_type(enum membership_kind kind)
{
    switch (kind) {
    case MEMBERSHIP_PROPOSE:
        return CONTROL_PROPOSE;
    case MEMBERSHIP_COMMIT:
        return CONTROL_COMMIT;
    case MEMBERSHIP_HOLD:
        break;
    }
    return CONTROL_HOLD;
}

static void send_membership(void *context, const struct membership_id *to,
                            const struct membership_message *message)
{
    struct agent *agent = context;
    struct mst_error err = MST_ERROR_INIT;
    mst_cleanup(mst_buf_release) struct mst_buf payload = MST_BUF_INIT(DISCOVERY_FRAME_MAX_BYTES);
    int r = control_pack_membership(&payload, message);
    if (r == 0)
        r = mesh_send(agent->mesh, to->bytes, frame_type(message->kind), &payload, &err);
    if (r < 0) /* the connection is on its way down, and its end is told to the state machine */
        mst_log_debug("agent", "membership message not sent: %s", err.text);
}

static int save_vow(void *context, const struct membership_vow *vow, struct mst_error *err)
{
    struct agent *agent = context;
    if (!agent->config->state)
        return 0; /* said at the start */
    return vow_write(agent->config->state, agent->station.self.identity.job_key, vow, err);
}

static void refuse(void *context, const struct membership_id *peer, bool full)
{
    struct agent *agent = context;
    struct mst_error err = MST_ERROR_INIT;
    char text[CONTROL_TEXT_BYTES];
    mst_cleanup(mst_buf_release) struct mst_buf payload = MST_BUF_INIT(CONTROL_TEXT_BYTES + 8);
    const struct discovery_identity *identity = discovery_workers_find(&agent->known, peer->bytes);
    if (full)
        (void)snprintf(text, sizeof text,
                       "%s runs view %" PRIu64 " with %zu workers already: there is no place left",
                       agent->station.slot, agent->view, agent->world);
    else
        (void)snprintf(text, sizeof text, "view %" PRIu64 " has a worker of the name %.100s already",
                       agent->view, identity ? identity->slot : "?");
    int r = control_pack_text(&payload, agent->view, text);
    if (r == 0)
        r = mesh_send(agent->mesh, peer->bytes, full ? CONTROL_REFUSED : CONTROL_NOTICE, &payload, &err);
    if (r < 0)
        mst_log_debug("agent", "refusal not sent: %s", err.text);
}

static void launch_arrived(void *context, const struct discovery_session *session, int fd)
{
    struct agent *agent = context;
    agent->work->launch(agent->work->context, session, fd);
}

struct mesh_callbacks agent_mesh_callbacks(struct agent *agent)
{
    return (struct mesh_callbacks){.context = agent,
                                   .seen = seen,
                                   .peer_up = peer_up,
                                   .peer_down = peer_down,
                                   .frame = frame,
                                   .data = data_arrived,
                                   .launch = agent->work->launch ? launch_arrived : NULL};
}

struct membership_callbacks agent_membership_callbacks(struct agent *agent)
{
    return (struct membership_callbacks){
        .context = agent,
        .send = send_membership,
        .save_vow = save_vow,
        .stop = agent_stop_job,
        .committed = agent_view_committed,
        .left = agent_has_left,
        .refuse = refuse,
    };
}
