/* SPDX-License-Identifier: Apache-2.0 */
/* What every verb works with: the engine, the streams whose loop is also the one place to wait, and the
 * report. */
#ifndef SWARM_SESSION_H
#define SWARM_SESSION_H

#include "muster/engine.h"
#include "report.h"

struct session {
    struct engine *engine;          /* owned */
    struct engine_streams *streams; /* owned */
    struct report report;
};

/* `host` as for engine_new(); `cancel_fd` as for engine_set_cancel_fd(). */
int session_open(struct session *session, const char *host, int cancel_fd, struct mst_error *err);
void session_close(struct session *session); /* fine after a failed open */

/* Serve the streams for at least `ms`, or until the deadline (0: none), and return -ETIMEDOUT when that is
 * past (without a text: the caller knows what it waited for), -ECANCELED, or an error. */
int session_wait(struct session *session, unsigned ms, uint64_t deadline_ns, struct mst_error *err);

#endif
