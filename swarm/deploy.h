/* SPDX-License-Identifier: Apache-2.0 */
/* A project into running services: leftovers, plan, apply, converge, prune. */
#ifndef SWARM_DEPLOY_H
#define SWARM_DEPLOY_H

#include "plan.h"

struct deploy_options {
    enum image_resolve resolve;
    const struct compose_strings *local; /* as in plan_options */
    bool prune, detach, with_auth;
    uint64_t deadline_ns; /* of everything; mst_now_ns() */
    unsigned settle_ms;   /* how long the stack must stay settled */
};

/* Up to the last write. *ret_since_s is when the newest task was made before that: what failed earlier is not
 * this deployment's. The plan is the caller's to release, also after an error. */
int deploy_apply(struct session *session, const struct compose_project *project,
                 const struct deploy_options *options, struct plan *ret_plan, double *ret_since_s,
                 struct mst_error *err);

/* What deploy_stack() would do, on stdout. Nothing is written. */
int deploy_show(struct session *session, const struct compose_project *project,
                const struct deploy_options *options, enum output_format format, struct mst_error *err);

/* All of it. *ret_has_changed (may be NULL): there was something to write. */
int deploy_stack(struct session *session, const struct compose_project *project,
                 const struct deploy_options *options, bool *ret_has_changed, struct mst_error *err);

#endif
