/* SPDX-License-Identifier: Apache-2.0 */
/* Watch the workers of a stack until all are done or the training cannot go on: their events from the service
 * logs, and what the manager says of their tasks for those that cannot speak any more.
 *
 * A worker that is lost is no end: the others go on, and Swarm starts it again. It is given up when its task
 * ended and no other follows, or another would end as this one did (slots.h). The training cannot go on when
 *   - all workers are given up,
 *   - one is, and without it there are too few to form the first view, or
 *   - those that are left say that they are paused, and wait for more than there can be.
 * It is done when all workers are that were not given up, and one at least; workers that only looked for a
 * view when another was done already are not waited for. */
#ifndef SWARM_WATCH_H
#define SWARM_WATCH_H

#include "events_log.h"
#include "logfollow.h"
#include "nodes.h"
#include "progress.h"
#include "slots.h"
#include "stats_csv.h"
#include "workers.h"

struct watch {
    struct session *session; /* borrowed, as all pointers until the next comment */
    const struct swarm_nodes *nodes;
    const char *stack;
    struct stats_csv *stats; /* NULL: samples are dropped */
    struct events_log *events; /* NULL: what workers say is not kept */
    uint64_t deadline_ns;    /* 0: none */
    struct workers workers;  /* owned from here on */
    struct logfollow *follow;
    struct progress progress;
    struct slot_memory memory;
    size_t expected; /* workers, as the services stand */
    bool has_collector, has_warned_monitor, has_looked;
    uint64_t failed_ns, no_node_ns, silent_done_ns, late_ns; /* since when; 0: not so */
    uint64_t looked_ns; /* at the tasks, last; 0: never */
    struct trouble trouble;
};

/* Begin to follow the stack's logs. -ENOENT when the stack has no workers. */
int watch_start(struct watch *watch, struct mst_error *err);
void watch_release(struct watch *watch);

/* Until the training is done: 0, SWARM_WORKER_FAILED with the reason, SWARM_NO_CONVERGENCE, -ETIMEDOUT,
 * -ECANCELED. */
int watch_workers(struct watch *watch, struct mst_error *err);
/* Until the collector said that it has everything. -ETIMEDOUT after `timeout_ms`. */
int watch_collector(struct watch *watch, unsigned timeout_ms, struct mst_error *err);
/* Of the workers that were given up, the one that was lost first, as far as can be told; NULL: none. */
const struct worker *watch_culprit(const struct workers *workers);

#endif
