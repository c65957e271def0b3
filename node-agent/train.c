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

#define PROGRESS_EVERY_NS MST_NS_PER_S
#define RING_TIMEOUT_MS                                                                                      \
    10000 /* a peer that is gone is told by the mesh long before; this is the last resort */
#define STEP_LOG_MAX_BYTES ((size_t)256 << 20)
#define STEP_LOG_FILE_NAME "steps"
#define FILE_MODE          0644
#define FOLDER_MODE        0755

struct train {
    struct train_options options;
    struct trainer_config config;
    struct trainer_model *model;
    struct trainer_dataset *train_set, *test_set;
    struct trainer *trainer;
    struct trainer_exchange *exchange; /* NULL for one worker */
    struct trainer_history *history;
    struct mst_buf step_log;

    struct job_view view; /* numbers only; the sockets are the exchange's */
    double trained_s;     /* sum over the epochs */
    uint32_t epoch;
    uint64_t epoch_ns;
    struct trainer_epoch sums;
    uint64_t next_progress_ns;
    struct trainer_step_stats last;
    double last_epoch_loss, last_epoch_accuracy;
    struct trainer_evaluation test;
};

/* "OUT/KIND-SLOT.SUFFIX", the caller's to free; NULL without memory. */
static char *result_path(const struct train *train, const char *kind, const char *suffix)
{
    return mst_format("%s/%s-%s.%s", train->options.config->out, kind, train->options.slot, suffix);
}

void train_free(struct train *train)
{
    if (!train)
        return;
    trainer_free(train->trainer);
    trainer_exchange_free(train->exchange);
    trainer_history_free(train->history);
    trainer_model_free(train->model);
    trainer_dataset_free(train->train_set);
    trainer_dataset_free(train->test_set);
    mst_buf_release(&train->step_log);
    free(train);
}

int train_new(const struct train_options *options, struct train **ret_train, struct mst_error *err)
{
    const struct agent_config *config = options->config;
    struct train *train = calloc(1, sizeof *train);
    if (!train)
        return mst_error_set(err, -ENOMEM, "prepare the training: no memory");
    train->options = *options;
    train->step_log = (struct mst_buf)MST_BUF_INIT(STEP_LOG_MAX_BYTES);
    int r = trainer_model_read(config->model, &train->model, err);
    if (r == 0)
        r = trainer_dataset_open_folder(config->data, &train->train_set, &train->test_set, err);
    if (r == 0) {
        train->config = (struct trainer_config){
            .model = train->model,
            .train = train->train_set,
            .test = train->test_set,
            .batch = config->batch,
            .shards = config->workers,
            .lr = config->lr,
            .momentum = config->momentum,
            .seed = config->seed,
            .steps_per_epoch = config->steps,
            .epochs = config->epochs,
            .threads = config->threads,
        };
        r = trainer_new(&train->config, &train->trainer, err);
        if (r < 0)
            r = mst_error_wrap(err, r, "model '%s' on data '%s'", config->model, config->data);
    }
    if (r < 0) {
        train_free(train);
        return r;
    }
    *ret_train = train;
    return 0;
}

int train_key(const struct train *train, uint8_t ret_key[static MST_SHA256_BYTES], struct mst_error *err)
{
    return trainer_config_digest(&train->config, ret_key, err);
}

static int train_prepare(void *state, struct job_view *view, struct mst_error *err)
{
    struct train *train = state;
    train->view = *view;
    mst_cleanup(mst_freep) char *path = result_path(train, "history", "csv");
    if (!path)
        return mst_error_set(err, -ENOMEM, "name the history file: no memory");
    int r = mst_make_folders(train->options.config->out, FOLDER_MODE, err);
    if (r == 0)
        r = trainer_history_new(path, train->options.slot, &train->history, err);
    if (r < 0 || view->world == 1)
        return r;

    const struct trainer_ring_options ring = {
        .fd_prev = view->fd_prev,
        .fd_next = view->fd_next,
        .cancel_fd = view->cancel_fd,
        .rank = view->rank,
        .world = view->world,
        .timeout_ms = RING_TIMEOUT_MS,
        .view = (uint32_t)view->view,
        .job_key = view->key,
    };
    r = trainer_ring_new(&ring, &train->exchange, err);
    if (r < 0)
        return r;
    view->fd_prev = -1;
    view->fd_next = -1;
    return trainer_set_exchange(train->trainer, train->exchange, err);
}

static int train_epoch_begin(void *state, uint32_t epoch, struct mst_error *err)
{
    struct train *train = state;
    (void)err;
    train->epoch = epoch;
    train->epoch_ns = mst_now_ns();
    train->sums = (struct trainer_epoch){0};
    return 0;
}

static void report_progress(struct train *train)
{
    const uint64_t now_ns = mst_now_ns();
    if (trainer_steps_done(train->trainer) == 1) {
        struct report report = report_begin(train->options.events, "first_step");
        report_number(&report, "since_start_ms", mst_ms_since(train->options.start_ns));
        report_send(&report);
        train->next_progress_ns = now_ns + PROGRESS_EVERY_NS;
    }
    if (now_ns < train->next_progress_ns)
        return;
    train->next_progress_ns = now_ns + PROGRESS_EVERY_NS;
    struct report report = report_begin(train->options.events, "progress");
    report_number(&report, "epoch", train->epoch);
    report_number(&report, "epochs", train->config.epochs);
    report_number(&report, "step", (double)train->sums.steps);
    report_number(&report, "steps", train->config.steps_per_epoch);
    report_number(&report, "loss", train->sums.loss_sum / (double)train->sums.steps);
    report_number(&report, "accuracy", train->sums.accuracy_sum / (double)train->sums.steps);
    report_number(&report, "ms_per_step", train->sums.total_ms / (double)train->sums.steps);
    report_send(&report);
}

