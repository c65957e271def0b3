/* SPDX-License-Identifier: Apache-2.0 */
/* A job is what an agent does once its membership is agreed. The agent drives every kind of job through the
 * same few calls, so that agreement, recovery and life cycle are written once: training is the first kind.
 * All calls come from one thread, the job's own, which may block for as long as it watches view->cancel_fd.
 */
#ifndef AGENT_JOB_H
#define AGENT_JOB_H

#include "muster/buf.h"
#include "muster/digest.h"
#include "muster/error.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct job_view {
    uint64_t view;
    uint32_t rank, world;
    uint64_t key;  /* 8 bytes that all workers of this job share */
    int fd_prev;   /* data connections to the neighbours in the ring, -1 for one worker; prepare() takes */
    int fd_next;   /* them over by setting them to -1 */
    int cancel_fd; /* borrowed: readable once the job must stop with -ECANCELED */
};

struct job_result {
    uint64_t step;
    uint8_t digest[MST_SHA256_BYTES]; /* must be equal in all workers */
};

/* A result file: its full path, and the plain name under which it is handed on. */
struct job_file {
    char *path, *name;
};

struct job_kind {
    const char *name;
    int (*prepare)(void *job, struct job_view *view, struct mst_error *err);
    int (*epoch_begin)(void *job, uint32_t epoch, struct mst_error *err);
    int (*step)(void *job, struct mst_error *err);
    int (*epoch_end)(void *job, uint32_t epoch, struct mst_error *err);
    int (*save)(void *job, struct mst_error *err);
    int (*finish)(void *job, struct job_result *ret_result, struct mst_error *err);
    /* File number `index` of those that this worker has to hand on, once finish() is done: 1 and *ret_file
     * (owned by the caller), 0 when there are no more. */
    int (*file)(void *job, size_t index, struct job_file *ret_file, struct mst_error *err);
};

struct job {
    const struct job_kind *kind;
    void *state; /* borrowed */
    uint32_t epochs;
    uint32_t steps_per_epoch;
};

/* How far it is; written by the job's thread, read by the agent's. */
struct job_progress {
    pthread_mutex_t lock; /* guards the rest */
    uint64_t step;
    uint32_t epoch;
};

int job_progress_init(struct job_progress *progress, struct mst_error *err);
void job_progress_release(struct job_progress *progress);
void job_progress_get(struct job_progress *progress, uint64_t *ret_step, uint32_t *ret_epoch);

/* Prepare, all epochs with their steps, save, finish. -ECANCELED once view->cancel_fd is readable. */
int job_run(const struct job *job, struct job_view *view, struct job_progress *progress,
            struct job_result *ret_result, struct mst_error *err);

void job_file_release(struct job_file *file); /* usable with mst_cleanup() */

#endif
