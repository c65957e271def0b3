/* SPDX-License-Identifier: Apache-2.0 */
/* The ring all-reduce as a state machine that never blocks but in one place, wait_for_sockets().
 *
 * The vector is cut into `world` chunks, and each chunk into segments. In phase p of 2 * (world - 1), rank r
 * sends chunk (r - p) mod world to rank r + 1 and receives chunk (r - p - 1) mod world from rank r - 1: what
 * it receives in one phase is what it sends in the next. In the first world - 1 phases (reduce-scatter) it
 * adds what it receives to its own values; after those it holds the whole sum of one chunk, and in the rest
 * (all-gather) received segments replace its values. So the additions for a chunk always run around the ring
 * from the rank of its number.
 *
 * Sending and receiving are two cursors over (phase, segment). A segment can be sent in phase 0 once this
 * worker's own values are final there, and in later phases once it was received in the phase before. Nothing
 * else orders them: segments of the next phase go out while those of this phase still come in.
 *
 * Segments of a chunk are numbered from its end: backward makes the end of the arena final first. */
#include "exchange.h"
#include "frame.h"
#include "kernels.h"
#include "muster/cleanup.h"
#include "muster/clock.h"

#include <assert.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define RING_SEGMENT_FLOATS 65536 /* 256 KiB: what is added stays in the second-level cache */
/* While data flows, packets are fractions of a millisecond apart even at 100 Mbit/s. A longer pause is not
 * the wire's. */
#define RING_PAUSE_NS (2 * MST_NS_PER_MS)

struct cursor {
    uint32_t phase, segment;
    size_t done; /* bytes of the segment's frame and payload that went through */
};

struct ring {
    struct trainer_exchange base;
    struct trainer_ring_options options; /* both sockets are owned */
    int failure;            /* the negative errno of the first error: the ring is of no use since */
    struct trainer_sum sum; /* under way */
    size_t *first_segment;  /* number of each chunk's first segment, world + 1 of them */
    size_t *pending;        /* by segment number: floats that are not final on this worker yet */
    size_t pending_capacity;
    struct cursor send, receive;
    uint8_t send_frame[EXCHANGE_FRAME_BYTES], receive_frame[EXCHANGE_FRAME_BYTES];
    size_t drop_bytes;    /* of an older view's payload, still to be read and thrown away */
    bool held;            /* a received segment waits in `arrived` until our own values are final there */
    float *arrived;       /* RING_SEGMENT_FLOATS */
    uint64_t progress_ns; /* mst_now_ns() of the last byte moved */
    uint64_t paused_ns;   /* in finish(), without a byte */
    uint64_t bytes_sent;
};

struct segment {
    size_t offset, count, number;
};

static uint32_t phases(const struct ring *ring)
{
    return 2 * (ring->base.world - 1);
}

/* The chunk that this rank sends in `phase`; in the phase before it receives the same one. */
static uint32_t chunk_sent_in(const struct ring *ring, uint32_t phase)
{
    return (ring->base.rank + 2 * ring->base.world - phase) % ring->base.world;
}

static size_t chunk_offset(const struct ring *ring, uint32_t chunk)
{
    return ring->sum.count * chunk / ring->base.world;
}

static size_t segments_in(const struct ring *ring, uint32_t chunk)
{
    return ring->first_segment[chunk + 1] - ring->first_segment[chunk];
}

static struct segment segment_of(const struct ring *ring, uint32_t chunk, size_t number)
{
    const size_t first = chunk_offset(ring, chunk);
    const size_t end = chunk_offset(ring, chunk + 1) - number * RING_SEGMENT_FLOATS;
    const size_t count = end - first < RING_SEGMENT_FLOATS ? end - first : RING_SEGMENT_FLOATS;

    return (struct segment){
        .offset = end - count, .count = count, .number = ring->first_segment[chunk] + number};
}

static bool is_done(const struct ring *ring, const struct cursor *cursor)
{
    return cursor->phase >= phases(ring);
}

