/* SPDX-License-Identifier: Apache-2.0 */
#include "mesh.h"

#include "hosts.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/log.h"
#include "muster/net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define MESH_BACKLOG       128
#define MESH_DIALS_MAX     128 /* hellos of ours under way at once */
#define MESH_OUT_MAX_BYTES ((size_t)4 << 20)
#define MESH_READS_A_TURN  32                    /* so that one busy peer does not starve the others */
#define MESH_DEAF_NS       (250 * MST_NS_PER_MS) /* for a descriptor to become free */

enum link_stage { LINK_CONNECTING, LINK_HELLO, LINK_CONTROL, LINK_CLOSED };

/* One connection. Closed ones stay in the list until mesh_tick(), so that a callback further up the stack may
 * still hold a pointer. */
struct link {
    struct mesh *mesh;
    struct link *next;
    int fd;
    enum link_stage stage;
    bool dialer;
    enum discovery_purpose purpose;
    uint32_t ipv4;
    uint16_t port;
    uint64_t deadline_ns; /* of the hello */
    struct discovery_hello hello;

    struct discovery_identity peer; /* from here on: LINK_CONTROL */
    struct discovery_frames frames;
    struct mst_buf out;
    bool wants_write;
    uint64_t heard_ns;
};

struct mesh {
    struct mesh_options options;
    struct mesh_callbacks callbacks;
    int listen_fd;
    uint64_t deaf_until_ns; /* the listener is not watched until then; 0: it is */
    bool dialling;
    struct hosts hosts;
    struct link *links; /* owned, newest first */
};

static void link_ready(void *context, uint32_t events);

/* ---- hosts ---- */

int mesh_learn(struct mesh *mesh, uint32_t ipv4, uint16_t port, struct mst_error *err)
{
    const struct discovery_identity *self = &mesh->options.self->identity;
    return ipv4 == self->ipv4 && port == self->port ? 0 : hosts_learn(&mesh->hosts, ipv4, port, err);
}

void mesh_set_dialling(struct mesh *mesh, bool on)
{
    mesh->dialling = on;
}

static void host_failed(struct mesh *mesh, uint32_t ipv4, uint16_t port, const char *reason)
{
    struct host *host = hosts_find(&mesh->hosts, ipv4, port);
    if (host)
        hosts_failed(host, reason, mst_now_ns());
}

/* ---- links ---- */

static struct link *find_control(const struct mesh *mesh, const uint8_t *incarnation)
{
    for (struct link *link = mesh->links; link; link = link->next)
        if (link->stage == LINK_CONTROL &&
            memcmp(link->peer.incarnation, incarnation, DISCOVERY_INCARNATION_BYTES) == 0)
            return link;
    return NULL;
}

static struct link *link_new(struct mesh *mesh, int fd, uint32_t ipv4, uint16_t port)
{
    struct link *link = calloc(1, sizeof *link);
    if (!link)
        return NULL;
    link->mesh = mesh;
    link->fd = fd;
    link->ipv4 = ipv4;
    link->port = port;
    link->deadline_ns = mst_now_ns() + DISCOVERY_HELLO_MS * MST_NS_PER_MS;
    link->out = (struct mst_buf)MST_BUF_INIT(MESH_OUT_MAX_BYTES);
    link->next = mesh->links;
    mesh->links = link;
    return link;
}

/* Let go of what the link holds but the struct itself. */
static void link_close(struct link *link)
{
    if (link->stage == LINK_CLOSED)
        return;
    loop_remove(link->mesh->options.loop, link->fd);
    mst_closep(&link->fd);
    discovery_hello_release(&link->hello);
    discovery_frames_release(&link->frames); /* keys may be in it before LINK_CONTROL is reached */
    mst_buf_release(&link->out);
    link->stage = LINK_CLOSED;
}

static void link_lost(struct link *link, const char *reason)
{
    const enum link_stage stage = link->stage;
    struct mesh *mesh = link->mesh;
    const struct discovery_identity peer = link->peer;
    link_close(link);
    if (stage == LINK_CONTROL) {
        host_failed(mesh, peer.ipv4, peer.port, reason);
        mesh->callbacks.peer_down(mesh->callbacks.context, &peer, reason);
    } else if (stage != LINK_CLOSED && link->dialer) {
        host_failed(mesh, link->ipv4, link->port, reason);
    } else if (stage != LINK_CLOSED) {
        mst_log_debug("mesh", "connection from elsewhere refused: %s", reason);
    }
}

