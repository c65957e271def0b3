/* SPDX-License-Identifier: Apache-2.0 */
#include "teams.h"

static const struct teams_view changing[] = {
    {{0, 1, 2}, 3, 20}, {{2, 0}, 2, 13}, {{2, 0, 1}, 3, 9}, {{1}, 1, 8}, {{3, 4, 1}, 3, 20},
};

static void factors_give_the_same_bits_for_every_world_and_every_change(void **state)
{
    static const struct {
        uint32_t shards;
        double momentum;
    } cases[] = {{3, 0}, {5, 0.9}};
    static const struct teams_view fixed[] = {
        {{0, 1, 2}, 3, 70}, {{0}, 1, 70}, {{0, 1}, 2, 70}, {{0, 1, 2, 3, 4}, 5, 70}};

    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const struct trainer_config config = teams_config(*state, cases[c].shards, cases[c].momentum);
        struct trainer *undisturbed = NULL, *other = NULL;
        for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
            if (fixed[i].world > cases[c].shards)
                continue;
            teams_run_views(&config, TEAMS_FACTORS, &fixed[i], 1, i == 0 ? &undisturbed : &other);
            if (i == 0)
                continue;
            assert_true(teams_same_state(other, undisturbed));
            trainer_free(other);
        }
        teams_run_views(&config, TEAMS_FACTORS, changing, sizeof changing / sizeof changing[0], &other);
        assert_int_equal(trainer_steps_done(other), 70);
        assert_true(teams_same_state(other, undisturbed));
        trainer_free(other);
        trainer_free(undisturbed);
    }
}

/* Where the largest dense layer stands: behind a convolution, first of all, and last of all. */
static void factors_stay_within_1e_5_of_one_process_over_70_steps(void **state)
{
    static const char *const models[] = {
        TEAMS_SMALL,
        "{\"name\":\"first\",\"input\":[8,8,1],\"loss\":\"softmax_cross_entropy\",\"layers\":["
        "{\"type\":\"flatten\"},{\"type\":\"dense\",\"units\":16,\"activation\":\"relu\"},"
        "{\"type\":\"dense\",\"units\":4}]}",
        "{\"name\":\"last\",\"input\":[8,8,1],\"loss\":\"softmax_cross_entropy\",\"layers\":["
        "{\"type\":\"conv2d\",\"filters\":4,\"kernel\":[3,3],\"activation\":\"relu\"},{\"type\":\"flatten\"},"
        "{\"type\":\"dense\",\"units\":4}]}"};

    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        struct teams_data data = *(struct teams_data *)*state;
        data.model = helper_model(models[m]);
        const struct trainer_config together = teams_config(&data, 3, 0.5);
        struct trainer_config joined = together;
        struct trainer *changed = NULL, *alone = NULL;
        const struct teams_view one = {{0}, 1, 70};
        joined.batch *= joined.shards;
        joined.shards = 1;
        teams_run_views(&together, TEAMS_FACTORS, changing, sizeof changing / sizeof changing[0], &changed);
        teams_run_views(&joined, TEAMS_RING, &one, 1, &alone);
        if (!(teams_largest_difference(changed, alone) <= 1e-5))
            fail_msg("%s: %g", data.model->name, teams_largest_difference(changed, alone));
        trainer_free(changed);
        trainer_free(alone);
        trainer_model_free(data.model);
    }
}

/* Nothing of a step is left in the network that a test of the model would stumble over. */
static void testing_between_steps_changes_nothing(void **state)
{
    struct trainer_config config = teams_config(*state, 2, 0);
    config.batch = 3; /* fewer than what a test takes at a time */
    struct trainer *tested = teams_trainer(&config), *other = teams_trainer(&config);
    struct trainer_step_stats stats;
    struct trainer_evaluation first, second;

    assert_int_equal(trainer_set_method(tested, TRAINER_FACTORS, NULL), 0);
    assert_int_equal(trainer_set_method(other, TRAINER_FACTORS, NULL), 0);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(trainer_step(tested, false, &stats, NULL), 0);
        assert_int_equal(trainer_step(other, false, &stats, NULL), 0);
        assert_int_equal(trainer_evaluate_range(tested, config.train, 0, 500, &first, NULL), 0);
    }
    assert_true(teams_same_state(tested, other));
    assert_int_equal(trainer_set_method(other, TRAINER_SUM, NULL), 0);
    assert_int_equal(trainer_evaluate_range(other, config.train, 0, 500, &second, NULL), 0);
    assert_true(first.loss == second.loss && first.accuracy == second.accuracy);
    trainer_free(tested);
    trainer_free(other);
}

static void a_model_without_a_dense_layer_is_refused_by_name(void **state)
{
    struct teams_data data = *(struct teams_data *)*state;
    struct mst_error err = MST_ERROR_INIT;
    data.model = helper_model("{\"name\":\"all-conv\",\"input\":[8,8,1],\"loss\":\"softmax_cross_entropy\","
                              "\"layers\":[{\"type\":\"conv2d\",\"filters\":4,\"kernel\":[8,8]},"
                              "{\"type\":\"flatten\"}]}");
    const struct trainer_config config = teams_config(&data, 2, 0);
    struct trainer *trainer = teams_trainer(&config);

    assert_int_equal(trainer_check_method(data.model, TRAINER_FACTORS, &err), -ENOTSUP);
    assert_non_null(strstr(err.text, "model 'all-conv' has no dense layer"));
    assert_int_equal(trainer_set_method(trainer, TRAINER_FACTORS, &err), -ENOTSUP);
    assert_int_equal(trainer->method, TRAINER_SUM);
    assert_int_equal(trainer_check_method(data.model, TRAINER_SUM, &err), 0);
    trainer_free(trainer);
    trainer_model_free(data.model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factors_give_the_same_bits_for_every_world_and_every_change),
        cmocka_unit_test(factors_stay_within_1e_5_of_one_process_over_70_steps),
        cmocka_unit_test(testing_between_steps_changes_nothing),
        cmocka_unit_test(a_model_without_a_dense_layer_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, teams_make_data, teams_free_data);
}