static int log_step(struct train *train, const struct trainer_step_stats *stats, struct mst_error *err)
{
    if (!train->options.config->step_log)
        return 0;
    int r = 0;
    if (train->step_log.count == 0)
        r = mst_buf_append_text(&train->step_log,
                                "slot,rank,view,epoch,step,ms,loss,accuracy,compute_ms,wait_ms,"
                                "transfer_ms,bytes_sent\n");
    if (r == 0)
        r = mst_buf_printf(&train->step_log,
                           "%s,%" PRIu32 ",%" PRIu64 ",%" PRIu32 ",%" PRIu64
                           ",%.3f,%.6f,%.6f,%.3f,%.3f,%.3f,%" PRIu64 "\n",
                           train->options.slot, train->view.rank, train->view.view, train->epoch, stats->step,
                           stats->total_ms, stats->loss, stats->accuracy, stats->compute_ms, stats->wait_ms,
                           stats->transfer_ms, stats->bytes_sent);
    return r < 0 ? mst_error_errno(err, r, "log step %" PRIu64, stats->step) : 0;
}

static int train_step(void *state, struct mst_error *err)
{
    struct train *train = state;
    struct trainer_step_stats stats;
    int r = trainer_step(train->trainer, &stats, err);
    if (r < 0)
        return mst_error_wrap(err, r, "epoch %" PRIu32 ", step %" PRIu64, train->epoch,
                              train->sums.steps + 1);
    trainer_epoch_add(&train->sums, &stats);
    train->last = stats;
    report_progress(train);
    return log_step(train, &stats, err);
}

static void report_epoch(const struct train *train, const struct trainer_history_row *row)
{
    struct report report = report_begin(train->options.events, "epoch");
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

static int train_epoch_end(void *state, uint32_t epoch, struct mst_error *err)
{
    struct train *train = state;
    const struct trainer_epoch *sums = &train->sums;
    const struct trainer_history_row row = {
        .rank = train->view.rank,
        .view = (uint32_t)train->view.view,
        .epoch = epoch,
        .steps = sums->steps,
        .seconds = (double)(mst_now_ns() - train->epoch_ns) / 1e9,
        .loss = sums->loss_sum / (double)sums->steps,
        .accuracy = sums->accuracy_sum / (double)sums->steps,
        .wait_ms = sums->wait_ms,
        .transfer_ms = sums->transfer_ms,
        .compute_ms = sums->compute_ms,
        .bytes_sent = sums->bytes_sent,
    };
    train->trained_s += row.seconds;
    train->last_epoch_loss = row.loss;
    train->last_epoch_accuracy = row.accuracy;
    int r = trainer_history_append(train->history, &row, err);
    if (r < 0)
        return r;
    report_epoch(train, &row);
    return train->exchange ? trainer_verify_replicas(train->trainer, err) : 0;
}

static int train_save(void *state, struct mst_error *err)
{
    struct train *train = state;
    struct trainer_saved saved;
    mst_cleanup(mst_freep) char *path = mst_path_join(train->options.config->out, "model.safetensors");
    if (!path)
        return mst_error_set(err, -ENOMEM, "name the model file: no memory");
    int r = trainer_save(train->trainer, path, &saved, err);
    if (r < 0)
        return r;
    struct report report = report_begin(train->options.events, "saved");
    report_text(&report, "file", path);
    report_number(&report, "bytes", (double)saved.bytes);
    report_text(&report, "digest", saved.digest);
    report_send(&report);
    if (!train->options.config->step_log)
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

    if (train->view.rank == 0) {
        struct report report = report_begin(train->options.events, "test");
        report_number(&report, "accuracy", train->test.accuracy);
        report_number(&report, "loss", train->test.loss);
        report_number(&report, "images", (double)train->test.images);
        report_send(&report);
    }
    struct report report = report_begin(train->options.events, "done");
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
        {train->options.config->step_log, STEP_LOG_FILE_NAME, "csv"},
        {train->view.rank == 0, NULL, NULL}, /* the model */
        /* Last, for it may come late: the agent writes it when its first sweep is complete, and a training of
         * a few steps may be over before that. */
        {ips && access(ips, R_OK) == 0, "ips", "xml"},
    };
    mst_cleanup(job_file_release) struct job_file file = {0};
    size_t next = 0;
    for (size_t f = 0; f < MST_ARRAY_COUNT(files); f++) {
        if (!files[f].wanted || next++ != index)
            continue;
        file.name = files[f].kind
                        ? mst_format("%s-%s.%s", files[f].kind, train->options.slot, files[f].suffix)
                        : strdup("model.safetensors");
        file.path = file.name ? mst_path_join(train->options.config->out, file.name) : NULL;
        if (!file.path)
            return mst_error_set(err, -ENOMEM, "name a result file: no memory");
        *ret_file = file;
        file = (struct job_file){0};
        return 1;
    }
    return 0;
}

static const struct job_kind train_kind = {
    .name = "train",
    .prepare = train_prepare,
    .epoch_begin = train_epoch_begin,
    .step = train_step,
    .epoch_end = train_epoch_end,
    .save = train_save,
    .finish = train_finish,
    .file = train_file,
};

struct job train_job(struct train *train)
{
    return (struct job){
        .kind = &train_kind,
        .state = train,
        .epochs = train->config.epochs,
        .steps_per_epoch = train->config.steps_per_epoch,
    };
}
