/* SPDX-License-Identifier: Apache-2.0 */
/* One worker of a timed sum between hosts: bench_exchange_node --rank I --addresses A,B,... [--exchange
 * ring|direct]
 * [--wire f32|bf16] [--counts N,N,...] [--seconds S]. All workers are told the same but for the rank. Rank 0
 * prints a line of JSON for each count: the time is that of the slowest worker in each round, the bus
 * bandwidth 2 (N - 1) / N times the vector's bytes by the median. Every sum is checked. */
#include "arena.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/net.h"
#include "muster/opts.h"
#include "muster/parse.h"
#include "muster/trainer.h"

#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_WORLD    16
#define MAX_COUNTS   16
#define MAX_COUNT    (64 << 20)
#define MIN_ROUNDS   5
#define MAX_ROUNDS   5000
#define TIMEOUT_MS   30000
#define CONNECT_S    30
#define RETRY_MS     20
#define DEFAULT_PORT "7075"

struct settings {
    uint32_t addresses[MAX_WORLD], world, rank, seconds, port;
    size_t counts[MAX_COUNTS], count_count;
    bool direct;
    enum trainer_wire wire;
    const char *congestion; /* NULL: the machine's */
};

/* Split at commas; take() gets each piece. */
static int each_piece(const char *text,
                      int (*take)(struct settings *settings, const char *piece, struct mst_error *err),
                      struct settings *settings, struct mst_error *err)
{
    mst_cleanup(mst_freep) char *copy = strdup(text);
    char *rest = copy;
    int r = copy ? 0 : mst_error_set(err, -ENOMEM, "no memory");

    for (char *piece; r >= 0 && (piece = strsep(&rest, ","));)
        r = take(settings, piece, err);
    return r;
}

static int take_address(struct settings *settings, const char *piece, struct mst_error *err)
{
    if (settings->world == MAX_WORLD)
        return mst_error_set(err, -EINVAL, "more than %d addresses", MAX_WORLD);
    return mst_parse_ipv4(piece, &settings->addresses[settings->world++], err);
}

static int take_count(struct settings *settings, const char *piece, struct mst_error *err)
{
    uint32_t count = 0;

    if (settings->count_count == MAX_COUNTS)
        return mst_error_set(err, -EINVAL, "more than %d counts", MAX_COUNTS);
    const int r = mst_parse_u32(piece, 0, MAX_COUNT, &count, err);
    settings->counts[settings->count_count++] = count;
    return r;
}

static int set_addresses(void *settings, const char *text, struct mst_error *err)
{
    return each_piece(text, take_address, settings, err);
}

static int set_counts(void *settings, const char *text, struct mst_error *err)
{
    return each_piece(text, take_count, settings, err);
}

static int set_rank(void *settings, const char *text, struct mst_error *err)
{
    return mst_parse_u32(text, 0, MAX_WORLD - 1, &((struct settings *)settings)->rank, err);
}

static int set_seconds(void *settings, const char *text, struct mst_error *err)
{
    return mst_parse_u32(text, 1, 600, &((struct settings *)settings)->seconds, err);
}

static int set_port(void *settings, const char *text, struct mst_error *err)
{
    return mst_parse_u32(text, 1, 65535, &((struct settings *)settings)->port, err);
}

static int set_exchange(void *settings, const char *text, struct mst_error *err)
{
    ((struct settings *)settings)->direct = strcmp(text, "direct") == 0;
    return strcmp(text, "ring") == 0 || strcmp(text, "direct") == 0
               ? 0
               : mst_error_set(err, -EINVAL, "expected ring or direct, got '%s'", text);
}

static int set_congestion(void *settings, const char *text, struct mst_error *err)
{
    (void)err;
    ((struct settings *)settings)->congestion = text;
    return 0;
}

static int set_wire(void *settings, const char *text, struct mst_error *err)
{
    ((struct settings *)settings)->wire = strcmp(text, "bf16") == 0 ? TRAINER_WIRE_BF16 : TRAINER_WIRE_F32;
    return strcmp(text, "f32") == 0 || strcmp(text, "bf16") == 0
               ? 0
               : mst_error_set(err, -EINVAL, "expected f32 or bf16, got '%s'", text);
}

