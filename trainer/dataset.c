/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset.h"

#include "kernels.h"
#include "muster/cleanup.h"
#include "rng.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t trainer_shape_elements(const struct trainer_shape *shape)
{
    size_t elements = 1;

    for (size_t d = 0; d < shape->count; d++)
        elements *= shape->dims[d];
    return elements;
}

bool trainer_shape_equal(const struct trainer_shape *a, const struct trainer_shape *b)
{
    return a->count == b->count && memcmp(a->dims, b->dims, a->count * sizeof a->dims[0]) == 0;
}

void dataset_freep(struct trainer_dataset **dataset)
{
    trainer_dataset_free(*dataset);
}

/* ---- what a sample consists of ------------------------------------------------------------------------- */

#define COLUMNS 4

/* An array with so many bytes a sample; NULL where the set has none. */
struct column {
    void **array;
    size_t bytes;
};

static void list_columns(struct trainer_dataset *set, struct column ret_columns[static COLUMNS])
{
    const size_t elements = trainer_shape_elements(&set->shape);

    ret_columns[0] = (struct column){(void **)&set->values, elements};
    ret_columns[1] = (struct column){(void **)&set->floats, elements * sizeof *set->floats};
    ret_columns[2] = (struct column){(void **)&set->labels, sizeof *set->labels};
    ret_columns[3] = (struct column){(void **)&set->targets, set->target_size * sizeof *set->targets};
}

/* Dims and counts are hashed too, as 64 bits little-endian: the same bytes in another shape are other data.
 */
static int digest(struct trainer_dataset *set, struct mst_error *err)
{
    mst_cleanup(mst_sha256_release) struct mst_sha256 sha = {0};
    uint64_t head[5 + TRAINER_MAX_DIMS] = {set->shape.count, set->count, set->classes, set->target_size,
                                           set->values != NULL};
    struct column columns[COLUMNS];

    for (size_t d = 0; d < set->shape.count; d++)
        head[5 + d] = set->shape.dims[d];
    list_columns(set, columns);
    int r = mst_sha256_init(&sha, err);
    if (r >= 0)
        r = mst_sha256_update(&sha, head, sizeof head, err);
    for (size_t c = 0; c < COLUMNS && r >= 0; c++) {
        if (*columns[c].array)
            r = mst_sha256_update(&sha, *columns[c].array, set->count * columns[c].bytes, err);
    }
    return r < 0 ? r : mst_sha256_finish(&sha, set->digest, err);
}

static int check_labels(struct trainer_dataset *set, const char *what, struct mst_error *err)
{
    uint32_t largest = 0;

    for (size_t i = 0; i < set->count; i++) {
        if (set->classes > 0 && set->labels[i] >= set->classes)
            return mst_error_set(err, -EBADMSG, "read '%s': label %zu is %" PRIu32 ", expected 0 to %zu",
                                 what, i, set->labels[i], set->classes - 1);
        if (set->labels[i] > largest)
            largest = set->labels[i];
    }
    if (largest >= TRAINER_MAX_CLASSES)
        return mst_error_set(err, -EBADMSG, "read '%s': labels up to %" PRIu32 ", expected less than %d",
                             what, largest, TRAINER_MAX_CLASSES);
    if (set->classes == 0)
        set->classes = (size_t)largest + 1;
    return 0;
}

static int check_floats(const float *floats, size_t count, size_t per_sample, const char *what,
                        const char *name, struct mst_error *err)
{
    for (size_t i = 0; floats && i < count * per_sample; i++) {
        if (!isfinite(floats[i]))
            return mst_error_set(err, -EBADMSG, "read '%s': %s %zu of sample %zu is not a finite number",
                                 what, name, i % per_sample, i / per_sample);
    }
    return 0;
}

int dataset_finish(struct trainer_dataset *set, const char *what, struct mst_error *err)
{
    assert(set->count > 0 && !set->values != !set->floats && !set->labels != !set->targets);
    int r = set->labels ? check_labels(set, what, err)
                        : check_floats(set->targets, set->count, set->target_size, what, "target", err);
    if (r >= 0)
        r = check_floats(set->floats, set->count, trainer_shape_elements(&set->shape), what, "value", err);
    return r < 0 ? r : digest(set, err);
}

