/* SPDX-License-Identifier: Apache-2.0 */
#include "spread.h"

/* Segments are numbered through all pieces; none lies in two. */
static size_t segments_of(size_t bytes)
{
    return (bytes + EXCHANGE_PAYLOAD_MAX - 1) / EXCHANGE_PAYLOAD_MAX;
}

static size_t link_number(const struct trainer_exchange *exchange, const struct exchange_link *link)
{
    return (size_t)(link - exchange->links);
}

/* Fills in the frame of segment `number`, and returns where its bytes lie. */
static void *segment_of(const struct trainer_exchange *exchange, size_t number,
                        struct exchange_frame *ret_frame)
{
    const struct exchange_piece *piece = exchange->spread.pieces;
    size_t rest = number;

    while (rest >= segments_of(piece->count))
        rest -= segments_of(piece++->count);
    const size_t offset = rest * EXCHANGE_PAYLOAD_MAX;
    const size_t bytes = piece->count - offset;
    ret_frame->phase = EXCHANGE_PHASE_SPREAD;
    ret_frame->segment = (uint16_t)number;
    ret_frame->bytes = (uint32_t)(bytes < EXCHANGE_PAYLOAD_MAX ? bytes : EXCHANGE_PAYLOAD_MAX);
    return (uint8_t *)piece->bytes + offset;
}

void exchange_spread_lay_out(struct trainer_exchange *exchange, const struct exchange_spread *spread)
{
    size_t segments = 0;

    for (size_t i = 0; i < EXCHANGE_MAX_PIECES; i++) {
        exchange->spread.pieces[i] = spread->pieces[i];
        segments += segments_of(spread->pieces[i].count);
    }
    for (size_t i = 0; i < exchange->link_count; i++)
        exchange->spread.to[i] = exchange->spread.from[i] = (struct exchange_range){0, 0};
    exchange->spread.have = spread->has[exchange->rank] ? segments : 0;
    exchange->ops->route(exchange, spread->has, segments);
}

static bool owes(const struct trainer_exchange *exchange, const struct exchange_link *link)
{
    const struct exchange_range *to = &exchange->spread.to[link_number(exchange, link)];
    return to->next < to->end;
}

static bool awaits(const struct trainer_exchange *exchange, const struct exchange_link *link)
{
    const struct exchange_range *from = &exchange->spread.from[link_number(exchange, link)];
    return from->next < from->end;
}

static bool next(struct trainer_exchange *exchange, struct exchange_link *link,
                 struct exchange_frame *ret_frame, const void **ret_payload)
{
    const struct exchange_range *to = &exchange->spread.to[link_number(exchange, link)];

    if (to->next >= exchange->spread.have)
        return false;
    *ret_payload = segment_of(exchange, to->next, ret_frame);
    return true;
}

static void sent(struct trainer_exchange *exchange, struct exchange_link *link)
{
    exchange->spread.to[link_number(exchange, link)].next++;
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
    *ret_payload =
        segment_of(exchange, exchange->spread.from[link_number(exchange, link)].next, ret_expected);
    return 0;
}

static void received(struct trainer_exchange *exchange, struct exchange_link *link)
{
    struct exchange_range *from = &exchange->spread.from[link_number(exchange, link)];

    if (from->next == exchange->spread.have)
        exchange->spread.have++;
    from->next++;
}

const struct exchange_traffic exchange_spread_traffic = {
    .owes = owes,
    .awaits = awaits,
    .next = next,
    .sent = sent,
    .listens = listens,
    .expect = expect,
    .received = received,
};
