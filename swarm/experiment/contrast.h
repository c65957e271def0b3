/* SPDX-License-Identifier: Apache-2.0 */
/* One mode against the baseline, for one quantity: pairs of runs of the same series and repeat
 * (muster/statistics.h). */
#ifndef EXPERIMENT_CONTRAST_H
#define EXPERIMENT_CONTRAST_H

#include "muster/statistics.h"
#include "trial.h"

#define CONTRAST_LEVEL 0.95

/* What is compared: one number a run. Parts of a step first: mean over workers, steps. */
enum metric {
    METRIC_STEP_MS,      /* epochs' time over their steps; the mean over workers */
    METRIC_STEP_MEDIAN,  /* median over all workers' steps */
    METRIC_STEP_COMPUTE, /* parts of METRIC_STEP_MS, which sum to it */
    METRIC_STEP_EXCHANGE,
    METRIC_STEP_REST,
    METRIC_TRAINING_S, /* epochs' time, of the slowest worker */
    METRIC_WHOLE_S,    /* a worker's life, from its process's start until it is done; the mean over workers */
    METRIC_PART_FIRST, /* parts of METRIC_WHOLE_S, in seconds, by enum run_part */
    METRIC_LAUNCH_S =
        METRIC_PART_FIRST + RUN_PART_COUNT, /* from the order to start until all processes had started */
    METRIC_TOTAL_S,                         /* until the results were there */
    METRIC_COUNT,
};

struct metric_name {
    const char *name, *text, *unit; /* for programs; for people */
    int digits;
};
extern const struct metric_name metric_names[METRIC_COUNT];

/* NAN: not measured. `workload` 1 or 2; 0: the mean over the run's workloads. */
double trial_metric(const struct trial *trial, enum metric metric, size_t workload);
double run_metric(const struct run *run, enum metric metric);

struct contrast {
    const char *series; /* borrowed */
    size_t mode, workload;
    enum metric metric;
    size_t pairs, without_partner; /* repeats that lack one of the two runs, or the number */
    double base_mean, mode_mean;   /* over the pairs */
    struct statistics_interval ratio, difference;
};

/* pairs is 0 when there is nothing to compare. -ENOMEM. */
int contrast_make(const struct experiment *experiment, const char *series, size_t mode, enum metric metric,
                  size_t workload, struct contrast *ret_contrast, struct mst_error *err);

/* True when the named parts' differences sum to the whole's within the whole's interval: `rest` is what they
 * leave. */
bool contrast_parts_suffice(const struct contrast *whole, const struct contrast *rest);

/* Marks of outliers among the counting runs of a series and mode, by METRIC_STEP_MS; ret_marks has a place a
 * trial. */
int contrast_outliers(const struct experiment *experiment, bool *ret_marks, struct mst_error *err);

#endif
