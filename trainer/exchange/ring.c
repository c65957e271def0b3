/* SPDX-License-Identifier: Apache-2.0 */
/* The ring all-reduce.
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
 * Segments of a chunk are numbered from its end: backward makes the end of the arena final first.
 *
 * A wire that rounds does so at each hop of the reduce-scatter; what it does to the whole sum, its owner does
 * to its own copy, too. */
#include "kernels.h"
#include "wire.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

enum { LINK_PREV, LINK_NEXT, LINKS };

struct cursor {
    uint32_t phase, segment;
};

struct ring {
    struct trainer_exchange base;
    float *values;         /* of the sum under way: its one part */
    size_t *first_segment; /* number of each chunk's first segment, world + 1 of them */
    size_t *pending;       /* by segment number: floats that are not final on this worker yet */
    size_t pending_capacity;
    struct cursor send, receive;
    bool held;      /* a received segment waits in `arrived` until our own values are final there */
    float *arrived; /* EXCHANGE_SEGMENT_FLOATS */
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
    return ring->base.sum.count * chunk / ring->base.world;
}

static size_t segments_in(const struct ring *ring, uint32_t chunk)
{
    return ring->first_segment[chunk + 1] - ring->first_segment[chunk];
}

static struct segment segment_of(const struct ring *ring, uint32_t chunk, size_t number)
{
    const size_t first = chunk_offset(ring, chunk);
    const size_t end = chunk_offset(ring, chunk + 1) - number * EXCHANGE_SEGMENT_FLOATS;
    const size_t count = end - first < EXCHANGE_SEGMENT_FLOATS ? end - first : EXCHANGE_SEGMENT_FLOATS;

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
    settle(ring, cursor, ahead);
}

static const struct ring *ring_of(const struct trainer_exchange *exchange)
{
    return (const struct ring *)exchange;
}

static bool owes(const struct trainer_exchange *exchange, const struct exchange_link *link)
{
    return link == &exchange->links[LINK_NEXT] && !is_done(ring_of(exchange), &ring_of(exchange)->send);
}

static bool awaits(const struct trainer_exchange *exchange, const struct exchange_link *link)
{
    return link == &exchange->links[LINK_PREV] && !is_done(ring_of(exchange), &ring_of(exchange)->receive);
}

static bool can_send(const struct ring *ring)
{
    const struct cursor *send = &ring->send, *receive = &ring->receive;

    if (send->phase == 0)
        return ring->pending[segment_of(ring, chunk_sent_in(ring, 0), send->segment).number] == 0;
    return receive->phase >= send->phase ||
           (receive->phase + 1 == send->phase && receive->segment > send->segment);
}

static void fill_frame(const struct ring *ring, const struct cursor *cursor, const struct segment *segment,
                       struct exchange_frame *ret_frame)
{
    ret_frame->phase = (uint16_t)cursor->phase;
    ret_frame->segment = (uint16_t)cursor->segment;
    exchange_wire_measure(&ring->base, segment->offset, segment->count, ret_frame);
}

static bool next(struct trainer_exchange *exchange, struct exchange_link *link,
                 struct exchange_frame *ret_frame, const void **ret_payload)
{
    const struct ring *ring = ring_of(exchange);
    const struct cursor *send = &ring->send;

    (void)link;
    if (!can_send(ring))
        return false;
    const struct segment segment = segment_of(ring, chunk_sent_in(ring, send->phase), send->segment);
    fill_frame(ring, send, &segment, ret_frame);
    *ret_payload = ring->values + segment.offset;
    return true;
}

static void sent(struct trainer_exchange *exchange, struct exchange_link *link)
{
    struct ring *ring = (struct ring *)exchange;

    (void)link;
    advance(ring, &ring->send, 0);
}

static bool listens(const struct trainer_exchange *exchange, const struct exchange_link *link)
{
    (void)link;
    return !ring_of(exchange)->held;
}

static struct segment segment_awaited(const struct ring *ring)
{
    return segment_of(ring, chunk_sent_in(ring, ring->receive.phase + 1), ring->receive.segment);
}

static int expect(struct trainer_exchange *exchange, struct exchange_link *link,
                  struct exchange_frame *ret_expected, void **ret_payload, struct mst_error *err)
{
    const struct ring *ring = ring_of(exchange);
    const struct segment segment = segment_awaited(ring);

    (void)link;
    (void)err;
    fill_frame(ring, &ring->receive, &segment, ret_expected);
    *ret_payload = ring->receive.phase < exchange->world - 1 ? ring->arrived : ring->values + segment.offset;
    return 0;
}

/* A whole segment is here: in `arrived` to be added, or already in its place. */
static void take_segment(struct ring *ring)
{
    const uint32_t world = ring->base.world;
    const struct segment segment = segment_awaited(ring);

    if (ring->receive.phase < world - 1) {
        ring->held = ring->pending[segment.number] > 0;
        if (ring->held)
            return;
        kernel_add(segment.count, ring->arrived, ring->values + segment.offset);
    }
    if (ring->receive.phase == world - 2) /* the others will have the rounded sum, and so has this worker */
        exchange_wire_round(&ring->base, segment.offset, segment.count, ring->values + segment.offset);
    if (ring->receive.phase >= world - 2)
        exchange_landed(&ring->base, segment.offset, segment.count);
    advance(ring, &ring->receive, 1);
}

