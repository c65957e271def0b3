/* SPDX-License-Identifier: Apache-2.0 */
#include "rng.h"

#include <assert.h>

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void trainer_rng_init(struct trainer_rng *rng, uint64_t seed, enum trainer_rng_stream kind, uint32_t number)
{
    rng->state = mix(seed ^ mix((uint64_t)kind << 32 | number));
}

uint64_t trainer_rng_next(struct trainer_rng *rng)
{
    rng->state += 0x9e3779b97f4a7c15u;
    return mix(rng->state);
}

float trainer_rng_float(struct trainer_rng *rng)
{
    return (float)(trainer_rng_next(rng) >> 40) * 0x1p-24f;
}

uint64_t trainer_rng_below(struct trainer_rng *rng, uint64_t bound)
{
    assert(bound > 0);
    for (;;) {
        const unsigned __int128 product = (unsigned __int128)trainer_rng_next(rng) * bound;
        const uint64_t low = (uint64_t)product;
        /* 2^64 mod bound is below bound: the division is needed only where it could matter. */
        if (low >= bound || low >= (0 - bound) % bound)
            return (uint64_t)(product >> 64);
    }
}
