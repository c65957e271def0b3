/* SPDX-License-Identifier: Apache-2.0 */
/* The one generator of random numbers: SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
 * generators", OOPSLA 2014). Its state is a counter, so a stream can be written down in one line, here and in
 * the script that makes reference numbers:
 *
 *     mix(z):  z ^= z >> 30; z *= 0xbf58476d1ce4e5b9; z ^= z >> 27; z *= 0x94d049bb133111eb; z ^= z >> 31
 *     start:   state = mix(seed ^ mix(stream))
 *     draw:    state += 0x9e3779b97f4a7c15; return mix(state)
 *
 * Streams keep the uses of one seed apart: adding a layer does not change the order of samples. */
#ifndef TRAINER_RNG_H
#define TRAINER_RNG_H

#include <stdint.h>

enum trainer_rng_stream {
    TRAINER_RNG_WEIGHTS = 1,    /* low word: number of the tensor in the model */
    TRAINER_RNG_ORDER = 2,      /* low word: number of the pass over the data */
    TRAINER_RNG_VALIDATION = 3, /* low word: 0 */
    TRAINER_RNG_SAMPLES = 4,    /* low word: the shard, see trainer_shard_pass() */
    TRAINER_RNG_DROPOUT = 5,    /* low word: the layer; the seed is a sample's key, as in the next */
    TRAINER_RNG_SHIFT = 6,      /* low word: 0 */
};

struct trainer_rng {
    uint64_t state;
};

/* Stream `kind` << 32 | `number`. */
void trainer_rng_init(struct trainer_rng *rng, uint64_t seed, enum trainer_rng_stream kind, uint32_t number);
uint64_t trainer_rng_next(struct trainer_rng *rng);
/* Uniform in [0, 1): the upper 24 bits of a draw, times 2^-24; exact in a float. */
float trainer_rng_float(struct trainer_rng *rng);
/* Uniform in [0, bound), bound > 0, without bias: the upper word of draw * bound, drawn again while the lower
 * word is below 2^64 mod bound (Lemire, "Fast random integer generation in an interval", ACM TOMACS 29,
 * 2019). */
uint64_t trainer_rng_below(struct trainer_rng *rng, uint64_t bound);

#endif
