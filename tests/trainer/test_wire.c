/* SPDX-License-Identifier: Apache-2.0 */
/* Sums whose floats are rounded on the wire. */
#include "exchange/bf16.h"
#include "exchange/exchange.h"
#include "meshes.h"

#include <math.h>

#define MAX_WORLD  5
#define TAIL       3 /* floats that are never rounded */
#define MAX_SHARDS 9

struct worker {
    struct trainer_exchange *exchange;
    uint32_t rank, world, shards;
    size_t count; /* with the tail */
    bool keeps_parts;
    float *parts[MAX_SHARDS];
    size_t part_count;
    size_t landed;
    int code;
    struct mst_error err;
    struct trainer_exchange_stats stats;
};

/* Values that bfloat16 does not have, and a tail of whole numbers that it does not have either. */
static float value_at(uint32_t shard, size_t i, size_t count)
{
    if (i + TAIL >= count)
        return (float)(1001 + shard * 7 + (count - i) * 2);
    return sinf((float)(shard * 77 + i) * 0.37f) * (i % 5 == 0 ? 1000.0f : 0.01f);
}

static float rounded(float x)
{
    bf16_round(1, &x);
    return x;
}

/* What the direct exchange has to give: parts rounded, added in the order of the shards, and rounded. */
static float direct_sum_at(uint32_t shards, size_t i, size_t count)
{
    const bool exact = i + TAIL >= count;
    float sum = 0;

    for (uint32_t shard = 0; shard < shards; shard++) {
        const float value = value_at(shard, i, count);
        sum += exact ? value : rounded(value);
    }
    return exact ? sum : rounded(sum);
}

/* What the ring has to give: a chunk's sum begins at the rank of its number, and is rounded at each hop. */
static float ring_sum_at(uint32_t world, size_t i, size_t count)
{
    const bool exact = i + TAIL >= count;
    uint32_t chunk = 0;
    while (count * (chunk + 1) / world <= i)
        chunk++;
    float sum = value_at(chunk, i, count);

    for (uint32_t hop = 1; hop < world; hop++)
        sum = value_at((chunk + hop) % world, i, count) + (exact ? sum : rounded(sum));
    return exact || world == 1 ? sum : rounded(sum);
}

static void note_landed(void *context, size_t offset, size_t count)
{
    (void)offset;
    ((struct worker *)context)->landed += count;
}

static void *sum_once(void *argument)
{
    struct worker *worker = argument;
    const struct trainer_sum sum = {.step = 3,
                                    .parts = worker->parts,
                                    .part_count = worker->part_count,
                                    .shards = worker->shards,
                                    .count = worker->count,
                                    .rounded = worker->count > TAIL ? worker->count - TAIL : 0,
                                    .landed = note_landed,
                                    .context = worker};

    int r = exchange_begin(worker->exchange, &sum, &worker->err);
    for (size_t part = 0; part < worker->part_count && r == 0; part++) {
        /* Two slices, the later one first. */
        const size_t half = worker->count / 2;
        r = exchange_ready(worker->exchange, part, half, worker->count - half, &worker->err);
        if (r == 0)
            r = exchange_ready(worker->exchange, part, 0, half, &worker->err);
    }
    worker->code = r < 0 ? r : exchange_finish(worker->exchange, &worker->stats, &worker->err);
    return NULL;
}

static void fill_parts(struct worker *worker)
{
    worker->part_count =
        worker->keeps_parts ? (worker->shards - worker->rank + worker->world - 1) / worker->world : 1;
    for (size_t part = 0; part < worker->part_count; part++) {
        worker->parts[part] = calloc(worker->count + 1, sizeof(float));
        assert_non_null(worker->parts[part]);
        for (size_t i = 0; i < worker->count; i++)
            worker->parts[part][i] =
                value_at(worker->rank + (uint32_t)part * worker->world, i, worker->count);
    }
}

static void make_workers(struct worker *workers, bool direct, uint32_t world, uint32_t shards, size_t count)
{
    static struct meshes_sockets mesh;
    struct rings_sockets ring;

    if (direct)
        meshes_connect(&mesh, world, RINGS_TCP);
    else
        ring = rings_connect(world, RINGS_TCP);
    for (uint32_t rank = 0; rank < world; rank++) {
        workers[rank] = (struct worker){
            .rank = rank, .world = world, .shards = shards, .count = count, .keeps_parts = direct};
        if (direct) {
            struct trainer_direct_options options = meshes_options(&mesh, rank, world, shards);
            options.wire = TRAINER_WIRE_BF16;
            workers[rank].exchange = meshes_new(&options);
        } else {
            struct trainer_ring_options options = rings_options(&ring, rank, world);
            options.wire = TRAINER_WIRE_BF16;
            workers[rank].exchange = rings_new(&options);
        }
        fill_parts(&workers[rank]);
    }
}

