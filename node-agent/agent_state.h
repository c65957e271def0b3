/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of one agent share: agent.c (start, clock, end), agent_peers.c (what other agents say) and
 * agent_view.c (the view and its job). Everything runs in the agent's own thread; the job has its own
 * (runner.h). */
#ifndef AGENT_AGENT_STATE_H
#define AGENT_AGENT_STATE_H

#include "config.h"
#include "control.h"
#include "health.h"
#include "job.h"
#include "loop.h"
#include "membership.h"
#include "mesh.h"
#include "runner.h"
#include "search.h"
#include "station.h"
#include "train.h"

#include <stdbool.h>
#include <stdint.h>

#define PENDING_DATA_MAX 16

enum agent_state {
    AGENT_FORMING,  /* searching and agreeing */
    AGENT_RUNNING,  /* the job's thread is at work */
    AGENT_FAREWELL, /* all are done: BYE is on its way */
    AGENT_ENDED,
};

/* A worker of the view. */
struct member {
    struct discovery_identity identity;
    bool self, done, gone;
    struct control_done result;
};

/* A data connection that came before the view was committed here. */
struct pending_data {
    struct discovery_identity from;
    int fd;
};

struct agent {
    const struct agent_config *config;
    uint64_t start_ns; /* of the process, on the monotonic clock */
    struct station station;
    struct loop *loop;
    int signal_fd;
    struct health *health;
    struct train *train;
    struct job job;
    struct mesh *mesh;     /* NULL when alone, as the next two */
    struct search *search; /* NULL with --peers, too */
    struct membership *membership;
    struct discovery_workers known; /* peers that are or were up */
    struct pending_data pending[PENDING_DATA_MAX];
    size_t pending_count;
    bool collector_known;
    struct discovery_identity collector;
    bool hosts_written; /* ips.xml */

    enum agent_state state;
    uint64_t view;
    struct member *members; /* owned, in rank order */
    size_t world, rank;
    struct runner *runner;

    uint64_t heartbeat_ns, waiting_ns, form_deadline_ns;
    uint64_t verdict_ns; /* the job failed by its connections: until then the mesh may say why; 0: no */
    struct mst_error job_err;
    uint64_t farewell_ns;
    int exit_status;
};

/* The end with a reason, once: the first one counts. `tell`: the others do not know it yet. */
void agent_fail(struct agent *agent, int exit_status, bool tell, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- agent_view.c ---- */

/* NULL for whoever is not in the view. */
struct member *agent_find_member(const struct agent *agent, const uint8_t *incarnation);
/* Is there still somebody to look for: workers, or the collector? */
bool agent_wants_search(const struct agent *agent);
/* The membership's callback: the view holds, the job starts. */
void agent_view_committed(void *context, uint64_t view, const struct membership_worker *workers,
                          size_t count);
/* A view of one, without a network. */
void agent_begin_alone(struct agent *agent);
/* A data connection for the running job; takes `fd` over. */
void agent_give_data(struct agent *agent, const struct discovery_identity *from, int fd);
/* Compares the results once all have one. */
void agent_check_all_done(struct agent *agent);
/* The loop's callback for the job's thread. */
void agent_runner_changed(void *context, uint32_t events);

/* ---- agent_peers.c ---- */

struct mesh_callbacks agent_mesh_callbacks(struct agent *agent);
struct membership_callbacks agent_membership_callbacks(struct agent *agent);
struct membership_worker agent_as_worker(const struct discovery_identity *identity);

#endif
