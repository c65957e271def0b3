/* SPDX-License-Identifier: Apache-2.0 */
/* How the workers of a view exchange what they compute: over the view's connections, as `--exchange` says. */
#include "muster/cleanup.h"
#include "muster/log.h"
#include "muster/net.h"
#include "report.h"
#include "train_private.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define EXCHANGE_TIMEOUT_MS                                                                                  \
    10000 /* a peer that is gone is told by the mesh long before; this is the last resort */

static const char *const kind_names[TRAINER_KINDS] = {
    [TRAINER_RING] = "ring", [TRAINER_DIRECT] = "direct", [TRAINER_BY_FACTORS] = "factors"};

static int new_ring(struct train *train, const struct job_view *view, int fd_prev, int fd_next,
                    struct mst_error *err)
{
    const struct trainer_ring_options options = {
        .fd_prev = fd_prev,
        .fd_next = fd_next,
        .cancel_fd = view->cancel_fd,
        .rank = view->rank,
        .world = view->world,
        .timeout_ms = EXCHANGE_TIMEOUT_MS,
        .view = (uint32_t)view->view,
        .job_key = view->key,
        .wire = train->site.config->bf16 ? TRAINER_WIRE_BF16 : TRAINER_WIRE_F32,
    };
    return trainer_ring_new(&options, &train->exchange, err);
}

/* Two workers use one of their two connections both ways: acknowledgements ride on what comes back. */
static int connect_ring(struct train *train, struct job_view *view, struct mst_error *err)
{
    int *next = &view->fds_out[(view->rank + 1) % view->world];
    int *previous = &view->fds_in[(view->rank + view->world - 1) % view->world];
    if (view->world == 1)
        return 0;
    if (view->world == 2)
        previous = next = view->rank == 0 ? next : previous;
    const int r = new_ring(train, view, *previous, *next, err);
    if (r == 0)
        *previous = *next = -1;
    return r;
}

static int connect_direct(struct train *train, struct job_view *view, struct mst_error *err)
{
    const struct trainer_direct_options options = {
        .fds = view->fds_out,
        .cancel_fd = view->cancel_fd,
        .rank = view->rank,
        .world = view->world,
        .shards = train->config.shards,
        .timeout_ms = EXCHANGE_TIMEOUT_MS,
        .view = (uint32_t)view->view,
        .job_key = view->key,
        .wire = train->site.config->bf16 ? TRAINER_WIRE_BF16 : TRAINER_WIRE_F32,
    };
    return trainer_direct_new(&options, &train->exchange, err);
}

static void take_all(struct job_view *view)
{
    for (uint32_t rank = 0; rank < view->world; rank++)
        view->fds_out[rank] = -1;
}

/* A ring over two of the mesh's connections, which go both ways. Nothing is under way on them: what was
 * measured has ended for all. The mesh's own descriptors are closed with it. */
static int change_to_ring(struct train *train, struct job_view *view, const int *fds, struct mst_error *err)
{
    mst_cleanup(mst_closep) int prev =
        fcntl(fds[(view->rank + view->world - 1) % view->world], F_DUPFD_CLOEXEC, 0);
    mst_cleanup(mst_closep) int next = fcntl(fds[(view->rank + 1) % view->world], F_DUPFD_CLOEXEC, 0);
    if (prev < 0 || next < 0)
        return mst_error_errno(err, -errno, "keep two connections for a ring");
    trainer_exchange_free(train->exchange);
    train->exchange = NULL;
    const int r = new_ring(train, view, prev, next, err);
    if (r == 0)
        prev = next = -1;
    return r;
}

static void report_choice(struct train *train, const struct trainer_choice *choice)
{
    const double mbit = choice->bytes_per_s * 8 / 1e6;
    struct report report = report_begin(train->events, "exchange");
    report_text(&report, "kind", kind_names[choice->kind]);
    report_number(&report, "mbit_per_s", mbit);
    report_number(&report, "latency_ms", choice->latency_ms);
    report_number(&report, "gflop_per_s", choice->flops / 1e9);
    report_bool(&report, "same_kernels", choice->same_kernels);
    for (int kind = 0; kind < TRAINER_KINDS; kind++) {
        char key[16];
        (void)snprintf(key, sizeof key, "%s_ms", kind_names[kind]);
        if (choice->step_ms[kind] >= 0)
            report_number(&report, key, choice->step_ms[kind]);
    }
    report_number(&report, "ms", choice->ms);
    report_send(&report);
    if (choice->step_ms[TRAINER_BY_FACTORS] < 0)
        mst_log_info(
            "train",
            "exchange '%s': %.0f Mbit/s a worker, a step would take another %.1f ms by ring and %.1f by "
            "direct; by factors it cannot be",
            kind_names[choice->kind], mbit, choice->step_ms[TRAINER_RING], choice->step_ms[TRAINER_DIRECT]);
    else
        mst_log_info(
            "train",
            "exchange '%s': %.0f Mbit/s a worker, a step would take another %.1f ms by ring, %.1f by "
            "direct and %.1f by factors",
            kind_names[choice->kind], mbit, choice->step_ms[TRAINER_RING], choice->step_ms[TRAINER_DIRECT],
            choice->step_ms[TRAINER_BY_FACTORS]);
}

