/* SPDX-License-Identifier: Apache-2.0 */
#include "exchange/exchange.h"
#include "meshes.h"
#include "muster/file.h"

#include <math.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#define SEGMENT_FLOATS EXCHANGE_SEGMENT_FLOATS
#define MAX_SHARDS     70

/* Values whose sum depends on the order of additions, and zeros of both signs. */
static float value_at(uint32_t shard, uint32_t round, size_t i)
{
    const size_t mixed = (shard * 13 + round * 5 + i * 7) % 97;

    if (i % 101 == 3)
        return -0.0f; /* of all shards: the sum is 0, for it begins with one */
    if (mixed < 3)
        return mixed == 1 ? 0.0f : -0.0f;
    return (i % 3 == 0 ? 1e7f : -1.0f) / (float)(1 + mixed);
}

/* The rule: from 0, in the order of shards. */
static float sum_at(uint32_t shards, uint32_t round, size_t i)
{
    float sum = 0;

    for (uint32_t shard = 0; shard < shards; shard++)
        sum += value_at(shard, round, i);
    return sum;
}

static bool same_bits(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

struct worker {
    struct trainer_exchange *exchange;
    uint32_t rank, world, shards;
    size_t count;
    uint32_t rounds;
    size_t slice;    /* 0: all at once */
    float **parts;   /* owned by the test, as what they point to */
    uint8_t *landed; /* how often each place was told */
    int code;
    struct mst_error err;
    struct trainer_exchange_stats stats;
};

static size_t parts_of(const struct worker *worker)
{
    return (worker->shards - worker->rank + worker->world - 1) / worker->world;
}

static void note_landed(void *context, size_t offset, size_t count)
{
    struct worker *worker = context;

    for (size_t i = offset; i < offset + count; i++)
        worker->landed[i]++;
}

/* Slices from the end or from the start, by rank; what was sent too early would be NaN. */
static void give_part(struct worker *worker, size_t part, uint32_t round)
{
    const uint32_t shard = worker->rank + (uint32_t)part * worker->world;
    const size_t slice = worker->slice > 0 ? worker->slice : worker->count;
    float *values = worker->parts[part];

    for (size_t i = 0; i < worker->count; i++)
        values[i] = NAN;
    for (size_t done = 0; done < worker->count && worker->code == 0; done += slice) {
        const size_t count = worker->count - done < slice ? worker->count - done : slice;
        const size_t offset = worker->rank % 2 ? done : worker->count - done - count;
        for (size_t i = offset; i < offset + count; i++)
            values[i] = value_at(shard, round, i);
        worker->code = exchange_ready(worker->exchange, part, offset, count, &worker->err);
    }
}

static void *sum_rounds(void *argument)
{
    struct worker *worker = argument;

    for (uint32_t round = 0; round < worker->rounds && worker->code == 0; round++) {
        const struct trainer_sum sum = {.step = round,
                                        .parts = worker->parts,
                                        .part_count = parts_of(worker),
                                        .shards = worker->shards,
                                        .count = worker->count,
                                        .landed = worker->landed ? note_landed : NULL,
                                        .context = worker};
        worker->code = exchange_begin(worker->exchange, &sum, &worker->err);
        for (size_t part = 0; part < parts_of(worker) && worker->code == 0; part++)
            give_part(worker, part, round);
        if (worker->code == 0)
            worker->code = exchange_finish(worker->exchange, &worker->stats, &worker->err);
        for (size_t i = 0; i < worker->count && worker->code == 0; i++) {
            if (!same_bits(worker->parts[0][i], sum_at(worker->shards, round, i)) ||
                (worker->landed && worker->landed[i] != round + 1))
                worker->code = -EDOM;
        }
    }
    return NULL;
}

static void fill_workers(struct worker *workers, const struct meshes_sockets *sockets, uint32_t world,
                         uint32_t shards, size_t count)
{
    for (uint32_t rank = 0; rank < world; rank++) {
        const struct trainer_direct_options options = meshes_options(sockets, rank, world, shards);
        struct worker *worker = &workers[rank];
        *worker = (struct worker){.exchange = meshes_new(&options),
                                  .rank = rank,
                                  .world = world,
                                  .shards = shards,
                                  .count = count,
                                  .rounds = 2};
        worker->parts = calloc(parts_of(worker), sizeof *worker->parts);
        assert_non_null(worker->parts);
        for (size_t part = 0; part < parts_of(worker); part++) {
            /* Alone, all parts may lie in the same memory. */
            worker->parts[part] =
                world == 1 && part > 0 ? worker->parts[0] : calloc(count + 1, sizeof(float));
            assert_non_null(worker->parts[part]);
            worker->parts[part][count] = 12345.0f; /* must stay */
        }
    }
}

static void release_workers(struct worker *workers, uint32_t world)
{
    for (uint32_t rank = 0; rank < world; rank++) {
        trainer_exchange_free(workers[rank].exchange);
        for (size_t part = 0; part < (world == 1 ? 1 : parts_of(&workers[rank])); part++) {
            assert_true(workers[rank].parts[part][workers[rank].count] == 12345.0f);
            free(workers[rank].parts[part]);
        }
        free(workers[rank].parts);
        free(workers[rank].landed);
    }
}

static void check_codes(const struct worker *workers, uint32_t world)
{
    for (uint32_t rank = 0; rank < world; rank++) {
        if (workers[rank].code < 0)
            fail_msg("world %u, shards %u, count %zu, rank %u: %d %s", world, workers[rank].shards,
                     workers[rank].count, rank, workers[rank].code, workers[rank].err.text);
    }
}

static void check_sums(uint32_t world, uint32_t shards, size_t count, size_t slice,
                       enum rings_transport transport)
{
    struct meshes_sockets sockets;
    struct worker workers[MESHES_MAX_WORLD];

    meshes_connect(&sockets, world, transport);
    fill_workers(workers, &sockets, world, shards, count);
    for (uint32_t rank = 0; rank < world; rank++) {
        workers[rank].slice = slice;
        workers[rank].landed = calloc(count + 1, 1);
        assert_non_null(workers[rank].landed);
    }
    rings_run(world, sum_rounds, workers, sizeof workers[0]);
    check_codes(workers, world);
    release_workers(workers, world);
}

static void sums_over_every_world_shards_and_count(enum rings_transport transport)
{
    for (uint32_t world = 1; world <= RINGS_MAX_WORLD; world++) {
        const uint32_t shards[] = {world, world + 1, 2 * world + 1};
        const size_t counts[] = {0, 1, 7, 1000, world - 1, world + 1, world * 1024 + 5};
        for (size_t s = 0; s < sizeof shards / sizeof shards[0]; s++) {
            for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
                check_sums(world, shards[s], counts[i], s == 0 ? 0 : 100, transport);
        }
    }
}

static void sums_go_from_zero_in_the_order_of_shards_over_socket_pairs(void **state)
{
    (void)state;
    sums_over_every_world_shards_and_count(RINGS_SOCKET_PAIRS);
}

static void sums_go_from_zero_in_the_order_of_shards_over_tcp(void **state)
{
    (void)state;
    sums_over_every_world_shards_and_count(RINGS_TCP);
}

static void a_vector_of_many_segments_is_summed_in_slices(void **state)
{
    (void)state;
    check_sums(2, 5, 5 * SEGMENT_FLOATS + 3, 50021, RINGS_TCP);
    check_sums(3, 3, 3 * SEGMENT_FLOATS + 1, 0, RINGS_TCP);
    check_sums(3, 8, 4 * SEGMENT_FLOATS - 1, 9973, RINGS_SOCKET_PAIRS);
}

static void sixty_four_workers_sum(void **state)
{
    (void)state;
    assert_int_equal(mst_raise_descriptor_limit(), 0);
    check_sums(64, 64, 20011, 3001, RINGS_SOCKET_PAIRS);
    check_sums(64, 70, 63, 0, RINGS_SOCKET_PAIRS);
}

static void the_plain_sum_takes_one_vector_of_each_worker(void **state)
{
    (void)state;
    struct meshes_sockets sockets;

    for (uint32_t world = 1; world <= 2; world++) {
        struct trainer_exchange *exchanges[2];
        float values[2][3] = {{1, 2, 3}, {10, 20, 30}};
        meshes_connect(&sockets, world, RINGS_SOCKET_PAIRS);
        for (uint32_t rank = 0; rank < world; rank++) {
            const struct trainer_direct_options options = meshes_options(&sockets, rank, world, 5);
            exchanges[rank] = meshes_new(&options);
        }
        /* Rank 1's vector goes out before rank 0 begins, so one thread is enough for both. */
        if (world == 2) {
            const struct trainer_sum sum = {
                .parts = (float *[]){values[1]}, .part_count = 1, .shards = 2, .count = 3};
            struct trainer_exchange_stats stats;
            assert_int_equal(exchange_begin(exchanges[1], &sum, NULL), 0);
            assert_int_equal(exchange_ready(exchanges[1], 0, 0, 3, NULL), 0);
            const struct trainer_sum other = {
                .parts = (float *[]){values[0]}, .part_count = 1, .shards = 2, .count = 3};
            assert_int_equal(exchange_begin(exchanges[0], &other, NULL), 0);
            assert_int_equal(exchange_ready(exchanges[0], 0, 0, 3, NULL), 0);
            assert_int_equal(exchange_ready(exchanges[1], 0, 0, 0, NULL), 0);
            assert_int_equal(exchange_finish(exchanges[0], &stats, NULL), 0);
            assert_int_equal(exchange_finish(exchanges[1], &stats, NULL), 0);
            assert_memory_equal(values[1], values[0], sizeof values[0]);
        } else {
            assert_int_equal(trainer_exchange_sum(exchanges[0], 1, values[0], 3, NULL, NULL), 0);
        }
        for (int i = 0; i < 3; i++)
            assert_true(values[0][i] == (float)(i + 1) * (world == 2 ? 11 : 1));
        for (uint32_t rank = 0; rank < world; rank++)
            trainer_exchange_free(exchanges[rank]);
    }
}

/* Give part 0 of one worker over a segment, and let both go on until they can do no more without a new slice.
 */
static void give_segment(struct worker *workers, uint32_t rank, size_t offset, size_t count)
{
    for (size_t i = offset; i < offset + count; i++)
        workers[rank].parts[0][i] = value_at(rank, 0, i);
    for (int turn = 0; turn < 50; turn++) {
        for (uint32_t r = 0; r < 2; r++) {
            const bool gives = turn == 0 && r == rank;
            assert_int_equal(
                exchange_ready(workers[r].exchange, 0, gives ? offset : 0, gives ? count : 0, NULL), 0);
        }
    }
}

/* Of two segments that rank 0 owns, its own part of the first is not final yet, so that rank 1's waits. When
 * the second becomes final, the one that waits must not be taken for that. */
static void a_part_that_waits_is_not_taken_for_another_segments(void **state)
{
    (void)state;
    enum { SEGMENT = SEGMENT_FLOATS / 2 + 1, COUNT = 4 * SEGMENT };
    struct meshes_sockets sockets;
    struct worker workers[2];

    meshes_connect(&sockets, 2, RINGS_SOCKET_PAIRS);
    fill_workers(workers, &sockets, 2, 2, COUNT);
    for (uint32_t rank = 0; rank < 2; rank++) {
        const struct trainer_sum sum = {
            .parts = workers[rank].parts, .part_count = 1, .shards = 2, .count = COUNT};
        assert_int_equal(exchange_begin(workers[rank].exchange, &sum, NULL), 0);
    }
    give_segment(workers, 1, 3 * SEGMENT, SEGMENT); /* rank 0's first segment: the last place is segment 0 */
    give_segment(workers, 0, SEGMENT, SEGMENT);     /* its second */
    give_segment(workers, 1, 0, 3 * SEGMENT);
    give_segment(workers, 0, 2 * SEGMENT, 2 * SEGMENT);
    give_segment(workers, 0, 0, SEGMENT);
    for (uint32_t rank = 0; rank < 2; rank++) {
        assert_int_equal(exchange_finish(workers[rank].exchange, &workers[rank].stats, NULL), 0);
        for (size_t i = 0; i < COUNT; i++)
            assert_true(same_bits(workers[rank].parts[0][i], sum_at(2, 0, i)));
    }
    release_workers(workers, 2);
}

static void each_worker_sends_its_share_and_no_more(void **state)
{
    (void)state;
    enum { WORLD = 3, COUNT = 600000 };
    struct meshes_sockets sockets;
    struct worker workers[WORLD];

    meshes_connect(&sockets, WORLD, RINGS_SOCKET_PAIRS);
    fill_workers(workers, &sockets, WORLD, WORLD, COUNT);
    rings_run(WORLD, sum_rounds, workers, sizeof workers[0]);
    check_codes(workers, WORLD);
    for (uint32_t rank = 0; rank < WORLD; rank++) {
        const uint64_t payload = UINT64_C(4) * COUNT * 2 * (WORLD - 1) / WORLD;
        assert_in_range(workers[rank].stats.bytes_sent, payload, payload + payload / 1000);
        assert_true(workers[rank].stats.wait_ms >= 0 && workers[rank].stats.transfer_ms >= 0);
    }
    release_workers(workers, WORLD);
}

/* ---- faults ----------------------------------------------------------------------------------------------
 */

/* Rank 0 of `LONELY_WORLD`, whose peers are played by the test. The vector has four floats a segment. */
enum { LONELY_WORLD = 3, LONELY_COUNT = 12 };
struct lonely {
    struct trainer_exchange *exchange;
    int peers[LONELY_WORLD]; /* the test's ends */
    struct mst_error err;
    float values[LONELY_COUNT];
};

static void set_up_lonely(struct lonely *lonely, uint32_t timeout_ms, int cancel_fd)
{
    struct meshes_sockets sockets;

    memset(lonely, 0, sizeof *lonely);
    meshes_connect(&sockets, LONELY_WORLD, RINGS_TCP);
    (void)close(sockets.fds[1][2]);
    (void)close(sockets.fds[2][1]);
    struct trainer_direct_options options = meshes_options(&sockets, 0, LONELY_WORLD, LONELY_WORLD);
    options.timeout_ms = timeout_ms;
    options.cancel_fd = cancel_fd;
    lonely->exchange = meshes_new(&options);
    for (uint32_t rank = 0; rank < LONELY_WORLD; rank++)
        lonely->peers[rank] = rank > 0 ? sockets.fds[rank][0] : -1;
    for (int i = 0; i < LONELY_COUNT; i++)
        lonely->values[i] = 1;
}

static int sum_lonely(struct lonely *lonely)
{
    return trainer_exchange_sum(lonely->exchange, 9, lonely->values, LONELY_COUNT, NULL, &lonely->err);
}

static void close_peer(struct lonely *lonely, int peer)
{
    (void)close(lonely->peers[peer]);
    lonely->peers[peer] = -1;
}

static void tear_down_lonely(struct lonely *lonely)
{
    /* After a failure the exchange is of no use, and says so at once. */
    assert_true(sum_lonely(lonely) < 0);
    trainer_exchange_free(lonely->exchange);
    for (int peer = 1; peer < LONELY_WORLD; peer++) {
        if (lonely->peers[peer] >= 0)
            close_peer(lonely, peer);
    }
}

/* What peer `rank` sends first: its shard of segment 0, of rank 0. */
static struct exchange_frame frame_of(uint32_t rank)
{
    return (struct exchange_frame){.job_key = RINGS_JOB_KEY,
                                   .view = RINGS_VIEW,
                                   .step = 9,
                                   .phase = (uint16_t)rank,
                                   .bytes = 4 * sizeof(float)};
}

static void send_frame(const struct lonely *lonely, int peer, const struct exchange_frame *frame, float value)
{
    const uint64_t deadline_ns = mst_now_ns() + MST_NS_PER_S;
    uint8_t wire[EXCHANGE_FRAME_BYTES];
    float payload[64];

    for (int i = 0; i < 64; i++)
        payload[i] = value;
    assert_true(frame->bytes <= sizeof payload);
    exchange_frame_write(frame, wire);
    assert_int_equal(mst_send_all(lonely->peers[peer], wire, sizeof wire, deadline_ns), 0);
    assert_int_equal(mst_send_all(lonely->peers[peer], payload, frame->bytes, deadline_ns), 0);
}

static void a_peer_that_closed_is_named_at_once(void **state)
{
    (void)state;
    for (int peer = 1; peer < LONELY_WORLD; peer++) {
        struct lonely lonely;
        char says[64];
        set_up_lonely(&lonely, 20000, -1);
        close_peer(&lonely, peer);
        assert_int_equal(sum_lonely(&lonely), -EPIPE);
        (void)snprintf(says, sizeof says, "rank %d: it closed the connection", peer);
        assert_non_null(strstr(lonely.err.text, says));
        tear_down_lonely(&lonely);
    }
}

static void a_peer_that_is_cut_off_within_a_frame_is_named(void **state)
{
    (void)state;
    /* Bytes of the frame and its payload that still came. */
    static const size_t cuts[] = {1, EXCHANGE_FRAME_BYTES - 1, EXCHANGE_FRAME_BYTES, EXCHANGE_FRAME_BYTES + 1,
                                  EXCHANGE_FRAME_BYTES + 15};

    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        uint8_t bytes[EXCHANGE_FRAME_BYTES + 16] = {0};
        const struct exchange_frame frame = frame_of(1);
        struct lonely lonely;
        set_up_lonely(&lonely, 20000, -1);
        exchange_frame_write(&frame, bytes);
        assert_int_equal(mst_send_all(lonely.peers[1], bytes, cuts[i], mst_now_ns() + MST_NS_PER_S), 0);
        close_peer(&lonely, 1);
        assert_int_equal(sum_lonely(&lonely), -EPIPE);
        assert_non_null(strstr(lonely.err.text, "rank 1"));
        tear_down_lonely(&lonely);
    }
}

