/* SPDX-License-Identifier: Apache-2.0 */
/* What workers of a training say, and whoever reports gauges: events (docs/events.md) from containers' logs,
 * which the Engine serves, and from files of workers without a container. */
#ifndef MONITORING_TRAINING_H
#define MONITORING_TRAINING_H

#include "muster/engine.h"
#include "muster/monitor.h"
#include "roster.h"

struct training; /* one source of events */

struct trainings {
    struct training **items; /* owned */
    struct monitor_training *list;
    size_t count, capacity;
    bool is_full; /* it was said that one is not followed */
};

/* Opens the files (NULL: none). A file that is not there yet is looked for again. */
int trainings_init(struct trainings *trainings, const char *const *files, struct mst_error *err);
void trainings_release(struct trainings *trainings); /* before its streams */

/* Follows the workers among the roster's containers, as they come and go. `streams` NULL: none can be. A log
 * that cannot be had is asked for again later; beyond some 1000 files and logs no more are followed. */
int trainings_follow(struct trainings *trainings, const struct roster *roster, struct engine_streams *streams,
                     struct mst_error *err);

/* What is known, in the order of slots; borrowed until the next call. Reads what was added to the files. */
size_t trainings_list(struct trainings *trainings, const struct monitor_training **ret_list);

/* One line of events. Lines that are none, and events of other kinds, are passed over. */
void training_line(struct monitor_training *training, const char *line, size_t bytes);

#endif
