/* SPDX-License-Identifier: Apache-2.0 */
/* Splitting the largest dense layer: "one weird trick" (Krizhevsky, arXiv:1404.5997, 2014), with the layer's
 * inputs cut as well as the layer. Each worker has some channels of the layer before, and the rows of the
 * weight that those channels feed, and passes the samples of all shards through them. Its product is a
 * summand of the layer's output, of which there are only samples x out: that is what is summed over the
 * workers. All go on from the sum alike, through what is left of the model, and back down each to its own
 * channels: neither the large gradient nor the inputs ever travel, and no product is computed twice.
 *
 * A share is a model of its own (split.h), run by a trainer of its own: one that takes the batches of all
 * shards for one. The trainer outside keeps the whole parameters as they were gathered last; they are what is
 * saved, tested and compared, and what is left when a worker is lost. */
#include "sharded.h"

#include "arena.h"
#include "dense.h"
#include "kernels.h"
#include "muster/cleanup.h"
#include "split.h"
#include "trainer_state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct trainer_sharded {
    struct trainer_split split;
    struct trainer *share;
    float *product;        /* samples x out of the dense layer, and the wish to pause */
    size_t product_floats; /* without that */
    size_t block_floats;   /* of the largest share, packed */
    float *blocks;         /* one for each worker */
    uint64_t *keys;        /* of all samples, see struct trainer_pass */
    uint64_t gathered;     /* the trainer's parameters are after so many steps */
    bool taken;            /* the share's are from there, or from steps since */
};

void trainer_sharded_free(struct trainer_sharded *sharded)
{
    if (!sharded)
        return;
    trainer_free(sharded->share);
    trainer_split_free(&sharded->split);
    free(sharded->product);
    free(sharded->blocks);
    free(sharded->keys);
    free(sharded);
}

static void trainer_sharded_freep(struct trainer_sharded **sharded)
{
    trainer_sharded_free(*sharded);
}

/* Rank 0 of as many workers as there are has the fewest channels, the last one the most. */
static int find_block(const struct trainer *trainer, size_t *ret_floats, struct mst_error *err)
{
    struct trainer_split last = {0};

    const int r = trainer_split_share(trainer->config.model, trainer->world - 1, trainer->world, &last, err);
    if (r >= 0)
        *ret_floats = trainer_split_floats(&last) * (1 + trainer->state_count);
    trainer_split_free(&last);
    return r;
}

static int allocate(struct trainer_sharded *sharded, const struct trainer *trainer, struct mst_error *err)
{
    struct trainer_config config = trainer->config;

    config.model = sharded->split.model;
    config.batch = trainer->config.batch * trainer->config.shards;
    config.shards = 1;
    config.test = NULL;
    int r = trainer_new(&config, &sharded->share, err);
    if (r < 0)
        return mst_error_wrap(err, r, "a share that takes the samples of all %" PRIu32 " shards",
                              trainer->config.shards);
    r = find_block(trainer, &sharded->block_floats, err);
    if (r < 0)
        return r;
    const struct trainer_layer *dense = &sharded->split.model->layers[sharded->split.dense];
    sharded->product_floats = (size_t)config.batch * dense->out.dims[0];
    sharded->product = trainer_floats_new(sharded->product_floats + 1);
    sharded->blocks = trainer_floats_new(sharded->block_floats * trainer->world);
    sharded->keys = calloc(config.batch, sizeof *sharded->keys);
    if (!sharded->product || !sharded->blocks || !sharded->keys)
        return mst_error_set(err, -ENOMEM, "no memory for a share of model '%s'", config.model->name);
    return 0;
}

int trainer_sharded_new(const struct trainer *trainer, struct trainer_sharded **ret_sharded,
                        struct mst_error *err)
{
    mst_cleanup(trainer_sharded_freep) struct trainer_sharded *sharded = NULL;

    if (trainer->config.rule.clip_norm > 0)
        return mst_error_set(
            err, -EINVAL,
            "the exchange 'sharded' has no gradient in one place whose norm could be clipped: "
            "take 'factors' or 'direct'");
    sharded = calloc(1, sizeof *sharded);
    if (!sharded)
        return mst_error_set(err, -ENOMEM, "no memory for a share");
    int r = trainer_split_share(trainer->config.model, trainer->rank, trainer->world, &sharded->split, err);
    if (r >= 0)
        r = allocate(sharded, trainer, err);
    if (r < 0)
        return r;
    *ret_sharded = sharded;
    sharded = NULL;
    return 0;
}

void trainer_sharded_settle(struct trainer_sharded *sharded)
{
    trainer_settle(sharded->share);
}

/* Array `number` of a trainer's state: its parameters, or one of the optimizer's. `next`: the one that a step
 * would write. */
