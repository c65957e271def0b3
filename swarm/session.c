/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

#include "muster/clock.h"

int session_open(struct session *session, const char *host, int cancel_fd, struct mst_error *err)
{
    const struct engine_options options = {.host = host};
    int r;

    *session = (struct session){0};
    report_init(&session->report, stderr);
    r = engine_new(&options, &session->engine, err);
    if (r < 0)
        return r;
    engine_set_cancel_fd(session->engine, cancel_fd);
    return engine_streams_new(session->engine, &session->streams, err);
}

void session_close(struct session *session)
{
    engine_streams_free(session->streams);
    engine_free(session->engine);
    report_release(&session->report);
    session->streams = NULL;
    session->engine = NULL;
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
