/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs that serve: live, and from a recording. */
#ifndef MONITORING_SERVE_H
#define MONITORING_SERVE_H

#include "record.h"
#include "web.h"

struct serve_options {
    struct monitor_options
        monitor; /* interval_ns: between two ticks of the page while somebody looks at it */
    struct web_options web;
    struct record_options record; /* path NULL: nothing is recorded */
    uint64_t history_ns;          /* how far the page goes back */
};

/* Until stop_fd is readable. */
int serve_run(const struct serve_options *options, struct mst_error *err);

/* The privileges are given up when what root is needed for has been opened: main.c's. */
typedef int serve_ready_fn(const struct monitor_options *options, struct mst_error *err);
int serve_run_when(const struct serve_options *options, serve_ready_fn *ready, struct mst_error *err);

#endif
