/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/log.h"
#include "train_private.h"

#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(CONFIG_RUN_MAX_BYTES <= TRAINER_RUN_MAX_BYTES, "the run's name goes into checkpoints");

#define STEP_LOG_MAX_BYTES ((size_t)256 << 20)

static void train_close(void *context)
{
    struct train *train = context;
    trainer_checkpoints_free(train->checkpoints);
    trainer_free(train->trainer);
    trainer_exchange_free(train->exchange);
    trainer_history_free(train->history);
    trainer_model_free(train->model);
    trainer_data_release(&train->data);
    mst_buf_release(&train->step_log);
    progress_clear(&train->show);
    profile_release(&train->profile);
    *train = (struct train){0};
}

struct train *train_new(void)
{
    return calloc(1, sizeof(struct train));
}

void train_free(struct train *train)
{
    if (!train)
        return;
    train_close(train);
    free(train);
}

/* With the same layers another meaning of an input or of a class is possible, as for fine-tuning on other
 * labels; but where it was not meant, nothing else would show it than a poor loss. */
static int compare_encodings(const struct train *train, struct mst_error *err)
{
    const char *init = train->site.config->init, *now = train->data.encoding;
    mst_cleanup(mst_freep) char *trained = NULL;
    char column[TRAINER_COLUMN_BYTES];
    int r = trainer_saved_encoding(init, &trained, err);
    if (r < 0 || !trained || !now)
        return r;
    r = trainer_encodings_agree(trained, now, column, err);
    if (r < 0)
        return mst_error_wrap(err, r, "'%s'", init);
    if (r == 0)
        mst_log_warn("train", "'%s' was trained with other categories of column %s, or in another order",
                     init, column);
    return 0;
}

int train_prepare(void *state, struct mst_error *err)
{
    struct train *train = state;
    if (train->trainer)
        return 0;
    int r = trainer_new(&train->config, &train->trainer, err);
    if (r == 0 && train->site.config->init)
        r = trainer_load_parameters(train->trainer, train->site.config->init, err);
    if (r == 0 && train->site.config->init)
        r = compare_encodings(train, err);
    if (r < 0) {
        trainer_free(train->trainer);
        train->trainer = NULL;
    }
    return r;
}

uint32_t train_position_epoch(const struct train *train)
{
    return (uint32_t)(trainer_steps_done(train->trainer) / train->config.steps_per_epoch) + 1;
}

static void checkpoint_skipped(void *context, const char *reason)
{
    (void)context;
    mst_log_warn("train", "checkpoint passed over: %s", reason);
}

/* What the last run of this worker left, if it was of this job. */
static int restore(struct train *train, const uint8_t *key, struct mst_error *err)
{
    const struct agent_config *config = train->site.config;
    if (!config->state)
        return 0;
    int r = trainer_checkpoints_open(config->state, key, config->run, &train->checkpoints, err);
    if (r == 0)
        r = trainer_checkpoints_any(train->checkpoints, err);
    if (r > 0)
        r = train_prepare(train, err);
    else if (r == 0)
        return 0;
    if (r == 0)
        r = trainer_checkpoints_restore(train->checkpoints, train->trainer, &train->shared,
                                        sizeof train->shared, checkpoint_skipped, NULL, &train->restored,
                                        err);
    if (r <= 0)
        return r < 0 ? mst_error_wrap(err, r, "folder for state '%s' (option '--state')", config->state) : 0;
    train->kept_step = train->restored.step;
    train->epoch = train_position_epoch(train);
    return 0;
}

static int open_model_and_data(struct train *train, struct mst_error *err)
{
    const struct agent_config *config = train->site.config;
    int r = train_settle(train, err);
    const struct trainer_data_options options = {.validation = train->validation, .seed = config->seed};
    if (r == 0)
        r = trainer_model_read(config->model, &train->model, err);
    if (r == 0)
        r = trainer_data_open(config->data, &options, &train->data, err);
    if (r < 0)
        return r;
    train->config.model = train->model;
    train->config.train = train->data.train;
    train->config.test = train->data.test;
    train->config.encoding = train->data.encoding;
    train->config.shards = config->workers_max;
    train->config.seed = config->seed;
    train->config.threads = config->threads;
    train_settle_steps(train);
    r = trainer_check(&train->config, err);
    return r < 0 ? mst_error_wrap(err, r, "model '%s' on data '%s'", config->model, config->data) : 0;
}