static bool is_lower(const struct discovery_identity *a, const struct discovery_identity *b)
{
    return memcmp(a->incarnation, b->incarnation, sizeof a->incarnation) < 0;
}

/* Asked by the listener's side of a hello, once the dialer has proved that it knows the key. */
static enum discovery_reason judge(void *context, const struct discovery_session *session)
{
    const struct mesh *mesh = context;
    const struct discovery_identity *self = &mesh->options.self->identity;
    if (session->purpose == DISCOVERY_PURPOSE_HELLO)
        return DISCOVERY_REASON_NONE;
    if (session->peer.role != DISCOVERY_ROLE_WORKER)
        return DISCOVERY_REASON_ROLE;
    if (self->role == DISCOVERY_ROLE_COLLECTOR)
        return session->purpose == DISCOVERY_PURPOSE_CONTROL ? DISCOVERY_REASON_NONE : DISCOVERY_REASON_ROLE;
    if (memcmp(session->peer.job_key, self->job_key, sizeof self->job_key) != 0)
        return DISCOVERY_REASON_JOB;
    if (session->purpose == DISCOVERY_PURPOSE_CONTROL)
        return is_lower(&session->peer, self) ? DISCOVERY_REASON_NONE : DISCOVERY_REASON_ROLE;
    return mesh->callbacks.data && find_control(mesh, session->peer.incarnation) ? DISCOVERY_REASON_NONE
                                                                                 : DISCOVERY_REASON_BUSY;
}

static void dial(struct mesh *mesh, uint32_t ipv4, uint16_t port, enum discovery_purpose purpose)
{
    struct mst_error err = MST_ERROR_INIT;
    int fd = -1;
    struct link *link = NULL;
    int r = mst_tcp_connect_start(ipv4, port, &fd, &err);
    if (r == 0)
        link = link_new(mesh, fd, ipv4, port);
    if (!link) {
        mst_closep(&fd);
        host_failed(mesh, ipv4, port, r < 0 ? err.text : "no memory for a connection");
        return;
    }
    link->dialer = true;
    link->purpose = purpose;
    link->stage = LINK_CONNECTING;
    r = discovery_hello_dialer(&link->hello, mesh->options.self, purpose, ipv4, port, &err);
    if (r == 0)
        r = loop_add(mesh->options.loop, fd, EPOLLOUT, link_ready, link, &err);
    if (r < 0) {
        link_lost(link, err.text);
        return;
    }
    struct host *host = hosts_find(&mesh->hosts, ipv4, port);
    if (host)
        host->dialing = true;
}

/* Who it is, is known now: take it down, and dial a control connection if that is ours to do. */
static void meet(struct mesh *mesh, const struct discovery_identity *who)
{
    const struct discovery_identity *self = &mesh->options.self->identity;
    mesh->callbacks.seen(mesh->callbacks.context, who);
    if (who->ipv4 == 0 || who->role == DISCOVERY_ROLE_PROBE)
        return;
    if (mesh_learn(mesh, who->ipv4, who->port, NULL) < 0)
        return;
    struct host *host = hosts_find(&mesh->hosts, who->ipv4, who->port);
    if (!host)
        return; /* ourselves */
    hosts_succeeded(host);
    if (who->role != DISCOVERY_ROLE_WORKER || self->role != DISCOVERY_ROLE_WORKER)
        return;
    if (memcmp(who->job_key, self->job_key, sizeof self->job_key) != 0) {
        char reason[HOSTS_REASON_BYTES];
        (void)snprintf(reason, sizeof reason, "%s runs another job (model, data or settings differ)",
                       who->slot);
        hosts_failed(host, reason, mst_now_ns()); /* asked again: it may be replaced */
        return;
    }
    if (is_lower(self, who) && !host->dialing && !find_control(mesh, who->incarnation))
        dial(mesh, who->ipv4, who->port, DISCOVERY_PURPOSE_CONTROL);
}

