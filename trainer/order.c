/* SPDX-License-Identifier: Apache-2.0 */
#include "order.h"

#include "muster/trainer.h"
#include "rng.h"

#include <assert.h>
#include <stdlib.h>

#define ORDER_NO_PASS UINT64_MAX

int trainer_order_init(struct trainer_order *order, uint64_t seed, size_t count, struct mst_error *err)
{
    assert(count > 0 && count <= TRAINER_MAX_SAMPLES);
    *order = (struct trainer_order){.seed = seed, .count = (uint32_t)count};
    for (size_t i = 0; i < 2; i++) {
        order->passes[i] = ORDER_NO_PASS;
        order->permutations[i] = malloc(count * sizeof *order->permutations[i]);
        if (!order->permutations[i]) {
            trainer_order_release(order);
            return mst_error_set(err, -ENOMEM, "no memory for the order of %zu samples", count);
        }
    }
    return 0;
}

void trainer_order_release(struct trainer_order *order)
{
    free(order->permutations[0]);
    free(order->permutations[1]);
    order->permutations[0] = order->permutations[1] = NULL;
}

static void shuffle(const struct trainer_order *order, uint64_t pass, uint32_t *permutation)
{
    struct trainer_rng rng;

    trainer_rng_init(&rng, order->seed, TRAINER_RNG_ORDER, (uint32_t)pass);
    for (uint32_t i = 0; i < order->count; i++)
        permutation[i] = i;
    for (uint32_t i = order->count - 1; i > 0; i--) {
        const uint32_t j = (uint32_t)trainer_rng_below(&rng, (uint64_t)i + 1);
        const uint32_t kept = permutation[i];
        permutation[i] = permutation[j];
        permutation[j] = kept;
    }
}

/* Even passes live in one place and odd ones in the other, so that neighbours never push each other out. */
static const uint32_t *permutation_of(struct trainer_order *order, uint64_t pass)
{
    const size_t place = pass % 2;

    if (order->passes[place] != pass) {
        shuffle(order, pass, order->permutations[place]);
        order->passes[place] = pass;
    }
    return order->permutations[place];
}

void trainer_order_batch(struct trainer_order *order, uint64_t step, uint32_t shards, uint32_t shard,
                         uint32_t batch, uint32_t *ret_samples)
{
    assert(shard < shards);
    const uint64_t first = (step * shards + shard) * batch;

    for (uint32_t i = 0; i < batch; i++) {
        const uint64_t place = first + i;
        ret_samples[i] = permutation_of(order, place / order->count)[place % order->count];
    }
}
