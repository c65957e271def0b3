/* SPDX-License-Identifier: Apache-2.0 */
/* One connection of the mesh: connect, hello, control frames, end. */
#include "mesh_private.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/log.h"
#include "muster/net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define OUT_MAX_BYTES ((size_t)4 << 20)
/* What one link may read and write in a turn of the loop, so that a busy one does not make the others'
 * heartbeats late. */
#define READS_A_TURN       16
#define READ_BYTES         16384
#define WRITE_BYTES_A_TURN ((size_t)256 << 10)
#define LAST_TURNS         4 /* for the last words of a peer that takes nothing any more: 1 MiB */
/* What every path for IPv4 takes (RFC 791: 576 bytes, headers included), whatever the interface's MTU says:
 * an overlay on a tunnel may lose larger packets without a word. There is little to send on these. */
#define CONTROL_SEGMENT_BYTES 536
/* A frame has to be whole in this time. Its bytes count as a sign of life before its MAC can be checked, so
 * there must be an end to that. */
#define FRAME_NS (10 * MST_NS_PER_S)
/* The kernel's own limit on unacknowledged bytes is for sockets that nobody looks at any more. A peer that
 * only reads slowly has a closed window, which the kernel counts like a dead one: silence decides, not this.
 */
#define KERNEL_GIVES_UP(silence_ns) ((unsigned)(3 * (silence_ns) / MST_NS_PER_MS))

struct link *link_find_control(const struct mesh *mesh, const uint8_t *incarnation)
{
    for (struct link *link = mesh->links; link; link = link->next)
        if (link->stage == LINK_CONTROL && !link->fault[0] &&
            memcmp(link->peer.incarnation, incarnation, DISCOVERY_INCARNATION_BYTES) == 0)
            return link;
    return NULL;
}

struct link *link_new(struct mesh *mesh, int fd, uint32_t ipv4, uint16_t port)
{
    struct link *link = calloc(1, sizeof *link);
    if (!link)
        return NULL;
    link->mesh = mesh;
    link->fd = fd;
    link->ipv4 = ipv4;
    link->port = port;
    link->deadline_ns = mst_now_ns() + DISCOVERY_HELLO_MS * MST_NS_PER_MS;
    link->out = (struct mst_buf)MST_BUF_INIT(OUT_MAX_BYTES);
    link->next = mesh->links;
    mesh->links = link;
    return link;
}

void link_close(struct link *link)
{
    if (link->stage == LINK_CLOSED)
        return;
    loop_remove(link->mesh->options.loop, link->fd);
    mst_closep(&link->fd);
    discovery_hello_release(&link->hello);
    link->stage = LINK_CLOSED;
}

void link_free(struct link *link)
{
    link_close(link);
    discovery_frames_release(&link->frames);
    mst_buf_release(&link->out);
    free(link);
}

void link_lost(struct link *link, const char *reason)
{
    const enum link_stage stage = link->stage;
    struct mesh *mesh = link->mesh;
    link_close(link);
    if (stage == LINK_CONTROL) {
        mesh_host_failed(mesh, link->peer.ipv4, link->peer.port, reason);
        struct host *host = hosts_find(&mesh->hosts, link->peer.ipv4, link->peer.port);
        if (host && link->peer.role == DISCOVERY_ROLE_WORKER &&
            mesh->options.self->identity.role == DISCOVERY_ROLE_WORKER)
            hosts_keep(host, mst_now_ns());
        mesh->callbacks.peer_down(mesh->callbacks.context, &link->peer, reason);
    } else if (stage != LINK_CLOSED && link->dialer) {
        mesh_host_failed(mesh, link->ipv4, link->port, reason);
    } else if (stage != LINK_CLOSED) {
        mst_log_debug("mesh", "connection from elsewhere refused: %s", reason);
    }
}

/* ---- hello ---- */

