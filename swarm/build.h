/* SPDX-License-Identifier: Apache-2.0 */
/* Putting JSON together the way Go's encoder does for the engine's types: what is empty is left out. A lack
 * of memory is remembered in the builder instead of checked at every key. */
#ifndef SWARM_BUILD_H
#define SWARM_BUILD_H

#include "muster/compose.h"

#include <cjson/cJSON.h>

struct build {
    bool no_memory;
};

cJSON *build_object(struct build *build, cJSON *parent, const char *key); /* both NULL: a root */
cJSON *build_array(struct build *build, cJSON *parent, const char *key);
cJSON *build_append(struct build *build, cJSON *array); /* a new object at its end; NULL without memory */
void build_text(struct build *build, cJSON *object, const char *key, const char *text); /* also "" */
void build_text_if(struct build *build, cJSON *object, const char *key,
                   const char *text); /* not NULL or "" */
void build_item(struct build *build, cJSON *array, const char *text);
void build_int(struct build *build, cJSON *object, const char *key, int64_t value);    /* also 0 */
void build_int_if(struct build *build, cJSON *object, const char *key, int64_t value); /* not 0 */
void build_maybe(struct build *build, cJSON *object, const char *key, struct compose_maybe_u64 value);
void build_bool_if(struct build *build, cJSON *object, const char *key, bool value); /* only true */
void build_strings_if(struct build *build, cJSON *object, const char *key, struct compose_strings strings);
/* Returns the new object, NULL when there are no pairs. */
cJSON *build_pairs_if(struct build *build, cJSON *object, const char *key, const struct compose_pairs *pairs);
/* As docker labels what belongs to a stack: the pairs and com.docker.stack.namespace. */
cJSON *build_labels(struct build *build, cJSON *object, const char *key, const struct compose_pairs *pairs,
                    const char *stack);
/* cJSON writes whole numbers of 1e15 and more as 1e+15, which Go does not read into an int64. */
void build_whole_numbers(struct build *build, cJSON *json);
/* Base64 (RFC 4648, section 4), as Go writes byte slices. */
void build_base64(struct build *build, cJSON *object, const char *key, const void *bytes, size_t count);

#endif
