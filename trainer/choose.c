/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing an exchange: what each kind would add to a step, from what this view's machines and links do.
 *
 * All workers measure at the same time, for what they share (a link, a switch, the CPUs of one machine) is
 * shared in training, too. Blocks of growing size are gathered until a round is long enough to be told from
 * chance; then each worker times the products that factors would cost it. The slowest worker's figures count
 * for all, and rank 0's choice holds: rounding differs between machines, and all must do the same. */
#include "choose.h"

#include "dense.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "split.h"
#include "trainer_state.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ROUND_FLOATS 8192 /* that a worker sends in the first round */
#define MAX_ROUND_FLOATS   4194304
#define ROUND_MS           15.0 /* a longer round ends the measuring; twice that with those before it */
#define PRODUCT_MS         4.0  /* as long are products timed */
#define NAME_FLOATS        8    /* of a kernel's name */
#define NEARLY_AS_FAST     0.95 /* equal bits with any number of workers are worth so much */

/* What a worker tells the others; all floats, for they are gathered. */
struct figures {
    float round_ms;
    float products_ms; /* that factors add to a step; negative: they cannot be */
    float choice;
    float kernel[NAME_FLOATS];
};
#define FIGURE_FLOATS (sizeof(struct figures) / sizeof(float))

struct measuring {
    struct trainer *trainer;
    struct trainer_exchange *exchange;
    uint32_t number;         /* of the next gathering */
    struct figures *figures; /* by rank */
};

static int gather(struct measuring *measuring, float *values, size_t block_floats, struct mst_error *err)
{
    struct trainer_exchange *exchange = measuring->exchange;
    const struct trainer_gather request = {.step = EXCHANGE_FOR_COMPARISON,
                                           .number = measuring->number++ % EXCHANGE_GATHERS,
                                           .shards = exchange->world,
                                           .values = values,
                                           .block_floats = block_floats};
    struct trainer_exchange_stats ignored;

    int r = exchange_gather_begin(exchange, &request, err);
    if (r >= 0)
        r = exchange_gather_ready(exchange, exchange->rank, 0, block_floats, err);
    return r < 0 ? r : exchange_gather_finish(exchange, &ignored, err);
}

static int share(struct measuring *measuring, struct mst_error *err)
{
    return gather(measuring, (float *)measuring->figures, FIGURE_FLOATS, err);
}

static float slowest(const struct measuring *measuring, size_t figure)
{
    float most = 0;

    for (uint32_t rank = 0; rank < measuring->exchange->world; rank++) {
        const float own = ((const float *)&measuring->figures[rank])[figure];
        if (own < 0)
            return own;
        most = own > most ? own : most;
    }
    return most;
}

/* ---- links --------------------------------------------------------------------------------------------- */

static int time_links(struct measuring *measuring, struct trainer_choice *choice, struct mst_error *err)
{
    const uint32_t world = measuring->exchange->world, others = world - 1;
    struct figures *own = &measuring->figures[measuring->exchange->rank];
    size_t most = MAX_ROUND_FLOATS / others, floats = FIRST_ROUND_FLOATS / others + 1;
    if (most * world > MAX_ROUND_FLOATS * (size_t)2)
        most = MAX_ROUND_FLOATS * (size_t)2 / world;
    mst_cleanup(mst_freep) float *values = calloc((size_t)world * most, sizeof *values);

    if (!values)
        return mst_error_set(err, -ENOMEM, "no memory to measure the links");
    for (;; floats = floats * 2 < most ? floats * 2 : most) {
        const uint64_t start_ns = mst_now_ns();
        int r = gather(measuring, values, floats, err);
        own->round_ms = (float)mst_ms_since(start_ns);
        if (r >= 0)
            r = share(measuring, err);
        if (r < 0)
            return r;
        const double round_ms =
            (double)slowest(measuring, offsetof(struct figures, round_ms) / sizeof(float));
        choice->bytes_per_s = 1e3 * (double)(floats * others * sizeof(float)) / fmax(round_ms, 1e-3);
        if (round_ms >= ROUND_MS || floats == most)
            return 0;
    }
}

