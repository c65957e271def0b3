/* SPDX-License-Identifier: Apache-2.0 */
/* Containers without an Engine: what looks like one in the control groups' tree. */
#ifndef MONITORING_SCAN_H
#define MONITORING_SCAN_H

#include "roster.h"

/* The id in a control group's name as Docker, containerd, CRI-O and Podman give it: 64 hex digits, perhaps
 * between a prefix and ".scope". False for other names, and for mounts of a container. */
bool scan_name(const char *name, char ret_id[static MONITOR_ID_BYTES]);

/* Adds what is new; what has gone is noticed when it is read. -ENOENT when there is no tree. */
int scan_run(struct roster *roster, struct mst_error *err);

#endif
