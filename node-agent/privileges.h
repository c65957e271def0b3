/* SPDX-License-Identifier: Apache-2.0 */
/* Giving up root for good: after it neither uid 0 nor any capability can come back, and no exec gains any. */
#ifndef AGENT_PRIVILEGES_H
#define AGENT_PRIVILEGES_H

#include "muster/error.h"

#include <sys/types.h>

/* When root: no supplementary groups, gid, uid. In any case: no capabilities (a file or an ambient set may
 * have given some), no new privileges; checked afterwards by trying to become root. */
int privileges_drop(uid_t uid, gid_t gid, struct mst_error *err);

#endif
