/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps a roster in step with the Engine: the events stream, the list when something may have been missed,
 * and an inspect for each container that (re)started. All of it goes over streams of one thread, so a slow or
 * dead engine never holds the sampling up. */
#ifndef MONITORING_FOLLOW_H
#define MONITORING_FOLLOW_H

#include "muster/engine.h"
#include "muster/error.h"
#include "roster.h"

#include <stdbool.h>
#include <stdint.h>

#define FOLLOW_ASKS 5 /* one for the list, the others for inspecting */

struct follow;

/* A request on its way. */
struct follow_ask {
    struct follow *follow;
    bool is_busy;
    bool is_stale;           /* the events stream broke since: a list may lack what happened then */
    struct roster_wish wish; /* to inspect; an empty id asks for the list */
    struct mst_buf reply;
};

struct follow {
    struct roster *roster; /* borrowed */
    const char *stack;     /* borrowed; NULL: containers of all stacks and of none */
    struct engine *engine;
    struct engine_streams *streams;
    struct engine_lines lines;
    bool has_events;   /* the events stream is open */
    bool was_cut_off;  /* there was a time without events: what is known may be wrong */
    bool has_listed;   /* at least once */
    bool is_down;      /* for saying so once, and when it is over */
    uint64_t retry_ns; /* not before, when something failed */
    uint64_t delay_ns; /* grows with each failure */
    uint64_t list_ns;  /* next list, even if nothing seems to be missing */
    struct follow_ask asks[FOLLOW_ASKS];
    char unseen[MONITOR_ID_BYTES]; /* the last that was said to run and could not be seen */
    struct mst_error
        first_error; /* a failure before the first list is for the caller, later ones are survived */
};

/* Connects. stop_fd: readable makes follow_run() return. What the engine client says when it fails. */
int follow_init(struct follow *follow, struct roster *roster, const char *host, const char *stack,
                int stop_fd, struct mst_error *err);
void follow_release(struct follow *follow); /* fine after a failed init */

/* Follows until `deadline_ns` (mst_now_ns()). 0, -ECANCELED, or why the first list could not be had. */
int follow_run(struct follow *follow, uint64_t deadline_ns, struct mst_error *err);

/* What the Engine said has been acted upon: the list is there and every wish of it was answered. */
bool follow_is_settled(const struct follow *follow);

#endif
