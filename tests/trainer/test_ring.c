/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange/exchange.h"
#include "exchange/frame.h"
#include "rings.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#define SEGMENT_FLOATS 65536 /* ring.c's */

struct worker {
    struct trainer_exchange *exchange;
    uint32_t rank, world;
    size_t count;
    uint32_t rounds;
    float *values; /* owned by the test */
    int code;
    struct mst_error err;
    struct trainer_exchange_stats stats;
};

/* Small whole numbers: sums are exact in any order, so any other value is a fault. */
static float value_at(uint32_t rank, uint32_t round, size_t i)
{
    return (float)((rank * 31 + round * 7 + i * 3) % 101);
}

static float sum_at(uint32_t world, uint32_t round, size_t i)
{
    float sum = 0;

    for (uint32_t rank = 0; rank < world; rank++)
        sum += value_at(rank, round, i);
    return sum;
}

static void *sum_rounds(void *argument)
{
    struct worker *worker = argument;

    for (uint32_t round = 0; round < worker->rounds && worker->code == 0; round++) {
        for (size_t i = 0; i < worker->count; i++)
            worker->values[i] = value_at(worker->rank, round, i);
        worker->code = trainer_exchange_sum(worker->exchange, round, worker->values, worker->count,
                                            &worker->stats, &worker->err);
        for (size_t i = 0; i < worker->count && worker->code == 0; i++) {
            if (worker->values[i] != sum_at(worker->world, round, i))
                worker->code = -EDOM;
        }
    }
    return NULL;
}

static void fill_workers(struct worker *workers, const struct rings_sockets *sockets, uint32_t world,
                         size_t count)
{
    for (uint32_t rank = 0; rank < world; rank++) {
        const struct trainer_ring_options options = rings_options(sockets, rank, world);
        workers[rank] = (struct worker){
            .exchange = rings_new(&options),
            .rank = rank,
            .world = world,
            .count = count,
            .rounds = 3,
            .values = calloc(count + 1, sizeof(float)),
        };
        assert_non_null(workers[rank].values);
        workers[rank].values[count] = 12345.0f; /* must stay */
    }
}

static void release_workers(struct worker *workers, uint32_t world)
{
    for (uint32_t rank = 0; rank < world; rank++) {
        trainer_exchange_free(workers[rank].exchange);
        free(workers[rank].values);
    }
}

static void check_sums(uint32_t world, size_t count, enum rings_transport transport)
{
    const struct rings_sockets sockets = rings_connect(world, transport);
    struct worker workers[RINGS_MAX_WORLD];

    fill_workers(workers, &sockets, world, count);
    rings_run(world, sum_rounds, workers, sizeof workers[0]);
    for (uint32_t rank = 0; rank < world; rank++) {
        if (workers[rank].code < 0)
            fail_msg("world %u, count %zu, rank %u: %d %s", world, count, rank, workers[rank].code,
                     workers[rank].err.text);
        assert_memory_equal(workers[rank].values, workers[0].values, count * sizeof(float));
        assert_true(workers[rank].values[count] == 12345.0f);
    }
    release_workers(workers, world);
}

static void sums_over_every_world_size_and_count(enum rings_transport transport)
{
    for (uint32_t world = 1; world <= RINGS_MAX_WORLD; world++) {
        const size_t counts[] = {0, 1, 7, 1000, world - 1, world + 1, SEGMENT_FLOATS * world + 5};
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
            check_sums(world, counts[i], transport);
    }
}

static void sums_are_exact_over_socket_pairs(void **state)
{
    (void)state;
    sums_over_every_world_size_and_count(RINGS_SOCKET_PAIRS);
}

static void sums_are_exact_over_tcp(void **state)
{
    (void)state;
    sums_over_every_world_size_and_count(RINGS_TCP);
}