/* Step over phases whose chunk is empty: fewer floats than workers. `ahead` is 1 for the receiving cursor. */
static void settle(const struct ring *ring, struct cursor *cursor, uint32_t ahead)
{
    while (!is_done(ring, cursor) &&
           cursor->segment >= segments_in(ring, chunk_sent_in(ring, cursor->phase + ahead))) {
        cursor->phase++;
        cursor->segment = 0;
    }
}

static void advance(const struct ring *ring, struct cursor *cursor, uint32_t ahead)
{
    cursor->segment++;
    cursor->done = 0;
    settle(ring, cursor, ahead);
}

static bool can_send(const struct ring *ring)
{
    const struct cursor *send = &ring->send, *receive = &ring->receive;

    if (is_done(ring, send))
        return false;
    if (send->phase == 0)
        return ring->pending[segment_of(ring, chunk_sent_in(ring, 0), send->segment).number] == 0;
    return receive->phase >= send->phase ||
           (receive->phase + 1 == send->phase && receive->segment > send->segment);
}

static bool can_receive(const struct ring *ring)
{
    return !is_done(ring, &ring->receive) && !ring->held;
}

static struct exchange_frame frame_for(const struct ring *ring, const struct cursor *cursor,
                                       const struct segment *segment)
{
    return (struct exchange_frame){
        .job_key = ring->options.job_key,
        .view = ring->options.view,
        .step = ring->sum.step,
        .phase = (uint16_t)cursor->phase,
        .segment = (uint16_t)cursor->segment,
        .bytes = (uint32_t)(segment->count * sizeof(float)),
    };
}

static int socket_failure(struct mst_error *err, int code, const char *what)
{
    if (code == -EPIPE || code == -ECONNRESET)
        return mst_error_set(err, -EPIPE, "%s: it closed the connection", what);
    return mst_error_errno(err, code, "%s", what);
}

static void landed(const struct ring *ring, size_t offset, size_t count)
{
    if (ring->sum.landed && count > 0)
        ring->sum.landed(ring->sum.context, offset, count);
}

/* Move what the socket takes. 1: bytes went; 0: nothing to send, or the socket is full. */
static int try_send(struct ring *ring, struct mst_error *err)
{
    if (!can_send(ring))
        return 0;
    struct cursor *send = &ring->send;
    const struct segment segment = segment_of(ring, chunk_sent_in(ring, send->phase), send->segment);
    const size_t payload_bytes = segment.count * sizeof(float);
    struct iovec parts[2];
    int part_count = 0;

    if (send->done == 0) {
        const struct exchange_frame frame = frame_for(ring, send, &segment);
        exchange_frame_write(&frame, ring->send_frame);
    }
    if (send->done < EXCHANGE_FRAME_BYTES)
        parts[part_count++] =
            (struct iovec){ring->send_frame + send->done, EXCHANGE_FRAME_BYTES - send->done};
    const size_t payload_done = send->done > EXCHANGE_FRAME_BYTES ? send->done - EXCHANGE_FRAME_BYTES : 0;
    parts[part_count++] = (struct iovec){(uint8_t *)(ring->sum.values + segment.offset) + payload_done,
                                         payload_bytes - payload_done};

    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)part_count};
    const ssize_t n = sendmsg(ring->options.fd_next, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n < 0)
        return socket_failure(err, -errno, "send to the next worker");
    send->done += (size_t)n;
    ring->bytes_sent += (uint64_t)n;
    if (send->done == EXCHANGE_FRAME_BYTES + payload_bytes)
        advance(ring, send, 0);
    return 1;
}

/* A whole segment is here: in `arrived` to be added, or already in its place. */
static void take_segment(struct ring *ring)
{
    const uint32_t world = ring->base.world;
    const struct segment segment =
        segment_of(ring, chunk_sent_in(ring, ring->receive.phase + 1), ring->receive.segment);

    if (ring->receive.phase < world - 1) {
        ring->held = ring->pending[segment.number] > 0;
        if (ring->held)
            return;
        kernel_add(segment.count, ring->arrived, ring->sum.values + segment.offset);
    }
    if (ring->receive.phase >= world - 2)
        landed(ring, segment.offset, segment.count);
    advance(ring, &ring->receive, 1);
}

