/* SPDX-License-Identifier: Apache-2.0 */
/* From another worker's agent to a program here: a shell, started by the supervisor with three pipes whose
 * other ends are here. */
#include "bytes.h"
#include "launch_private.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/log.h"
#include "muster/net.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define SILENCE_MS 10000
#define READS      16
#define DRAIN_NS   (2 * MST_NS_PER_S) /* for output that a daemon may hold open after the program's end */
#define PATIENCE_NS                                                                                          \
    (3 * MST_NS_PER_S) /* from one signal to the next, for a program whose launcher is gone                  \
                        */

enum serve_stage {
    SERVE_OPENING, /* the request is awaited */
    SERVE_RUNNING,
    SERVE_DRAINING, /* it has ended; its output has not */
    SERVE_ENDING,   /* the status is on its way; closed by the other side once it is there */
    SERVE_HUNG_UP,  /* the launcher is gone, the program is not */
    SERVE_CLOSED,
};

enum { STREAM_IN, STREAM_OUT, STREAM_ERR, STREAMS };

struct serve {
    struct exec_launch *launch;
    struct serve *next;
    enum serve_stage stage;
    struct discovery_identity peer;
    struct launch_channel remote;
    struct launch_sink in;
    struct launch_source out, err;
    struct launch_watch remote_watch, watches[STREAMS];
    uint32_t id; /* 0: nothing was started */
    int status;
    unsigned signals;     /* sent since the launcher is gone */
    uint64_t deadline_ns; /* of the stage; UINT64_MAX: none */
};

static void remote_ready(void *context, uint32_t events);
static void in_ready(void *context, uint32_t events);
static void out_ready(void *context, uint32_t events);
static void err_ready(void *context, uint32_t events);

static void let_go(struct serve *serve)
{
    launch_watch_end(serve->launch, &serve->remote_watch);
    for (size_t s = 0; s < STREAMS; s++)
        launch_watch_end(serve->launch, &serve->watches[s]);
    launch_channel_release(&serve->remote);
    launch_sink_release(&serve->in);
    launch_source_release(&serve->out);
    launch_source_release(&serve->err);
}

/* No more words with the launcher; the program, if it runs, is told to go. */
static void hang_up(struct serve *serve)
{
    static const int signals[] = {SIGHUP, SIGTERM, SIGKILL};
    const bool runs = serve->stage == SERVE_RUNNING || serve->stage == SERVE_HUNG_UP;
    if (serve->stage == SERVE_CLOSED)
        return;
    let_go(serve);
    serve->stage = runs ? SERVE_HUNG_UP : SERVE_CLOSED;
    if (!runs)
        return;
    const unsigned last = (unsigned)MST_ARRAY_COUNT(signals) - 1;
    serve->launch->options.signal(serve->launch->options.context, serve->id,
                                  signals[serve->signals < last ? serve->signals : last]);
    serve->signals++;
    serve->deadline_ns = mst_now_ns() + PATIENCE_NS;
}

static void update(struct serve *serve)
{
    struct exec_launch *launch = serve->launch;
    struct mst_error err = MST_ERROR_INIT;
    if (serve->stage == SERVE_CLOSED || serve->stage == SERVE_HUNG_UP)
        return;
    const struct launch_source *out = &serve->out, *errors = &serve->err;
    uint32_t remote = serve->remote.out.count > 0 ? EPOLLIN | EPOLLOUT : EPOLLIN;
    int r =
        launch_watch_set(launch, &serve->remote_watch, serve->remote.fd, remote, remote_ready, serve, &err);
    if (r == 0)
        r = launch_watch_set(launch, &serve->watches[STREAM_IN], serve->in.fd,
                             launch_sink_wants(&serve->in) ? EPOLLOUT : 0, in_ready, serve, &err);
    if (r == 0)
        r = launch_watch_set(launch, &serve->watches[STREAM_OUT], out->fd,
                             launch_source_wants(out, &serve->remote) ? EPOLLIN : 0, out_ready, serve, &err);
    if (r == 0)
        r = launch_watch_set(launch, &serve->watches[STREAM_ERR], errors->fd,
                             launch_source_wants(errors, &serve->remote) ? EPOLLIN : 0, err_ready, serve,
                             &err);
    if (r < 0) {
        mst_log_warn("launch", "%s", err.text);
        hang_up(serve);
    }
}

/* The last word, once the program and its output have ended. */
static int check_ended(struct serve *serve, uint64_t now_ns, struct mst_error *err)
{
    const bool drained = (serve->out.fd < 0 && serve->err.fd < 0) || now_ns >= serve->deadline_ns;
    if (serve->stage != SERVE_DRAINING || !drained)
        return 0;
    serve->stage = SERVE_ENDING;
    serve->deadline_ns = now_ns + LAUNCH_END_MS * MST_NS_PER_MS;
    return launch_channel_send_byte(&serve->remote, LAUNCH_EXIT, (uint8_t)serve->status, err);
}

