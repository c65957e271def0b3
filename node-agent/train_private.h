/* SPDX-License-Identifier: Apache-2.0 */
/* The training job's insides, for its files: train.c drives the trainer, train_view.c enters and leaves
 * views, train_exchange.c connects their workers, train_report.c tells how it goes, train_files.c writes and
 * hands on the results. */
#ifndef AGENT_TRAIN_PRIVATE_H
#define AGENT_TRAIN_PRIVATE_H

#include "job.h"
#include "muster/buf.h"
#include "muster/event.h"
#include "muster/trainer.h"
#include "train.h"
#include "train_profile.h"
#include "train_progress.h"

#define TRAIN_MODEL_FILE_NAME "model.safetensors"
#define TRAIN_BEST_FILE_NAME  "model-best.safetensors"
#define TRAIN_NPZ_FILE_NAME   "model.npz"
#define TRAIN_ONNX_FILE_NAME  "model.onnx"

/* How the validation set fared so far; zeros before its first time. */
struct train_patience {
    uint64_t epoch; /* after which it was last evaluated */
    uint64_t best_epoch;
    double best_loss;
};

/* What a worker that was behind must know besides the trainer's state: the sums of the epoch under way, so
 * that its figures are those of all steps. Plain numbers; it goes between machines and into checkpoints, all
 * of one byte order. */
struct shared_sums {
    uint64_t epoch; /* that the sums are of */
    uint64_t steps;
    double loss, accuracy;
    struct train_patience patience;
};

struct train {
    struct agent_site site;
    const char *slot;
    struct mst_event_sink *events;
    struct trainer_config config;
    struct trainer_model *model;
    struct trainer_data data;
    double validation;
    uint32_t patience;
    bool whole_passes;                 /* an epoch is a pass over the training set */
    struct trainer *trainer;           /* NULL until train_prepare() */
    struct trainer_exchange *exchange; /* NULL: alone */
    struct trainer_history *history;
    struct trainer_checkpoints *checkpoints; /* NULL without --state */
    struct trainer_checkpoint restored;      /* what it began with; no name: none */
    uint64_t kept_step;                      /* of the newest checkpoint on the disk; 0: none */
    struct mst_buf step_log;
    struct train_profile profile;
    struct train_progress show;

    uint64_t view;
    uint32_t rank, world;
    double trained_s; /* sum over the epochs */
    bool stepped;     /* a step was made since the start */

    uint32_t epoch; /* that the sums are of */
    uint32_t closed_epoch;
    uint64_t epoch_ns;
    struct shared_sums shared;   /* over all of the epoch's steps and all workers */
    struct shared_sums gathered; /* with split parameters: as they were when those were gathered last */
    struct trainer_epoch sums;   /* over those made here */
    uint64_t next_progress_ns;
    /* What the end of an epoch adds to `shared`, once the next step is made: a worker that was lost at that
     * moment may keep others from having it, and those after one step must have the same. */
    struct train_patience pending;
    double last_epoch_loss, last_epoch_accuracy, last_epoch_s;
    struct trainer_evaluation validated; /* the result for the last epoch */
    struct trainer_evaluation test;
};

/* Have a trainer. Its memory is taken no sooner than it is of use, to restore a state or to enter a view:
 * what waits for others holds none, and many workers that start at once on one machine find each other first.
 */
int train_prepare(void *state, struct mst_error *err);

/* The epoch that the next step is of, from 1. */
uint32_t train_position_epoch(const struct train *train);

/* train_view.c: the job's calls around a view. */
int train_enter(void *state, struct job_view *view, struct mst_error *err);
void train_leave(void *state);

/* train_exchange.c: an exchange over the view's connections, before states are made equal, and the method
 * that goes with it. */
int train_connect(struct train *train, struct job_view *view, struct mst_error *err);
/* -EINVAL when the kernel does not let this process have what --congestion names; call it without root. */
int train_check_congestion(const struct agent_config *config, struct mst_error *err);
enum trainer_method train_method(const struct agent_config *config);

/* train_recipe.c: what is known of the configuration before the data, and the steps of an epoch with them. */
int train_settle(struct train *train, struct mst_error *err);
void train_settle_steps(struct train *train);

/* train_validate.c: evaluate the validation set, where there is one. 1: it has not become better for as long
 * as `--patience` says, and the training ends here. */
int train_validate(struct train *train, uint32_t epoch, struct mst_error *err);

/* train_report.c: events on stdout, and the step log in memory. */
void train_report_restored(struct train *train);
void train_report_state(struct train *train, const struct trainer_synchronised *synchronised);
void train_report_progress(struct train *train); /* at most once a second */
void train_report_checkpoint(struct train *train);
void train_report_epoch(const struct train *train, const struct trainer_history_row *row,
                        const struct profile_epoch *profile);
/* The epoch's line for whoever sits before it, once validation is known, and the last lines. */
void train_show_epoch(struct train *train, uint32_t epoch, bool stops);
void train_show_end(struct train *train);
/* Told to stop: what is left of it, and how it goes on. */
void train_show_stopped(struct train *train);
int train_report_profile(struct train *train, struct mst_error *err);
void train_report_validation(struct train *train, const struct trainer_evaluation *result, bool stops);
void train_report_saved(struct train *train, const char *path, const struct trainer_saved *saved);
void train_report_done(struct train *train, const struct job_result *result);
/* `between_ms`: from the end of the step before to the begin of this one. */
int train_log_step(struct train *train, const struct trainer_step_stats *stats, double between_ms,
                   struct mst_error *err);

/* train_files.c: results in the folder of `--out`. */
int train_make_history(struct train *train, struct mst_error *err);
int train_save(void *state, struct mst_error *err);
int train_file(void *state, size_t index, struct job_file *ret_file, struct mst_error *err);

#endif
