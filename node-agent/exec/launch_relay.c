/* SPDX-License-Identifier: Apache-2.0 */
/* From `rsh` to the agent of another worker: read what is asked for, dial, say hello, and then pass frames on
 * in both directions. The streams' windows bound what can be queued here; a side that goes beyond is dropped.
 */
#include "bytes.h"
#include "launch_private.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/log.h"
#include "muster/net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define SILENCE_MS 10000 /* that the kernel waits for unacknowledged bytes */
#define READS      16    /* a turn and side */
#define AGAIN_NS   (50 * MST_NS_PER_MS)

enum relay_stage {
    RELAY_OPENING, /* the request is awaited */
    RELAY_PAUSING, /* the agent there was busy: it is asked again */
    RELAY_CONNECTING,
    RELAY_HELLO,
    RELAY_PASSING,
    RELAY_ENDING, /* the last words go to the client */
    RELAY_CLOSED,
};

struct relay {
    struct exec_launch *launch;
    struct relay *next;
    enum relay_stage stage;
    struct launch_channel client, remote;
    struct launch_watch client_watch, remote_watch;
    struct exec_member member; /* that was asked for */
    uint8_t incarnation[DISCOVERY_INCARNATION_BYTES];
    struct mst_buf command; /* the OPEN frame for the agent there */
    struct discovery_hello hello;
    size_t key_index;
    uint64_t deadline_ns; /* of the stages up to PASSING together, and of ENDING */
    uint64_t again_ns;    /* PAUSING */
};

static void client_ready(void *context, uint32_t events);
static void remote_ready(void *context, uint32_t events);

static void relay_close(struct relay *relay)
{
    launch_watch_end(relay->launch, &relay->client_watch);
    launch_watch_end(relay->launch, &relay->remote_watch);
    discovery_hello_release(&relay->hello);
    launch_channel_release(&relay->client);
    launch_channel_release(&relay->remote);
    relay->stage = RELAY_CLOSED;
}

/* What is awaited of each side follows from the stage and from what is queued. */
static void update(struct relay *relay)
{
    struct mst_error err = MST_ERROR_INIT;
    if (relay->stage == RELAY_CLOSED)
        return;
    const bool passing = relay->stage == RELAY_PASSING;
    uint32_t client = relay->client.out.count > 0 ? EPOLLOUT : 0, remote = 0;
    /* While it is dialled the client is listened to for its end alone; a signal may wait in its socket. */
    client |= relay->stage == RELAY_OPENING || passing ? EPOLLIN : EPOLLRDHUP;
    if (passing)
        remote = relay->remote.out.count > 0 ? EPOLLIN | EPOLLOUT : EPOLLIN;
    if (relay->stage == RELAY_CONNECTING)
        remote = EPOLLOUT;
    if (relay->stage == RELAY_HELLO) /* POLLIN and POLLOUT have the values of EPOLLIN and EPOLLOUT */
        remote = (uint32_t)discovery_hello_events(&relay->hello);
    int r = launch_watch_set(relay->launch, &relay->client_watch, relay->client.fd, client, client_ready,
                             relay, &err);
    if (r == 0)
        r = launch_watch_set(relay->launch, &relay->remote_watch, relay->remote.fd, remote, remote_ready,
                             relay, &err);
    if (r < 0) {
        mst_log_warn("launch", "%s", err.text);
        relay_close(relay);
    }
}

static void end_soon(struct relay *relay)
{
    launch_watch_end(relay->launch, &relay->remote_watch);
    discovery_hello_release(&relay->hello);
    launch_channel_release(&relay->remote);
    relay->stage = RELAY_ENDING;
    relay->deadline_ns = mst_now_ns() + LAUNCH_END_MS * MST_NS_PER_MS;
    if (launch_channel_flush(&relay->client, NULL) < 0 || relay->client.out.count == 0)
        relay_close(relay);
}

/* Tell the client why it gets nothing (more). */
static void refuse(struct relay *relay, const char *text)
{
    char line[MST_ERROR_TEXT_BYTES];
    char address[MST_IPV4_TEXT_BYTES];
    if (relay->member.ipv4 != 0)
        (void)snprintf(line, sizeof line, "%s at %s: %.800s", relay->member.slot,
                       mst_ipv4_text(relay->member.ipv4, address), text);
    else
        (void)snprintf(line, sizeof line, "%.1000s", text);
    mst_log_debug("launch", "%s", line);
    if (launch_channel_send(&relay->client, LAUNCH_ERROR, line, strlen(line), NULL) < 0)
        relay_close(relay);
    else
        end_soon(relay);
}

/* ---- passing on ---- */

/* Frames of one side to the other: those that are in already, and what can be read. 1: the last one was
 * passed on. */
