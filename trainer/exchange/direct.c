/* SPDX-License-Identifier: Apache-2.0 */
/* The direct sum: every place of the vector has one worker, its owner, to which all others send their parts,
 * and which sends the sum to all others.
 *
 * The vector is cut into segments, numbered from its end, which backward makes final first; segment n belongs
 * to rank n mod world, so that each slice that becomes final gives every owner something to do. The owner
 * adds the parts of a segment in the order of their shards, from 0, whichever comes first. A part that comes
 * before its turn is held, and nothing more is read from its sender until it was added.
 *
 * That cannot end in a circle of workers that wait for each other. Each worker sends its parts to an owner by
 * (shard, segment); of those that an owner has not added yet, the smallest by this order is always the next
 * that its holder sends there, and never has to be held. Sums, which may stand between them in the stream,
 * are taken at any time: by then the owner has this worker's parts, so that their memory is free for the sum.
 *
 * A wire that rounds does so twice: to each part, an owner's own ones included, so that the sum does not
 * depend on who has which shard; and to the sum. */
#include "arena.h"
#include "kernels.h"
#include "wire.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Parts on their way between two workers, by shard and then by segment. */
struct cursor {
    size_t part;  /* of the sender's; all are through when it is their number */
    size_t index; /* of the owner's segments */
};

struct peer {
    struct cursor give, take;      /* parts of ours for it, and of its for us */
    size_t sums_given, sums_taken; /* sums of our segments, and of its segments */
    bool giving_sum, taking_sum;   /* what the frame under way is */
    bool held;                     /* a part of its waits for its turn, in its place in `arrived` */
};

struct direct {
    struct trainer_exchange base;
    struct peer *peers;                              /* by rank */
    size_t segment_floats, segment_count, own_count; /* of the sum under way */
    /* Each with room for the largest sum so far: */
    size_t *pending; /* [part][segment]: floats that are not final yet */
    uint32_t *added; /* by index of our segments: shards added so far */
    float *sums;     /* of our segments, until the last shard was added */
    float *arrived;  /* a segment for each rank */
    size_t pending_room, added_room, sums_room, arrived_room;
};

struct segment {
    size_t number, offset, count;
};

static const struct direct *direct_of(const struct trainer_exchange *exchange)
{
    return (const struct direct *)exchange;
}

static uint32_t parts_of(const struct direct *direct, uint32_t rank)
{
    return (direct->base.sum.shards - rank + direct->base.world - 1) / direct->base.world;
}

static size_t segments_of(const struct direct *direct, uint32_t owner)
{
    return (direct->segment_count + direct->base.world - 1 - owner) / direct->base.world;
}

static struct segment segment_at(const struct direct *direct, size_t number)
{
    const size_t end = direct->base.sum.count - number * direct->segment_floats;
    const size_t count = end < direct->segment_floats ? end : direct->segment_floats;

    return (struct segment){.number = number, .offset = end - count, .count = count};
}

static struct segment segment_of(const struct direct *direct, uint32_t owner, size_t index)
{
    return segment_at(direct, owner + index * direct->base.world);
}

static size_t *pending_of(const struct direct *direct, size_t part, size_t number)
{
    return &direct->pending[part * direct->segment_count + number];
}

static float *arrived_from(const struct direct *direct, uint32_t rank)
{
    return direct->arrived + rank * direct->segment_floats;
}

/* ---- adding up ----------------------------------------------------------------------------------------- */

/* Where shard `shard`, the next in the order, of our segment `index` is by now: NULL when it is not here or
 * not final. */
static const float *find_part(struct direct *direct, uint32_t shard, size_t index)
{
    const uint32_t rank = shard % direct->base.world;
    const size_t part = shard / direct->base.world;
    const struct peer *peer = &direct->peers[rank];
    const struct segment segment = segment_of(direct, direct->base.rank, index);

    if (rank == direct->base.rank)
        return *pending_of(direct, part, segment.number) == 0 ? direct->base.sum.parts[part] + segment.offset
                                                              : NULL;
    if (!peer->held || peer->take.index != index)
        return NULL;
    assert(peer->take.part == part); /* a worker's parts of a segment come in the order of its shards */
    return arrived_from(direct, rank);
}

static void advance(struct cursor *cursor, size_t segments)
{
    if (++cursor->index >= segments)
        *cursor = (struct cursor){.part = cursor->part + 1};
}

static void let_go(struct direct *direct, uint32_t rank)
{
    if (rank == direct->base.rank)
        return;
    direct->peers[rank].held = false;
    advance(&direct->peers[rank].take, direct->own_count);
}

/* Add the part of the next shard to our segment. The last sum goes where it is wanted, which may be where the
 * part lies: to add is to add the other way round. */