static void two_workers_can_share_one_socket(void **state)
{
    (void)state;
    struct worker workers[2];
    int fds[2];

    rings_pair(RINGS_TCP, fds);
    const struct rings_sockets sockets = {.prev = {fds[0], fds[1]}, .next = {fds[0], fds[1]}};
    fill_workers(workers, &sockets, 2, 200000);
    rings_run(2, sum_rounds, workers, sizeof workers[0]);
    assert_int_equal(workers[0].code, 0);
    assert_int_equal(workers[1].code, 0);
    release_workers(workers, 2);
}

/* Values whose sum depends on the order of additions. */
static void *sum_awkward(void *argument)
{
    struct worker *worker = argument;

    for (size_t i = 0; i < worker->count; i++)
        worker->values[i] = (i % 3 == 0 ? 1e7f : 1.0f) / (float)(1 + (worker->rank * 13 + i * 7) % 97);
    worker->code =
        trainer_exchange_sum(worker->exchange, 0, worker->values, worker->count, NULL, &worker->err);
    return NULL;
}

static void all_ranks_and_all_runs_get_the_same_bits(void **state)
{
    (void)state;
    enum { WORLD = 5, COUNT = 300007, RUNS = 5 };
    float *first = malloc(COUNT * sizeof *first);

    assert_non_null(first);
    for (int run = 0; run < RUNS; run++) {
        const struct rings_sockets sockets = rings_connect(WORLD, run % 2 ? RINGS_TCP : RINGS_SOCKET_PAIRS);
        struct worker workers[WORLD];
        fill_workers(workers, &sockets, WORLD, COUNT);
        rings_run(WORLD, sum_awkward, workers, sizeof workers[0]);
        for (uint32_t rank = 0; rank < WORLD; rank++) {
            assert_int_equal(workers[rank].code, 0);
            if (run == 0 && rank == 0)
                memcpy(first, workers[0].values, COUNT * sizeof *first);
            assert_memory_equal(workers[rank].values, first, COUNT * sizeof *first);
        }
        release_workers(workers, WORLD);
    }
    free(first);
}

/* ---- slices ----------------------------------------------------------------------------------------------
 */

#define SLICED_COUNT 250000
struct sliced {
    struct worker worker;
    uint8_t *landed; /* how often each place was told */
    size_t slice;
    bool from_start;
};

static void note_landed(void *context, size_t offset, size_t count)
{
    struct sliced *sliced = context;

    for (size_t i = offset; i < offset + count; i++)
        sliced->landed[i]++;
}

static void *sum_in_slices(void *argument)
{
    struct sliced *sliced = argument;
    struct worker *worker = &sliced->worker;
    const struct trainer_sum sum = {.step = 1,
                                    .parts = &worker->values,
                                    .part_count = 1,
                                    .shards = worker->world,
                                    .count = SLICED_COUNT,
                                    .landed = note_landed,
                                    .context = sliced};

    worker->code = exchange_begin(worker->exchange, &sum, &worker->err);
    for (size_t done = 0; done < SLICED_COUNT && worker->code == 0; done += sliced->slice) {
        const size_t count = SLICED_COUNT - done < sliced->slice ? SLICED_COUNT - done : sliced->slice;
        const size_t offset = sliced->from_start ? done : SLICED_COUNT - done - count;
        /* Computed only now: what was sent too early would be zeros. */
        for (size_t i = offset; i < offset + count; i++)
            worker->values[i] = value_at(worker->rank, 0, i);
        worker->code = exchange_ready(worker->exchange, 0, offset, count, &worker->err);
    }
    if (worker->code == 0)
        worker->code = exchange_finish(worker->exchange, &worker->stats, &worker->err);
    return NULL;
}

