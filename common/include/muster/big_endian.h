/* SPDX-License-Identifier: Apache-2.0 */
/* Words in network order, most significant byte first, at any alignment. */
#ifndef MUSTER_BIG_ENDIAN_H
#define MUSTER_BIG_ENDIAN_H

#include <stdint.h>

static inline void mst_be_put_u16(uint8_t *at, uint16_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static inline void mst_be_put_u32(uint8_t *at, uint32_t value)
{
    mst_be_put_u16(at, (uint16_t)(value >> 16));
    mst_be_put_u16(at + 2, (uint16_t)value);
}

static inline void mst_be_put_u64(uint8_t *at, uint64_t value)
{
    mst_be_put_u32(at, (uint32_t)(value >> 32));
    mst_be_put_u32(at + 4, (uint32_t)value);
}

static inline uint16_t mst_be_get_u16(const uint8_t *at)
{
    return (uint16_t)(at[0] << 8 | at[1]);
}

static inline uint32_t mst_be_get_u32(const uint8_t *at)
{
    return (uint32_t)mst_be_get_u16(at) << 16 | mst_be_get_u16(at + 2);
}

static inline uint64_t mst_be_get_u64(const uint8_t *at)
{
    return (uint64_t)mst_be_get_u32(at) << 32 | mst_be_get_u32(at + 4);
}

#endif
