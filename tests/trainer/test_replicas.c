/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/buf.h"
#include "teams.h"

#include <sys/eventfd.h>

#define MAX_WORLD   5
#define EXTRA_BYTES 37
#define HIGHEST     12

/* A team whose states and extras are all known: copies are kept of what they were. */
struct team {
    struct teams_member members[MAX_WORLD];
    struct trainer *before[MAX_WORLD];
    uint8_t extras[MAX_WORLD][EXTRA_BYTES], extras_before[MAX_WORLD][EXTRA_BYTES];
    uint64_t steps[MAX_WORLD];
    uint32_t world;
    bool behind[MAX_WORLD];
};

/* Those in the mask are behind, each with a state of its own; some of them have not begun. */
static void set_up_team(struct team *team, const struct trainer_config *config, uint32_t world,
                        uint32_t behind_mask)
{
    *team = (struct team){.world = world};
    for (uint32_t rank = 0; rank < world; rank++) {
        team->behind[rank] = behind_mask >> rank & 1;
        team->steps[rank] = team->behind[rank] ? (rank * 5) % HIGHEST : HIGHEST;
        team->before[rank] = teams_trainer(config);
        team->members[rank] = (struct teams_member){.trainer = teams_trainer(config),
                                                    .known_steps = team->steps,
                                                    .extra = team->extras[rank],
                                                    .extra_bytes = EXTRA_BYTES};
        const uint32_t seed = team->behind[rank] ? 100 + rank : 7;
        teams_set_state(team->members[rank].trainer, team->steps[rank], seed);
        teams_set_state(team->before[rank], team->steps[rank], seed);
        memset(team->extras[rank], (int)seed, EXTRA_BYTES);
        memcpy(team->extras_before[rank], team->extras[rank], EXTRA_BYTES);
    }
}

static void tear_down_team(struct team *team)
{
    for (uint32_t rank = 0; rank < team->world; rank++) {
        trainer_free(team->members[rank].trainer);
        trainer_free(team->before[rank]);
    }
}

static void check_unchanged(const struct team *team, uint32_t rank)
{
    assert_true(teams_same_state(team->members[rank].trainer, team->before[rank]));
    assert_memory_equal(team->extras[rank], team->extras_before[rank], EXTRA_BYTES);
}

static void check_level(const struct team *team)
{
    uint32_t holder = 0;

    while (team->behind[holder])
        holder++;
    for (uint32_t rank = 0; rank < team->world; rank++) {
        const struct teams_member *member = &team->members[rank];
        assert_true(teams_same_state(member->trainer, team->before[holder]));
        assert_memory_equal(team->extras[rank], team->extras_before[holder], EXTRA_BYTES);
        assert_int_equal(member->synchronised.took, team->behind[rank]);
        assert_int_equal(member->synchronised.step, HIGHEST);
        assert_true(member->synchronised.ms >= 0);
    }
}

static void check_every_combination(const struct trainer_config *config, enum teams_kind kind, uint32_t world)
{
    for (uint32_t mask = 0; mask < (1u << world) - 1; mask++) {
        struct team team;
        set_up_team(&team, config, world, mask);
        teams_meet(team.members, world, config->shards, kind);
        teams_run(team.members, world);
        teams_check_codes(team.members, world);
        teams_part(team.members, world);
        check_level(&team);
        tear_down_team(&team);
    }
}

static void whoever_is_behind_takes_the_state_of_the_others(void **state)
{
    for (uint32_t world = 1; world <= MAX_WORLD; world++) {
        for (int momentum = 0; momentum < 2; momentum++) {
            const struct trainer_config config = teams_config(*state, 5, 0.5 * momentum);
            check_every_combination(&config, TEAMS_RING, world);
            check_every_combination(&config, TEAMS_DIRECT, world);
        }
    }
}

/* Several segments, of which each holder of a direct exchange sends some. */
static void a_large_state_comes_in_parts(void **state)
{
    struct teams_data data = *(const struct teams_data *)*state;

    data.model = helper_model("{\"name\":\"large\",\"input\":[8,8,1],\"loss\":\"softmax_cross_entropy\","
                              "\"layers\":[{\"type\":\"flatten\"},{\"type\":\"dense\",\"units\":5000},"
                              "{\"type\":\"dense\",\"units\":10}]}");
    const struct trainer_config config = teams_config(&data, 5, 0.5);
    const uint64_t state_bytes = 2 * sizeof(float) * trainer_model_parameters(data.model) + EXTRA_BYTES;
    for (int kind = TEAMS_RING; kind <= TEAMS_DIRECT; kind++) {
        static const uint32_t masks[] = {1, 6, 8, 11, 15, 30};
        for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++) {
            struct team team;
            uint64_t sent_and_received = 0;
            size_t behind = 0;
            set_up_team(&team, &config, MAX_WORLD, masks[i]);
            teams_meet(team.members, MAX_WORLD, config.shards, (enum teams_kind)kind);
            teams_run(team.members, MAX_WORLD);
            teams_check_codes(team.members, MAX_WORLD);
            teams_part(team.members, MAX_WORLD);
            check_level(&team);
            for (uint32_t rank = 0; rank < MAX_WORLD; rank++) {
                behind += team.behind[rank];
                sent_and_received += team.members[rank].synchronised.bytes;
            }
            /* Nothing goes twice: one copy for each of those behind, and the frames. */
            assert_in_range(sent_and_received, 2 * behind * state_bytes,
                            2 * behind * (state_bytes + state_bytes / 1000));
            tear_down_team(&team);
        }
    }
    trainer_model_free(data.model);
}

