/* SPDX-License-Identifier: Apache-2.0 */
/* Runs that PyTorch made (make_reference.py), repeated step by step: from the seed alone, the same weights,
 * the same samples, the same losses, the same end. */
#include "helpers.h"
#include "muster/buf.h"
#include "muster/file.h"
#include "muster/json.h"
#include "muster/parse.h"
#include "trainer_state.h"

#include <math.h>

static struct trainer_dataset *train, *test;
static cJSON *reference;

static int set_up(void **state)
{
    (void)state;
    struct mst_buf text = MST_BUF_INIT(1000000);
    struct mst_error err = MST_ERROR_INIT;

    int r = trainer_dataset_open_folder(MUSTER_SOURCE_DIR "/data/mnist", &train, &test, &err);
    if (r >= 0)
        r = mst_file_read(MUSTER_TEST_DATA "/reference.json", &text, &err);
    if (r >= 0)
        r = mst_json_parse(mst_buf_text(&text), text.count, "reference.json", &reference, &err);
    if (r < 0)
        print_error("%s\n", err.text);
    mst_buf_release(&text);
    return r;
}

static int tear_down(void **state)
{
    (void)state;
    trainer_dataset_free(train);
    trainer_dataset_free(test);
    cJSON_Delete(reference);
    return 0;
}

static double number(const cJSON *run, const char *key)
{
    double value = 0;

    assert_int_equal(mst_json_get_double(run, key, "reference.json", &value, NULL), 0);
    return value;
}

static double item(const cJSON *run, const char *key, int i)
{
    const cJSON *value = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(run, key), i);

    assert_true(cJSON_IsNumber(value));
    return value->valuedouble;
}

static int count(const cJSON *run, const char *key)
{
    return cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(run, key));
}

/* Samples that stand in the file; NULL: MNIST's. */
static struct trainer_dataset *data_of(const cJSON *run, const struct trainer_model *model)
{
    const cJSON *data = cJSON_GetObjectItemCaseSensitive(run, "data");
    const size_t elements = trainer_shape_elements(&model->input), width = trainer_model_classes(model);
    struct trainer_dataset *set = NULL;
    struct mst_error err = MST_ERROR_INIT;

    if (!cJSON_IsObject(data))
        return NULL;
    const size_t values = (size_t)count(data, "values");
    const bool labelled = count(data, "labels") > 0;
    float *floats = calloc(values, sizeof *floats);
    uint32_t *labels = calloc(values, sizeof *labels);
    float *targets = calloc(values * width, sizeof *targets);
    assert_true(floats && labels && targets);
    int i = 0;
    for (const cJSON *v = cJSON_GetObjectItemCaseSensitive(data, "values")->child; v; v = v->next)
        floats[i++] = (float)v->valuedouble;
    for (i = 0; i < count(data, "labels"); i++)
        labels[i] = (uint32_t)item(data, "labels", i);
    for (i = 0; i < count(data, "targets"); i++)
        targets[i] = (float)item(data, "targets", i);
    const struct trainer_samples samples = {.shape = model->input,
                                            .count = values / elements,
                                            .floats = floats,
                                            .labels = labelled ? labels : NULL,
                                            .target_size = labelled ? 0 : width,
                                            .targets = labelled ? NULL : targets};
    if (trainer_dataset_from(&samples, &set, &err) < 0)
        fail_msg("%s", err.text);
    free(floats);
    free(labels);
    free(targets);
    return set;
}

static void read_recipe(const cJSON *run, struct trainer_config *config)
{
    char *text = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(run, "recipe"));
    struct trainer_recipe recipe;
    struct mst_error err = MST_ERROR_INIT;

    if (trainer_recipe_parse(text, strlen(text), "recipe", &recipe, &err) < 0)
        fail_msg("%s", err.text);
    config->rule = recipe.rule;
    cJSON_free(text);
}

