/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_DATASET_H
#define TRAINER_DATASET_H

#include "muster/trainer.h"

struct trainer_dataset {
    struct trainer_shape shape;
    size_t count;
    size_t classes;
    uint8_t *values; /* count * elements(shape), owned */
    uint8_t *labels; /* count, owned */
    uint8_t digest[MST_SHA256_BYTES];
};

bool trainer_shape_equal(const struct trainer_shape *a, const struct trainer_shape *b);

/* Copy `count` samples, by number, into x (count x elements(shape), scaled to [0, 1]) and ret_labels. */
void trainer_dataset_gather(const struct trainer_dataset *dataset, const uint32_t *samples, size_t count,
                            float *x, uint32_t *ret_labels);

#endif
