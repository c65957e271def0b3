/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange.h"

int trainer_direct_new(const struct trainer_direct_options *options, struct trainer_exchange **ret_exchange,
                       struct mst_error *err)
{
    (void)options;
    (void)ret_exchange;
    return mst_error_set(err, -ENOSYS, "the direct exchange is not built yet");
}
