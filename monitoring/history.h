/* SPDX-License-Identifier: Apache-2.0 */
/* The last minutes as the page draws them: rates and levels of each container and training, in a ring. Kept
 * small: 100 containers over 600 ticks are about 1.5 MB. */
#ifndef MONITORING_HISTORY_H
#define MONITORING_HISTORY_H

#include "muster/buf.h"
#include "muster/monitor.h"

#define HISTORY_SERIES_MAX 2048 /* of containers, and as many of trainings */

enum history_value {
    HISTORY_CPU,    /* per cent of a core */
    HISTORY_MEMORY, /* bytes, without the cache that is taken back first */
    HISTORY_RX,     /* bytes a second */
    HISTORY_TX,
    HISTORY_READ, /* block I/O, bytes a second */
    HISTORY_WRITE,
    HISTORY_VALUES,
};

enum history_training_value { HISTORY_LOSS, HISTORY_STEP_MS, HISTORY_ACCURACY, HISTORY_TRAINING_VALUES };

struct history_series;

struct history {
    size_t capacity;  /* ticks */
    double min_gap_s; /* passes that follow sooner are left out: rates over a moment are noise */
    uint64_t ticks;   /* so far; tick t is at t % capacity */
    double *times;    /* Unix seconds */
    struct history_series **series; /* owned: containers, then those that have gone but are still in sight */
    size_t count, room;
    struct history_series **trainings;
    size_t training_count, training_room;
    struct monitor_machine machine;
    const char *node, *version; /* borrowed */
};

int history_init(struct history *history, size_t capacity, const char *node, const char *version,
                 struct mst_error *err);
void history_release(struct history *history);

/* One more tick, with rates since the tick before; the first of a container has none. */
int history_add(struct history *history, const struct monitor_pass *pass, struct mst_error *err);

/* Everything after `since_s` (0: all that is there) as JSON: {"node","version","day","cpus","times":[...],
 * "containers":[{"id","name",...,"first","cpu":[...],...}],"trainings":[...]}. Values are those of the times
 * from number `first` on, as many as there are up to the newest in which it was seen; one that is not known
 * is null. */
int history_json(const struct history *history, double since_s, bool has_day, struct mst_buf *text);

#endif
