/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/cleanup.h"
#include "muster/json.h"
#include "muster/trainer.h"

#include <stdio.h>
#include <string.h>

/* A list that only one of them has is another one, too. */
static bool same_categories(const cJSON *a, const cJSON *b)
{
    const cJSON *first = cJSON_GetObjectItemCaseSensitive(a, "categories");
    const cJSON *second = cJSON_GetObjectItemCaseSensitive(b, "categories");

    return first && second ? cJSON_Compare(first, second, true) : !first && !second;
}

/* The first column of `key` that differs, or NULL; where one has fewer, the models' shapes say so. */
static const cJSON *find_different(const cJSON *a, const cJSON *b, const char *key)
{
    const cJSON *first = mst_json_at(a, key, NULL), *second = mst_json_at(b, key, NULL);

    first = first ? first->child : NULL;
    second = second ? second->child : NULL;
    while (first && second && same_categories(first, second)) {
        first = first->next;
        second = second->next;
    }
    return first && second ? second : NULL;
}

int trainer_encodings_agree(const char *trained, const char *now,
                            char ret_column[static TRAINER_COLUMN_BYTES], struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *before = NULL;
    mst_cleanup(mst_json_deletep) cJSON *after = NULL;

    int r = mst_json_parse(trained, strlen(trained), "encoding of the model's data", &before, err);
    if (r >= 0)
        r = mst_json_parse(now, strlen(now), "encoding of the data", &after, err);
    if (r < 0)
        return r;
    const cJSON *different = find_different(before, after, "inputs");
    if (!different)
        different = find_different(before, after, "outputs");
    if (!different)
        return 1;
    const cJSON *name = mst_json_at(different, "column", NULL);
    if (cJSON_IsString(name))
        (void)snprintf(ret_column, TRAINER_COLUMN_BYTES, "'%.64s'", name->valuestring);
    else
        (void)snprintf(ret_column, TRAINER_COLUMN_BYTES, "%.0f",
                       cJSON_IsNumber(name) ? name->valuedouble : 0);
    return 0;
}
