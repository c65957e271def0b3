/* SPDX-License-Identifier: Apache-2.0 */
/* Every part once, whoever does it; and what a crew of any size trains has the same bits. */
#include "crew.h"
#include "helpers.h"
#include "teams.h"

#include <pthread.h>
#include <stdatomic.h>

#define MOST_PARTS 300

struct sheet {
    atomic_uint done[MOST_PARTS];
    atomic_uint inner;
    bool nested;
};

static void nothing_of_it(void *context, uint32_t part)
{
    (void)part;
    atomic_fetch_add(&((struct sheet *)context)->inner, 1);
}

static void tick(void *context, uint32_t part)
{
    struct sheet *sheet = context;

    atomic_fetch_add(&sheet->done[part], 1);
    if (sheet->nested)
        crew_share(3, nothing_of_it, sheet);
}

static void check_share(uint32_t parts, bool nested)
{
    struct sheet sheet = {.nested = nested};

    crew_share(parts, tick, &sheet);
    for (uint32_t part = 0; part < MOST_PARTS; part++)
        assert_int_equal(atomic_load(&sheet.done[part]), part < parts);
    assert_int_equal(atomic_load(&sheet.inner), nested ? 3 * parts : 0);
}

static void every_part_is_done_once_by_crews_of_any_size(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 3, 8}, parts[] = {0, 1, 2, 3, 7, 64, MOST_PARTS};

    assert_int_equal(crew_size(), 1);
    check_share(5, true); /* nobody has been hired */
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        assert_int_equal(crew_hire(sizes[s], NULL), 0);
        assert_int_equal(crew_size(), sizes[s]);
        for (int round = 0; round < 200; round++)
            check_share(parts[(size_t)round % (sizeof parts / sizeof parts[0])], round % 3 == 0);
        crew_dismiss();
        assert_int_equal(crew_size(), 1);
    }
}

static void the_last_of_those_that_hired_sends_the_crew_home(void **state)
{
    (void)state;
    assert_int_equal(crew_hire(2, NULL), 0);
    assert_int_equal(crew_hire(4, NULL), 0);
    assert_int_equal(crew_size(), 4);
    crew_dismiss();
    check_share(64, false);
    assert_int_equal(crew_hire(2, NULL), 0);
    assert_int_equal(crew_size(), 2);
    check_share(64, false);
    crew_dismiss();
    crew_dismiss();
    assert_int_equal(crew_size(), 1);
}

static void *share_again_and_again(void *unused)
{
    for (int round = 0; round < 300; round++)
        check_share(1 + (uint32_t)round % 17, round & 1);
    return unused;
}

static void those_that_bring_work_at_once_do_not_wait_for_each_other(void **state)
{
    (void)state;
    pthread_t threads[4];

    assert_int_equal(crew_hire(3, NULL), 0);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, share_again_and_again, NULL), 0);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    crew_dismiss();
}

/* Large enough that products, images and updates are all shared out; some of it does not come out even. */
#define LARGE                                                                                                \
    "{\"name\":\"large\",\"input\":[16,16,1],\"loss\":\"softmax_cross_entropy\",\"layers\":["                \
    "{\"type\":\"conv2d\",\"filters\":7,\"kernel\":[3,3],\"activation\":\"relu\"},"                          \
    "{\"type\":\"conv2d\",\"filters\":9,\"kernel\":[3,3],\"padding\":1,\"activation\":\"relu\"},"            \
    "{\"type\":\"flatten\"},{\"type\":\"dense\",\"units\":130,\"activation\":\"relu\"},"                     \
    "{\"type\":\"dense\",\"units\":5}]}"

static void any_number_of_threads_trains_the_same_bits(void **state)
{
    (void)state;
    static const uint32_t threads[] = {1, 2, 3, 7};
    struct teams_data data = {.model = helper_model(LARGE)};
    struct trainer *first = NULL;

    data.train = helper_dataset((struct trainer_shape){.count = 3, .dims = {16, 16, 1}}, 200, 5);
    for (size_t t = 0; t < sizeof threads / sizeof threads[0]; t++) {
        struct trainer_config config = teams_config(&data, 1, 0.9);
        struct trainer_step_stats stats;
        config.batch = 21;
        config.threads = threads[t];
        struct trainer *trainer = teams_trainer(&config);
        for (int step = 0; step < 5; step++)
            assert_int_equal(trainer_step(trainer, false, &stats, NULL), 0);
        if (first)
            assert_true(teams_same_state(trainer, first));
        if (first)
            trainer_free(trainer);
        else
            first = trainer;
    }
    trainer_free(first);
    trainer_dataset_free(data.train);
    trainer_model_free(data.model);
}

int main(void)
{
    (void)unsetenv("OPENBLAS_CORETYPE"); /* with it the products would be OpenBLAS's */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_is_done_once_by_crews_of_any_size),
        cmocka_unit_test(the_last_of_those_that_hired_sends_the_crew_home),
        cmocka_unit_test(those_that_bring_work_at_once_do_not_wait_for_each_other),
        cmocka_unit_test(any_number_of_threads_trains_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
