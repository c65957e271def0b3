/* SPDX-License-Identifier: Apache-2.0 */
#include "live.h"

#include "muster/json.h"
#include "stack.h"

#include <stdio.h>
#include <string.h>

int live_list(struct engine *engine, enum engine_kind kind, const char *stack, cJSON **ret_list,
              struct mst_error *err)
{
    char label[sizeof STACK_LABEL + STACK_NAME_BYTES + 1];

    (void)snprintf(label, sizeof label, "%s=%s", STACK_LABEL, stack);
    return engine_list(engine, kind, "label", label, ret_list, err);
}

int live_load(struct engine *engine, const char *stack, struct live *ret_live, struct mst_error *err)
{
    struct live live = {0};
    int r = live_list(engine, ENGINE_SERVICE, stack, &live.services, err);

    if (r >= 0)
        r = live_list(engine, ENGINE_NETWORK, stack, &live.networks, err);
    if (r >= 0)
        r = live_list(engine, ENGINE_SECRET, stack, &live.secrets, err);
    if (r >= 0)
        r = live_list(engine, ENGINE_CONFIG, stack, &live.configs, err);
    if (r >= 0)
        r = engine_list(engine, ENGINE_NETWORK, NULL, NULL, &live.all_networks, err);
    if (r < 0) {
        live_release(&live);
        return r;
    }
    *ret_live = live;
    return 0;
}

void live_release(struct live *live)
{
    cJSON_Delete(live->services);
    cJSON_Delete(live->networks);
    cJSON_Delete(live->secrets);
    cJSON_Delete(live->configs);
    cJSON_Delete(live->all_networks);
    *live = (struct live){0};
}

const char *live_name(const cJSON *object, enum engine_kind kind)
{
    return mst_json_string_or(kind == ENGINE_NETWORK ? object : mst_json_at(object, "Spec", NULL), "Name",
                              "");
}

const char *live_id(const cJSON *object, enum engine_kind kind)
{
    return mst_json_string_or(object, kind == ENGINE_NETWORK ? "Id" : "ID", "");
}

uint64_t live_version(const cJSON *object)
{
    return mst_json_u64_or(mst_json_at(object, "Version", NULL), "Index", 0);
}

bool live_belongs(const cJSON *object, enum engine_kind kind, const char *stack)
{
    const cJSON *labels = kind == ENGINE_NETWORK ? mst_json_at(object, "Labels", NULL)
                                                 : mst_json_at(object, "Spec", "Labels", NULL);

    return strcmp(mst_json_string_or(labels, STACK_LABEL, ""), stack) == 0;
}

const cJSON *live_find(const cJSON *list, enum engine_kind kind, const char *name)
{
    const cJSON *object;

    cJSON_ArrayForEach(object, list)
    {
        if (strcmp(live_name(object, kind), name) == 0)
            return object;
    }
    return NULL;
}
