/* SPDX-License-Identifier: Apache-2.0 */
/* Time of a sum over loopback TCP, one thread a worker, over world sizes and lengths, by the ring and by the
 * direct exchange with one shard a worker; every sum is checked: bench_exchange [--exchange ring|direct|both]
 * [--world N] [--rounds N] [--json FILE]. "Bus" is 2 (N - 1) / N times the vector's bytes by the time, what
 * each worker's link carries one way. Medians are of the slowest worker's rounds. */
#include "arena.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/net.h"
#include "muster/opts.h"
#include "muster/parse.h"
#include "muster/trainer.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WORLD  16
#define MAX_ROUNDS 10000
#define MAX_COUNT  (64 << 20)
#define ALL_COUNTS UINT32_MAX
#define TIMEOUT_MS 60000

enum kind { RING, DIRECT, KINDS };
static const char *const kind_names[] = {"ring", "direct"};

struct settings {
    bool wanted[KINDS];
    uint32_t world, rounds; /* world 0: 1 to 8 and 16 */
    uint32_t count;         /* floats; ALL_COUNTS: the list */
    FILE *json;             /* beside the table; NULL: none */
};

static int set_exchange(void *settings, const char *text, struct mst_error *err)
{
    bool *wanted = ((struct settings *)settings)->wanted;

    for (int kind = RING; kind < KINDS; kind++)
        wanted[kind] = strcmp(text, kind_names[kind]) == 0 || strcmp(text, "both") == 0;
    return wanted[RING] || wanted[DIRECT]
               ? 0
               : mst_error_set(err, -EINVAL, "expected ring, direct or both, got '%s'", text);
}

static int set_world(void *settings, const char *text, struct mst_error *err)
{
    return mst_parse_u32(text, 0, MAX_WORLD, &((struct settings *)settings)->world, err);
}

static int set_rounds(void *settings, const char *text, struct mst_error *err)
{
    return mst_parse_u32(text, 1, MAX_ROUNDS, &((struct settings *)settings)->rounds, err);
}

static int set_count(void *settings, const char *text, struct mst_error *err)
{
    uint32_t *count = &((struct settings *)settings)->count;

    *count = ALL_COUNTS;
    return strcmp(text, "all") == 0 ? 0 : mst_parse_u32(text, 0, MAX_COUNT, count, err);
}

static int set_json(void *settings, const char *text, struct mst_error *err)
{
    FILE *file = fopen(text, "we");
    ((struct settings *)settings)->json = file;
    return file ? 0 : mst_error_errno(err, -errno, "open '%s'", text);
}

static const struct mst_option option_table[] = {
    {.name = "exchange",
     .argument = "KIND",
     .fallback = "both",
     .help = "ring, direct, or both in turn",
     .set = set_exchange},
    {.name = "world",
     .argument = "N",
     .fallback = "0",
     .help = "workers; 0: 1 to 8 and 16",
     .set = set_world},
    {.name = "count",
     .argument = "N",
     .fallback = "all",
     .help = "floats; all: 0, 1, around the number of workers, 1000, 1 and 2.77 million",
     .set = set_count},
    {.name = "rounds", .argument = "N", .fallback = "20", .help = "to time for each size", .set = set_rounds},
    {.name = "json", .argument = "FILE", .help = "write the figures there as JSON, too", .set = set_json},
};

struct worker {
    pthread_t thread;
    pthread_barrier_t *barrier; /* all workers of the case start each round together */
    enum kind kind;
    struct trainer_exchange *exchange;
    uint32_t rank, world, rounds;
    size_t count;
    float *values; /* owned */
    double *ms;    /* by round, owned */
    size_t wrong;  /* floats that were not the sum */
    struct mst_error err;
};

static void *run(void *argument)
{
    struct worker *worker = argument;
    const float sum = (float)(worker->world * (worker->world + 1) / 2);

    for (uint32_t round = 0; round < worker->rounds; round++) {
        for (size_t i = 0; i < worker->count; i++)
            worker->values[i] = (float)(worker->rank + 1);
        (void)pthread_barrier_wait(worker->barrier);
        const uint64_t start_ns = mst_now_ns();
        if (worker->err.code == 0)
            (void)trainer_exchange_sum(worker->exchange, round, worker->values, worker->count, NULL,
                                       &worker->err);
        worker->ms[round] = mst_ms_since(start_ns);
        (void)pthread_barrier_wait(worker->barrier); /* to check the sum is no part of anybody's time */
        for (size_t i = 0; i < worker->count; i++)
            worker->wrong += worker->values[i] != sum;
    }
    return NULL;
}

