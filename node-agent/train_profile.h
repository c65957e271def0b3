/* SPDX-License-Identifier: Apache-2.0 */
/* Where a worker's time goes. Every moment from the process's start belongs to one phase, so that the phases
 * sum up to the whole; that costs two looks at the clock a step, and is always done. With `--profile` the
 * steps are kept besides, for percentiles, and whom this worker waited for. */
#ifndef AGENT_TRAIN_PROFILE_H
#define AGENT_TRAIN_PROFILE_H

#include "job.h"
#include "muster/discovery.h"
#include "muster/trainer.h"
#include "report.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum train_phase {
    TRAIN_START,     /* the process, until inputs are read */
    TRAIN_LOAD,      /* model, recipe, data, checkpoint */
    TRAIN_DISCOVERY, /* until the first view is agreed */
    TRAIN_CONNECT,   /* data connections, the exchange, equal states; of all views */
    TRAIN_STEP,      /* within steps */
    TRAIN_BETWEEN,   /* between them: events, logs, copies for checkpoints, gathering split parameters */
    TRAIN_VERIFY,    /* that all workers have the same parameters */
    TRAIN_VALIDATION,
    TRAIN_SAVING, /* histories and models */
    TRAIN_TEST,
    TRAIN_RECOVERY, /* from the end of a view, its step that was cut short included, until the next */
    TRAIN_PHASES
};

/* A step, and its parts, in ms. */
enum profile_part { PROFILE_STEP, PROFILE_COMPUTE, PROFILE_EXCHANGE, PROFILE_WAIT, PROFILE_PARTS };
struct profile_step {
    float ms[PROFILE_PARTS];
};
struct profile_quantiles {
    double mean, p50, p90, p99, max;
};

/* Another worker, as long as this one lives: steps whose longest pause it ended, and all pauses in those. */
struct profile_peer {
    char slot[DISCOVERY_SLOT_BYTES];
    uint64_t steps, epoch_steps;
    double ms, epoch_ms;
};

/* An epoch that this worker has closed. */
struct profile_epoch {
    uint32_t epoch;
    uint64_t steps, bytes_sent;
    double seconds;
    struct profile_quantiles parts[PROFILE_PARTS];
    size_t slowest; /* index of a peer; SIZE_MAX: none */
};

struct train_profile {
    bool detailed;
    enum train_phase phase;
    uint64_t start_ns, since_ns; /* of the process, and of the phase */
    uint64_t spent_ns[TRAIN_PHASES];
    double sums_ms[PROFILE_PARTS]; /* over the steps */
    uint64_t step_count, samples, bytes_sent;
    uint64_t step_samples; /* of all workers, in the last step: the same in all of a job */

    /* With `detailed`; all owned: */
    struct profile_step *steps;
    size_t kept, room, epoch_first; /* of `steps`; the epoch's begin there */
    struct profile_epoch *epochs;
    size_t epoch_count, epoch_room;
    struct profile_peer *peers;
    size_t peer_count;
    size_t *by_rank; /* index of the peer that has this rank in the view */
    uint32_t world;
    uint64_t step_end_ns; /* of the last one, 0: none in this view */
};

/* Phase TRAIN_START begins at `start_ns`. */
void profile_begin(struct train_profile *profile, uint64_t start_ns, bool detailed);
void profile_release(struct train_profile *profile); /* fine after no begin */
/* Another phase begins now, or began at that time if it is later than the phase's begin. The one before is
 * returned, to go back to it. */
enum train_phase profile_enter(struct train_profile *profile, enum train_phase phase);
enum train_phase profile_enter_at(struct train_profile *profile, enum train_phase phase, uint64_t at_ns);
/* The step under way came to nothing: its time is the recovery's. */
void profile_lost_step(struct train_profile *profile);

/* A view: who has which rank. */
int profile_view(struct train_profile *profile, const struct job_view *view, struct mst_error *err);
/* A step is done; phase TRAIN_BETWEEN begins. */
int profile_add(struct train_profile *profile, const struct trainer_step_stats *stats, struct mst_error *err);
/* The slot that the step waited for, NULL: nobody. */
const char *profile_waited_for(const struct train_profile *profile, const struct trainer_step_stats *stats);
/* An epoch's steps are all made: *ret_epoch has the figures of those kept since the last call, until the
 * next; NULL without `detailed` or steps. */
int profile_close_epoch(struct train_profile *profile, const struct trainer_history_row *row,
                        const struct profile_epoch **ret_epoch, struct mst_error *err);
/* The steps of an epoch that was left half-way, for another state was taken, count for none. */
void profile_forget_epoch(struct train_profile *profile);

/* Over `count` steps; zeros for none. `scratch` has room for `count`. */
struct profile_quantiles profile_quantiles(const struct profile_step *steps, size_t count,
                                           enum profile_part part, float *scratch);

/* train_profile_report.c: the keys of the event "profile", and with `detailed` those of an "epoch". */
int profile_tell(struct train_profile *profile, struct report *report, struct mst_error *err);
void profile_tell_epoch(const struct train_profile *profile, const struct profile_epoch *epoch,
                        struct report *report);
/* The tables for people: steps, epochs, peers and the whole run. 0 or a negative errno. */
int profile_print(const struct train_profile *profile, FILE *stream, struct mst_error *err);
/* Samples a second of so many in so many ms; 0 for no time. */
double profile_rate(uint64_t samples, double ms);
/* What a phase took, the steps' parts apart, in ms. */
double profile_phase_ms(const struct train_profile *profile, enum train_phase phase);

#endif
