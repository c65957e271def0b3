/* SPDX-License-Identifier: Apache-2.0 */
#include "helpers.h"
#include "order.h"

static struct trainer_order order_of(uint64_t seed, size_t count)
{
    struct trainer_order order;
    struct mst_error err = MST_ERROR_INIT;

    if (trainer_order_init(&order, seed, count, &err) < 0)
        fail_msg("%s", err.text);
    return order;
}

/* Lay `steps` steps end to end, shard by shard. */
static void lay_out(struct trainer_order *order, uint32_t steps, uint32_t shards, uint32_t batch,
                    uint32_t *samples)
{
    for (uint32_t step = 0; step < steps; step++) {
        for (uint32_t shard = 0; shard < shards; shard++, samples += batch)
            trainer_order_batch(order, step, shards, shard, batch, samples);
    }
}

static void gives_every_sample_exactly_once_a_pass(void **state)
{
    (void)state;
    /* 60 is no multiple of 3 * 7: passes end within batches. */
    enum { COUNT = 60, SHARDS = 3, BATCH = 7, PASSES = 7, STEPS = COUNT * PASSES / (SHARDS * BATCH) };
    struct trainer_order order = order_of(1, COUNT);
    uint32_t samples[STEPS * SHARDS * BATCH];

    lay_out(&order, STEPS, SHARDS, BATCH, samples);
    for (int pass = 0; pass < PASSES; pass++) {
        int seen[COUNT] = {0};
        for (int i = 0; i < COUNT; i++)
            seen[samples[pass * COUNT + i]]++;
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(seen[i], 1);
    }
    trainer_order_release(&order);
}

static void has_another_permutation_in_each_pass_and_for_each_seed(void **state)
{
    (void)state;
    struct trainer_order one = order_of(1, 100), two = order_of(2, 100);
    uint32_t first[100], second[100], other[100], natural[100];

    for (uint32_t i = 0; i < 100; i++)
        natural[i] = i;
    trainer_order_batch(&one, 0, 1, 0, 100, first);
    trainer_order_batch(&one, 1, 1, 0, 100, second);
    trainer_order_batch(&two, 0, 1, 0, 100, other);
    assert_memory_not_equal(first, second, sizeof first);
    assert_memory_not_equal(first, other, sizeof first);
    assert_memory_not_equal(first, natural, sizeof first);
    trainer_order_release(&one);
    trainer_order_release(&two);
}

static void depends_on_step_and_shard_only_not_on_what_was_asked_before(void **state)
{
    (void)state;
    enum { COUNT = 50, SHARDS = 4, BATCH = 6, STEPS = 20 };
    struct trainer_order straight = order_of(9, COUNT), jumping = order_of(9, COUNT);
    uint32_t all[STEPS * SHARDS * BATCH], some[BATCH];

    lay_out(&straight, STEPS, SHARDS, BATCH, all);
    for (uint32_t i = 0; i < STEPS * SHARDS; i++) {
        const uint32_t at =
            i * 37 % (STEPS * SHARDS); /* 37 and 80 have no common divisor: every place once */
        trainer_order_batch(&jumping, at / SHARDS, SHARDS, at % SHARDS, BATCH, some);
        assert_memory_equal(some, all + at * BATCH, sizeof some);
    }
    trainer_order_release(&straight);
    trainer_order_release(&jumping);
}

static void gives_the_same_samples_to_a_step_however_it_is_cut_into_shards(void **state)
{
    (void)state;
    struct trainer_order order = order_of(3, 1000);
    uint32_t whole[192], parts[192];

    trainer_order_batch(&order, 11, 1, 0, 192, whole);
    for (uint32_t shard = 0; shard < 3; shard++)
        trainer_order_batch(&order, 11, 3, shard, 64, parts + 64 * shard);
    assert_memory_equal(whole, parts, sizeof whole);
    trainer_order_release(&order);
}

static void serves_a_batch_larger_than_the_data(void **state)
{
    (void)state;
    struct trainer_order order = order_of(3, 2);
    uint32_t samples[9];

    trainer_order_batch(&order, 0, 1, 0, 9, samples);
    for (int i = 0; i < 8; i += 2)
        assert_int_equal(samples[i] + samples[i + 1], 1);
    trainer_order_release(&order);

    struct trainer_order single = order_of(3, 1);
    trainer_order_batch(&single, 5, 1, 0, 9, samples);
    for (int i = 0; i < 9; i++)
        assert_int_equal(samples[i], 0);
    trainer_order_release(&single);
}

/* Workers of a step, each with an order of its own, count what they take: the shards rank, rank + world, ...
 */
static void take_step(struct trainer_order *orders, uint32_t world, uint64_t step, uint32_t shards,
                      uint32_t batch, uint32_t *taken)
{
    uint32_t samples[16];

    assert_true(batch <= 16);
    for (uint32_t rank = 0; rank < world; rank++) {
        for (uint32_t shard = rank; shard < shards; shard += world) {
            trainer_order_batch(&orders[rank], step, shards, shard, batch, samples);
            for (uint32_t i = 0; i < batch; i++)
                taken[samples[i]]++;
        }
    }
}

/* `worlds` repeat: a membership that changes after every step, or one that never does. After each step every
 * sample was taken as often as any other, or once more. */
static void check_cover(uint32_t count, uint32_t shards, uint32_t batch, const uint32_t *worlds,
                        size_t world_count)
{
    enum { MAX_WORLD = 8, PASSES = 4 };
    struct trainer_order orders[MAX_WORLD];
    uint32_t taken[512] = {0};

    assert_true(count <= 512);
    for (uint32_t i = 0; i < MAX_WORLD; i++)
        orders[i] = order_of(5, count);
    for (uint64_t step = 0; step * shards * batch < (uint64_t)count * PASSES; step++) {
        take_step(orders, worlds[step % world_count], step, shards, batch, taken);
        const uint64_t all = (step + 1) * shards * batch;
        uint64_t sum = 0;
        for (uint32_t i = 0; i < count; i++) {
            assert_in_range(taken[i], all / count, (all + count - 1) / count);
            sum += taken[i];
        }
        assert_int_equal(sum, all);
    }
    for (uint32_t i = 0; i < MAX_WORLD; i++)
        trainer_order_release(&orders[i]);
}

static void nothing_is_lost_or_taken_twice_over_several_passes_in_any_world(void **state)
{
    (void)state;
    static const struct {
        uint32_t count, shards, batch;
    } sizes[] = {
        {60, 3, 7},  {61, 3, 7},   {500, 5, 16}, {499, 8, 13}, {1, 3, 2},
        {10, 3, 16}, {509, 1, 11}, {64, 8, 8},   {7, 2, 3},
    };
    static const uint32_t changing[] = {3, 3, 2, 3, 1, 2, 3};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (uint32_t world = 1; world <= sizes[i].shards; world++)
            check_cover(sizes[i].count, sizes[i].shards, sizes[i].batch, &world, 1);
        if (sizes[i].shards >= 3)
            check_cover(sizes[i].count, sizes[i].shards, sizes[i].batch, changing, 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_every_sample_exactly_once_a_pass),
        cmocka_unit_test(has_another_permutation_in_each_pass_and_for_each_seed),
        cmocka_unit_test(depends_on_step_and_shard_only_not_on_what_was_asked_before),
        cmocka_unit_test(gives_the_same_samples_to_a_step_however_it_is_cut_into_shards),
        cmocka_unit_test(serves_a_batch_larger_than_the_data),
        cmocka_unit_test(nothing_is_lost_or_taken_twice_over_several_passes_in_any_world),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
