/* SPDX-License-Identifier: Apache-2.0 */
/* Experiments: names of the files in an experiment's folder (docs/experiment-folder.md), and the report over
 * experiments and run folders (docs/report.md). */
#ifndef MUSTER_EXPERIMENT_H
#define MUSTER_EXPERIMENT_H

#include "muster/error.h"

#include <stdbool.h>
#include <stddef.h>

#define EXPERIMENT_FILE         "experiment.json"
#define EXPERIMENT_RUN_FILE     "run.json"
#define EXPERIMENT_EVENTS_FILE  "events.jsonl"
#define EXPERIMENT_NODES_FILE   "nodes.csv"
#define EXPERIMENT_FORMAT       1
#define EXPERIMENT_RUNS_MAX     10000 /* failed attempts count */
#define EXPERIMENT_NODES_HEADER "time,node,cpu_percent,steal_percent,load1,rx_bytes,tx_bytes\n"

/* Chart.js from Debian's libjs-chart.js, put into the page when it is made. */
#define REPORT_CHARTS_FILE "/usr/share/javascript/chart.js/chart.min.js"

struct report_options {
    const char *out;    /* folder of the report, made if need be; NULL: the only one of `folders` */
    const char *charts; /* NULL: REPORT_CHARTS_FILE */
};

struct report_result {
    char *page;     /* path of report.html; owned */
    char *summary;  /* the summaries, a sentence a line; owned */
    char *left_out; /* a line for each run that should count and does not, and for each warning; owned, may be
                       empty */
};

/* Read experiments and run folders (the latter side by side), and write report.html, report.csv and
 * report.json. Nothing is written before everything is read and made, and the three take their places
 * together at the end. -EBADMSG or -EINVAL for folders that cannot be used, other codes for the rest. */
int report_make(const char *const *folders, size_t count, const struct report_options *options,
                struct report_result *ret_result, struct mst_error *err);
void report_result_release(struct report_result *result);

#endif
