/* SPDX-License-Identifier: Apache-2.0 */
/* Whole trainings of three workers, again and again: over TCP, whose timing is never the same twice, each
 * kind of exchange gives the bits that it gave before. Eight runs of each; a hundred with MUSTER_TEST_LONG=1.
 */
#include "teams.h"

#define WORLD     3
#define STEPS     70
#define RUNS      8
#define RUNS_LONG 100

struct outcome {
    uint8_t digest[MST_SHA256_BYTES];
    double loss; /* of the last step, the mean over all samples */
};

static struct trainer_exchange *new_exchange(bool direct, enum trainer_wire wire, uint32_t rank,
                                             const struct rings_sockets *ring,
                                             const struct meshes_sockets *mesh)
{
    if (direct) {
        struct trainer_direct_options options = meshes_options(mesh, rank, WORLD, WORLD);
        options.wire = wire;
        return meshes_new(&options);
    }
    struct trainer_ring_options options = rings_options(ring, rank, WORLD);
    options.wire = wire;
    return rings_new(&options);
}

static struct outcome train(const struct teams_data *data, bool direct, enum trainer_wire wire)
{
    static struct meshes_sockets mesh;
    const struct rings_sockets ring = rings_connect(direct ? 1 : WORLD, RINGS_TCP);
    const struct trainer_config config = teams_config(data, WORLD, 0.5);
    struct teams_member members[WORLD] = {0};
    struct outcome outcome = {0}, other;

    meshes_connect(&mesh, direct ? WORLD : 1, RINGS_TCP);
    for (uint32_t rank = 0; rank < WORLD; rank++) {
        members[rank] = (struct teams_member){.trainer = teams_trainer(&config),
                                              .exchange = new_exchange(direct, wire, rank, &ring, &mesh),
                                              .steps = STEPS};
        assert_int_equal(trainer_set_exchange(members[rank].trainer, members[rank].exchange, NULL), 0);
    }
    teams_run(members, WORLD);
    for (uint32_t rank = 0; rank < WORLD; rank++) {
        if (members[rank].code < 0)
            fail_msg("%s", members[rank].err.text);
        other.loss = members[rank].stats.loss;
        assert_int_equal(trainer_digest(members[rank].trainer, other.digest, NULL), 0);
        if (rank == 0)
            outcome = other;
        assert_memory_equal(&other, &outcome, sizeof outcome); /* all workers hold the same */
        trainer_free(members[rank].trainer);
        trainer_exchange_free(members[rank].exchange);
    }
    return outcome;
}

static void repeat(const struct teams_data *data, bool direct, enum trainer_wire wire)
{
    const char *text = getenv("MUSTER_TEST_LONG");
    const int runs = text && strcmp(text, "1") == 0 ? RUNS_LONG : RUNS;
    const struct outcome first = train(data, direct, wire);

    for (int run = 1; run < runs; run++) {
        const struct outcome again = train(data, direct, wire);
        if (memcmp(&again, &first, sizeof first) != 0)
            fail_msg("run %d of %d differs from the first", run + 1, runs);
    }
}

static void a_ring_gives_the_same_bits_in_every_run(void **state)
{
    repeat(*state, false, TRAINER_WIRE_F32);
}

static void a_direct_exchange_gives_the_same_bits_in_every_run(void **state)
{
    repeat(*state, true, TRAINER_WIRE_F32);
}

static void so_they_do_with_bfloat16_on_the_wire(void **state)
{
    repeat(*state, false, TRAINER_WIRE_BF16);
    repeat(*state, true, TRAINER_WIRE_BF16);
}

static void bfloat16_ends_within_a_hundredth_of_the_loss(void **state)
{
    for (int direct = 0; direct < 2; direct++) {
        const struct outcome exact = train(*state, direct, TRAINER_WIRE_F32);
        const struct outcome rounded = train(*state, direct, TRAINER_WIRE_BF16);
        assert_memory_not_equal(rounded.digest, exact.digest, sizeof exact.digest); /* it was rounded */
        assert_true(fabs(rounded.loss - exact.loss) <= 0.01 * exact.loss);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_ring_gives_the_same_bits_in_every_run, teams_make_data,
                                        teams_free_data),
        cmocka_unit_test_setup_teardown(a_direct_exchange_gives_the_same_bits_in_every_run, teams_make_data,
                                        teams_free_data),
        cmocka_unit_test_setup_teardown(so_they_do_with_bfloat16_on_the_wire, teams_make_data,
                                        teams_free_data),
        cmocka_unit_test_setup_teardown(bfloat16_ends_within_a_hundredth_of_the_loss, teams_make_data,
                                        teams_free_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
