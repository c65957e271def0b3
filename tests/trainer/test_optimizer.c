/* SPDX-License-Identifier: Apache-2.0 */
/* The formulas against ones in double, in whatever ranges; schedules; clipping. Runs of whole models are
 * compared with PyTorch's in test_reference.c. */
#include "helpers.h"
#include "optimizer.h"

#include <math.h>

#define MODEL                                                                                                \
    "{\"name\":\"t\",\"input\":[9],\"loss\":\"softmax_cross_entropy\",\"layers\":["                          \
    "{\"type\":\"dense\",\"units\":7},{\"type\":\"batch_norm\",\"rate\":0.25},{\"type\":\"dense\","          \
    "\"units\":3}]}"
#define AVERAGES_BEGIN 84 /* 9 * 7 + 7 + 7 + 7 */
#define AVERAGES_END   98
#define COUNT          122

struct arrays {
    float w[COUNT], g[COUNT], m[COUNT], v[COUNT];
    float next_w[COUNT], next_m[COUNT], next_v[COUNT];
};

static void fill(struct arrays *arrays)
{
    struct trainer_rng rng;

    trainer_rng_init(&rng, 3, TRAINER_RNG_WEIGHTS, 1);
    memset(arrays, 0, sizeof *arrays);
    for (size_t i = 0; i < COUNT; i++) {
        arrays->w[i] = 2 * trainer_rng_float(&rng) - 1;
        arrays->g[i] = 2 * trainer_rng_float(&rng) - 1;
        arrays->m[i] = 2 * trainer_rng_float(&rng) - 1;
        arrays->v[i] = trainer_rng_float(&rng);
        arrays->next_w[i] = arrays->next_m[i] = arrays->next_v[i] = 77;
    }
}

static struct trainer_arenas arenas_of(struct arrays *arrays)
{
    return (struct trainer_arenas){.parameters = arrays->w,
                                   .gradient = arrays->g,
                                   .states = {arrays->m, arrays->v},
                                   .next_parameters = arrays->next_w,
                                   .next_states = {arrays->next_m, arrays->next_v}};
}

static struct trainer_config config_of(const struct trainer_model *model, enum trainer_optimizer optimizer,
                                       double momentum)
{
    return (struct trainer_config){.model = model,
                                   .lr = 0.1,
                                   .momentum = momentum,
                                   .rule = {.optimizer = optimizer, .weight_decay = 0.01},
                                   .steps_per_epoch = 10,
                                   .epochs = 10};
}

/* One place, in double, as optimizer.h has it. */
static void check_place(const struct trainer_config *config, const struct arrays *a, size_t i, double t,
                        double clip)
{
    const double decay = config->rule.weight_decay, w = (double)a->w[i], lr = config->lr;
    const bool decoupled = config->rule.optimizer == TRAINER_ADAMW;
    const double g = clip * (double)a->g[i] + (decoupled ? 0 : decay * w);
    double expected, m = 77, v = 77;

    if (i >= AVERAGES_BEGIN && i < AVERAGES_END) {
        expected = w + 0.25 * ((double)a->g[i] - w);
        m = v = 0;
    } else if (config->rule.optimizer == TRAINER_ADAM || decoupled) {
        m = 0.9 * (double)a->m[i] + 0.1 * g;
        v = 0.999 * (double)a->v[i] + 0.001 * g * g;
        expected = w * (decoupled ? 1 - lr * decay : 1) -
                   lr * (m / (1 - pow(0.9, t))) / (sqrt(v / (1 - pow(0.999, t))) + 1e-8);
    } else {
        m = config->momentum * (double)a->m[i] + g;
        expected = w - lr * (config->rule.optimizer == TRAINER_NESTEROV ? g + config->momentum * m : m);
    }
    const size_t states = trainer_optimizer_states(config);
    assert_true(fabs((double)a->next_w[i] - expected) < 2e-5);
    assert_true(fabs((double)a->next_m[i] - (states > 0 ? m : 77)) < 1e-6);
    assert_true(fabs((double)a->next_v[i] - (states > 1 ? v : 77)) < 1e-6);
}

