/* SPDX-License-Identifier: Apache-2.0 */
/* Data sets from IDX files: a pair of them, or MNIST's folder of four. */
#include "data.h"
#include "dataset.h"
#include "idx.h"
#include "muster/cleanup.h"
#include "muster/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* Height x width gets its one channel: layers see row, column, channel. */
static struct trainer_shape with_channels(struct trainer_shape shape)
{
    if (shape.count == 2)
        shape.dims[shape.count++] = 1;
    return shape;
}

/* Not finished: the caller does that. */
static int read_pair(const char *images_path, const char *labels_path, size_t classes,
                     struct trainer_dataset **ret_dataset, struct mst_error *err)
{
    mst_cleanup(trainer_idx_release) struct trainer_idx images = {0};
    mst_cleanup(trainer_idx_release) struct trainer_idx labels = {0};
    mst_cleanup(dataset_freep) struct trainer_dataset *set = NULL;

    int r = trainer_idx_read(images_path, 3, &images, err);
    if (r >= 0)
        r = trainer_idx_read(labels_path, 1, &labels, err);
    if (r < 0)
        return r;
    if (labels.count != images.count)
        return mst_error_set(err, -EBADMSG, "read '%s': %zu labels for the %zu images of '%s'", labels_path,
                             labels.count, images.count, images_path);
    set = calloc(1, sizeof *set);
    uint32_t *wide = malloc(labels.count * sizeof *wide);
    if (!set || !wide) {
        free(wide);
        return mst_error_set(err, -ENOMEM, "read '%s': no memory", images_path);
    }
    for (size_t i = 0; i < labels.count; i++)
        wide[i] = labels.values[i];
    *set = (struct trainer_dataset){.shape = with_channels(images.shape),
                                    .count = images.count,
                                    .classes = classes,
                                    .values = images.values,
                                    .labels = wide};
    images.values = NULL;
    *ret_dataset = set;
    set = NULL;
    return 0;
}

int trainer_dataset_open_idx(const char *images_path, const char *labels_path, size_t classes,
                             struct trainer_dataset **ret_dataset, struct mst_error *err)
{
    mst_cleanup(dataset_freep) struct trainer_dataset *set = NULL;

    int r = read_pair(images_path, labels_path, classes, &set, err);
    if (r >= 0)
        r = dataset_finish(set, labels_path, err);
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
    /* A link to nothing is there, and an error when it is opened: not a reason to look further. */
    struct stat status;
    char **found = lstat(plain, &status) == 0 ? &plain : &packed;
    if (lstat(*found, &status) != 0)
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

static bool is_there(const char *folder, const char *name)
{
    struct mst_error err;
    mst_cleanup(mst_freep) char *path = NULL;

    return find_file(folder, name, &path, &err) == 0;
}

int trainer_dataset_open_folder(const char *folder, struct trainer_dataset **ret_train,
                                struct trainer_dataset **ret_test, struct mst_error *err)
{
    mst_cleanup(dataset_freep) struct trainer_dataset *train = NULL;
    mst_cleanup(dataset_freep) struct trainer_dataset *test = NULL;

    int r = open_pair(folder, "train-images-idx3-ubyte", "train-labels-idx1-ubyte", 0, &train, err);
    if (r >= 0 && (is_there(folder, "t10k-images-idx3-ubyte") || is_there(folder, "t10k-labels-idx1-ubyte")))
        r = open_pair(folder, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", train->classes, &test, err);
    if (r < 0)
        return r;
    if (test && !trainer_shape_equal(&train->shape, &test->shape))
        return mst_error_set(
            err, -EBADMSG, "read '%s': test images of %zu x %zu, training images of %zu x %zu", folder,
            test->shape.dims[0], test->shape.dims[1], train->shape.dims[0], train->shape.dims[1]);
    *ret_train = train;
    *ret_test = test;
    train = test = NULL;
    return 0;
}

bool data_idx_is_there(const char *folder)
{
    return is_there(folder, "train-images-idx3-ubyte");
}

int data_idx_open(const char *folder, const struct trainer_data_options *options,
                  struct trainer_data *ret_data, struct mst_error *err)
{
    const int r = trainer_dataset_open_folder(folder, &ret_data->train, &ret_data->test, err);

    return r < 0 ? r : data_take_validation(ret_data, options, err);
}
