/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/trainer.h"

#include "arena.h"
#include "blas.h"
#include "crew.h"
#include "split.h"
#include "trainer_state.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A part of the job's key: workers whose frames or arithmetic differ must not meet. */
#define TRAINER_PROTOCOL 3

/* The test set is passed in at least this many samples at a time, however small the training batch: a matrix
 * product packs the whole weight matrix for each call, and with single samples it would do little else. */
#define EVALUATE_BATCH 64

/* Of the first layer, where it does not take any value. */
static int check_values(const struct trainer_model *model, const struct trainer_dataset *set,
                        const char *name, struct mst_error *err)
{
    const struct trainer_layer *first = &model->layers[0];
    const size_t elements = trainer_shape_elements(&set->shape);

    for (size_t i = 0; first->ops->fits && i < set->count * elements; i++) {
        const float value = set->floats ? set->floats[i] : (float)set->values[i] / 255.0f;
        if (!first->ops->fits(first, value))
            return mst_error_set(err, -EINVAL,
                                 "the %s data has %g (sample %zu, value %zu), which layer '%s' (%s) does not "
                                 "take: its numbers go from 0 to %zu",
                                 name, (double)value, i / elements, i % elements, first->name,
                                 first->ops->type, first->tensors[0].shape.dims[0] - 1);
    }
    return 0;
}

static int check_data(const struct trainer_config *config, const struct trainer_dataset *set,
                      const char *name, struct mst_error *err)
{
    char has[TRAINER_SHAPE_TEXT_BYTES], wants[TRAINER_SHAPE_TEXT_BYTES];
    const struct trainer_model *model = config->model;

    if (!trainer_shape_equal(&set->shape, &model->input))
        return mst_error_set(err, -EINVAL, "model '%s' takes %s, the %s data is %s", model->name,
                             trainer_shape_text(&model->input, wants), name,
                             trainer_shape_text(&set->shape, has));
    if (set->target_size > 0 &&
        (trainer_loss_in_force(config) != TRAINER_MSE || set->target_size != trainer_model_classes(model)))
        return mst_error_set(
            err, -EINVAL,
            "model '%s' has %zu outputs and the loss '%s', the %s data targets of %zu values: "
            "they are for as many outputs and the loss 'mse'",
            model->name, trainer_model_classes(model), trainer_loss_name(trainer_loss_in_force(config)), name,
            set->target_size);
    if (set->classes > trainer_model_classes(model))
        return mst_error_set(err, -EINVAL, "model '%s' has %zu outputs, the %s data %zu classes", model->name,
                             trainer_model_classes(model), name, set->classes);
    return check_values(model, set, name, err);
}

int trainer_check(const struct trainer_config *config, struct mst_error *err)
{
    int r = trainer_model_check_loss(config->model, trainer_loss_in_force(config), config->model->name, NULL);
    if (r < 0)
        return mst_error_set(err, -EINVAL, "the loss '%s' does not suit model '%s'",
                             trainer_loss_name(trainer_loss_in_force(config)), config->model->name);
    r = check_data(config, config->train, "training", err);
    if (r >= 0 && config->test)
        r = check_data(config, config->test, "test", err);
    if (r < 0)
        return r;
    if (config->batch < 1 || config->batch > TRAINER_MAX_BATCH)
        return mst_error_set(err, -EINVAL, "batch of %" PRIu32 ", expected 1 to %d", config->batch,
                             TRAINER_MAX_BATCH);
    if (config->shards < 1 || config->shards > TRAINER_MAX_WORLD)
        return mst_error_set(err, -EINVAL, "%" PRIu32 " shards, expected 1 to %d", config->shards,
                             TRAINER_MAX_WORLD);
    if (!(config->lr > 0) || !isfinite(config->lr))
        return mst_error_set(err, -EINVAL, "learning rate %g, expected a number above 0", config->lr);
    if (!(config->momentum >= 0 && config->momentum < 1))
        return mst_error_set(err, -EINVAL, "momentum %g, expected 0 or more and below 1", config->momentum);
    if (config->steps_per_epoch < 1 || config->epochs < 1)
        return mst_error_set(err, -EINVAL,
                             "%" PRIu32 " epochs of %" PRIu32 " steps, expected at least 1 of each",
                             config->epochs, config->steps_per_epoch);
    if (config->threads > TRAINER_MAX_THREADS)
        return mst_error_set(err, -EINVAL, "%" PRIu32 " threads, expected at most %d", config->threads,
                             TRAINER_MAX_THREADS);
    const struct trainer_shape *input = &config->model->input;
    if (config->rule.shift > 0 && input->count != 3)
        return mst_error_set(err, -EINVAL,
                             "images to be shifted are rows x columns x channels, and model '%s' has another "
                             "input",
                             config->model->name);
    if (config->rule.shift > 0 &&
        (config->rule.shift >= input->dims[0] || config->rule.shift >= input->dims[1]))
        return mst_error_set(err, -EINVAL, "a shift by %" PRIu32 ", expected less than the image's %zu x %zu",
                             config->rule.shift, input->dims[0], input->dims[1]);
    return trainer_optimizer_check(config, err);
}