static int choose(struct train *train, struct job_view *view, const int *fds, struct mst_error *err)
{
    struct trainer_choice choice;
    int r = trainer_choose(train->trainer, train->exchange, &choice, err);
    if (r < 0 || view->world == 1)
        return r;
    report_choice(train, &choice);
    if (choice.kind == TRAINER_BY_FACTORS)
        r = trainer_set_method(train->trainer, TRAINER_FACTORS, err);
    else if (choice.kind == TRAINER_RING)
        r = change_to_ring(train, view, fds, err);
    return r;
}

/* What an operator must know before something is lost. */
static void report_sharded(struct train *train, const struct job_view *view)
{
    const uint32_t asked = train->site.config->checkpoint_steps;
    const uint32_t every = asked > 0 ? asked : train->config.steps_per_epoch;
    struct report report = report_begin(train->events, "exchange");
    report_text(&report, "kind", "sharded");
    report_number(&report, "gather_steps", every);
    report_send(&report);
    if (view->world > 1)
        mst_log_info(
            "train",
            "exchange 'sharded': the largest dense layer is split over the workers, and gathered every "
            "%" PRIu32 " steps; when a worker is lost, training goes on from there",
            every);
}

/* On a socket of its own: only the kernel knows what it has, and whom it lets choose. */
int train_check_congestion(const struct agent_config *config, struct mst_error *err)
{
    if (!config->congestion)
        return 0;
    mst_cleanup(mst_closep) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return mst_error_errno(err, -errno, "ask for TCP's congestion control: make a socket");
    if (mst_tcp_set_congestion(fd, config->congestion, err) < 0)
        return mst_error_wrap(err, -EINVAL, "option '--congestion'");
    return 0;
}

/* Of both kinds of connections: in a mesh one carries both directions. */
static int set_congestion(const struct train *train, const struct job_view *view, struct mst_error *err)
{
    const char *name = train->site.config->congestion;
    int r = 0;
    for (uint32_t rank = 0; name && rank < view->world && r == 0; rank++) {
        if (view->fds_out[rank] >= 0)
            r = mst_tcp_set_congestion(view->fds_out[rank], name, err);
        if (view->fds_in[rank] >= 0 && r == 0)
            r = mst_tcp_set_congestion(view->fds_in[rank], name, err);
    }
    return r;
}

int train_connect(struct train *train, struct job_view *view, struct mst_error *err)
{
    const enum config_exchange exchange = train->site.config->exchange;
    mst_cleanup(mst_freep) int *fds = NULL;
    int r = set_congestion(train, view, err);
    if (r == 0)
        r = trainer_set_method(train->trainer, train_method(train->site.config), err);
    if (r < 0)
        return r;
    if (exchange == CONFIG_EXCHANGE_RING)
        return connect_ring(train, view, err);
    fds = calloc(view->world, sizeof *fds);
    if (!fds)
        return mst_error_set(err, -ENOMEM, "no memory for the connections of %" PRIu32 " workers",
                             view->world);
    memcpy(fds, view->fds_out, view->world * sizeof *fds);
    r = connect_direct(train, view, err);
    if (r < 0)
        return r;
    take_all(view);
    if (exchange == CONFIG_EXCHANGE_SHARDED)
        report_sharded(train, view);
    if (exchange == CONFIG_EXCHANGE_AUTO)
        return choose(train, view, fds, err);
    return train_method(train->site.config) == TRAINER_SUM ? 0
                                                           : trainer_compare_kernels(train->exchange, err);
}

enum trainer_method train_method(const struct agent_config *config)
{
    switch (config->exchange) {
    case CONFIG_EXCHANGE_FACTORS:
        return TRAINER_FACTORS;
    case CONFIG_EXCHANGE_SHARDED:
        return TRAINER_SHARDED;
    default:
        return TRAINER_SUM;
    }
}
