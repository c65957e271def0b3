/* SPDX-License-Identifier: Apache-2.0 */
/* `record`, and `replay` of what it wrote: in the terminal, as CSV, or served as if it were live. */
#ifndef MONITORING_REPLAY_H
#define MONITORING_REPLAY_H

#include "serve.h"
#include "stats.h"

struct replay_options {
    const char *const *files; /* in the order of time; the last is NULL */
    const char *from, *to;    /* RFC 3339, Unix seconds, or a duration after the first pass; NULL: all */
    double speed;             /* 0: without waiting */
    const char *csv_path;     /* NULL: none */
    bool is_served;
    struct stats_options stats;
    struct web_options web;
    int stop_fd;
};

int replay_run(const struct replay_options *options, struct mst_error *err);

/* Until stop_fd is readable. */
int record_run(const struct serve_options *options, serve_ready_fn *ready, struct mst_error *err);

/* "2026-01-31T23:59:59Z", "1764547199.5", "+90s" or "90s" after `first_s`. -EINVAL. */
int replay_time(const char *text, double first_s, double *ret_time_s, struct mst_error *err);

#endif