int trainer_config_digest(const struct trainer_config *config, uint8_t ret_digest[static MST_SHA256_BYTES],
                          struct mst_error *err)
{
    struct {
        uint64_t protocol, batch, shards, steps_per_epoch, epochs, seed, optimizer, schedule, loss, shift;
        double lr, momentum, beta1, beta2, epsilon, weight_decay, clip_norm;
        double warmup_epochs, step_epochs, step_factor, min_lr;
        uint8_t model[MST_SHA256_BYTES], train[MST_SHA256_BYTES], test[MST_SHA256_BYTES];
    } all = {
        .protocol = TRAINER_PROTOCOL,
        .batch = config->batch,
        .shards = config->shards,
        .steps_per_epoch = config->steps_per_epoch,
        .epochs = config->epochs,
        .seed = config->seed,
        .lr = config->lr,
        .momentum = config->momentum,
        .optimizer = config->rule.optimizer,
        .schedule = config->rule.schedule,
        .loss = trainer_loss_in_force(config),
        .shift = config->rule.shift,
        .beta1 = config->rule.beta1,
        .beta2 = config->rule.beta2,
        .epsilon = config->rule.epsilon,
        .weight_decay = config->rule.weight_decay,
        .clip_norm = config->rule.clip_norm,
        .warmup_epochs = config->rule.warmup_epochs,
        .step_epochs = config->rule.step_epochs,
        .step_factor = config->rule.step_factor,
        .min_lr = config->rule.min_lr,
    };
    static_assert(sizeof all == 21 * 8 + 3 * MST_SHA256_BYTES,
                  "no padding, whose bytes would not be defined");

    const int r = trainer_model_digest(config->model, all.model, err);
    if (r < 0)
        return r;
    memcpy(all.train, config->train->digest, sizeof all.train);
    if (config->test)
        memcpy(all.test, config->test->digest, sizeof all.test);
    return mst_sha256(&all, sizeof all, ret_digest, err);
}

/* Have `count` gradients, the first `owned` of them each with memory of its own, the others with the first's.
 * After an error all is as before. */
static int set_gradients(struct trainer *trainer, size_t count, size_t owned, struct mst_error *err)
{
    const size_t before = trainer->gradients_owned;

    for (size_t i = before; i < owned; i++) {
        trainer->gradients[i] = trainer_floats_new(trainer->count + TRAINER_TAIL_FLOATS);
        if (trainer->gradients[i])
            continue;
        while (i-- > before)
            free(trainer->gradients[i]);
        return mst_error_set(err, -ENOMEM, "no memory for %zu gradients of %zu parameters", owned,
                             trainer->count);
    }
    for (size_t i = owned; i < before; i++)
        free(trainer->gradients[i]);
    for (size_t i = owned; i < count; i++)
        trainer->gradients[i] = trainer->gradients[0];
    trainer->gradients_owned = owned;
    trainer->gradient_count = count;
    return 0;
}

