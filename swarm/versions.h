/* SPDX-License-Identifier: Apache-2.0 */
/* Versions of a secret or config. The engine lets neither change, so what changes becomes a new object:
 * "st_key" first, as docker names it, then "st_key_2" (a secret: counted, for a digest of a weak secret can
 * be guessed) or "st_model_0a1b2c3d4e" (a config: by content), labelled with the name that it is a version
 * of. Services are pointed to the new one, and what no service refers to any more, not even in the
 * specification that a rollback would bring back, is collected. */
#ifndef SWARM_VERSIONS_H
#define SWARM_VERSIONS_H

#include "live.h"
#include "muster/compose.h"

#define VERSIONS_MAX 32 /* of one secret or config that are looked at, the newest first */

struct versions {
    const cJSON *items[VERSIONS_MAX]; /* borrowed, newest first */
    size_t count;
};

/* Is `object` the secret or config `name`, or a version of it? */
bool version_belongs(const cJSON *object, const char *name);
/* Of the stack's own `list`; and of `others` the one of that very name, when no stack has it. */
void versions_find(const cJSON *list, const cJSON *others, const char *name, struct versions *ret_versions);

/* A name for new content that neither list has: `name` itself when it is free. */
int version_name(enum engine_kind kind, const struct compose_content *content, const cJSON *list,
                 const cJSON *others, char ret_name[static ENGINE_NAME_MAX_BYTES], struct mst_error *err);

/* Does a service's specification refer to the secret or config with this id? */
bool version_is_referred(const cJSON *service_spec, enum engine_kind kind, const char *id);

#endif