static float *array_of(const struct trainer *trainer, size_t number, bool next)
{
    const size_t arena = next ? 1 - trainer->current : trainer->current;

    return number == 0 ? trainer->parameters[arena] : trainer->states[arena][number - 1];
}

static void take(struct trainer_sharded *sharded, const struct trainer *trainer)
{
    for (size_t a = 0; a <= trainer->state_count; a++)
        trainer_split_take(&sharded->split, trainer->config.model, array_of(trainer, a, false),
                           array_of(sharded->share, a, false));
    sharded->share->step = sharded->gathered = trainer->step;
    sharded->taken = true;
}

/* ---- a step -------------------------------------------------------------------------------------------- */

static int sum(struct trainer *trainer, uint64_t purpose, float *values, size_t count,
               struct trainer_exchange_stats *stats, struct mst_error *err)
{
    struct trainer_exchange_stats own = {0};

    if (!trainer->exchange)
        return 0;
    const int r = trainer_exchange_sum(trainer->exchange, trainer->step | purpose, values, count, &own, err);
    if (r < 0)
        return r;
    exchange_stats_add(stats, &own);
    return 0;
}

/* The samples of all shards, one behind the other, and how the layers are to take them. */
static struct trainer_pass load(const struct trainer_sharded *sharded, struct trainer *trainer)
{
    struct trainer *share = sharded->share;
    const size_t batch = trainer->config.batch,
                 sample = trainer_shape_elements(&trainer->config.model->input);
    const size_t targets = trainer_dataset_target_size(trainer->config.train);
    struct trainer_pass pass = {0};

    for (uint32_t shard = 0; shard < trainer->config.shards; shard++) {
        trainer_load_shard(trainer, shard, share->network.input + shard * batch * sample,
                           share->labels + shard * batch);
        if (trainer->targets)
            memcpy(share->targets + shard * batch * targets, trainer->targets,
                   batch * targets * sizeof *trainer->targets);
        pass = trainer_shard_pass(trainer, shard, sharded->keys + shard * batch);
    }
    pass.batch = share->config.batch;
    pass.keys = sharded->keys;
    return pass;
}

/* Up to the dense layer, and the sum of all shares' products. */
static int multiply(struct trainer_sharded *sharded, struct trainer *trainer, const struct trainer_pass *pass,
                    bool pause, struct trainer_exchange_stats *stats, struct mst_error *err)
{
    struct trainer *share = sharded->share;
    const size_t dense = sharded->split.dense;
    const struct trainer_layer *layer = &share->config.model->layers[dense];
    const float *params = share->parameters[share->current];

    trainer_network_forward_layers(&share->network, params, pass, 0, dense);
    trainer_dense_product(layer, pass->batch, params, trainer_network_input(&share->network, dense),
                          sharded->product);
    sharded->product[sharded->product_floats] = pause ? 1.0f : 0.0f;
    const int r =
        sum(trainer, EXCHANGE_FOR_GRADIENTS, sharded->product, sharded->product_floats + 1, stats, err);
    if (r < 0)
        return r;
    float *y = share->network.outputs[dense];
    memcpy(y, sharded->product, sharded->product_floats * sizeof *y);
    trainer_dense_activate(layer, pass->batch, params, y);
    return 0;
}

/* Back down, with each tile of the weight updated as soon as it is known. */
static void go_back(struct trainer_sharded *sharded, const struct trainer_pass *pass)
{
    struct trainer *share = sharded->share;
    struct trainer_network *network = &share->network;
    const struct trainer_model *model = share->config.model;
    const size_t dense = sharded->split.dense;
    const struct trainer_layer *layer = &model->layers[dense];
    const size_t in = layer->in.dims[0], out = layer->out.dims[0], tile = trainer_dense_tile_rows(layer);
    const float *params = share->parameters[share->current], *x = trainer_network_input(network, dense);
    float *gradients = share->gradients[0], *dy = trainer_network_gradient(network, dense);

    trainer_network_backward_layers(network, params, pass, dense + 1, model->layer_count, gradients);
    trainer_dense_mask(layer, pass->batch, network->outputs[dense], dy);
    trainer_dense_bias_gradient(layer, pass, dy, gradients);
    for (size_t first = 0; first < in; first += tile) {
        const size_t rows = in - first < tile ? in - first : tile;
        trainer_dense_weight_gradient(layer, pass->batch, first, rows, x, dy, 0.0f, gradients);
        trainer_landed(share, layer->tensors[0].offset + first * out, rows * out);
    }
    trainer_dense_input_gradient(layer, pass->batch, 0, layer->in.dims[0], params, dy,
                                 trainer_network_gradient(network, dense - 1));
    trainer_network_backward_layers(network, params, pass, 0, dense, gradients);
}

