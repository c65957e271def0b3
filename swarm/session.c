/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/signals.h"
#include "stack.h"

#include <signal.h>

#define TROUBLE_MAX_MS 20000 /* an engine that restarts is back by then */

static const int caught[] = {SIGINT, SIGTERM};

int session_open(struct session *session, const char *host, const char *context, struct mst_error *err)
{
    const struct engine_options options = {.host = host, .context = context};
    int r;

    *session = (struct session){.signal_fd = -1};
    report_init(&session->report, stderr);
    r = engine_new(&options, &session->engine, err);
    if (r == -ENOENT && context) { /* nothing was connected to so far: the option is wrong */
        if (err)
            err->code = -EINVAL;
        return -EINVAL;
    }
    if (r < 0)
        return r;
    return engine_streams_new(session->engine, &session->streams, err);
}

void session_close(struct session *session)
{
    engine_streams_free(session->streams);
    engine_free(session->engine);
    report_release(&session->report);
    session->streams = NULL;
    session->engine = NULL;
    mst_closep(&session->signal_fd);
}

int session_info(struct session *session, struct engine_info *ret_info, struct mst_error *err)
{
    if (!session->has_info) {
        const int r = engine_info(session->engine, &session->info, err);
        if (r < 0)
            return r;
        session->has_info = true;
    }
    *ret_info = session->info;
    return 0;
}

int session_catch_signals(struct session *session, struct mst_error *err)
{
    const int r = mst_signals_open(caught, MST_ARRAY_COUNT(caught), &session->signal_fd, err);

    if (r >= 0)
        engine_set_cancel_fd(session->engine, session->signal_fd); /* never read: it stays readable */
    return r;
}

void session_heed_no_more_signals(struct session *session)
{
    mst_signals_restore(caught, MST_ARRAY_COUNT(caught));
    engine_set_cancel_fd(session->engine, -1);
}

bool session_bears(struct session *session, struct trouble *trouble, int code, const struct mst_error *err)
{
    if (code == -ECANCELED || code == -ENOMEM || code == SWARM_WORKER_FAILED ||
        code == SWARM_NO_CONVERGENCE || code == SWARM_ROLLED_BACK)
        return false;
    if (trouble->since_ns == 0) {
        trouble->since_ns = mst_now_ns();
        report_line(&session->report, "warning: %s; trying again", err->text);
    }
    return mst_ms_since(trouble->since_ns) < TROUBLE_MAX_MS;
}

int session_wait(struct session *session, unsigned ms, uint64_t deadline_ns, struct mst_error *err)
{
    const uint64_t until_ns = mst_now_ns() + ms * MST_NS_PER_MS;

    for (;;) {
        const int left_ms = mst_ms_until(until_ns, (int)ms);
        const int r = engine_streams_run(session->streams, left_ms, NULL, err);

        if (r < 0)
            return r;
        if (deadline_ns > 0 && mst_now_ns() >= deadline_ns)
            return -ETIMEDOUT;
        if (left_ms == 0)
            return 0;
    }
}
