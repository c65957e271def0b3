/* SPDX-License-Identifier: Apache-2.0 */
/* Watch the workers of a stack until all are done or the run cannot succeed: their events from the service
 * logs, and what the manager says of their tasks for those that cannot speak any more. */
#ifndef SWARM_WATCH_H
#define SWARM_WATCH_H

#include "logfollow.h"
#include "nodes.h"
#include "progress.h"
#include "stats_csv.h"
#include "workers.h"

enum service_role { ROLE_OTHER, ROLE_WORKER, ROLE_COLLECTOR, ROLE_MONITOR };

/* By the label muster.role, else by what the service's command is. `spec` as the engine has it. */
enum service_role service_role(const cJSON *spec);

struct watch {
    struct session *session; /* borrowed, as all pointers until the next comment */
    const struct swarm_nodes *nodes;
    const char *stack;
    struct stats_csv *stats; /* NULL: samples are dropped */
    uint64_t deadline_ns;    /* 0: none */
    struct workers workers;  /* owned from here on */
    struct logfollow *follow;
    struct progress progress;
    size_t expected; /* workers */
    bool has_collector, has_warned_monitor;
    uint64_t failed_ns, no_node_ns, silent_done_ns, trouble_ns; /* since when; 0: not so */
};

/* Begin to follow the stack's logs. -ENOENT when the stack has no workers. */
int watch_start(struct watch *watch, struct mst_error *err);
void watch_release(struct watch *watch);

/* Until all workers are done: 0, SWARM_WORKER_FAILED with the reason, SWARM_NO_CONVERGENCE, -ETIMEDOUT,
 * -ECANCELED. */
int watch_workers(struct watch *watch, struct mst_error *err);
/* Until the collector said that it has everything. -ETIMEDOUT after `timeout_ms`. */
int watch_collector(struct watch *watch, unsigned timeout_ms, struct mst_error *err);
/* The worker that failed first, as far as can be told; NULL: none. */
const struct worker *watch_culprit(const struct workers *workers);

#endif