static const struct {
    enum trainer_optimizer optimizer;
    double momentum;
} kinds[] = {
    {TRAINER_SGD, 0}, {TRAINER_SGD, 0.9}, {TRAINER_NESTEROV, 0.9}, {TRAINER_ADAM, 0}, {TRAINER_ADAMW, 0}};

static void each_optimizer_does_what_its_formula_says(void **state)
{
    (void)state;
    struct trainer_model *model = helper_model(MODEL);
    struct arrays arrays;

    assert_int_equal(model->parameters, COUNT);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        struct trainer_config config = config_of(model, kinds[k].optimizer, kinds[k].momentum);
        for (int variant = 0; variant < 4; variant++) {
            const float clip = variant & 1 ? 0.5f : 1.0f;
            config.rule.weight_decay = variant & 2 ? 0.01 : 0;
            fill(&arrays);
            if (kinds[k].momentum == 0 && kinds[k].optimizer == TRAINER_SGD)
                memset(arrays.m, 0, sizeof arrays.m);
            const struct trainer_arenas arenas = arenas_of(&arrays);
            const struct trainer_update update = trainer_optimizer_begin(&config, 4, clip);
            trainer_optimizer_update(&update, &arenas, 0, COUNT);
            for (size_t i = 0; i < COUNT; i++)
                check_place(&config, &arrays, i, 5, (double)clip);
        }
    }
    trainer_model_free(model);
}

static void ranges_of_any_size_and_order_give_the_same_bits(void **state)
{
    (void)state;
    struct trainer_model *model = helper_model(MODEL);
    static const size_t sizes[] = {1, 5, 16, 61, COUNT};
    struct arrays whole, parts;

    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        const struct trainer_config config = config_of(model, kinds[k].optimizer, kinds[k].momentum);
        const struct trainer_update update = trainer_optimizer_begin(&config, 0, 1.0f);
        fill(&whole);
        const struct trainer_arenas arenas = arenas_of(&whole);
        trainer_optimizer_update(&update, &arenas, 0, COUNT);
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            fill(&parts);
            const struct trainer_arenas own = arenas_of(&parts);
            for (size_t end = COUNT; end > 0;) {
                const size_t size = end < sizes[s] ? end : sizes[s];
                end -= size;
                trainer_optimizer_update(&update, &own, end, size);
            }
            assert_memory_equal(&parts, &whole, sizeof whole);
        }
    }
    trainer_model_free(model);
}

static void clipping_takes_the_norm_of_what_is_trained_down_to_the_limit(void **state)
{
    (void)state;
    struct trainer_model *model = helper_model(MODEL);
    struct trainer_config config = config_of(model, TRAINER_SGD, 0);
    float gradient[COUNT] = {0};

    gradient[0] = 3;
    gradient[COUNT - 1] = -4;
    gradient[AVERAGES_BEGIN] = gradient[AVERAGES_END - 1] = 1000; /* do not count */
    assert_true(trainer_optimizer_clip(&config, gradient) == 1.0f);
    config.rule.clip_norm = 5;
    assert_true(trainer_optimizer_clip(&config, gradient) == 1.0f);
    config.rule.clip_norm = 1;
    assert_true(trainer_optimizer_clip(&config, gradient) == 0.2f);
    gradient[AVERAGES_BEGIN - 1] = NAN;
    assert_true(isnan(trainer_optimizer_clip(&config, gradient)));
    trainer_model_free(model);
}

