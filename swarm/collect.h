/* SPDX-License-Identifier: Apache-2.0 */
/* Fetch what the collector gathered: the Engine's archive of its folder, unpacked into the run folder. */
#ifndef SWARM_COLLECT_H
#define SWARM_COLLECT_H

#include "session.h"
#include "untar.h"

/* `task_id` of the collector, which must run on the node of the engine that is talked to; `container_folder`
 * as its event named it. */
int collect_fetch(struct session *session, const char *task_id, const char *container_folder,
                  const char *run_folder, struct untar_result *ret_result, struct mst_error *err);

#endif
