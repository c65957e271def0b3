/* SPDX-License-Identifier: Apache-2.0 */
/* What a run comes to: run.json for programs, a table for people. */
#ifndef SWARM_SUMMARY_H
#define SWARM_SUMMARY_H

#include "muster/compose.h"
#include "nodes.h"
#include "workers.h"

/* Times in unix seconds by this machine's clock, 0: did not happen. */
struct summary_times {
    double started_s, deployed_s, trained_s, collected_s, ended_s;
};

struct summary {
    const char *stack, *result; /* "done", "failed", "interrupted", "timed out" */
    const char *reason;         /* NULL: none */
    const char *folder;
    const struct workers *workers;
    const struct swarm_nodes *nodes;
    const struct engine_info *info;
    const struct compose_project *project; /* images */
    unsigned api_minor;
    struct summary_times times;
    /* "NAME=VALUE" lists ended by NULL, NULL: none; private values are left out. */
    const char *const *given, *const *environment, *const *filled;
    size_t stats_rows, collected_files;
};

/* From the last container's start to the first training step; the sweep that took longest. -1: not heard. */
double summary_first_step_ms(const struct workers *workers);
double summary_sweep_ms(const struct workers *workers);

/* *ret_json is the caller's to delete. */
int summary_json(const struct summary *summary, cJSON **ret_json, struct mst_error *err);
/* `folder`/run.json */
int summary_write(const struct summary *summary, struct mst_error *err);
/* To `stream`, as a table. */
int summary_print(const struct summary *summary, FILE *stream, struct mst_error *err);

#endif
