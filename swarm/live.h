/* SPDX-License-Identifier: Apache-2.0 */
/* What lives of a stack, by its label, and the names that it might collide with. */
#ifndef SWARM_LIVE_H
#define SWARM_LIVE_H

#include "muster/engine.h"

/* Arrays, owned. */
struct live {
    cJSON *services, *networks, *secrets, *configs; /* of the stack, in order of name */
    /* What the engine has besides: names and published ports are one space for the whole swarm. */
    cJSON *other_services, *other_networks, *other_secrets, *other_configs;
};

int live_load(struct engine *engine, const char *stack, struct live *ret_live, struct mst_error *err);
void live_release(struct live *live);

/* An object of a list by its exact name; NULL when there is none. */
const cJSON *live_find(const cJSON *list, enum engine_kind kind, const char *name);
const char *live_name(const cJSON *object, enum engine_kind kind);
const char *live_id(const cJSON *object, enum engine_kind kind);
uint64_t live_version(const cJSON *object);
bool live_belongs(const cJSON *object, enum engine_kind kind, const char *stack);
/* All objects of a kind with the stack's label, in order of name. The caller frees the list. */
int live_list(struct engine *engine, enum engine_kind kind, const char *stack, cJSON **ret_list,
              struct mst_error *err);

#endif