static void release_workers(struct worker *workers, uint32_t world)
{
    for (uint32_t rank = 0; rank < world; rank++) {
        trainer_exchange_free(workers[rank].exchange);
        for (size_t part = 0; part < workers[rank].part_count; part++)
            free(workers[rank].parts[part]);
    }
}

static void check_sums(bool direct, uint32_t world, uint32_t shards, size_t count)
{
    struct worker workers[MAX_WORLD];

    make_workers(workers, direct, world, shards, count);
    rings_run(world, sum_once, workers, sizeof workers[0]);
    for (uint32_t rank = 0; rank < world; rank++) {
        if (workers[rank].code < 0)
            fail_msg("%s", workers[rank].err.text);
        assert_int_equal(workers[rank].landed, count);
        for (size_t i = 0; i < count; i++) {
            const float expected = direct ? direct_sum_at(shards, i, count) : ring_sum_at(world, i, count);
            if (memcmp(&workers[rank].parts[0][i], &expected, sizeof expected) != 0)
                fail_msg("%s, world %u, %u shards, %zu floats, rank %u: place %zu is %.9g, expected %.9g",
                         direct ? "direct" : "ring", world, shards, count, rank, i,
                         (double)workers[rank].parts[0][i], (double)expected);
        }
    }
    release_workers(workers, world);
}

static const size_t counts[] = {0, 1, TAIL, TAIL + 1, TAIL + 2, 1000, EXCHANGE_SEGMENT_FLOATS * 2 + 1};

static void a_ring_rounds_at_each_hop_and_all_ranks_hold_the_rounded_sum(void **state)
{
    (void)state;
    for (uint32_t world = 1; world <= MAX_WORLD; world++) {
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
            check_sums(false, world, world, counts[i]);
    }
}

static void a_direct_sum_rounds_twice_whoever_has_which_shard(void **state)
{
    (void)state;
    for (uint32_t world = 1; world <= MAX_WORLD; world++) {
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            check_sums(true, world, world, counts[i]);
            check_sums(true, world, MAX_SHARDS, counts[i]);
        }
    }
}

static void half_the_bytes_are_sent(void **state)
{
    (void)state;
    enum { WORLD = 3, COUNT = 300000 };
    const uint64_t payload = UINT64_C(2) * COUNT * 2 * (WORLD - 1) / WORLD;

    for (int direct = 0; direct < 2; direct++) {
        struct worker workers[WORLD];
        make_workers(workers, direct, WORLD, WORLD, COUNT);
        rings_run(WORLD, sum_once, workers, sizeof workers[0]);
        for (uint32_t rank = 0; rank < WORLD; rank++) {
            assert_int_equal(workers[rank].code, 0);
            assert_in_range(workers[rank].stats.bytes_sent, payload - payload / 100, payload + payload / 100);
        }
        release_workers(workers, WORLD);
    }
}

static void what_is_not_a_finite_number_arrives(void **state)
{
    (void)state;
    enum { WORLD = 3, COUNT = 100 };

    for (int direct = 0; direct < 2; direct++) {
        struct worker workers[WORLD];
        make_workers(workers, direct, WORLD, WORLD, COUNT);
        for (size_t i = 0; i < COUNT; i += 10)
            workers[i / 10 % WORLD].parts[0][i] = i % 20 ? NAN : -INFINITY;
        rings_run(WORLD, sum_once, workers, sizeof workers[0]);
        for (uint32_t rank = 0; rank < WORLD; rank++) {
            assert_int_equal(workers[rank].code, 0);
            for (size_t i = 0; i < COUNT; i += 10)
                assert_true(i % 20 ? isnan(workers[rank].parts[0][i])
                                   : isinf(workers[rank].parts[0][i]) && workers[rank].parts[0][i] < 0);
        }
        release_workers(workers, WORLD);
    }
}

/* Evaluations and digests: 16 bits in a float have to arrive as they are. */
static void *sum_exactly(void *argument)
{
    struct worker *worker = argument;

    worker->code =
        trainer_exchange_sum(worker->exchange, 4, worker->parts[0], worker->count, NULL, &worker->err);
    return NULL;
}