static const struct mst_option option_table[] = {
    {.name = "addresses",
     .argument = "A,B,...",
     .help = "of all workers, by rank",
     .set = set_addresses,
     .required = true},
    {.name = "rank", .argument = "I", .help = "of this worker", .set = set_rank, .required = true},
    {.name = "port", .argument = "N", .fallback = DEFAULT_PORT, .help = "of all workers", .set = set_port},
    {.name = "exchange",
     .argument = "KIND",
     .fallback = "ring",
     .help = "ring or direct",
     .set = set_exchange},
    {.name = "wire", .argument = "FORMAT", .fallback = "f32", .help = "f32 or bf16", .set = set_wire},
    {.name = "congestion",
     .argument = "NAME",
     .help = "TCP's congestion control, instead of the machine's",
     .set = set_congestion},
    {.name = "counts",
     .argument = "N,N,...",
     .fallback = "2770636",
     .help = "floats in a vector",
     .set = set_counts},
    {.name = "seconds",
     .argument = "S",
     .fallback = "1",
     .help = "about so long for each count",
     .set = set_seconds},
};

/* ---- connections ----------------------------------------------------------------------------------------
 */

/* dialled[p] and accepted[p] are two connections to rank p; a ring wants one of each, a mesh one. */
struct connections {
    int dialled[MAX_WORLD], accepted[MAX_WORLD];
};

static bool dials(const struct settings *settings, uint32_t from, uint32_t to)
{
    return settings->direct ? from < to : to == (from + 1) % settings->world && from != to;
}

static int dial(const struct settings *settings, uint32_t peer, uint64_t deadline_ns, int *ret_fd,
                struct mst_error *err)
{
    int r;

    /* Who is not there yet refuses. */
    while ((r = mst_tcp_connect(settings->addresses[peer], (uint16_t)settings->port, deadline_ns, ret_fd,
                                err)) < 0 &&
           mst_now_ns() < deadline_ns)
        (void)poll(NULL, 0, RETRY_MS);
    if (r < 0)
        return mst_error_wrap(err, r, "rank %" PRIu32, peer);
    const uint8_t rank = (uint8_t)settings->rank;
    return mst_send_all(*ret_fd, &rank, 1, deadline_ns);
}

static int accept_one(const struct settings *settings, int listener, uint64_t deadline_ns,
                      struct connections *connections, struct mst_error *err)
{
    uint8_t rank;
    int r = mst_wait_fd(listener, POLLIN, deadline_ns);
    if (r < 0)
        return mst_error_errno(err, r, "wait for a connection");
    mst_cleanup(mst_closep) int fd = mst_tcp_accept(listener, NULL, NULL);
    if (fd < 0)
        return mst_error_errno(err, fd, "accept");
    r = mst_wait_fd(fd, POLLIN, deadline_ns);
    if (r < 0 || read(fd, &rank, 1) != 1 || rank >= settings->world ||
        !dials(settings, rank, settings->rank) || connections->accepted[rank] >= 0)
        return mst_error_set(err, -EPROTO, "a connection that nobody should have made");
    connections->accepted[rank] = fd;
    fd = -1;
    return 0;
}

static int tune(const struct settings *settings, int fd, struct mst_error *err)
{
    const int r = settings->congestion ? mst_tcp_set_congestion(fd, settings->congestion, err) : 0;
    return r < 0 ? r : mst_tcp_tune(fd, 0, err);
}

static int connect_all(const struct settings *settings, struct connections *connections,
                       struct mst_error *err)
{
    const uint64_t deadline_ns = mst_now_ns() + CONNECT_S * MST_NS_PER_S;
    mst_cleanup(mst_closep) int listener = -1;
    uint16_t port;

    memset(connections, 0xff, sizeof *connections); /* all -1 */
    int r = mst_tcp_listen(settings->addresses[settings->rank], (uint16_t)settings->port, MAX_WORLD,
                           &listener, &port, err);
    for (uint32_t peer = 0; peer < settings->world && r >= 0; peer++) {
        if (dials(settings, settings->rank, peer))
            r = dial(settings, peer, deadline_ns, &connections->dialled[peer], err);
    }
    for (uint32_t peer = 0; peer < settings->world && r >= 0; peer++) {
        if (dials(settings, peer, settings->rank))
            r = accept_one(settings, listener, deadline_ns, connections, err);
    }
    for (uint32_t peer = 0; peer < settings->world && r >= 0; peer++) {
        if (connections->dialled[peer] >= 0)
            r = tune(settings, connections->dialled[peer], err);
        if (r >= 0 && connections->accepted[peer] >= 0)
            r = tune(settings, connections->accepted[peer], err);
    }
    return r;
}

