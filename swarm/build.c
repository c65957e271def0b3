/* SPDX-License-Identifier: Apache-2.0 */
#include "build.h"

#include "muster/cleanup.h"
#include "muster/digest.h"
#include "stack.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static cJSON *attach(struct build *build, cJSON *parent, const char *key, cJSON *item)
{
    if (!item || (parent && !cJSON_AddItemToObject(parent, key, item))) {
        build->no_memory = true;
        cJSON_Delete(item);
        return NULL;
    }
    return item;
}

/* A key without a parent: the parent could not be made. */
static bool has_no_parent(struct build *build, const cJSON *parent, const char *key)
{
    if (!parent && key)
        build->no_memory = true;
    return !parent && key;
}

cJSON *build_object(struct build *build, cJSON *parent, const char *key)
{
    if (has_no_parent(build, parent, key))
        return NULL;
    return attach(build, parent, key, cJSON_CreateObject());
}

cJSON *build_array(struct build *build, cJSON *parent, const char *key)
{
    if (has_no_parent(build, parent, key))
        return NULL;
    return attach(build, parent, key, cJSON_CreateArray());
}

cJSON *build_append(struct build *build, cJSON *array)
{
    cJSON *object = cJSON_CreateObject();

    if (!array || !object || !cJSON_AddItemToArray(array, object)) {
        build->no_memory = true;
        cJSON_Delete(object);
        return NULL;
    }
    return object;
}

void build_text(struct build *build, cJSON *object, const char *key, const char *text)
{
    if (object)
        (void)attach(build, object, key, cJSON_CreateString(text));
}

void build_text_if(struct build *build, cJSON *object, const char *key, const char *text)
{
    if (text && text[0] != '\0')
        build_text(build, object, key, text);
}

void build_item(struct build *build, cJSON *array, const char *text)
{
    cJSON *item = cJSON_CreateString(text);

    if (!array || !item || !cJSON_AddItemToArray(array, item)) {
        build->no_memory = true;
        cJSON_Delete(item);
    }
}

void build_int(struct build *build, cJSON *object, const char *key, int64_t value)
{
    char text[24];

    if (!object)
        return;
    /* cJSON prints large numbers as 1e+15, which Go does not read into an int64. */
    (void)snprintf(text, sizeof text, "%" PRId64, value);
    if (value > -1000000000000000 && value < 1000000000000000)
        (void)attach(build, object, key, cJSON_CreateNumber((double)value));
    else
        (void)attach(build, object, key, cJSON_CreateRaw(text));
}

void build_int_if(struct build *build, cJSON *object, const char *key, int64_t value)
{
    if (value != 0)
        build_int(build, object, key, value);
}

void build_maybe(struct build *build, cJSON *object, const char *key, struct compose_maybe_u64 value)
{
    if (value.is_set)
        build_int(build, object, key, (int64_t)value.value);
}

void build_bool_if(struct build *build, cJSON *object, const char *key, bool value)
{
    if (value && object)
        (void)attach(build, object, key, cJSON_CreateBool(true));
}

void build_strings_if(struct build *build, cJSON *object, const char *key, struct compose_strings strings)
{
    cJSON *array;

    if (strings.count == 0 || !object)
        return;
    array = build_array(build, object, key);
    for (size_t i = 0; i < strings.count && array; i++)
        build_item(build, array, strings.items[i]);
}

cJSON *build_pairs_if(struct build *build, cJSON *object, const char *key, const struct compose_pairs *pairs)
{
    cJSON *map;

    if (pairs->count == 0 || !object)
        return NULL;
    map = build_object(build, object, key);
    for (size_t i = 0; i < pairs->count; i++)
        build_text(build, map, pairs->items[i].key, pairs->items[i].value ? pairs->items[i].value : "");
    return map;
}

cJSON *build_labels(struct build *build, cJSON *object, const char *key, const struct compose_pairs *pairs,
                    const char *stack)
{
    cJSON *labels = build_object(build, object, key);

    for (size_t i = 0; i < pairs->count; i++) {
        if (strcmp(pairs->items[i].key, STACK_LABEL) != 0)
            build_text(build, labels, pairs->items[i].key,
                       pairs->items[i].value ? pairs->items[i].value : "");
    }
    build_text(build, labels, STACK_LABEL, stack);
    return labels;
}

void build_whole_numbers(struct build *build, cJSON *json)
{
    cJSON *child;

    if (cJSON_IsNumber(json) && fabs(json->valuedouble) >= 1e15 && fabs(json->valuedouble) < 9.2e18) {
        char text[24];
        (void)snprintf(text, sizeof text, "%.0f", json->valuedouble);
        json->valuestring = cJSON_malloc(strlen(text) + 1);
        if (!json->valuestring) {
            build->no_memory = true;
            return;
        }
        memcpy(json->valuestring, text, strlen(text) + 1);
        json->type = (json->type & ~0xff) | cJSON_Raw;
    }
    if (!cJSON_IsArray(json) && !cJSON_IsObject(json))
        return;
    cJSON_ArrayForEach(child, json) build_whole_numbers(build, child);
}

void build_base64(struct build *build, cJSON *object, const char *key, const void *bytes, size_t count)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *in = bytes;
    const size_t text_bytes = (count + 2) / 3 * 4;
    mst_cleanup(mst_freep) char *text = malloc(text_bytes + 1);
    char *out = text;

    if (!text) {
        build->no_memory = true;
        return;
    }
    for (size_t i = 0; i < count; i += 3) {
        const size_t left = count - i;
        const uint32_t group = (uint32_t)in[i] << 16 | (left > 1 ? (uint32_t)in[i + 1] << 8 : 0) |
                               (left > 2 ? (uint32_t)in[i + 2] : 0);
        *out++ = digits[group >> 18];
        *out++ = digits[group >> 12 & 63];
        *out++ = left > 1 ? digits[group >> 6 & 63] : '=';
        *out++ = left > 2 ? digits[group & 63] : '=';
    }
    *out = '\0';
    build_text(build, object, key, text);
    mst_forget(text, text_bytes);
}