/* After a gathering all are about equally late, so that the next one shows nothing but the way. */
static int time_way(struct measuring *measuring, struct trainer_choice *choice, struct mst_error *err)
{
    const uint64_t start_ns = mst_now_ns();

    const int r = share(measuring, err);
    choice->latency_ms = mst_ms_since(start_ns);
    return r;
}

/* ---- products ------------------------------------------------------------------------------------------ */

static double time_forward(struct trainer *trainer, size_t layer)
{
    const struct trainer_pass pass = {.batch = trainer->config.batch};
    const uint64_t start_ns = mst_now_ns();

    trainer_network_forward_layers(&trainer->network, trainer->parameters[trainer->current], &pass, 0, layer);
    return mst_ms_since(start_ns);
}

/* Tiles of the weight's gradient, into the gradient's own memory: nothing there is of use between steps. */
static double time_weight(struct trainer *trainer, size_t number, double *ret_flops)
{
    const struct trainer_layer *layer = &trainer->config.model->layers[number];
    const size_t in = layer->in.dims[0], out = layer->out.dims[0], batch = trainer->config.batch;
    const size_t tile = trainer_dense_tile_rows(layer);
    const float *x = trainer_network_input(&trainer->network, number);
    const float *dy = trainer_network_gradient(&trainer->network, number);
    size_t rows_done = 0, first = 0;
    const uint64_t start_ns = mst_now_ns();
    double ms;

    do {
        const size_t rows = in - first < tile ? in - first : tile;
        trainer_dense_weight_gradient(layer, batch, first, rows, x, dy, 0.0f, trainer->gradients[0]);
        rows_done += rows;
        first = first + rows < in ? first + rows : 0;
        ms = mst_ms_since(start_ns);
    } while (ms < PRODUCT_MS);
    *ret_flops = 2e3 * (double)rows_done * (double)out * (double)batch / ms;
    return ms * (double)in / (double)rows_done;
}

/* What one more shard costs a worker that has to rebuild its gradient; negative when the model does not allow
 * that. */
static double time_products(struct trainer *trainer, struct trainer_choice *choice)
{
    double flops;
    size_t layer;

    if (trainer_split_find(trainer->config.model, "factors", &layer, NULL) < 0)
        return -1;
    (void)time_forward(trainer, layer); /* the first one also fetches memory */
    (void)time_weight(trainer, layer, &flops);
    const double forward_ms = time_forward(trainer, layer);
    const double weight_ms = time_weight(trainer, layer, &flops);
    choice->flops = flops;
    return forward_ms + weight_ms;
}

/* ---- the choice ---------------------------------------------------------------------------------------- */

static bool same_kernels(const struct measuring *measuring)
{
    for (uint32_t rank = 1; rank < measuring->exchange->world; rank++) {
        if (memcmp(measuring->figures[rank].kernel, measuring->figures[0].kernel,
                   sizeof measuring->figures[0].kernel) != 0)
            return false;
    }
    return true;
}

void trainer_choose_estimate(const struct trainer_config *config, uint32_t world, double shard_ms,
                             struct trainer_choice *choice)
{
    const double others = (double)(world - 1), per_ms = choice->bytes_per_s / 1e3;
    const double bytes = (double)config->model->parameters * sizeof(float), share = others / (double)world;
    const double most = ceil((double)config->shards / (double)world); /* shards of one worker */
    const double least = floor((double)config->shards / (double)world);
    size_t layer;

    choice->step_ms[TRAINER_RING] = 2 * share * bytes / per_ms + 2 * others * choice->latency_ms;
    choice->step_ms[TRAINER_DIRECT] = (most + 1) * share * bytes / per_ms + 2 * choice->latency_ms;
    choice->step_ms[TRAINER_BY_FACTORS] = -1;
    if (shard_ms < 0 || !choice->same_kernels ||
        trainer_split_find(config->model, "factors", &layer, NULL) < 0)
        return;
    const struct trainer_layer *dense = &config->model->layers[layer];
    const double weight = (double)trainer_shape_elements(&dense->tensors[0].shape) * sizeof(float);
    const double dy = (double)config->batch * (double)dense->out.dims[0] * sizeof(float);
    choice->step_ms[TRAINER_BY_FACTORS] = most * others * (bytes - weight + dy) / per_ms +
                                          2 * choice->latency_ms +
                                          ((double)config->shards - least) * shard_ms;
}

