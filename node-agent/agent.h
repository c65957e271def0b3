/* SPDX-License-Identifier: Apache-2.0 */
/* One worker from start to end: find the others, agree on views with them, and run a job in each. */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include "config.h"
#include "job.h"
#include "station.h"

#include <stdbool.h>
#include <stdint.h>

/* What a work's open() is given; borrowed until its close(). */
struct agent_site {
    const struct agent_config *config;
    struct station *station; /* slot, events, and the chosen interface */
    uint64_t start_ns;       /* of the process, on mst_now_ns()'s clock */
};

/* A kind of work, from its input files to a job. */
struct agent_work {
    void *context;
    /* Read the inputs: root is given up, the network not opened yet. Errors are about the user's files and
     * settings, but for -ENOMEM. *ret_key: equal in two workers exactly if they run the same job. */
    int (*open)(void *context, const struct agent_site *site, struct job *ret_job,
                uint8_t ret_key[static MST_SHA256_BYTES], struct mst_error *err);
    /* With a fixed number of workers: no view has fewer. Else later views shrink to whoever is left. */
    bool needs_all;
    /* A member has dialled to launch a program here: `fd` is taken over, the session good for the call. May
     * be NULL: then none is let in. Called from the agent's thread. */
    void (*launch)(void *context, const struct discovery_session *session, int fd);
    /* The event `start` is out: what open() found may be told now. May be NULL. */
    void (*begun)(void *context);
    /* Told to stop while nobody else is at the job, which has ended here; its close() comes next. What is
     * left of it may be told. May be NULL. */
    void (*stopped)(void *context);
    /* The job is done, by all: what was kept for a restart may go. May be NULL. */
    void (*done)(void *context);
    void (*close)(void *context);
};

/* Returns the exit status; what there is to say has been said. */
int agent_run(const struct agent_config *config, const struct agent_work *work);

/* The verb `train`. */
int agent_train(const struct agent_config *config);

#endif
