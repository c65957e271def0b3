/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that runs a job: it joins the ring, runs the job, hands the files to the collector, and tells
 * the agent's thread about each stage through a descriptor. The agent's thread stays free for heartbeats. */
#ifndef AGENT_RUNNER_H
#define AGENT_RUNNER_H

#include "job.h"
#include "muster/discovery.h"
#include "muster/error.h"

#include <stdbool.h>
#include <stdint.h>

enum runner_stage {
    RUNNER_RUNNING,
    RUNNER_DELIVERED, /* the result is there, the files are handed on */
    RUNNER_COMPLETED, /* nothing is left to do */
    RUNNER_FAILED,
};

struct runner_options {
    const struct job *job;          /* borrowed, as all pointers here */
    struct job_view view;           /* sockets unset */
    struct discovery_self self;     /* a copy: the agent's own changes while this thread reads */
    struct discovery_identity next; /* the neighbour to dial, when world > 1 */
    bool collect;
};

struct runner;

int runner_start(const struct runner_options *options, struct runner **ret_runner, struct mst_error *err);
/* Readable whenever the stage changed; runner_stage() reads it empty. */
int runner_fd(const struct runner *runner);
/* *ret_result once DELIVERED; *ret_error once FAILED. */
enum runner_stage runner_stage(struct runner *runner, struct job_result *ret_result,
                               struct mst_error *ret_error);
void runner_progress(struct runner *runner, uint64_t *ret_step, uint32_t *ret_epoch);

/* The data connection from the previous worker: owned by the runner from now on. */
void runner_give_previous(struct runner *runner, int fd);
void runner_give_collector(struct runner *runner, const struct discovery_identity *collector);
/* All workers have delivered. */
void runner_give_all_done(struct runner *runner);
void runner_cancel(struct runner *runner);

/* Ends the thread's work if need be, waits up to `wait_ms` for it, and frees. -ETIMEDOUT: the thread does not
 * end; nothing is freed, and the process had better exit. */
int runner_stop(struct runner *runner, int wait_ms);

#endif