static void schedules_go_where_they_say(void **state)
{
    (void)state;
    struct trainer_config config = {.lr = 1, .steps_per_epoch = 10, .epochs = 5};
    static const struct {
        enum trainer_schedule schedule;
        double warmup, every, factor, lowest;
        uint64_t done;
        double lr;
    } cases[] = {
        {TRAINER_CONSTANT, 0, 0, 0, 0, 0, 1},        {TRAINER_CONSTANT, 0, 0, 0, 0, 49, 1},
        {TRAINER_CONSTANT, 0.4, 0, 0, 0, 0, 0.2},    {TRAINER_CONSTANT, 0.4, 0, 0, 0, 3, 0.8},
        {TRAINER_CONSTANT, 0.4, 0, 0, 0, 4, 1},      {TRAINER_STEP, 0, 2, 0.1, 0, 19, 1},
        {TRAINER_STEP, 0, 2, 0.1, 0, 20, 0.1},       {TRAINER_STEP, 0, 2, 0.1, 0, 40, 0.01},
        {TRAINER_STEP, 0, 2, 0.1, 0.05, 40, 0.05},   {TRAINER_STEP, 1, 2, 0.1, 0, 29, 1},
        {TRAINER_COSINE, 0, 0, 0, 0, 0, 1},          {TRAINER_COSINE, 0, 0, 0, 0, 25, 0.5},
        {TRAINER_COSINE, 0, 0, 0, 0.2, 25, 0.6},     {TRAINER_COSINE, 0, 0, 0, 0.2, 50, 0.2},
        {TRAINER_COSINE, 0, 0, 0, 0.2, 5000, 0.2},   {TRAINER_COSINE, 1, 0, 0, 0, 30, 0.5},
        {TRAINER_COSINE, 5, 0, 0, 0, 49, 50.0 / 51}, {TRAINER_COSINE, 7, 0, 0, 0.5, 70, 0.5},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        config.rule = (struct trainer_rule){.schedule = cases[i].schedule,
                                            .warmup_epochs = cases[i].warmup,
                                            .step_epochs = cases[i].every,
                                            .step_factor = cases[i].factor,
                                            .min_lr = cases[i].lowest};
        if (fabs(trainer_schedule_lr(&config, cases[i].done) - cases[i].lr) > 1e-12)
            fail_msg("case %zu: %g", i, trainer_schedule_lr(&config, cases[i].done));
    }
}

#define REFUSES(field, value, says)                                                                          \
    do {                                                                                                     \
        struct trainer_config wrong = config_of(NULL, TRAINER_SGD, 0);                                       \
        struct mst_error err = MST_ERROR_INIT;                                                               \
        wrong.field = (value);                                                                               \
        assert_int_equal(trainer_optimizer_check(&wrong, &err), -EINVAL);                                    \
        if (!strstr(err.text, says))                                                                         \
            fail_msg("'%s', expected '%s' in it", err.text, says);                                           \
    } while (0)

static void settings_that_do_not_fit_are_named(void **state)
{
    (void)state;
    REFUSES(rule.beta1, 1, "beta1 1");
    REFUSES(rule.beta2, (double)NAN, "beta2");
    REFUSES(rule.epsilon, -1, "epsilon -1");
    REFUSES(rule.weight_decay, 2, "weight decay 2");
    REFUSES(rule.clip_norm, -1, "clip norm -1");
    REFUSES(rule.clip_norm, (double)INFINITY, "clip norm inf");
    REFUSES(rule.warmup_epochs, -1, "warm-up");
    REFUSES(rule.min_lr, 0.2, "lowest learning rate 0.2");
    REFUSES(rule.schedule, TRAINER_STEP, "epochs between");
    REFUSES(rule.optimizer, TRAINER_NESTEROV, "nesterov with momentum 0");
    struct trainer_config adam = config_of(NULL, TRAINER_ADAM, 0.9);
    assert_int_equal(trainer_optimizer_check(&adam, NULL), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_optimizer_does_what_its_formula_says),
        cmocka_unit_test(ranges_of_any_size_and_order_give_the_same_bits),
        cmocka_unit_test(clipping_takes_the_norm_of_what_is_trained_down_to_the_limit),
        cmocka_unit_test(schedules_go_where_they_say),
        cmocka_unit_test(settings_that_do_not_fit_are_named),
    };

    return cmocka_run_group_tests_name("optimizer", tests, NULL, NULL);
}