static void start_control(struct link *link)
{
    struct mesh *mesh = link->mesh;
    struct mst_error err = MST_ERROR_INIT;
    struct link *older = find_control(mesh, link->hello.session.peer.incarnation);
    if (older)
        link_lost(older, "it connected anew"); /* it would not, if the old connection still stood for it */

    int r = discovery_frames_init(&link->frames, &link->hello.session, &err);
    if (r == 0)
        r = mst_tcp_tune(link->fd, (unsigned)(mesh->options.silence_ns / MST_NS_PER_MS), &err);
    if (r == 0)
        r = loop_change(mesh->options.loop, link->fd, EPOLLIN, &err);
    if (r < 0) {
        link_lost(link, err.text);
        return;
    }
    link->peer = link->hello.session.peer;
    link->stage = LINK_CONTROL;
    link->heard_ns = mst_now_ns();
    discovery_hello_release(&link->hello);
    mesh->callbacks.peer_up(mesh->callbacks.context, &link->peer);
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
        hosts_succeeded(host);
    }
    if (purpose == DISCOVERY_PURPOSE_CONTROL) {
        start_control(link);
    } else if (purpose == DISCOVERY_PURPOSE_DATA && mesh->callbacks.data) {
        const int fd = link->fd;
        loop_remove(mesh->options.loop, fd);
        link->fd = -1; /* the callee's now */
        link_close(link);
        mesh->callbacks.data(mesh->callbacks.context, &peer, fd);
        return;
    } else {
        link_close(link);
    }
    meet(mesh, &peer);
}