static void a_frozen_peer_is_named_after_the_time_out(void **state)
{
    (void)state;
    struct lonely lonely;
    struct exchange_frame frame = frame_of(1);

    /* Rank 1 does all that it can without rank 2: its share, and nothing. */
    set_up_lonely(&lonely, 100, -1);
    send_frame(&lonely, 1, &frame, 1);
    assert_int_equal(sum_lonely(&lonely), -ETIMEDOUT);
    assert_non_null(strstr(lonely.err.text, "rank 1, 2 in 100 ms (step 9)"));
    tear_down_lonely(&lonely);
}

static void patience_comes_on_top_of_the_time_out(void **state)
{
    (void)state;
    struct lonely lonely;
    float *parts[] = {lonely.values};
    const struct trainer_sum sum = {.step = 9,
                                    .parts = parts,
                                    .part_count = 1,
                                    .shards = LONELY_WORLD,
                                    .count = LONELY_COUNT,
                                    .patience_ms = 200};
    struct trainer_exchange_stats stats;

    set_up_lonely(&lonely, 1, -1);
    const uint64_t start_ns = mst_now_ns();
    assert_int_equal(exchange_begin(lonely.exchange, &sum, NULL), 0);
    assert_int_equal(exchange_finish(lonely.exchange, &stats, &lonely.err), -ETIMEDOUT);
    assert_non_null(strstr(lonely.err.text, "in 201 ms"));
    assert_true(mst_ms_since(start_ns) >= 200); /* at least: poll(2) does not return early */
    tear_down_lonely(&lonely);
}

