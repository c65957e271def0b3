/* SPDX-License-Identifier: Apache-2.0 */
/* The traffic of exchange_gather_begin() and what follows it: blocks, cut into segments, each passed on as
 * soon as it is here. Whose blocks take which link is for the kind of exchange to say. */
#ifndef TRAINER_EXCHANGE_GATHER_H
#define TRAINER_EXCHANGE_GATHER_H

#include "exchange.h"

extern const struct exchange_traffic exchange_gather_traffic;

/* May allocate when there are more shards than ever before. Errors as exchange_gather_begin(). */
int exchange_gather_lay_out(struct trainer_exchange *exchange, const struct trainer_gather *gather,
                            struct mst_error *err);
void exchange_gather_fill(struct trainer_exchange *exchange, uint32_t shard, size_t offset, size_t count);

#endif