static void a_holder_whose_bits_differ_is_told_and_nobody_takes_anything(void **state)
{
    const struct trainer_config config = teams_config(*state, 4, 0.9);

    for (int kind = TEAMS_RING; kind <= TEAMS_DIRECT; kind++) {
        /* What differs: a parameter, a momentum, a byte of the extra. */
        for (int what = 0; what < 3; what++) {
            struct team team;
            set_up_team(&team, &config, 4, 1 << 1);
            struct trainer *odd = team.members[2].trainer, *copy = team.before[2];
            odd->parameters[0][17] = copy->parameters[0][17] = what == 0 ? 1.0f : odd->parameters[0][17];
            odd->states[0][0][odd->count - 1] = copy->states[0][0][odd->count - 1] =
                what == 1 ? 2.0f : odd->states[0][0][odd->count - 1];
            team.extras[2][3] = team.extras_before[2][3] ^= what == 2;
            teams_meet(team.members, 4, config.shards, (enum teams_kind)kind);
            teams_run(team.members, 4);
            teams_part(team.members, 4);
            for (uint32_t rank = 0; rank < 4; rank++) {
                assert_int_equal(team.members[rank].code, -EUCLEAN);
                assert_non_null(strstr(team.members[rank].err.text, "differ from those of rank 0: ranks"));
                assert_non_null(strstr(team.members[rank].err.text, " 2"));
                assert_null(strstr(team.members[rank].err.text, " 3"));
                check_unchanged(&team, rank);
            }
            tear_down_team(&team);
        }
    }
}

/* The holder to hold the others against is not rank 0 when that one is behind. */
static void states_are_held_against_the_first_holders(void **state)
{
    const struct trainer_config config = teams_config(*state, 3, 0);
    struct team team;

    set_up_team(&team, &config, 3, 1);
    team.members[2].trainer->parameters[0][0] = 1.0f;
    teams_meet(team.members, 3, config.shards, TEAMS_RING);
    teams_run(team.members, 3);
    teams_part(team.members, 3);
    for (uint32_t rank = 0; rank < 3; rank++) {
        assert_int_equal(team.members[rank].code, -EUCLEAN);
        assert_non_null(
            strstr(team.members[rank].err.text,
                   "after step 12 the states of 2 of 3 workers differ from those of rank 1: ranks "
                   "0 2"));
    }
    tear_down_team(&team);
}

static void a_cancelled_worker_ends_it_for_all_and_states_are_as_before(void **state)
{
    const struct trainer_config config = teams_config(*state, 3, 0.9);

    for (int kind = TEAMS_RING; kind <= TEAMS_DIRECT; kind++) {
        for (uint32_t cancelled = 0; cancelled < 3; cancelled++) {
            struct team team;
            set_up_team(&team, &config, 3, 1 << 1);
            const int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
            assert_true(fd > 0);
            team.members[cancelled].cancel_fd = fd;
            teams_meet(team.members, 3, config.shards, (enum teams_kind)kind);
            teams_run(team.members, 3);
            teams_part(team.members, 3);
            for (uint32_t rank = 0; rank < 3; rank++) {
                assert_int_equal(team.members[rank].code, rank == cancelled ? -ECANCELED : -EPIPE);
                check_unchanged(&team, rank);
            }
            tear_down_team(&team);
            (void)close(fd);
        }
    }
}

/* Rank 0 of two, played by the test: what it sends, as far as it comes. */
static void send_state(int fd, const struct trainer *trainer, size_t most)
{
    struct exchange_frame frame = {.job_key = RINGS_JOB_KEY,
                                   .view = RINGS_VIEW,
                                   .step = HIGHEST | EXCHANGE_FOR_STATE,
                                   .phase = EXCHANGE_PHASE_SPREAD,
                                   .bytes = (uint32_t)(trainer->count * sizeof(float))};
    struct mst_buf bytes = MST_BUF_INIT(1000000);
    uint8_t wire[EXCHANGE_FRAME_BYTES], extra[EXTRA_BYTES] = {0};

    exchange_frame_write(&frame, wire);
    assert_int_equal(mst_buf_append(&bytes, wire, sizeof wire), 0);
    assert_int_equal(mst_buf_append(&bytes, trainer->parameters[trainer->current], frame.bytes), 0);
    frame.segment = 1;
    exchange_frame_write(&frame, wire);
    assert_int_equal(mst_buf_append(&bytes, wire, sizeof wire), 0);
    assert_int_equal(mst_buf_append(&bytes, trainer->states[trainer->current][0], frame.bytes), 0);
    frame.segment = 2;
    frame.bytes = sizeof extra;
    exchange_frame_write(&frame, wire);
    assert_int_equal(mst_buf_append(&bytes, wire, sizeof wire), 0);
    assert_int_equal(mst_buf_append(&bytes, extra, sizeof extra), 0);
    if (most > bytes.count)
        most = bytes.count;
    assert_int_equal(mst_send_all(fd, bytes.bytes, most, mst_now_ns() + MST_NS_PER_S), 0);
    mst_buf_release(&bytes);
}

