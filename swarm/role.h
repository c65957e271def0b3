/* SPDX-License-Identifier: Apache-2.0 */
/* What a service is to a training. */
#ifndef SWARM_ROLE_H
#define SWARM_ROLE_H

#include <cjson/cJSON.h>

enum service_role { ROLE_OTHER, ROLE_WORKER, ROLE_COLLECTOR, ROLE_MONITOR };

/* By the label muster.role, else by what the service's command is. `spec` as the engine has it. */
enum service_role service_role(const cJSON *spec);

#endif
