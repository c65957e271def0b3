/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers and statistics over a step, in teams that change. */
#include "teams.h"

#include <math.h>

#define HEAD "{\"name\":\"t\",\"input\":[8,8,1],\"loss\":\"softmax_cross_entropy\",\"layers\":["

/* Without random numbers, and with. */
static const char *const norm_model =
    HEAD "{\"type\":\"conv2d\",\"filters\":3,\"kernel\":3,\"padding\":\"same\"},"
         "{\"type\":\"batch_norm\",\"activation\":\"relu\"},{\"type\":\"max_pool\",\"size\":2},{\"type\":"
         "\"flatten\"},"
         "{\"type\":\"dense\",\"units\":12},{\"type\":\"batch_norm\",\"rate\":0.3},{\"type\":\"tanh\"},"
         "{\"type\":\"dense\",\"units\":4}]}";
static const char *const norm_first_model =
    HEAD "{\"type\":\"batch_norm\"},{\"type\":\"flatten\"},{\"type\":\"dense\",\"units\":4}]}";
static const char *const dropout_model =
    HEAD "{\"type\":\"conv2d\",\"filters\":3,\"kernel\":3,\"stride\":2,\"activation\":\"relu\"},"
         "{\"type\":\"dropout\",\"rate\":0.25},{\"type\":\"flatten\"},"
         "{\"type\":\"dense\",\"units\":12,\"activation\":\"relu\"},{\"type\":\"dropout\",\"rate\":0.5},"
         "{\"type\":\"dense\",\"units\":4}]}";
static const char *const both_model =
    HEAD "{\"type\":\"conv2d\",\"filters\":3,\"kernel\":3},{\"type\":\"batch_norm\",\"activation\":\"relu\"},"
         "{\"type\":\"dropout\",\"rate\":0.25},{\"type\":\"flatten\"},{\"type\":\"dense\",\"units\":4}]}";

static const struct teams_view changing[] = {
    {{0, 1, 2}, 3, 10}, {{2, 0}, 2, 7}, {{2, 0, 1}, 3, 5}, {{1}, 1, 8}, {{3, 4, 1}, 3, 5},
};
static const struct teams_view fixed[] = {{{0, 1, 2}, 3, 35}, {{0}, 1, 35}, {{0, 1}, 2, 35}};

static struct trainer_config config_of(struct teams_data *data, uint32_t shards)
{
    struct trainer_config config = teams_config(data, shards, 0.9);

    config.rule.optimizer = TRAINER_NESTEROV;
    config.rule.weight_decay = 1e-3;
    config.rule.schedule = TRAINER_COSINE;
    config.rule.shift = 1;
    return config;
}

static void the_same_shards_give_the_same_bits_whoever_has_them(void **state)
{
    const char *const models[] = {norm_model, norm_first_model, dropout_model, both_model};

    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        for (int clip = 0; clip < 2; clip++) {
            struct teams_data data = *(struct teams_data *)*state;
            data.model = helper_model(models[m]);
            struct trainer_config config = config_of(&data, 3);
            config.rule.clip_norm = clip ? 0.5 : 0;
            struct trainer *first = NULL, *other = NULL;
            teams_run_views(&config, TEAMS_DIRECT, &fixed[0], 1, &first);
            for (size_t i = 1; i < sizeof fixed / sizeof fixed[0]; i++) {
                teams_run_views(&config, TEAMS_DIRECT, &fixed[i], 1, &other);
                assert_true(teams_same_state(first, other));
                trainer_free(other);
            }
            teams_run_views(&config, TEAMS_DIRECT, changing, sizeof changing / sizeof changing[0], &other);
            assert_true(teams_same_state(first, other));
            trainer_free(other);
            trainer_free(first);
            trainer_model_free(data.model);
        }
    }
}

