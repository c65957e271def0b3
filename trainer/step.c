/* SPDX-License-Identifier: Apache-2.0 */
/* One step of mirrored SGD: this worker's shards, the exchange around them, and the update as sums land. */
#include "crew.h"
#include "kernels.h"
#include "muster/clock.h"
#include "shift.h"
#include "trainer_state.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>

/* The update is applied in pieces of this many floats, which the crew shares: what is read and written stays
 * in the second-level cache. */
#define UPDATE_PIECE_FLOATS 32768

/* Memory is settled after so many steps. */
#define SETTLED_STEPS 3

struct update {
    struct trainer_update step;
    struct trainer_arenas arenas;
    size_t state_count, offset, end;
    atomic_bool overflow;
};

static void update_piece(void *context, uint32_t piece)
{
    struct update *update = context;
    const struct trainer_arenas *arenas = &update->arenas;
    const size_t first = update->offset + (size_t)piece * UPDATE_PIECE_FLOATS;
    const size_t count =
        update->end - first < UPDATE_PIECE_FLOATS ? update->end - first : UPDATE_PIECE_FLOATS;

    trainer_optimizer_update(&update->step, arenas, first, count);
    /* While the piece is in the cache this costs next to nothing. */
    bool finite = kernel_all_finite(count, arenas->next_parameters + first);
    for (size_t s = 0; s < update->state_count; s++)
        finite = finite && kernel_all_finite(count, arenas->next_states[s] + first);
    if (!finite)
        atomic_store_explicit(&update->overflow, true, memory_order_relaxed);
}

static void update(struct trainer *trainer, float clip, size_t offset, size_t count)
{
    const size_t current = trainer->current, next = 1 - current;
    struct update update = {
        .step = trainer_optimizer_begin(&trainer->config, trainer->step, clip),
        .arenas = {.parameters = trainer->parameters[current],
                   .gradient = trainer->gradients[0],
                   .next_parameters = trainer->parameters[next]},
        .state_count = trainer->state_count,
        .offset = offset,
        .end = offset + count < trainer->count ? offset + count : trainer->count,
    };

    for (size_t s = 0; s < trainer->state_count; s++) {
        update.arenas.states[s] = trainer->states[current][s];
        update.arenas.next_states[s] = trainer->states[next][s];
    }
    if (offset < update.end)
        crew_share((uint32_t)((update.end - offset + UPDATE_PIECE_FLOATS - 1) / UPDATE_PIECE_FLOATS),
                   update_piece, &update);
    trainer->overflow |= atomic_load(&update.overflow);
}

void trainer_landed(void *context, size_t offset, size_t count)
{
    struct trainer *trainer = context;
    if (!(trainer->config.rule.clip_norm > 0))
        update(trainer, 1.0f, offset, count);
}

/* struct trainer_pass.gradient_ready. Backward cannot stop half-way: the first error is kept for after it. */
static void gradient_ready(void *context, size_t offset, size_t count)
{
    struct trainer *trainer = context;

    if (!trainer->exchange)
        trainer_landed(trainer, offset, count);
    else if (trainer->exchange_error.code == 0)
        (void)exchange_ready(trainer->exchange, trainer->shard_under_way, offset, count,
                             &trainer->exchange_error);
}

/* struct trainer_pass.preferred. */
static bool preferred(void *context, size_t index, size_t *ret_offset, size_t *ret_count)
{
    const struct trainer *trainer = context;

    return trainer->exchange && exchange_preferred(trainer->exchange, index, ret_offset, ret_count);
}

void trainer_fill_tail(float *tail, const struct trainer_loss *loss, bool pause)
{
    tail[TRAINER_TAIL_LOSS] = (float)loss->sum;
    tail[TRAINER_TAIL_CORRECT] = (float)loss->correct;
    tail[TRAINER_TAIL_PAUSE] = pause ? 1.0f : 0.0f;
}

void trainer_load_shard(struct trainer *trainer, uint32_t shard, float *x, uint32_t *labels)
{
    const struct trainer_config *config = &trainer->config;

    trainer_order_batch(&trainer->order, trainer->step, config->shards, shard, config->batch,
                        trainer->samples);
    trainer_dataset_gather(config->train, trainer->samples, config->batch, x, labels);
    if (trainer->targets)
        trainer_dataset_gather_targets(config->train, trainer->samples, config->batch, trainer->targets);
    if (config->rule.shift > 0) {
        const struct trainer_pass pass = trainer_shard_pass(trainer, shard, trainer->keys);
        trainer_shift_images(&config->model->input, config->rule.shift, config->batch, pass.keys, x);
    }
}

