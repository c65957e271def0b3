/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/cleanup.h"
#include "muster/file.h"
#include "teams.h"

#include <sys/eventfd.h>

static const struct teams_view changing[] = {
    {{0, 1, 2}, 3, 20}, {{2, 0}, 2, 13}, {{2, 0, 1}, 3, 9}, {{1}, 1, 8}, {{3, 4, 1}, 3, 20},
};

static void the_direct_exchange_gives_the_same_bits_for_every_world_and_every_change(void **state)
{
    static const struct {
        uint32_t shards;
        double momentum;
    } cases[] = {{3, 0}, {3, 0.9}, {5, 0.9}};

    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const struct trainer_config config = teams_config(*state, cases[c].shards, cases[c].momentum);
        struct trainer *undisturbed = NULL, *other = NULL;
        const struct teams_view fixed[] = {
            {{0, 1, 2}, 3, 70}, {{0}, 1, 70}, {{0, 1}, 2, 70}, {{0, 1, 2, 3, 4}, 5, 70}};
        for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
            if (fixed[i].world > cases[c].shards)
                continue;
            teams_run_views(&config, TEAMS_DIRECT, &fixed[i], 1, i == 0 ? &undisturbed : &other);
            if (i == 0)
                continue;
            assert_true(teams_same_state(other, undisturbed));
            trainer_free(other);
        }
        teams_run_views(&config, TEAMS_DIRECT, changing, sizeof changing / sizeof changing[0], &other);
        assert_int_equal(trainer_steps_done(other), 70);
        assert_true(teams_same_state(other, undisturbed));
        trainer_free(other);
        trainer_free(undisturbed);
    }
}

/* The same with the published model, whose gradients are large enough for many segments. */
static void the_published_model_gets_the_same_bits_with_one_two_and_three_workers(void **state)
{
    struct teams_data mnist;
    struct trainer_dataset *test;
    struct mst_error err = MST_ERROR_INIT;
    struct trainer *undisturbed, *other;
    static const struct teams_view fixed = {{0, 1, 2}, 3, 4},
                                   parts[] = {
                                       {{0, 1, 2}, 3, 1}, {{1, 2}, 2, 1}, {{2}, 1, 1}, {{0, 1, 2}, 3, 1}};

    (void)state;
    if (trainer_dataset_open_folder(MUSTER_SOURCE_DIR "/data/mnist", &mnist.train, &test, &err) < 0 ||
        trainer_model_read(MUSTER_SOURCE_DIR "/trainer/models/mnist-cnn.json", &mnist.model, &err) < 0)
        fail_msg("%s", err.text);
    struct trainer_config config = teams_config(&mnist, 3, 0.9);
    config.batch = 64;
    teams_run_views(&config, TEAMS_DIRECT, &fixed, 1, &undisturbed);
    teams_run_views(&config, TEAMS_DIRECT, parts, sizeof parts / sizeof parts[0], &other);
    assert_int_equal(trainer_steps_done(other), 4);
    assert_true(teams_same_state(other, undisturbed));
    trainer_free(undisturbed);
    trainer_free(other);
    trainer_dataset_free(mnist.train);
    trainer_dataset_free(test);
    trainer_model_free(mnist.model);
}

static void both_exchanges_stay_within_1e_5_of_one_process_over_70_steps_and_changes(void **state)
{
    for (int kind = TEAMS_RING; kind <= TEAMS_DIRECT; kind++) {
        const struct trainer_config together = teams_config(*state, 3, 0.5);
        struct trainer_config joined = together;
        struct trainer *changed = NULL, *alone = NULL;
        const struct teams_view one = {{0}, 1, 70};
        joined.batch *= joined.shards;
        joined.shards = 1;
        teams_run_views(&together, (enum teams_kind)kind, changing, sizeof changing / sizeof changing[0],
                        &changed);
        teams_run_views(&joined, TEAMS_RING, &one, 1, &alone);
        if (!(teams_largest_difference(changed, alone) <= 1e-5))
            fail_msg("kind %d: %g", kind, teams_largest_difference(changed, alone));
        trainer_free(changed);
        trainer_free(alone);
    }
}

/* Whatever the exchange, all workers come to the same end, and nothing of it becomes anybody's state. */
static void an_update_that_overflows_ends_all_workers_and_changes_nothing(void **state)
{
    for (int kind = TEAMS_RING; kind <= TEAMS_SHARDED; kind++) {
        struct trainer_config config = teams_config(*state, 3, 0);
        struct teams_member members[3] = {0};
        config.lr = 3e38;
        struct trainer *before = teams_trainer(&config);
        for (size_t i = 0; i < before->count; i++)
            before->parameters[0][i] *= 1e3f;
        for (uint32_t rank = 0; rank < 3; rank++) {
            members[rank] = (struct teams_member){.trainer = teams_trainer(&config), .steps = 1};
            memcpy(members[rank].trainer->parameters[0], before->parameters[0],
                   before->count * sizeof(float));
        }
        teams_meet(members, 3, config.shards, (enum teams_kind)kind);
        teams_run(members, 3);
        teams_part(members, 3);
        for (uint32_t rank = 0; rank < 3; rank++) {
            assert_int_equal(members[rank].code, -ERANGE);
            assert_non_null(strstr(members[rank].err.text, "finite numbers"));
            assert_true(teams_largest_difference(members[rank].trainer, before) == 0);
            assert_int_equal(trainer_steps_done(members[rank].trainer), 0);
            trainer_free(members[rank].trainer);
        }
        trainer_free(before);
    }
}

