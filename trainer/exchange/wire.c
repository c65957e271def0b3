/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

#include "bf16.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { OUT, IN, WAYS };

int exchange_wire_init(struct trainer_exchange *exchange, struct mst_error *err)
{
    if (exchange->settings.wire != TRAINER_WIRE_F32 && exchange->settings.wire != TRAINER_WIRE_BF16)
        return mst_error_set(err, -EINVAL, "an exchange has no wire format %d", (int)exchange->settings.wire);
    if (exchange->settings.wire == TRAINER_WIRE_F32 || exchange->link_count == 0)
        return 0;
    exchange->packed = malloc(exchange->link_count * WAYS * EXCHANGE_PAYLOAD_MAX);
    return exchange->packed ? 0
                            : mst_error_set(err, -ENOMEM, "no memory for an exchange of %" PRIu32 " workers",
                                            exchange->world);
}

static uint8_t *packed_of(const struct trainer_exchange *exchange, size_t link, size_t way)
{
    return exchange->packed + (link * WAYS + way) * EXCHANGE_PAYLOAD_MAX;
}

/* Of `count` places from `offset` on, the first so many may be rounded. */
static size_t rounded_of(const struct trainer_exchange *exchange, size_t offset, size_t count)
{
    const size_t end = exchange->settings.wire == TRAINER_WIRE_BF16 ? exchange->sum.rounded : 0;
    const size_t left = end > offset ? end - offset : 0;

    return left < count ? left : count;
}

void exchange_wire_measure(const struct trainer_exchange *exchange, size_t offset, size_t count,
                           struct exchange_frame *frame)
{
    const size_t rounded = rounded_of(exchange, offset, count);

    frame->rounded = (uint32_t)rounded;
    frame->bytes = (uint32_t)(rounded * sizeof(uint16_t) + (count - rounded) * sizeof(float));
}

void exchange_wire_round(const struct trainer_exchange *exchange, size_t offset, size_t count, float *floats)
{
    const size_t rounded = rounded_of(exchange, offset, count);

    if (rounded > 0)
        bf16_round(rounded, floats);
}

static size_t exact_bytes(const struct exchange_frame *frame)
{
    return frame->bytes - frame->rounded * sizeof(uint16_t);
}

const void *exchange_wire_pack(const struct trainer_exchange *exchange, size_t link,
                               const struct exchange_frame *frame, const void *floats)
{
    uint8_t *packed;

    if (frame->rounded == 0)
        return floats;
    packed = packed_of(exchange, link, OUT);
    memcpy(packed, (const float *)floats + frame->rounded, exact_bytes(frame));
    bf16_pack(frame->rounded, floats, (uint16_t *)(void *)(packed + exact_bytes(frame)));
    return packed;
}

void *exchange_wire_landing(const struct trainer_exchange *exchange, size_t link,
                            const struct exchange_frame *expected, void *floats)
{
    return expected->rounded > 0 ? packed_of(exchange, link, IN) : floats;
}

void exchange_wire_unpack(const struct trainer_exchange *exchange, size_t link,
                          const struct exchange_frame *expected, void *floats)
{
    const uint8_t *packed;

    if (expected->rounded == 0)
        return;
    packed = packed_of(exchange, link, IN);
    bf16_unpack(expected->rounded, (const uint16_t *)(const void *)(packed + exact_bytes(expected)), floats);
    memcpy((float *)floats + expected->rounded, packed, exact_bytes(expected));
}
