/* SPDX-License-Identifier: Apache-2.0 */
/* A training run from stack file to run folder: deploy, follow the workers, collect, summarise, remove. */
#ifndef SWARM_RUN_H
#define SWARM_RUN_H

#include "deploy.h"

struct run_options {
    const char *out, *name; /* parent of the run folder, and its name: runfolder_name() */
    bool leave;             /* do not remove the stack at the end */
    enum image_resolve resolve;
    const struct compose_strings *local; /* as in plan_options */
    bool with_auth;
    uint64_t timeout_ns;                                           /* of the training */
    const char *const *given, *const *environment, *const *filled; /* variables, for run.json */
};

/* Returns 0 when all workers are done and their files are in the run folder; SWARM_WORKER_FAILED, -ECANCELED,
 * -ETIMEDOUT, SWARM_NO_CONVERGENCE and so on when not, with the stack removed (unless `leave`) and what there
 * is of results written. The summary goes to stdout. */
int run_stack(struct session *session, const struct compose_project *project,
              const struct run_options *options, struct mst_error *err);

/* Wait until the workers of a stack that runs are done. */
int run_await_workers(struct session *session, const char *stack, uint64_t deadline_ns,
                      struct mst_error *err);

#endif