static void slices_may_become_ready_in_any_order_and_land_once(void **state)
{
    (void)state;
    for (uint32_t world = 1; world <= 4; world++) {
        const struct rings_sockets sockets = rings_connect(world, RINGS_TCP);
        struct worker workers[RINGS_MAX_WORLD];
        struct sliced sliced[RINGS_MAX_WORLD];

        fill_workers(workers, &sockets, world, SLICED_COUNT);
        for (uint32_t rank = 0; rank < world; rank++)
            sliced[rank] = (struct sliced){.worker = workers[rank],
                                           .landed = calloc(SLICED_COUNT, 1),
                                           .slice = 10007 * (rank + 1),
                                           .from_start = rank == 1};
        rings_run(world, sum_in_slices, sliced, sizeof sliced[0]);
        for (uint32_t rank = 0; rank < world; rank++) {
            if (sliced[rank].worker.code < 0)
                fail_msg("world %u, rank %u: %s", world, rank, sliced[rank].worker.err.text);
            for (size_t i = 0; i < SLICED_COUNT; i++) {
                assert_int_equal(sliced[rank].landed[i], 1);
                assert_true(workers[rank].values[i] == sum_at(world, 0, i));
            }
            free(sliced[rank].landed);
        }
        release_workers(workers, world);
    }
}

static void each_worker_sends_its_share_and_no_more(void **state)
{
    (void)state;
    enum { WORLD = 3, COUNT = 600000 };
    const struct rings_sockets sockets = rings_connect(WORLD, RINGS_SOCKET_PAIRS);
    struct worker workers[WORLD];

    fill_workers(workers, &sockets, WORLD, COUNT);
    rings_run(WORLD, sum_rounds, workers, sizeof workers[0]);
    for (uint32_t rank = 0; rank < WORLD; rank++) {
        const uint64_t payload = UINT64_C(4) * COUNT * 2 * (WORLD - 1) / WORLD;
        assert_int_equal(workers[rank].code, 0);
        assert_in_range(workers[rank].stats.bytes_sent, payload, payload + payload / 1000);
        assert_true(workers[rank].stats.wait_ms >= 0 && workers[rank].stats.transfer_ms >= 0);
    }
    release_workers(workers, WORLD);
}

/* ---- faults ----------------------------------------------------------------------------------------------
 */

/* Rank 0 of a ring of two, whose peer is played by the test through `peer_prev` and `peer_next`. */
struct lonely {
    struct trainer_exchange *exchange;
    int peer_to_us, peer_from_us;
    struct mst_error err;
    float values[1000];
};

static void set_up_lonely(struct lonely *lonely, uint32_t timeout_ms, int cancel_fd)
{
    const struct rings_sockets sockets = rings_connect(2, RINGS_TCP);
    struct trainer_ring_options options = rings_options(&sockets, 0, 2);

    memset(lonely, 0, sizeof *lonely);
    options.timeout_ms = timeout_ms;
    options.cancel_fd = cancel_fd;
    lonely->exchange = rings_new(&options);
    lonely->peer_to_us = sockets.next[1];
    lonely->peer_from_us = sockets.prev[1];
}

static int sum_lonely(struct lonely *lonely)
{
    return trainer_exchange_sum(lonely->exchange, 9, lonely->values, 1000, NULL, &lonely->err);
}

static void tear_down_lonely(struct lonely *lonely)
{
    /* After a failure the ring is of no use, and says so at once. */
    assert_true(sum_lonely(lonely) < 0);
    trainer_exchange_free(lonely->exchange);
    if (lonely->peer_to_us >= 0)
        (void)close(lonely->peer_to_us);
    if (lonely->peer_from_us >= 0)
        (void)close(lonely->peer_from_us);
}

static void a_neighbour_that_closed_is_reported_at_once(void **state)
{
    (void)state;
    for (int both = 0; both < 3; both++) {
        struct lonely lonely;
        set_up_lonely(&lonely, 20000, -1);
        const uint64_t start_ns = mst_now_ns();
        if (both != 1) {
            (void)close(lonely.peer_to_us);
            lonely.peer_to_us = -1;
        }
        if (both != 0) {
            (void)close(lonely.peer_from_us);
            lonely.peer_from_us = -1;
        }
        assert_int_equal(sum_lonely(&lonely), -EPIPE);
        assert_non_null(strstr(lonely.err.text, "closed the connection"));
        assert_true(mst_ms_since(start_ns) < 2000);
        tear_down_lonely(&lonely);
    }
}