static int pass(struct launch_channel *from, struct launch_channel *to, bool asks, struct mst_error *err)
{
    for (int turn = 0;; turn++) {
        enum launch_frame type;
        const uint8_t *payload;
        size_t count;
        int r;
        while ((r = launch_channel_next(from, &type, &payload, &count, err)) == 1) {
            if (type == LAUNCH_OPEN || !launch_frame_is_fit(asks, type, payload, count))
                return mst_error_set(err, -EBADMSG, "a frame of type %d that cannot be", (int)type);
            r = launch_channel_send(to, type, payload, count, err);
            if (r < 0)
                return r;
            if (type == LAUNCH_EXIT || type == LAUNCH_ERROR)
                return 1;
        }
        if (r == 0 && turn < READS)
            r = launch_channel_read(from, err);
        if (r <= 0)
            return r;
    }
}

/* ---- the agent there ---- */

static void dial(struct relay *relay)
{
    struct mst_error err = MST_ERROR_INIT;
    int fd = -1;
    int r = mst_tcp_connect_start(relay->member.ipv4, relay->member.agent_port, &fd, &err);
    if (r == 0) {
        launch_channel_init(&relay->remote, fd);
        relay->stage = RELAY_CONNECTING;
        r = discovery_hello_dialer_with(&relay->hello, &relay->launch->self, relay->key_index,
                                        DISCOVERY_PURPOSE_CONTROL, relay->member.ipv4,
                                        relay->member.agent_port, &err);
    }
    if (r < 0)
        refuse(relay, err.text);
}

static void hello_failed(struct relay *relay, const struct mst_error *err)
{
    const enum discovery_reason reason = relay->hello.reason;
    launch_watch_end(relay->launch, &relay->remote_watch);
    discovery_hello_release(&relay->hello);
    launch_channel_release(&relay->remote);
    if (reason == DISCOVERY_REASON_KEY && relay->key_index + 1 < relay->launch->self.key_count) {
        relay->key_index++;
        dial(relay);
    } else if (discovery_reason_may_pass(reason)) {
        relay->stage = RELAY_PAUSING;
        relay->again_ns = mst_now_ns() + AGAIN_NS;
    } else {
        refuse(relay, reason != DISCOVERY_REASON_NONE ? discovery_reason_text(reason) : err->text);
    }
}

static void begin_passing(struct relay *relay)
{
    struct mst_error err = MST_ERROR_INIT;
    const struct discovery_session *session = &relay->hello.session;
    /* A service's virtual address may lead elsewhere. */
    if (memcmp(session->peer.incarnation, relay->incarnation, sizeof relay->incarnation) != 0) {
        refuse(relay, "another worker answers there");
        return;
    }
    int r = launch_channel_seal(&relay->remote, session, &err);
    if (r == 0)
        r = mst_tcp_tune(relay->remote.fd, SILENCE_MS, &err);
    if (r == 0)
        r = launch_channel_send(&relay->remote, LAUNCH_OPEN, relay->command.bytes, relay->command.count,
                                &err);
    if (r == 0) /* and what the client has said meanwhile */
        r = pass(&relay->client, &relay->remote, true, &err);
    if (r == 0)
        r = launch_channel_flush(&relay->remote, &err);
    discovery_hello_release(&relay->hello);
    if (r < 0) {
        refuse(relay, err.text);
        return;
    }
    relay->stage = RELAY_PASSING;
    relay->deadline_ns = UINT64_MAX;
}

static void run_hello(struct relay *relay, uint32_t events)
{
    struct mst_error err = MST_ERROR_INIT;
    if (relay->stage == RELAY_CONNECTING) {
        const int r = mst_tcp_connect_result(relay->remote.fd);
        if (r < 0) {
            refuse(relay, strerrordesc_np(-r));
            return;
        }
        if (!(events & EPOLLOUT))
            return;
        relay->stage = RELAY_HELLO;
    }
    const int r = discovery_hello_io(&relay->hello, relay->remote.fd, &err);
    if (r < 0)
        hello_failed(relay, &err);
    else if (r == DISCOVERY_HELLO_DONE)
        begin_passing(relay);
}