static void all_workers_pause_after_the_same_step_when_any_of_them_wants_to(void **state)
{
    for (int kind = TEAMS_RING; kind <= TEAMS_SHARDED; kind++) {
        for (uint32_t world = 1; world <= 3; world++) {
            for (uint32_t mask = 0; mask < 1u << world; mask++) {
                const struct trainer_config config = teams_config(*state, 5, 0);
                struct teams_member members[3] = {0};
                for (uint32_t rank = 0; rank < world; rank++)
                    members[rank] = (struct teams_member){.trainer = teams_trainer(&config),
                                                          .steps = 6,
                                                          .pause_after = mask >> rank & 1 ? 3 : 0};
                teams_meet(members, world, config.shards, (enum teams_kind)kind);
                teams_run(members, world);
                teams_check_codes(members, world);
                teams_part(members, world);
                for (uint32_t rank = 0; rank < world; rank++) {
                    assert_int_equal(members[rank].stats.paused, mask != 0);
                    assert_int_equal(trainer_steps_done(members[rank].trainer), mask != 0 ? 4 : 6);
                    trainer_free(members[rank].trainer);
                }
            }
        }
    }
}

static void a_trainer_without_an_exchange_pauses_when_it_is_told_to(void **state)
{
    const struct trainer_config config = teams_config(*state, 2, 0);
    struct trainer *trainer = teams_trainer(&config);
    struct trainer_step_stats stats;

    assert_int_equal(trainer_step(trainer, false, &stats, NULL), 0);
    assert_false(stats.paused);
    assert_int_equal(trainer_step(trainer, true, &stats, NULL), 0);
    assert_true(stats.paused);
    assert_int_equal(trainer_steps_done(trainer), 2);
    trainer_free(trainer);
}

/* A pause changes no bit: the rest of the vector does not know of it. */
static void a_pause_leaves_no_trace_in_the_result(void **state)
{
    const struct trainer_config config = teams_config(*state, 3, 0.9);
    struct trainer *asked = teams_trainer(&config), *other = teams_trainer(&config);
    struct trainer_step_stats stats;

    for (int i = 0; i < 5; i++) {
        assert_int_equal(trainer_step(asked, i % 2 == 0, &stats, NULL), 0);
        assert_int_equal(trainer_step(other, false, &stats, NULL), 0);
    }
    assert_true(teams_same_state(asked, other));
    trainer_free(asked);
    trainer_free(other);
}

/* Not for the place that this worker sums itself in a direct exchange: the others need not know that yet. */
static void raise_cancel(void *context, size_t offset, size_t count)
{
    const struct teams_member *member = context;
    const uint64_t one = 1;

    (void)count;
    if (offset > 0 || !member->exchange->ops->keeps_parts)
        (void)!write(member->cancel_fd, &one, sizeof one);
}

/* Give two thirds of a gradient, and die when the first sum comes back: the others are in the middle of a
 * step that cannot be completed. */
static int die_in_the_middle(struct teams_member *member)
{
    struct trainer *trainer = member->trainer;
    const size_t count = trainer->count + TRAINER_TAIL_FLOATS;
    const struct trainer_sum sum = {.step = trainer->step,
                                    .parts = trainer->gradients,
                                    .part_count = 1,
                                    .shards = 3,
                                    .count = count,
                                    .landed = raise_cancel,
                                    .context = member};
    struct trainer_exchange_stats stats;

    /* What rank 2 would send on first in a ring, and what it would sum itself in a direct exchange. */
    const size_t kept = member->exchange->ops->keeps_parts ? count / 3 : count * 2 / 3;
    const size_t kept_end = kept + count / 3;
    int r = exchange_begin(member->exchange, &sum, &member->err);
    if (r == 0)
        r = exchange_ready(member->exchange, 0, 0, kept, &member->err);
    if (r == 0)
        r = exchange_ready(member->exchange, 0, kept_end, count - kept_end, &member->err);
    return r < 0 ? r : exchange_finish(member->exchange, &stats, &member->err);
}

static void check_failing_step(const struct trainer_config *config, enum teams_kind kind,
                               struct teams_member *members, const struct trainer *before)
{
    struct trainer *first;

