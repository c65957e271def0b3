/* SPDX-License-Identifier: Apache-2.0 */
#include "helpers.h"

#include <math.h>

static int parse(const char *text, struct trainer_recipe *recipe, struct mst_error *err)
{
    return trainer_recipe_parse(text, strlen(text), "recipe.json", recipe, err);
}

static void reads_every_key(void **state)
{
    (void)state;
    struct trainer_recipe recipe;
    struct mst_error err = MST_ERROR_INIT;

    if (parse("{\"loss\":\"mse\",\"optimizer\":{\"type\":\"nesterov\",\"momentum\":0.9},\"lr\":0.05,"
              "\"schedule\":{\"type\":\"step\",\"warmup_epochs\":0.5,\"every_epochs\":3,\"factor\":0.1,"
              "\"min_lr\":0.001},\"weight_decay\":0.0005,\"clip_norm\":2,\"shift\":2,\"batch\":64,\"epochs\":"
              "10,"
              "\"steps\":70,\"validation\":0.1,\"patience\":3}",
              &recipe, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(recipe.rule.loss == TRAINER_MSE && recipe.rule.optimizer == TRAINER_NESTEROV);
    assert_true(recipe.momentum == 0.9 && recipe.lr == 0.05);
    assert_true(recipe.rule.schedule == TRAINER_STEP && recipe.rule.warmup_epochs == 0.5 &&
                recipe.rule.step_epochs == 3 && recipe.rule.step_factor == 0.1 &&
                recipe.rule.min_lr == 0.001);
    assert_true(recipe.rule.weight_decay == 0.0005 && recipe.rule.clip_norm == 2 && recipe.rule.shift == 2);
    assert_true(recipe.batch == 64 && recipe.epochs == 10 && recipe.steps == 70 && recipe.patience == 3);
    assert_true(recipe.validation == 0.1);
    assert_int_equal(
        parse("{\"optimizer\":{\"type\":\"adamw\",\"beta1\":0.8,\"beta2\":0.99,\"epsilon\":1e-7},"
              "\"schedule\":{\"type\":\"cosine\",\"min_lr\":0.1}}",
              &recipe, NULL),
        0);
    assert_true(recipe.rule.optimizer == TRAINER_ADAMW && recipe.rule.beta1 == 0.8 &&
                recipe.rule.beta2 == 0.99 && recipe.rule.epsilon == 1e-7);
    assert_true(recipe.rule.schedule == TRAINER_COSINE && recipe.rule.min_lr == 0.1);
}

static void says_of_everything_else_that_it_was_not_given(void **state)
{
    (void)state;
    struct trainer_recipe recipe;
    const struct trainer_rule none = {0};

    assert_int_equal(parse("{}", &recipe, NULL), 0);
    assert_true(isnan(recipe.lr) && isnan(recipe.momentum) && isnan(recipe.validation));
    assert_true(recipe.batch == 0 && recipe.epochs == 0 && recipe.steps == 0 && recipe.patience == 0);
    assert_memory_equal(&recipe.rule, &none, sizeof none);
    assert_int_equal(parse("{\"optimizer\":\"adam\",\"schedule\":\"cosine\"}", &recipe, NULL), 0);
    assert_true(recipe.rule.optimizer == TRAINER_ADAM && recipe.rule.schedule == TRAINER_COSINE);
    assert_true(isnan(recipe.momentum));
}

static const struct {
    const char *text, *says;
} wrong[] = {
    {"{", "recipe.json:1:"},
    {"[]", "a recipe is a JSON object"},
    {"{\"optimiser\":\"sgd\"}", "unknown key 'optimiser', did you mean 'optimizer'?"},
    {"{\"lr\":1,\"lr\":2}", "key 'lr' is there twice"},
    {"{\"optimizer\":\"adagrad\"}", "optimizer 'adagrad', expected 'sgd', 'nesterov', 'adam' or 'adamw'"},
    {"{\"optimizer\":3}", "key 'optimizer' must be 'sgd'"},
    {"{\"optimizer\":{}}", "key 'optimizer' must be 'sgd'"},
    {"{\"optimizer\":{\"type\":\"adam\",\"momentum\":0.9}}", "optimizer (adam): unknown key 'momentum'"},
    {"{\"optimizer\":{\"type\":\"sgd\",\"momentum\":1}}",
     "optimizer (sgd): key 'momentum' must be a number from 0 to 0.9999"},
    {"{\"optimizer\":{\"type\":\"adam\",\"beta2\":0}}",
     "optimizer (adam): key 'beta2' must be a number above 0"},
    {"{\"schedule\":\"linear\"}", "schedule 'linear', expected 'constant', 'step' or 'cosine'"},
    {"{\"schedule\":\"step\"}", "schedule (step): keys 'every_epochs' and 'factor' are missing"},
    {"{\"schedule\":{\"type\":\"cosine\",\"factor\":0.1}}", "schedule (cosine): unknown key 'factor'"},
    {"{\"schedule\":{\"type\":\"step\",\"every_epochs\":0,\"factor\":0.1}}",
     "'every_epochs' must be a number"},
    {"{\"loss\":\"mae\"}", "loss 'mae', expected 'softmax_cross_entropy'"},
    {"{\"loss\":1}", "key 'loss'"},
    {"{\"lr\":0}", "key 'lr' must be a number above 0"},
    {"{\"lr\":\"0.1\"}", "key 'lr' must be a number above 0"},
    {"{\"lr\":1e999}", "key 'lr'"},
    {"{\"weight_decay\":-1}", "key 'weight_decay' must be a number from 0 to 1"},
    {"{\"clip_norm\":0}", "key 'clip_norm' must be a number above 0"},
    {"{\"batch\":0}", "key 'batch'"},
    {"{\"batch\":1.5}", "key 'batch'"},
    {"{\"epochs\":\"ten\"}", "key 'epochs'"},
    {"{\"epochs\":100001}", "key 'epochs'"},
    {"{\"steps\":1000000001}", "key 'steps'"},
    {"{\"patience\":100001,\"validation\":0.1}", "key 'patience'"},
    {"{\"validation\":1}", "key 'validation' must be a number from 0 to 0.99"},
    {"{\"validation\":0.991}", "key 'validation'"},
    {"{\"patience\":2}", "key 'patience' needs 'validation'"},
};

static void refuses_what_does_not_fit_and_names_file_and_key(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct mst_error err = MST_ERROR_INIT;
        struct trainer_recipe recipe = {.batch = 77};
        assert_int_equal(parse(wrong[i].text, &recipe, &err), -EBADMSG);
        assert_int_equal(recipe.batch, 77);
        if (strncmp(err.text, "recipe.json", 11) != 0 || !strstr(err.text, wrong[i].says))
            fail_msg("'%s' gave '%s', expected '%s' in it", wrong[i].text, err.text, wrong[i].says);
    }
}

static void a_file_that_is_not_there_is_named(void **state)
{
    (void)state;
    struct mst_error err = MST_ERROR_INIT;
    struct trainer_recipe recipe;

    assert_int_equal(trainer_recipe_read("/nowhere/recipe.json", &recipe, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/nowhere/recipe.json"));
}

static void takes_as_much_for_validation_as_the_option_does(void **state)
{
    (void)state;
    struct mst_error err = MST_ERROR_INIT;
    struct trainer_recipe recipe;

    if (parse("{\"validation\":0.99}", &recipe, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(recipe.validation == 0.99);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_every_key),
        cmocka_unit_test(says_of_everything_else_that_it_was_not_given),
        cmocka_unit_test(refuses_what_does_not_fit_and_names_file_and_key),
        cmocka_unit_test(takes_as_much_for_validation_as_the_option_does),
        cmocka_unit_test(a_file_that_is_not_there_is_named),
    };

    return cmocka_run_group_tests_name("recipe", tests, NULL, NULL);
}
