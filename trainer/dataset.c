/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset.h"

#include "idx.h"
#include "kernels.h"
#include "muster/cleanup.h"
#include "muster/file.h"

#include <assert.h>
#include <stdio.h>
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

static void freep(struct trainer_dataset **dataset)
{
    trainer_dataset_free(*dataset);
}

/* Dims and counts are hashed too, as 64 bits little-endian: the same bytes in another shape are other data.
 */
static int digest(struct trainer_dataset *set, struct mst_error *err)
{
    mst_cleanup(mst_sha256_release) struct mst_sha256 sha = {0};
    uint64_t head[3 + TRAINER_MAX_DIMS] = {set->shape.count, set->count, set->classes};

    for (size_t d = 0; d < set->shape.count; d++)
        head[3 + d] = set->shape.dims[d];
    int r = mst_sha256_init(&sha, err);
    if (r >= 0)
        r = mst_sha256_update(&sha, head, sizeof head, err);
    if (r >= 0)
        r = mst_sha256_update(&sha, set->values, set->count * trainer_shape_elements(&set->shape), err);
    if (r >= 0)
        r = mst_sha256_update(&sha, set->labels, set->count, err);
    if (r >= 0)
        r = mst_sha256_finish(&sha, set->digest, err);
    return r;
}

/* Fit the labels into `classes`, or the classes to the labels when 0. `what` names their source. */
static int check_labels(struct trainer_dataset *set, size_t classes, const char *what, struct mst_error *err)
{
    uint8_t largest = 0;

    for (size_t i = 0; i < set->count; i++) {
        if (classes > 0 && set->labels[i] >= classes)
            return mst_error_set(err, -EBADMSG, "read '%s': label %zu is %u, expected 0 to %zu", what, i,
                                 set->labels[i], classes - 1);
        if (set->labels[i] > largest)
            largest = set->labels[i];
    }
    set->classes = classes > 0 ? classes : (size_t)largest + 1;
    return 0;
}

/* Height x width gets its one channel: layers see row, column, channel. */
static struct trainer_shape with_channels(struct trainer_shape shape)
{
    if (shape.count == 2)
        shape.dims[shape.count++] = 1;
    return shape;
}

int trainer_dataset_open_idx(const char *images_path, const char *labels_path, size_t classes,
                             struct trainer_dataset **ret_dataset, struct mst_error *err)
{
    mst_cleanup(trainer_idx_release) struct trainer_idx images = {0};
    mst_cleanup(trainer_idx_release) struct trainer_idx labels = {0};
    mst_cleanup(freep) struct trainer_dataset *set = NULL;

    int r = trainer_idx_read(images_path, 3, &images, err);
    if (r >= 0)
        r = trainer_idx_read(labels_path, 1, &labels, err);
    if (r < 0)
        return r;
    if (labels.count != images.count)
        return mst_error_set(err, -EBADMSG, "read '%s': %zu labels for the %zu images of '%s'", labels_path,
                             labels.count, images.count, images_path);
    set = calloc(1, sizeof *set);
    if (!set)
        return mst_error_set(err, -ENOMEM, "read '%s': no memory", images_path);
    *set = (struct trainer_dataset){.shape = with_channels(images.shape),
                                    .count = images.count,
                                    .values = images.values,
                                    .labels = labels.values};
    images.values = labels.values = NULL;
    r = check_labels(set, classes, labels_path, err);
    if (r >= 0)
        r = digest(set, err);
    if (r < 0)
        return r;
    *ret_dataset = set;
    set = NULL;
    return 0;
}

/* "<folder>/<name>", or with ".gz" when only that is there. */
static int find_file(const char *folder, const char *name, char **ret_path, struct mst_error *err)
{
    char packed_name[64];
    (void)snprintf(packed_name, sizeof packed_name, "%s.gz", name);
    mst_cleanup(mst_freep) char *plain = mst_path_join(folder, name);
    mst_cleanup(mst_freep) char *packed = mst_path_join(folder, packed_name);

    if (!plain || !packed)
        return mst_error_set(err, -ENOMEM, "open '%s': no memory", folder);
    char **found = access(plain, F_OK) == 0 ? &plain : &packed;
    if (access(*found, F_OK) != 0)
        return mst_error_errno(err, -errno, "open '%s' or '%s'", plain, packed_name);
    *ret_path = *found;
    *found = NULL;
    return 0;
}

static int open_pair(const char *folder, const char *images_name, const char *labels_name, size_t classes,
                     struct trainer_dataset **ret_dataset, struct mst_error *err)
{
    mst_cleanup(mst_freep) char *images = NULL;
    mst_cleanup(mst_freep) char *labels = NULL;

    int r = find_file(folder, images_name, &images, err);
    if (r >= 0)
        r = find_file(folder, labels_name, &labels, err);
    if (r >= 0)
        r = trainer_dataset_open_idx(images, labels, classes, ret_dataset, err);
    return r;
}

int trainer_dataset_open_folder(const char *folder, struct trainer_dataset **ret_train,
                                struct trainer_dataset **ret_test, struct mst_error *err)
{
    mst_cleanup(freep) struct trainer_dataset *train = NULL;
    mst_cleanup(freep) struct trainer_dataset *test = NULL;

    int r = open_pair(folder, "train-images-idx3-ubyte", "train-labels-idx1-ubyte", 0, &train, err);
    if (r >= 0)
        r = open_pair(folder, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", train->classes, &test, err);
    if (r < 0)
        return r;
    if (!trainer_shape_equal(&train->shape, &test->shape))
        return mst_error_set(
            err, -EBADMSG, "read '%s': test images of %zu x %zu, training images of %zu x %zu", folder,
            test->shape.dims[0], test->shape.dims[1], train->shape.dims[0], train->shape.dims[1]);
    *ret_train = train;
    *ret_test = test;
    train = test = NULL;
    return 0;
}

int trainer_dataset_new(const struct trainer_shape *shape, size_t count, size_t classes,
                        const uint8_t *values, const uint8_t *labels, struct trainer_dataset **ret_dataset,
                        struct mst_error *err)
{
    const size_t elements = trainer_shape_elements(shape);
    assert(elements > 0 && elements <= TRAINER_MAX_SAMPLE_SIZE && count > 0 && count <= TRAINER_MAX_SAMPLES);
    mst_cleanup(freep) struct trainer_dataset *set = calloc(1, sizeof *set);

    if (!set)
        return mst_error_set(err, -ENOMEM, "no memory for a data set");
    set->shape = *shape;
    set->count = count;
    set->values = malloc(count * elements);
    set->labels = malloc(count);
    if (!set->values || !set->labels)
        return mst_error_set(err, -ENOMEM, "no memory for a data set of %zu samples", count);
    memcpy(set->values, values, count * elements);
    memcpy(set->labels, labels, count);
    int r = check_labels(set, classes, "memory", err);
    if (r >= 0)
        r = digest(set, err);
    if (r < 0)
        return r;
    *ret_dataset = set;
    set = NULL;
    return 0;
}

void trainer_dataset_free(struct trainer_dataset *dataset)
{
    if (!dataset)
        return;
    free(dataset->values);
    free(dataset->labels);
    free(dataset);
}

size_t trainer_dataset_count(const struct trainer_dataset *dataset)
{
    return dataset->count;
}

size_t trainer_dataset_classes(const struct trainer_dataset *dataset)
{
    return dataset->classes;
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
        kernel_scale_bytes(elements, dataset->values + samples[i] * elements, x + i * elements);
        ret_labels[i] = dataset->labels[samples[i]];
    }
}