struct trainer_pass trainer_shard_pass(const struct trainer *trainer, uint32_t shard, uint64_t *keys)
{
    const struct trainer_config *config = &trainer->config;
    struct trainer_rng rng;

    trainer_rng_init(&rng, config->seed, TRAINER_RNG_SAMPLES, shard);
    trainer_rng_init(&rng, rng.state ^ trainer->step, TRAINER_RNG_SAMPLES, shard);
    for (uint32_t i = 0; i < config->batch; i++)
        keys[i] = trainer_rng_next(&rng);
    return (struct trainer_pass){
        .batch = config->batch, .training = true, .keys = keys, .share = 1.0f / (float)config->shards};
}

enum trainer_loss_kind trainer_loss_in_force(const struct trainer_config *config)
{
    return config->rule.loss != TRAINER_LOSS_OF_MODEL ? config->rule.loss : config->model->loss;
}

struct trainer_loss trainer_shard_loss(const struct trainer *trainer, const float *logits, float *gradient)
{
    const struct trainer_config *config = &trainer->config;
    const float scale = 1.0f / ((float)config->batch * (float)config->shards);

    const struct trainer_answers answers = {.labels = trainer->targets ? NULL : trainer->labels,
                                            .targets = trainer->targets};

    return trainer_loss_of(trainer_loss_in_force(config), config->batch, trainer_model_classes(config->model),
                           logits, &answers, scale, gradient);
}

/* Forward and backward over one of this worker's shards. *loss adds up those of shards whose gradients are
 * added up. */
static void run_shard(struct trainer *trainer, uint32_t shard, bool pause, struct trainer_loss *loss)
{
    const struct trainer_config *config = &trainer->config;
    const float *params = trainer->parameters[trainer->current];
    const bool apart = trainer->exchange && trainer->exchange->ops->keeps_parts;
    const bool first = apart || shard == trainer->rank;
    const bool last = apart || shard + trainer->world >= config->shards;
    const size_t place = apart ? shard / trainer->world : 0;
    float *gradients = trainer->gradients[place];

    trainer->shard_under_way = place;
    trainer_load_shard(trainer, shard, trainer->network.input, trainer->labels);
    struct trainer_pass pass = trainer_shard_pass(trainer, shard, trainer->keys);
    const size_t layers = config->model->layer_count;
    trainer_network_forward_layers(&trainer->network, params, &pass, 0, layers);
    const float *logits = trainer_network_input(&trainer->network, layers);
    const struct trainer_loss own = trainer_shard_loss(trainer, logits, trainer->network.gradients[0]);
    loss->sum = own.sum + (first ? 0 : loss->sum);
    loss->correct = own.correct + (first ? 0 : loss->correct);
    if (last) {
        trainer_fill_tail(gradients + trainer->count, loss, pause);
        gradient_ready(trainer, trainer->count, TRAINER_TAIL_FLOATS);
    }
    pass.accumulate = !first;
    pass.gradient_ready = last ? gradient_ready : NULL;
    pass.preferred = last ? preferred : NULL;
    pass.context = trainer;
    trainer_network_backward(&trainer->network, params, &pass, gradients);
}

struct trainer_sum trainer_gradient_sum(struct trainer *trainer)
{
    return (struct trainer_sum){
        .step = trainer->step,
        .parts = trainer->gradients,
        .part_count = trainer->gradient_count,
        .shards = trainer->exchange->ops->keeps_parts ? trainer->config.shards : trainer->world,
        .count = trainer->count + TRAINER_TAIL_FLOATS,
        .rounded = trainer->count,
        .landed = trainer_landed,
        .context = trainer,
    };
}

/* All of this worker's shards, and the exchange around them. */
static int run_shards(struct trainer *trainer, bool pause, struct trainer_exchange_stats *ret_stats,
                      struct mst_error *err)
{
    struct trainer_exchange *exchange = trainer->exchange;
    struct trainer_loss loss = {0};

    trainer->exchange_error = (struct mst_error)MST_ERROR_INIT;
    if (exchange) {
        const struct trainer_sum sum = trainer_gradient_sum(trainer);
        const int r = exchange_begin(exchange, &sum, err);
        if (r < 0)
            return r;
    }
    for (uint32_t shard = trainer->rank; shard < trainer->config.shards; shard += trainer->world)
        run_shard(trainer, shard, pause, &loss);
    if (trainer->exchange_error.code < 0)
        return mst_error_set(err, trainer->exchange_error.code, "%s", trainer->exchange_error.text);
    return exchange ? exchange_finish(exchange, ret_stats, err) : 0;
}