static void a_holder_that_dies_in_the_middle_leaves_the_others_state(void **state)
{
    const struct trainer_config config = teams_config(*state, 2, 0.9);
    const size_t segment = EXCHANGE_FRAME_BYTES + trainer_model_parameters(config.model) * sizeof(float);
    /* Within the first frame, the parameters, the momentum, the extra, and the comparison. */
    const size_t cuts[] = {0,
                           5,
                           EXCHANGE_FRAME_BYTES + 100,
                           segment,
                           segment + 100,
                           2 * segment,
                           2 * segment + EXCHANGE_FRAME_BYTES + 1,
                           SIZE_MAX};

    for (int kind = TEAMS_RING; kind <= TEAMS_DIRECT; kind++) {
        for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
            struct team team;
            set_up_team(&team, &config, 2, 1 << 1);
            teams_meet(team.members, 2, config.shards, (enum teams_kind)kind);
            send_state(team.members[0].exchange->links[1].fd, team.members[0].trainer, cuts[i]);
            assert_int_equal(trainer_set_exchange(team.members[0].trainer, NULL, NULL), 0);
            trainer_exchange_free(team.members[0].exchange);
            team.members[0].exchange = NULL;
            (void)teams_work(&team.members[1]);
            assert_int_equal(team.members[1].code, -EPIPE);
            assert_non_null(strstr(team.members[1].err.text, "synchronise after step 12: "));
            check_unchanged(&team, 1);
            teams_part(team.members, 2);
            tear_down_team(&team);
        }
    }
}

static void wrong_steps_and_too_large_extras_are_refused(void **state)
{
    const struct trainer_config config = teams_config(*state, 3, 0);
    struct trainer *trainer = teams_trainer(&config);
    struct trainer_synchronised synchronised = {.step = 77};
    uint8_t extra[TRAINER_MAX_EXTRA_BYTES + 1] = {0};
    struct mst_error err = MST_ERROR_INIT;
    uint64_t steps[1] = {1};

    assert_int_equal(trainer_synchronise(trainer, steps, NULL, 0, &synchronised, &err), -EINVAL);
    assert_non_null(strstr(err.text, "is said to be after step 1, and is after step 0"));
    steps[0] = 0;
    assert_int_equal(trainer_synchronise(trainer, steps, extra, sizeof extra, &synchronised, &err), -EINVAL);
    assert_non_null(strstr(err.text, "4097 bytes"));
    assert_int_equal(synchronised.step, 77);
    assert_int_equal(trainer_synchronise(trainer, steps, extra, sizeof extra - 1, &synchronised, &err), 0);
    assert_int_equal(synchronised.step, 0);
    assert_false(synchronised.took);
    trainer_free(trainer);
}

/* Workers that do not agree on who is behind must not mix states. */
static void workers_that_know_different_steps_fail(void **state)
{
    const struct trainer_config config = teams_config(*state, 3, 0);
    const uint64_t others[] = {HIGHEST, 5, HIGHEST};
    struct team team;

    set_up_team(&team, &config, 3, 1 << 2);
    team.members[0].known_steps = others;
    teams_meet(team.members, 3, config.shards, TEAMS_DIRECT);
    teams_run(team.members, 3);
    teams_part(team.members, 3);
    for (uint32_t rank = 0; rank < 3; rank++) {
        assert_true(team.members[rank].code == -EPROTO || team.members[rank].code == -EPIPE);
        check_unchanged(&team, rank);
    }
    tear_down_team(&team);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_is_behind_takes_the_state_of_the_others),
        cmocka_unit_test(a_large_state_comes_in_parts),
        cmocka_unit_test(a_holder_whose_bits_differ_is_told_and_nobody_takes_anything),
        cmocka_unit_test(states_are_held_against_the_first_holders),
        cmocka_unit_test(a_cancelled_worker_ends_it_for_all_and_states_are_as_before),
        cmocka_unit_test(a_holder_that_dies_in_the_middle_leaves_the_others_state),
        cmocka_unit_test(wrong_steps_and_too_large_extras_are_refused),
        cmocka_unit_test(workers_that_know_different_steps_fail),
    };
    return cmocka_run_group_tests(tests, teams_make_data, teams_free_data);
}
