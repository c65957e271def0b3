/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient of a dense layer's weight is x^T dy: of in x out floats, though its two factors have only
 * samples x (in + out). So factors travel instead (sufficient factor broadcasting: Xie et al., Distributed
 * Machine Learning via Sufficient Factor Broadcasting, UAI 2016), and of those only dy: x is a function of
 * the sample and of the parameters before the layer, which all workers have, and which sample it is follows
 * from seed, step and shard (order.h). A step is
 *
 *     own shards: forward, backward down to dy -> first gathering; the rest of backward, whose gradients are
 *         small -> second gathering
 *     the others' shards: forward up to x, while the first is under way
 *     x^T dy over all samples, in the order of shards, tile by tile, each with its update, while the second
 * is the small gradients, added in the order of shards
 *
 * All workers do the last two alike, with the same numbers in the same order: the same shards give the same
 * bits, whoever has which and however many workers there are. That takes the same arithmetic in all of them,
 * down to the kernel that OpenBLAS chose (trainer_kernel_name()). */
#include "factors.h"

#include "arena.h"
#include "dense.h"
#include "kernels.h"
#include "muster/cleanup.h"
#include "split.h"
#include "trainer_state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct trainer_factors {
    size_t layer;           /* the dense one */
    size_t in, out;         /* of it */
    size_t first, end;      /* its weight's place among the parameters */
    float *x, *dy;          /* of all samples of a step, by shard */
    float *small;           /* all other gradients and the tail, by shard */
    size_t small_floats;    /* a shard */
    float *home;            /* where the network has the layer's input otherwise */
    struct mst_error fault; /* of an exchange under way, kept while the arithmetic goes on; code 0: none */
};

void trainer_factors_free(struct trainer_factors *factors)
{
    if (!factors)
        return;
    free(factors->x);
    free(factors->dy);
    free(factors->small);
    free(factors);
}

int trainer_factors_new(const struct trainer *trainer, struct trainer_factors **ret_factors,
                        struct mst_error *err)
{
    const struct trainer_model *model = trainer->config.model;
    const size_t samples = (size_t)trainer->config.shards * trainer->config.batch;
    size_t number;

    int r = trainer_split_find(model, "factors", &number, err);
    if (r < 0)
        return r;
    const struct trainer_layer *layer = &model->layers[number];
    const struct trainer_tensor *weight = &layer->tensors[0];
    const size_t weights = trainer_shape_elements(&weight->shape);
    struct trainer_factors *factors = calloc(1, sizeof *factors);
    if (!factors)
        return mst_error_set(err, -ENOMEM, "no memory for an exchange of factors");
    *factors = (struct trainer_factors){
        .layer = number,
        .in = layer->in.dims[0],
        .out = layer->out.dims[0],
        .first = weight->offset,
        .end = weight->offset + weights,
        .small_floats = trainer->count - weights + TRAINER_TAIL_FLOATS,
    };
    factors->x = trainer_floats_new(samples * factors->in);
    factors->dy = trainer_floats_new(samples * factors->out);
    factors->small = trainer_floats_new(trainer->config.shards * factors->small_floats);
    if (!factors->x || !factors->dy || !factors->small) {
        trainer_factors_free(factors);
        return mst_error_set(err, -ENOMEM,
                             "no memory for the factors of %zu samples: %zu + %zu floats each, layer '%s'",
                             samples, layer->in.dims[0], layer->out.dims[0], layer->name);
    }
    *ret_factors = factors;
    return 0;
}

void trainer_factors_settle(struct trainer_factors *factors, const struct trainer *trainer)
{
    const size_t samples = (size_t)trainer->config.shards * trainer->config.batch;

    trainer_floats_settle(factors->x, samples * factors->in);
    trainer_floats_settle(factors->dy, samples * factors->out);
}

/* ---- own shards ---------------------------------------------------------------------------------------- */

static void pack(const struct trainer_factors *factors, const struct trainer *trainer, uint32_t shard)
{
    const float *gradients = trainer->gradients[0];
    float *to = factors->small + shard * factors->small_floats;
    const size_t behind = trainer->count + TRAINER_TAIL_FLOATS - factors->end;

    memcpy(to, gradients, factors->first * sizeof *to);
    memcpy(to + factors->first, gradients + factors->end, behind * sizeof *to);
}

/* Say that a shard's part is there. The arithmetic cannot stop half-way: an error is kept for after it. */
static void ready(struct trainer_factors *factors, const struct trainer *trainer, uint32_t shard,
                  size_t count)
{
    if (trainer->exchange && factors->fault.code == 0)
        (void)exchange_gather_ready(trainer->exchange, shard, 0, count, &factors->fault);
}

static float *place_of(const struct trainer_factors *factors, const struct trainer *trainer, uint32_t shard,
                       float *all, size_t floats)
{
    (void)factors;
    return all + (size_t)shard * trainer->config.batch * floats;
}

