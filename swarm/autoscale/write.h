/* SPDX-License-Identifier: Apache-2.0 */
/* The one thing that an autoscaler writes: a number of replicas, and its stamp beside it. */
#ifndef SWARM_AUTOSCALE_WRITE_H
#define SWARM_AUTOSCALE_WRITE_H

#include "autoscale/view.h"
#include "session.h"

/* Whoever wrote last is right: when the version has moved, the service is read again, and if its replicas or
 * its labels are not those that were decided on any more, or something is being rolled out now, nothing is
 * written: -ESTALE with what was seen. -EREMOTEIO when the manager refuses. */
int autoscale_write(struct session *session, const struct autoscale_subject *subject,
                    const struct autoscale_decision *decision, struct mst_error *err);

#endif
