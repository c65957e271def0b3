/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/trainer.h"

int trainer_checkpoints_open(const char *folder, const uint8_t job[static MST_SHA256_BYTES], const char *run,
                             struct trainer_checkpoints **ret_checkpoints, struct mst_error *err)
{
    (void)folder;
    (void)job;
    (void)run;
    (void)ret_checkpoints;
    return mst_error_set(err, -ENOSYS, "checkpoints are not built yet");
}

int trainer_checkpoints_restore(struct trainer_checkpoints *checkpoints, struct trainer *trainer, void *extra,
                                size_t extra_bytes, void (*skipped)(void *context, const char *reason),
                                void *context, struct trainer_checkpoint *ret_checkpoint,
                                struct mst_error *err)
{
    (void)checkpoints;
    (void)trainer;
    (void)extra;
    (void)extra_bytes;
    (void)skipped;
    (void)context;
    (void)ret_checkpoint;
    return mst_error_set(err, -ENOSYS, "checkpoints are not built yet");
}

int trainer_checkpoints_write(struct trainer_checkpoints *checkpoints, const struct trainer *trainer,
                              const void *extra, size_t extra_bytes, struct mst_error *err)
{
    (void)checkpoints;
    (void)trainer;
    (void)extra;
    (void)extra_bytes;
    return mst_error_set(err, -ENOSYS, "checkpoints are not built yet");
}

int trainer_checkpoints_result(struct trainer_checkpoints *checkpoints, bool wait,
                               struct trainer_checkpoint *ret_checkpoint, struct mst_error *err)
{
    (void)checkpoints;
    (void)wait;
    (void)ret_checkpoint;
    (void)err;
    return 0;
}

uint64_t trainer_checkpoints_skipped(const struct trainer_checkpoints *checkpoints)
{
    (void)checkpoints;
    return 0;
}

int trainer_checkpoints_clear(struct trainer_checkpoints *checkpoints, struct mst_error *err)
{
    (void)checkpoints;
    (void)err;
    return 0;
}

void trainer_checkpoints_free(struct trainer_checkpoints *checkpoints)
{
    (void)checkpoints;
}