static int connect_pair(int ret_fds[static 2], struct mst_error *err)
{
    const uint64_t deadline_ns = mst_now_ns() + 5 * MST_NS_PER_S;
    mst_cleanup(mst_closep) int listener = -1;
    uint16_t port;

    int r = mst_tcp_listen(0x7f000001, 0, 1, &listener, &port, err);
    if (r >= 0)
        r = mst_tcp_connect(0x7f000001, port, deadline_ns, &ret_fds[0], err);
    if (r >= 0)
        r = mst_wait_fd(listener, POLLIN, deadline_ns);
    if (r < 0)
        return r;
    ret_fds[1] = mst_tcp_accept(listener, NULL, NULL);
    if (ret_fds[1] < 0)
        return mst_error_errno(err, ret_fds[1], "accept");
    r = mst_tcp_tune(ret_fds[0], 0, err);
    return r < 0 ? r : mst_tcp_tune(ret_fds[1], 0, err);
}

static int make_ring(struct worker *workers, uint32_t world, struct mst_error *err)
{
    int prev[MAX_WORLD] = {-1}, next[MAX_WORLD] = {-1};
    int r = 0;

    for (uint32_t rank = 0; world > 1 && rank < world && r >= 0; rank++) {
        int fds[2];
        r = connect_pair(fds, err);
        next[rank] = fds[0];
        prev[(rank + 1) % world] = fds[1];
    }
    for (uint32_t rank = 0; rank < world && r >= 0; rank++) {
        const struct trainer_ring_options options = {.fd_prev = prev[rank],
                                                     .fd_next = next[rank],
                                                     .cancel_fd = -1,
                                                     .rank = rank,
                                                     .world = world,
                                                     .timeout_ms = TIMEOUT_MS};
        r = trainer_ring_new(&options, &workers[rank].exchange, err);
    }
    return r;
}

static int make_mesh(struct worker *workers, uint32_t world, struct mst_error *err)
{
    int fds[MAX_WORLD][MAX_WORLD];
    int r = 0;

    for (uint32_t rank = 0; rank < world; rank++) {
        for (uint32_t peer = rank + 1; peer < world && r >= 0; peer++) {
            int pair[2];
            r = connect_pair(pair, err);
            fds[rank][peer] = pair[0];
            fds[peer][rank] = pair[1];
        }
    }
    for (uint32_t rank = 0; rank < world && r >= 0; rank++) {
        const struct trainer_direct_options options = {.fds = fds[rank],
                                                       .cancel_fd = -1,
                                                       .rank = rank,
                                                       .world = world,
                                                       .shards = world,
                                                       .timeout_ms = TIMEOUT_MS};
        r = trainer_direct_new(&options, &workers[rank].exchange, err);
    }
    return r;
}

