/* SPDX-License-Identifier: Apache-2.0 */
#include "gather.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

static_assert(EXCHANGE_PHASE_GATHER + EXCHANGE_GATHERS * TRAINER_MAX_WORLD <= EXCHANGE_PHASE_SUM,
              "phases of gathers are no others");

static struct exchange_passage *passage_to(const struct trainer_exchange *exchange,
                                           const struct exchange_link *link)
{
    return &exchange->gather.to[link - exchange->links];
}

static struct exchange_passage *passage_from(const struct trainer_exchange *exchange,
                                             const struct exchange_link *link)
{
    return &exchange->gather.from[link - exchange->links];
}

static bool is_through(const struct exchange_passage *passage)
{
    return passage->hop >= passage->hops;
}

/* To the first shard of the rank whose turn it is. */
static void enter_hop(const struct trainer_exchange *exchange, uint32_t beginning,
                      struct exchange_passage *passage)
{
    passage->shard = (beginning + exchange->world - passage->hop % exchange->world) % exchange->world;
    passage->segment = 0;
}

static size_t segment_offset(const struct exchange_passage *passage)
{
    return passage->segment * EXCHANGE_SEGMENT_FLOATS;
}

static size_t segment_count(const struct trainer_exchange *exchange, const struct exchange_passage *passage)
{
    const size_t left = exchange->gather.request.block_floats - segment_offset(passage);

    return left < EXCHANGE_SEGMENT_FLOATS ? left : EXCHANGE_SEGMENT_FLOATS;
}

static void advance(const struct trainer_exchange *exchange, uint32_t beginning,
                    struct exchange_passage *passage)
{
    passage->segment++;
    if (segment_offset(passage) < exchange->gather.request.block_floats)
        return;
    passage->segment = 0;
    passage->shard += exchange->world;
    if (passage->shard < exchange->gather.request.shards)
        return;
    passage->hop++;
    enter_hop(exchange, beginning, passage);
}

static float *fill_frame(const struct trainer_exchange *exchange, const struct exchange_passage *passage,
                         struct exchange_frame *ret_frame)
{
    const struct trainer_gather *gather = &exchange->gather.request;

    ret_frame->phase =
        (uint16_t)(EXCHANGE_PHASE_GATHER + gather->number * TRAINER_MAX_WORLD + passage->shard);
    ret_frame->segment = (uint16_t)passage->segment;
    ret_frame->bytes = (uint32_t)(segment_count(exchange, passage) * sizeof(float));
    return gather->values + passage->shard * gather->block_floats + segment_offset(passage);
}

int exchange_gather_lay_out(struct trainer_exchange *exchange, const struct trainer_gather *gather,
                            struct mst_error *err)
{
    assert(gather->block_floats <= TRAINER_MODEL_MAX_PARAMETERS);
    if (gather->shards < exchange->world || gather->shards > TRAINER_MAX_WORLD ||
        gather->number >= EXCHANGE_GATHERS)
        return mst_error_set(err, -EINVAL,
                             "gather %" PRIu32 " of a step, of %" PRIu32
                             " shards: expected at most %d, and %" PRIu32 " to %d shards",
                             gather->number, gather->shards, EXCHANGE_GATHERS - 1, exchange->world,
                             TRAINER_MAX_WORLD);
    if (gather->shards > exchange->gather.filled_room) {
        size_t *grown = realloc(exchange->gather.filled, gather->shards * sizeof *grown);
        if (!grown)
            return mst_error_set(err, -ENOMEM, "no memory for %" PRIu32 " shards", gather->shards);
        exchange->gather.filled = grown;
        exchange->gather.filled_room = gather->shards;
    }
    for (uint32_t shard = 0; shard < gather->shards; shard++)
        exchange->gather.filled[shard] = 0;
    exchange->gather.request = *gather;
    for (size_t i = 0; i < exchange->link_count; i++)
        exchange->gather.to[i] = exchange->gather.from[i] = (struct exchange_passage){0};
    if (gather->block_floats > 0)
        exchange->ops->route_gather(exchange);
    for (size_t i = 0; i < exchange->link_count; i++) {
        enter_hop(exchange, exchange->rank, &exchange->gather.to[i]);
        enter_hop(exchange, exchange->links[i].peer, &exchange->gather.from[i]);
    }
    return 0;
}

void exchange_gather_fill(struct trainer_exchange *exchange, uint32_t shard, size_t offset, size_t count)
{
    assert(shard < exchange->gather.request.shards && shard % exchange->world == exchange->rank);
    assert(offset == exchange->gather.filled[shard] &&
           count <= exchange->gather.request.block_floats - offset);
    exchange->gather.filled[shard] = offset + count;
}

static bool owes(const struct trainer_exchange *exchange, const struct exchange_link *link)
{
    return !is_through(passage_to(exchange, link));
}

static bool awaits(const struct trainer_exchange *exchange, const struct exchange_link *link)
{
    return !is_through(passage_from(exchange, link));
}

static bool next(struct trainer_exchange *exchange, struct exchange_link *link,
                 struct exchange_frame *ret_frame, const void **ret_payload)
{
    const struct exchange_passage *passage = passage_to(exchange, link);

    if (exchange->gather.filled[passage->shard] < segment_offset(passage) + segment_count(exchange, passage))
        return false;
    *ret_payload = fill_frame(exchange, passage, ret_frame);
    return true;
}

static void sent(struct trainer_exchange *exchange, struct exchange_link *link)
{
    advance(exchange, exchange->rank, passage_to(exchange, link));
}

static bool listens(const struct trainer_exchange *exchange, const struct exchange_link *link)
{
    (void)exchange;
    (void)link;
    return true;
}

static int expect(struct trainer_exchange *exchange, struct exchange_link *link,
                  struct exchange_frame *ret_expected, void **ret_payload, struct mst_error *err)
{
    (void)err;
    *ret_payload = fill_frame(exchange, passage_from(exchange, link), ret_expected);
    return 0;
}

static void received(struct trainer_exchange *exchange, struct exchange_link *link)
{
    const struct trainer_gather *gather = &exchange->gather.request;
    struct exchange_passage *passage = passage_from(exchange, link);
    const uint32_t shard = passage->shard;
    const size_t offset = segment_offset(passage), count = segment_count(exchange, passage);

    exchange->gather.filled[shard] = offset + count;
    advance(exchange, link->peer, passage);
    if (gather->landed)
        gather->landed(gather->context, shard, offset, count);
}

const struct exchange_traffic exchange_gather_traffic = {
    .owes = owes,
    .awaits = awaits,
    .next = next,
    .sent = sent,
    .listens = listens,
    .expect = expect,
    .received = received,
};
