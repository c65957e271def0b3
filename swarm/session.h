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
    int signal_fd;           /* owned; -1: signals do what they do by default */
    struct engine_info info; /* session_info()'s */
    bool has_info;
};

/* `host` and `context` as for engine_new(). */
int session_open(struct session *session, const char *host, const char *context, struct mst_error *err);
void session_close(struct session *session); /* fine after a failed open */

/* Who the engine is. It is asked once: that takes it as long as all else that a plan asks, and does not
 * change. */
int session_info(struct session *session, struct engine_info *ret_info, struct mst_error *err);

/* From now on SIGINT and SIGTERM end every wait with -ECANCELED. Not before the input is read, which may be a
 * terminal's or a pipe's: until something is written, to end at once is right. */
int session_catch_signals(struct session *session, struct mst_error *err);
/* Cleaning up after the first signal: the next one ends the process at once. */
void session_heed_no_more_signals(struct session *session);

/* An engine that is away for a moment, or has not found its Swarm again: it was restarted. */
struct trouble {
    uint64_t since_ns; /* 0: there is none */
};

/* True while `code` may pass: it is told of once, as a warning, and given some seconds. */
bool session_bears(struct session *session, struct trouble *trouble, int code, const struct mst_error *err);

/* Serve the streams for at least `ms`, or until the deadline (0: none), and return -ETIMEDOUT when that is
 * past (without a text: the caller knows what it waited for), -ECANCELED, or an error. */
int session_wait(struct session *session, unsigned ms, uint64_t deadline_ns, struct mst_error *err);

#endif