int trainer_sharded_run(struct trainer_sharded *sharded, struct trainer *trainer, bool pause,
                        struct trainer_exchange_stats *ret_stats, struct mst_error *err)
{
    struct trainer *share = sharded->share;
    const struct trainer_model *model = share->config.model;
    const struct trainer_tensor *weight = &model->layers[sharded->split.dense].tensors[0];
    const size_t behind = weight->offset + trainer_shape_elements(&weight->shape);
    struct trainer_exchange_stats stats = {0};

    if (!sharded->taken)
        take(sharded, trainer);
    const struct trainer_pass pass = load(sharded, trainer);
    int r = multiply(sharded, trainer, &pass, pause, &stats, err);
    if (r < 0)
        return r;
    trainer_network_forward_layers(&share->network, share->parameters[share->current], &pass,
                                   sharded->split.dense + 1, model->layer_count);
    const struct trainer_loss loss = trainer_shard_loss(
        share, trainer_network_input(&share->network, model->layer_count), share->network.gradients[0]);
    go_back(sharded, &pass);
    /* Of the layers before the feeder each worker has the gradients that come down through its own channels.
     */
    const size_t common = model->layers[sharded->split.feeder].tensors[0].offset;
    if (common > 0)
        r = sum(trainer, EXCHANGE_FOR_STATE, share->gradients[0], common, &stats, err);
    if (r < 0)
        return r;
    trainer_landed(share, 0, weight->offset);
    trainer_landed(share, behind, share->count - behind);
    trainer_fill_tail(trainer->gradients[0] + trainer->count, &loss,
                      sharded->product[sharded->product_floats] > 0);
    *ret_stats = stats;
    return 0;
}

void trainer_sharded_advance(struct trainer_sharded *sharded)
{
    sharded->share->current = 1 - sharded->share->current;
    sharded->share->step++;
}

/* ---- the whole parameters ------------------------------------------------------------------------------ */

uint64_t trainer_sharded_gathered(const struct trainer_sharded *sharded)
{
    return sharded->gathered;
}

bool trainer_sharded_is_ahead(const struct trainer_sharded *sharded)
{
    return sharded->taken && sharded->share->step != sharded->gathered;
}

static int unpack(const struct trainer_sharded *sharded, struct trainer *trainer, uint32_t rank,
                  struct mst_error *err)
{
    struct trainer_split split = {0};
    const struct trainer_model *model = trainer->config.model;
    const float *packed = sharded->blocks + rank * sharded->block_floats;

    const int r = trainer_split_share(model, rank, trainer->world, &split, err);
    for (size_t a = 0; r >= 0 && a <= trainer->state_count; a++) {
        trainer_split_unpack(&split, model, packed, array_of(trainer, a, true));
        packed += trainer_split_floats(&split);
    }
    trainer_split_free(&split);
    return r;
}

int trainer_sharded_gather(struct trainer_sharded *sharded, struct trainer *trainer, struct mst_error *err)
{
    const struct trainer *share = sharded->share;
    const size_t floats = trainer_split_floats(&sharded->split);
    float *own = sharded->blocks + trainer->rank * sharded->block_floats;
    const struct trainer_gather gather = {.step = trainer->step | EXCHANGE_FOR_STATE,
                                          .shards = trainer->world,
                                          .values = sharded->blocks,
                                          .block_floats = sharded->block_floats};
    struct trainer_exchange_stats ignored;
    int r = 0;

    for (size_t a = 0; a <= trainer->state_count; a++)
        trainer_split_pack(&sharded->split, array_of(share, a, false), own + a * floats);
    if (trainer->exchange) {
        r = exchange_gather_begin(trainer->exchange, &gather, err);
        if (r >= 0)
            r = exchange_gather_ready(trainer->exchange, trainer->rank, 0, sharded->block_floats, err);
        if (r >= 0)
            r = exchange_gather_finish(trainer->exchange, &ignored, err);
    }
    for (uint32_t rank = 0; r >= 0 && rank < trainer->world; rank++)
        r = unpack(sharded, trainer, rank, err);
    for (size_t a = 0; r >= 0 && a <= trainer->state_count; a++) {
        trainer_split_give(&sharded->split, trainer->config.model, array_of(share, a, false),
                           array_of(trainer, a, true));
        /* All have the same now, and see it together. */
        if (!kernel_all_finite(trainer->count, array_of(trainer, a, true)))
            r = mst_error_set(err, -ERANGE,
                              "not all are finite numbers: a smaller learning rate than %g may help",
                              trainer->config.lr);
    }
    if (r < 0)
        return mst_error_wrap(err, r, "gather the parameters after step %" PRIu64, trainer->step);
    trainer->current = 1 - trainer->current;
    sharded->gathered = trainer->step;
    return 0;
}
