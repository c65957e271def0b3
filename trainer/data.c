/* SPDX-License-Identifier: Apache-2.0 */
#include "data.h"

#include "muster/cleanup.h"
#include "muster/file.h"
#include "safetensors.h"

#include <stdlib.h>
#include <sys/stat.h>

int data_take_validation(struct trainer_data *data, const struct trainer_data_options *options,
                         struct mst_error *err)
{
    if (options->validation == 0)
        return 0;
    const int r = dataset_take_share(data->train, options->validation, options->seed, &data->validation, err);
    return r < 0 ? mst_error_wrap(err, r, "validation set") : 0;
}

/* Every model carries its encoding in its header, as a text within JSON, and a tenth of that is left to the
 * rest: tensors' names, and what a checkpoint says. */
#define MAX_ENCODING_BYTES ((size_t)SAFETENSORS_MAX_HEADER_BYTES / 10 * 9)

static int check_encoding(const struct trainer_data *data, const char *folder, struct mst_error *err)
{
    size_t bytes = 0;

    for (const char *c = data->encoding ? data->encoding : ""; *c; c++)
        bytes += *c == '"' || *c == '\\' ? 2 : 1;
    if (bytes > MAX_ENCODING_BYTES)
        return mst_error_set(
            err, -EBADMSG,
            "data '%s': the names of columns, categories and classes take %zu bytes, expected "
            "at most %zu, which a model file can hold",
            folder, bytes, MAX_ENCODING_BYTES);
    return 0;
}

static int finish(const struct trainer_data *data, const char *folder, struct mst_error *err)
{
    struct trainer_dataset *const sets[] = {data->train, data->validation, data->test};
    int r = 0;

    for (size_t i = 0; i < MST_ARRAY_COUNT(sets) && r >= 0; i++) {
        if (sets[i])
            r = dataset_finish(sets[i], folder, err);
        /* Readers may leave the number of classes to what the training set's labels are. */
        if (sets[i] && data->train && sets[i]->classes < data->train->classes)
            sets[i]->classes = data->train->classes;
    }
    return r;
}

int trainer_data_open(const char *folder, const struct trainer_data_options *options,
                      struct trainer_data *ret_data, struct mst_error *err)
{
    mst_cleanup(description_release) struct description description = {0};
    mst_cleanup(trainer_data_release) struct trainer_data data = {0};

    if (!(options->validation >= 0 && options->validation < 1))
        return mst_error_set(err, -EINVAL, "validation share %g, expected 0 or more and below 1",
                             options->validation);
    int r = description_read(folder, &description, err);
    if (r >= 0 && description.format == DESCRIPTION_IDX)
        r = data_idx_open(folder, options, &data, err);
    else if (r >= 0 && description.format == DESCRIPTION_IMAGES)
        r = data_images_open(folder, &description, options, &data, err);
    else if (r >= 0)
        r = data_csv_open(folder, &description, options, &data, err);
    if (r >= 0)
        r = check_encoding(&data, folder, err);
    if (r >= 0)
        r = finish(&data, folder, err);
    if (r < 0)
        return r;
    *ret_data = data;
    data = (struct trainer_data){0};
    return 0;
}

bool trainer_data_has_file(const char *folder, const char *path)
{
    mst_cleanup(description_release) struct description description = {0};
    struct mst_error err;
    struct stat file, other;

    if (stat(path, &file) < 0)
        return false;
    const bool described = description_read(folder, &description, &err) == 0;
    const char *const names[] = {
        DESCRIPTION_NAME,
        described ? description.train : NULL,
        described ? description.test : NULL,
        "train-images-idx3-ubyte",
        "train-images-idx3-ubyte.gz",
        "train-labels-idx1-ubyte",
        "train-labels-idx1-ubyte.gz",
        "t10k-images-idx3-ubyte",
        "t10k-images-idx3-ubyte.gz",
        "t10k-labels-idx1-ubyte",
        "t10k-labels-idx1-ubyte.gz",
    };
    for (size_t i = 0; i < MST_ARRAY_COUNT(names); i++) {
        mst_cleanup(mst_freep) char *read = names[i] ? mst_path_join(folder, names[i]) : NULL;
        if (read && stat(read, &other) == 0 && other.st_dev == file.st_dev && other.st_ino == file.st_ino)
            return true;
    }
    return false;
}

void trainer_data_release(struct trainer_data *data)
{
    trainer_dataset_free(data->train);
    trainer_dataset_free(data->validation);
    trainer_dataset_free(data->test);
    free(data->encoding);
    *data = (struct trainer_data){0};
}