static void *raise_cancel(void *argument)
{
    const uint64_t one = 1;

    /* The main thread waits in poll() by now, or will find the event there: both must end the wait. */
    return write(*(int *)argument, &one, sizeof one) == sizeof one ? NULL : argument;
}

static void a_cancelled_sum_ends_at_once(void **state)
{
    (void)state;
    int cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct lonely lonely;
    pthread_t thread;
    void *failed;

    assert_true(cancel_fd >= 0);
    set_up_lonely(&lonely, 20000, cancel_fd);
    assert_int_equal(pthread_create(&thread, NULL, raise_cancel, &cancel_fd), 0);
    assert_int_equal(sum_lonely(&lonely), -ECANCELED);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    tear_down_lonely(&lonely);
    (void)close(cancel_fd);
}

static void frames_of_an_older_view_are_dropped(void **state)
{
    (void)state;
    struct lonely lonely;

    set_up_lonely(&lonely, 2000, -1);
    for (int peer = 1; peer < LONELY_WORLD; peer++) {
        struct exchange_frame stale = frame_of((uint32_t)peer), good = stale;
        stale.view = RINGS_VIEW - 1;
        stale.step = 70;
        send_frame(&lonely, peer, &stale, 1000);
        stale.bytes = 8;
        stale.phase = EXCHANGE_PHASE_SPREAD;
        send_frame(&lonely, peer, &stale, 1000);
        send_frame(&lonely, peer, &good, 3);
    }
    struct exchange_frame sums = frame_of(0);
    sums.phase = EXCHANGE_PHASE_SUM;
    /* The peers must have rank 0's part of a segment before they can send its sum. */
    const struct trainer_sum sum = {.step = 9,
                                    .parts = (float *[]){lonely.values},
                                    .part_count = 1,
                                    .shards = LONELY_WORLD,
                                    .count = LONELY_COUNT};
    struct trainer_exchange_stats stats;
    assert_int_equal(exchange_begin(lonely.exchange, &sum, NULL), 0);
    assert_int_equal(exchange_ready(lonely.exchange, 0, 0, LONELY_COUNT, NULL), 0);
    send_frame(&lonely, 1, &sums, 4);
    send_frame(&lonely, 2, &sums, 5);
    assert_int_equal(exchange_finish(lonely.exchange, &stats, NULL), 0);
    for (int i = 0; i < LONELY_COUNT; i++)
        assert_true(lonely.values[i] == (i < 4 ? 5 : i < 8 ? 4 : 7));
    close_peer(&lonely, 1);
    tear_down_lonely(&lonely);
}