/* After anything that was done for it. */
static void settle(struct serve *serve, int r, struct mst_error *err)
{
    if (r >= 0)
        r = check_ended(serve, mst_now_ns(), err);
    if (r >= 0 && serve->remote.fd >= 0)
        r = launch_channel_flush(&serve->remote, err);
    if (r < 0) {
        mst_log_debug("launch", "%s: %s", serve->peer.slot, err->text);
        hang_up(serve);
    } else if (serve->stage == SERVE_ENDING && serve->remote.out.count == 0) {
        /* Not closed yet: what the other side sent meanwhile would make the kernel throw our words away. */
        (void)shutdown(serve->remote.fd, SHUT_WR);
    }
    update(serve);
}

static void refuse(struct serve *serve, const char *text)
{
    mst_log_warn("launch", "a program for %s was not started: %s", serve->peer.slot, text);
    if (launch_channel_send(&serve->remote, LAUNCH_ERROR, text, strlen(text), NULL) < 0) {
        hang_up(serve);
        return;
    }
    serve->stage = SERVE_ENDING;
    serve->deadline_ns = mst_now_ns() + LAUNCH_END_MS * MST_NS_PER_MS;
}

/* ---- the program ---- */

/* Pipes whose far ends block, as programs expect, and whose near ends do not. */
static int make_pipes(int near[static STREAMS], int far[static STREAMS], struct mst_error *err)
{
    for (size_t s = 0; s < STREAMS; s++) {
        int fds[2];
        if (pipe2(fds, O_CLOEXEC) < 0)
            return mst_error_errno(err, -errno, "make a pipe");
        far[s] = s == STREAM_IN ? fds[0] : fds[1];
        near[s] = s == STREAM_IN ? fds[1] : fds[0];
        if (fcntl(near[s], F_SETFL, O_NONBLOCK) < 0)
            return mst_error_errno(err, -errno, "set up a pipe");
    }
    return 0;
}

static int start(struct serve *serve, const char *command, struct mst_error *err)
{
    struct exec_launch *launch = serve->launch;
    int near[STREAMS] = {-1, -1, -1}, far[STREAMS] = {-1, -1, -1};
    int r = make_pipes(near, far, err);
    if (r == 0) {
        serve->id = ++launch->last_id != 0 ? launch->last_id : ++launch->last_id;
        r = launch->options.spawn(launch->options.context, serve->id, command, far, err);
    }
    for (size_t s = 0; s < STREAMS; s++)
        mst_closep(&far[s]);
    launch_sink_init(&serve->in, near[STREAM_IN], STREAM_IN);
    launch_source_init(&serve->out, near[STREAM_OUT], STREAM_OUT);
    launch_source_init(&serve->err, near[STREAM_ERR], STREAM_ERR);
    if (r == 0)
        serve->stage = SERVE_RUNNING;
    serve->deadline_ns = UINT64_MAX;
    return r;
}

static void take_request(struct serve *serve, const uint8_t *payload, size_t count)
{
    struct mst_error err = MST_ERROR_INIT;
    char host[LAUNCH_HOST_BYTES];
    struct bytes_cursor cursor = {payload, count, false};
    bytes_take_text(&cursor, host, sizeof host);
    mst_cleanup(mst_freep) char *command = strndup((const char *)cursor.next, cursor.left);
    const int r = command ? start(serve, command, &err) : mst_error_set(&err, -ENOMEM, "no memory");
    if (r < 0)
        refuse(serve, err.text);
    else
        mst_log_info("launch", "%s launches a program here: %.200s", serve->peer.slot, command);
}

static int take_frame(struct serve *serve, enum launch_frame type, const uint8_t *payload, size_t count,
                      struct mst_error *err)
{
    if (!launch_frame_is_fit(true, type, payload, count) ||
        (type == LAUNCH_OPEN) != (serve->stage == SERVE_OPENING))
        return mst_error_set(err, -EBADMSG, "a frame of type %d that cannot be", (int)type);
    struct bytes_cursor credit = {payload + 1, count - 1, false};
    switch (type) {
    case LAUNCH_OPEN:
        take_request(serve, payload, count);
        return 0;
    case LAUNCH_DATA:
        return launch_sink_take(&serve->in, payload + 1, count - 1, err);
    case LAUNCH_EOF:
        serve->in.ended = true;
        return 0;
    case LAUNCH_CREDIT:
        return launch_source_credit(payload[0] == STREAM_OUT ? &serve->out : &serve->err,
                                    (uint32_t)bytes_take(&credit, 4), err);
    default: /* LAUNCH_SIGNAL; one that comes after the end finds nobody */
        serve->launch->options.signal(serve->launch->options.context, serve->id, payload[0]);
        return 0;
    }
}