void link_dial(struct mesh *mesh, uint32_t ipv4, uint16_t port, enum discovery_purpose purpose)
{
    struct mst_error err = MST_ERROR_INIT;
    struct host *host = hosts_find(&mesh->hosts, ipv4, port);
    int fd = -1;
    struct link *link = NULL;
    int r = mst_tcp_connect_start_within(ipv4, port, CONTROL_SEGMENT_BYTES, &fd, &err);
    if (r == 0)
        link = link_new(mesh, fd, ipv4, port);
    if (!link) {
        mst_closep(&fd);
        mesh_host_failed(mesh, ipv4, port, r < 0 ? err.text : "no memory for a connection");
        return;
    }
    link->dialer = true;
    link->purpose = purpose;
    link->stage = LINK_CONNECTING;
    link->key_index = host ? host->key_index % mesh->options.self->key_count : 0;
    r = discovery_hello_dialer_with(&link->hello, mesh->options.self, link->key_index, purpose, ipv4, port,
                                    &err);
    if (r == 0)
        r = loop_add(mesh->options.loop, fd, EPOLLOUT, link_ready, link, &err);
    if (r < 0)
        link_lost(link, err.text);
    else if (host)
        host->dialing = true;
}

static void start_control(struct link *link)
{
    struct mesh *mesh = link->mesh;
    struct mst_error err = MST_ERROR_INIT;
    struct link *older = link_find_control(mesh, link->hello.session.peer.incarnation);
    if (older)
        link_lost(older, "it connected anew"); /* it would not, if the old connection still stood for it */

    int r = discovery_frames_init(&link->frames, &link->hello.session, &err);
    if (r == 0)
        r = mst_tcp_tune(link->fd, KERNEL_GIVES_UP(mesh->options.silence_ns), &err);
    if (r == 0)
        r = loop_change(mesh->options.loop, link->fd, EPOLLIN, &err);
    if (r < 0) {
        link_lost(link, err.text);
        return;
    }
    link->peer = link->hello.session.peer;
    link->stage = LINK_CONTROL;
    link->heard_ns = mst_now_ns();
    link->number = ++mesh->control_ups;
    discovery_hello_release(&link->hello);
    tell_later(mesh, link->heard_ns);
    mesh->callbacks.peer_up(mesh->callbacks.context, &link->peer);
}

/* What follows is another's: the socket leaves the mesh. */
static int take_out(struct link *link)
{
    const int fd = link->fd;
    loop_remove(link->mesh->options.loop, fd);
    link->fd = -1;
    return fd;
}

static void hand_launch_on(struct link *link)
{
    struct mesh *mesh = link->mesh;
    struct discovery_session session = link->hello.session;
    const int fd = take_out(link);
    link_close(link);
    mesh->callbacks.launch(mesh->callbacks.context, &session, fd);
    mst_forget(&session, sizeof session);
}

static void finish_hello(struct link *link)
{
    struct mesh *mesh = link->mesh;
    const struct discovery_identity peer = link->hello.session.peer;
    const enum discovery_purpose purpose = link->hello.session.purpose;
    /* Where we dialled, which need not be where the peer says it is: a service's virtual address leads to
     * one. */
    struct host *host = link->dialer ? hosts_find(&mesh->hosts, link->ipv4, link->port) : NULL;
    if (host) {
        host->dialing = false;
        host->key_index = link->key_index;
        hosts_succeeded(host);
    }
    if (peer.role == DISCOVERY_ROLE_LAUNCH) {
        hand_launch_on(link); /* accepted by mesh_listener.c: nobody dials to one */
        return;
    }
    if (purpose == DISCOVERY_PURPOSE_CONTROL) {
        start_control(link);
    } else if (purpose == DISCOVERY_PURPOSE_DATA && mesh->callbacks.data) {
        const int fd = take_out(link);
        link_close(link);
        mesh->callbacks.data(mesh->callbacks.context, &peer, fd);
        return;
    } else {
        link_close(link);
    }
    mesh_meet(mesh, &peer);
}

static void fail_hello(struct link *link, const struct mst_error *err)
{
    /* The reason alone where there is one: the address stands in front of it already. */
    const enum discovery_reason reason = link->hello.reason;
    const bool other_key = link->dialer && reason == DISCOVERY_REASON_KEY &&
                           link->key_index + 1 < link->mesh->options.self->key_count;
    link_lost(link, reason != DISCOVERY_REASON_NONE ? discovery_reason_text(reason) : err->text);
    struct host *host = hosts_find(&link->mesh->hosts, link->ipv4, link->port);
    if (host && link->dialer && reason == DISCOVERY_REASON_KEY)
        host->key_index = other_key ? link->key_index + 1 : 0;
    if (host && other_key)
        host->retry_ns = 0; /* at once */
    if (host && link->dialer && reason == DISCOVERY_REASON_SELF)
        host->reason[0] = '\0'; /* an address of ours: no stranger to speak of */
}