static void wrong_frames_are_errors_that_name_the_sender(void **state)
{
    (void)state;
    static const struct {
        uint64_t job_key_change, step;
        uint32_t view;
        uint16_t phase, segment;
        uint32_t bytes;
        int code;
        const char *says;
    } cases[] = {
        {1, 9, RINGS_VIEW, 2, 0, 16, -EPROTO, "another job"},
        {0, 8, RINGS_VIEW, 2, 0, 16, -EPROTO, "it sent step 8"},
        {0, 9 | EXCHANGE_FOR_STATE, RINGS_VIEW, 2, 0, 16, -EPROTO, "it sent state after step 9"},
        {0, 9, RINGS_VIEW + 1, 2, 0, 16, -ESTALE, "it is in view 6"},
        {0, 9, RINGS_VIEW, 1, 0, 16, -EPROTO, "phase 1"},
        {0, 9, RINGS_VIEW, EXCHANGE_PHASE_SPREAD, 0, 16, -EPROTO, "phase 65535"},
        {0, 9, RINGS_VIEW, 2, 1, 16, -EPROTO, "segment 1"},
        {0, 9, RINGS_VIEW, 2, 0, 12, -EPROTO, "12 bytes"},
        {0, 9, RINGS_VIEW, 2, 0, 20, -EPROTO, "20 bytes"},
        {0, 9, RINGS_VIEW, EXCHANGE_PHASE_SUM, 0, 16, -EPROTO, "before it had all parts"},
        {0, 9, RINGS_VIEW, EXCHANGE_PHASE_SUM, 1, 16, -EPROTO, ""},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct exchange_frame frame = {.job_key = RINGS_JOB_KEY ^ cases[i].job_key_change,
                                             .step = cases[i].step,
                                             .view = cases[i].view,
                                             .phase = cases[i].phase,
                                             .segment = cases[i].segment,
                                             .bytes = cases[i].bytes};
        const struct trainer_sum sum = {.step = 9,
                                        .parts = (float *[]){(float[LONELY_COUNT]){0}},
                                        .part_count = 1,
                                        .shards = LONELY_WORLD,
                                        .count = LONELY_COUNT};
        struct trainer_exchange_stats stats;
        struct lonely lonely;
        set_up_lonely(&lonely, 2000, -1);
        send_frame(&lonely, 2, &frame, 1);
        /* Nothing is final here yet: not even rank 0's own part has gone out. */
        int r = exchange_begin(lonely.exchange, &sum, &lonely.err);
        if (r == 0)
            r = exchange_ready(lonely.exchange, 0, 0, 0, &lonely.err);
        if (r == 0)
            r = exchange_finish(lonely.exchange, &stats, &lonely.err);
        assert_int_equal(r, cases[i].code);
        if (!strstr(lonely.err.text, cases[i].says) || !strstr(lonely.err.text, "rank 2: "))
            fail_msg("case %zu: '%s'", i, lonely.err.text);
        tear_down_lonely(&lonely);
    }
}

