/* SPDX-License-Identifier: Apache-2.0 */
/* How the training goes, as events on stdout, and the step log. */
#include "muster/clock.h"
#include "muster/log.h"
#include "report.h"
#include "train_private.h"

#include <inttypes.h>
#include <stdio.h>

#define PROGRESS_EVERY_NS MST_NS_PER_S
#define STEP_LOG_HEADER   "slot,rank,view,epoch,step,ms,loss,accuracy,compute_ms,wait_ms,transfer_ms,bytes_sent"
#define STEP_LOG_PROFILE  ",time,between_ms,slowest"

void train_report_restored(struct train *train)
{
    const struct trainer_checkpoint *checkpoint = &train->restored;
    if (checkpoint->name[0] == '\0')
        return;
    struct report report = report_begin(train->events, "restored");
    report_number(&report, "step", (double)checkpoint->step);
    report_text(&report, "file", checkpoint->name);
    report_send(&report);
    progress_say(&train->show, "it goes on at epoch %" PRIu32 "/%" PRIu32 ", after step %" PRIu64 ": %s/%s",
                 train->epoch, train->config.epochs, checkpoint->step, train->site.config->state,
                 checkpoint->name);
}

void train_report_state(struct train *train, const struct trainer_synchronised *synchronised)
{
    struct report report = report_begin(train->events, "state");
    report_bool(&report, "took", synchronised->took);
    report_number(&report, "step", (double)synchronised->step);
    report_number(&report, "bytes", (double)synchronised->bytes);
    report_number(&report, "ms", synchronised->ms);
    report_send(&report);
}

static bool has_accuracy(const struct train *train)
{
    return trainer_dataset_classes(train->data.train) > 0;
}

/* After a step, or at the end of an epoch. */
static struct train_place place_of(const struct train *train, uint32_t epoch)
{
    return (struct train_place){
        .epoch = epoch,
        .epochs = train->config.epochs,
        .step = train->shared.steps,
        .steps = train->config.steps_per_epoch,
        .made = train->sums.steps,
        .done = trainer_steps_done(train->trainer),
        .all = trainer_steps_wanted(train->trainer),
        .loss = train->shared.loss / (double)train->shared.steps,
        .accuracy = train->shared.accuracy / (double)train->shared.steps,
        .has_accuracy = has_accuracy(train),
        .ms_per_step = train->sums.total_ms / (double)train->sums.steps,
        .samples = (uint64_t)train->config.batch * train->config.shards,
    };
}

void train_report_progress(struct train *train)
{
    const uint64_t now_ns = mst_now_ns();
    if (train->show.shows) {
        const struct train_place place = place_of(train, train->epoch);
        progress_step(&train->show, &place);
    }
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

int train_log_step(struct train *train, const struct trainer_step_stats *stats, double between_ms,
                   struct mst_error *err)
{
    const bool profiles = train->site.config->profile;
    if (!train->site.config->step_log)
        return 0;
    int r = 0;
    if (train->step_log.count == 0)
        r = mst_buf_printf(&train->step_log, "%s%s\n", STEP_LOG_HEADER, profiles ? STEP_LOG_PROFILE : "");
    if (r == 0)
        r = mst_buf_printf(
            &train->step_log,
            "%s,%" PRIu32 ",%" PRIu64 ",%" PRIu32 ",%" PRIu64 ",%.3f,%.6f,%.6f,%.3f,%.3f,%.3f,%" PRIu64,
            train->slot, train->rank, train->view, train->epoch, stats->step, stats->total_ms, stats->loss,
            stats->accuracy, stats->compute_ms, stats->wait_ms, stats->transfer_ms, stats->bytes_sent);
    const char *slowest = profile_waited_for(&train->profile, stats);
    if (r == 0 && profiles)
        r = mst_buf_printf(&train->step_log, ",%.3f,%.3f,%s", mst_wall_s(), between_ms,
                           slowest ? slowest : "");
    if (r == 0)
        r = mst_buf_append_text(&train->step_log, "\n");
    return r < 0 ? mst_error_errno(err, r, "log step %" PRIu64, stats->step) : 0;
}

/* A checkpoint that cannot be written costs nothing now: the training goes on, and says so. */
void train_report_checkpoint(struct train *train)
{
    struct mst_error err = MST_ERROR_INIT;
    struct trainer_checkpoint checkpoint;
    const int r = trainer_checkpoints_result(train->checkpoints, false, &checkpoint, &err);
    if (r < 0)
        mst_log_warn("train", "no checkpoint was written: %s", err.text);
    if (r <= 0)
        return;
    train->kept_step = checkpoint.step;
    struct report report = report_begin(train->events, "checkpoint");
    report_number(&report, "step", (double)checkpoint.step);
    report_number(&report, "bytes", (double)checkpoint.bytes);
    report_number(&report, "ms", checkpoint.ms);
    report_send(&report);
}

void train_report_epoch(const struct train *train, const struct trainer_history_row *row,
                        const struct profile_epoch *profile)
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
    report_number(&report, "samples_per_s",
                  profile_rate(row->steps * train->config.batch * train->config.shards, 1000 * row->seconds));
    if (profile)
        profile_tell_epoch(&train->profile, profile, &report);
    report_send(&report);
}

