/* SPDX-License-Identifier: Apache-2.0 */
#include "frame.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
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

int exchange_frame_read(const uint8_t wire[static EXCHANGE_FRAME_BYTES], const struct exchange_frame *own,
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
        return mst_error_set(err, -EPROTO, "what it sent is not a frame");
    if (frame.job_key != own->job_key)
        return mst_error_set(err, -EPROTO, "it sent a frame of another job");
    if (frame.bytes > EXCHANGE_PAYLOAD_MAX)
        return mst_error_set(err, -EPROTO, "it sent a frame of %" PRIu32 " bytes, the limit is %d",
                             frame.bytes, EXCHANGE_PAYLOAD_MAX);
    if (frame.view > own->view)
        return mst_error_set(err, -ESTALE, "it is in view %" PRIu32 ", this worker in %" PRIu32, frame.view,
                             own->view);
    *ret_frame = frame;
    return frame.view < own->view;
}

int exchange_frame_match(const struct exchange_frame *frame, const struct exchange_frame *expected,
                         struct mst_error *err)
{
    char sent[EXCHANGE_STEP_TEXT_BYTES], wanted[EXCHANGE_STEP_TEXT_BYTES];

    if (frame->step == expected->step && frame->phase == expected->phase &&
        frame->segment == expected->segment && frame->bytes == expected->bytes)
        return 0;
    return mst_error_set(err, -EPROTO,
                         "it sent %s, phase %u, segment %u, %" PRIu32 " bytes; expected %s, phase %u, "
                         "segment %u, %" PRIu32 " bytes",
                         exchange_step_text(frame->step, sent), frame->phase, frame->segment, frame->bytes,
                         exchange_step_text(expected->step, wanted), expected->phase, expected->segment,
                         expected->bytes);
}

const char *exchange_step_text(uint64_t step, char text[static EXCHANGE_STEP_TEXT_BYTES])
{
    static const char *const purposes[] = {"", "evaluation after ", "comparison after ", "state after "};

    (void)snprintf(text, EXCHANGE_STEP_TEXT_BYTES, "%sstep %" PRIu64, purposes[step >> 62],
                   step & EXCHANGE_STEP_MAX);
    return text;
}
