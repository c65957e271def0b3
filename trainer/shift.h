/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_SHIFT_H
#define TRAINER_SHIFT_H

#include "muster/trainer.h"

/* Move each of `count` images (rows x columns x channels, one behind the other) by a whole number of rows and
 * of columns in [-most, most], drawn from its key (struct trainer_pass); zeros come in. */
void trainer_shift_images(const struct trainer_shape *shape, uint32_t most, size_t count,
                          const uint64_t *keys, float *images);

#endif