static void silence_ends_after_the_time_out(void **state)
{
    (void)state;
    struct lonely lonely;

    set_up_lonely(&lonely, 100, -1);
    const uint64_t start_ns = mst_now_ns();
    assert_int_equal(sum_lonely(&lonely), -ETIMEDOUT);
    const double ms = mst_ms_since(start_ns);
    assert_true(ms >= 99 && ms < 5000);
    assert_non_null(strstr(lonely.err.text, "100 ms"));
    tear_down_lonely(&lonely);
}

static void *raise_cancel(void *argument)
{
    const uint64_t one = 1;

    /* The main thread waits in poll() by now, or will find the event there: both must end the wait. */
    return write(*(int *)argument, &one, sizeof one) == sizeof one ? NULL : argument;
}

static void a_cancelled_exchange_ends_at_once(void **state)
{
    (void)state;
    int cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct lonely lonely;
    pthread_t thread;
    void *failed;

    assert_true(cancel_fd >= 0);
    set_up_lonely(&lonely, 20000, cancel_fd);
    assert_int_equal(pthread_create(&thread, NULL, raise_cancel, &cancel_fd), 0);
    const uint64_t start_ns = mst_now_ns();
    assert_int_equal(sum_lonely(&lonely), -ECANCELED);
    assert_true(mst_ms_since(start_ns) < 2000);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    tear_down_lonely(&lonely);
    (void)close(cancel_fd);
}

/* What rank 1 sends to rank 0 first: phase 0, chunk 1. */
static struct exchange_frame peers_frame(void)
{
    return (struct exchange_frame){.job_key = RINGS_JOB_KEY, .view = RINGS_VIEW, .step = 9, .bytes = 2000};
}

static void send_frame(const struct lonely *lonely, const struct exchange_frame *frame, float value)
{
    const uint64_t deadline_ns = mst_now_ns() + MST_NS_PER_S;
    uint8_t wire[EXCHANGE_FRAME_BYTES];
    float payload[1000];

    for (int i = 0; i < 1000; i++)
        payload[i] = value;
    exchange_frame_write(frame, wire);
    assert_int_equal(mst_send_all(lonely->peer_to_us, wire, sizeof wire, deadline_ns), 0);
    assert_int_equal(mst_send_all(lonely->peer_to_us, payload, frame->bytes, deadline_ns), 0);
}

static void frames_of_an_older_view_are_dropped(void **state)
{
    (void)state;
    struct lonely lonely;
    struct exchange_frame stale = peers_frame(), good = peers_frame(), last = peers_frame();

    set_up_lonely(&lonely, 2000, -1);
    stale.view = RINGS_VIEW - 1;
    stale.step = 70;
    send_frame(&lonely, &stale, 1000.0f);
    stale.bytes = 400;
    send_frame(&lonely, &stale, 1000.0f);
    send_frame(&lonely, &good, 3.0f); /* added to chunk 1, of which rank 0 then holds the sum */
    last.phase = 1;
    send_frame(&lonely, &last, 4.0f); /* the sum of chunk 0 */
    assert_int_equal(sum_lonely(&lonely), 0);
    for (int i = 0; i < 1000; i++)
        assert_true(lonely.values[i] == (i < 500 ? 4.0f : 3.0f));
    (void)close(lonely.peer_to_us);
    lonely.peer_to_us = -1;
    tear_down_lonely(&lonely);
}

