/* SPDX-License-Identifier: Apache-2.0 */
/* Take a stack away, in the order that leaks nothing: services, their tasks' end, secrets, configs, networks.
 * Networks that go while tasks stop leave addresses behind (docker/cli#7304). */
#ifndef SWARM_REMOVE_H
#define SWARM_REMOVE_H

#include "session.h"

/* *ret_found: there was something of that name. Ends when it is gone, -ETIMEDOUT at the deadline
 * (mst_now_ns()). An engine that restarts in the middle is waited for; with `is_known`, because the stack is
 * the caller's own, at the beginning too. */
int remove_stack(struct session *session, const char *stack, bool is_known, uint64_t deadline_ns,
                 bool *ret_found, struct mst_error *err);

/* Wait until nothing is left of services that were removed before: a deployment right after a removal would
 * attach to networks that are going away. */
int remove_await_leftovers(struct session *session, const char *stack, uint64_t deadline_ns,
                           struct mst_error *err);

#endif