static void add_part(struct direct *direct, size_t index, const struct segment *segment, const float *part)
{
    const struct trainer_sum *sum = &direct->base.sum;
    float *to = direct->sums + index * direct->segment_floats, *place = sum->parts[0] + segment->offset;

    if (direct->added[index] == 0)
        kernel_add_to_zero(segment->count, part, to);
    else if (direct->added[index] + 1 < sum->shards)
        kernel_add(segment->count, part, to);
    else if (part == place)
        kernel_add(segment->count, to, place);
    else
        kernel_sum(segment->count, to, part, place);
    direct->added[index]++;
}

/* Add to our segment `index` whatever is next in the order of shards, and here. */
static void add_up(struct direct *direct, size_t index)
{
    const uint32_t shards = direct->base.sum.shards;
    const struct segment segment = segment_of(direct, direct->base.rank, index);
    const float *part;

    while (direct->added[index] < shards && (part = find_part(direct, direct->added[index], index)) != NULL) {
        const uint32_t rank = direct->added[index] % direct->base.world;
        add_part(direct, index, &segment, part);
        let_go(direct, rank);
        if (direct->added[index] < shards)
            continue;
        exchange_wire_round(&direct->base, segment.offset, segment.count,
                            direct->base.sum.parts[0] + segment.offset);
        exchange_landed(&direct->base, segment.offset, segment.count);
    }
}

/* With one worker a place is added as soon as it is final, so that its parts may all lie in the same memory:
 * they come one after the other, in the order of shards. */
static void add_alone(struct direct *direct, size_t part, size_t offset, size_t count)
{
    const struct trainer_sum *sum = &direct->base.sum;

    exchange_wire_round(&direct->base, offset, count, sum->parts[part] + offset);
    if (part == 0)
        kernel_add_to_zero(count, sum->parts[part] + offset, direct->sums + offset);
    else
        kernel_add(count, sum->parts[part] + offset, direct->sums + offset);
    if (part + 1 == sum->part_count) {
        memcpy(sum->parts[0] + offset, direct->sums + offset, count * sizeof *direct->sums);
        exchange_wire_round(&direct->base, offset, count, sum->parts[0] + offset);
        exchange_landed(&direct->base, offset, count);
    }
}

static void ready(struct trainer_exchange *exchange, size_t part, size_t offset, size_t count)
{
    struct direct *direct = (struct direct *)exchange;
    const size_t total = exchange->sum.count, floats = direct->segment_floats;

    if (count == 0)
        return;
    if (exchange->world == 1) {
        add_alone(direct, part, offset, count);
        return;
    }
    for (size_t number = (total - offset - count) / floats; number <= (total - 1 - offset) / floats;
         number++) {
        const struct segment segment = segment_at(direct, number);
        const size_t end_given = offset + count, end_segment = segment.offset + segment.count;
        const size_t first = offset > segment.offset ? offset : segment.offset;
        const size_t end = end_given < end_segment ? end_given : end_segment;
        size_t *pending = pending_of(direct, part, number);
        assert(end > first && *pending >= end - first);
        *pending -= end - first;
        if (*pending > 0 || number % exchange->world != exchange->rank)
            continue;
        exchange_wire_round(exchange, segment.offset, segment.count,
                            exchange->sum.parts[part] + segment.offset);
        add_up(direct, number / exchange->world);
    }
}

/* ---- on the links -------------------------------------------------------------------------------------- */

static bool owes(const struct trainer_exchange *exchange, const struct exchange_link *link)
{
    const struct direct *direct = direct_of(exchange);
    const struct peer *peer = &direct->peers[link->peer];

    return link->peer != exchange->rank &&
           (peer->give.part < exchange->sum.part_count || peer->sums_given < direct->own_count);
}

static bool awaits(const struct trainer_exchange *exchange, const struct exchange_link *link)
{
    const struct direct *direct = direct_of(exchange);
    const struct peer *peer = &direct->peers[link->peer];

    return link->peer != exchange->rank && (peer->take.part < parts_of(direct, link->peer) ||
                                            peer->sums_taken < segments_of(direct, link->peer));
}

static void fill_frame(const struct direct *direct, uint32_t sender, bool is_sum, size_t part,
                       const struct segment *segment, struct exchange_frame *ret_frame)
{
    const uint32_t world = direct->base.world;

    ret_frame->phase = (uint16_t)(is_sum ? EXCHANGE_PHASE_SUM : sender + part * world);
    ret_frame->segment = (uint16_t)(segment->number / world);
    exchange_wire_measure(&direct->base, segment->offset, segment->count, ret_frame);
}

static bool next(struct trainer_exchange *exchange, struct exchange_link *link,
                 struct exchange_frame *ret_frame, const void **ret_payload)
{
    struct direct *direct = (struct direct *)exchange;
    struct peer *peer = &direct->peers[link->peer];
    const struct trainer_sum *sum = &exchange->sum;