static int receive(struct serve *serve, struct mst_error *err)
{
    for (int turn = 0; turn < READS && serve->remote.fd >= 0; turn++) {
        int r = launch_channel_read(&serve->remote, err);
        if (r <= 0)
            return r;
        enum launch_frame type;
        const uint8_t *payload;
        size_t count;
        while (serve->remote.fd >= 0 &&
               (r = launch_channel_next(&serve->remote, &type, &payload, &count, err)) == 1) {
            r = serve->stage == SERVE_ENDING ? 0 : take_frame(serve, type, payload, count, err);
            if (r < 0)
                return r;
        }
        if (r < 0)
            return r;
        if (serve->remote.fd >= 0 && serve->stage != SERVE_ENDING)
            r = launch_sink_pump(&serve->in, &serve->remote, LAUNCH_WINDOW_BYTES, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static void remote_ready(void *context, uint32_t events)
{
    struct serve *serve = context;
    struct mst_error err = MST_ERROR_INIT;
    const int r = events & (EPOLLIN | EPOLLHUP | EPOLLERR) ? receive(serve, &err) : 0;
    settle(serve, r, &err);
}

static void in_ready(void *context, uint32_t events)
{
    struct serve *serve = context;
    struct mst_error err = MST_ERROR_INIT;
    (void)events;
    settle(serve, launch_sink_pump(&serve->in, &serve->remote, LAUNCH_WINDOW_BYTES, &err), &err);
}

static void out_ready(void *context, uint32_t events)
{
    struct serve *serve = context;
    struct mst_error err = MST_ERROR_INIT;
    (void)events;
    settle(serve, launch_source_pump(&serve->out, &serve->remote, &err), &err);
}

static void err_ready(void *context, uint32_t events)
{
    struct serve *serve = context;
    struct mst_error err = MST_ERROR_INIT;
    (void)events;
    settle(serve, launch_source_pump(&serve->err, &serve->remote, &err), &err);
}

/* ---- the owner's calls ---- */

void serve_begin(struct exec_launch *launch, const struct discovery_session *session, int fd)
{
    struct mst_error err = MST_ERROR_INIT;
    struct serve *serve = calloc(1, sizeof *serve);
    if (!serve) {
        mst_closep(&fd);
        return;
    }
    serve->launch = launch;
    serve->peer = session->peer;
    serve->remote_watch.fd = -1;
    for (size_t s = 0; s < STREAMS; s++)
        serve->watches[s].fd = -1;
    launch_sink_init(&serve->in, -1, STREAM_IN);
    launch_source_init(&serve->out, -1, STREAM_OUT);
    launch_source_init(&serve->err, -1, STREAM_ERR);
    launch_channel_init(&serve->remote, fd);
    serve->deadline_ns = mst_now_ns() + LAUNCH_OPEN_MS * MST_NS_PER_MS;
    serve->next = launch->serves;
    launch->serves = serve;
    int r = launch_channel_seal(&serve->remote, session, &err);
    if (r == 0)
        r = mst_tcp_tune(fd, SILENCE_MS, &err);
    settle(serve, r, &err);
}

void serve_exited(struct exec_launch *launch, uint32_t id, int status)
{
    for (struct serve *serve = launch->serves; serve; serve = serve->next) {
        struct mst_error err = MST_ERROR_INIT;
        if (serve->id != id || (serve->stage != SERVE_RUNNING && serve->stage != SERVE_HUNG_UP))
            continue;
        if (serve->stage == SERVE_HUNG_UP) {
            serve->stage = SERVE_CLOSED;
            continue;
        }
        serve->stage = SERVE_DRAINING;
        serve->status = status;
        serve->deadline_ns = mst_now_ns() + DRAIN_NS;
        settle(serve, 0, &err);
    }
}

void serve_hang_up(struct exec_launch *launch, bool all)
{
    for (struct serve *serve = launch->serves; serve; serve = serve->next)
        if (serve->stage != SERVE_HUNG_UP && (all || !launch_is_member(launch, serve->peer.incarnation)))
            hang_up(serve);
}

static void tick_one(struct serve *serve, uint64_t now_ns)
{
    struct mst_error err = MST_ERROR_INIT;
    if (serve->stage == SERVE_CLOSED || now_ns < serve->deadline_ns)
        return;
    if (serve->stage == SERVE_DRAINING)
        settle(serve, 0, &err);
    else
        hang_up(serve); /* OPENING, ENDING: too slow; HUNG_UP: the next signal */
}

static void serve_free(struct serve *serve)
{
    let_go(serve);
    free(serve);
}

void serve_tick(struct exec_launch *launch, uint64_t now_ns)
{
    for (struct serve *serve = launch->serves; serve; serve = serve->next)
        tick_one(serve, now_ns);
    for (struct serve **place = &launch->serves; *place;) {
        struct serve *serve = *place;
        if (serve->stage != SERVE_CLOSED) {
            place = &serve->next;
            continue;
        }
        *place = serve->next;
        serve_free(serve);
    }
}

uint64_t serve_deadline_ns(const struct exec_launch *launch)
{
    uint64_t deadline_ns = UINT64_MAX;
    for (const struct serve *serve = launch->serves; serve; serve = serve->next) {
        if (serve->stage == SERVE_CLOSED)
            return 0; /* to be freed */
        if (serve->deadline_ns < deadline_ns)
            deadline_ns = serve->deadline_ns;
    }
    return deadline_ns;
}

void serve_free_all(struct exec_launch *launch)
{
    while (launch->serves) {
        struct serve *serve = launch->serves;
        launch->serves = serve->next;
        serve_free(serve);
    }
}
