/* SPDX-License-Identifier: Apache-2.0 */
#include "train.h"

#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/file.h"
#include "muster/log.h"
#include "muster/trainer.h"
#include "report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(CONFIG_RUN_MAX_BYTES <= TRAINER_RUN_MAX_BYTES, "the run's name goes into checkpoints");

#define PROGRESS_EVERY_NS MST_NS_PER_S
#define EXCHANGE_TIMEOUT_MS                                                                                  \
    10000 /* a peer that is gone is told by the mesh long before; this is the last resort */
#define STEP_LOG_MAX_BYTES ((size_t)256 << 20)
#define STEP_LOG_FILE_NAME "steps"
#define FILE_MODE          0644
#define FOLDER_MODE        0755

/* What a worker that was behind must know besides the trainer's state: the sums of the epoch under way, so
 * that its figures are those of all steps. Plain numbers; it goes between machines and into checkpoints, all
 * of one byte order. */
struct shared_sums {
    uint64_t steps;
    double loss, accuracy;
};

struct train {
    struct agent_site site;
    const char *slot;
    struct mst_event_sink *events;
    struct trainer_config config;
    struct trainer_model *model;
    struct trainer_dataset *train_set, *test_set;
    struct trainer *trainer;
    struct trainer_exchange *exchange; /* NULL: alone */
    struct trainer_history *history;
    struct trainer_checkpoints *checkpoints; /* NULL without --state */
    struct mst_buf step_log;

    uint64_t view;
    uint32_t rank, world;
    double trained_s; /* sum over the epochs */
    bool stepped;     /* a step was made since the start */

    uint32_t epoch; /* that the sums are of */
    uint32_t closed_epoch;
    uint64_t epoch_ns;
    struct shared_sums shared; /* over all of the epoch's steps and all workers */
    struct trainer_epoch sums; /* over those made here */
    uint64_t next_progress_ns;
    double last_epoch_loss, last_epoch_accuracy;
    struct trainer_evaluation test;
};

/* "OUT/KIND-SLOT.SUFFIX", the caller's to free; NULL without memory. */
static char *result_path(const struct train *train, const char *kind, const char *suffix)
{
    return mst_format("%s/%s-%s.%s", train->site.config->out, kind, train->slot, suffix);
}

