/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

/* 2^53: above it a double skips whole numbers, and cJSON keeps numbers as doubles. */
#define JSON_MAX_EXACT 9007199254740992.0

/* cJSON's own limit (1000) is a compile-time constant of the library; ours is checked on the text, where
 * strings are the only thing that may hold a bracket. */
static bool is_too_deep(const char *text, size_t bytes)
{
    size_t depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < bytes; i++) {
        const char c = text[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > MST_JSON_MAX_DEPTH)
                return true;
        } else if ((c == '}' || c == ']') && depth > 0) {
            depth--;
        }
    }
    return false;
}

static void position(const char *text, size_t offset, size_t *ret_line, size_t *ret_column)
{
    *ret_line = 1;
    *ret_column = 1;
    for (size_t i = 0; i < offset; i++) {
        (*ret_column)++;
        if (text[i] == '\n') {
            (*ret_line)++;
            *ret_column = 1;
        }
    }
}

int mst_json_parse(const char *text, size_t bytes, const char *what, cJSON **ret_json, struct mst_error *err)
{
    if (is_too_deep(text, bytes))
        return mst_error_set(err, -EBADMSG, "%s: JSON nested deeper than %d levels", what,
                             MST_JSON_MAX_DEPTH);

    const char *end = NULL;
    cJSON *json = cJSON_ParseWithLengthOpts(text, bytes, &end, false);
    if (json) {
        while (end < text + bytes && (*end == ' ' || *end == '\t' || *end == '\r' || *end == '\n'))
            end++;
        if (end == text + bytes) {
            *ret_json = json;
            return 0;
        }
        cJSON_Delete(json);
    }
    size_t line, column, offset = end && end >= text ? (size_t)(end - text) : 0;
    position(text, offset < bytes ? offset : bytes, &line, &column);
    return mst_error_set(err, -EBADMSG, "%s:%zu:%zu: not well-formed JSON", what, line, column);
}

void mst_json_deletep(cJSON **json)
{
    cJSON_Delete(*json);
    *json = NULL;
}

static int wrong_type(const cJSON *object, const char *key, const char *what, const char *expected,
                      struct mst_error *err)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return item ? mst_error_set(err, -EBADMSG, "%s: key '%s' is not %s", what, key, expected)
                : mst_error_set(err, -EBADMSG, "%s: key '%s' is missing", what, key);
}

int mst_json_get_string(const cJSON *object, const char *key, const char *what, const char **ret_text,
                        struct mst_error *err)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!cJSON_IsString(item))
        return wrong_type(object, key, what, "a string", err);
    *ret_text = item->valuestring;
    return 0;
}

int mst_json_get_u64(const cJSON *object, const char *key, uint64_t min, uint64_t max, const char *what,
                     uint64_t *ret_value, struct mst_error *err)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!cJSON_IsNumber(item))
        return wrong_type(object, key, what, "a whole number", err);
    const double value = item->valuedouble;
    if (!(value >= 0) || value > JSON_MAX_EXACT || value != (double)(uint64_t)value ||
        (uint64_t)value < min || (uint64_t)value > max)
        return mst_error_set(err, -EBADMSG,
                             "%s: key '%s': %g is not a whole number from %" PRIu64 " to %" PRIu64, what, key,
                             value, min, max);
    *ret_value = (uint64_t)value;
    return 0;
}

int mst_json_get_double(const cJSON *object, const char *key, const char *what, double *ret_value,
                        struct mst_error *err)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    /* "1e999" is well-formed, and infinite once it is a double. */
    if (!cJSON_IsNumber(item) || !isfinite(item->valuedouble))
        return wrong_type(object, key, what, "a number", err);
    *ret_value = item->valuedouble;
    return 0;
}

const char *mst_json_string_or(const cJSON *object, const char *key, const char *fallback)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsString(item) ? item->valuestring : fallback;
}

double mst_json_double_or(const cJSON *object, const char *key, double fallback)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : fallback;
}

uint64_t mst_json_u64_or(const cJSON *object, const char *key, uint64_t fallback)
{
    const double value = mst_json_double_or(object, key, -1);
    return value >= 0 && value <= JSON_MAX_EXACT ? (uint64_t)value : fallback;
}

bool mst_json_bool_or(const cJSON *object, const char *key, bool fallback)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsBool(item) ? cJSON_IsTrue(item) : fallback;
}

const cJSON *mst_json_at(const cJSON *json, ...)
{
    va_list keys;
    va_start(keys, json);
    for (const char *key = va_arg(keys, const char *); key && json; key = va_arg(keys, const char *))
        json = cJSON_GetObjectItemCaseSensitive(json, key);
    va_end(keys);
    return json;
}