    /* Sums first: updates are made from them while the rest is still under way. */
    peer->giving_sum = peer->sums_given < direct->own_count && direct->added[peer->sums_given] == sum->shards;
    if (!peer->giving_sum && peer->give.part >= sum->part_count)
        return false;
    const size_t part = peer->giving_sum ? 0 : peer->give.part;
    const struct segment segment = peer->giving_sum ? segment_of(direct, exchange->rank, peer->sums_given)
                                                    : segment_of(direct, link->peer, peer->give.index);
    if (!peer->giving_sum && *pending_of(direct, part, segment.number) > 0)
        return false;
    fill_frame(direct, exchange->rank, peer->giving_sum, part, &segment, ret_frame);
    *ret_payload = sum->parts[part] + segment.offset;
    return true;
}

static void sent(struct trainer_exchange *exchange, struct exchange_link *link)
{
    struct direct *direct = (struct direct *)exchange;
    struct peer *peer = &direct->peers[link->peer];

    if (peer->giving_sum)
        peer->sums_given++;
    else
        advance(&peer->give, segments_of(direct, link->peer));
}

static bool listens(const struct trainer_exchange *exchange, const struct exchange_link *link)
{
    return !direct_of(exchange)->peers[link->peer].held;
}

static int expect(struct trainer_exchange *exchange, struct exchange_link *link,
                  struct exchange_frame *ret_expected, void **ret_payload, struct mst_error *err)
{
    struct direct *direct = (struct direct *)exchange;
    struct peer *peer = &direct->peers[link->peer];
    const bool more_sums = peer->sums_taken < segments_of(direct, link->peer);
    const bool more_parts = peer->take.part < parts_of(direct, link->peer);

    peer->taking_sum = more_sums && (link->in.frame.phase == EXCHANGE_PHASE_SUM || !more_parts);
    const struct segment segment = peer->taking_sum ? segment_of(direct, link->peer, peer->sums_taken)
                                                    : segment_of(direct, exchange->rank, peer->take.index);
    fill_frame(direct, link->peer, peer->taking_sum, peer->take.part, &segment, ret_expected);
    *ret_payload = arrived_from(direct, link->peer);
    if (!peer->taking_sum)
        return 0;
    /* It would be written over parts that are still to be sent. */
    if (peer->give.part + 1 < exchange->sum.part_count ||
        (peer->give.part + 1 == exchange->sum.part_count && peer->give.index <= peer->sums_taken))
        return mst_error_set(err, -EPROTO, "it sent the sum of segment %zu before it had all parts of it",
                             peer->sums_taken);
    *ret_payload = exchange->sum.parts[0] + segment.offset;
    return 0;
}

static void received(struct trainer_exchange *exchange, struct exchange_link *link)
{
    struct direct *direct = (struct direct *)exchange;
    struct peer *peer = &direct->peers[link->peer];

    if (!peer->taking_sum) {
        peer->held = true;
        add_up(direct, peer->take.index);
        return;
    }
    const struct segment segment = segment_of(direct, link->peer, peer->sums_taken);
    peer->sums_taken++;
    exchange_landed(exchange, segment.offset, segment.count);
}

static const struct exchange_traffic direct_sum = {
    .owes = owes,
    .awaits = awaits,
    .next = next,
    .sent = sent,
    .listens = listens,
    .expect = expect,
    .received = received,
};

/* ---- before and after -----------------------------------------------------------------------------------
 */

/* As many segments for each owner, none too large for a frame. */
static void cut(struct direct *direct)
{
    const size_t count = direct->base.sum.count, world = direct->base.world;
    const size_t rounds = (count + world * EXCHANGE_SEGMENT_FLOATS - 1) / (world * EXCHANGE_SEGMENT_FLOATS);

    direct->segment_floats = count > 0 ? (count + world * rounds - 1) / (world * rounds) : 1;
    direct->segment_count = (count + direct->segment_floats - 1) / direct->segment_floats;
    direct->own_count = segments_of(direct, direct->base.rank);
}

/* Its content is of no interest. */
static bool grow(void **memory, size_t *room, size_t bytes)
{
    if (bytes <= *room)
        return true;
    free(*memory);
    *memory = malloc(bytes);
    *room = *memory ? bytes : 0;
    return *memory != NULL;
}

