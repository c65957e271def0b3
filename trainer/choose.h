/* SPDX-License-Identifier: Apache-2.0 */
/* What trainer_choose() makes of what it measured. */
#ifndef TRAINER_CHOOSE_H
#define TRAINER_CHOOSE_H

#include "muster/trainer.h"

/* Fill in choice->step_ms from its bytes_per_s, latency_ms and same_kernels, for so many workers. `shard_ms`:
 * what one more shard costs a worker that rebuilds its factors; negative: it cannot. */
void trainer_choose_estimate(const struct trainer_config *config, uint32_t world, double shard_ms,
                             struct trainer_choice *choice);
/* The kind with the least of choice->step_ms, or one as good: direct rather than ring, for its bits do not
 * depend on the number of workers. */
enum trainer_kind trainer_choose_best(const struct trainer_choice *choice);

#endif
