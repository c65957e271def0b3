/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of one agent share: agent.c (start and end), agent_tick.c (the clock), agent_peers.c (what
 * other agents say), agent_view.c (a view and the job in it) and agent_change.c (from one view to the next).
 * Everything runs in the agent's own thread; the job has its own (runner.h). */
#ifndef AGENT_AGENT_STATE_H
#define AGENT_AGENT_STATE_H

#include "agent.h"
#include "config.h"
#include "control.h"
#include "health.h"
#include "job.h"
#include "loop.h"
#include "membership.h"
#include "mesh.h"
#include "muster/clock.h"
#include "runner.h"
#include "search.h"
#include "station.h"

#include <stdbool.h>
#include <stdint.h>

#define AGENT_LEAVE_NS                                                                                       \
    (5 * MST_NS_PER_S) /* for the others to agree to go on alone; docker kills after ten                     \
                        */
#define AGENT_WAITING_EVERY_NS (2 * MST_NS_PER_S) /* is said for whom it waits */

enum agent_state {
    AGENT_FORMING,  /* searching and agreeing on a first view */
    AGENT_RUNNING,  /* a view holds, the job's thread is at work */
    AGENT_CHANGING, /* the job stops or has stopped, the members talk about the next view */
    AGENT_FAREWELL, /* all are done: BYE is on its way */
    AGENT_ENDED,
};

/* A worker of the view. */
struct member {
    struct discovery_identity identity;
    bool self, done;
    bool gone;    /* said goodbye, or is lost */
    bool leaving; /* is about to go, and not lost */
    uint64_t heard_ns;
    struct control_done result;
};

/* A data connection that came before its view was committed here. */
struct pending_data {
    struct discovery_identity from;
    int fd;
};

/* From the notice that a view will not do any more to the first step in a later one. */
struct change {
    uint64_t noticed_ns; /* 0: none is under way */
    uint64_t silence_ns; /* of the worker that was lost first, before that was noticed */
    uint64_t agreed_ns;
    uint64_t begun;         /* steps that this worker had begun in the view that was left */
    struct member *members; /* owned: of the view that was left */
    size_t world;
};

struct agent {
    const struct agent_config *config;
    const struct agent_work *work;
    uint64_t start_ns; /* of the process, on the monotonic clock */
    struct station station;
    struct loop *loop;
    int signal_fd;
    struct health *health;
    struct job job;
    struct mesh *mesh;     /* NULL when alone, as the next two */
    struct search *search; /* NULL with --peers, too */
    struct membership *membership;
    struct discovery_workers known; /* peers that are or were up */
    struct pending_data *pending;   /* owned: at most one of each worker that there may be */
    size_t pending_count;
    bool collector_known;
    struct discovery_identity collector;
    bool hosts_written;              /* ips.xml */
    char notice[CONTROL_TEXT_BYTES]; /* what a peer said last about why we have to wait */

    enum agent_state state;
    uint64_t view;
    struct member *members; /* owned, in rank order */
    size_t world, rank;
    uint64_t view_step; /* that the view began after */
    struct runner *runner;
    bool watching_runner;
    bool stop_due; /* the job is to be stopped, but there is none: the membership has yet to hear it */
    bool all_done; /* all workers of the view have delivered: no loss matters any more, and no view follows */
    struct change change;
    unsigned fruitless; /* views in a row without a step */
    uint64_t view_began_ns;
    unsigned narrow; /* times that larger data packets seemed to get lost */

    uint64_t heartbeat_ns, waiting_ns, form_deadline_ns;
    uint64_t leave_deadline_ns; /* 0: not leaving */
    int leave_status;
    bool failed; /* said already */
    uint64_t farewell_ns;
    int exit_status;
};

/* The end with a reason, once: the first one counts. `tell`: the others do not know it yet. */
void agent_fail(struct agent *agent, int exit_status, bool tell, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The job of this worker cannot go on, but the others' may: they are told, and asked to go on without it. */
void agent_fail_and_leave(struct agent *agent, const char *reason);
/* The same with an event of another name than "failed": an end that is no failure of this worker. */
void agent_end(struct agent *agent, int exit_status, const char *event, const char *reason);
struct job_progress agent_progress(const struct agent *agent);

/* ---- agent_tick.c ---- */

/* The job has stopped, and too few are here for a view. */
bool agent_is_paused(const struct agent *agent);
/* Do what is due by the clock; and when something will be. */
void agent_tick(struct agent *agent);
uint64_t agent_deadline_ns(const struct agent *agent);

/* ---- agent_view.c ---- */

/* NULL for whoever is not in the view. */
struct member *agent_find_member(const struct agent *agent, const uint8_t *incarnation);
/* Is there still somebody to look for: workers, or the collector? */
bool agent_wants_search(const struct agent *agent);
void agent_set_searching(struct agent *agent);
/* The membership's callback: the view holds, the job starts. */
void agent_view_committed(void *context, const struct membership_view *view);
/* A view of one, without a network. */
void agent_begin_alone(struct agent *agent);
/* A data connection for the running job; takes `fd` over. */
void agent_give_data(struct agent *agent, const struct discovery_identity *from, int fd);
/* Compares the results once all have one. */
void agent_check_all_done(struct agent *agent);
/* All workers of the view have delivered, this one too. */
void agent_note_all_done(struct agent *agent);
/* Everybody has everything: take leave. */
void agent_say_bye(struct agent *agent);
/* The loop's callback for the job's thread. */
void agent_runner_changed(void *context, uint32_t events);

/* ---- agent_change.c ---- */

/* The membership's callbacks. */
void agent_stop_job(void *context, bool at_once, const char *reason);
void agent_has_left(void *context, uint64_t view);
/* Somebody says that it is about to go: its end is no loss. */
void agent_note_leaving(struct agent *agent, const uint8_t *incarnation);
/* A member's connection is gone. */
void agent_lost_member(struct agent *agent, struct member *member, const char *reason);
/* The job's thread has ended with the state after a whole step. `begun`: steps that were begun by then, also
 * those that are lost again. */
void agent_job_stopped(struct agent *agent, uint64_t begun);
/* The view that follows holds. */
void agent_change_agreed(struct agent *agent);
const char *agent_change_cause(const struct agent *agent);
/* Tells of the first step after a change, once it is made. */
void agent_check_recovered(struct agent *agent);
/* Told to stop: say good-bye first where that makes a difference. */
void agent_leave(struct agent *agent, int exit_status, const char *signal_name);
void agent_change_release(struct change *change);

/* ---- agent_peers.c ---- */

struct mesh_callbacks agent_mesh_callbacks(struct agent *agent);
struct membership_callbacks agent_membership_callbacks(struct agent *agent);
struct membership_worker agent_as_worker(const struct discovery_identity *identity);

#endif