static void run_hello(struct link *link, uint32_t events)
{
    struct mst_error err = MST_ERROR_INIT;
    if (link->stage == LINK_CONNECTING) {
        const int r = mst_tcp_connect_result(link->fd);
        if (r < 0) {
            char reason[HOSTS_REASON_BYTES];
            link_lost(link, strerror_r(-r, reason, sizeof reason));
            return;
        }
        if (!(events & EPOLLOUT))
            return;
        link->stage = LINK_HELLO;
    }
    int r = discovery_hello_io(&link->hello, link->fd, &err);
    if (r < 0) {
        fail_hello(link, &err);
        return;
    }
    if (r == DISCOVERY_HELLO_DONE) {
        finish_hello(link);
        return;
    }
    /* POLLIN and POLLOUT have the values of EPOLLIN and EPOLLOUT. */
    r = loop_change(link->mesh->options.loop, link->fd, (uint32_t)discovery_hello_events(&link->hello), &err);
    if (r < 0)
        link_lost(link, err.text);
}

/* ---- control frames ---- */

/* Write what the socket takes, within a turn's share. */
static int flush(struct link *link, struct mst_error *err)
{
    const size_t waiting = link->out.count - link->out_done;
    const size_t end = link->out_done + (waiting < WRITE_BYTES_A_TURN ? waiting : WRITE_BYTES_A_TURN);
    int r = 0;
    while (r == 0 && link->out_done < end) {
        const ssize_t sent =
            send(link->fd, link->out.bytes + link->out_done, end - link->out_done, MSG_NOSIGNAL);
        if (sent >= 0)
            link->out_done += (size_t)sent;
        else if (errno == EAGAIN)
            break;
        else if (errno != EINTR)
            r = mst_error_errno(err, -errno, "send");
    }
    /* Moving what is left only once it is the smaller part keeps a long queue from being moved for each
     * write. */
    if (link->out_done >= link->out.count - link->out_done) {
        mst_buf_consume(&link->out, link->out_done);
        link->out_done = 0;
    }
    const bool wants_write = link->out.count > link->out_done;
    if (r == 0 && wants_write != link->wants_write) {
        link->wants_write = wants_write;
        r = loop_change(link->mesh->options.loop, link->fd, wants_write ? EPOLLIN | EPOLLOUT : EPOLLIN, err);
    }
    return r;
}

/* Hand out every whole frame that is in. Callbacks may close the link. */
static int deliver_frames(struct link *link, struct mst_error *err)
{
    struct mesh *mesh = link->mesh;
    while (link->stage == LINK_CONTROL) {
        uint16_t type;
        const uint8_t *payload;
        size_t count;
        int r = discovery_frames_next(&link->frames, &type, &payload, &count, err);
        if (r <= 0)
            return r;
        if (type >= MESH_OWN_FRAMES)
            r = tell_receive(mesh, type, payload, count, err);
        else
            r = mesh->callbacks.frame(mesh->callbacks.context, &link->peer, type, payload, count, err);
        if (r < 0)
            return r;
        link->frame_since_ns = 0;
    }
    return 0;
}

static int receive_some(struct link *link, const char *bytes, size_t count, struct mst_error *err)
{
    size_t taken = 0;
    link->heard_ns = mst_now_ns();
    int r = discovery_frames_feed(&link->frames, bytes, count, &taken, err);
    if (r == 0 && taken != count)
        r = mst_error_set(err, -EBADMSG, "frame layer took %zu of %zu bytes", taken, count);
    if (r == 0)
        r = deliver_frames(link, err);
    const bool whole = discovery_frames_waiting(&link->frames) == 0;
    if (whole)
        link->frame_since_ns = 0;
    else if (link->frame_since_ns == 0)
        link->frame_since_ns = link->heard_ns;
    return r;
}

