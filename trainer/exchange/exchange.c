/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange.h"

int trainer_exchange_sum(struct trainer_exchange *exchange, uint64_t step, float *values, size_t count,
                         struct trainer_exchange_stats *ret_stats, struct mst_error *err)
{
    const struct trainer_sum sum = {.step = step, .values = values, .count = count};
    struct trainer_exchange_stats stats;

    int r = exchange->ops->begin(exchange, &sum, err);
    if (r >= 0)
        r = exchange->ops->ready(exchange, 0, count, err);
    if (r >= 0)
        r = exchange->ops->finish(exchange, &stats, err);
    if (r >= 0 && ret_stats)
        *ret_stats = stats;
    return r;
}

void trainer_exchange_free(struct trainer_exchange *exchange)
{
    if (exchange)
        exchange->ops->free(exchange);
}