int trainer_dataset_from(const struct trainer_samples *samples, struct trainer_dataset **ret_dataset,
                         struct mst_error *err)
{
    const void *const sources[COLUMNS] = {samples->bytes, samples->floats, samples->labels, samples->targets};
    mst_cleanup(dataset_freep) struct trainer_dataset *set = calloc(1, sizeof *set);
    struct column columns[COLUMNS];

    assert(trainer_shape_elements(&samples->shape) > 0 &&
           trainer_shape_elements(&samples->shape) <= TRAINER_MAX_SAMPLE_SIZE && samples->count > 0 &&
           samples->count <= TRAINER_MAX_SAMPLES && samples->target_size <= TRAINER_MAX_SAMPLE_SIZE);
    if (!set)
        return mst_error_set(err, -ENOMEM, "no memory for a data set");
    set->shape = samples->shape;
    set->count = samples->count;
    set->classes = samples->labels ? samples->classes : 0;
    set->target_size = samples->targets ? samples->target_size : 0;
    list_columns(set, columns);
    for (size_t c = 0; c < COLUMNS; c++) {
        if (!sources[c])
            continue;
        *columns[c].array = malloc(set->count * columns[c].bytes);
        if (!*columns[c].array)
            return mst_error_set(err, -ENOMEM, "no memory for a data set of %zu samples", set->count);
        memcpy(*columns[c].array, sources[c], set->count * columns[c].bytes);
    }
    const int r = dataset_finish(set, "memory", err);
    if (r < 0)
        return r;
    *ret_dataset = set;
    set = NULL;
    return 0;
}

int trainer_dataset_new(const struct trainer_shape *shape, size_t count, size_t classes,
                        const uint8_t *values, const uint8_t *labels, struct trainer_dataset **ret_dataset,
                        struct mst_error *err)
{
    mst_cleanup(mst_freep) uint32_t *wide = malloc(count * sizeof *wide);

    if (!wide)
        return mst_error_set(err, -ENOMEM, "no memory for %zu labels", count);
    for (size_t i = 0; i < count; i++)
        wide[i] = labels[i];
    const struct trainer_samples samples = {
        .shape = *shape, .count = count, .bytes = values, .classes = classes, .labels = wide};
    return trainer_dataset_from(&samples, ret_dataset, err);
}

void trainer_dataset_free(struct trainer_dataset *dataset)
{
    if (!dataset)
        return;
    free(dataset->values);
    free(dataset->floats);
    free(dataset->labels);
    free(dataset->targets);
    free(dataset);
}

/* ---- parting ------------------------------------------------------------------------------------------- */

/* Move the samples that are marked into a set of their own, and close the gaps. */
static int take_marked(struct trainer_dataset *set, const bool *marked, size_t marked_count,
                       struct trainer_dataset **ret_taken, struct mst_error *err)
{
    mst_cleanup(dataset_freep) struct trainer_dataset *taken = calloc(1, sizeof *taken);
    struct column from[COLUMNS], to[COLUMNS];

    if (!taken)
        return mst_error_set(err, -ENOMEM, "no memory for a data set");
    *taken = (struct trainer_dataset){.shape = set->shape,
                                      .count = marked_count,
                                      .classes = set->classes,
                                      .target_size = set->target_size,
                                      .unlabelled = set->unlabelled};
    list_columns(set, from);
    list_columns(taken, to);
    for (size_t c = 0; c < COLUMNS; c++) {
        if (!*from[c].array)
            continue;
        *to[c].array = malloc(marked_count * to[c].bytes);
        if (!*to[c].array)
            return mst_error_set(err, -ENOMEM, "no memory for a data set of %zu samples", marked_count);
    }
    for (size_t c = 0; c < COLUMNS; c++) {
        uint8_t *source = *from[c].array, *other = *to[c].array, *stays = source;
        const size_t bytes = from[c].bytes;
        for (size_t i = 0; source && i < set->count; i++) {
            uint8_t **place = marked[i] ? &other : &stays;
            memmove(*place, source + i * bytes, bytes);
            *place += bytes;
        }
    }
    set->count -= marked_count;
    *ret_taken = taken;
    taken = NULL;
    return 0;
}