/* What the parameters begin as, where not from the seed; wrong files are told at the start. */
static int digest_init(const struct train *train, uint8_t ret_digest[static MST_SHA256_BYTES],
                       struct mst_error *err)
{
    const char *init = train->site.config->init;
    memset(ret_digest, 0, MST_SHA256_BYTES);
    return init ? mst_sha256_file(init, ret_digest, err) : 0;
}

/* From one checkpoint to the next, and from one gathering of split parameters to the next. */
static uint32_t gather_steps(const struct train *train)
{
    const uint32_t asked = train->site.config->checkpoint_steps;
    return asked > 0 ? asked : train->config.steps_per_epoch;
}

/* Workers that exchange gradients in different ways, or may end at different times, must not meet either. */
static int make_key(const struct train *train, uint8_t ret_key[static MST_SHA256_BYTES],
                    struct mst_error *err)
{
    uint8_t pieces[2 * MST_SHA256_BYTES + 1 + 2 * sizeof(uint32_t)];
    int r = trainer_config_digest(&train->config, pieces, err);
    if (r == 0)
        r = digest_init(train, pieces + sizeof pieces - MST_SHA256_BYTES, err);
    const uint32_t patience = htole32(train->patience);
    memcpy(pieces + MST_SHA256_BYTES + 1, &patience, sizeof patience);
    const uint32_t gather =
        htole32(train_method(train->site.config) == TRAINER_SHARDED ? gather_steps(train) : 0);
    memcpy(pieces + MST_SHA256_BYTES + 1 + sizeof patience, &gather, sizeof gather);
    pieces[MST_SHA256_BYTES] =
        (uint8_t)(train->site.config->exchange | (train->site.config->bf16 ? 0x80 : 0));
    return r < 0 ? r : mst_sha256(pieces, sizeof pieces, ret_key, err);
}

static uint64_t train_position(void *state)
{
    const struct train *train = state;
    return train->trainer ? trainer_steps_done(train->trainer) : 0;
}

/* ---- steps and epochs ---- */

/* Also in the middle of an epoch, where a view begins. */
static int train_epoch_begin(void *state, uint32_t epoch, struct mst_error *err)
{
    struct train *train = state;
    (void)err;
    const bool anew = train->epoch != epoch || trainer_steps_done(train->trainer) ==
                                                   (uint64_t)(epoch - 1) * train->config.steps_per_epoch;
    if (!anew && train->epoch_ns != 0)
        return 0;
    train->epoch = epoch;
    train->epoch_ns = mst_now_ns();
    train->sums = (struct trainer_epoch){0};
    return 0;
}

/* `shared` changes with steps alone: workers whose states are after the same step have the same. */
static void add_to_shared(struct train *train, const struct trainer_step_stats *stats)
{
    struct shared_sums *shared = &train->shared;
    if (shared->epoch != train->epoch)
        *shared = (struct shared_sums){.epoch = train->epoch, .patience = shared->patience};
    if (train->pending.epoch > shared->patience.epoch)
        shared->patience = train->pending;
    shared->steps++;
    shared->loss += stats->loss;
    shared->accuracy += stats->accuracy;
}

/* Every so many steps. One that comes while the one before is still being written is left out. */
static void write_checkpoint(struct train *train)
{
    struct mst_error err = MST_ERROR_INIT;
    if (!train->checkpoints)
        return;
    train_report_checkpoint(train);
    if (trainer_steps_done(train->trainer) % gather_steps(train) == 0 &&
        trainer_checkpoints_write(train->checkpoints, train->trainer, &train->shared, sizeof train->shared,
                                  &err) < 0)
        mst_log_warn("train", "no checkpoint was begun: %s", err.text);
}

