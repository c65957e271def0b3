/* SPDX-License-Identifier: Apache-2.0 */
/* What a run folder says of its run, as far as the experiment must know. */
#ifndef EXPERIMENT_CONDUCT_RESULTS_H
#define EXPERIMENT_CONDUCT_RESULTS_H

#include "muster/error.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

struct conduct_results_cpu_row {
    char node[128], container[96];
    double seconds;
};

struct conduct_results_start {
    char node[128];
    double s; /* when a worker's process started, by its own clock */
};

struct conduct_results {
    cJSON *run;                           /* run.json; owned */
    struct conduct_results_cpu_row *cpus; /* of workers, from stats.csv; owned */
    size_t cpu_count;
    bool has_cpu;
    struct conduct_results_start *starts; /* owned */
    size_t start_count;
    double total_seconds, ms_per_step; /* -1; of the worker of rank 0 */
    double first_step_s, done_s;       /* of the first worker, and of the last, by their clocks; -1 */
    char digest[72];
};

int conduct_results_read(const char *folder, struct conduct_results *ret_results, struct mst_error *err);
void conduct_results_release(struct conduct_results *results);
/* Does it count? Not when it is not done, when a worker's version is not ours, when a worker was lost on the
 * way (it may have come back: the times are not those of an undisturbed run), or when models differ. */
int conduct_results_judge(const struct conduct_results *results, size_t workers, struct mst_error *err);
/* Of two workloads: for what part of the longer one's time both trained, 0 to 1; 1 when events do not tell.
 */
double conduct_results_overlap(const struct conduct_results *a, const struct conduct_results *b);
/* CPU time of the workers on a node. */
double conduct_results_cpu(const struct conduct_results *results, const char *node);

#endif
