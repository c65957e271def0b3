/* SPDX-License-Identifier: Apache-2.0 */
#include "helpers.h"
#include "rng.h"

static void draws_the_published_sequence_of_splitmix64(void **state)
{
    (void)state;
    /* The first numbers of the generator with state 1234567, as its authors' reference program prints them.
     */
    static const uint64_t expected[] = {6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                                        4593380528125082431u, 16408922859458223821u};
    struct trainer_rng rng = {.state = 1234567};

    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        assert_true(trainer_rng_next(&rng) == expected[i]);
}

static void keeps_streams_of_one_seed_apart(void **state)
{
    (void)state;
    struct trainer_rng a, b, c, d, again;

    trainer_rng_init(&a, 1, TRAINER_RNG_WEIGHTS, 0);
    trainer_rng_init(&b, 1, TRAINER_RNG_WEIGHTS, 1);
    trainer_rng_init(&c, 1, TRAINER_RNG_ORDER, 0);
    trainer_rng_init(&d, 2, TRAINER_RNG_WEIGHTS, 0);
    trainer_rng_init(&again, 1, TRAINER_RNG_WEIGHTS, 0);
    assert_true(a.state == again.state);
    assert_true(a.state != b.state && a.state != c.state && a.state != d.state && b.state != c.state);
}

static void gives_floats_in_zero_to_one_with_the_right_mean(void **state)
{
    (void)state;
    struct trainer_rng rng;
    double sum = 0;

    trainer_rng_init(&rng, 7, TRAINER_RNG_WEIGHTS, 0);
    for (int i = 0; i < 100000; i++) {
        const float value = trainer_rng_float(&rng);
        assert_true(value >= 0.0f && value < 1.0f);
        sum += (double)value;
    }
    assert_true(sum / 100000 > 0.495 && sum / 100000 < 0.505);
}

static void gives_every_number_below_a_bound_about_as_often(void **state)
{
    (void)state;
    struct trainer_rng rng;
    int seen[7] = {0};

    trainer_rng_init(&rng, 7, TRAINER_RNG_ORDER, 0);
    for (int i = 0; i < 70000; i++) {
        const uint64_t value = trainer_rng_below(&rng, 7);
        assert_true(value < 7);
        seen[value]++;
    }
    for (int i = 0; i < 7; i++)
        assert_in_range(seen[i], 9500, 10500);
    assert_true(trainer_rng_below(&rng, 1) == 0);
    /* A bound just above half of all numbers makes rejection likely: it must still end, and stay below. */
    for (int i = 0; i < 100; i++)
        assert_true(trainer_rng_below(&rng, (UINT64_C(1) << 63) + 1) <= UINT64_C(1) << 63);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_the_published_sequence_of_splitmix64),
        cmocka_unit_test(keeps_streams_of_one_seed_apart),
        cmocka_unit_test(gives_floats_in_zero_to_one_with_the_right_mean),
        cmocka_unit_test(gives_every_number_below_a_bound_about_as_often),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