    for (uint32_t rank = 0; rank < 3; rank++)
        members[rank] = (struct teams_member){.trainer = teams_trainer(config), .steps = 4};
    members[2].cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_true(members[2].cancel_fd > 0);
    teams_meet(members, 3, config->shards, kind);
    teams_run(members, 3);
    teams_check_codes(members, 3);
    first = members[0].trainer;
    if (kind == TEAMS_DIRECT)
        assert_true(teams_same_state(first, before));
    mst_cleanup(mst_freep) float *untouched = malloc(first->count * sizeof *untouched);
    assert_non_null(untouched);
    memcpy(untouched, first->parameters[1 - first->current], first->count * sizeof *untouched);
    members[2].instead = die_in_the_middle;
    teams_run(members, 3);
    assert_int_equal(members[2].code, -ECANCELED);
    for (uint32_t rank = 0; rank < 2; rank++) {
        assert_int_equal(members[rank].code, -EPIPE);
        assert_null(strstr(members[rank].err.text, "step 5"));
        assert_int_equal(trainer_steps_done(members[rank].trainer), 4);
        assert_true(teams_same_state(members[rank].trainer, members[2].trainer));
    }
    /* It was the middle: rank 0 had begun to write the next parameters. */
    if (kind == TEAMS_DIRECT)
        assert_memory_not_equal(untouched, first->parameters[1 - first->current],
                                first->count * sizeof *untouched);
    teams_part(members, 3);
    (void)close(members[2].cancel_fd);
}

static void a_step_that_errs_in_the_middle_leaves_parameters_momentum_and_step(void **state)
{
    const struct trainer_config config = teams_config(*state, 3, 0.9);
    const struct teams_view until_then = {{0, 1, 2}, 3, 4}, whole = {{0, 1, 2}, 3, 7};
    struct trainer *before, *undisturbed;

    teams_run_views(&config, TEAMS_DIRECT, &until_then, 1, &before);
    teams_run_views(&config, TEAMS_DIRECT, &whole, 1, &undisturbed);
    for (int kind = TEAMS_RING; kind <= TEAMS_DIRECT; kind++) {
        struct teams_member members[3];
        check_failing_step(&config, (enum teams_kind)kind, members, before);
        /* The two that are left go on from there, and end where the undisturbed three do. */
        teams_meet(members, 2, config.shards, (enum teams_kind)kind);
        members[0].steps = members[1].steps = 3;
        teams_run(members, 2);
        teams_check_codes(members, 2);
        teams_part(members, 2);
        assert_true(kind == TEAMS_RING ? teams_largest_difference(members[0].trainer, undisturbed) <= 1e-5
                                       : teams_same_state(members[0].trainer, undisturbed));
        for (uint32_t rank = 0; rank < 3; rank++)
            trainer_free(members[rank].trainer);
    }
    trainer_free(before);
    trainer_free(undisturbed);
}

static void sixty_four_workers_step(void **state)
{
    enum { WORLD = 64 };
    const struct trainer_config config = teams_config(*state, WORLD, 0);
    struct teams_member members[WORLD] = {0};
    struct trainer *alone = NULL;
    const struct teams_view one = {{0}, 1, 3};

    assert_int_equal(mst_raise_descriptor_limit(), 0);
    for (uint32_t rank = 0; rank < WORLD; rank++)
        members[rank] = (struct teams_member){.trainer = teams_trainer(&config), .steps = 3};
    teams_meet(members, WORLD, config.shards, TEAMS_DIRECT);
    teams_run(members, WORLD);
    teams_check_codes(members, WORLD);
    teams_part(members, WORLD);
    teams_run_views(&config, TEAMS_DIRECT, &one, 1, &alone);
    for (uint32_t rank = 0; rank < WORLD; rank++) {
        assert_true(teams_same_state(members[rank].trainer, alone));
        trainer_free(members[rank].trainer);
    }
    trainer_free(alone);
}

static void a_direct_exchange_must_have_been_made_for_the_trainers_shards(void **state)
{
    const struct trainer_config config = teams_config(*state, 3, 0);
    struct trainer *trainer = teams_trainer(&config);
    struct mst_error err = MST_ERROR_INIT;
    struct meshes_sockets sockets;

    meshes_connect(&sockets, 1, RINGS_SOCKET_PAIRS);
    const struct trainer_direct_options options = meshes_options(&sockets, 0, 1, 4);
    struct trainer_exchange *exchange = meshes_new(&options);
    assert_int_equal(trainer_set_exchange(trainer, exchange, &err), -EINVAL);
    assert_non_null(strstr(err.text, "for 4 shards, and a trainer with 3"));
    trainer_exchange_free(exchange);
    trainer_free(trainer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_direct_exchange_gives_the_same_bits_for_every_world_and_every_change),
        cmocka_unit_test(the_published_model_gets_the_same_bits_with_one_two_and_three_workers),
        cmocka_unit_test(both_exchanges_stay_within_1e_5_of_one_process_over_70_steps_and_changes),
        cmocka_unit_test(an_update_that_overflows_ends_all_workers_and_changes_nothing),
        cmocka_unit_test(all_workers_pause_after_the_same_step_when_any_of_them_wants_to),
        cmocka_unit_test(a_trainer_without_an_exchange_pauses_when_it_is_told_to),
        cmocka_unit_test(a_pause_leaves_no_trace_in_the_result),
        cmocka_unit_test(a_step_that_errs_in_the_middle_leaves_parameters_momentum_and_step),
        cmocka_unit_test(sixty_four_workers_step),
        cmocka_unit_test(a_direct_exchange_must_have_been_made_for_the_trainers_shards),
    };
    return cmocka_run_group_tests(tests, teams_make_data, teams_free_data);
}