static void train_close(void *context)
{
    struct train *train = context;
    trainer_checkpoints_free(train->checkpoints);
    trainer_free(train->trainer);
    trainer_exchange_free(train->exchange);
    trainer_history_free(train->history);
    trainer_model_free(train->model);
    trainer_dataset_free(train->train_set);
    trainer_dataset_free(train->test_set);
    mst_buf_release(&train->step_log);
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

static int train_position_epoch(const struct train *train)
{
    return (int)(trainer_steps_done(train->trainer) / train->config.steps_per_epoch) + 1;
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
    struct trainer_checkpoint checkpoint;
    if (!config->state)
        return 0;
    int r = trainer_checkpoints_open(config->state, key, config->run, &train->checkpoints, err);
    if (r == 0)
        r = trainer_checkpoints_restore(train->checkpoints, train->trainer, &train->shared,
                                        sizeof train->shared, checkpoint_skipped, NULL, &checkpoint, err);
    if (r <= 0)
        return r < 0 ? mst_error_wrap(err, r, "folder for state '%s' (option '--state')", config->state) : 0;
    struct report report = report_begin(train->events, "restored");
    report_number(&report, "step", (double)checkpoint.step);
    report_text(&report, "file", checkpoint.name);
    report_send(&report);
    train->epoch = (uint32_t)train_position_epoch(train);
    return 0;
}

static int open_model_and_data(struct train *train, struct mst_error *err)
{
    const struct agent_config *config = train->site.config;
    int r = trainer_model_read(config->model, &train->model, err);
    if (r == 0)
        r = trainer_dataset_open_folder(config->data, &train->train_set, &train->test_set, err);
    if (r < 0)
        return r;
    train->config = (struct trainer_config){
        .model = train->model,
        .train = train->train_set,
        .test = train->test_set,
        .batch = config->batch,
        .shards = config->workers_max,
        .lr = config->lr,
        .momentum = config->momentum,
        .seed = config->seed,
        .steps_per_epoch = config->steps,
        .epochs = config->epochs,
        .threads = config->threads,
    };
    r = trainer_new(&train->config, &train->trainer, err);
    return r < 0 ? mst_error_wrap(err, r, "model '%s' on data '%s'", config->model, config->data) : 0;
}

/* Workers that exchange gradients in different ways must not meet either. */
static int make_key(const struct train *train, uint8_t ret_key[static MST_SHA256_BYTES],
                    struct mst_error *err)
{
    uint8_t pieces[MST_SHA256_BYTES + 1];
    const int r = trainer_config_digest(&train->config, pieces, err);
    pieces[MST_SHA256_BYTES] = train->site.config->ring;
    return r < 0 ? r : mst_sha256(pieces, sizeof pieces, ret_key, err);
}

static int make_history(struct train *train, struct mst_error *err)
{
    mst_cleanup(mst_freep) char *path = result_path(train, "history", "csv");
    if (!path)
        return mst_error_set(err, -ENOMEM, "name the history file: no memory");
    const int r = mst_make_folders(train->site.config->out, FOLDER_MODE, err);
    return r < 0 ? r : trainer_history_new(path, train->slot, &train->history, err);
}

static uint64_t train_position(void *state)
{
    const struct train *train = state;
    return trainer_steps_done(train->trainer);
}

/* ---- entering and leaving a view ---- */

static int enter_ring(struct train *train, struct job_view *view, struct mst_error *err)
{
    const uint32_t next = (view->rank + 1) % view->world;
    const uint32_t previous = (view->rank + view->world - 1) % view->world;
    if (view->world == 1)
        return 0;
    const struct trainer_ring_options options = {
        .fd_prev = view->fds_in[previous],
        .fd_next = view->fds_out[next],
        .cancel_fd = view->cancel_fd,
        .rank = view->rank,
        .world = view->world,
        .timeout_ms = EXCHANGE_TIMEOUT_MS,
        .view = (uint32_t)view->view,
        .job_key = view->key,
    };
    const int r = trainer_ring_new(&options, &train->exchange, err);
    if (r == 0)
        view->fds_in[previous] = view->fds_out[next] = -1;
    return r;
}

static int enter_direct(struct train *train, struct job_view *view, struct mst_error *err)
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
    };
    const int r = trainer_direct_new(&options, &train->exchange, err);
    for (uint32_t rank = 0; r == 0 && rank < view->world; rank++)
        view->fds_out[rank] = -1;
    return r;
}

/* The others count this worker's state as that of another job: it starts anew, to take theirs. */
static int forget_state(struct train *train, struct mst_error *err)
{
    trainer_free(train->trainer);
    train->trainer = NULL;
    train->shared = (struct shared_sums){0};
    return trainer_new(&train->config, &train->trainer, err);
}

static int synchronise(struct train *train, const struct job_view *view, struct mst_error *err)
{
    struct trainer_synchronised synchronised = {0};
    int r = trainer_synchronise(train->trainer, view->steps, &train->shared, sizeof train->shared,
                                &synchronised, err);
    if (r < 0)
        return mst_error_wrap(err, r, "make the workers' states equal");
    if (synchronised.took) {
        train->sums = (struct trainer_epoch){0};
        train->epoch = (uint32_t)train_position_epoch(train);
        train->epoch_ns = mst_now_ns();
    }
    bool any_behind = false;
    for (uint32_t rank = 0; rank < view->world; rank++)
        any_behind = any_behind || view->steps[rank] != synchronised.step;
    if (!any_behind)
        return 0;
    struct report report = report_begin(train->events, "state");
    report_bool(&report, "took", synchronised.took);
    report_number(&report, "step", (double)synchronised.step);
    report_number(&report, "bytes", (double)synchronised.bytes);
    report_number(&report, "ms", synchronised.ms);
    report_send(&report);
    return 0;
}

