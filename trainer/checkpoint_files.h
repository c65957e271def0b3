/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a folder of checkpoints: which there are, by step, and which of them stay. Other names in the
 * folder are not touched. */
#ifndef TRAINER_CHECKPOINT_FILES_H
#define TRAINER_CHECKPOINT_FILES_H

#include "muster/trainer.h"

/* The name of the checkpoint after `step`. */
void checkpoint_files_name(uint64_t step, char ret_name[static TRAINER_CHECKPOINT_NAME_BYTES]);

/* 1: *ret_step is the largest of those below `limit`; 0: there is none; else why the folder cannot be read.
 */
int checkpoint_files_newest(const char *folder, uint64_t limit, uint64_t *ret_step, struct mst_error *err);

/* Remove all checkpoints but those of the steps in `kept`, and what writes that were cut short left. */
int checkpoint_files_prune(const char *folder, const uint64_t *kept, size_t kept_count,
                           struct mst_error *err);
/* Only the latter. */
int checkpoint_files_tidy(const char *folder, struct mst_error *err);

#endif
