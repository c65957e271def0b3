/* SPDX-License-Identifier: Apache-2.0 */
/* A deployment does not take back what an autoscaler did. */
#ifndef SWARM_AUTOSCALE_KEEP_H
#define SWARM_AUTOSCALE_KEEP_H

#include "autoscale/policy.h"

/* Of a service that an autoscaler has scaled (the live one has its stamp) and that is to be scaled still (the
 * new body has the labels): the live number of replicas, within the new bounds, and the stamp go into `body`
 * in place of the file's number. Else nothing happens. `live` NULL: there is none. */
int autoscale_keep(cJSON *body, const cJSON *live, struct mst_error *err);

#endif
