/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the job's thread share: runner.c (its life), runner_join.c (data connections) and
 * runner_deliver.c (files to the collector). */
#ifndef AGENT_RUNNER_PRIVATE_H
#define AGENT_RUNNER_PRIVATE_H

#include "deliver.h"
#include "runner.h"

#include <pthread.h>

struct runner {
    struct runner_options options;      /* members and steps point to the next two */
    struct discovery_identity *members; /* owned, by rank, as the next */
    uint64_t *steps;
    struct job_view view; /* fds_in and fds_out are owned */
    struct job_progress progress;
    pthread_t thread;
    int stage_fd, cancel_fd, pause_fd;

    pthread_mutex_t lock; /* guards what follows; `changed` tells of changes to it */
    pthread_cond_t changed;
    enum runner_stage stage;
    struct job_result result;
    struct mst_error err;
    int *given; /* owned: data connections made to us, by rank, -1: not there yet */
    bool collector_known, lacks_collector;
    struct discovery_identity collector;
    bool all_done, cancelled, ended;
};

/* Wait until `condition` holds, asked under the lock: 0, -ECANCELED or -ETIMEDOUT. */
int runner_wait(struct runner *runner, bool (*condition)(const struct runner *), unsigned wait_ms);
/* For waiting as long as nobody cancels. */
bool runner_never(const struct runner *runner);

/* Make the data connections that the job wants. */
int runner_join(struct runner *runner, struct mst_error *err);

/* Hand the files on; *ret_deliver is the connection to say the last word over, NULL when there is no
 * collector. An error that is about the collector is -EREMOTEIO. */
int runner_deliver(struct runner *runner, struct deliver **ret_deliver, struct mst_error *err);
/* Say the last word over it, or over a new one: then *deliver is that; NULL after an error. */
int runner_complete(struct runner *runner, struct deliver **deliver, struct mst_error *err);

#endif
