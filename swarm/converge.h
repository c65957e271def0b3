/* SPDX-License-Identifier: Apache-2.0 */
/* Has the Swarm done what it was asked? One loop over all services of a stack: each round takes one list of
 * services and one of tasks, judges every service, and ends when all are settled or one never will be.
 *
 * Settled: as many tasks run as are wanted, of the newest specification; a one-shot's task that completed
 * counts; a job that completed; replicas 0 and a global service without a node at once. Never will: no
 * suitable node for some seconds, a rejected image, tasks that fail again and again, an update that paused
 * (SWARM_NO_CONVERGENCE) or was rolled back to its end (SWARM_ROLLED_BACK). While the manager itself is to
 * pause an update or to roll it back, failures are left to it. What a failed task said last goes to the
 * report. */
#ifndef SWARM_CONVERGE_H
#define SWARM_CONVERGE_H

#include "nodes.h"
#include "session.h"

struct converge_service {
    char name[ENGINE_NAME_MAX_BYTES], id[ENGINE_NAME_MAX_BYTES];
    char failed_task[ENGINE_NAME_MAX_BYTES]; /* id of the newest one that failed, "": none did */
    char failure[512];                       /* `reason` of the round that saw it */
    double settled_s;                        /* since when it is, by the report's clock; 0: it is not */
    bool is_tty;
    char state[64];   /* "running", "starting", "updating", "complete", ... : for people */
    char reason[512]; /* the newest task's trouble, or why it never will */
    size_t running, wanted, completed;
    size_t leaving; /* told to end, and not ended so far, on nodes that can say so */
    int code;       /* 0: under way; SWARM_NO_CONVERGENCE or SWARM_ROLLED_BACK: never */
    bool is_settled;
    bool is_failing;          /* its tasks fail, or the only one has: `code` says so */
    bool is_waiting_for_node; /* pending with "no suitable node": never, when it stays so */
};

struct converge_view {
    struct converge_service *items; /* owned, by name */
    size_t count;
};

/* Judge one round. `services` are those of the stack (with ServiceStatus), `tasks` all tasks of the stack
 * that are up to date; failed ones made before `since_s` (unix seconds) are not held against a service,
 * unless they are its last word: none follows them, and nothing that was written lets one follow. */
int converge_judge(const cJSON *services, const cJSON *tasks, const struct swarm_nodes *nodes, double since_s,
                   struct converge_view *ret_view, struct mst_error *err);
void converge_view_release(struct converge_view *view);
bool converge_view_is_settled(const struct converge_view *view);

struct converge_options {
    const char *stack;
    double since_s;       /* when the deployment began, by this machine's clock; 0: count every task */
    uint64_t deadline_ns; /* mst_now_ns(); 0: none */
    unsigned settle_ms;   /* how long all must stay settled */
    const struct swarm_nodes *nodes;
    bool must_complete;                    /* running is not enough: all tasks must have completed */
    bool none_may_leave;                   /* tasks that are told to end must have ended */
    const struct compose_project *project; /* only its services are waited for; NULL: all of the stack */
};

/* One round: the view is the caller's. */
int converge_look(struct session *session, const struct converge_options *options,
                  struct converge_view *ret_view, struct mst_error *err);
/* The reason of a service that never will settle, as an error; 0 when there is none so far. */
int converge_verdict(const struct converge_view *view, struct mst_error *err);

/* When the stack's newest task was made, by the manager's clock and a moment later: what failed earlier is
 * not the doing of what is written now. 0: it has none. */
int converge_newest_task_s(struct session *session, const char *stack, double *ret_since_s,
                           struct mst_error *err);

int converge_wait(struct session *session, const struct converge_options *options, struct mst_error *err);

#endif
