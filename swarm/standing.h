/* SPDX-License-Identifier: Apache-2.0 */
/* How far each worker of a stack is, from the ends of the services' logs: there is no other channel. */
#ifndef SWARM_STANDING_H
#define SWARM_STANDING_H

#include "session.h"
#include "worker.h"

/* One a task, unlike in workers.h: one that ended keeps its last words. */
struct standings {
    struct worker *items; /* owned, by task_id */
    size_t count;
};

/* Read the last lines of the tasks of all worker services in `services`, for a few seconds at most; what
 * cannot be read is a warning on the session's report. -ENOMEM or -ECANCELED. */
int standings_read(struct session *session, const cJSON *services, const cJSON *tasks,
                   struct standings *ret_standings, struct mst_error *err);
void standings_release(struct standings *standings);
const struct worker *standings_find(const struct standings *standings, const char *task_id); /* or NULL */

/* The state of a task's worker; NULL: nothing is known, as of one that was killed. */
const char *standing_text(const struct worker *worker, bool has_ended);

#endif