static void remote_ready(void *context, uint32_t events)
{
    struct relay *relay = context;
    struct mst_error err = MST_ERROR_INIT;
    if (relay->stage == RELAY_CONNECTING || relay->stage == RELAY_HELLO) {
        run_hello(relay, events);
    } else if (relay->stage == RELAY_PASSING) {
        int r = events & EPOLLOUT ? launch_channel_flush(&relay->remote, &err) : 0;
        if (r == 0 && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
            r = pass(&relay->remote, &relay->client, false, &err);
        if (r < 0)
            refuse(relay, err.text);
        else if (r == 1)
            end_soon(relay);
        else if (launch_channel_flush(&relay->client, NULL) < 0)
            relay_close(relay);
    }
    update(relay);
}

/* ---- the client ---- */

static void take_request(struct relay *relay, const uint8_t *payload, size_t count)
{
    struct mst_error err = MST_ERROR_INIT;
    char host[LAUNCH_HOST_BYTES];
    const struct exec_record *member;
    struct bytes_cursor cursor = {payload, count, false};
    bytes_take_text(&cursor, host, sizeof host);
    int r = launch_find_host(relay->launch, host, &member, &err);
    if (r == 0 && (bytes_put(&relay->command, 0, 1) < 0 ||
                   mst_buf_append(&relay->command, cursor.next, cursor.left) < 0))
        r = mst_error_set(&err, -ENOMEM, "no memory");
    if (r < 0) {
        refuse(relay, err.text);
        return;
    }
    relay->member = member->member;
    memcpy(relay->incarnation, member->incarnation, sizeof relay->incarnation);
    dial(relay);
}

static int read_request(struct relay *relay, struct mst_error *err)
{
    enum launch_frame type;
    const uint8_t *payload;
    size_t count;
    int r = launch_channel_read(&relay->client, err);
    if (r == 1)
        r = launch_channel_next(&relay->client, &type, &payload, &count, err);
    if (r != 1)
        return r;
    if (type != LAUNCH_OPEN || !launch_frame_is_fit(true, type, payload, count))
        return mst_error_set(err, -EBADMSG, "a frame of type %d where a request belongs", (int)type);
    take_request(relay, payload, count);
    return 0;
}

static void client_ready(void *context, uint32_t events)
{
    struct relay *relay = context;
    struct mst_error err = MST_ERROR_INIT;
    int r = 0;
    if (events & EPOLLOUT)
        r = launch_channel_flush(&relay->client, &err);
    const bool over = r == 0 && relay->stage == RELAY_ENDING && relay->client.out.count == 0;
    const bool readable = (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0;
    if (r == 0 && readable && relay->stage == RELAY_OPENING)
        r = read_request(relay, &err);
    else if (r == 0 && readable && relay->stage == RELAY_PASSING)
        r = pass(&relay->client, &relay->remote, true, &err);
    else if (r == 0 && (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
        r = mst_error_set(&err, -EPIPE, "the connection was closed");
    if (r == 0 && relay->stage == RELAY_PASSING && launch_channel_flush(&relay->remote, &err) < 0)
        refuse(relay, err.text);
    if (r < 0 && r != -EPIPE)
        mst_log_warn("launch", "a request that makes no sense: %s", err.text);
    if (r < 0 || over) /* the agent there sees the end, too, and ends its program */
        relay_close(relay);
    update(relay);
}

/* ---- the owner's calls ---- */

void relay_begin(struct exec_launch *launch, int fd)
{
    struct relay *relay = calloc(1, sizeof *relay);
    if (!relay) {
        mst_closep(&fd);
        return;
    }
    relay->launch = launch;
    relay->client_watch.fd = relay->remote_watch.fd = -1;
    relay->command = (struct mst_buf)MST_BUF_INIT(LAUNCH_FRAME_BYTES);
    relay->deadline_ns = mst_now_ns() + LAUNCH_OPEN_MS * MST_NS_PER_MS;
    launch_channel_init(&relay->client, fd);
    launch_channel_init(&relay->remote, -1);
    relay->next = launch->relays;
    launch->relays = relay;
    launch->relay_count++;
    update(relay);
}

void relay_hang_up(struct exec_launch *launch, bool all)
{
    for (struct relay *relay = launch->relays; relay; relay = relay->next)
        if (all || (relay->member.ipv4 != 0 && !launch_is_member(launch, relay->incarnation)))
            relay_close(relay);
}

static void tick_one(struct relay *relay, uint64_t now_ns)
{
    if (relay->stage == RELAY_PAUSING && now_ns >= relay->again_ns)
        dial(relay);
    else if (relay->stage == RELAY_CLOSED || now_ns < relay->deadline_ns)
        return;
    else if (relay->stage == RELAY_ENDING || relay->stage == RELAY_OPENING)
        relay_close(relay);
    else
        refuse(relay, "no answer in time");
    update(relay);
}

void relay_tick(struct exec_launch *launch, uint64_t now_ns)
{
    for (struct relay *relay = launch->relays; relay; relay = relay->next)
        tick_one(relay, now_ns);
    for (struct relay **place = &launch->relays; *place;) {
        struct relay *relay = *place;
        if (relay->stage != RELAY_CLOSED) {
            place = &relay->next;
            continue;
        }
        *place = relay->next;
        launch->relay_count--;
        mst_buf_release(&relay->command);
        free(relay);
    }
}

uint64_t relay_deadline_ns(const struct exec_launch *launch)
{
    uint64_t deadline_ns = UINT64_MAX;
    for (const struct relay *relay = launch->relays; relay; relay = relay->next) {
        if (relay->stage == RELAY_CLOSED)
            return 0; /* to be freed */
        if (relay->deadline_ns < deadline_ns)
            deadline_ns = relay->deadline_ns;
        if (relay->stage == RELAY_PAUSING && relay->again_ns < deadline_ns)
            deadline_ns = relay->again_ns;
    }
    return deadline_ns;
}
