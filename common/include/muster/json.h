/* SPDX-License-Identifier: Apache-2.0 */
/* cJSON with what muster asks of it: a limit on size and depth, and typed look-ups whose errors name the
 * path. */
#ifndef MUSTER_JSON_H
#define MUSTER_JSON_H

#include "muster/error.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MST_JSON_MAX_DEPTH 64

/* Parse exactly one value. -EBADMSG with the byte offset's line and column, or when nested deeper than
 * MST_JSON_MAX_DEPTH. `what` names the source in the error text. The caller frees with cJSON_Delete(). */
int mst_json_parse(const char *text, size_t bytes, const char *what, cJSON **ret_json, struct mst_error *err);

/* For mst_cleanup(). */
void mst_json_deletep(cJSON **json);

/* Members of an object. The `_get_` forms fail with -EBADMSG ("what: key 'x' is missing" / "... is not a
 * ..."); the `_or` forms return the fallback when the key is absent, null or of another type. Strings are
 * borrowed. */
int mst_json_get_string(const cJSON *object, const char *key, const char *what, const char **ret_text,
                        struct mst_error *err);
int mst_json_get_u64(const cJSON *object, const char *key, uint64_t min, uint64_t max, const char *what,
                     uint64_t *ret_value, struct mst_error *err);
int mst_json_get_double(const cJSON *object, const char *key, const char *what, double *ret_value,
                        struct mst_error *err);
const char *mst_json_string_or(const cJSON *object, const char *key, const char *fallback);
double mst_json_double_or(const cJSON *object, const char *key, double fallback);
uint64_t mst_json_u64_or(const cJSON *object, const char *key, uint64_t fallback);
bool mst_json_bool_or(const cJSON *object, const char *key, bool fallback);
/* Walk nested objects: mst_json_at(j, "Spec", "TaskTemplate", NULL). NULL when one is missing; `json` may be
 * NULL. */
const cJSON *mst_json_at(const cJSON *json, ...) __attribute__((sentinel));

#endif
