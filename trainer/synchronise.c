/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer_state.h"

int trainer_synchronise(struct trainer *trainer, const uint64_t *steps, void *extra, size_t extra_bytes,
                        struct trainer_synchronised *ret_synchronised, struct mst_error *err)
{
    (void)trainer;
    (void)steps;
    (void)extra;
    (void)extra_bytes;
    (void)ret_synchronised;
    return mst_error_set(err, -ENOSYS, "synchronising is not built yet");
}