static int make_exchange(const struct settings *settings, struct trainer_exchange **ret_exchange,
                         struct mst_error *err)
{
    const uint32_t world = settings->world, rank = settings->rank;
    struct connections connections;

    int r = connect_all(settings, &connections, err);
    if (r < 0)
        return r;
    const int *prev = &connections.accepted[(rank + world - 1) % world];
    const int *next = &connections.dialled[(rank + 1) % world];
    if (world == 2) /* as the agent does */
        prev = next = rank == 0 ? next : prev;
    const struct trainer_ring_options ring = {.fd_prev = *prev,
                                              .fd_next = *next,
                                              .cancel_fd = -1,
                                              .rank = rank,
                                              .world = world,
                                              .timeout_ms = TIMEOUT_MS,
                                              .wire = settings->wire};
    for (uint32_t peer = 0; peer < world; peer++) {
        if (connections.dialled[peer] < 0)
            connections.dialled[peer] = connections.accepted[peer];
    }
    const struct trainer_direct_options direct = {.fds = connections.dialled,
                                                  .cancel_fd = -1,
                                                  .rank = rank,
                                                  .world = world,
                                                  .shards = world,
                                                  .timeout_ms = TIMEOUT_MS,
                                                  .wire = settings->wire};
    return settings->direct ? trainer_direct_new(&direct, ret_exchange, err)
                            : trainer_ring_new(&ring, ret_exchange, err);
}

/* ---- rounds ---------------------------------------------------------------------------------------------
 */

struct run {
    const struct settings *settings;
    struct trainer_exchange *exchange;
    uint64_t step;
    float *values;
    double *ms;
    uint32_t rounds;
    size_t wrong;
};

static int sum_small(struct run *run, float *values, size_t count, struct mst_error *err)
{
    return trainer_exchange_sum(run->exchange, run->step++, values, count, NULL, err);
}

/* Everybody waits for the slowest, then one sum is timed. Nobody looks at it, or fills the next vector,
 * before all have it: workers share CPUs, and who is ready first would take the others' time. */
static int time_round(struct run *run, size_t count, double *ret_ms, struct mst_error *err)
{
    const uint32_t world = run->settings->world;
    const float sum = (float)(world * (world + 1) / 2);
    float together = 0;

    for (size_t i = 0; i < count; i++)
        run->values[i] = (float)(run->settings->rank + 1);
    int r = sum_small(run, &together, 1, err);
    const uint64_t start_ns = mst_now_ns();
    if (r >= 0)
        r = trainer_exchange_sum(run->exchange, run->step++, run->values, count, NULL, err);
    *ret_ms = mst_ms_since(start_ns);
    if (r >= 0)
        r = sum_small(run, &together, 1, err);
    for (size_t i = 0; i < count && r >= 0; i++)
        run->wrong += run->values[i] != sum;
    return r;
}

/* By round, the slowest worker's time, in run->ms of all workers. */
static int find_slowest(struct run *run, struct mst_error *err)
{
    const uint32_t world = run->settings->world, rank = run->settings->rank;
    float ms[MAX_WORLD];

    for (uint32_t round = 0; round < run->rounds; round++) {
        for (uint32_t peer = 0; peer < world; peer++)
            ms[peer] = peer == rank ? (float)run->ms[round] : 0;
        const int r = sum_small(run, ms, world, err);
        if (r < 0)
            return r;
        for (uint32_t peer = 0; peer < world; peer++)
            run->ms[round] = (double)ms[peer] > run->ms[round] ? (double)ms[peer] : run->ms[round];
    }
    return 0;
}