static void received(struct trainer_exchange *exchange, struct exchange_link *link)
{
    (void)link;
    take_segment((struct ring *)exchange);
}

static const struct exchange_traffic ring_sum = {
    .owes = owes,
    .awaits = awaits,
    .next = next,
    .sent = sent,
    .listens = listens,
    .expect = expect,
    .received = received,
};

/* Number the segments and mark all of them as not final yet. */
static int number_segments(struct ring *ring, struct mst_error *err)
{
    const uint32_t world = ring->base.world;

    for (uint32_t chunk = 0; chunk < world; chunk++) {
        const size_t floats = chunk_offset(ring, chunk + 1) - chunk_offset(ring, chunk);
        ring->first_segment[chunk + 1] =
            ring->first_segment[chunk] + (floats + EXCHANGE_SEGMENT_FLOATS - 1) / EXCHANGE_SEGMENT_FLOATS;
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

static int lay_out(struct trainer_exchange *exchange, struct mst_error *err)
{
    struct ring *ring = (struct ring *)exchange;

    assert(exchange->sum.part_count == 1);
    ring->values = exchange->sum.parts[0];
    const int r = number_segments(ring, err);
    if (r < 0)
        return r;
    ring->held = false;
    ring->send = ring->receive = (struct cursor){0};
    settle(ring, &ring->send, 0);
    settle(ring, &ring->receive, 1);
    return 0;
}

static void ready(struct trainer_exchange *exchange, size_t part, size_t offset, size_t count)
{
    struct ring *ring = (struct ring *)exchange;
    const uint32_t world = exchange->world;

    (void)part;
    if (world == 1) {
        exchange_landed(exchange, offset, count);
        return;
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
    if (ring->held)
        take_segment(ring);
}

/* What the next worker lacks, this one gives it: all of the state, its own or passed on. */
static void route(struct trainer_exchange *exchange, const bool *has, size_t segments)
{
    if (exchange->world == 1)
        return;
    exchange->spread.to[LINK_NEXT].end = has[exchange->links[LINK_NEXT].peer] ? 0 : segments;
    exchange->spread.from[LINK_PREV].end = has[exchange->rank] ? 0 : segments;
}

/* Blocks go around the ring as far as to the worker before their own. */
static void route_gather(struct trainer_exchange *exchange)
{
    if (exchange->world == 1)
        return;
    exchange->gather.to[LINK_NEXT].hops = exchange->world - 1;
    exchange->gather.from[LINK_PREV].hops = exchange->world - 1;
}

/* The chunk that this worker sends first, then those that it adds to others' sums, in the order in which they
 * come. */
static bool preferred(const struct trainer_exchange *exchange, size_t index, size_t *ret_offset,
                      size_t *ret_count)
{
    const struct ring *ring = ring_of(exchange);

    if (exchange->world == 1 || index >= exchange->world)
        return false;
    const uint32_t chunk = chunk_sent_in(ring, (uint32_t)index);
    *ret_offset = chunk_offset(ring, chunk);
    *ret_count = chunk_offset(ring, chunk + 1) - *ret_offset;
    return true;
}

static void ring_free(struct trainer_exchange *exchange)
{
    struct ring *ring = (struct ring *)exchange;

    free(ring->first_segment);
    free(ring->pending);
    free(ring->arrived);
    free(ring);
}

static const struct trainer_exchange_ops ring_ops = {
    .sum = &ring_sum,
    .lay_out = lay_out,
    .ready = ready,
    .route = route,
    .route_gather = route_gather,
    .preferred = preferred,
    .free = ring_free,
};

int trainer_ring_new(const struct trainer_ring_options *options, struct trainer_exchange **ret_exchange,
                     struct mst_error *err)
{
    const uint32_t world = options->world;
    const struct exchange_settings settings = {.cancel_fd = options->cancel_fd,
                                               .timeout_ms = options->timeout_ms,
                                               .view = options->view,
                                               .job_key = options->job_key,
                                               .wire = options->wire};

    if (world > 1 && (options->fd_prev < 0 || options->fd_next < 0))
        return mst_error_set(err, -EINVAL, "a ring of %" PRIu32 " workers needs two connected sockets",
                             world);
    struct ring *ring = calloc(1, sizeof *ring);
    if (!ring)
        return mst_error_set(err, -ENOMEM, "no memory for a ring");
    const int r =
        exchange_init(&ring->base, &ring_ops, options->rank, world, &settings, world > 1 ? LINKS : 0, err);
    if (r < 0) {
        free(ring);
        return r;
    }
    ring->first_segment = calloc((size_t)world + 1, sizeof *ring->first_segment);
    ring->arrived = malloc(EXCHANGE_PAYLOAD_MAX);
    if (!ring->first_segment || !ring->arrived) {
        exchange_release(&ring->base, false);
        ring_free(&ring->base);
        return mst_error_set(err, -ENOMEM, "no memory for a ring of %" PRIu32 " workers", world);
    }
    if (world > 1) {
        exchange_set_link(&ring->base, LINK_PREV, options->fd_prev, (options->rank + world - 1) % world);
        exchange_set_link(&ring->base, LINK_NEXT, options->fd_next, (options->rank + 1) % world);
    }
    *ret_exchange = &ring->base;
    return 0;
}