/* What would be left if the view ended now: split parameters are whole after this, in all workers. */
static int train_gather(struct train *train, struct mst_error *err)
{
    const int r = trainer_gather_parameters(train->trainer, err);
    if (r == 0)
        train->gathered = train->shared;
    return r;
}

static int train_step(void *state, bool pause, struct mst_error *err)
{
    struct train *train = state;
    struct trainer_step_stats stats;
    const uint64_t before_ns = train->profile.step_end_ns;
    (void)profile_enter(&train->profile, TRAIN_STEP);
    const double between_ms =
        before_ns != 0 ? (double)(train->profile.since_ns - before_ns) / MST_NS_PER_MS : 0;
    int r = trainer_step(train->trainer, pause, &stats, err);
    if (r < 0) {
        profile_lost_step(&train->profile);
        return mst_error_wrap(err, r, "epoch %" PRIu32 ", step %" PRIu64, train->epoch,
                              trainer_steps_done(train->trainer) % train->config.steps_per_epoch + 1);
    }
    r = profile_add(&train->profile, &stats, err);
    if (r < 0)
        return r;
    trainer_epoch_add(&train->sums, &stats);
    add_to_shared(train, &stats);
    train_report_progress(train);
    if (stats.paused || trainer_steps_done(train->trainer) % gather_steps(train) == 0)
        r = train_gather(train, err);
    if (r < 0)
        return r;
    write_checkpoint(train);
    r = train_log_step(train, &stats, between_ms, err);
    return r < 0 ? r : stats.paused;
}

static int close_epoch(struct train *train, uint32_t epoch, struct mst_error *err)
{
    const struct trainer_epoch *sums = &train->sums;
    const struct trainer_history_row row = {
        .rank = train->rank,
        .view = (uint32_t)train->view,
        .epoch = epoch,
        .steps = sums->steps,
        .seconds = (double)(mst_now_ns() - train->epoch_ns) / 1e9,
        .loss = train->shared.loss / (double)train->shared.steps,
        .accuracy = train->shared.accuracy / (double)train->shared.steps,
        .wait_ms = sums->wait_ms,
        .transfer_ms = sums->transfer_ms,
        .compute_ms = sums->compute_ms,
        .bytes_sent = sums->bytes_sent,
    };
    train->trained_s += row.seconds;
    train->last_epoch_loss = row.loss;
    train->last_epoch_accuracy = row.accuracy;
    train->last_epoch_s = row.seconds;
    const struct profile_epoch *profile = NULL;
    const enum train_phase phase = profile_enter(&train->profile, TRAIN_SAVING);
    int r = trainer_history_append(train->history, &row, err);
    (void)profile_enter(&train->profile, phase);
    if (r == 0)
        r = profile_close_epoch(&train->profile, &row, &profile, err);
    if (r == 0)
        train_report_epoch(train, &row, profile);
    return r;
}

/* May come twice for an epoch: to verify, all workers have to be at it. A worker that made none of its steps
 * has nothing to tell of it. */
static int train_epoch_end(void *state, uint32_t epoch, struct mst_error *err)
{
    struct train *train = state;
    int r = train_gather(train, err);
    const bool closes = train->closed_epoch < epoch && train->sums.steps > 0;
    if (r == 0 && closes)
        r = close_epoch(train, epoch, err);
    if (r < 0)
        return r;
    train->closed_epoch = epoch;
    (void)profile_enter(&train->profile, TRAIN_VERIFY);
    if (train->world > 1)
        r = trainer_verify_replicas(train->trainer, err);
    (void)profile_enter(&train->profile, TRAIN_VALIDATION);
    if (r == 0)
        r = train_validate(train, epoch, err);
    (void)profile_enter(&train->profile, TRAIN_BETWEEN);
    if (r >= 0 && closes)
        train_show_epoch(train, epoch, r == 1);
    return r;
}