void train_show_epoch(struct train *train, uint32_t epoch, bool stops)
{
    struct train_place place = place_of(train, epoch);
    if (stops)
        place.all = place.done;
    progress_epoch(&train->show, &place, train->last_epoch_s,
                   train->data.validation ? &train->validated : NULL);
    if (stops)
        progress_say(&train->show,
                     "stopped after epoch %" PRIu32 "/%" PRIu32 ": no better validation loss in %" PRIu32
                     " epochs",
                     epoch, train->config.epochs, train->patience);
}

/* With --patience there are two models, and they need not be the same. */
static void show_best(struct train *train)
{
    if (train->patience == 0 || train->pending.best_epoch == 0)
        return;
    if (train->pending.best_epoch == train->pending.epoch) {
        progress_say(&train->show, "epoch %" PRIu64 ", the last, was the best in validation",
                     train->pending.best_epoch);
        return;
    }
    progress_say(&train->show,
                 "epoch %" PRIu64
                 " was the best in validation: its parameters are in %s/%s; those in %s%s are "
                 "of the last epoch",
                 train->pending.best_epoch, train->site.config->out, TRAIN_BEST_FILE_NAME,
                 TRAIN_MODEL_FILE_NAME, train->data.test ? ", and the test," : "");
}

void train_show_end(struct train *train)
{
    if (train->data.test && has_accuracy(train))
        progress_line(&train->show, "test: accuracy %.4f, loss %.4f, of %" PRIu64 " samples",
                      train->test.accuracy, train->test.loss, train->test.images);
    else if (train->data.test)
        progress_line(&train->show, "test: loss %.6g, of %" PRIu64 " samples", train->test.loss,
                      train->test.images);
    progress_line(&train->show, "the model is in %s/%s", train->site.config->out, TRAIN_MODEL_FILE_NAME);
    show_best(train);
}

void train_show_stopped(struct train *train)
{
    const char *folder = train->site.config->state;
    struct mst_error err = MST_ERROR_INIT;
    struct trainer_checkpoint last;
    const uint64_t step = train->trainer ? trainer_steps_done(train->trainer) : 0;
    const int r = train->checkpoints ? trainer_checkpoints_result(train->checkpoints, true, &last, &err) : 0;
    if (r < 0)
        mst_log_warn("train", "no checkpoint was written: %s", err.text);
    if (r > 0)
        train->kept_step = last.step;
    if (train->kept_step > 0)
        progress_say(&train->show,
                     "stopped after step %" PRIu64
                     ": the same command goes on from the checkpoint of step %" PRIu64 " in %s",
                     step, train->kept_step, folder);
    else if (folder)
        progress_say(&train->show,
                     "stopped after step %" PRIu64
                     ", before the first checkpoint (option '--checkpoint-steps'): "
                     "the same command begins anew",
                     step);
    else
        progress_say(&train->show,
                     "stopped after step %" PRIu64
                     ", and nothing is kept of it: with option '--state DIR' the "
                     "same command would go on",
                     step);
}

/* Tables are for people: a log of JSON lines has none. */
int train_report_profile(struct train *train, struct mst_error *err)
{
    struct report report = report_begin(train->events, "profile");
    int r = profile_tell(&train->profile, &report, err);
    report_send(&report);
    if (r == 0 && train->profile.detailed && train->site.config->log_format == MST_LOG_TEXT) {
        progress_clear(&train->show);
        r = profile_print(&train->profile, stderr, err);
    }
    return r;
}

void train_report_validation(struct train *train, const struct trainer_evaluation *result, bool stops)
{
    struct report report = report_begin(train->events, "validation");
    report_number(&report, "epoch", (double)train->pending.epoch);
    report_number(&report, "loss", result->loss);
    report_number(&report, "accuracy", result->accuracy);
    report_number(&report, "images", (double)result->images);
    report_number(&report, "best_epoch", (double)train->pending.best_epoch);
    report_bool(&report, "stops", stops);
    report_send(&report);
}

void train_report_saved(struct train *train, const char *path, const struct trainer_saved *saved)
{
    struct report report = report_begin(train->events, "saved");
    report_text(&report, "file", path);
    report_number(&report, "bytes", (double)saved->bytes);
    report_text(&report, "digest", saved->digest);
    report_send(&report);
}

void train_report_done(struct train *train, const struct job_result *result)
{
    char digest[MST_SHA256_HEX_BYTES];
    mst_hex(result->digest, sizeof result->digest, digest);

    if (train->rank == 0 && train->data.test) {
        struct report report = report_begin(train->events, "test");
        report_number(&report, "accuracy", train->test.accuracy);
        report_number(&report, "loss", train->test.loss);
        report_number(&report, "images", (double)train->test.images);
        report_send(&report);
    }
    struct report report = report_begin(train->events, "done");
    report_number(&report, "seconds", train->trained_s);
    report_number(&report, "epochs", (double)(result->step / train->config.steps_per_epoch));
    report_number(&report, "steps", (double)result->step);
    report_text(&report, "digest", digest);
    report_number(&report, "loss", train->last_epoch_loss);
    report_number(&report, "accuracy", train->last_epoch_accuracy);
    if (train->data.test)
        report_number(&report, "test_accuracy", train->test.accuracy);
    report_send(&report);
}