static void sums_that_do_not_ask_for_it_are_not_rounded(void **state)
{
    (void)state;
    enum { WORLD = 3, COUNT = 1000 };

    for (int direct = 0; direct < 2; direct++) {
        struct worker workers[WORLD];
        make_workers(workers, direct, WORLD, WORLD, COUNT);
        for (uint32_t rank = 0; rank < WORLD; rank++) {
            for (size_t i = 0; i < COUNT; i++)
                workers[rank].parts[0][i] = i % WORLD == rank ? (float)(60001 + i) : 0;
        }
        rings_run(WORLD, sum_exactly, workers, sizeof workers[0]);
        for (uint32_t rank = 0; rank < WORLD; rank++) {
            assert_int_equal(workers[rank].code, 0);
            for (size_t i = 0; i < COUNT; i++)
                assert_true(workers[rank].parts[0][i] == (float)(60001 + i));
        }
        release_workers(workers, WORLD);
    }
}

static void states_are_never_rounded(void **state)
{
    (void)state;
    enum { BYTES = 100000 };
    static const bool has[] = {false, true};

    for (int direct = 0; direct < 2; direct++) {
        struct worker workers[2];
        uint8_t pieces[2][BYTES] = {{0}};
        struct exchange_spread spreads[2] = {0};
        make_workers(workers, direct, 2, 2, 10);
        for (size_t i = 0; i < BYTES; i++)
            pieces[1][i] = (uint8_t)(i * 7 + i / 256);
        for (size_t rank = 0; rank < 2; rank++) {
            spreads[rank] = (struct exchange_spread){.step = 1, .has = has};
            spreads[rank].pieces[0] = (struct exchange_piece){pieces[rank], BYTES};
        }
        uint64_t bytes;
        struct mst_error err = MST_ERROR_INIT;
        /* The one that sends has room for all of it in its socket, so that one thread can do both. */
        assert_int_equal(exchange_spread(workers[1].exchange, &spreads[1], &bytes, &err), 0);
        assert_int_equal(exchange_spread(workers[0].exchange, &spreads[0], &bytes, &err), 0);
        assert_memory_equal(pieces[0], pieces[1], BYTES);
        release_workers(workers, 2);
    }
}

static void workers_with_different_wires_do_not_add_up(void **state)
{
    (void)state;
    const struct rings_sockets ring = rings_connect(2, RINGS_TCP);
    struct worker workers[2];

    for (uint32_t rank = 0; rank < 2; rank++) {
        struct trainer_ring_options options = rings_options(&ring, rank, 2);
        options.wire = rank == 0 ? TRAINER_WIRE_BF16 : TRAINER_WIRE_F32;
        workers[rank] = (struct worker){
            .exchange = rings_new(&options), .rank = rank, .world = 2, .shards = 2, .count = 1000};
        fill_parts(&workers[rank]);
    }
    rings_run(2, sum_once, workers, sizeof workers[0]);
    assert_true(workers[0].code == -EPROTO || workers[1].code == -EPROTO);
    assert_true(workers[0].code < 0 && workers[1].code < 0);
    release_workers(workers, 2);
}

static void refuses_a_wire_that_is_none(void **state)
{
    (void)state;
    const struct rings_sockets ring = rings_connect(2, RINGS_TCP);
    struct trainer_ring_options options = rings_options(&ring, 0, 2);
    struct trainer_exchange *exchange = NULL;
    struct mst_error err = MST_ERROR_INIT;

    options.wire = (enum trainer_wire)2;
    assert_int_equal(trainer_ring_new(&options, &exchange, &err), -EINVAL);
    assert_null(exchange);
    for (uint32_t rank = 0; rank < 2; rank++) {
        assert_int_equal(close(ring.prev[rank]), 0); /* still the caller's */
        assert_int_equal(close(ring.next[rank]), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_rounds_at_each_hop_and_all_ranks_hold_the_rounded_sum),
        cmocka_unit_test(a_direct_sum_rounds_twice_whoever_has_which_shard),
        cmocka_unit_test(half_the_bytes_are_sent),
        cmocka_unit_test(what_is_not_a_finite_number_arrives),
        cmocka_unit_test(sums_that_do_not_ask_for_it_are_not_rounded),
        cmocka_unit_test(states_are_never_rounded),
        cmocka_unit_test(workers_with_different_wires_do_not_add_up),
        cmocka_unit_test(refuses_a_wire_that_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