/* ---- the end ---- */

static int train_finish(void *state, struct job_result *ret_result, struct mst_error *err)
{
    struct train *train = state;
    int r = trainer_digest(train->trainer, ret_result->digest, err);
    if (r == 0)
        r = train_report_profile(train, err);
    if (r < 0)
        return r;
    ret_result->step = trainer_steps_done(train->trainer);
    train_report_done(train, ret_result);
    train_show_end(train);
    return 0;
}

#define TRAIN_KIND(how)                                                                                      \
    {                                                                                                        \
        .name = "train", .data = (how), .prepare = train_prepare, .enter = train_enter,                      \
        .position = train_position, .epoch_begin = train_epoch_begin, .step = train_step,                    \
        .epoch_end = train_epoch_end, .save = train_save, .finish = train_finish, .leave = train_leave,      \
        .file = train_file,                                                                                  \
    }

static const struct job_kind train_kinds[] = {
    [JOB_DATA_RING] = TRAIN_KIND(JOB_DATA_RING),
    [JOB_DATA_MESH] = TRAIN_KIND(JOB_DATA_MESH),
};

static int train_open(void *context, const struct agent_site *site, struct job *ret_job,
                      uint8_t ret_key[static MST_SHA256_BYTES], struct mst_error *err)
{
    struct train *train = context;
    train->site = *site;
    train->slot = site->station->slot;
    train->events = &site->station->events;
    train->step_log = (struct mst_buf)MST_BUF_INIT(STEP_LOG_MAX_BYTES);
    profile_begin(&train->profile, site->start_ns, site->config->profile);
    (void)profile_enter(&train->profile, TRAIN_LOAD);
    progress_begin(&train->show, site->config, STDERR_FILENO);
    /* A bar and lines of JSON on one terminal would be neither. */
    if (train->show.shows && train->show.is_terminal && isatty(STDOUT_FILENO))
        train->events->fd = -1;
    int r = train_check_congestion(site->config, err);
    if (r == 0)
        r = open_model_and_data(train, err);
    if (r == 0)
        r = trainer_check_method(train->model, train_method(site->config), err);
    if (r == 0)
        r = make_key(train, ret_key, err);
    if (r == 0 && site->config->init) /* now, so that a wrong file is told at once */
        r = train_prepare(train, err);
    if (r == 0)
        r = restore(train, ret_key, err);
    (void)profile_enter(&train->profile, TRAIN_DISCOVERY);
    if (r < 0)
        return r;
    *ret_job = (struct job){
        .kind = &train_kinds[site->config->exchange == CONFIG_EXCHANGE_RING ? JOB_DATA_RING : JOB_DATA_MESH],
        .state = train,
        .epochs = train->config.epochs,
        .steps_per_epoch = train->config.steps_per_epoch,
    };
    return 0;
}

static void train_begun(void *context)
{
    train_report_restored(context);
}

static void train_stopped(void *context)
{
    train_show_stopped(context);
}

/* Finished by all: a restart has nothing to take up. */
static void train_done(void *context)
{
    struct train *train = context;
    struct mst_error err = MST_ERROR_INIT;
    if (train->checkpoints && trainer_checkpoints_clear(train->checkpoints, &err) < 0)
        mst_log_warn("train", "checkpoints stay: %s", err.text);
}

struct agent_work train_work(struct train *train)
{
    return (struct agent_work){.context = train,
                               .open = train_open,
                               .begun = train_begun,
                               .stopped = train_stopped,
                               .done = train_done,
                               .close = train_close};
}

int agent_train(const struct agent_config *config)
{
    struct train *train = train_new();
    if (!train) {
        struct mst_error err = MST_ERROR_INIT;
        (void)mst_error_set(&err, -ENOMEM, "start: no memory");
        return mst_fail(MST_EXIT_FAILED, &err);
    }
    const struct agent_work work = train_work(train);
    const int status = agent_run(config, &work);
    train_free(train);
    return status;
}