static void run_own(struct trainer_factors *factors, struct trainer *trainer, uint32_t shard, bool pause)
{
    struct trainer_network *network = &trainer->network;
    const struct trainer_model *model = network->model;
    const struct trainer_layer *layer = &model->layers[factors->layer];
    const float *params = trainer->parameters[trainer->current];
    const struct trainer_pass pass = trainer_shard_pass(trainer, shard, trainer->keys);
    float *gradients = trainer->gradients[0], *dy = trainer_network_gradient(network, factors->layer);

    trainer_network_place_input(network, factors->layer,
                                place_of(factors, trainer, shard, factors->x, factors->in));
    trainer_load_shard(trainer, shard, network->input, trainer->labels);
    trainer_network_forward_layers(network, params, &pass, 0, model->layer_count);
    const struct trainer_loss loss = trainer_shard_loss(
        trainer, trainer_network_input(network, model->layer_count), network->gradients[0]);
    trainer_fill_tail(gradients + trainer->count, &loss, pause);
    trainer_network_backward_layers(network, params, &pass, factors->layer + 1, model->layer_count,
                                    gradients);
    trainer_dense_mask(layer, pass.batch, network->outputs[factors->layer], dy);
    memcpy(place_of(factors, trainer, shard, factors->dy, factors->out), dy,
           pass.batch * factors->out * sizeof *dy);
    ready(factors, trainer, shard, pass.batch * factors->out);

    trainer_dense_bias_gradient(layer, &pass, dy, gradients);
    if (factors->layer > trainer_network_first_trained(model))
        trainer_dense_input_gradient(layer, pass.batch, 0, layer->in.dims[0], params, dy,
                                     trainer_network_gradient(network, factors->layer - 1));
    trainer_network_backward_layers(network, params, &pass, 0, factors->layer, gradients);
    pack(factors, trainer, shard);
}

/* ---- the others' shards, and what is made of all ------------------------------------------------------- */

static void rebuild_input(const struct trainer_factors *factors, struct trainer *trainer, uint32_t shard)
{
    struct trainer_network *network = &trainer->network;
    const struct trainer_pass pass = trainer_shard_pass(trainer, shard, trainer->keys);

    trainer_network_place_input(network, factors->layer,
                                place_of(factors, trainer, shard, factors->x, factors->in));
    trainer_load_shard(trainer, shard, network->input, trainer->labels);
    trainer_network_forward_layers(network, trainer->parameters[trainer->current], &pass, 0, factors->layer);
}

static void make_weight(const struct trainer_factors *factors, struct trainer *trainer)
{
    const struct trainer_layer *layer = &trainer->config.model->layers[factors->layer];
    const size_t samples = (size_t)trainer->config.shards * trainer->config.batch;
    const size_t tile = trainer_dense_tile_rows(layer);

    for (size_t first = 0; first < factors->in; first += tile) {
        const size_t rows = factors->in - first < tile ? factors->in - first : tile;
        trainer_dense_weight_gradient(layer, samples, first, rows, factors->x, factors->dy, 0.0f,
                                      trainer->gradients[0]);
        trainer_landed(trainer, factors->first + first * factors->out, rows * factors->out);
    }
}

static void add_small(const struct trainer_factors *factors, struct trainer *trainer)
{
    const size_t behind = trainer->count + TRAINER_TAIL_FLOATS - factors->end;
    float *before = trainer->gradients[0], *after = before + factors->end;

    for (uint32_t shard = 0; shard < trainer->config.shards; shard++) {
        const float *from = factors->small + shard * factors->small_floats;
        (shard == 0 ? kernel_add_to_zero : kernel_add)(factors->first, from, before);
        (shard == 0 ? kernel_add_to_zero : kernel_add)(behind, from + factors->first, after);
    }
    trainer_landed(trainer, 0, factors->first);
    trainer_landed(trainer, factors->end, behind);
}

/* ---- a step -------------------------------------------------------------------------------------------- */

static int begin(struct trainer *trainer, uint32_t number, float *values, size_t block_floats,
                 struct mst_error *err)
{
    const struct trainer_gather gather = {.step = trainer->step,
                                          .number = number,
                                          .values = values,
                                          .block_floats = block_floats,
                                          .shards = trainer->config.shards};

    return trainer->exchange ? exchange_gather_begin(trainer->exchange, &gather, err) : 0;
}

static int finish(struct trainer_factors *factors, struct trainer *trainer,
                  struct trainer_exchange_stats *stats, struct mst_error *err)
{
    struct trainer_exchange_stats own = {0};

    if (factors->fault.code < 0)
        return mst_error_set(err, factors->fault.code, "%s", factors->fault.text);
    const int r = trainer->exchange ? exchange_gather_finish(trainer->exchange, &own, err) : 0;
    if (r < 0)
        return r;
    exchange_stats_add(stats, &own);
    return 0;
}

static int run(struct trainer_factors *factors, struct trainer *trainer, bool pause,
               struct trainer_exchange_stats *stats, struct mst_error *err)
{
    const uint32_t shards = trainer->config.shards;

    int r = begin(trainer, 0, factors->dy, trainer->config.batch * factors->out, err);
    if (r < 0)
        return r;
    for (uint32_t shard = trainer->rank; shard < shards; shard += trainer->world)
        run_own(factors, trainer, shard, pause);
    for (uint32_t shard = 0; shard < shards; shard++) {
        if (shard % trainer->world != trainer->rank)
            rebuild_input(factors, trainer, shard);
    }
    r = finish(factors, trainer, stats, err);
    if (r >= 0)
        r = begin(trainer, 1, factors->small, factors->small_floats, err);
    if (r < 0)
        return r;
    for (uint32_t shard = trainer->rank; shard < shards; shard += trainer->world)
        ready(factors, trainer, shard, factors->small_floats);
    make_weight(factors, trainer);
    r = finish(factors, trainer, stats, err);
    if (r >= 0)
        add_small(factors, trainer);
    return r;
}

int trainer_factors_run(struct trainer_factors *factors, struct trainer *trainer, bool pause,
                        struct trainer_exchange_stats *ret_stats, struct mst_error *err)
{
    struct trainer_exchange_stats stats = {0};

    factors->fault = (struct mst_error)MST_ERROR_INIT;
    factors->home = trainer_network_input(&trainer->network, factors->layer);
    const int r = run(factors, trainer, pause, &stats, err);
    trainer_network_place_input(&trainer->network, factors->layer, factors->home);
    if (r >= 0)
        *ret_stats = stats;
    return r;
}