static int lay_out(struct trainer_exchange *exchange, struct mst_error *err)
{
    struct direct *direct = (struct direct *)exchange;
    const struct trainer_sum *sum = &exchange->sum;

    assert(sum->shards >= exchange->world && sum->part_count == parts_of(direct, exchange->rank));
    cut(direct);
    const size_t segment_bytes = direct->segment_floats * sizeof(float);
    if (!grow((void **)&direct->pending, &direct->pending_room,
              sum->part_count * direct->segment_count * sizeof *direct->pending) ||
        !grow((void **)&direct->added, &direct->added_room, direct->own_count * sizeof *direct->added) ||
        !grow((void **)&direct->sums, &direct->sums_room, direct->own_count * segment_bytes) ||
        (exchange->world > 1 &&
         !grow((void **)&direct->arrived, &direct->arrived_room, exchange->world * segment_bytes)))
        return mst_error_set(err, -ENOMEM, "no memory for a sum of %zu floats", sum->count);
    for (size_t part = 0; part < sum->part_count; part++) {
        for (size_t n = 0; n < direct->segment_count; n++)
            *pending_of(direct, part, n) = segment_at(direct, n).count;
    }
    for (size_t index = 0; index < direct->own_count; index++)
        direct->added[index] = 0;
    for (uint32_t rank = 0; rank < exchange->world; rank++)
        direct->peers[rank] = (struct peer){
            .give.part = segments_of(direct, rank) > 0 ? 0 : sum->part_count,
            .take.part = direct->own_count > 0 ? 0 : parts_of(direct, rank),
        };
    return 0;
}

/* Each that has the state sends its share of it to each that does not. */
static void route(struct trainer_exchange *exchange, const bool *has, size_t segments)
{
    size_t holders = 0, before_us = 0, before_peer = 0;

    for (uint32_t rank = 0; rank < exchange->world; rank++) {
        holders += has[rank];
        before_us += has[rank] && rank < exchange->rank;
    }
    for (uint32_t rank = 0; rank < exchange->world; rank++) {
        if (has[exchange->rank] && !has[rank])
            exchange->spread.to[rank] =
                (struct exchange_range){segments * before_us / holders, segments * (before_us + 1) / holders};
        if (!has[exchange->rank] && has[rank])
            exchange->spread.from[rank] = (struct exchange_range){segments * before_peer / holders,
                                                                  segments * (before_peer + 1) / holders};
        before_peer += has[rank];
    }
}

/* Everybody's blocks come from himself. */
static void route_gather(struct trainer_exchange *exchange)
{
    for (uint32_t rank = 0; rank < exchange->world; rank++)
        exchange->gather.to[rank].hops = exchange->gather.from[rank].hops = rank != exchange->rank;
}

static void direct_free(struct trainer_exchange *exchange)
{
    struct direct *direct = (struct direct *)exchange;

    free(direct->peers);
    free(direct->pending);
    free(direct->added);
    free(direct->sums);
    free(direct->arrived);
    free(direct);
}

static const struct trainer_exchange_ops direct_ops = {
    .sum = &direct_sum,
    .keeps_parts = true,
    .lay_out = lay_out,
    .ready = ready,
    .route = route,
    .route_gather = route_gather,
    .free = direct_free,
};

static int check_options(const struct trainer_direct_options *options, struct mst_error *err)
{
    if (options->shards < options->world || options->shards > TRAINER_MAX_WORLD)
        return mst_error_set(err, -EINVAL,
                             "a direct exchange of %" PRIu32 " workers with %" PRIu32
                             " shards, expected at least one for each and at most %d",
                             options->world, options->shards, TRAINER_MAX_WORLD);
    for (uint32_t rank = 0; rank < options->world; rank++) {
        if (rank != options->rank && options->fds[rank] < 0)
            return mst_error_set(err, -EINVAL, "a direct exchange needs a connected socket to rank %" PRIu32,
                                 rank);
    }
    return 0;
}

int trainer_direct_new(const struct trainer_direct_options *options, struct trainer_exchange **ret_exchange,
                       struct mst_error *err)
{
    const uint32_t world = options->world;
    const struct exchange_settings settings = {.cancel_fd = options->cancel_fd,
                                               .timeout_ms = options->timeout_ms,
                                               .view = options->view,
                                               .job_key = options->job_key,
                                               .wire = options->wire};
    struct direct *direct = calloc(1, sizeof *direct);

    if (!direct)
        return mst_error_set(err, -ENOMEM, "no memory for a direct exchange");
    int r = exchange_init(&direct->base, &direct_ops, options->rank, world, &settings, world, err);
    if (r < 0) {
        free(direct);
        return r;
    }
    direct->base.shards = options->shards;
    direct->peers = calloc(world, sizeof *direct->peers);
    r = direct->peers ? check_options(options, err)
                      : mst_error_set(err, -ENOMEM, "no memory for %" PRIu32 " workers", world);
    if (r < 0) {
        exchange_release(&direct->base, false);
        direct_free(&direct->base);
        return r;
    }
    for (uint32_t rank = 0; rank < world; rank++)
        exchange_set_link(&direct->base, rank, rank == options->rank ? -1 : options->fds[rank], rank);
    *ret_exchange = &direct->base;
    return 0;
}