static struct trainer *trainer_for(const cJSON *run, const struct trainer_model *model,
                                   const struct trainer_dataset *data)
{
    struct trainer_config config = {.model = model,
                                    .train = data ? data : train,
                                    .batch = (uint32_t)number(run, "batch"),
                                    .shards = (uint32_t)number(run, "shards"),
                                    .lr = number(run, "lr"),
                                    .momentum = number(run, "momentum"),
                                    .steps_per_epoch = 10,
                                    .epochs = 2,
                                    .threads = 1};
    struct mst_error err = MST_ERROR_INIT;
    struct trainer *trainer = NULL;

    assert_int_equal(mst_parse_u64(mst_json_string_or(run, "seed", ""), 0, UINT64_MAX, &config.seed, &err),
                     0);
    read_recipe(run, &config);
    if (trainer_new(&config, &trainer, &err) < 0)
        fail_msg("%s", err.text);
    return trainer;
}

static void check_start(const cJSON *run, struct trainer *trainer)
{
    const struct trainer_model *model = trainer->config.model;
    uint32_t samples[8];
    int at = 0;

    assert_int_equal(trainer->count, (size_t)number(run, "parameters"));
    trainer_order_batch(&trainer->order, 0, 1, 0, 8, samples);
    for (int i = 0; i < 8; i++)
        assert_int_equal(samples[i], (uint32_t)item(run, "first_samples", i));
    for (size_t i = 0; i < model->layer_count; i++) {
        if (model->layers[i].tensor_count == 0 || model->layers[i].tensors[0].shape.count < 2)
            continue;
        const struct trainer_tensor *weight = &model->layers[i].tensors[0];
        const float *values = trainer->parameters[0] + weight->offset;
        assert_true(values[0] == (float)item(run, "first_weights", at++));
        assert_true(values[1] == (float)item(run, "first_weights", at++));
        assert_true(values[trainer_shape_elements(&weight->shape) - 1] ==
                    (float)item(run, "first_weights", at++));
    }
    assert_int_equal(at, count(run, "first_weights"));
}

static void check_run(const cJSON *run)
{
    char *text = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(run, "model"));
    struct trainer_model *model = helper_model(text);
    struct trainer_dataset *data = data_of(run, model);
    struct trainer *trainer = trainer_for(run, model, data);
    struct trainer_step_stats stats;
    struct trainer_evaluation tested;
    double largest_loss = 0, largest_value = 0;

    check_start(run, trainer);
    for (int i = 0; i < count(run, "losses"); i++) {
        assert_int_equal(trainer_step(trainer, false, &stats, NULL), 0);
        largest_loss = fmax(largest_loss, fabs(stats.loss - item(run, "losses", i)));
        /* With targets there is no accuracy, here and there 0. */
        assert_true(fabs(stats.accuracy - item(run, "accuracies", i)) < 1e-6);
    }
    for (int i = 0; i < count(run, "places"); i++) {
        const size_t place = (size_t)item(run, "places", i);
        const double value = (double)trainer->parameters[trainer->current][place];
        largest_value = fmax(largest_value, fabs(value - item(run, "values", i)));
    }
    assert_int_equal(trainer_evaluate_range(trainer, data ? data : train, 0, 50, &tested, NULL), 0);
    const double test_difference = fabs(tested.loss - number(run, "test_loss"));
    print_message("%s: largest difference in loss %.2g, in parameters %.2g, in the loss of a test %.2g\n",
                  model->name, largest_loss, largest_value, test_difference);
    assert_true(largest_loss <= 1e-4);
    assert_true(largest_value <= 1e-4);
    assert_true(test_difference <= 1e-4);
    trainer_dataset_free(data);
    cJSON_free(text);
    trainer_free(trainer);
    trainer_model_free(model);
}

static void runs_agree_with_pytorch_step_by_step(void **state)
{
    (void)state;
    const cJSON *runs = cJSON_GetObjectItemCaseSensitive(reference, "runs");

    assert_int_equal(cJSON_GetArraySize(runs), 12);
    for (const cJSON *run = runs->child; run; run = run->next)
        check_run(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_agree_with_pytorch_step_by_step),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