static int train_enter(void *state, struct job_view *view, struct mst_error *err)
{
    struct train *train = state;
    int r = 0;
    train->view = view->view;
    train->rank = view->rank;
    train->world = view->world;
    if (!train->history)
        r = make_history(train, err);
    if (r == 0 && view->steps[view->rank] != trainer_steps_done(train->trainer))
        r = forget_state(train, err);
    if (r == 0)
        r = train->site.config->ring ? enter_ring(train, view, err) : enter_direct(train, view, err);
    if (r == 0)
        r = trainer_set_exchange(train->trainer, train->exchange, err);
    if (r == 0 && view->world > 1)
        r = synchronise(train, view, err);
    return r;
}

static void train_leave(void *state)
{
    struct train *train = state;
    struct mst_error err = MST_ERROR_INIT;
    if (train->trainer && trainer_set_exchange(train->trainer, NULL, &err) < 0)
        mst_log_error("train", "leave the exchange: %s", err.text);
    trainer_exchange_free(train->exchange);
    train->exchange = NULL;
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
    if (anew)
        train->shared = (struct shared_sums){0};
    return 0;
}

static void report_progress(struct train *train)
{
    const uint64_t now_ns = mst_now_ns();
    if (!train->stepped) {
        train->stepped = true;
        struct report report = report_begin(train->events, "first_step");
        report_number(&report, "since_start_ms", mst_ms_since(train->site.start_ns));
        report_number(&report, "step", (double)trainer_steps_done(train->trainer));
        report_send(&report);
        train->next_progress_ns = now_ns + PROGRESS_EVERY_NS;
    }
    if (now_ns < train->next_progress_ns)
        return;
    train->next_progress_ns = now_ns + PROGRESS_EVERY_NS;
    struct report report = report_begin(train->events, "progress");
    report_number(&report, "view", (double)train->view);
    report_number(&report, "rank", train->rank);
    report_number(&report, "world", train->world);
    report_number(&report, "epoch", train->epoch);
    report_number(&report, "epochs", train->config.epochs);
    report_number(&report, "step", (double)train->shared.steps);
    report_number(&report, "steps", train->config.steps_per_epoch);
    report_number(&report, "loss", train->shared.loss / (double)train->shared.steps);
    report_number(&report, "accuracy", train->shared.accuracy / (double)train->shared.steps);
    report_number(&report, "ms_per_step", train->sums.total_ms / (double)train->sums.steps);
    report_send(&report);
}

static int log_step(struct train *train, const struct trainer_step_stats *stats, struct mst_error *err)
{
    if (!train->site.config->step_log)
        return 0;
    int r = 0;
    if (train->step_log.count == 0)
        r = mst_buf_append_text(&train->step_log,
                                "slot,rank,view,epoch,step,ms,loss,accuracy,compute_ms,wait_ms,"
                                "transfer_ms,bytes_sent\n");
    if (r == 0)
        r = mst_buf_printf(
            &train->step_log,
            "%s,%" PRIu32 ",%" PRIu64 ",%" PRIu32 ",%" PRIu64 ",%.3f,%.6f,%.6f,%.3f,%.3f,%.3f,%" PRIu64 "\n",
            train->slot, train->rank, train->view, train->epoch, stats->step, stats->total_ms, stats->loss,
            stats->accuracy, stats->compute_ms, stats->wait_ms, stats->transfer_ms, stats->bytes_sent);
    return r < 0 ? mst_error_errno(err, r, "log step %" PRIu64, stats->step) : 0;
}

/* A checkpoint that cannot be written costs nothing now: the training goes on, and says so. */
static void report_checkpoint(struct train *train)
{
    struct mst_error err = MST_ERROR_INIT;
    struct trainer_checkpoint checkpoint;
    const int r = trainer_checkpoints_result(train->checkpoints, false, &checkpoint, &err);
    if (r < 0)
        mst_log_warn("train", "no checkpoint was written: %s", err.text);
    if (r <= 0)
        return;
    struct report report = report_begin(train->events, "checkpoint");
    report_number(&report, "step", (double)checkpoint.step);
    report_number(&report, "bytes", (double)checkpoint.bytes);
    report_number(&report, "ms", checkpoint.ms);
    report_send(&report);
}

