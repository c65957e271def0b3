/* SPDX-License-Identifier: Apache-2.0 */
/* Paths and queries: whatever comes from a user or another engine is percent-encoded. */
#include "muster/cleanup.h"
#include "muster/engine.h"
#include "muster/json.h"

#include <ctype.h>
#include <string.h>

#define SAFE_IN_QUERY "-._~"
#define SAFE_IN_PATH  "-._~:@" /* as image names have them */

/* RFC 3986, sections 2.3 and 3.3. */
static int append_encoded(struct mst_buf *buf, const char *text, const char *safe)
{
    int r = 0;

    for (const unsigned char *c = (const unsigned char *)text; *c != '\0' && r >= 0; c++) {
        if ((isalnum(*c) && *c < 0x80) || strchr(safe, *c))
            r = mst_buf_append(buf, c, 1);
        else
            r = mst_buf_printf(buf, "%%%02X", (unsigned)*c);
    }
    return r;
}

int engine_query_add(struct mst_buf *query, const char *key, const char *value)
{
    int r = mst_buf_printf(query, "%s%s=", query->count > 0 ? "&" : "", key);

    return r < 0 ? r : append_encoded(query, value, SAFE_IN_QUERY);
}

int engine_query_filter(struct mst_buf *query, const char *key, const char *value)
{
    mst_cleanup(mst_json_deletep) cJSON *filters = cJSON_CreateObject();
    mst_cleanup(mst_freep) char *text = NULL;
    cJSON *values = cJSON_AddArrayToObject(filters, key);

    if (!values || !cJSON_AddItemToArray(values, cJSON_CreateString(value)))
        return -ENOMEM;
    text = cJSON_PrintUnformatted(filters);
    return text ? engine_query_add(query, "filters", text) : -ENOMEM;
}

int engine_path(struct mst_buf *path, const char *head, const char *name, const char *tail)
{
    int r = mst_buf_append_text(path, head);

    if (r >= 0)
        r = append_encoded(path, name, SAFE_IN_PATH);
    if (r >= 0 && tail)
        r = mst_buf_append_text(path, tail);
    return r;
}