/* What the statistics are over is the whole step: three workers with batches of 4 are one with 12. */
static void three_workers_train_as_one_with_all_samples_in_one_batch(void **state)
{
    const char *const models[] = {norm_model, norm_first_model};
    const enum trainer_optimizer optimizers[] = {TRAINER_SGD, TRAINER_NESTEROV, TRAINER_ADAM};

    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        for (size_t o = 0; o < sizeof optimizers / sizeof optimizers[0]; o++) {
            for (int kind = TEAMS_RING; kind <= TEAMS_DIRECT; kind++) {
                struct teams_data data = *(struct teams_data *)*state;
                data.model = helper_model(models[m]);
                struct trainer_config together = config_of(&data, 3);
                together.rule.optimizer = optimizers[o];
                together.rule.shift = 0;
                together.lr = 0.01;
                together.momentum = optimizers[o] == TRAINER_ADAM ? 0 : 0.9;
                /* Adam divides by the root of what may be nothing but rounding: not by less than this. */
                together.rule.epsilon = optimizers[o] == TRAINER_ADAM ? 0.01 : 0;
                /* Before a normalisation a bias has no gradient but rounding: Adam would divide it by itself.
                 */
                together.rule.epsilon = optimizers[o] == TRAINER_ADAM ? 1e-2 : 0;
                struct trainer_config joined = together;
                struct trainer *changed = NULL, *alone = NULL;
                joined.batch *= joined.shards;
                joined.shards = 1;
                teams_run_views(&together, (enum teams_kind)kind, changing,
                                sizeof changing / sizeof changing[0], &changed);
                teams_run_views(&joined, TEAMS_RING, &fixed[1], 1, &alone);
                const double difference = teams_largest_difference(changed, alone);
                if (!(difference <= 1e-5))
                    fail_msg("model %zu, optimizer %zu, kind %d: %g", m, o, kind, difference);
                trainer_free(changed);
                trainer_free(alone);
                trainer_model_free(data.model);
            }
        }
    }
}

static void dropout_takes_other_values_in_each_step_and_none_in_a_test(void **state)
{
    struct teams_data data = *(struct teams_data *)*state;
    data.model = helper_model(dropout_model);
    struct trainer_config config = teams_config(&data, 1, 0);
    struct trainer_step_stats stats;
    struct trainer_evaluation first, second;
    uint64_t keys[2][64];

    config.lr = 1e-30; /* all stays as it is */
    struct trainer *trainer = teams_trainer(&config);
    assert_int_equal(trainer_evaluate_range(trainer, config.train, 0, 64, &first, NULL), 0);
    double losses[3];
    for (int i = 0; i < 3; i++) {
        const struct trainer_pass pass = trainer_shard_pass(trainer, 0, keys[i > 0]);
        assert_true(pass.training);
        assert_true(i == 0 || memcmp(keys[0], keys[1], config.batch * sizeof keys[0][0]) != 0);
        assert_int_equal(trainer_step(trainer, false, &stats, NULL), 0);
        losses[i] = stats.loss;
    }
    assert_true(losses[0] != losses[1] && losses[1] != losses[2]);
    assert_int_equal(trainer_evaluate_range(trainer, config.train, 0, 64, &second, NULL), 0);
    assert_true(first.loss == second.loss);
    trainer_free(trainer);
    trainer_model_free(data.model);
}

static void drops_the_share_that_was_asked_for_and_scales_the_rest(void **state)
{
    enum { FLOATS = 999, SAMPLES = 20 };
    static const char text[] = HEAD "{\"type\":\"flatten\"},{\"type\":\"dense\",\"units\":999},"
                                    "{\"type\":\"dropout\",\"rate\":0.3},{\"type\":\"dense\",\"units\":2}]}";
    struct trainer_model *model = helper_model(text);
    const struct trainer_layer *layer = &model->layers[2];
    static float x[SAMPLES * FLOATS], y[SAMPLES * FLOATS], dx[SAMPLES * FLOATS];
    uint64_t keys[SAMPLES];
    size_t dropped = 0;

    (void)state;
    for (size_t i = 0; i < SAMPLES; i++)
        keys[i] = i;
    for (size_t i = 0; i < SAMPLES * FLOATS; i++)
        x[i] = 1.0f;
    const struct trainer_pass pass = {.batch = SAMPLES, .training = true, .keys = keys};
    layer->ops->forward(layer, &pass, NULL, x, y);
    for (size_t i = 0; i < SAMPLES * FLOATS; i++) {
        assert_true(y[i] == 0 || fabsf(y[i] - 1 / 0.7f) < 1e-6f);
        dropped += y[i] == 0;
    }
    /* Three standard deviations of 20,000 draws are below 1 %. */
    assert_true(dropped > SAMPLES * FLOATS * 29 / 100 && dropped < SAMPLES * FLOATS * 31 / 100);
    /* Samples differ, the same key gives the same, and the gradient is dropped where the value was. */
    assert_memory_not_equal(y, y + FLOATS, FLOATS * sizeof y[0]);
    layer->ops->backward(layer, &pass, NULL, x, y, x, dx, NULL);
    assert_memory_equal(dx, y, sizeof y);
    trainer_model_free(model);
}

