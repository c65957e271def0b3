/* SPDX-License-Identifier: Apache-2.0 */
#include "split.h"
#include "teams.h"

static const struct teams_view changing[] = {
    {{0, 1, 2}, 3, 20}, {{2, 0}, 2, 13}, {{2, 0, 1}, 3, 9}, {{1}, 1, 8}, {{3, 4, 1}, 3, 20},
};

/* The feeder is a convolution, one behind another convolution, and a dense layer. */
static const char *const models[] = {
    TEAMS_SMALL,
    "{\"name\":\"second\",\"input\":[8,8,1],\"loss\":\"softmax_cross_entropy\",\"layers\":["
    "{\"type\":\"conv2d\",\"filters\":3,\"kernel\":[3,3],\"activation\":\"relu\"},"
    "{\"type\":\"conv2d\",\"filters\":5,\"kernel\":[2,2]},{\"type\":\"relu\"},{\"type\":\"flatten\"},"
    "{\"type\":\"dense\",\"units\":16,\"activation\":\"relu\"},{\"type\":\"dense\",\"units\":4}]}",
    "{\"name\":\"dense\",\"input\":[8,8,1],\"loss\":\"softmax_cross_entropy\",\"layers\":["
    "{\"type\":\"flatten\"},{\"type\":\"dense\",\"units\":7,\"activation\":\"relu\"},"
    "{\"type\":\"dense\",\"units\":70,\"activation\":\"relu\"},{\"type\":\"dense\",\"units\":4}]}",
};

static void shares_stay_within_1e_5_of_one_process_over_70_steps_and_changes(void **state)
{
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        struct teams_data data = *(struct teams_data *)*state;
        data.model = helper_model(models[m]);
        const struct trainer_config together = teams_config(&data, 3, 0.5);
        struct trainer_config joined = together;
        struct trainer *changed = NULL, *alone = NULL;
        const struct teams_view one = {{0}, 1, 70};
        joined.batch *= joined.shards;
        joined.shards = 1;
        teams_run_views(&together, TEAMS_SHARDED, changing, sizeof changing / sizeof changing[0], &changed);
        teams_run_views(&joined, TEAMS_RING, &one, 1, &alone);
        assert_int_equal(trainer_steps_done(changed), 70);
        if (!(teams_largest_difference(changed, alone) <= 1e-5))
            fail_msg("%s: %g", data.model->name, teams_largest_difference(changed, alone));
        trainer_free(changed);
        trainer_free(alone);
        trainer_model_free(data.model);
    }
}

/* Taken apart and put together again, an arena is what it was, for every number of shares. */
static void shares_hold_every_parameter_once(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        struct trainer_model *model = helper_model(models[m]);
        float *all = calloc(model->parameters, sizeof *all),
              *again = calloc(model->parameters, sizeof *again);
        for (size_t i = 0; i < model->parameters; i++)
            all[i] = (float)(i + 1);
        for (uint32_t world = 1; world <= 3; world++) {
            size_t cut = 0, common = 0;
            memset(again, 0, model->parameters * sizeof *again);
            for (uint32_t rank = 0; rank < world; rank++) {
                struct trainer_split split = {0};
                assert_int_equal(trainer_split_share(model, rank, world, &split, NULL), 0);
                float *share = calloc(split.model->parameters, sizeof *share);
                float *packed = calloc(trainer_split_floats(&split), sizeof *packed);
                trainer_split_take(&split, model, all, share);
                trainer_split_pack(&split, share, packed);
                trainer_split_unpack(&split, model, packed, again);
                trainer_split_give(&split, model, share, again);
                cut += trainer_split_floats(&split);
                common = split.model->parameters - trainer_split_floats(&split);
                free(share);
                free(packed);
                trainer_split_free(&split);
            }
            assert_int_equal(cut + common, model->parameters);
            assert_memory_equal(all, again, model->parameters * sizeof *all);
        }
        free(all);
        free(again);
        trainer_model_free(model);
    }
}

static void meet_three(const struct trainer_config *config, struct teams_member *members)
{
    for (uint32_t rank = 0; rank < 3; rank++)
        members[rank] = (struct teams_member){.trainer = teams_trainer(config), .steps = 4};
    teams_meet(members, 3, config->shards, TEAMS_SHARDED);
}

static int step_without_gathering(struct teams_member *member)
{
    int r = 0;

    for (int i = 0; i < 3 && r == 0; i++)
        r = trainer_step(member->trainer, false, &member->stats, &member->err);
    return r;
}

