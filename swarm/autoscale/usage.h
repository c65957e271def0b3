/* SPDX-License-Identifier: Apache-2.0 */
/* What the tasks use, out of what the monitors' /metrics said in the last rounds. Times are when an answer
 * came, by this machine's clock; the monitors' own clocks count for nothing, except that one which stands
 * still gives an old page away. */
#ifndef SWARM_AUTOSCALE_USAGE_H
#define SWARM_AUTOSCALE_USAGE_H

#include "autoscale/view.h"

#define AUTOSCALE_SAMPLES    32   /* of one container or gauge; closer ones are thinned out */
#define AUTOSCALE_SERIES_MAX 8192 /* containers, and as many gauges */
#define AUTOSCALE_STALE_NS   (60 * UINT64_C(1000000000)) /* a worker reports its gauge more often */

/* The question to each monitor. */
#define AUTOSCALE_QUESTION                                                                                   \
    "/metrics?name[]=container_cpu_usage_seconds_total&name[]=container_last_seen"                           \
    "&name[]=container_memory_working_set_bytes&name[]=muster_reported_value&name[]=muster_reports_total"
#define AUTOSCALE_ANSWER_MAX_BYTES ((size_t)16 << 20)

struct autoscale_series;

struct autoscale_usage {
    struct autoscale_series *containers, *gauges; /* owned; containers in the order of their ids */
    size_t container_count, gauge_count;
    uint64_t round;                    /* 0: none so far */
    const struct autoscale_view *view; /* borrowed: of this round */
};

void autoscale_usage_release(struct autoscale_usage *usage);

/* A new round: only the tasks of `view` (borrowed until the next) are of interest. What is known of others is
 * forgotten. */
int autoscale_usage_begin(struct autoscale_usage *usage, const struct autoscale_view *view,
                          struct mst_error *err);
/* A monitor's page, that came at `at_ns`. -EBADMSG: it makes no sense, and nothing of it counts. */
int autoscale_usage_take(struct autoscale_usage *usage, const char *text, uint64_t at_ns,
                         struct mst_error *err);

/* The value for a service: false with the reason when it is not known. */
bool autoscale_usage_value(const struct autoscale_usage *usage, const struct autoscale_view *view,
                           const struct autoscale_subject *subject, uint64_t now_ns, double *ret_value,
                           char missing[static 200]);

#endif
