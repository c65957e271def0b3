/* SPDX-License-Identifier: Apache-2.0 */
/* Which samples a step takes: a pure function of (seed, step, shard), so that a worker that joins, or takes
 * over a shard, needs no history.
 *
 * Passes over the data are numbered from 0; each has a permutation of its own, from the seed and its number.
 * All passes laid end to end make one endless sequence, and step s of V shards with b samples each takes its
 * places [s * V * b, (s + 1) * V * b), shard v the v-th part of those. Epochs are only a count of steps: they
 * do not start the permutation again, so no sample is seen twice before all were seen once.
 *
 * A permutation is a Fisher-Yates shuffle of 0, 1, ..., count - 1 that goes from the last place down, with
 * the stream TRAINER_RNG_ORDER of the pass. */
#ifndef TRAINER_ORDER_H
#define TRAINER_ORDER_H

#include "muster/error.h"

#include <stddef.h>
#include <stdint.h>

struct trainer_order {
    uint64_t seed;
    uint32_t count; /* of samples in a pass, at least 1 */
    /* The permutations of two passes, for a batch may begin in one and end in the next. Only a cache. */
    uint32_t *permutations[2];
    uint64_t passes[2];
};

int trainer_order_init(struct trainer_order *order, uint64_t seed, size_t count, struct mst_error *err);
void trainer_order_release(struct trainer_order *order);

/* The samples of shard `shard` in step `step` (both from 0): ret_samples holds `batch` of them. */
void trainer_order_batch(struct trainer_order *order, uint64_t step, uint32_t shards, uint32_t shard,
                         uint32_t batch, uint32_t *ret_samples);

#endif
