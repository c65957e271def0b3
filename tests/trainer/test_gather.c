/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange/exchange.h"
#include "meshes.h"

#include <sys/eventfd.h>

#define MAX_WORLD 6

/* Workers of one job that gather blocks, over a ring or a mesh. */
struct worker {
    struct trainer_exchange *exchange;
    uint32_t rank, world, shards, rounds;
    size_t block_floats, slice;
    float *values;
    size_t *landed; /* by shard: floats told so far */
    int code;
    struct mst_error err;
};

static float value_at(uint32_t shard, uint32_t round, size_t i)
{
    return (float)(shard * 1000 + round * 100) + (float)(i % 97);
}

static void note_landed(void *context, uint32_t shard, size_t offset, size_t count)
{
    struct worker *worker = context;

    if (offset != worker->landed[shard] || shard % worker->world == worker->rank || count == 0)
        worker->code = -EDOM;
    worker->landed[shard] += count;
}

/* Values become final slice by slice: what was sent too early would be those of the round before. */
static int give_own(struct worker *worker, uint32_t round)
{
    int r = 0;

    for (uint32_t shard = worker->rank; shard < worker->shards; shard += worker->world) {
        float *block = worker->values + shard * worker->block_floats;
        for (size_t done = 0; done < worker->block_floats && r == 0; done += worker->slice) {
            const size_t left = worker->block_floats - done;
            const size_t count = left < worker->slice ? left : worker->slice;
            for (size_t i = done; i < done + count; i++)
                block[i] = value_at(shard, round, i);
            r = exchange_gather_ready(worker->exchange, shard, done, count, &worker->err);
        }
    }
    return r;
}

static bool has_all(const struct worker *worker, uint32_t round)
{
    for (uint32_t shard = 0; shard < worker->shards; shard++) {
        const bool own = shard % worker->world == worker->rank;
        if (worker->landed[shard] != (own ? 0 : worker->block_floats))
            return false;
        for (size_t i = 0; i < worker->block_floats; i++) {
            if (worker->values[shard * worker->block_floats + i] != value_at(shard, round, i))
                return false;
        }
    }
    return true;
}

/* Gathers, each followed by a sum of the same step, as a training step has them. */
static void *gather_rounds(void *argument)
{
    struct worker *worker = argument;

    for (uint32_t round = 0; round < worker->rounds && worker->code == 0; round++) {
        const struct trainer_gather gather = {.step = round,
                                              .number = round % EXCHANGE_GATHERS,
                                              .shards = worker->shards,
                                              .values = worker->values,
                                              .block_floats = worker->block_floats,
                                              .landed = note_landed,
                                              .context = worker};
        struct trainer_exchange_stats stats;
        float sum = 1;
        memset(worker->landed, 0, worker->shards * sizeof *worker->landed);
        int r = exchange_gather_begin(worker->exchange, &gather, &worker->err);
        if (r == 0)
            r = give_own(worker, round);
        if (r == 0)
            r = exchange_gather_finish(worker->exchange, &stats, &worker->err);
        if (r == 0 && !has_all(worker, round))
            r = -EDOM;
        if (r == 0 && worker->shards == worker->world)
            r = trainer_exchange_sum(worker->exchange, round, &sum, 1, NULL, &worker->err);
        if (r == 0 && worker->shards == worker->world && sum != (float)worker->world)
            r = -EDOM;
        if (worker->code == 0)
            worker->code = r;
    }
    return NULL;
}

static struct trainer_exchange *new_exchange(bool direct, const struct rings_sockets *ring,
                                             const struct meshes_sockets *mesh, uint32_t rank, uint32_t world,
                                             uint32_t shards)
{
    const struct trainer_ring_options ring_options = rings_options(ring, rank, world);
    const struct trainer_direct_options direct_options = meshes_options(mesh, rank, world, shards);

    return direct ? meshes_new(&direct_options) : rings_new(&ring_options);
}

