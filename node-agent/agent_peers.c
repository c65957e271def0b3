/* SPDX-License-Identifier: Apache-2.0 */
#include "agent_state.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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
        search_set_wanted(agent->search, agent_wants_search(agent));
    mesh_set_dialling(agent->mesh, agent_wants_search(agent));
}

struct membership_worker agent_as_worker(const struct discovery_identity *identity)
{
    struct membership_worker worker = {.ipv4 = identity->ipv4, .port = identity->port};
    memcpy(worker.id.bytes, identity->incarnation, sizeof worker.id.bytes);
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

static void peer_down(void *context, const struct discovery_identity *peer, const char *reason)
{
    struct agent *agent = context;
    struct mst_error err = MST_ERROR_INIT;
    struct membership_id id;
    memcpy(id.bytes, peer->incarnation, sizeof id.bytes);
    if (membership_peer_down(agent->membership, &id, mst_now_ns(), &err) < 0)
        agent_fail(agent, MST_EXIT_FAILED, true, "%s", err.text);
    struct member *member = agent_find_member(agent, peer->incarnation);
    if (!member)
        return;
    const bool said_bye = member->gone;
    member->gone = true;
    if (agent->state != AGENT_RUNNING || said_bye)
        return;
    char address[MST_IPV4_TEXT_BYTES];
    uint64_t step = 0;
    uint32_t epoch = 0;
    runner_progress(agent->runner, &step, &epoch);
    agent_fail(agent, MST_EXIT_FAILED, true,
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
    if (agent->view > 0 && !agent_find_member(agent, from->incarnation)) {
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
    struct member *member = agent_find_member(agent, from->incarnation);
    const int r = control_unpack_done(payload, count, &done, err);
    if (r < 0)
        return r;
    if (!member || done.view != agent->view)
        return mst_error_set(err, -EPROTO, "done with view %" PRIu64 ", which is not this worker's",
                             done.view);
    member->done = true;
    member->result = done;
    if (agent->members[agent->rank].done)
        agent_check_all_done(agent);
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
        /* An abort is passed on: else a third worker may see this one's connection end before it has read the
         * reason from the first. */
        agent_fail(agent, MST_EXIT_FAILED, type == CONTROL_ABORT, "%s", text);
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
        member = agent_find_member(agent, from->incarnation);
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
        agent_give_data(agent, from, fd);
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

struct mesh_callbacks agent_mesh_callbacks(struct agent *agent)
{
    return (struct mesh_callbacks){.context = agent,
                                   .seen = seen,
                                   .peer_up = peer_up,
                                   .peer_down = peer_down,
                                   .frame = frame,
                                   .data = data_arrived};
}

struct membership_callbacks agent_membership_callbacks(struct agent *agent)
{
    return (struct membership_callbacks){
        .context = agent, .send = send_membership, .committed = agent_view_committed};
}
