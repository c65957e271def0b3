/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of models in which samples depend on each other (struct trainer_mixing, batch normalisation for one).
 * All shards of the step, in all workers, go up to such a layer; what each gives there is gathered from all,
 * and each goes on with all of it; backward the same. So each of a worker's shards has a network of its own,
 * and the gradients travel when all of them are there.
 *
 * The step is the one that a single worker makes with all samples in one batch, but for rounding, and the
 * same shards give the same bits whoever has which, where the exchange's sum does. */
#ifndef TRAINER_LOCKSTEP_H
#define TRAINER_LOCKSTEP_H

#include "model.h"

struct trainer_lockstep;

int trainer_lockstep_new(const struct trainer_model *model, struct trainer_lockstep **ret_lockstep,
                         struct mst_error *err);
void trainer_lockstep_free(struct trainer_lockstep *lockstep); /* NULL is fine */

/* The work of one step, up to the next parameters. Takes memory when this worker has more shards than ever
 * before (-ENOMEM). Other errors: the exchange's. */
int trainer_lockstep_run(struct trainer_lockstep *lockstep, struct trainer *trainer, bool pause,
                         struct trainer_exchange_stats *ret_stats, struct mst_error *err);

#endif
