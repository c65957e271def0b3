/* SPDX-License-Identifier: Apache-2.0 */
/* Steps in which each worker holds a share of the largest dense layer, for the samples of all. */
#ifndef TRAINER_SHARDED_H
#define TRAINER_SHARDED_H

#include "muster/trainer.h"

struct trainer_sharded;

/* The share of the worker of trainer->rank among trainer->world, in memory of its own. -EINVAL: more workers
 * than channels, too many samples, or gradients that are clipped by their norm; -ENOMEM. */
int trainer_sharded_new(const struct trainer *trainer, struct trainer_sharded **ret_sharded,
                        struct mst_error *err);
/* As trainer_floats_settle(). */
void trainer_sharded_settle(struct trainer_sharded *sharded);
void trainer_sharded_free(struct trainer_sharded *sharded); /* NULL is fine */

/* One step on the share, which is taken from the trainer's parameters when it is the first. Those stay as
 * they are until trainer_sharded_gather(). */
int trainer_sharded_run(struct trainer_sharded *sharded, struct trainer *trainer, bool pause,
                        struct trainer_exchange_stats *ret_stats, struct mst_error *err);
/* The step is over: the share's next parameters are its current ones. */
void trainer_sharded_advance(struct trainer_sharded *sharded);

/* Bring the shares of all workers together in the trainer's parameters. On an error those are as before. */
int trainer_sharded_gather(struct trainer_sharded *sharded, struct trainer *trainer, struct mst_error *err);
/* The step that the trainer's parameters are after. */
uint64_t trainer_sharded_gathered(const struct trainer_sharded *sharded);
/* Steps were made since the last gathering. */
bool trainer_sharded_is_ahead(const struct trainer_sharded *sharded);

#endif
