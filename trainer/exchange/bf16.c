/* SPDX-License-Identifier: Apache-2.0 */
#include "bf16.h"

#include "clones.h"

#include <string.h>

static inline uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Half of the last place that stays is added, less one bit where that place is even, so that a tie goes to
 * the even neighbour; the carry may run into the exponent. A NaN whose upper half has no bit of the fraction
 * set would become infinite, and the carry could make anything of others: they get the quiet bit instead. */
static inline uint32_t nearest(uint32_t bits)
{
    const uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
    const uint32_t nan = bits | 0x00400000;

    return ((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded) >> 16;
}

TRAINER_CLONES void bf16_pack(size_t count, const float *restrict x, uint16_t *restrict y)
{
    for (size_t i = 0; i < count; i++)
        y[i] = (uint16_t)nearest(bits_of(x[i]));
}

TRAINER_CLONES void bf16_unpack(size_t count, const uint16_t *restrict x, float *restrict y)
{
    for (size_t i = 0; i < count; i++)
        y[i] = float_of((uint32_t)x[i] << 16);
}

TRAINER_CLONES void bf16_round(size_t count, float *x)
{
    for (size_t i = 0; i < count; i++)
        x[i] = float_of(nearest(bits_of(x[i])) << 16);
}