static void gather_everywhere(bool direct, uint32_t world, uint32_t shards, size_t block_floats)
{
    static struct meshes_sockets mesh;
    struct rings_sockets ring;
    struct worker workers[MAX_WORLD] = {0};

    if (direct)
        meshes_connect(&mesh, world, RINGS_TCP);
    else
        ring = rings_connect(world, RINGS_TCP);
    for (uint32_t rank = 0; rank < world; rank++) {
        workers[rank] = (struct worker){.exchange = new_exchange(direct, &ring, &mesh, rank, world, shards),
                                        .rank = rank,
                                        .world = world,
                                        .shards = shards,
                                        .rounds = 3,
                                        .block_floats = block_floats,
                                        .slice = 1 + block_floats / (rank + 1),
                                        .values = calloc(shards * block_floats + 1, sizeof(float)),
                                        .landed = calloc(shards, sizeof(size_t))};
        assert_non_null(workers[rank].values);
        assert_non_null(workers[rank].landed);
        workers[rank].values[shards * block_floats] = 12345; /* must stay */
    }
    rings_run(world, gather_rounds, workers, sizeof workers[0]);
    for (uint32_t rank = 0; rank < world; rank++) {
        if (workers[rank].code < 0)
            fail_msg("%s, world %u, %u shards of %zu, rank %u: %d %s", direct ? "direct" : "ring", world,
                     shards, block_floats, rank, workers[rank].code, workers[rank].err.text);
        assert_true(workers[rank].values[shards * block_floats] == 12345);
        trainer_exchange_free(workers[rank].exchange);
        free(workers[rank].values);
        free(workers[rank].landed);
    }
}

static void gather_over_worlds_shards_and_lengths(bool direct)
{
    static const size_t lengths[] = {0, 1, 1000, 2 * EXCHANGE_SEGMENT_FLOATS + 3};

    for (uint32_t world = 1; world <= MAX_WORLD; world++) {
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
            gather_everywhere(direct, world, world, lengths[i]);
            gather_everywhere(direct, world, 2 * world - 1, lengths[i]);
        }
    }
}

static void everybody_gets_all_blocks_over_a_mesh(void **state)
{
    (void)state;
    gather_over_worlds_shards_and_lengths(true);
}

static void everybody_gets_all_blocks_over_a_ring(void **state)
{
    (void)state;
    gather_over_worlds_shards_and_lengths(false);
}

/* ---- faults ----------------------------------------------------------------------------------------------
 */

/* Rank 0 of two, whose peer is played by the test through `peer`. */
struct lonely {
    struct trainer_exchange *exchange;
    int peer;
    float values[200];
    struct mst_error err;
};

static void set_up_lonely(struct lonely *lonely, uint32_t timeout_ms, int cancel_fd)
{
    static struct meshes_sockets mesh;

    *lonely = (struct lonely){0};
    meshes_connect(&mesh, 2, RINGS_TCP);
    struct trainer_direct_options options = meshes_options(&mesh, 0, 2, 2);
    options.timeout_ms = timeout_ms;
    options.cancel_fd = cancel_fd;
    lonely->exchange = meshes_new(&options);
    lonely->peer = mesh.fds[1][0];
}

static int gather_lonely(struct lonely *lonely)
{
    const struct trainer_gather gather = {
        .step = 9, .number = 4, .shards = 2, .values = lonely->values, .block_floats = 100};
    struct trainer_exchange_stats stats;

    int r = exchange_gather_begin(lonely->exchange, &gather, &lonely->err);
    if (r == 0)
        r = exchange_gather_ready(lonely->exchange, 0, 0, 100, &lonely->err);
    return r < 0 ? r : exchange_gather_finish(lonely->exchange, &stats, &lonely->err);
}

static void tear_down_lonely(struct lonely *lonely)
{
    assert_true(gather_lonely(lonely) < 0); /* of no use since */
    trainer_exchange_free(lonely->exchange);
    if (lonely->peer >= 0)
        assert_int_equal(close(lonely->peer), 0);
}

static void send_frame(const struct lonely *lonely, struct exchange_frame frame)
{
    static const uint8_t payload[400];
    uint8_t wire[EXCHANGE_FRAME_BYTES];

    frame.job_key = RINGS_JOB_KEY;
    exchange_frame_write(&frame, wire);
    assert_int_equal(write(lonely->peer, wire, sizeof wire), sizeof wire);
    assert_int_equal(write(lonely->peer, payload, frame.bytes), frame.bytes);
}

