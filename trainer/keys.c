/* SPDX-License-Identifier: Apache-2.0 */
#include "keys.h"

#include "muster/parse.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool is_listed(const char *key, const char *const *keys)
{
    for (; keys && *keys; keys++) {
        if (strcmp(key, *keys) == 0)
            return true;
    }
    return false;
}

static size_t list_length(const char *const *keys)
{
    size_t count = 0;

    while (keys[count])
        count++;
    return count;
}

int trainer_check_keys(const cJSON *json, const char *const *keys, const char *const *more, const char *where,
                       struct mst_error *err)
{
    for (const cJSON *item = json->child; item; item = item->next) {
        if (!is_listed(item->string, keys) && !is_listed(item->string, more)) {
            const char *near = mst_nearest(item->string, keys, list_length(keys));
            return mst_error_set(err, -EBADMSG, "%s: unknown key '%s'%s%s%s", where, item->string,
                                 near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
        }
        if (cJSON_GetObjectItemCaseSensitive(json, item->string) != item)
            return mst_error_set(err, -EBADMSG, "%s: key '%s' is there twice", where, item->string);
    }
    return 0;
}

const char *trainer_names_text(const char *const *names, char text[static TRAINER_NAMES_TEXT_BYTES])
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; names[i] && used < TRAINER_NAMES_TEXT_BYTES; i++) {
        const char *before = i == 0 ? "" : names[i + 1] ? ", " : " or ";
        const int n = snprintf(text + used, TRAINER_NAMES_TEXT_BYTES - used, "%s'%s'", before, names[i]);
        used += (size_t)n;
    }
    return text;
}