/* The first rounds say how many there is time for; the average of all workers counts. */
static int plan_rounds(struct run *run, size_t count, struct mst_error *err)
{
    const double wanted_ms = 1000.0 * run->settings->seconds;
    double ms;
    float planned = 0;
    int r = 0;

    for (int i = 0; i < 2 && r >= 0; i++)
        r = time_round(run, count, &ms, err);
    if (r >= 0)
        planned = (float)(wanted_ms / (ms + 0.05));
    if (r >= 0)
        r = sum_small(run, &planned, 1, err);
    planned /= (float)run->settings->world;
    run->rounds = planned < MIN_ROUNDS ? MIN_ROUNDS : planned > MAX_ROUNDS ? MAX_ROUNDS : (uint32_t)planned;
    return r;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print(const struct run *run, size_t count, size_t wrong)
{
    const struct settings *settings = run->settings;
    const double median_ms = run->ms[run->rounds / 2];
    const double bytes = (double)count * 4 * 2 * (settings->world - 1) / settings->world;

    (void)printf("{\"bench\":\"%s\",\"wire\":\"%s\",\"world\":%" PRIu32 ",\"count\":%zu,\"rounds\":%" PRIu32
                 ",\"min_ms\":%.4f,\"median_ms\":%.4f,\"bus_mb_s\":%.1f,\"wrong\":%zu}\n",
                 settings->direct ? "direct" : "ring", settings->wire == TRAINER_WIRE_BF16 ? "bf16" : "f32",
                 settings->world, count, run->rounds, run->ms[0], median_ms,
                 median_ms > 0 ? bytes / 1e3 / median_ms : 0, wrong);
    (void)fflush(stdout);
}

static int run_count(struct run *run, size_t count, struct mst_error *err)
{
    float wrong;

    run->wrong = 0;
    int r = plan_rounds(run, count, err);
    for (uint32_t round = 0; round < run->rounds && r >= 0; round++)
        r = time_round(run, count, &run->ms[round], err);
    if (r >= 0)
        r = find_slowest(run, err);
    wrong = (float)(run->wrong > 1000000 ? 1000000 : run->wrong);
    if (r >= 0)
        r = sum_small(run, &wrong, 1, err);
    if (r < 0)
        return r;
    qsort(run->ms, run->rounds, sizeof *run->ms, compare_doubles);
    if (run->settings->rank == 0)
        print(run, count, (size_t)wrong);
    return wrong > 0
               ? mst_error_set(err, -EBADMSG, "%zu places of sums of %zu are wrong", (size_t)wrong, count)
               : 0;
}

static int run_all(const struct settings *settings, struct mst_error *err)
{
    size_t most = 1;
    for (size_t i = 0; i < settings->count_count; i++)
        most = settings->counts[i] > most ? settings->counts[i] : most;
    mst_cleanup(mst_freep) float *values = trainer_floats_new(most); /* as a training has them */
    trainer_floats_settle(values, most);
    mst_cleanup(mst_freep) double *ms = calloc(MAX_ROUNDS, sizeof *ms);
    struct run run = {.settings = settings, .values = values, .ms = ms};

    if (!values || !ms)
        return mst_error_set(err, -ENOMEM, "no memory for %zu floats", most);
    int r = make_exchange(settings, &run.exchange, err);
    for (size_t i = 0; i < settings->count_count && r >= 0; i++)
        r = run_count(&run, settings->counts[i], err);
    trainer_exchange_free(run.exchange);
    return r;
}

int main(int argc, char **argv)
{
    const struct mst_options options = {.program = "bench_exchange_node",
                                        .synopsis = "--rank I --addresses A,B,... [options]",
                                        .about = "Time sums between hosts: one of the workers.",
                                        .table = option_table,
                                        .count = MST_ARRAY_COUNT(option_table)};
    struct settings settings = {0};
    struct mst_error err = MST_ERROR_INIT;
    int operands;

    int r = mst_options_parse(&options, argc, argv, &settings, &operands, &err);
    if (r == 1)
        return 0;
    if (r >= 0 && settings.rank >= settings.world)
        r = mst_error_set(&err, -EINVAL, "there is no rank %" PRIu32 " of %" PRIu32 " addresses",
                          settings.rank, settings.world);
    if (r >= 0)
        r = run_all(&settings, &err);
    if (r < 0) {
        (void)fprintf(stderr, "bench_exchange_node: %s\n", err.text);
        return mst_exit_status(r);
    }
    return MST_EXIT_DONE;
}
