/* SPDX-License-Identifier: Apache-2.0 */
/* One run folder (docs/run-folder.md) in memory: what each worker measured, and what its run used. A file
 * that is there must read well; one that may be missing is said to be so by its count. */
#ifndef EXPERIMENT_RUNS_H
#define EXPERIMENT_RUNS_H

#include "muster/error.h"

#include <stdbool.h>
#include <stddef.h>

struct run_epoch {
    double epoch, steps, seconds, ms_per_step, loss, accuracy, wait_ms, transfer_ms, compute_ms, bytes_sent;
    double end_s; /* when it was over, by the worker's clock; NAN: not known */
};

/* The parts of a worker's life, which do not overlap and leave nothing out: docs/events.md, `profile`. */
enum run_part {
    RUN_PART_START, /* the process, its configuration, model, data */
    RUN_PART_DISCOVERY,
    RUN_PART_CONNECT,
    RUN_PART_COMPUTE,
    RUN_PART_EXCHANGE, /* waiting for others included */
    RUN_PART_SAVING,   /* tests and digests included */
    RUN_PART_REST,     /* between steps, and recoveries */
    RUN_PART_COUNT,
};
extern const char *const run_part_names[RUN_PART_COUNT];

struct run_worker {
    char *slot, *node;        /* owned */
    char *version;            /* of its agent; owned; empty: not told */
    struct run_epoch *epochs; /* owned */
    size_t epoch_count;
    double *step_ms; /* owned; none without steps-SLOT.csv */
    size_t step_count;
    bool has_parts;
    double part_ms[RUN_PART_COUNT], whole_ms;
    double begin_s; /* start of its process by its own clock; NAN: not known */
};

/* What one container, process or node used: a row a second. */
struct run_usage {
    char *name, *node; /* owned; name empty: the node itself */
    double *time_s, *cpu_percent, *rx_bytes,
        *tx_bytes; /* owned; percent of a core; counters, NAN: not read */
    size_t count;
};

struct run {
    char *path, *stack, *result, *version, *engine; /* owned */
    char *digest;                                   /* of the first worker's parameters; owned, may be "" */
    double started_s, until_trained_s, total_s, test_accuracy; /* NAN: not known */
    struct run_worker *workers;                                /* owned, by node, then slot */
    size_t worker_count;
    struct run_usage *usage; /* owned */
    size_t usage_count;
    bool has_events, has_nodes_csv;
};

/* `path` is the run folder. -EBADMSG or -ENOENT with the file and what was expected. */
int run_load(const char *path, struct run *ret_run, struct mst_error *err);
void run_release(struct run *run);

/* Of the epochs' times: how long the slowest worker trained, and a step's share as the mean over the workers.
 */
double run_training_s(const struct run *run);
double run_step_ms(const struct run *run);
/* Median over the steps of all workers; over epochs where no step log is. */
double run_step_median_ms(const struct run *run, double *scratch);
size_t run_scratch_count(const struct run *run);

/* run_usage.c: stats.csv and nodes.csv, where they are. */
int run_usage_load(const char *folder, struct run *run, struct mst_error *err);
void run_usage_release(struct run *run);
/* run_events.c: events.jsonl, where it is. */
int run_events_load(const char *folder, struct run *run, struct mst_error *err);

#endif
