/* SPDX-License-Identifier: Apache-2.0 */
/* The variables that muster's own programs read in a container, looked at before a container is made: a
 * typing error in one would be found by each worker for itself, after everything was deployed. */
#ifndef SWARM_VALUES_H
#define SWARM_VALUES_H

#include "muster/compose.h"

/* "3" or "2:8": one number is both bounds. 1 to 1024. */
int values_parse_workers(const char *text, uint32_t *ret_min, uint32_t *ret_max, struct mst_error *err);

/* 0 for a variable that is not known, or whose value a program will take, as far as can be told here; else
 * -EINVAL with what is wrong. Empty values and templates ("{{.Task.Slot}}") are left to the program. */
int values_check(const char *name, const char *value, struct mst_error *err);

/* All services that run muster-agent or muster-monitor, or have the label muster.role: -EBADMSG with the
 * service's place. */
int values_check_project(const struct compose_project *project, struct mst_error *err);

#endif