static int run(struct trainer *trainer, bool pause, struct trainer_exchange_stats *ret_stats,
               struct mst_error *err)
{
    if (trainer->factors)
        return trainer_factors_run(trainer->factors, trainer, pause, ret_stats, err);
    if (trainer->sharded)
        return trainer_sharded_run(trainer->sharded, trainer, pause, ret_stats, err);
    if (trainer->lockstep)
        return trainer_lockstep_run(trainer->lockstep, trainer, pause, ret_stats, err);
    return run_shards(trainer, pause, ret_stats, err);
}

/* The next parameters are the current ones. Before a pause a share's go to all: nobody knows in which view it
 * goes on. */
static int advance(struct trainer *trainer, bool paused, struct mst_error *err)
{
    trainer->step++;
    if (!trainer->sharded) {
        trainer->current = 1 - trainer->current;
        return 0;
    }
    trainer_sharded_advance(trainer->sharded);
    return paused ? trainer_gather_parameters(trainer, err) : 0;
}

/* What is not a finite number never becomes the state: the step does not count. All workers have summed the
 * same and come to the same end; of a share that overflows the others learn by their next loss or gathering.
 */
static int check(struct trainer *trainer, float loss, struct mst_error *err)
{
    if (!isfinite(loss))
        return mst_error_set(err, -ERANGE,
                             "the loss is not a finite number: a smaller learning rate than %g may help",
                             trainer->config.lr);
    if (trainer->config.rule.clip_norm > 0) {
        const float clip = trainer_optimizer_clip(&trainer->config, trainer->gradients[0]);
        if (!isfinite(clip))
            return mst_error_set(err, -ERANGE, "the gradient is not a finite number");
        update(trainer, clip, 0, trainer->count);
    }
    if (trainer->overflow)
        return mst_error_set(err, -ERANGE,
                             "the gradient takes parameters beyond the finite numbers, though the loss is "
                             "one: a smaller learning rate than %g may help",
                             trainer->config.lr);
    return 0;
}

int trainer_step(struct trainer *trainer, bool pause, struct trainer_step_stats *ret_stats,
                 struct mst_error *err)
{
    const uint64_t start_ns = mst_now_ns();
    const uint64_t samples = (uint64_t)trainer->config.batch * trainer->config.shards;
    const float *tail = trainer->gradients[0] + trainer->count;
    struct trainer_exchange_stats exchanged = {0};

    trainer->overflow = false;
    int r = run(trainer, pause, &exchanged, err);
    if (r >= 0)
        r = check(trainer, tail[TRAINER_TAIL_LOSS], err);
    if (r < 0)
        return r;
    r = advance(trainer, tail[TRAINER_TAIL_PAUSE] > 0, err);
    if (r < 0)
        return r;
    /* Small pages are at hand at once; a training that goes on is better off with huge ones. */
    if (trainer->taken < SETTLED_STEPS && ++trainer->taken == SETTLED_STEPS)
        trainer_settle(trainer);
    const double total_ms = mst_ms_since(start_ns);
    *ret_stats = (struct trainer_step_stats){
        .step = trainer->step,
        .loss = (double)tail[TRAINER_TAIL_LOSS] / (double)samples,
        .accuracy = (double)tail[TRAINER_TAIL_CORRECT] / (double)samples,
        .samples = samples,
        .total_ms = total_ms,
        .compute_ms = total_ms - exchanged.wait_ms - exchanged.transfer_ms,
        .wait_ms = exchanged.wait_ms,
        .transfer_ms = exchanged.transfer_ms,
        .bytes_sent = exchanged.bytes_sent,
        .waited_for = exchanged.waited_for,
        .paused = tail[TRAINER_TAIL_PAUSE] > 0,
    };
    return 0;
}

void trainer_epoch_add(struct trainer_epoch *epoch, const struct trainer_step_stats *stats)
{
    epoch->steps++;
    epoch->loss_sum += stats->loss;
    epoch->accuracy_sum += stats->accuracy;
    epoch->wait_ms += stats->wait_ms;
    epoch->transfer_ms += stats->transfer_ms;
    epoch->compute_ms += stats->compute_ms;
    epoch->total_ms += stats->total_ms;
    epoch->bytes_sent += stats->bytes_sent;
}
