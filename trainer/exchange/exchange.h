/* SPDX-License-Identifier: Apache-2.0 */
/* What a kind of exchange offers to the training loop. A sum over all workers goes:
 *
 *     begin()     names the vector; nothing of it needs to be there yet
 *     ready() ... says slice by slice what is final on this worker, and never waits
 *     finish()    waits for the rest
 *
 * The slices come in any order, cover the vector once, and may be on their way when ready() returns.
 *
 * As the sum of a slice becomes known, landed() is called with it, from within ready() or finish(), each
 * place of the vector exactly once: that is where updates are applied while the rest is still under way. One
 * thread does all of it. */
#ifndef TRAINER_EXCHANGE_H
#define TRAINER_EXCHANGE_H

#include "muster/trainer.h"

struct trainer_sum {
    uint64_t step;
    float *values; /* in: this worker's; out: the sum */
    size_t count;
    void (*landed)(void *context, size_t offset, size_t count); /* NULL: nobody is interested */
    void *context;
};

struct trainer_exchange_ops {
    int (*begin)(struct trainer_exchange *exchange, const struct trainer_sum *sum, struct mst_error *err);
    int (*ready)(struct trainer_exchange *exchange, size_t offset, size_t count, struct mst_error *err);
    int (*finish)(struct trainer_exchange *exchange, struct trainer_exchange_stats *ret_stats,
                  struct mst_error *err);
    void (*free)(struct trainer_exchange *exchange);
};

/* Stands first in the struct of each kind. */
struct trainer_exchange {
    const struct trainer_exchange_ops *ops;
    uint32_t rank, world;
};

#endif
