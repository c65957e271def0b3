/* SPDX-License-Identifier: Apache-2.0 */
/* The last pass over a project, when all files are read: defaults, the order that docker gives its lists,
 * references, names, and what the engine would refuse. */
#ifndef COMPOSE_FINISH_H
#define COMPOSE_FINISH_H

#include "schema.h"

int finish_project(struct schema_load *load);

#endif
