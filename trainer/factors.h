/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that do not send the largest gradient. */
#ifndef TRAINER_FACTORS_H
#define TRAINER_FACTORS_H

#include "muster/trainer.h"

struct trainer_factors;

/* -ENOTSUP names what in the model does not allow it. Memory for all shards of a step is taken here. */
int trainer_factors_new(const struct trainer *trainer, struct trainer_factors **ret_factors,
                        struct mst_error *err);
/* As trainer_floats_settle(). */
void trainer_factors_settle(struct trainer_factors *factors, const struct trainer *trainer);
void trainer_factors_free(struct trainer_factors *factors); /* NULL is fine */

/* The work of one step, up to the next parameters. The sums over all workers that stand behind the gradients
 * are in their place. Errors: the exchange's. */
int trainer_factors_run(struct trainer_factors *factors, struct trainer *trainer, bool pause,
                        struct trainer_exchange_stats *ret_stats, struct mst_error *err);

#endif