static void run_hello(struct link *link, uint32_t events)
{
    struct mst_error err = MST_ERROR_INIT;
    if (link->stage == LINK_CONNECTING) {
        int r = mst_tcp_connect_result(link->fd);
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
        /* The reason alone where there is one: the address stands in front of it already. */
        const enum discovery_reason reason = link->hello.reason;
        link_lost(link, reason != DISCOVERY_REASON_NONE ? discovery_reason_text(reason) : err.text);
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

static int flush(struct link *link, struct mst_error *err)
{
    size_t done = 0;
    int r = 0;
    while (r == 0 && done < link->out.count) {
        const ssize_t sent = send(link->fd, link->out.bytes + done, link->out.count - done, MSG_NOSIGNAL);
        if (sent >= 0)
            done += (size_t)sent;
        else if (errno == EAGAIN)
            break;
        else if (errno != EINTR)
            r = mst_error_errno(err, -errno, "send");
    }
    mst_buf_consume(&link->out, done);
    const bool wants_write = link->out.count > 0;
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
        link->heard_ns = mst_now_ns();
        r = mesh->callbacks.frame(mesh->callbacks.context, &link->peer, type, payload, count, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int receive(struct link *link, struct mst_error *err)
{
    char bytes[16384];
    for (int turn = 0; turn < MESH_READS_A_TURN && link->stage == LINK_CONTROL; turn++) {
        size_t room = discovery_frames_room(&link->frames), taken = 0;
        if (room > sizeof bytes)
            room = sizeof bytes;
        const ssize_t got = recv(link->fd, bytes, room, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return errno == EAGAIN ? 0 : mst_error_errno(err, -errno, "receive");
        if (got == 0)
            return mst_error_set(err, -EPIPE, "it closed the connection");
        int r = discovery_frames_feed(&link->frames, bytes, (size_t)got, &taken, err);
        if (r == 0 && taken != (size_t)got)
            r = mst_error_set(err, -EBADMSG, "frame layer took %zu of %zd bytes", taken, got);
        if (r == 0)
            r = deliver_frames(link, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static void link_ready(void *context, uint32_t events)
{
    struct link *link = context;
    if (link->stage == LINK_CLOSED)
        return;
    if (link->stage != LINK_CONTROL) {
        run_hello(link, events);
        return;
    }
    struct mst_error err = MST_ERROR_INIT;
    int r = 0;
    if (events & EPOLLOUT)
        r = flush(link, &err);
    if (r == 0 && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        r = receive(link, &err);
    if (r < 0)
        link_lost(link, err.text);
}

/* ---- listener ---- */

static size_t count_unauthenticated(const struct mesh *mesh)
{
    size_t count = 0;
    for (const struct link *link = mesh->links; link; link = link->next)
        count += !link->dialer && link->stage == LINK_HELLO;
    return count;
}

/* A connection that cannot be accepted keeps the listener readable: watching on would turn the loop, and the
 * log, at full speed. It waits in the backlog. */
static void turn_deaf(struct mesh *mesh, int code)
{
    mst_log_warn("mesh", "cannot accept a connection: %s", strerrordesc_np(-code));
    if (loop_change(mesh->options.loop, mesh->listen_fd, 0, NULL) == 0)
        mesh->deaf_until_ns = mst_now_ns() + MESH_DEAF_NS;
}

static void listen_again(struct mesh *mesh, uint64_t now_ns)
{
    if (mesh->deaf_until_ns == 0 || now_ns < mesh->deaf_until_ns)
        return;
    const int r = loop_change(mesh->options.loop, mesh->listen_fd, EPOLLIN, NULL);
    mesh->deaf_until_ns = r == 0 ? 0 : now_ns + MESH_DEAF_NS;
}

static void accept_ready(void *context, uint32_t events)
{
    struct mesh *mesh = context;
    (void)events;
    for (;;) {
        uint32_t ipv4;
        uint16_t port;
        struct mst_error err = MST_ERROR_INIT;
        int fd = mst_tcp_accept(mesh->listen_fd, &ipv4, &port);
        if (fd == -EINTR || fd == -ECONNABORTED)
            continue;
        if (fd < 0) {
            if (fd != -EAGAIN)
                turn_deaf(mesh, fd); /* out of descriptors, most likely */
            return;
        }
        if (count_unauthenticated(mesh) >= DISCOVERY_UNAUTHENTICATED + mesh->options.expected) {
            discovery_hello_turn_away(fd, DISCOVERY_REASON_FULL); /* a flood: whoever is real tries again */
            mst_closep(&fd);
            continue;
        }
        struct link *link = link_new(mesh, fd, ipv4, port);
        if (!link) {
            mst_closep(&fd);
            continue;
        }
        link->stage = LINK_HELLO;
        int r = discovery_hello_listener(&link->hello, mesh->options.self, judge, mesh, ipv4, port, &err);
        if (r == 0)
            r = loop_add(mesh->options.loop, fd, EPOLLIN, link_ready, link, &err);
        if (r < 0)
            link_lost(link, err.text);
    }
}

int mesh_new(const struct mesh_options *options, const struct mesh_callbacks *callbacks,
             struct mesh **ret_mesh, struct mst_error *err)
{
    struct mesh *mesh = calloc(1, sizeof *mesh);
    if (!mesh)
        return mst_error_set(err, -ENOMEM, "make a mesh: no memory");
    mesh->options = *options;
    if (mesh->options.silence_ns == 0)
        mesh->options.silence_ns = MESH_SILENCE_NS;
    mesh->callbacks = *callbacks;
    mesh->dialling = true;
    mesh->listen_fd = -1;
    const struct discovery_identity *self = &options->self->identity;
    int r = mst_tcp_listen(self->ipv4, self->port, MESH_BACKLOG, &mesh->listen_fd, NULL, err);
    if (r == 0)
        r = loop_add(options->loop, mesh->listen_fd, EPOLLIN, accept_ready, mesh, err);
    if (r < 0) {
        mesh_free(mesh);
        return r;
    }
    *ret_mesh = mesh;
    return 0;
}

static void free_closed(struct mesh *mesh)
{
    struct link **next = &mesh->links;
    while (*next) {
        struct link *link = *next;
        if (link->stage == LINK_CLOSED) {
            *next = link->next;
            free(link);
        } else {
            next = &link->next;
        }
    }
}

void mesh_free(struct mesh *mesh)
{
    if (!mesh)
        return;
    for (struct link *link = mesh->links; link; link = link->next)
        link_close(link);
    free_closed(mesh);
    loop_remove(mesh->options.loop, mesh->listen_fd);
    mst_closep(&mesh->listen_fd);
    hosts_release(&mesh->hosts);
    free(mesh);
}

/* ---- sending ---- */

static int link_send(struct link *link, uint16_t type, const struct mst_buf *payload, struct mst_error *err)
{
    int r =
        discovery_frames_pack(&link->frames, type, mst_buf_text(payload), payload->count, &link->out, err);
    if (r == -EFBIG)
        return mst_error_set(err, -ENOBUFS, "it has not taken %zu bytes that are queued for it",
                             link->out.count);
    return r < 0 ? r : flush(link, err);
}

int mesh_send(struct mesh *mesh, const uint8_t incarnation[static DISCOVERY_INCARNATION_BYTES], uint16_t type,
              const struct mst_buf *payload, struct mst_error *err)
{
    struct link *link = find_control(mesh, incarnation);
    if (!link)
        return mst_error_set(err, -ENOTCONN, "no control connection to that worker");
    return link_send(link, type, payload, err);
}

void mesh_send_all(struct mesh *mesh, uint16_t type, const struct mst_buf *payload)
{
    for (struct link *link = mesh->links; link; link = link->next) {
        struct mst_error err = MST_ERROR_INIT;
        if (link->stage == LINK_CONTROL && link_send(link, type, payload, &err) < 0)
            link_lost(link, err.text);
    }
}

bool mesh_flushed(const struct mesh *mesh)
{
    for (const struct link *link = mesh->links; link; link = link->next)
        if (link->stage == LINK_CONTROL && link->out.count > 0)
            return false;
    return true;
}

/* ---- time ---- */

static bool is_dial_under_way(const struct link *link)
{
    return link->dialer && (link->stage == LINK_CONNECTING || link->stage == LINK_HELLO);
}

uint64_t mesh_deadline_ns(const struct mesh *mesh)
{
    uint64_t deadline_ns = mesh->deaf_until_ns > 0 ? mesh->deaf_until_ns : UINT64_MAX;
    size_t dials = 0;
    for (const struct link *link = mesh->links; link; link = link->next) {
        dials += is_dial_under_way(link);
        uint64_t link_ns = link->deadline_ns;
        if (link->stage == LINK_CONTROL)
            link_ns = link->heard_ns + mesh->options.silence_ns;
        if (link->stage == LINK_CLOSED)
            link_ns = 0; /* to be freed */
        if (link_ns < deadline_ns)
            deadline_ns = link_ns;
    }
    /* With as many dials as there may be, a host that is due waits for one of them to end. */
    for (size_t h = 0; mesh->dialling && h < mesh->hosts.count && dials < MESH_DIALS_MAX; h++) {
        const struct host *host = &mesh->hosts.items[h];
        if (hosts_may_be_dialled(host) && host->retry_ns < deadline_ns)
            deadline_ns = host->retry_ns;
    }
    return deadline_ns;
}

void mesh_tick(struct mesh *mesh, uint64_t now_ns)
{
    size_t dials = 0;
    listen_again(mesh, now_ns);
    for (struct link *link = mesh->links; link; link = link->next) {
        char reason[HOSTS_REASON_BYTES];
        if (link->stage == LINK_CONTROL && now_ns >= link->heard_ns + mesh->options.silence_ns) {
            (void)snprintf(reason, sizeof reason, "no sign of life for %.1f s",
                           (double)(now_ns - link->heard_ns) / 1e9);
            link_lost(link, reason);
        } else if ((link->stage == LINK_CONNECTING || link->stage == LINK_HELLO) &&
                   now_ns >= link->deadline_ns) {
            (void)snprintf(reason, sizeof reason, "%s in %d ms",
                           link->stage == LINK_CONNECTING ? "no answer" : "connected, but no hello",
                           DISCOVERY_HELLO_MS);
            link_lost(link, reason);
        }
        dials += is_dial_under_way(link);
    }
    free_closed(mesh);
    /* By index: dialling may learn nothing, but failing at once changes the entry. */
    for (size_t h = 0; mesh->dialling && h < mesh->hosts.count && dials < MESH_DIALS_MAX; h++) {
        const struct host *host = &mesh->hosts.items[h];
        if (hosts_may_be_dialled(host) && now_ns >= host->retry_ns) {
            dial(mesh, host->ipv4, host->port, DISCOVERY_PURPOSE_HELLO);
            dials++;
        }
    }
}

const char *mesh_stranger(const struct mesh *mesh, size_t index, char text[static MESH_STRANGER_BYTES])
{
    for (size_t h = 0; h < mesh->hosts.count; h++) {
        const struct host *host = &mesh->hosts.items[h];
        char address[MST_IPV4_TEXT_BYTES];
        if (host->known || host->reason[0] == '\0' || index-- > 0)
            continue;
        (void)snprintf(text, MESH_STRANGER_BYTES, "%s: %s", mst_ipv4_text(host->ipv4, address), host->reason);
        return text;
    }
    return NULL;
}
