/* SPDX-License-Identifier: Apache-2.0 */
#include "lockstep.h"

#include "arena.h"
#include "trainer_state.h"

#include <assert.h>
#include <stdlib.h>

/* One of this worker's shards. */
struct lane {
    struct trainer_network network;
    struct trainer_pass pass;
    uint32_t *labels; /* owned, as the following: batch of them */
    uint64_t *keys;
    float *targets;   /* NULL: the set has labels */
    uint32_t shard;   /* in this step */
    float *gradients; /* borrowed from the trainer */
};

struct trainer_lockstep {
    const struct trainer_model *model; /* borrowed */
    struct lane *lanes;                /* owned */
    size_t lane_count, in_use;
    size_t part_floats; /* the most that a layer has */
    float *parts;       /* of all shards; owned */
    size_t shards;      /* that there is room for */
    uint32_t gathers;   /* in this step */
};

int trainer_lockstep_new(const struct trainer_model *model, struct trainer_lockstep **ret_lockstep,
                         struct mst_error *err)
{
    struct trainer_lockstep *lockstep = calloc(1, sizeof *lockstep);

    if (!lockstep)
        return mst_error_set(err, -ENOMEM, "no memory for steps of model '%s'", model->name);
    lockstep->model = model;
    for (size_t i = 0; i < model->layer_count; i++) {
        const struct trainer_layer *layer = &model->layers[i];
        const size_t floats = layer->ops->mixing ? layer->ops->mixing->part_floats(layer) : 0;
        lockstep->part_floats = floats > lockstep->part_floats ? floats : lockstep->part_floats;
    }
    *ret_lockstep = lockstep;
    return 0;
}

static void release_lane(struct lane *lane)
{
    trainer_network_release(&lane->network);
    free(lane->labels);
    free(lane->keys);
    free(lane->targets);
}

void trainer_lockstep_free(struct trainer_lockstep *lockstep)
{
    if (!lockstep)
        return;
    for (size_t i = 0; i < lockstep->lane_count; i++)
        release_lane(&lockstep->lanes[i]);
    free(lockstep->lanes);
    free(lockstep->parts);
    free(lockstep);
}

static int init_lane(struct lane *lane, const struct trainer *trainer, struct mst_error *err)
{
    const size_t batch = trainer->config.batch, target = trainer->config.train->target_size;

    *lane = (struct lane){.labels = calloc(batch, sizeof *lane->labels),
                          .keys = calloc(batch, sizeof *lane->keys)};
    if (target > 0)
        lane->targets = calloc(batch * target, sizeof *lane->targets);
    int r = !lane->labels || !lane->keys || (target > 0 && !lane->targets)
                ? mst_error_set(err, -ENOMEM, "no memory for a shard of %zu samples", batch)
                : trainer_network_init(&lane->network, trainer->config.model, batch, err);
    if (r < 0)
        release_lane(lane);
    return r;
}

static int make_room(struct trainer_lockstep *lockstep, const struct trainer *trainer, struct mst_error *err)
{
    const size_t shards = trainer->config.shards;
    const size_t own = (shards - trainer->rank + trainer->world - 1) / trainer->world;

    if (!lockstep->parts)
        lockstep->parts = trainer_floats_new(shards * lockstep->part_floats);
    struct lane *lanes = lockstep->lane_count < own ? realloc(lockstep->lanes, own * sizeof *lockstep->lanes)
                                                    : lockstep->lanes;
    if (!lockstep->parts || !lanes)
        return mst_error_set(err, -ENOMEM, "no memory for %zu shards", own);
    lockstep->lanes = lanes;
    for (; lockstep->lane_count < own; lockstep->lane_count++) {
        const int r = init_lane(&lockstep->lanes[lockstep->lane_count], trainer, err);
        if (r < 0)
            return r;
    }
    lockstep->in_use = own;
    return 0;
}

/* The parts of all shards, `floats` each; this worker's are there. */
static int gather(struct trainer_lockstep *lockstep, struct trainer *trainer, size_t floats,
                  struct trainer_exchange_stats *stats, struct mst_error *err)
{
    /* Numbers tell a gathering from those just before and after it. */
    const struct trainer_gather gather = {.step = trainer->step,
                                          .number = lockstep->gathers++ % EXCHANGE_GATHERS,
                                          .values = lockstep->parts,
                                          .block_floats = floats,
                                          .shards = trainer->config.shards};
    struct trainer_exchange_stats own = {0};