static void wrong_frames_are_errors(void **state)
{
    (void)state;
    static const struct {
        uint64_t job_key_change, step;
        uint32_t view;
        uint16_t phase, segment;
        uint32_t bytes;
        int code;
    } cases[] = {
        {1, 9, RINGS_VIEW, 0, 0, 2000, -EPROTO},     {0, 8, RINGS_VIEW, 0, 0, 2000, -EPROTO},
        {0, 9, RINGS_VIEW + 1, 0, 0, 2000, -ESTALE}, {0, 9, RINGS_VIEW, 1, 0, 2000, -EPROTO},
        {0, 9, RINGS_VIEW, 0, 1, 2000, -EPROTO},     {0, 9, RINGS_VIEW, 0, 0, 1996, -EPROTO},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct exchange_frame frame = {.job_key = RINGS_JOB_KEY ^ cases[i].job_key_change,
                                             .step = cases[i].step,
                                             .view = cases[i].view,
                                             .phase = cases[i].phase,
                                             .segment = cases[i].segment,
                                             .bytes = cases[i].bytes};
        struct lonely lonely;
        set_up_lonely(&lonely, 2000, -1);
        send_frame(&lonely, &frame, 1.0f);
        assert_int_equal(sum_lonely(&lonely), cases[i].code);
        tear_down_lonely(&lonely);
    }
}

/* Rank 2 of five never takes part and closes: the failure must travel round to all others. */
static void one_lost_worker_ends_all_others(void **state)
{
    (void)state;
    enum { WORLD = 5, LOST = 2, COUNT = 500000 };
    const struct rings_sockets sockets = rings_connect(WORLD, RINGS_TCP);
    struct worker workers[WORLD];

    fill_workers(workers, &sockets, WORLD, COUNT);
    trainer_exchange_free(workers[LOST].exchange);
    workers[LOST].exchange = NULL;
    workers[LOST].rounds = 0;
    const uint64_t start_ns = mst_now_ns();
    rings_run(WORLD, sum_rounds, workers, sizeof workers[0]);
    for (uint32_t rank = 0; rank < WORLD; rank++) {
        if (rank == LOST)
            continue;
        /* A worker fails in what it is doing, and shuts its sockets; so its neighbours fail, and so on. */
        assert_int_equal(workers[rank].code, -EPIPE);
        trainer_exchange_free(workers[rank].exchange);
        workers[rank].exchange = NULL;
    }
    assert_true(mst_ms_since(start_ns) < 5000);
    release_workers(workers, WORLD);
}

static void refuses_settings_that_make_no_ring(void **state)
{
    (void)state;
    static const struct trainer_ring_options cases[] = {
        {.fd_prev = 3, .fd_next = 3, .rank = 0, .world = 0, .timeout_ms = 1},
        {.fd_prev = 3, .fd_next = 3, .rank = 2, .world = 2, .timeout_ms = 1},
        {.fd_prev = -1, .fd_next = 3, .rank = 0, .world = 2, .timeout_ms = 1},
        {.fd_prev = 3, .fd_next = -1, .rank = 0, .world = 2, .timeout_ms = 1},
        {.fd_prev = 3, .fd_next = 3, .rank = 0, .world = 2, .timeout_ms = 0},
        {.fd_prev = 3, .fd_next = 3, .rank = 0, .world = TRAINER_MAX_WORLD + 1, .timeout_ms = 1},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct trainer_exchange *exchange = (struct trainer_exchange *)&i;
        assert_int_equal(trainer_ring_new(&cases[i], &exchange, NULL), -EINVAL);
        assert_true(exchange == (struct trainer_exchange *)&i);
    }
    trainer_exchange_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_exact_over_socket_pairs),
        cmocka_unit_test(sums_are_exact_over_tcp),
        cmocka_unit_test(two_workers_can_share_one_socket),
        cmocka_unit_test(all_ranks_and_all_runs_get_the_same_bits),
        cmocka_unit_test(slices_may_become_ready_in_any_order_and_land_once),
        cmocka_unit_test(each_worker_sends_its_share_and_no_more),
        cmocka_unit_test(a_neighbour_that_closed_is_reported_at_once),
        cmocka_unit_test(silence_ends_after_the_time_out),
        cmocka_unit_test(a_cancelled_exchange_ends_at_once),
        cmocka_unit_test(frames_of_an_older_view_are_dropped),
        cmocka_unit_test(wrong_frames_are_errors),
        cmocka_unit_test(one_lost_worker_ends_all_others),
        cmocka_unit_test(refuses_settings_that_make_no_ring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