/* recv() with the words for what can go wrong. 0: nothing there. */
static ssize_t receive_some(struct ring *ring, void *bytes, size_t count, struct mst_error *err)
{
    const ssize_t n = recv(ring->options.fd_prev, bytes, count, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return socket_failure(err, n == 0 ? -EPIPE : -errno, "receive from the previous worker");
    return n;
}

static int drop_some(struct ring *ring, struct mst_error *err)
{
    const size_t room = RING_SEGMENT_FLOATS * sizeof(float);
    const ssize_t n =
        receive_some(ring, ring->arrived, ring->drop_bytes < room ? ring->drop_bytes : room, err);

    if (n > 0)
        ring->drop_bytes -= (size_t)n;
    return n > 0 ? 1 : (int)n;
}

static int check_frame(struct ring *ring, const struct segment *segment, struct mst_error *err)
{
    const struct exchange_frame expected = frame_for(ring, &ring->receive, segment);
    struct exchange_frame frame;

    const int r =
        exchange_frame_read(ring->receive_frame, &expected, RING_SEGMENT_FLOATS * sizeof(float), &frame, err);
    if (r == 1) {
        ring->drop_bytes = frame.bytes;
        ring->receive.done = 0;
    }
    return r;
}

/* As try_send(), in the other direction. */
static int try_receive(struct ring *ring, struct mst_error *err)
{
    if (!can_receive(ring))
        return 0;
    if (ring->drop_bytes > 0)
        return drop_some(ring, err);

    struct cursor *receive = &ring->receive;
    const struct segment segment =
        segment_of(ring, chunk_sent_in(ring, receive->phase + 1), receive->segment);
    if (receive->done < EXCHANGE_FRAME_BYTES) {
        const ssize_t n = receive_some(ring, ring->receive_frame + receive->done,
                                       EXCHANGE_FRAME_BYTES - receive->done, err);
        if (n <= 0)
            return (int)n;
        receive->done += (size_t)n;
        if (receive->done < EXCHANGE_FRAME_BYTES)
            return 1;
        const int r = check_frame(ring, &segment, err);
        return r < 0 ? r : 1;
    }
    const size_t done = receive->done - EXCHANGE_FRAME_BYTES, wanted = segment.count * sizeof(float);
    float *to = receive->phase < ring->base.world - 1 ? ring->arrived : ring->sum.values + segment.offset;
    const ssize_t n = receive_some(ring, (uint8_t *)to + done, wanted - done, err);
    if (n <= 0)
        return (int)n;
    receive->done += (size_t)n;
    if (done + (size_t)n == wanted)
        take_segment(ring);
    return 1;
}

static int check_cancelled(const struct ring *ring, struct mst_error *err)
{
    struct pollfd cancel = {.fd = ring->options.cancel_fd, .events = POLLIN};

    if (poll(&cancel, 1, 0) > 0)
        return mst_error_set(err, -ECANCELED, "the exchange was cancelled");
    return 0;
}

/* Wait until a socket can go on. A neighbour that closed is noticed even while there is nothing to move, as
 * long as something is still to come from it or to go to it; one that has nothing left to do with us may
 * close. */
static int wait_for_sockets(struct ring *ring, struct mst_error *err)
{
    const short next_events = (short)(POLLRDHUP | (can_send(ring) ? POLLOUT : 0));
    struct pollfd fds[] = {
        {.fd = ring->options.cancel_fd, .events = POLLIN},
        {.fd = can_receive(ring) ? ring->options.fd_prev : -1, .events = POLLIN},
        {.fd = is_done(ring, &ring->send) ? -1 : ring->options.fd_next, .events = next_events},
    };
    const uint64_t deadline_ns = ring->progress_ns + ring->options.timeout_ms * MST_NS_PER_MS;

    const uint64_t start_ns = mst_now_ns();
    const int n = poll(fds, MST_ARRAY_COUNT(fds), mst_ms_until(deadline_ns, INT32_MAX));
    const uint64_t waited_ns = mst_now_ns() - start_ns;
    if (waited_ns >= RING_PAUSE_NS)
        ring->paused_ns += waited_ns;
    if (n < 0 && errno != EINTR)
        return mst_error_errno(err, -errno, "wait for the neighbours");
    if (n == 0 && mst_now_ns() >= deadline_ns)
        return mst_error_set(err, -ETIMEDOUT,
                             "no byte from or to the neighbours in %" PRIu32 " ms (step %" PRIu64 ")",
                             ring->options.timeout_ms, ring->sum.step);
    if (n <= 0)
        return 0;
    if (fds[0].revents)
        return mst_error_set(err, -ECANCELED, "the exchange was cancelled");
    if (fds[2].revents & (POLLRDHUP | POLLHUP | POLLERR))
        return socket_failure(err, -EPIPE, "send to the next worker");
    return 0;
}

/* Move until all is done, or, without `wait`, until the sockets have nothing more to give or take. */
static int pump(struct ring *ring, bool wait, struct mst_error *err)
{
    while (!is_done(ring, &ring->send) || !is_done(ring, &ring->receive)) {
        if (ring->held)
            take_segment(ring);
        const int sent = try_send(ring, err);
        if (sent < 0)
            return sent;
        const int received = try_receive(ring, err);
        if (received < 0)
            return received;
        if (sent + received > 0) {
            ring->progress_ns = mst_now_ns();
            continue;
        }
        if (!wait)
            return 0;
        const int r = wait_for_sockets(ring, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* The neighbours must not wait for us until their time-out: both sockets are shut, and they fail in turn. */
static int fail(struct ring *ring, int code)
{
    ring->failure = code;
    if (ring->base.world > 1) {
        (void)shutdown(ring->options.fd_prev, SHUT_RDWR);
        (void)shutdown(ring->options.fd_next, SHUT_RDWR);
    }
    return code;
}

/* Number the segments and mark all of them as not final yet. Allocates only when the vector is the longest so
 * far. */
static int lay_out(struct ring *ring, struct mst_error *err)
{
    const uint32_t world = ring->base.world;

    for (uint32_t chunk = 0; chunk < world; chunk++) {
        const size_t floats = chunk_offset(ring, chunk + 1) - chunk_offset(ring, chunk);
        ring->first_segment[chunk + 1] =
            ring->first_segment[chunk] + (floats + RING_SEGMENT_FLOATS - 1) / RING_SEGMENT_FLOATS;
    }
    const size_t total = ring->first_segment[world];
    if (total > ring->pending_capacity) {
        size_t *grown = realloc(ring->pending, total * sizeof *grown);
        if (!grown)
            return mst_error_set(err, -ENOMEM, "no memory for %zu segments", total);
        ring->pending = grown;
        ring->pending_capacity = total;
    }
    for (uint32_t chunk = 0; chunk < world; chunk++) {
        for (size_t s = 0; s < segments_in(ring, chunk); s++) {
            const struct segment segment = segment_of(ring, chunk, s);
            ring->pending[segment.number] = segment.count;
        }
    }
    return 0;
}

static int begin(struct trainer_exchange *exchange, const struct trainer_sum *sum, struct mst_error *err)
{
    struct ring *ring = (struct ring *)exchange;

    if (ring->failure < 0)
        return mst_error_errno(err, ring->failure, "the ring failed before");
    assert(sum->count <= TRAINER_MODEL_MAX_PARAMETERS * (size_t)2);
    int r = check_cancelled(ring, err);
    if (r < 0)
        return fail(ring, r);
    ring->sum = *sum;
    r = lay_out(ring, err);
    if (r < 0)
        return fail(ring, r);
    ring->send = ring->receive = (struct cursor){0};
    settle(ring, &ring->send, 0);
    settle(ring, &ring->receive, 1);
    ring->progress_ns = mst_now_ns();
    ring->paused_ns = 0;
    ring->bytes_sent = 0;
    return 0;
}

static int ready(struct trainer_exchange *exchange, size_t offset, size_t count, struct mst_error *err)
{
    struct ring *ring = (struct ring *)exchange;
    const uint32_t world = ring->base.world;

    if (ring->failure < 0)
        return mst_error_errno(err, ring->failure, "the ring failed before");
    if (world == 1) {
        landed(ring, offset, count);
        return 0;
    }
    for (uint32_t chunk = 0; chunk < world; chunk++) {
        for (size_t s = 0; s < segments_in(ring, chunk); s++) {
            const struct segment segment = segment_of(ring, chunk, s);
            const size_t first = offset > segment.offset ? offset : segment.offset;
            const size_t end_given = offset + count, end_segment = segment.offset + segment.count;
            const size_t end = end_given < end_segment ? end_given : end_segment;
            if (end > first) {
                assert(ring->pending[segment.number] >= end - first);
                ring->pending[segment.number] -= end - first;
            }
        }
    }
    const int r = pump(ring, false, err);
    return r < 0 ? fail(ring, r) : 0;
}

static int finish(struct trainer_exchange *exchange, struct trainer_exchange_stats *ret_stats,
                  struct mst_error *err)
{
    struct ring *ring = (struct ring *)exchange;

    if (ring->failure < 0)
        return mst_error_errno(err, ring->failure, "the ring failed before");
    const uint64_t start_ns = mst_now_ns();
    ring->progress_ns = start_ns;
    int r = check_cancelled(ring, err);
    if (r >= 0)
        r = pump(ring, true, err);
    if (r < 0)
        return fail(ring, r);
    const uint64_t total_ns = mst_now_ns() - start_ns;
    *ret_stats = (struct trainer_exchange_stats){
        .wait_ms = (double)ring->paused_ns / MST_NS_PER_MS,
        .transfer_ms = (double)(total_ns - ring->paused_ns) / MST_NS_PER_MS,
        .bytes_sent = ring->bytes_sent,
    };
    return 0;
}

static void release(struct ring *ring)
{
    free(ring->first_segment);
    free(ring->pending);
    free(ring->arrived);
    free(ring);
}

static void ring_free(struct trainer_exchange *exchange)
{
    struct ring *ring = (struct ring *)exchange;

    if (ring->options.fd_prev == ring->options.fd_next)
        ring->options.fd_prev = -1;
    mst_closep(&ring->options.fd_prev);
    mst_closep(&ring->options.fd_next);
    release(ring);
}

static const struct trainer_exchange_ops ring_ops = {
    .begin = begin,
    .ready = ready,
    .finish = finish,
    .free = ring_free,
};

int trainer_ring_new(const struct trainer_ring_options *options, struct trainer_exchange **ret_exchange,
                     struct mst_error *err)
{
    const uint32_t world = options->world;

    if (world < 1 || world > TRAINER_MAX_WORLD || options->rank >= world)
        return mst_error_set(err, -EINVAL,
                             "a ring of %" PRIu32 " workers has no rank %" PRIu32 " (1 to %d workers)", world,
                             options->rank, TRAINER_MAX_WORLD);
    if (world > 1 && (options->fd_prev < 0 || options->fd_next < 0))
        return mst_error_set(err, -EINVAL, "a ring of %" PRIu32 " workers needs two connected sockets",
                             world);
    if (options->timeout_ms == 0)
        return mst_error_set(err, -EINVAL, "a ring needs a time-out above 0 ms");
    struct ring *ring = calloc(1, sizeof *ring);
    if (!ring)
        return mst_error_set(err, -ENOMEM, "no memory for a ring");
    ring->first_segment = calloc((size_t)world + 1, sizeof *ring->first_segment);
    ring->arrived = malloc(RING_SEGMENT_FLOATS * sizeof *ring->arrived);
    if (!ring->first_segment || !ring->arrived) {
        release(ring);
        return mst_error_set(err, -ENOMEM, "no memory for a ring of %" PRIu32 " workers", world);
    }
    ring->base = (struct trainer_exchange){.ops = &ring_ops, .rank = options->rank, .world = world};
    ring->options = *options;
    *ret_exchange = &ring->base;
    return 0;
}
