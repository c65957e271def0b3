/* SPDX-License-Identifier: Apache-2.0 */
#include "choose.h"
#include "muster/clock.h"
#include "teams.h"

struct chooser {
    struct trainer *trainer;
    struct trainer_exchange *exchange;
    struct trainer_choice choice;
    int code;
    struct mst_error err;
};

static void *choose(void *argument)
{
    struct chooser *chooser = argument;

    chooser->code = trainer_choose(chooser->trainer, chooser->exchange, &chooser->choice, &chooser->err);
    if (chooser->code == 0)
        chooser->code = trainer_compare_kernels(chooser->exchange, &chooser->err);
    return NULL;
}

static void all_workers_choose_the_same_and_nothing_else_changes(void **state)
{
    for (uint32_t world = 1; world <= 5; world++) {
        const struct trainer_config config = teams_config(*state, 5, 0);
        struct chooser choosers[5] = {0};
        struct meshes_sockets sockets;
        meshes_connect(&sockets, world, RINGS_TCP);
        for (uint32_t rank = 0; rank < world; rank++) {
            const struct trainer_direct_options options = meshes_options(&sockets, rank, world, 5);
            choosers[rank].trainer = teams_trainer(&config);
            choosers[rank].exchange = meshes_new(&options);
        }
        rings_run(world, choose, choosers, sizeof choosers[0]);
        struct trainer *fresh = teams_trainer(&config);
        for (uint32_t rank = 0; rank < world; rank++) {
            const struct trainer_choice *choice = &choosers[rank].choice;
            if (choosers[rank].code < 0)
                fail_msg("world %u, rank %u: %s", world, rank, choosers[rank].err.text);
            assert_int_equal(choice->kind, choosers[0].choice.kind);
            assert_true(choice->same_kernels);
            assert_true(world == 1 ? choice->kind == TRAINER_DIRECT
                                   : choice->bytes_per_s > 0 && choice->flops > 0 && choice->latency_ms > 0);
            assert_true(teams_same_state(choosers[rank].trainer, fresh));
            trainer_exchange_free(choosers[rank].exchange);
            trainer_free(choosers[rank].trainer);
        }
        trainer_free(fresh);
    }
}

static void slow_links_take_factors_and_fast_ones_sums(void **state)
{
    struct mst_error err = MST_ERROR_INIT;
    struct teams_data data = *(struct teams_data *)*state;
    if (trainer_model_read(MUSTER_SOURCE_DIR "/trainer/models/mnist-cnn.json", &data.model, &err) < 0)
        fail_msg("%s", err.text);
    /* 5 ms a shard is what rebuilding costs on one thread of a server's CPU. */
    const struct {
        uint32_t shards, world;
        double mbit_per_s, shard_ms;
        bool same_kernels;
        enum trainer_kind kind;
    } cases[] = {
        {3, 3, 100, 5, true, TRAINER_BY_FACTORS}, {3, 3, 1000, 5, true, TRAINER_BY_FACTORS},
        {3, 3, 1000, 5, false, TRAINER_DIRECT},   {3, 3, 1000, -1, true, TRAINER_DIRECT},
        {3, 3, 40000, 5, true, TRAINER_DIRECT},   {6, 3, 1000, -1, true, TRAINER_RING},
        {64, 64, 10000, 5, true, TRAINER_DIRECT}, {3, 2, 100, 5, true, TRAINER_BY_FACTORS},
        {3, 3, 100, 5000, true, TRAINER_DIRECT},
    };

    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct trainer_config config = teams_config(&data, cases[c].shards, 0);
        config.batch = 64;
        struct trainer_choice choice = {.bytes_per_s = cases[c].mbit_per_s * 1e6 / 8,
                                        .latency_ms = 0.2,
                                        .same_kernels = cases[c].same_kernels};
        trainer_choose_estimate(&config, cases[c].world, cases[c].shard_ms, &choice);
        if (trainer_choose_best(&choice) != cases[c].kind)
            fail_msg("case %zu: kind %d (%g, %g, %g ms)", c, (int)trainer_choose_best(&choice),
                     choice.step_ms[0], choice.step_ms[1], choice.step_ms[2]);
    }
    /* Three workers send two thirds of the parameters twice. */
    struct trainer_config config = teams_config(&data, 3, 0);
    struct trainer_choice choice = {.bytes_per_s = 125e6};
    trainer_choose_estimate(&config, 3, -1, &choice);
    assert_true(fabs(choice.step_ms[TRAINER_DIRECT] - 118.2) < 0.1);
    trainer_model_free(data.model);
}

static void *leave(void *argument)
{
    struct chooser *chooser = argument;

    trainer_exchange_free(chooser->exchange);
    chooser->exchange = NULL;
    return NULL;
}

static void *choose_or_leave(void *argument)
{
    struct chooser *chooser = argument;

    return chooser->trainer ? choose(chooser) : leave(chooser);
}

static void a_worker_that_leaves_ends_the_measuring_with_an_error(void **state)
{
    const struct trainer_config config = teams_config(*state, 3, 0);
    struct chooser choosers[3] = {0};
    struct meshes_sockets sockets;

    meshes_connect(&sockets, 3, RINGS_TCP);
    for (uint32_t rank = 0; rank < 3; rank++) {
        const struct trainer_direct_options options = meshes_options(&sockets, rank, 3, 3);
        choosers[rank].trainer = rank < 2 ? teams_trainer(&config) : NULL;
        choosers[rank].exchange = meshes_new(&options);
    }
    rings_run(3, choose_or_leave, choosers, sizeof choosers[0]);
    for (uint32_t rank = 0; rank < 2; rank++) {
        assert_true(choosers[rank].code == -EPIPE || choosers[rank].code == -ECONNRESET);
        assert_non_null(strstr(choosers[rank].err.text, "choose an exchange: "));
        trainer_exchange_free(choosers[rank].exchange);
        trainer_free(choosers[rank].trainer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_workers_choose_the_same_and_nothing_else_changes),
        cmocka_unit_test(slow_links_take_factors_and_fast_ones_sums),
        cmocka_unit_test(a_worker_that_leaves_ends_the_measuring_with_an_error),
    };
    return cmocka_run_group_tests(tests, teams_make_data, teams_free_data);
}