    if (!trainer->exchange)
        return 0;
    int r = exchange_gather_begin(trainer->exchange, &gather, err);
    for (size_t i = 0; i < lockstep->in_use && r >= 0; i++)
        r = exchange_gather_ready(trainer->exchange, lockstep->lanes[i].shard, 0, floats, err);
    if (r >= 0)
        r = exchange_gather_finish(trainer->exchange, &own, err);
    if (r >= 0)
        exchange_stats_add(stats, &own);
    return r;
}

/* The layer's pass: what trainer_network_forward_layers() fills in for those between. */
static struct trainer_pass pass_of(const struct lane *lane, size_t layer)
{
    struct trainer_pass pass = lane->pass;

    pass.scratch = lane->network.scratch;
    pass.kept = lane->network.kept[layer];
    return pass;
}

static size_t next_mixing(const struct trainer_model *model, size_t from)
{
    while (from < model->layer_count && !model->layers[from].ops->mixing)
        from++;
    return from;
}

static int forward(struct trainer_lockstep *lockstep, struct trainer *trainer, const float *params,
                   struct trainer_exchange_stats *stats, struct mst_error *err)
{
    const struct trainer_model *model = lockstep->model;
    size_t first = 0;

    for (size_t m = next_mixing(model, 0);; m = next_mixing(model, first)) {
        for (size_t i = 0; i < lockstep->in_use; i++)
            trainer_network_forward_layers(&lockstep->lanes[i].network, params, &lockstep->lanes[i].pass,
                                           first, m);
        if (m == model->layer_count)
            return 0;
        const struct trainer_layer *layer = &model->layers[m];
        const size_t floats = layer->ops->mixing->part_floats(layer);
        for (size_t i = 0; i < lockstep->in_use; i++) {
            const struct lane *lane = &lockstep->lanes[i];
            const struct trainer_pass pass = pass_of(lane, m);
            layer->ops->mixing->forward_part(layer, &pass, trainer_network_input(&lane->network, m),
                                             lockstep->parts + lane->shard * floats);
        }
        const int r = gather(lockstep, trainer, floats, stats, err);
        if (r < 0)
            return r;
        for (size_t i = 0; i < lockstep->in_use; i++) {
            const struct lane *lane = &lockstep->lanes[i];
            const struct trainer_pass pass = pass_of(lane, m);
            layer->ops->mixing->forward_whole(layer, &pass, params, lockstep->parts, trainer->config.shards,
                                              trainer_network_input(&lane->network, m),
                                              lane->network.outputs[m]);
        }
        first = m + 1;
    }
}

/* Of one mixing layer, between the parts of backward above and below it. */
static int backward_mixing(struct trainer_lockstep *lockstep, struct trainer *trainer, const float *params,
                           size_t m, struct trainer_exchange_stats *stats, struct mst_error *err)
{
    const struct trainer_layer *layer = &lockstep->model->layers[m];
    const size_t floats = layer->ops->mixing->part_floats(layer);

    for (size_t i = 0; i < lockstep->in_use; i++) {
        const struct lane *lane = &lockstep->lanes[i];
        const struct trainer_pass pass = pass_of(lane, m);
        layer->ops->mixing->backward_part(layer, &pass, trainer_network_input(&lane->network, m),
                                          lane->network.outputs[m],
                                          trainer_network_gradient(&lane->network, m),
                                          lockstep->parts + lane->shard * floats, lane->gradients);
    }
    if (m <= trainer_network_first_trained(lockstep->model))
        return 0;
    const int r = gather(lockstep, trainer, floats, stats, err);
    for (size_t i = 0; i < lockstep->in_use && r >= 0; i++) {
        const struct lane *lane = &lockstep->lanes[i];
        const struct trainer_pass pass = pass_of(lane, m);
        layer->ops->mixing->backward_whole(layer, &pass, params, lockstep->parts, trainer->config.shards,
                                           trainer_network_input(&lane->network, m),
                                           trainer_network_gradient(&lane->network, m),
                                           trainer_network_gradient(&lane->network, m - 1));
    }
    return r;
}

