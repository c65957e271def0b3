/* SPDX-License-Identifier: Apache-2.0 */
/* A pass as a page for Prometheus, with cAdvisor's names, types and labels, and training's beside them. The
 * page depends on the pass and the options alone, so a recording gives the same page again. */
#ifndef MONITORING_METRICS_H
#define MONITORING_METRICS_H

#include "muster/buf.h"
#include "muster/monitor.h"

/* Kinds of metrics by cAdvisor's names (--disable_metrics). */
enum metrics_kind {
    METRICS_CPU = 1 << 0,
    METRICS_MEMORY = 1 << 1,
    METRICS_DISK = 1 << 2, /* what "disk" and "diskIO" are there */
    METRICS_NETWORK = 1 << 3,
    METRICS_PROCESS = 1 << 4,
    METRICS_OOM = 1 << 5,
    METRICS_PRESSURE = 1 << 6,
    METRICS_SPEC = 1 << 7,    /* limits, times, health: always there */
    METRICS_MACHINE = 1 << 8, /* the machine: always there */
    METRICS_OWN = 1 << 9,     /* of the exporter */
    METRICS_TRAINING = 1 << 10,
    METRICS_LOAD = 1 << 11,
};
#define METRICS_ALL 0xfffU

struct metrics_options {
    unsigned kinds;       /* enum metrics_kind */
    bool has_timestamps;  /* on every sample of a container, as cAdvisor; else on container_last_seen only */
    bool without_machine; /* no id="/" */
    const char *version;  /* of the program, borrowed */
    const char *const *names; /* only these families, the last is NULL; NULL: all */
};

/* 0, or a negative errno; `text` is then as before. */
int metrics_write(const struct monitor_pass *pass, const struct metrics_options *options,
                  struct mst_buf *text);

#endif
