/* SPDX-License-Identifier: Apache-2.0 */
/* The trainer's insides, for the files that step, evaluate, save and load. */
#ifndef TRAINER_STATE_H
#define TRAINER_STATE_H

#include "dataset.h"
#include "exchange/exchange.h"
#include "loss.h"
#include "network.h"
#include "order.h"

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
    uint32_t rank, world;
    uint64_t step; /* done */
    size_t count;  /* of parameters */
    /* Two arenas each for what a step changes: it reads [current] and writes the other, and they swap when
     * the whole step is in. An error in between leaves the state "after step s". */
    float *parameters[2];
    float *velocity[2]; /* NULL without momentum */
    size_t current;
    /* Of this worker's shards, count + TRAINER_TAIL_FLOATS each. One for all of them, in which they are added
     * up, unless the exchange keeps them apart; [0] takes the sum over all workers. */
    float **gradients;
    size_t gradient_count;           /* in use */
    size_t gradients_owned;          /* different ones: the first of them */
    uint32_t *samples, *labels;      /* batch of them */
    size_t shard_under_way;          /* the one of `gradients` that is being computed */
    struct mst_error exchange_error; /* of a slice handed over during backward; code 0: none */
};

#endif
