/* SPDX-License-Identifier: Apache-2.0 */
#include "predict.h"

#include "muster/cleanup.h"
#include "muster/file.h"
#include "muster/json.h"
#include "muster/trainer.h"
#include "predict_result.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PREDICT_BATCH 64

struct predict {
    const struct agent_config *config;
    struct trainer_model *model;
    struct trainer_data data;
    struct trainer *trainer;
};

static void release(struct predict *predict)
{
    trainer_free(predict->trainer);
    trainer_model_free(predict->model);
    trainer_data_release(&predict->data);
}

/* In the way in which the model's own training data were made, if the file says. */
static int open_data(struct predict *predict, struct mst_error *err)
{
    mst_cleanup(mst_freep) char *encoding = NULL;
    int r = trainer_saved_encoding(predict->config->weights, &encoding, err);
    const struct trainer_data_options options = {.encoding = encoding, .is_trained = true};
    if (r == 0)
        r = trainer_data_open(predict->config->data, &options, &predict->data, err);
    return r < 0 && !encoding ? mst_error_wrap(err, r, "weights '%s'", predict->config->weights) : r;
}

static int choose_part(const struct predict *predict, const struct trainer_dataset **ret_set,
                       struct mst_error *err)
{
    const struct trainer_data *data = &predict->data;
    const char *part = predict->config->part;
    const struct trainer_dataset *set = part ? strcmp(part, "test") == 0 ? data->test : data->train
                                        : data->test != NULL ? data->test
                                                             : data->train;
    if (!set)
        return mst_error_set(err, -EINVAL, "data '%s' has no part '%s'", predict->config->data,
                             part ? part : "test");
    *ret_set = set;
    return 0;
}

static int make_trainer(struct predict *predict, const struct trainer_dataset *set, struct mst_error *err)
{
    const struct agent_config *config = predict->config;
    const struct trainer_config settings = {.model = predict->model,
                                            .train = set,
                                            .batch = PREDICT_BATCH,
                                            .shards = 1,
                                            .lr = 1,
                                            .steps_per_epoch = 1,
                                            .epochs = 1,
                                            .threads = config->threads};
    int r = trainer_new(&settings, &predict->trainer, err);
    if (r < 0)
        return mst_error_wrap(err, r, "model '%s' on data '%s'", config->model, config->data);
    return trainer_load_parameters(predict->trainer, config->weights, err);
}

/* Rows are written in the end, where the file that they would replace has been read. */
static int check_out(const struct agent_config *config, struct mst_error *err)
{
    const char *const inputs[] = {config->model, config->weights};
    struct stat out, input;
    if (!config->out)
        return 0;
    const int r = mst_file_check_output(config->out, err);
    if (r < 0 || stat(config->out, &out) < 0)
        return r;
    for (size_t i = 0; i < MST_ARRAY_COUNT(inputs); i++)
        if (stat(inputs[i], &input) == 0 && input.st_dev == out.st_dev && input.st_ino == out.st_ino)
            return mst_error_set(err, -EINVAL, "write '%s': it is the same file as '%s', which is read",
                                 config->out, inputs[i]);
    if (trainer_data_has_file(config->data, config->out))
        return mst_error_set(err, -EINVAL, "write '%s': it is a file of the data set '%s'", config->out,
                             config->data);
    return 0;
}

static int prepare(struct predict *predict, const struct trainer_dataset **ret_set, struct mst_error *err)
{
    int r = check_out(predict->config, err);
    if (r == 0)
        r = trainer_model_read(predict->config->model, &predict->model, err);
    if (r == 0)
        r = open_data(predict, err);
    if (r == 0)
        r = choose_part(predict, ret_set, err);
    return r == 0 ? make_trainer(predict, *ret_set, err) : r;
}

static int run(struct predict *predict, const struct trainer_dataset *set, struct predict_result *result,
               struct mst_error *err)
{
    struct trainer_evaluation evaluation;
    const size_t count = trainer_dataset_count(set), width = trainer_model_classes(predict->model);
    result->set = set;
    result->count = count;
    result->width = width;
    result->outputs = malloc(count * width * sizeof *result->outputs);
    if (!result->outputs)
        return mst_error_set(err, -ENOMEM, "no memory for %zu x %zu outputs", count, width);
    const char *encoding = predict->data.encoding;
    int r = encoding ? mst_json_parse(encoding, strlen(encoding), "encoding", &result->encoding, err) : 0;
    if (r == 0)
        r = trainer_predict(predict->trainer, set, 0, count, result->outputs, err);
    if (r == 0 && trainer_dataset_is_labelled(set)) {
        r = trainer_evaluate_range(predict->trainer, set, 0, count, &evaluation, err);
        result->has_loss = r == 0;
        result->loss = r == 0 ? evaluation.loss : 0;
    }
    return r == 0 ? predict_result_count(result, err) : r;
}

int agent_predict(const struct agent_config *config)
{
    mst_cleanup(release) struct predict predict = {.config = config};
    mst_cleanup(predict_result_release) struct predict_result result = {0};
    struct mst_error err = MST_ERROR_INIT;
    const struct trainer_dataset *set;
    int r = prepare(&predict, &set, &err);
    if (r < 0)
        return mst_fail(MST_EXIT_USAGE, &err);
    r = run(&predict, set, &result, &err);
    if (r == 0 && config->out)
        r = predict_write_rows(&result, config->out, &err);
    if (r == 0)
        r = config->json ? predict_print_json(&result, &err) : predict_print_table(&result, &err);
    return r < 0 ? mst_fail(mst_exit_status(r), &err) : MST_EXIT_DONE;
}
