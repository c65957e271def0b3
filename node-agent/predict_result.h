/* SPDX-License-Identifier: Apache-2.0 */
/* What a model said of samples, in figures and row by row. */
#ifndef AGENT_PREDICT_RESULT_H
#define AGENT_PREDICT_RESULT_H

#include "muster/error.h"
#include "muster/trainer.h"

#include <cjson/cJSON.h>

/* Of the samples with one label. */
struct predict_class {
    uint64_t labelled, predicted, right;
};

struct predict_result {
    const struct trainer_dataset *set; /* borrowed */
    size_t count, width;               /* samples, outputs a sample */
    float *outputs;                    /* count x width, owned */
    cJSON *encoding;                   /* of the data, owned; NULL: none */
    const char **names;                /* of the outputs, owned, in `encoding`; NULL: they have none */
    struct predict_class *classes;     /* `width` of them, owned; NULL with targets */
    uint64_t right;
    bool has_loss;
    double loss;
    double absolute, square; /* with targets: mean error and mean squared error over all values */
};

void predict_result_release(struct predict_result *result); /* usable with mst_cleanup() */
/* Fill in the figures from outputs and set. */
int predict_result_count(struct predict_result *result, struct mst_error *err);

/* To stdout. */
int predict_print_table(const struct predict_result *result, struct mst_error *err);
int predict_print_json(const struct predict_result *result, struct mst_error *err);
/* A row a sample: sample,label,predicted,probability, or sample, targets and predictions. Whole or not at
 * all.
 */
int predict_write_rows(const struct predict_result *result, const char *path, struct mst_error *err);

#endif
