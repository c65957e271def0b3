/* SPDX-License-Identifier: Apache-2.0 */
/* The recording's layout (docs/muster-monitor.md has it in words), shared by the writer and the reader.
 *
 *   header   "MUSTERRC", u32 version, u32 bytes of what follows, texts (program version, node), u32 checksum
 * of all before blocks   a header of 48 bytes and a payload packed by zlib: some passes, the first of which
 * depends on nothing before it, so that a block can be read alone index    at the end of a file that was
 * closed: a block of its own kind, then where it begins
 *
 * Numbers are little-endian; in payloads they are varints (7 bits a byte, the lowest first), differences with
 * the sign in the lowest bit. A block is written with one call after it is full or some seconds old; whatever
 * happens then costs that block at most. */
#ifndef MONITORING_RECORD_FORMAT_H
#define MONITORING_RECORD_FORMAT_H

#include "muster/buf.h"
#include "muster/monitor.h"

#include <stdint.h>
#include <string.h>

#define RECORD_MAGIC            "MUSTERRC"
#define RECORD_VERSION          1U
#define RECORD_HEADER_MAX_BYTES 4096
#define RECORD_BLOCK_MAGIC      0x314b4c42U /* "BLK1" */
#define RECORD_INDEX_MAGIC      0x31584449U /* "IDX1" */
#define RECORD_TRAILER_MAGIC    0x45584449U /* "IDXE" */
#define RECORD_BLOCK_HEADER     48
#define RECORD_TRAILER          16
#define RECORD_INDEX_ENTRY      32
#define RECORD_PAYLOAD_MAX      ((size_t)64 << 20) /* unpacked: a pass over 4096 containers is about 8 MiB */
#define RECORD_PASSES_MAX       65536              /* of a block */
#define RECORD_CONTAINERS_MAX   8192               /* known to a block */
#define RECORD_TEXT_MAX         8192

struct record_block {
    uint32_t magic, stored_bytes, raw_bytes, passes;
    double first_s, last_s; /* wall clock of the first and the last pass */
    uint64_t sequence;      /* 0, 1, ... in the file */
    uint32_t checksum;      /* of the stored payload, CRC-32 */
};

static inline void record_put32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static inline void record_put64(uint8_t *at, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static inline uint32_t record_get32(const uint8_t *at)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++)
        value |= (uint32_t)at[i] << (8 * i);
    return value;
}

static inline uint64_t record_get64(const uint8_t *at)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

static inline uint64_t record_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline double record_double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The difference so that small ones of both signs are small. */
static inline uint64_t record_zigzag(uint64_t now, uint64_t before)
{
    const uint64_t difference = now - before;
    return (difference << 1) ^ (0 - (difference >> 63));
}

static inline uint64_t record_unzigzag(uint64_t code, uint64_t before)
{
    return before + ((code >> 1) ^ (0 - (code & 1)));
}

void record_block_write(const struct record_block *block, uint8_t bytes[static RECORD_BLOCK_HEADER]);
/* False for what is none, by its own checksum. */
bool record_block_read(const uint8_t bytes[static RECORD_BLOCK_HEADER], struct record_block *ret_block);

/* The u64 members of a sample, an interface, a device, ... that are recorded, as offsets. An order once
 * written stays: new members go last. */
struct record_fields {
    const uint16_t *offsets;
    size_t count;
};
extern const struct record_fields record_sample_fields, record_interface_fields, record_device_fields,
    record_filesystem_fields, record_self_fields, record_training_fields, record_machine_fields;

static inline uint64_t record_field(const void *object, uint16_t offset)
{
    uint64_t value;
    memcpy(&value, (const char *)object + offset, sizeof value);
    return value;
}

static inline void record_set_field(void *object, uint16_t offset, uint64_t value)
{
    memcpy((char *)object + offset, &value, sizeof value);
}

#endif