static int set_up(struct worker *workers, enum kind kind, uint32_t world, size_t count, uint32_t rounds,
                  struct mst_error *err)
{
    for (uint32_t rank = 0; rank < world; rank++) {
        workers[rank].kind = kind;
        workers[rank].rank = rank;
        workers[rank].world = world;
        workers[rank].rounds = rounds;
        workers[rank].count = count;
        workers[rank].values = trainer_floats_new(count); /* as a training has them */
        trainer_floats_settle(workers[rank].values, count);
        workers[rank].ms = calloc(rounds, sizeof(double));
        if (!workers[rank].values || !workers[rank].ms)
            return mst_error_set(err, -ENOMEM, "no memory");
    }
    return kind == RING ? make_ring(workers, world, err) : make_mesh(workers, world, err);
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_case(const struct worker *workers, FILE *json)
{
    const uint32_t world = workers[0].world, rounds = workers[0].rounds;
    mst_cleanup(mst_freep) double *slowest = calloc(rounds, sizeof *slowest);
    size_t wrong = 0;

    for (uint32_t rank = 0; slowest && rank < world; rank++) {
        wrong += workers[rank].wrong;
        for (uint32_t round = 0; round < rounds; round++) {
            if (workers[rank].ms[round] > slowest[round])
                slowest[round] = workers[rank].ms[round];
        }
    }
    if (!slowest)
        return;
    qsort(slowest, rounds, sizeof *slowest, compare_doubles);
    const double median_ms = slowest[rounds / 2];
    const double bus_mb_s =
        (double)workers[0].count * 4 * 2 * (world - 1) / world / 1e6 / (median_ms > 0 ? median_ms / 1e3 : 1);
    const char *kind = kind_names[workers[0].kind];
    (void)printf("%-8s %5" PRIu32 " %10zu %10.3f %10.3f %10.1f %7zu\n", kind, world, workers[0].count,
                 slowest[0], median_ms, bus_mb_s, wrong);
    if (json)
        (void)fprintf(json,
                      "{\"bench\":\"%s\",\"world\":%" PRIu32
                      ",\"count\":%zu,\"min_ms\":%.4f,\"median_ms\":%.4f,"
                      "\"bus_mb_s\":%.1f,\"wrong\":%zu}\n",
                      kind, world, workers[0].count, slowest[0], median_ms, bus_mb_s, wrong);
    (void)fflush(stdout);
}

static int run_case(enum kind kind, uint32_t world, size_t count, const struct settings *settings,
                    struct mst_error *err)
{
    struct worker workers[MAX_WORLD] = {0};
    pthread_barrier_t barrier;
    uint32_t started = 0;

    int r = set_up(workers, kind, world, count, settings->rounds, err);
    if (r >= 0 && pthread_barrier_init(&barrier, NULL, world) != 0)
        r = mst_error_set(err, -ENOMEM, "no barrier for %" PRIu32 " threads", world);
    if (r >= 0) {
        for (; started < world; started++) {
            workers[started].barrier = &barrier;
            if (pthread_create(&workers[started].thread, NULL, run, &workers[started]) != 0)
                abort(); /* the others wait at the barrier for ever */
        }
        for (uint32_t rank = 0; rank < world; rank++) {
            (void)pthread_join(workers[rank].thread, NULL);
            if (workers[rank].err.code < 0)
                r = mst_error_set(err, workers[rank].err.code, "rank %" PRIu32 ": %s", rank,
                                  workers[rank].err.text);
        }
        (void)pthread_barrier_destroy(&barrier);
    }
    if (r >= 0)
        print_case(workers, settings->json);
    for (uint32_t rank = 0; rank < world; rank++) {
        trainer_exchange_free(workers[rank].exchange);
        free(workers[rank].values);
        free(workers[rank].ms);
    }
    return r;
}

int main(int argc, char **argv)
{
    static const uint32_t worlds[] = {1, 2, 3, 4, 5, 6, 7, 8, 16};
    const struct mst_options options = {.program = "bench_exchange",
                                        .synopsis = "[options]",
                                        .about = "Time sums over loopback TCP.",
                                        .table = option_table,
                                        .count = MST_ARRAY_COUNT(option_table)};
    struct settings settings = {0};
    struct mst_error err = MST_ERROR_INIT;
    int operands;

    int r = mst_options_parse(&options, argc, argv, &settings, &operands, &err);
    if (r == 1)
        return 0;
    if (r >= 0)
        (void)printf("exchange world     floats     min ms  median ms   bus MB/s   wrong\n");
    for (size_t i = 0; r >= 0 && i < MST_ARRAY_COUNT(worlds); i++) {
        const uint32_t world = worlds[i];
        const size_t listed[] = {0, 1, world - 1, world, world + 1, 1000, 1000000, 2770636};
        const size_t *counts = settings.count == ALL_COUNTS ? listed : &(size_t){settings.count};
        const size_t count = settings.count == ALL_COUNTS ? MST_ARRAY_COUNT(listed) : 1;
        for (size_t c = 0; r >= 0 && (settings.world == 0 || settings.world == world) && c < count; c++) {
            for (int kind = RING; kind < KINDS && r >= 0; kind++)
                r = settings.wanted[kind] ? run_case((enum kind)kind, world, counts[c], &settings, &err) : 0;
        }
    }
    if (r < 0) {
        (void)fprintf(stderr, "bench_exchange: %s\n", err.text);
        return mst_exit_status(r);
    }
    return settings.json && fclose(settings.json) != 0 ? MST_EXIT_FAILED : MST_EXIT_DONE;
}
