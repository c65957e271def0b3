/* SPDX-License-Identifier: Apache-2.0 */
/* The variables of the stacks that muster ships, filled from the Swarm at hand where the user sets none. */
#ifndef SWARM_VARIABLES_H
#define SWARM_VARIABLES_H

#include "nodes.h"

#include <stddef.h>

#define VARIABLES_NODES 3 /* MUSTER_NODE1 to MUSTER_NODE3, and as many MUSTER_REPLICAS */

struct variables {
    char **items; /* "NAME=VALUE", ended by NULL; owned */
    size_t count;
};

/* MUSTER_STACK, MUSTER_MANAGER, MUSTER_NODE<i> (usable nodes by name, again from the first when there are
 * fewer), MUSTER_REPLICAS<i> (`workers` spread over them, the first ones get more). `nodes` NULL: only the
 * stack's name. Added to what `variables` has. */
int variables_fill(const char *stack, const char *manager, const struct swarm_nodes *nodes, unsigned workers,
                   struct variables *variables, struct mst_error *err);
int variables_add(struct variables *variables, const char *name, const char *value, struct mst_error *err);
void variables_release(struct variables *variables);

/* The value of NAME in "NAME=VALUE" lists that end with NULL (each may be NULL), the first that has it; else
 * NULL. */
const char *variables_find(const char *name, const char *const *first, const char *const *second,
                           const char *const *third);
/* -e NAME=VALUE: a name that Compose would read. */
int variables_check(const char *text, struct mst_error *err);
/* True for names whose values do not belong into a report: KEY, SECRET, TOKEN, PASS in them. */
bool variables_is_private(const char *text);

#endif