enum trainer_kind trainer_choose_best(const struct trainer_choice *choice)
{
    const double *ms = choice->step_ms;
    enum trainer_kind kind = TRAINER_DIRECT;

    if (ms[TRAINER_RING] < NEARLY_AS_FAST * ms[TRAINER_DIRECT])
        kind = TRAINER_RING;
    if (ms[TRAINER_BY_FACTORS] >= 0 && ms[TRAINER_BY_FACTORS] < ms[kind])
        kind = TRAINER_BY_FACTORS;
    return kind;
}

static int measure(struct measuring *measuring, struct trainer_choice *choice, struct mst_error *err)
{
    struct figures *own = &measuring->figures[measuring->exchange->rank];

    int r = share(measuring, err); /* all have come: nobody measures how late another is */
    if (r >= 0)
        r = time_links(measuring, choice, err);
    if (r >= 0)
        r = time_way(measuring, choice, err);
    if (r < 0)
        return r;
    choice->same_kernels = same_kernels(measuring);
    own->products_ms = (float)time_products(measuring->trainer, choice);
    r = share(measuring, err);
    if (r < 0)
        return r;
    const double shard_ms = (double)slowest(measuring, offsetof(struct figures, products_ms) / sizeof(float));
    trainer_choose_estimate(&measuring->trainer->config, measuring->exchange->world, shard_ms, choice);
    own->choice = (float)trainer_choose_best(choice);
    r = share(measuring, err);
    if (r < 0)
        return r;
    const float chosen = measuring->figures[0].choice;
    if (!(chosen >= 0 && chosen < TRAINER_KINDS))
        return mst_error_set(err, -EPROTO, "rank 0 chose exchange %g, which there is not", (double)chosen);
    choice->kind = (enum trainer_kind)chosen;
    return 0;
}

static int begin(struct measuring *measuring, struct trainer *trainer, struct trainer_exchange *exchange,
                 struct mst_error *err)
{
    *measuring = (struct measuring){.trainer = trainer, .exchange = exchange};
    measuring->figures = calloc(exchange->world, sizeof *measuring->figures);
    if (!measuring->figures)
        return mst_error_set(err, -ENOMEM, "no memory for the figures of %" PRIu32 " workers",
                             exchange->world);
    char *name = (char *)measuring->figures[exchange->rank].kernel;
    (void)snprintf(name, sizeof measuring->figures[0].kernel, "%s", trainer_kernel_name());
    return 0;
}

int trainer_choose(struct trainer *trainer, struct trainer_exchange *exchange,
                   struct trainer_choice *ret_choice, struct mst_error *err)
{
    const uint64_t start_ns = mst_now_ns();
    struct trainer_choice choice = {.kind = TRAINER_DIRECT, .same_kernels = true};
    struct measuring measuring;

    if (exchange->world > 1) {
        int r = begin(&measuring, trainer, exchange, err);
        if (r >= 0)
            r = measure(&measuring, &choice, err);
        free(measuring.figures);
        if (r < 0)
            return mst_error_wrap(err, r, "choose an exchange");
    }
    choice.ms = mst_ms_since(start_ns);
    *ret_choice = choice;
    return 0;
}

int trainer_compare_kernels(struct trainer_exchange *exchange, struct mst_error *err)
{
    struct measuring measuring;

    int r = begin(&measuring, NULL, exchange, err);
    if (r >= 0)
        r = share(&measuring, err);
    for (uint32_t rank = 0; r >= 0 && rank < exchange->world; rank++) {
        const char *name = (const char *)measuring.figures[rank].kernel;
        if (strncmp(name, trainer_kernel_name(), sizeof measuring.figures[rank].kernel - 1) != 0)
            r = mst_error_set(
                err, -EXDEV,
                "the worker of rank %" PRIu32 " computes with kernel '%.31s', this one "
                "with '%s', and their results differ in the last bits: set OPENBLAS_CORETYPE to "
                "one that all have (Haswell, say)",
                rank, name, trainer_kernel_name());
    }
    free(measuring.figures);
    return r;
}
