/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/event.h"

#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/file.h"
#include "muster/net.h"

#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

int mst_event_sink_init(struct mst_event_sink *sink, int fd, const char *slot, struct mst_error *err)
{
    if (strlen(slot) >= sizeof sink->slot)
        return mst_error_set(err, -EINVAL, "slot name '%.32s...' is longer than %zu bytes", slot,
                             sizeof sink->slot - 1);
    *sink = (struct mst_event_sink){.fd = fd};
    (void)snprintf(sink->slot, sizeof sink->slot, "%s", slot);
    const int r = pthread_mutex_init(&sink->lock, NULL);
    return r == 0 ? 0 : mst_error_errno(err, -r, "make the event lock");
}

void mst_event_sink_release(struct mst_event_sink *sink)
{
    (void)pthread_mutex_destroy(&sink->lock); /* fails only for a lock that is held: a bug */
}

cJSON *mst_event_new(const struct mst_event_sink *sink, const char *name)
{
    cJSON *event = cJSON_CreateObject();
    const double t = round(mst_wall_s() * 1000) / 1000; /* prints as milliseconds */
    if (cJSON_AddStringToObject(event, "event", name) && cJSON_AddNumberToObject(event, "t", t) &&
        cJSON_AddStringToObject(event, "slot", sink->slot))
        return event;
    cJSON_Delete(event);
    return NULL;
}

/* A pipe that is ready takes a whole line at once: PIPE_BUF is as large as an event may be. */
static int write_line(struct mst_event_sink *sink, const char *line, size_t count)
{
    if (sink->patience_ms > 0) {
        const uint64_t wait_ns = sink->full ? 0 : sink->patience_ms * MST_NS_PER_MS;
        const int r = mst_wait_fd(sink->fd, POLLOUT, mst_now_ns() + wait_ns);
        sink->full = r < 0;
        if (r < 0)
            return r;
    }
    return mst_write_all(sink->fd, line, count);
}

int mst_event_emit(struct mst_event_sink *sink, cJSON *event)
{
    if (!event)
        return -ENOMEM;
    mst_cleanup(mst_freep) char *line = cJSON_PrintUnformatted(event);
    cJSON_Delete(event);
    if (!line)
        return -ENOMEM;
    const size_t length = strlen(line);
    if (length + 1 > MST_EVENT_MAX_BYTES)
        return -EMSGSIZE;
    if (sink->fd < 0)
        return 0;

    line[length] = '\n'; /* takes the NUL's place: the length is known from here on */
    pthread_mutex_lock(&sink->lock);
    const int r = write_line(sink, line, length + 1);
    pthread_mutex_unlock(&sink->lock);
    return r;
}