static int backward(struct trainer_lockstep *lockstep, struct trainer *trainer, const float *params,
                    struct trainer_exchange_stats *stats, struct mst_error *err)
{
    const struct trainer_model *model = lockstep->model;
    int r = 0;

    for (size_t end = model->layer_count; end > 0 && r >= 0;) {
        size_t first = end;
        while (first > 0 && !model->layers[first - 1].ops->mixing)
            first--;
        for (size_t i = 0; i < lockstep->in_use; i++)
            trainer_network_backward_layers(&lockstep->lanes[i].network, params, &lockstep->lanes[i].pass,
                                            first, end, lockstep->lanes[i].gradients);
        if (first > 0)
            r = backward_mixing(lockstep, trainer, params, first - 1, stats, err);
        end = first > 0 ? first - 1 : 0;
    }
    return r;
}

/* Labels, targets and keys are where each lane keeps its own. */
static void begin_lanes(struct trainer_lockstep *lockstep, struct trainer *trainer, bool apart)
{
    float *const targets = trainer->targets;

    for (size_t i = 0; i < lockstep->in_use; i++) {
        struct lane *lane = &lockstep->lanes[i];
        lane->shard = trainer->rank + (uint32_t)i * trainer->world;
        lane->gradients = trainer->gradients[apart ? i : 0];
        trainer->targets = lane->targets;
        trainer_load_shard(trainer, lane->shard, lane->network.input, lane->labels);
        lane->pass = trainer_shard_pass(trainer, lane->shard, lane->keys);
        lane->pass.accumulate = !apart && i > 0;
    }
    trainer->targets = targets;
}

static void take_losses(struct trainer_lockstep *lockstep, struct trainer *trainer, bool pause)
{
    uint32_t *const labels = trainer->labels;
    float *const targets = trainer->targets;
    struct trainer_loss loss = {0};

    for (size_t i = 0; i < lockstep->in_use; i++) {
        struct lane *lane = &lockstep->lanes[i];
        trainer->labels = lane->labels;
        trainer->targets = lane->targets;
        const struct trainer_loss own =
            trainer_shard_loss(trainer, trainer_network_input(&lane->network, lockstep->model->layer_count),
                               lane->network.gradients[0]);
        loss.sum = own.sum + (lane->pass.accumulate ? loss.sum : 0);
        loss.correct = own.correct + (lane->pass.accumulate ? loss.correct : 0);
        trainer_fill_tail(lane->gradients + trainer->count, &loss, pause);
    }
    trainer->labels = labels;
    trainer->targets = targets;
}

static int sum_gradients(struct trainer *trainer, struct trainer_exchange_stats *stats, struct mst_error *err)
{
    const size_t count = trainer->count + TRAINER_TAIL_FLOATS;
    struct trainer_exchange_stats own = {0};

    if (!trainer->exchange) {
        trainer_landed(trainer, 0, count);
        return 0;
    }
    const struct trainer_sum sum = trainer_gradient_sum(trainer);
    int r = exchange_begin(trainer->exchange, &sum, err);
    for (size_t i = 0; i < trainer->gradient_count && r >= 0; i++)
        r = exchange_ready(trainer->exchange, i, 0, count, err);
    if (r >= 0)
        r = exchange_finish(trainer->exchange, &own, err);
    if (r >= 0)
        exchange_stats_add(stats, &own);
    return r;
}

int trainer_lockstep_run(struct trainer_lockstep *lockstep, struct trainer *trainer, bool pause,
                         struct trainer_exchange_stats *ret_stats, struct mst_error *err)
{
    const float *params = trainer->parameters[trainer->current];
    const bool apart = trainer->exchange && trainer->exchange->ops->keeps_parts;
    struct trainer_exchange_stats stats = {0};

    int r = make_room(lockstep, trainer, err);
    if (r < 0)
        return r;
    lockstep->gathers = 0;
    begin_lanes(lockstep, trainer, apart);
    r = forward(lockstep, trainer, params, &stats, err);
    if (r < 0)
        return r;
    take_losses(lockstep, trainer, pause);
    r = backward(lockstep, trainer, params, &stats, err);
    if (r >= 0)
        r = sum_gradients(trainer, &stats, err);
    if (r >= 0)
        *ret_stats = stats;
    return r;
}
