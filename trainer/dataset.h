/* SPDX-License-Identifier: Apache-2.0 */
/* A data set in memory: values as bytes or as floats, and for each sample a label or a target. Readers fill
 * a struct and hand it to dataset_finish(). */
#ifndef TRAINER_DATASET_H
#define TRAINER_DATASET_H

#include "muster/trainer.h"

struct trainer_dataset {
    struct trainer_shape shape;
    size_t count;
    size_t classes;     /* that labels lie in; 0: targets instead */
    size_t target_size; /* floats in a sample's target; 0: labels instead */
    bool unlabelled;    /* labels or targets are not known: zeros stand for them */
    /* All owned, row order; one of each pair. */
    uint8_t *values; /* count * elements(shape), scaled to [0, 1] when gathered */
    float *floats;   /* count * elements(shape), as they are */
    uint32_t *labels;
    float *targets; /* count * target_size */
    uint8_t digest[MST_SHA256_BYTES];
};

bool trainer_shape_equal(const struct trainer_shape *a, const struct trainer_shape *b);

/* Check labels against `classes` (0: fit it to them), floats for being finite, and take the digest. `what`
 * names the source in errors. */
int dataset_finish(struct trainer_dataset *set, const char *what, struct mst_error *err);
void dataset_freep(struct trainer_dataset **dataset); /* for mst_cleanup() */

/* Move a share of the samples, chosen by the seed, into a set of their own, each in the order they had. Both
 * sets have at least one sample (-EINVAL). For readers: `set` must not be in use yet. Digests are not taken.
 */
int dataset_take_share(struct trainer_dataset *set, double share, uint64_t seed,
                       struct trainer_dataset **ret_taken, struct mst_error *err);
/* Which of `count` samples those are; marked[] is set for each. */
int dataset_mark_share(size_t count, double share, uint64_t seed, bool *marked, struct mst_error *err);
/* The same with the last `count` samples. */
int dataset_take_last(struct trainer_dataset *set, size_t count, struct trainer_dataset **ret_taken,
                      struct mst_error *err);

/* Copy `count` samples, by number, into x (count x elements(shape)): bytes scaled to [0, 1], floats as they
 * are; and their labels into ret_labels, zeros in a set with targets. ret_labels may be NULL. */
void trainer_dataset_gather(const struct trainer_dataset *dataset, const uint32_t *samples, size_t count,
                            float *x, uint32_t *ret_labels);
/* Their targets (count x target_size); the set has some. */
void trainer_dataset_gather_targets(const struct trainer_dataset *dataset, const uint32_t *samples,
                                    size_t count, float *ret_targets);

#endif