int dataset_mark_share(size_t count, double share, uint64_t seed, bool *marked, struct mst_error *err)
{
    const size_t wanted = (size_t)(share * (double)count + 0.5);
    struct trainer_rng rng;
    size_t left = wanted;

    if (wanted < 1 || wanted >= count)
        return mst_error_set(err, -EINVAL, "a share of %g of %zu samples leaves one part empty", share,
                             count);
    /* Selection sampling (Knuth, The Art of Computer Programming 2, 3.4.2, algorithm S): each sample is taken
     * with the probability that still wanted ones have among those still to come. */
    trainer_rng_init(&rng, seed, TRAINER_RNG_VALIDATION, 0);
    for (size_t i = 0; i < count; i++) {
        marked[i] = trainer_rng_below(&rng, count - i) < left;
        left -= marked[i];
    }
    return 0;
}

int dataset_take_share(struct trainer_dataset *set, double share, uint64_t seed,
                       struct trainer_dataset **ret_taken, struct mst_error *err)
{
    mst_cleanup(mst_freep) bool *marked = calloc(set->count, sizeof *marked);
    size_t wanted = 0;

    if (!marked)
        return mst_error_set(err, -ENOMEM, "no memory for parting %zu samples", set->count);
    const int r = dataset_mark_share(set->count, share, seed, marked, err);
    for (size_t i = 0; i < set->count; i++)
        wanted += marked[i];
    return r < 0 ? r : take_marked(set, marked, wanted, ret_taken, err);
}

int dataset_take_last(struct trainer_dataset *set, size_t count, struct trainer_dataset **ret_taken,
                      struct mst_error *err)
{
    mst_cleanup(mst_freep) bool *marked = calloc(set->count, sizeof *marked);

    if (!marked)
        return mst_error_set(err, -ENOMEM, "no memory for parting %zu samples", set->count);
    if (count < 1 || count >= set->count)
        return mst_error_set(err, -EINVAL, "the last %zu of %zu samples leave one part empty", count,
                             set->count);
    memset(marked + (set->count - count), true, count * sizeof *marked);
    return take_marked(set, marked, count, ret_taken, err);
}

/* ---- looking ------------------------------------------------------------------------------------------- */

size_t trainer_dataset_count(const struct trainer_dataset *dataset)
{
    return dataset->count;
}

size_t trainer_dataset_classes(const struct trainer_dataset *dataset)
{
    return dataset->classes;
}

size_t trainer_dataset_target_size(const struct trainer_dataset *dataset)
{
    return dataset->target_size;
}

bool trainer_dataset_is_labelled(const struct trainer_dataset *dataset)
{
    return !dataset->unlabelled;
}

uint32_t trainer_dataset_label(const struct trainer_dataset *dataset, size_t sample)
{
    assert(dataset->labels && sample < dataset->count);
    return dataset->labels[sample];
}

const float *trainer_dataset_target(const struct trainer_dataset *dataset, size_t sample)
{
    assert(dataset->targets && sample < dataset->count);
    return dataset->targets + sample * dataset->target_size;
}

struct trainer_shape trainer_dataset_shape(const struct trainer_dataset *dataset)
{
    return dataset->shape;
}

const uint8_t *trainer_dataset_digest(const struct trainer_dataset *dataset)
{
    return dataset->digest;
}

void trainer_dataset_gather(const struct trainer_dataset *dataset, const uint32_t *samples, size_t count,
                            float *x, uint32_t *ret_labels)
{
    const size_t elements = trainer_shape_elements(&dataset->shape);

    for (size_t i = 0; i < count; i++) {
        assert(samples[i] < dataset->count);
        if (dataset->values)
            kernel_scale_bytes(elements, dataset->values + samples[i] * elements, x + i * elements);
        else
            memcpy(x + i * elements, dataset->floats + samples[i] * elements, elements * sizeof *x);
        if (ret_labels)
            ret_labels[i] = dataset->labels ? dataset->labels[samples[i]] : 0;
    }
}

void trainer_dataset_gather_targets(const struct trainer_dataset *dataset, const uint32_t *samples,
                                    size_t count, float *ret_targets)
{
    const size_t size = dataset->target_size;

    assert(dataset->targets);
    for (size_t i = 0; i < count; i++)
        memcpy(ret_targets + i * size, dataset->targets + samples[i] * size, size * sizeof *ret_targets);
}
