/* SPDX-License-Identifier: Apache-2.0 */
/* Is what lives already what the file asks for? Bodies are compared key by key; what the engine fills in by
 * itself counts as absent. */
#ifndef SWARM_COMPARE_H
#define SWARM_COMPARE_H

#include "muster/buf.h"
#include "muster/engine.h"

/* Called for each leaf that differs: "TaskTemplate.ContainerSpec.Image", NULL where there is none. */
typedef void compare_fn(void *context, const char *path, const cJSON *desired, const cJSON *live);

/* Returns how many differences there are. `on_difference` may be NULL. */
size_t compare_service(const cJSON *desired, const cJSON *live_spec, compare_fn *on_difference,
                       void *context);
/* A network: only what the file says; the engine adds options and ids of its own. */
size_t compare_network(const cJSON *desired, const cJSON *live, compare_fn *on_difference, void *context);

/* The value as short text for people: quoted text, number, "{...}"; "none" for NULL. */
void compare_value_text(const cJSON *value, char *text, size_t capacity);

/* A difference as a line "path: old -> new\n". Where a side has nothing, and the engine fills something in,
 * that is named; the id of a secret or config that is still to be made has no line. */
void compare_add_line(struct mst_buf *lines, const char *path, const cJSON *desired, const cJSON *live);
/* The first of such lines, and how many more there are. */
void compare_short_text(const char *lines, char *text, size_t capacity);

#endif