static int allocate(struct trainer *trainer, struct mst_error *err)
{
    const size_t count = trainer->count;
    bool complete = true;

    for (size_t i = 0; i < 2; i++) {
        trainer->parameters[i] = trainer_floats_new(count);
        complete = complete && trainer->parameters[i];
        for (size_t s = 0; s < trainer->state_count; s++) {
            trainer->states[i][s] = trainer_floats_new(count);
            complete = complete && trainer->states[i][s];
        }
    }
    trainer->gradients = calloc(trainer->config.shards, sizeof *trainer->gradients);
    const size_t batch = trainer->config.batch > EVALUATE_BATCH ? trainer->config.batch : EVALUATE_BATCH;
    trainer->samples = calloc(batch, sizeof *trainer->samples);
    trainer->labels = calloc(batch, sizeof *trainer->labels);
    trainer->keys = calloc(batch, sizeof *trainer->keys);
    if (trainer->config.train->target_size > 0) {
        trainer->targets = calloc(batch * trainer->config.train->target_size, sizeof *trainer->targets);
        complete = complete && trainer->targets;
    }
    if (!complete || !trainer->keys || !trainer->gradients || !trainer->samples || !trainer->labels)
        return mst_error_set(err, -ENOMEM, "no memory for %zu parameters", count);
    int r = set_gradients(trainer, 1, 1, err);
    if (r >= 0 && trainer->config.model->mixes)
        r = trainer_lockstep_new(trainer->config.model, &trainer->lockstep, err);
    if (r >= 0)
        r = trainer_network_init(&trainer->network, trainer->config.model, batch, err);
    if (r >= 0)
        r = trainer_order_init(&trainer->order, trainer->config.seed, trainer->config.train->count, err);
    return r;
}

static void fill_parameters(struct trainer *trainer)
{
    const struct trainer_model *model = trainer->config.model;
    uint32_t number = 0;

    for (size_t i = 0; i < model->layer_count; i++) {
        trainer_layer_fill(&model->layers[i], trainer->config.seed, number, trainer->parameters[0]);
        number += (uint32_t)model->layers[i].tensor_count;
    }
}

int trainer_new(const struct trainer_config *config, struct trainer **ret_trainer, struct mst_error *err)
{
    int r = trainer_check(config, err);
    if (r < 0)
        return r;
    struct trainer *trainer = calloc(1, sizeof *trainer);
    if (!trainer)
        return mst_error_set(err, -ENOMEM, "no memory for a trainer");
    trainer->config = *config;
    trainer->world = 1;
    trainer->count = config->model->parameters;
    trainer->state_count = trainer_optimizer_states(config);
    const uint32_t threads = config->threads > 0 ? config->threads : trainer_threads_available();
    r = crew_hire(blas_is_own() ? threads : 1, err); /* OpenBLAS has threads of its own */
    trainer->has_crew = r >= 0;
    if (r >= 0)
        r = allocate(trainer, err);
    if (r < 0) {
        trainer_free(trainer);
        return r;
    }
    fill_parameters(trainer);
    openblas_set_num_threads((int)threads);
    *ret_trainer = trainer;
    return 0;
}

void trainer_free(struct trainer *trainer)
{
    if (!trainer)
        return;
    for (size_t i = 0; i < 2; i++) {
        free(trainer->parameters[i]);
        for (size_t s = 0; s < trainer->state_count; s++)
            free(trainer->states[i][s]);
    }
    for (size_t i = 0; i < trainer->gradients_owned; i++)
        free(trainer->gradients[i]);
    free(trainer->gradients);
    free(trainer->samples);
    free(trainer->labels);
    free(trainer->keys);
    free(trainer->targets);
    trainer_lockstep_free(trainer->lockstep);
    trainer_factors_free(trainer->factors);
    trainer_sharded_free(trainer->sharded);
    trainer_network_release(&trainer->network);
    trainer_order_release(&trainer->order);
    if (trainer->has_crew)
        crew_dismiss();
    free(trainer);
}

