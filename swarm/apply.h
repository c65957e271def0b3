/* SPDX-License-Identifier: Apache-2.0 */
/* Carry out a plan: networks, secrets, configs, services; removals come last and apart, after convergence. */
#ifndef SWARM_APPLY_H
#define SWARM_APPLY_H

#include "plan.h"

struct apply_options {
    bool is_detached;     /* services do not wait for those that they depend on */
    uint64_t deadline_ns; /* of such waits */
    double since_s;       /* as in converge.h */
};

/* Each write is a line of session->report. After an error what this call created is removed again, and the
 * text says what could not be; what it updated stays updated. Not after -ECANCELED, nor when a
 * service that another one depends on did not come up: then everything stands as it is; and not after
 * -EEXIST: another deployment of the same stack is under way, and may use it. */
int apply_plan(struct session *session, struct plan *plan, const struct apply_options *options,
               struct mst_error *err);
/* The PLAN_REMOVE steps: old versions, and what --prune takes. What is still in use is kept, with a line. */
int apply_removals(struct session *session, const struct plan *plan, struct mst_error *err);

#endif
