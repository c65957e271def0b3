/* SPDX-License-Identifier: Apache-2.0 */
/* The trainer's insides, for the files that step, evaluate, save and load. */
#ifndef TRAINER_STATE_H
#define TRAINER_STATE_H

#include "dataset.h"
#include "exchange/exchange.h"
#include "factors.h"
#include "lockstep.h"
#include "loss.h"
#include "network.h"
#include "optimizer.h"
#include "order.h"
#include "sharded.h"

/* What workers sum besides gradients: it stands at the end of the gradient arena, so that it travels with
 * them. */
enum trainer_tail {
    TRAINER_TAIL_LOSS,    /* sum over samples */
    TRAINER_TAIL_CORRECT, /* samples */
    TRAINER_TAIL_PAUSE,   /* workers that asked for a pause */
    TRAINER_TAIL_FLOATS
};

struct trainer {
    struct trainer_config config;
    struct trainer_network network;
    struct trainer_order order;
    struct trainer_exchange *exchange; /* borrowed; NULL: alone */
    bool has_crew;                     /* hired, see crew.h */
    uint32_t rank, world;
    uint64_t step;  /* done */
    uint32_t taken; /* steps since it was made, until its memory was settled */
    size_t count;   /* of parameters */
    /* Two arenas each for what a step changes: it reads [current] and writes the other, and they swap when
     * the whole step is in. An error in between leaves the state "after step s". */
    float *parameters[2];
    float *states[2][TRAINER_MAX_STATES]; /* of the optimizer, which see; NULL from state_count on */
    size_t state_count;
    size_t current;
    /* Of this worker's shards, count + TRAINER_TAIL_FLOATS each. One for all of them, in which they are added
     * up, unless the exchange keeps them apart; [0] takes the sum over all workers. */
    float **gradients;
    size_t gradient_count;           /* in use */
    size_t gradients_owned;          /* different ones: the first of them */
    uint32_t *samples, *labels;      /* batch of them */
    uint64_t *keys;                  /* the same, of struct trainer_pass */
    float *targets;                  /* the same, in a set with targets; else NULL */
    size_t shard_under_way;          /* the one of `gradients` that is being computed */
    bool overflow;                   /* what this step wrote so far has numbers that are not finite */
    struct mst_error exchange_error; /* of a slice handed over during backward; code 0: none */
    enum trainer_method method;
    struct trainer_factors *factors;   /* owned; NULL with another method */
    struct trainer_sharded *sharded;   /* owned; NULL with another method, and without an exchange */
    struct trainer_lockstep *lockstep; /* owned; NULL for models that do not mix samples */
};

/* What the methods share. */

/* How the layers are to take a shard of the step to come, with keys in `keys` (batch of them, borrowed). Keys
 * follow from seed, step, shard and place in the batch:
 *     start stream TRAINER_RNG_SAMPLES, shard from the seed; start it again from its state xor the step; draw
 */
struct trainer_pass trainer_shard_pass(const struct trainer *trainer, uint32_t shard, uint64_t *keys);
/* The samples of a shard in the step to come: batch times the model's input, moved where the rule says so,
 * and their labels; targets go to trainer->targets. */
void trainer_load_shard(struct trainer *trainer, uint32_t shard, float *x, uint32_t *labels);
/* The loss in force: the rule's or the model's. */
enum trainer_loss_kind trainer_loss_in_force(const struct trainer_config *config);
/* Of a shard's batch, labels in trainer->labels, targets in trainer->targets. The gradient by the logits
 * comes out divided by the samples of all workers, so that the sum over the shards is the mean. */
struct trainer_loss trainer_shard_loss(const struct trainer *trainer, const float *logits, float *gradient);
/* What the exchange is told of the gradients and what lies behind them. */
struct trainer_sum trainer_gradient_sum(struct trainer *trainer);
void trainer_fill_tail(float *tail, const struct trainer_loss *loss, bool pause);
/* All memory that steps go through, as trainer_floats_settle(). */
void trainer_settle(struct trainer *trainer);
/* The mean gradient of [offset, offset + count) is known, in gradients[0]: write the next parameters there.
 * What lies behind the parameters is passed over. Where gradients are clipped, nothing is written before all
 * of it is known. */
void trainer_landed(void *trainer, size_t offset, size_t count);

#endif
