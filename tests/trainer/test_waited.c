/* SPDX-License-Identifier: Apache-2.0 */
/* For whom an exchange waits: the one that came last. */
#include "meshes.h"

#include <sched.h>
#include <stdatomic.h>

#define COUNT  1000
#define LATE   (100 * MST_NS_PER_MS)
#define WORLD  3
#define ROUNDS 2 /* the slow one is late in the first */

struct worker {
    struct trainer_exchange *exchange;
    uint32_t rank, slow;
    atomic_uint_fast64_t *begun; /* by rank: when it began to sum, 0: not yet */
    struct trainer_exchange_stats stats[ROUNDS];
    int code;
};

/* Until all others have been at it for a while, so that they wait. */
static void be_late(const struct worker *worker)
{
    for (uint32_t rank = 0; rank < WORLD; rank++) {
        if (rank == worker->slow)
            continue;
        while (worker->begun[rank] == 0 || mst_now_ns() - worker->begun[rank] < LATE)
            (void)sched_yield();
    }
}

static void *work(void *context)
{
    struct worker *worker = context;
    float values[COUNT];

    for (uint64_t round = 0; round < ROUNDS && worker->code == 0; round++) {
        for (size_t i = 0; i < COUNT; i++)
            values[i] = (float)worker->rank;
        if (worker->rank == worker->slow && round == 0)
            be_late(worker);
        else if (round == 0)
            worker->begun[worker->rank] = mst_now_ns();
        worker->code =
            trainer_exchange_sum(worker->exchange, round, values, COUNT, &worker->stats[round], NULL);
    }
    return NULL;
}

static void run(bool ring, uint32_t slow, struct worker *workers)
{
    atomic_uint_fast64_t begun[WORLD] = {0};
    struct meshes_sockets mesh;
    struct rings_sockets circle = {0};

    if (ring)
        circle = rings_connect(WORLD, RINGS_SOCKET_PAIRS);
    else
        meshes_connect(&mesh, WORLD, RINGS_SOCKET_PAIRS);
    for (uint32_t rank = 0; rank < WORLD; rank++) {
        const struct trainer_ring_options in_ring = rings_options(&circle, rank, WORLD);
        workers[rank] = (struct worker){.rank = rank, .slow = slow, .begun = begun};
        if (ring) {
            workers[rank].exchange = rings_new(&in_ring);
        } else {
            const struct trainer_direct_options direct = meshes_options(&mesh, rank, WORLD, WORLD);
            workers[rank].exchange = meshes_new(&direct);
        }
    }
    rings_run(WORLD, work, workers, sizeof *workers);
    for (uint32_t rank = 0; rank < WORLD; rank++) {
        assert_int_equal(workers[rank].code, 0);
        trainer_exchange_free(workers[rank].exchange);
        for (int round = 0; round < ROUNDS; round++) /* a pause, and whom it was for, go together */
            assert_int_equal(workers[rank].stats[round].waited_for != 0,
                             workers[rank].stats[round].wait_ms > 0);
    }
}

static void whoever_comes_last_was_waited_for(void **state)
{
    (void)state;
    for (uint32_t slow = 0; slow < WORLD; slow++) {
        struct worker workers[WORLD];
        run(false, slow, workers);
        for (uint32_t rank = 0; rank < WORLD; rank++) {
            if (rank == slow)
                continue;
            assert_int_equal(workers[rank].stats[0].waited_for, slow + 1);
            assert_true(workers[rank].stats[0].wait_ms >= 50);
        }
    }
}

/* The others' bytes come through the neighbour, who waits, too. */
static void in_a_ring_it_is_the_neighbour(void **state)
{
    (void)state;
    for (uint32_t slow = 0; slow < WORLD; slow++) {
        struct worker workers[WORLD];
        run(true, slow, workers);
        for (uint32_t rank = 0; rank < WORLD; rank++) {
            if (rank != slow)
                assert_int_equal(workers[rank].stats[0].waited_for, (rank + WORLD - 1) % WORLD + 1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_comes_last_was_waited_for),
        cmocka_unit_test(in_a_ring_it_is_the_neighbour),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