static void blocks_of_another_step_number_shard_or_length_are_errors(void **state)
{
    (void)state;
    const uint16_t phase = EXCHANGE_PHASE_GATHER + 4 * TRAINER_MAX_WORLD + 1;
    const struct exchange_frame frames[] = {
        {.view = RINGS_VIEW, .step = 8, .phase = phase, .bytes = 400},
        {.view = RINGS_VIEW, .step = 9, .phase = phase + TRAINER_MAX_WORLD, .bytes = 400},
        {.view = RINGS_VIEW, .step = 9, .phase = phase + 1, .bytes = 400},
        {.view = RINGS_VIEW, .step = 9, .phase = 1, .bytes = 400},
        {.view = RINGS_VIEW, .step = 9, .phase = phase, .segment = 1, .bytes = 400},
        {.view = RINGS_VIEW, .step = 9, .phase = phase, .bytes = 396},
    };

    for (size_t i = 0; i < sizeof frames / sizeof frames[0]; i++) {
        struct lonely lonely;
        set_up_lonely(&lonely, 20000, -1);
        send_frame(&lonely, frames[i]);
        assert_int_equal(gather_lonely(&lonely), -EPROTO);
        tear_down_lonely(&lonely);
    }
}

static void blocks_of_an_older_view_are_dropped(void **state)
{
    (void)state;
    struct lonely lonely;
    const struct exchange_frame frame = {.view = RINGS_VIEW,
                                         .step = 9,
                                         .phase = EXCHANGE_PHASE_GATHER + 4 * TRAINER_MAX_WORLD + 1,
                                         .bytes = 400};
    struct exchange_frame older = frame;

    older.view--;
    older.step = 700;
    set_up_lonely(&lonely, 20000, -1);
    send_frame(&lonely, older);
    send_frame(&lonely, frame);
    assert_int_equal(gather_lonely(&lonely), 0);
    assert_int_equal(close(lonely.peer), 0);
    lonely.peer = -1;
    tear_down_lonely(&lonely);
}

static void a_lost_silent_or_cancelling_worker_ends_it(void **state)
{
    (void)state;
    struct lonely lonely;

    set_up_lonely(&lonely, 20000, -1);
    assert_int_equal(close(lonely.peer), 0);
    lonely.peer = -1;
    assert_int_equal(gather_lonely(&lonely), -EPIPE);
    tear_down_lonely(&lonely);

    set_up_lonely(&lonely, 50, -1);
    assert_int_equal(gather_lonely(&lonely), -ETIMEDOUT);
    assert_non_null(strstr(lonely.err.text, "rank 1"));
    tear_down_lonely(&lonely);

    const int cancel_fd = eventfd(1, EFD_CLOEXEC);
    set_up_lonely(&lonely, 20000, cancel_fd);
    assert_int_equal(gather_lonely(&lonely), -ECANCELED);
    tear_down_lonely(&lonely);
    assert_int_equal(close(cancel_fd), 0);
}

static void refuses_shards_and_numbers_that_cannot_be(void **state)
{
    (void)state;
    const struct trainer_gather gathers[] = {
        {.shards = 1, .block_floats = 1},
        {.shards = TRAINER_MAX_WORLD + 1, .block_floats = 1},
        {.shards = 2, .number = EXCHANGE_GATHERS, .block_floats = 1},
    };

    for (size_t i = 0; i < sizeof gathers / sizeof gathers[0]; i++) {
        struct lonely lonely;
        set_up_lonely(&lonely, 20000, -1);
        assert_int_equal(exchange_gather_begin(lonely.exchange, &gathers[i], &lonely.err), -EINVAL);
        tear_down_lonely(&lonely);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everybody_gets_all_blocks_over_a_mesh),
        cmocka_unit_test(everybody_gets_all_blocks_over_a_ring),
        cmocka_unit_test(blocks_of_another_step_number_shard_or_length_are_errors),
        cmocka_unit_test(blocks_of_an_older_view_are_dropped),
        cmocka_unit_test(a_lost_silent_or_cancelling_worker_ends_it),
        cmocka_unit_test(refuses_shards_and_numbers_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
