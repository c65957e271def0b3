/* SPDX-License-Identifier: Apache-2.0 */
/* dataset.json, which says what a data folder holds (docs/data.md). */
#ifndef TRAINER_DESCRIPTION_H
#define TRAINER_DESCRIPTION_H

#include "muster/error.h"
#include "muster/trainer.h"

#include <cjson/cJSON.h>

#define DESCRIPTION_NAME      "dataset.json"
#define DESCRIPTION_MAX_BYTES 1048576

enum description_format { DESCRIPTION_IDX, DESCRIPTION_CSV, DESCRIPTION_IMAGES };

enum description_normalise {
    DESCRIPTION_STANDARD, /* mean 0, standard deviation 1 */
    DESCRIPTION_RANGE,    /* smallest 0, largest 1 */
    DESCRIPTION_NONE
};

struct description {
    char *path;  /* of the file, for errors; owned */
    cJSON *json; /* owned; the texts and the lists below are parts of it */
    enum description_format format;

    /* csv */
    const char *train, *test; /* names of files in the folder; NULL: none */
    uint64_t test_last;       /* that many rows of `train` are the test set instead */
    bool header;
    char separator;
    const cJSON *label;       /* a column: its name, or its place from 0, or from the end as -1, -2, ... */
    const cJSON *targets;     /* instead: a list of columns */
    const cJSON *inputs;      /* a list of columns; NULL: all others */
    const cJSON *categorical; /* a list of columns among the inputs; NULL: none */
    bool as_index;            /* how those are encoded: by number, else one-hot */
    enum description_normalise normalise;
    uint64_t class_count;       /* labels are numbers below it; 0: labels are names */
    const cJSON *classes;       /* a list of their names in order; NULL: as found, sorted */
    struct trainer_shape shape; /* count 0: flat */

    /* images */
    uint64_t channels; /* 1 or 3; 0: as the first image has */
};

/* Read FOLDER/dataset.json. Without one: what the folder looks like (MNIST's files, train.csv, or a folder
 * `train` with folders in it), with defaults. */
int description_read(const char *folder, struct description *ret_description, struct mst_error *err);
void description_release(struct description *description); /* for mst_cleanup(); zeros are fine */

#endif