static void a_view_that_ends_without_gathering_goes_back_to_what_was_gathered(void **state)
{
    const struct trainer_config config = teams_config(*state, 3, 0.9);
    struct teams_member members[3];
    struct trainer *before, *after;
    const struct teams_view four = {{0, 1, 2}, 3, 4}, seven[] = {{{0, 1, 2}, 3, 4}, {{0, 1, 2}, 3, 3}};

    teams_run_views(&config, TEAMS_SHARDED, &four, 1, &before);
    teams_run_views(&config, TEAMS_SHARDED, seven, 2, &after);
    meet_three(&config, members);
    teams_run(members, 3);
    teams_check_codes(members, 3);
    for (uint32_t rank = 0; rank < 3; rank++)
        members[rank].instead = step_without_gathering;
    teams_run(members, 3);
    teams_check_codes(members, 3);
    assert_int_equal(trainer_steps_done(members[0].trainer), 7);
    teams_part(members, 3);
    for (uint32_t rank = 0; rank < 3; rank++) {
        assert_int_equal(trainer_steps_done(members[rank].trainer), 4);
        assert_true(teams_same_state(members[rank].trainer, before));
        members[rank].instead = NULL;
        members[rank].steps = 3;
    }
    teams_meet(members, 3, config.shards, TEAMS_SHARDED);
    teams_run(members, 3);
    teams_check_codes(members, 3);
    for (uint32_t rank = 0; rank < 3; rank++) {
        assert_true(teams_same_state(members[rank].trainer, after));
        trainer_exchange_free(members[rank].exchange);
        trainer_free(members[rank].trainer);
    }
    trainer_free(before);
    trainer_free(after);
}

static int step_and_test(struct teams_member *member)
{
    struct trainer_evaluation test;

    int r = trainer_step(member->trainer, false, &member->stats, &member->err);
    if (r == 0)
        r = trainer_verify_replicas(member->trainer, &member->err);
    if (r == 0)
        r = trainer_step(member->trainer, false, &member->stats, &member->err);
    if (r == 0)
        r = trainer_evaluate(member->trainer, &test, &member->err);
    if (r == 0 && !(test.images == 500 && test.loss > 0))
        r = -EDOM;
    return r;
}

static void tests_and_comparisons_see_the_parameters_of_the_last_step(void **state)
{
    struct trainer_config config = teams_config(*state, 3, 0);
    struct teams_member members[3];

    config.test = config.train;
    meet_three(&config, members);
    for (uint32_t rank = 0; rank < 3; rank++)
        members[rank].instead = step_and_test;
    teams_run(members, 3);
    teams_check_codes(members, 3);
    teams_part(members, 3);
    for (uint32_t rank = 0; rank < 3; rank++) {
        assert_int_equal(trainer_steps_done(members[rank].trainer), 2);
        assert_true(teams_same_state(members[rank].trainer, members[0].trainer));
        if (rank > 0)
            trainer_free(members[rank].trainer);
    }
    trainer_free(members[0].trainer);
}

static void what_cannot_be_cut_is_refused_by_name(void **state)
{
    static const struct {
        const char *model, *text;
    } cases[] = {
        {"{\"name\":\"m\",\"input\":[8,8,1],\"loss\":\"softmax_cross_entropy\",\"layers\":["
         "{\"type\":\"conv2d\",\"filters\":4,\"kernel\":[8,8]},{\"type\":\"flatten\"}]}",
         "model 'm' has no dense layer"},
        {"{\"name\":\"m\",\"input\":[8,8,1],\"loss\":\"softmax_cross_entropy\",\"layers\":["
         "{\"type\":\"flatten\"},{\"type\":\"dense\",\"units\":4,\"name\":\"head\"}]}",
         "layer 'head' takes the input itself"},
    };
    struct mst_error err = MST_ERROR_INIT;

    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct trainer_model *model = helper_model(cases[c].model);
        assert_int_equal(trainer_check_method(model, TRAINER_SHARDED, &err), -ENOTSUP);
        if (!strstr(err.text, cases[c].text))
            fail_msg("%s", err.text);
        trainer_model_free(model);
    }
    struct trainer_split split;
    const struct teams_data *data = *state;
    assert_int_equal(trainer_split_share(data->model, 4, 5, &split, &err), -EINVAL);
    assert_non_null(strstr(err.text, "5 workers for the 4 channels of layer 'conv2d_1'"));
    struct trainer_config config = teams_config(data, 2, 0);
    config.rule.clip_norm = 1;
    struct trainer *trainer = teams_trainer(&config);
    struct meshes_sockets sockets;
    meshes_connect(&sockets, 1, RINGS_SOCKET_PAIRS);
    const struct trainer_direct_options options = meshes_options(&sockets, 0, 1, 2);
    struct trainer_exchange *exchange = meshes_new(&options);
    assert_int_equal(trainer_set_method(trainer, TRAINER_SHARDED, &err), 0);
    assert_int_equal(trainer_set_exchange(trainer, exchange, &err), -EINVAL);
    assert_non_null(strstr(err.text, "clipped"));
    trainer_exchange_free(exchange);
    trainer_free(trainer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_stay_within_1e_5_of_one_process_over_70_steps_and_changes),
        cmocka_unit_test(shares_hold_every_parameter_once),
        cmocka_unit_test(a_view_that_ends_without_gathering_goes_back_to_what_was_gathered),
        cmocka_unit_test(tests_and_comparisons_see_the_parameters_of_the_last_step),
        cmocka_unit_test(what_cannot_be_cut_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, teams_make_data, teams_free_data);
}