static void running_statistics_follow_those_of_the_steps(void **state)
{
    struct teams_data data = *(struct teams_data *)*state;
    data.model = helper_model(norm_first_model);
    struct trainer_config config = teams_config(&data, 2, 0);
    struct trainer_step_stats stats;
    double mean = 0, squares = 0, running_mean = 0, running_var = 1;

    config.lr = 1e-3;
    struct trainer *trainer = teams_trainer(&config);
    const struct trainer_layer *layer = &data.model->layers[0];
    float *x = malloc((size_t)config.batch * 64 * sizeof *x);
    assert_non_null(x);
    for (int step = 0; step < 3; step++) {
        const double count = (double)(config.shards * config.batch * 64);
        mean = squares = 0;
        for (uint32_t shard = 0; shard < config.shards; shard++) {
            trainer_load_shard(trainer, shard, x, trainer->labels);
            for (size_t i = 0; i < (size_t)config.batch * 64; i++) {
                mean += (double)x[i] / count;
                squares += (double)x[i] * (double)x[i] / count;
            }
        }
        running_mean += 0.1 * (mean - running_mean);
        running_var += 0.1 * ((squares - mean * mean) * count / (count - 1) - running_var);
        assert_int_equal(trainer_step(trainer, false, &stats, NULL), 0);
    }
    const float *params = trainer->parameters[trainer->current];
    assert_true(fabs((double)params[layer->tensors[2].offset] - running_mean) < 1e-5);
    assert_true(fabs((double)params[layer->tensors[3].offset] - running_var) < 1e-5);
    free(x);
    trainer_free(trainer);
    trainer_model_free(data.model);
}

/* What is drawn, averaged and remembered is all in the state. */
static void a_run_taken_up_from_a_checkpoint_ends_with_the_same_bits(void **state)
{
    struct teams_data data = *(struct teams_data *)*state;
    void *folder;
    struct trainer_checkpoints *checkpoints = NULL;
    struct trainer_checkpoint checkpoint;
    struct trainer_step_stats stats;
    struct mst_error err = MST_ERROR_INIT;
    uint8_t job[MST_SHA256_BYTES];

    data.model = helper_model(both_model);
    struct trainer_config config = config_of(&data, 2);
    config.rule.optimizer = TRAINER_ADAM;
    config.momentum = 0;
    struct trainer *whole = teams_trainer(&config), *stopped = teams_trainer(&config);
    assert_int_equal(helper_make_folder(&folder), 0);
    assert_int_equal(trainer_config_digest(&config, job, NULL), 0);
    if (trainer_checkpoints_open(folder, job, "", &checkpoints, &err) < 0)
        fail_msg("%s", err.text);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(trainer_step(whole, false, &stats, NULL), 0);
        if (i == 8)
            assert_int_equal(trainer_checkpoints_write(checkpoints, whole, NULL, 0, NULL), 0);
    }
    assert_int_equal(
        trainer_checkpoints_restore(checkpoints, stopped, NULL, 0, NULL, NULL, &checkpoint, NULL), 1);
    assert_int_equal(trainer_steps_done(stopped), 9);
    while (trainer_steps_done(stopped) < 20)
        assert_int_equal(trainer_step(stopped, false, &stats, NULL), 0);
    assert_true(teams_same_state(whole, stopped));
    trainer_checkpoints_free(checkpoints);
    assert_int_equal(helper_remove_folder(&folder), 0);
    trainer_free(whole);
    trainer_free(stopped);
    trainer_model_free(data.model);
}

static void factors_refuse_a_model_whose_samples_depend_on_each_other(void **state)
{
    struct teams_data data = *(struct teams_data *)*state;
    struct mst_error err = MST_ERROR_INIT;

    data.model = helper_model(norm_model);
    assert_int_equal(trainer_check_method(data.model, TRAINER_FACTORS, &err), -ENOTSUP);
    assert_non_null(strstr(err.text, "batch_norm_1"));
    trainer_model_free(data.model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_shards_give_the_same_bits_whoever_has_them),
        cmocka_unit_test(three_workers_train_as_one_with_all_samples_in_one_batch),
        cmocka_unit_test(dropout_takes_other_values_in_each_step_and_none_in_a_test),
        cmocka_unit_test(drops_the_share_that_was_asked_for_and_scales_the_rest),
        cmocka_unit_test(running_statistics_follow_those_of_the_steps),
        cmocka_unit_test(a_run_taken_up_from_a_checkpoint_ends_with_the_same_bits),
        cmocka_unit_test(factors_refuse_a_model_whose_samples_depend_on_each_other),
    };

    return cmocka_run_group_tests_name("lockstep", tests, teams_make_data, teams_free_data);
}
