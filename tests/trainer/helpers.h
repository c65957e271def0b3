/* SPDX-License-Identifier: Apache-2.0 */
/* What several tests of the trainer need: a folder of their own, small data, and a model from text. */
#ifndef TESTS_TRAINER_HELPERS_H
#define TESTS_TRAINER_HELPERS_H

#include "muster/trainer.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* cmocka.h needs what stands before it. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

/* cmocka setup and teardown: *state is the path of a fresh folder, which goes away with its files. */
static inline int helper_make_folder(void **state)
{
    char *folder = strdup("/tmp/muster-trainer-XXXXXX");

    *state = folder ? mkdtemp(folder) : NULL;
    return *state ? 0 : -1;
}

static inline int helper_remove_folder(void **state)
{
    char path[512];
    DIR *folder = opendir(*state);

    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        (void)snprintf(path, sizeof path, "%s/%s", (char *)*state, entry->d_name);
        (void)unlink(path);
    }
    if (folder)
        (void)closedir(folder);
    const int r = rmdir(*state);
    free(*state);
    return r;
}

static inline const char *helper_path(void **state, const char *name, char *path, size_t bytes)
{
    (void)snprintf(path, bytes, "%s/%s", (char *)*state, name);
    return path;
}

static inline struct trainer_model *helper_model(const char *text)
{
    struct mst_error err = MST_ERROR_INIT;
    struct trainer_model *model = NULL;

    if (trainer_model_parse(text, strlen(text), "test", &model, &err) < 0)
        fail_msg("%s", err.text);
    return model;
}

/* Bytes that look random, brighter by class, so that there is something to learn. */
static inline struct trainer_dataset *helper_dataset(struct trainer_shape shape, size_t count, size_t classes)
{
    struct mst_error err = MST_ERROR_INIT;
    struct trainer_dataset *set = NULL;
    const size_t elements = trainer_shape_elements(&shape);
    uint8_t *values = malloc(count * elements), *labels = malloc(count);
    uint32_t state = 1;

    assert_non_null(values);
    assert_non_null(labels);
    for (size_t i = 0; i < count; i++) {
        labels[i] = (uint8_t)(i * 7 % classes);
        for (size_t e = 0; e < elements; e++) {
            state = state * 1664525u + 1013904223u;
            values[i * elements + e] = (uint8_t)((state >> 25) + labels[i] * (128 / classes));
        }
    }
    if (trainer_dataset_new(&shape, count, classes, values, labels, &set, &err) < 0)
        fail_msg("%s", err.text);
    free(values);
    free(labels);
    return set;
}

#endif
