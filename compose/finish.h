/* SPDX-License-Identifier: Apache-2.0 */
/* The last pass over a project, when all files are read: defaults, the order that docker gives its lists,
 * references, names, and what the engine would refuse. */
#ifndef COMPOSE_FINISH_H
#define COMPOSE_FINISH_H

#include "schema.h"

#include <string.h>

int finish_project(struct schema_load *load);

/* finish_service.c: what can be done one service at a time, in this order, up to NULL. The path stands at
 * "services.KEY". */
typedef int finish_service(struct schema_load *load, struct compose_service *service,
                           struct schema_draft *draft);
extern finish_service *const finish_service_steps[];

/* What the engine takes an absent protocol and mode for. */
static inline const char *finish_protocol(const struct compose_port *port)
{
    return port->protocol ? port->protocol : "tcp";
}

static inline bool finish_is_ingress(const struct compose_port *port)
{
    return !port->mode || strcmp(port->mode, "ingress") == 0;
}

#endif
