/* SPDX-License-Identifier: Apache-2.0 */
/* An experiment folder (docs/experiment-folder.md) in memory: its modes and all its runs. A run here is one
 * carrying out: one run folder, or two of two workloads at once. */
#ifndef EXPERIMENT_TRIAL_H
#define EXPERIMENT_TRIAL_H

#include "runs.h"

#include <cjson/cJSON.h>

#define TRIAL_WORKLOADS_MAX 2

struct experiment_mode {
    const char *name, *label; /* borrowed from the experiment's JSON */
};

/* NAN: not read. Per cent of all the node's cores. */
struct noise_reading {
    double seconds, steal_percent, busy_percent, other_percent, mhz, load1;
};

struct noise {
    const char *node; /* borrowed */
    struct noise_reading before, during, after;
};

struct trial {
    const char *series, *exchange, *state, *started; /* borrowed from the JSON */
    size_t mode;                                     /* its place in the experiment's modes */
    size_t number, workloads, repeat, position, attempt;
    bool is_warmup;
    double launch_s, total_s; /* NAN: not measured */
    struct noise *noise;      /* owned */
    size_t noise_count;
    struct run runs[TRIAL_WORKLOADS_MAX]; /* by workload; only of those that count or are shown */
    size_t run_count;
    bool counts;
    char *left_out; /* owned: why it does not count; NULL: it does */
};

struct experiment {
    char *path;  /* owned */
    cJSON *json; /* owned; of plain run folders, made from them */
    const char *name;
    struct experiment_mode *modes; /* owned */
    size_t mode_count, baseline;
    struct trial *trials; /* owned, in the order in which they were carried out */
    size_t trial_count;
    const char **series; /* owned list of borrowed names, as they first occur */
    size_t series_count;
    bool is_plain; /* run folders side by side: no pairs, hence no intervals */
};

/* Read an experiment folder. A run whose files are damaged is left out with the reason; what is wrong with
 * experiment.json itself, or an experiment of which no run is left, is an error. */
int experiment_load(const char *path, struct experiment *ret_experiment, struct mst_error *err);
/* Run folders side by side, each a mode of its own with its folder's name. Here a damaged one is an error. */
int experiment_of_runs(const char *const *paths, size_t count, struct experiment *ret_experiment,
                       struct mst_error *err);
void experiment_release(struct experiment *experiment);

/* The counting run of a series, mode and repeat; NULL: there is none. */
const struct trial *experiment_find(const struct experiment *experiment, const char *series, size_t mode,
                                    size_t repeat);
size_t experiment_repeats(const struct experiment *experiment); /* the highest repeat */

#endif
