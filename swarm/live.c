/* SPDX-License-Identifier: Apache-2.0 */
#include "live.h"

#include "muster/cleanup.h"
#include "muster/json.h"
#include "stack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct named {
    const char *name;
    cJSON *object;
};

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

/* The engine lists in an order of its own, another one each time. */
static int sort_by_name(cJSON *list, enum engine_kind kind)
{
    const size_t count = (size_t)cJSON_GetArraySize(list);
    mst_cleanup(mst_freep) struct named *items = calloc(count + 1, sizeof *items);

    if (!items)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        items[i].object = cJSON_DetachItemFromArray(list, 0);
        items[i].name = live_name(items[i].object, kind);
    }
    qsort(items, count, sizeof *items, compare_names);
    for (size_t i = 0; i < count; i++)
        (void)cJSON_AddItemToArray(list, items[i].object); /* fails for NULL only */
    return 0;
}

int live_list(struct engine *engine, enum engine_kind kind, const char *stack, cJSON **ret_list,
              struct mst_error *err)
{
    char label[sizeof STACK_LABEL + STACK_NAME_BYTES + 1];

    (void)snprintf(label, sizeof label, "%s=%s", STACK_LABEL, stack);
    mst_cleanup(mst_json_deletep) cJSON *list = NULL;
    int r = engine_list(engine, kind, "label", label, &list, err);
    if (r < 0)
        return r;
    r = sort_by_name(list, kind);
    if (r < 0)
        return mst_error_set(err, r, "sort what stack '%s' has: no memory", stack);
    *ret_list = list;
    list = NULL;
    return 0;
}

/* All of a kind, parted into those of the stack and the rest: one list instead of two. */
static int load_kind(struct engine *engine, enum engine_kind kind, const char *stack, cJSON **ret_own,
                     cJSON **ret_others, struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *list = NULL, *own = cJSON_CreateArray();
    cJSON *object, *next;
    int r = engine_list(engine, kind, NULL, NULL, &list, err);

    if (r < 0)
        return r;
    for (object = list->child; object && own; object = next) {
        next = object->next;
        if (live_belongs(object, kind, stack))
            (void)cJSON_AddItemToArray(own,
                                       cJSON_DetachItemViaPointer(list, object)); /* fails for NULL only */
    }
    if (!own || sort_by_name(own, kind) < 0)
        return mst_error_set(err, -ENOMEM, "sort what stack '%s' has: no memory", stack);
    *ret_own = own;
    *ret_others = list;
    own = list = NULL;
    return 0;
}

int live_load(struct engine *engine, const char *stack, struct live *ret_live, struct mst_error *err)
{
    struct live live = {0};
    int r = load_kind(engine, ENGINE_SERVICE, stack, &live.services, &live.other_services, err);

    if (r >= 0)
        r = load_kind(engine, ENGINE_NETWORK, stack, &live.networks, &live.other_networks, err);
    if (r >= 0)
        r = load_kind(engine, ENGINE_SECRET, stack, &live.secrets, &live.other_secrets, err);
    if (r >= 0)
        r = load_kind(engine, ENGINE_CONFIG, stack, &live.configs, &live.other_configs, err);
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
    cJSON_Delete(live->other_services);
    cJSON_Delete(live->other_networks);
    cJSON_Delete(live->other_secrets);
    cJSON_Delete(live->other_configs);
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