/* Rank 2 of five never takes part and closes. */
static void one_lost_worker_ends_all_others(void **state)
{
    (void)state;
    enum { WORLD = 5, LOST = 2, COUNT = 500000 };
    struct meshes_sockets sockets;
    struct worker workers[WORLD];

    meshes_connect(&sockets, WORLD, RINGS_TCP);
    fill_workers(workers, &sockets, WORLD, WORLD, COUNT);
    trainer_exchange_free(workers[LOST].exchange);
    workers[LOST].exchange = NULL;
    workers[LOST].rounds = 0;
    rings_run(WORLD, sum_rounds, workers, sizeof workers[0]);
    for (uint32_t rank = 0; rank < WORLD; rank++) {
        if (rank != LOST)
            assert_int_equal(workers[rank].code, -EPIPE);
    }
    release_workers(workers, WORLD);
}

static void refuses_settings_that_make_no_exchange(void **state)
{
    (void)state;
    static const int fds[TRAINER_MAX_WORLD + 1] = {3, 3, -1};
    static const struct trainer_direct_options cases[] = {
        {.fds = fds, .rank = 0, .world = 0, .shards = 1, .timeout_ms = 1},
        {.fds = fds, .rank = 2, .world = 2, .shards = 2, .timeout_ms = 1},
        {.fds = fds, .rank = 0, .world = 3, .shards = 3, .timeout_ms = 1},
        {.fds = fds, .rank = 0, .world = 2, .shards = 1, .timeout_ms = 1},
        {.fds = fds, .rank = 0, .world = 2, .shards = TRAINER_MAX_WORLD + 1, .timeout_ms = 1},
        {.fds = fds, .rank = 0, .world = 2, .shards = 2, .timeout_ms = 0},
        {.fds = fds, .world = TRAINER_MAX_WORLD + 1, .shards = TRAINER_MAX_WORLD + 1, .timeout_ms = 1},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct trainer_exchange *exchange = (struct trainer_exchange *)&i;
        assert_int_equal(trainer_direct_new(&cases[i], &exchange, NULL), -EINVAL);
        assert_true(exchange == (struct trainer_exchange *)&i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_go_from_zero_in_the_order_of_shards_over_socket_pairs),
        cmocka_unit_test(sums_go_from_zero_in_the_order_of_shards_over_tcp),
        cmocka_unit_test(a_vector_of_many_segments_is_summed_in_slices),
        cmocka_unit_test(sixty_four_workers_sum),
        cmocka_unit_test(the_plain_sum_takes_one_vector_of_each_worker),
        cmocka_unit_test(a_part_that_waits_is_not_taken_for_another_segments),
        cmocka_unit_test(each_worker_sends_its_share_and_no_more),
        cmocka_unit_test(a_peer_that_closed_is_named_at_once),
        cmocka_unit_test(a_peer_that_is_cut_off_within_a_frame_is_named),
        cmocka_unit_test(a_frozen_peer_is_named_after_the_time_out),
        cmocka_unit_test(patience_comes_on_top_of_the_time_out),
        cmocka_unit_test(a_cancelled_sum_ends_at_once),
        cmocka_unit_test(frames_of_an_older_view_are_dropped),
        cmocka_unit_test(wrong_frames_are_errors_that_name_the_sender),
        cmocka_unit_test(one_lost_worker_ends_all_others),
        cmocka_unit_test(refuses_settings_that_make_no_exchange),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
