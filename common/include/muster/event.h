/* SPDX-License-Identifier: Apache-2.0 */
/* Events: one JSON object a line on stdout, which Swarm serves to the operator as the service's log
 * (docs/events.md lists them). A line holds at most MST_EVENT_MAX_BYTES, goes out with one write(2), and
 * never carries a secret. */
#ifndef MUSTER_EVENT_H
#define MUSTER_EVENT_H

#include "muster/error.h"

#include <cjson/cJSON.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define MST_EVENT_MAX_BYTES 4096

struct mst_event_sink {
    pthread_mutex_t lock; /* one line at a time; guards `full` */
    bool full;            /* the last event was given up: nobody waits for room again before there is some */
    int fd;               /* borrowed; -1 drops all events */
    unsigned patience_ms; /* for whoever reads to make room, or the event is lost; 0: as long as it takes.
                             May be changed until others emit, too */
    atomic_bool failed;   /* a writer has told once that events are lost */
    char slot[128];       /* who speaks */
};

int mst_event_sink_init(struct mst_event_sink *sink, int fd, const char *slot, struct mst_error *err);
void mst_event_sink_release(struct mst_event_sink *sink);

/* A new object with "event", "t" and "slot" filled in; add to it with cJSON, then emit. NULL without memory.
 */
cJSON *mst_event_new(const struct mst_event_sink *sink, const char *name);
/* Writes and deletes `event` (NULL: -ENOMEM). A reader that went away (-EPIPE), or takes nothing
 * (-ETIMEDOUT), is the caller's to ignore. */
int mst_event_emit(struct mst_event_sink *sink, cJSON *event);

#endif
