/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that runs a job in one view: it makes the data connections, runs the job, hands the files to the
 * collector, and tells the agent's thread about each stage through a descriptor. The agent's thread stays
 * free for heartbeats. */
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
    RUNNER_PAUSED,    /* stopped after the same step as the others */
    RUNNER_FAILED,    /* the job's state is after the last whole step */
};

struct runner_options {
    const struct job *job; /* borrowed */
    uint64_t view, key;
    uint32_t rank, world;
    const struct discovery_identity *members; /* by rank; copied, as the next two */
    const uint64_t *steps;
    struct discovery_self self; /* the agent's own changes while this thread reads */
    bool collect;
};

struct runner;

int runner_start(const struct runner_options *options, struct runner **ret_runner, struct mst_error *err);
/* Readable whenever the stage changed; runner_stage() reads it empty. */
int runner_fd(const struct runner *runner);
/* *ret_result once DELIVERED; *ret_error once FAILED. */
enum runner_stage runner_stage(struct runner *runner, struct job_result *ret_result,
                               struct mst_error *ret_error);
struct job_progress runner_progress(struct runner *runner);

/* The data connection that the worker of this rank has made to us: owned by the runner from now on. */
void runner_give_data(struct runner *runner, uint32_t rank, int fd);
void runner_give_collector(struct runner *runner, const struct discovery_identity *collector);
/* Since this was asked last, the collector that was given did not take the files: look for it again. */
bool runner_lacks_collector(struct runner *runner);
/* All workers have delivered. */
void runner_give_all_done(struct runner *runner);
/* Stop after a step that the others stop after, too. */
void runner_pause(struct runner *runner);
/* Stop at once. */
void runner_cancel(struct runner *runner);

/* Ends the thread's work if need be, waits up to `wait_ms` for it, and frees. -ETIMEDOUT: the thread does not
 * end; nothing is freed, and the process had better exit. */
int runner_stop(struct runner *runner, int wait_ms);

#endif