void trainer_settle(struct trainer *trainer)
{
    for (size_t i = 0; i < 2; i++) {
        trainer_floats_settle(trainer->parameters[i], trainer->count);
        for (size_t s = 0; s < trainer->state_count; s++)
            trainer_floats_settle(trainer->states[i][s], trainer->count);
    }
    for (size_t i = 0; i < trainer->gradients_owned; i++)
        trainer_floats_settle(trainer->gradients[i], trainer->count + TRAINER_TAIL_FLOATS);
    if (trainer->config.batch >= EVALUATE_BATCH) /* else much of it is never used */
        trainer_floats_settle(trainer->network.arena, trainer->network.arena_floats);
    if (trainer->factors)
        trainer_factors_settle(trainer->factors, trainer);
    if (trainer->sharded)
        trainer_sharded_settle(trainer->sharded);
}

int trainer_check_method(const struct trainer_model *model, enum trainer_method method, struct mst_error *err)
{
    struct trainer_split split;
    size_t layer;

    switch (method) {
    case TRAINER_FACTORS:
        return trainer_split_find(model, "factors", &layer, err);
    case TRAINER_SHARDED:
        return trainer_split_plan(model, &split, err);
    default:
        return 0;
    }
}

int trainer_set_method(struct trainer *trainer, enum trainer_method method, struct mst_error *err)
{
    struct trainer_factors *factors = NULL;

    assert(!trainer->exchange);
    if (method == trainer->method)
        return 0;
    int r = trainer_check_method(trainer->config.model, method, err);
    if (r >= 0 && method == TRAINER_FACTORS)
        r = trainer_factors_new(trainer, &factors, err);
    if (r < 0)
        return r;
    trainer_factors_free(trainer->factors);
    trainer->factors = factors;
    trainer->method = method;
    return 0;
}

/* A share is of one view. What was not gathered is lost with it; the next one is taken from what was. */
static int enter_share(struct trainer *trainer, bool enter, struct mst_error *err)
{
    if (trainer->sharded && trainer_sharded_is_ahead(trainer->sharded))
        trainer->step = trainer_sharded_gathered(trainer->sharded);
    trainer_sharded_free(trainer->sharded);
    trainer->sharded = NULL;
    if (!enter || trainer->method != TRAINER_SHARDED)
        return 0;
    const int r = trainer_sharded_new(trainer, &trainer->sharded, err);
    if (r < 0) {
        trainer->exchange = NULL;
        trainer->rank = 0;
        trainer->world = 1;
    }
    return r;
}

int trainer_set_exchange(struct trainer *trainer, struct trainer_exchange *exchange, struct mst_error *err)
{
    if (exchange && exchange->world > trainer->config.shards)
        return mst_error_set(err, -EINVAL,
                             "%" PRIu32 " workers for %" PRIu32 " shards: some would have nothing to do",
                             exchange->world, trainer->config.shards);
    if (exchange && exchange->ops->keeps_parts && exchange->shards != trainer->config.shards)
        return mst_error_set(err, -EINVAL, "an exchange for %" PRIu32 " shards, and a trainer with %" PRIu32,
                             exchange->shards, trainer->config.shards);
    const uint32_t rank = exchange ? exchange->rank : 0, world = exchange ? exchange->world : 1;
    const bool apart = exchange && exchange->ops->keeps_parts && trainer->method == TRAINER_SUM;
    const size_t count = apart ? (trainer->config.shards - rank + world - 1) / world : 1;
    const int r = set_gradients(trainer, count, world > 1 || trainer->lockstep ? count : 1, err);
    if (r < 0)
        return r;
    trainer->exchange = apart || world > 1 ? exchange : NULL;
    trainer->rank = rank;
    trainer->world = world;
    trainer->taken = 0;
    return enter_share(trainer, exchange != NULL, err);
}

int trainer_gather_parameters(struct trainer *trainer, struct mst_error *err)
{
    return trainer->sharded && trainer_sharded_is_ahead(trainer->sharded)
               ? trainer_sharded_gather(trainer->sharded, trainer, err)
               : 0;
}

uint64_t trainer_steps_done(const struct trainer *trainer)
{
    return trainer->step;
}

uint64_t trainer_steps_wanted(const struct trainer *trainer)
{
    return (uint64_t)trainer->config.epochs * trainer->config.steps_per_epoch;
}