/* Every so many steps. One that comes while the one before is still being written is left out. */
static void write_checkpoint(struct train *train)
{
    struct mst_error err = MST_ERROR_INIT;
    const uint32_t asked = train->site.config->checkpoint_steps;
    const uint32_t every = asked > 0 ? asked : train->config.steps_per_epoch;
    if (!train->checkpoints)
        return;
    report_checkpoint(train);
    if (trainer_steps_done(train->trainer) % every == 0 &&
        trainer_checkpoints_write(train->checkpoints, train->trainer, &train->shared, sizeof train->shared,
                                  &err) < 0)
        mst_log_warn("train", "no checkpoint was begun: %s", err.text);
}

static int train_step(void *state, bool pause, struct mst_error *err)
{
    struct train *train = state;
    struct trainer_step_stats stats;
    int r = trainer_step(train->trainer, pause, &stats, err);
    if (r < 0)
        return mst_error_wrap(err, r, "epoch %" PRIu32 ", step %" PRIu64, train->epoch,
                              train->shared.steps + 1);
    trainer_epoch_add(&train->sums, &stats);
    train->shared.steps++;
    train->shared.loss += stats.loss;
    train->shared.accuracy += stats.accuracy;
    report_progress(train);
    write_checkpoint(train);
    r = log_step(train, &stats, err);
    return r < 0 ? r : stats.paused;
}

static void report_epoch(const struct train *train, const struct trainer_history_row *row)
{
    struct report report = report_begin(train->events, "epoch");
    report_number(&report, "epoch", row->epoch);
    report_number(&report, "epochs", train->config.epochs);
    report_number(&report, "steps", (double)row->steps);
    report_number(&report, "seconds", row->seconds);
    report_number(&report, "ms_per_step", 1000 * row->seconds / (double)row->steps);
    report_number(&report, "loss", row->loss);
    report_number(&report, "accuracy", row->accuracy);
    report_number(&report, "wait_ms", row->wait_ms);
    report_number(&report, "transfer_ms", row->transfer_ms);
    report_number(&report, "compute_ms", row->compute_ms);
    report_number(&report, "bytes_sent", (double)row->bytes_sent);
    report_send(&report);
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
    const int r = trainer_history_append(train->history, &row, err);
    if (r == 0)
        report_epoch(train, &row);
    return r;
}

/* May come twice for an epoch: to verify, all workers have to be at it. A worker that made none of its steps
 * has nothing to tell of it. */
static int train_epoch_end(void *state, uint32_t epoch, struct mst_error *err)
{
    struct train *train = state;
    int r = 0;
    if (train->closed_epoch < epoch && train->sums.steps > 0)
        r = close_epoch(train, epoch, err);
    if (r < 0)
        return r;
    train->closed_epoch = epoch;
    return train->world > 1 ? trainer_verify_replicas(train->trainer, err) : 0;
}

/* ---- the end ---- */

static int train_save(void *state, struct mst_error *err)
{
    struct train *train = state;
    struct trainer_saved saved;
    mst_cleanup(mst_freep) char *path = mst_path_join(train->site.config->out, "model.safetensors");
    if (!path)
        return mst_error_set(err, -ENOMEM, "name the model file: no memory");
    int r = trainer_save(train->trainer, path, &saved, err);
    if (r < 0)
        return r;
    struct report report = report_begin(train->events, "saved");
    report_text(&report, "file", path);
    report_number(&report, "bytes", (double)saved.bytes);
    report_text(&report, "digest", saved.digest);
    report_send(&report);
    if (!train->site.config->step_log)
        return 0;

    mst_cleanup(mst_freep) char *log_path = result_path(train, STEP_LOG_FILE_NAME, "csv");
    if (!log_path)
        return mst_error_set(err, -ENOMEM, "name the step log: no memory");
    return mst_file_write_atomic(log_path, mst_buf_text(&train->step_log), train->step_log.count, FILE_MODE,
                                 err);
}

