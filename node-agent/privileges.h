/* SPDX-License-Identifier: Apache-2.0 */
/* Giving up root for good: after it neither uid 0 nor any capability can come back, and no exec gains any. */
#ifndef AGENT_PRIVILEGES_H
#define AGENT_PRIVILEGES_H

#include "muster/error.h"

#include <sys/types.h>

/* Does nothing when the process is not root. Else: no supplementary groups, gid, uid, no capabilities, no new
 * privileges; checked afterwards by trying to go back. */
int privileges_drop(uid_t uid, gid_t gid, struct mst_error *err);

#endif
