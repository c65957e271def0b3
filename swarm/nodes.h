/* SPDX-License-Identifier: Apache-2.0 */
/* The Swarm's nodes, and which of them a placement constraint allows. */
#ifndef SWARM_NODES_H
#define SWARM_NODES_H

#include "muster/compose.h"
#include "muster/engine.h"

struct swarm_node {
    const cJSON *json; /* borrowed from `list` */
    const char *id, *hostname, *address;
    bool is_usable; /* ready, and its availability is active */
    bool is_manager;
};

struct swarm_nodes {
    cJSON *list;
    struct swarm_node *items; /* by hostname */
    size_t count, usable_count;
};

int swarm_nodes_load(struct engine *engine, struct swarm_nodes *ret_nodes, struct mst_error *err);
/* The same from the reply at hand, which becomes `nodes`' own even on an error. */
int swarm_nodes_take(cJSON *list, struct swarm_nodes *ret_nodes, struct mst_error *err);
void swarm_nodes_release(struct swarm_nodes *nodes);
/* NULL: unknown. */
const struct swarm_node *swarm_nodes_find(const struct swarm_nodes *nodes, const char *id);

struct constraint {
    char key[128], value[256];
    bool must_differ; /* != */
};

/* "node.hostname == w1"; -EINVAL for what swarmkit would not take either. */
int constraint_parse(const char *text, struct constraint *ret_constraint, struct mst_error *err);
/* Keys that do not exist match nothing, as in swarmkit. Values are compared without case. */
bool constraint_allows(const struct constraint *constraint, const struct swarm_node *node);
/* Usable nodes that all constraints allow; texts must have been checked. */
size_t constraints_count_nodes(const struct compose_strings *constraints, const struct swarm_nodes *nodes);

#endif
