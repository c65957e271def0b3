/* SPDX-License-Identifier: Apache-2.0 */
#include "protobuf.h"

#include <endian.h>
#include <string.h>

enum { WIRE_VARINT = 0, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

void protobuf_release(struct protobuf *message)
{
    mst_buf_release(&message->bytes);
}

static void append(struct protobuf *message, const void *bytes, size_t count)
{
    if (message->code == 0)
        message->code = mst_buf_append(&message->bytes, bytes, count);
}

static void append_varint(struct protobuf *message, uint64_t value)
{
    uint8_t bytes[10];
    size_t count = 0;

    do {
        bytes[count++] = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        value >>= 7;
    } while (value > 0);
    append(message, bytes, count);
}

void protobuf_number(struct protobuf *message, uint32_t field, uint64_t value)
{
    append_varint(message, (uint64_t)field << 3 | WIRE_VARINT);
    append_varint(message, value);
}

void protobuf_float(struct protobuf *message, uint32_t field, float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    bits = htole32(bits);
    append_varint(message, (uint64_t)field << 3 | WIRE_FIXED32);
    append(message, &bits, sizeof bits);
}

void protobuf_begin(struct protobuf *message, uint32_t field, size_t count)
{
    append_varint(message, (uint64_t)field << 3 | WIRE_BYTES);
    append_varint(message, count);
}

void protobuf_bytes(struct protobuf *message, uint32_t field, const void *bytes, size_t count)
{
    protobuf_begin(message, field, count);
    append(message, bytes, count);
}

void protobuf_text(struct protobuf *message, uint32_t field, const char *text)
{
    protobuf_bytes(message, field, text, strlen(text));
}

void protobuf_take(struct protobuf *message, uint32_t field, struct protobuf *inner)
{
    if (message->code == 0)
        message->code = inner->code;
    protobuf_bytes(message, field, mst_buf_text(&inner->bytes), inner->bytes.count);
    protobuf_release(inner);
}
