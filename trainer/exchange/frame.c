/* SPDX-License-Identifier: Apache-2.0 */
#include "frame.h"

#include <endian.h>
#include <inttypes.h>
#include <string.h>

#define MAGIC "MSTF"

static void put_u16(uint8_t *to, uint16_t value)
{
    value = htole16(value);
    memcpy(to, &value, sizeof value);
}

static void put_u32(uint8_t *to, uint32_t value)
{
    value = htole32(value);
    memcpy(to, &value, sizeof value);
}

static void put_u64(uint8_t *to, uint64_t value)
{
    value = htole64(value);
    memcpy(to, &value, sizeof value);
}

static uint16_t get_u16(const uint8_t *from)
{
    uint16_t value;
    memcpy(&value, from, sizeof value);
    return le16toh(value);
}

static uint32_t get_u32(const uint8_t *from)
{
    uint32_t value;
    memcpy(&value, from, sizeof value);
    return le32toh(value);
}

static uint64_t get_u64(const uint8_t *from)
{
    uint64_t value;
    memcpy(&value, from, sizeof value);
    return le64toh(value);
}

void exchange_frame_write(const struct exchange_frame *frame, uint8_t ret_wire[static EXCHANGE_FRAME_BYTES])
{
    memcpy(ret_wire, MAGIC, 4);
    put_u32(ret_wire + 4, frame->view);
    put_u64(ret_wire + 8, frame->job_key);
    put_u64(ret_wire + 16, frame->step);
    put_u16(ret_wire + 24, frame->phase);
    put_u16(ret_wire + 26, frame->segment);
    put_u32(ret_wire + 28, frame->bytes);
}

int exchange_frame_read(const uint8_t wire[static EXCHANGE_FRAME_BYTES],
                        const struct exchange_frame *expected, uint32_t max_bytes,
                        struct exchange_frame *ret_frame, struct mst_error *err)
{
    const struct exchange_frame frame = {
        .view = get_u32(wire + 4),
        .job_key = get_u64(wire + 8),
        .step = get_u64(wire + 16),
        .phase = get_u16(wire + 24),
        .segment = get_u16(wire + 26),
        .bytes = get_u32(wire + 28),
    };

    if (memcmp(wire, MAGIC, 4) != 0)
        return mst_error_set(err, -EPROTO, "what the previous worker sent is not a frame");
    if (frame.job_key != expected->job_key)
        return mst_error_set(err, -EPROTO, "the previous worker sent a frame of another job");
    if (frame.bytes > max_bytes)
        return mst_error_set(err, -EPROTO,
                             "the previous worker sent a frame of %" PRIu32 " bytes, the limit is %" PRIu32,
                             frame.bytes, max_bytes);
    if (frame.view > expected->view)
        return mst_error_set(err, -ESTALE, "the previous worker is in view %" PRIu32 ", this one in %" PRIu32,
                             frame.view, expected->view);
    if (frame.view == expected->view &&
        (frame.step != expected->step || frame.phase != expected->phase ||
         frame.segment != expected->segment || frame.bytes != expected->bytes))
        return mst_error_set(err, -EPROTO,
                             "the previous worker sent step %" PRIu64 ", phase %u, segment %u, %" PRIu32
                             " bytes; expected step %" PRIu64 ", phase %u, segment %u, %" PRIu32 " bytes",
                             frame.step, frame.phase, frame.segment, frame.bytes, expected->step,
                             expected->phase, expected->segment, expected->bytes);
    *ret_frame = frame;
    return frame.view < expected->view;
}
