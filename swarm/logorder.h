/* SPDX-License-Identifier: Apache-2.0 */
/* Log messages of many tasks in order of time. The engine sends one task's log after the other's, or each as
 * it comes from its node; messages are held back until nothing older is likely to come. */
#ifndef SWARM_LOGORDER_H
#define SWARM_LOGORDER_H

#include "logfollow.h"

struct logorder; /* opaque */

/* `on_message` gets copies, in order; of one time, in the order of their coming. `hold_ms` 0: all are held
 * until logorder_flush(), or until they take up too much memory: then the older half goes out. */
int logorder_new(unsigned hold_ms, log_message_fn *on_message, void *context, struct logorder **ret_order,
                 struct mst_error *err);
void logorder_free(struct logorder *order); /* what is held is dropped */
void logorder_freep(struct logorder **order);
/* A log_message_fn: `context` is the order. */
int logorder_add(void *context, const struct log_message *message, struct mst_error *err);
/* Hand on what was held long enough by `now_ns`. */
int logorder_tick(struct logorder *order, uint64_t now_ns, struct mst_error *err);
int logorder_flush(struct logorder *order, struct mst_error *err);

#endif
