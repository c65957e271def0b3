/* SPDX-License-Identifier: Apache-2.0 */
/* A job is what an agent does once its membership is agreed. The agent drives every kind of job through the
 * same few calls, so that agreement, recovery and life cycle are written once: training is the first kind.
 * All calls come from one thread, the job's own, which may block for as long as it watches view->cancel_fd;
 * but for prepare() and, while no view's thread runs, position(): these are the agent's thread's, and must
 * not take long, since its heartbeats wait for them. */
#ifndef AGENT_JOB_H
#define AGENT_JOB_H

#include "muster/buf.h"
#include "muster/digest.h"
#include "muster/error.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct discovery_identity;

struct job_view {
    uint64_t view;
    uint32_t rank, world;
    uint64_t agreed_ns; /* mst_now_ns() when the view was agreed */
    const struct discovery_identity *members; /* by rank, who they are; borrowed, may be NULL */
    uint64_t key; /* 8 bytes that all workers of this job share */
    /* Data connections, by rank; -1 where there is none, and for this worker itself. enter() takes them over
     * by setting them to -1. JOB_DATA_RING: from the worker before in `fds_in`, to the next one in `fds_out`;
     * JOB_DATA_MESH: one a pair, for both directions, in `fds_out`. */
    int *fds_in, *fds_out;
    const uint64_t *steps; /* by rank: the step that each worker's state is after */
    int cancel_fd;         /* borrowed: readable once the job must stop with -ECANCELED */
    int pause_fd; /* borrowed: readable once the job should agree with the others on a step to stop at */
};

enum job_data { JOB_DATA_NONE, JOB_DATA_RING, JOB_DATA_MESH };

struct job_result {
    uint64_t step;
    uint8_t digest[MST_SHA256_BYTES]; /* must be equal in all workers */
};

/* A result file: its full path, and the plain name under which it is handed on. */
struct job_file {
    char *path, *name;
};

/* In one view: enter(), then epochs and steps from where the state is, then save() and finish(), then
 * leave(). A job that was stopped in a view enters the next one in the same process, with its state. */
struct job_kind {
    const char *name;
    enum job_data data;
    /* A view is near: others hold one that will take this worker in. What enter() would make them wait for is
     * done now. May come more than once, or never. NULL: nothing to do. */
    int (*prepare)(void *job, struct mst_error *err);
    /* Take the connections, and bring the states of all workers to the most advanced one. */
    int (*enter)(void *job, struct job_view *view, struct mst_error *err);
    uint64_t (*position)(void *job); /* steps that the state is after */
    int (*epoch_begin)(void *job, uint32_t epoch, struct mst_error *err);
    /* 1: made, and all workers stop here; 0: made. `pause`: this worker wants to stop. After an error the
     * state is after the step before. */
    int (*step)(void *job, bool pause, struct mst_error *err);
    /* Also called when a view begins at the end of an epoch, so it may come twice for one epoch. 1: it was
     * the last one, whatever was planned; the same in all workers. */
    int (*epoch_end)(void *job, uint32_t epoch, struct mst_error *err);
    int (*save)(void *job, struct mst_error *err);
    int (*finish)(void *job, struct job_result *ret_result, struct mst_error *err);
    /* Not NULL: called instead of epochs, steps, save and finish. 1: paused; 0: all is done. */
    int (*run)(void *job, struct job_view *view, struct job_result *ret_result, struct mst_error *err);
    void (*leave)(void *job); /* the view is over: its connections are closed */
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
    uint64_t entered_ns; /* mst_now_ns() when the view was entered, 0: not yet; and after its first step */
    uint64_t stepped_ns;
};

int job_progress_init(struct job_progress *progress, struct mst_error *err);
void job_progress_release(struct job_progress *progress);
/* A copy to read; its lock is not for use. */
struct job_progress job_progress_get(struct job_progress *progress);

/* The job in one view. 0: all is done; 1: paused, the same step everywhere; -ECANCELED once view->cancel_fd
 * is readable. leave() has been called when this returns. */
int job_run(const struct job *job, struct job_view *view, struct job_progress *progress,
            struct job_result *ret_result, struct mst_error *err);

void job_file_release(struct job_file *file); /* usable with mst_cleanup() */

#endif