/* Read what is there, within a turn's share: 1 when there may be more, 0 when not. */
static int receive(struct link *link, struct mst_error *err)
{
    char bytes[READ_BYTES];
    for (int turn = 0; turn < READS_A_TURN && link->stage == LINK_CONTROL; turn++) {
        size_t room = discovery_frames_room(&link->frames);
        if (room > sizeof bytes)
            room = sizeof bytes;
        const ssize_t got = recv(link->fd, bytes, room, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return errno == EAGAIN ? 0 : mst_error_errno(err, -errno, "receive");
        if (got == 0)
            return mst_error_set(err, -EPIPE, "it closed the connection");
        const int r = receive_some(link, bytes, (size_t)got, err);
        if (r < 0)
            return r;
    }
    return 1;
}

void link_ready(void *context, uint32_t events)
{
    struct link *link = context;
    if (link->stage == LINK_CLOSED)
        return;
    if (link->stage != LINK_CONTROL) {
        run_hello(link, events);
        return;
    }
    struct mst_error err = MST_ERROR_INIT;
    /* Reading comes first: a peer that has closed may have said why. */
    int r = 0;
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        r = receive(link, &err);
    if (r >= 0 && link->stage == LINK_CONTROL && (events & EPOLLOUT) && !link->fault[0])
        r = flush(link, &err);
    if (r < 0)
        link_lost(link, err.text);
}

int link_send(struct link *link, uint16_t type, const void *payload, size_t count, struct mst_error *err)
{
    struct mst_error fault = MST_ERROR_INIT;
    int r = discovery_frames_pack(&link->frames, type, payload, count, &link->out, &fault);
    if (r == -EFBIG)
        r = mst_error_set(&fault, -ENOBUFS, "it has not taken %zu bytes that are queued for it",
                          link->out.count - link->out_done);
    if (r == 0 && !link->wants_write)
        r = flush(link, &fault);
    if (r == 0)
        return 0;
    /* Not here and now: the caller may be in the middle of something that peer_down() would change. */
    (void)snprintf(link->fault, sizeof link->fault, "%s", fault.text);
    return mst_error_set(err, r, "%s", fault.text);
}

/* ---- time ---- */

uint64_t link_deadline_ns(const struct link *link)
{
    if (link->stage == LINK_CLOSED || link->fault[0])
        return 0;
    if (link->stage != LINK_CONTROL)
        return link->deadline_ns;
    const uint64_t silent_ns = link->heard_ns + link->mesh->options.silence_ns;
    const uint64_t whole_ns = link->frame_since_ns > 0 ? link->frame_since_ns + FRAME_NS : UINT64_MAX;
    return silent_ns < whole_ns ? silent_ns : whole_ns;
}

/* A fault in sending. What the peer sent before is still good, and may be its reason; but it may also go on
 * and on. */
static void end_faulty(struct link *link)
{
    struct mst_error err = MST_ERROR_INIT;
    int r = 1;
    for (int turn = 0; turn < LAST_TURNS && r == 1 && link->stage == LINK_CONTROL; turn++)
        r = receive(link, &err);
    if (link->stage == LINK_CONTROL)
        link_lost(link, r < 0 ? err.text : link->fault);
}

static void tick_control(struct link *link, uint64_t now_ns)
{
    struct mst_error err = MST_ERROR_INIT;
    char reason[HOSTS_REASON_BYTES];
    if (link->fault[0]) {
        end_faulty(link);
        return;
    }
    if (now_ns < link_deadline_ns(link))
        return;
    /* If it was this process that had no time, the peer's bytes have come and wait to be read. */
    const int r = receive(link, &err);
    if (link->stage != LINK_CONTROL || (r >= 0 && now_ns < link_deadline_ns(link)))
        return;
    if (r < 0)
        (void)snprintf(reason, sizeof reason, "%s", err.text);
    else if (now_ns >= link->heard_ns + link->mesh->options.silence_ns)
        (void)snprintf(reason, sizeof reason, "no sign of life for %.1f s",
                       (double)(now_ns - link->heard_ns) / 1e9);
    else
        (void)snprintf(reason, sizeof reason, "a frame was not whole after %.0f s", (double)FRAME_NS / 1e9);
    link_lost(link, reason);
}

static void tick_hello(struct link *link, uint64_t now_ns)
{
    char reason[HOSTS_REASON_BYTES];
    if (now_ns < link->deadline_ns)
        return;
    if (link->stage == LINK_HELLO)
        run_hello(link, 0); /* as above: it may be here already */
    if (link->stage != LINK_CONNECTING && link->stage != LINK_HELLO)
        return;
    (void)snprintf(reason, sizeof reason, "%s in %d ms",
                   link->stage == LINK_CONNECTING ? "no answer" : "connected, but no hello",
                   DISCOVERY_HELLO_MS);
    link_lost(link, reason);
}

void link_tick(struct link *link, uint64_t now_ns)
{
    if (link->stage == LINK_CONTROL)
        tick_control(link, now_ns);
    else if (link->stage != LINK_CLOSED)
        tick_hello(link, now_ns);
}