static int train_finish(void *state, struct job_result *ret_result, struct mst_error *err)
{
    struct train *train = state;
    char digest[MST_SHA256_HEX_BYTES];
    int r = trainer_evaluate(train->trainer, &train->test, err);
    if (r == 0)
        r = trainer_digest(train->trainer, ret_result->digest, err);
    if (r < 0)
        return r;
    ret_result->step = trainer_steps_done(train->trainer);
    mst_hex(ret_result->digest, sizeof ret_result->digest, digest);

    if (train->rank == 0) {
        struct report report = report_begin(train->events, "test");
        report_number(&report, "accuracy", train->test.accuracy);
        report_number(&report, "loss", train->test.loss);
        report_number(&report, "images", (double)train->test.images);
        report_send(&report);
    }
    struct report report = report_begin(train->events, "done");
    report_number(&report, "seconds", train->trained_s);
    report_number(&report, "epochs", train->config.epochs);
    report_number(&report, "steps", (double)ret_result->step);
    report_text(&report, "digest", digest);
    report_number(&report, "loss", train->last_epoch_loss);
    report_number(&report, "accuracy", train->last_epoch_accuracy);
    report_number(&report, "test_accuracy", train->test.accuracy);
    report_send(&report);
    return 0;
}

/* Every worker hands on its history and its list of hosts; the models are equal, so one is enough. */
static int train_file(void *state, size_t index, struct job_file *ret_file, struct mst_error *err)
{
    const struct train *train = state;
    mst_cleanup(mst_freep) char *ips = result_path(train, "ips", "xml");
    const struct {
        bool wanted;
        const char *kind, *suffix;
    } files[] = {
        {true, "history", "csv"},
        {train->site.config->step_log, STEP_LOG_FILE_NAME, "csv"},
        {train->rank == 0, NULL, NULL}, /* the model */
        /* Last, for it may come late: the agent writes it when its first sweep is complete, and a training of
         * a few steps may be over before that. */
        {ips && access(ips, R_OK) == 0, "ips", "xml"},
    };
    mst_cleanup(job_file_release) struct job_file file = {0};
    size_t next = 0;
    for (size_t f = 0; f < MST_ARRAY_COUNT(files); f++) {
        if (!files[f].wanted || next++ != index)
            continue;
        file.name = files[f].kind ? mst_format("%s-%s.%s", files[f].kind, train->slot, files[f].suffix)
                                  : strdup("model.safetensors");
        file.path = file.name ? mst_path_join(train->site.config->out, file.name) : NULL;
        if (!file.path)
            return mst_error_set(err, -ENOMEM, "name a result file: no memory");
        *ret_file = file;
        file = (struct job_file){0};
        return 1;
    }
    return 0;
}

#define TRAIN_KIND(how)                                                                                      \
    {                                                                                                        \
        .name = "train", .data = (how), .enter = train_enter, .position = train_position,                    \
        .epoch_begin = train_epoch_begin, .step = train_step, .epoch_end = train_epoch_end,                  \
        .save = train_save, .finish = train_finish, .leave = train_leave, .file = train_file,                \
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
    int r = open_model_and_data(train, err);
    if (r == 0)
        r = make_key(train, ret_key, err);
    if (r == 0)
        r = restore(train, ret_key, err);
    if (r < 0)
        return r;
    *ret_job = (struct job){
        .kind = &train_kinds[site->config->ring ? JOB_DATA_RING : JOB_DATA_MESH],
        .state = train,
        .epochs = train->config.epochs,
        .steps_per_epoch = train->config.steps_per_epoch,
    };
    return 0;
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
    return (struct agent_work){
        .context = train, .open = train_open, .done = train_done, .close = train_close};
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
