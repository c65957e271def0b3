/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"

#include "muster/cleanup.h"
#include "muster/json.h"

#include <stdio.h>
#include <string.h>

#define PATH_BYTES 512

struct comparison {
    compare_fn *on_difference;
    void *context;
    size_t count;
    bool only_desired; /* keys that only live has do not count */
    char path[PATH_BYTES];
};

/* What the engine writes into a spec where the client sent nothing (moby, daemon/cluster/convert; tried
 * on 20.10). */
static const struct {
    const char *path;
    const char *value; /* as JSON */
} engine_defaults[] = {
    {"TaskTemplate.ContainerSpec.Isolation", "\"default\""},
    {"TaskTemplate.Runtime", "\"container\""},
    {"TaskTemplate.ForceUpdate", "0"},
    {"TaskTemplate.RestartPolicy.Condition", "\"any\""},
    {"TaskTemplate.RestartPolicy.MaxAttempts", "0"},
    {"TaskTemplate.Placement.MaxReplicas", "0"},
    {"EndpointSpec.Mode", "\"vip\""},
    {"EndpointSpec.Ports[].Protocol", "\"tcp\""},
    {"EndpointSpec.Ports[].PublishMode", "\"ingress\""},
    {"EndpointSpec.Ports[].PublishedPort", "0"},
    {"Mode.Replicated.Replicas", "1"},
    {"UpdateConfig.FailureAction", "\"pause\""},
    {"UpdateConfig.MaxFailureRatio", "0"},
    {"UpdateConfig.Parallelism", "0"},
    {"UpdateConfig.Order", "\"stop-first\""},
    {"RollbackConfig.FailureAction", "\"pause\""},
    {"RollbackConfig.MaxFailureRatio", "0"},
    {"RollbackConfig.Parallelism", "0"},
    {"RollbackConfig.Order", "\"stop-first\""},
};

/* NULL: it leaves that out. */
static const char *engine_default(const char *path)
{
    for (size_t i = 0; i < MST_ARRAY_COUNT(engine_defaults); i++) {
        if (strcmp(engine_defaults[i].path, path) == 0)
            return engine_defaults[i].value;
    }
    return NULL;
}

static bool is_engine_default(const char *path, const cJSON *value)
{
    mst_cleanup(mst_freep) char *text = value ? cJSON_PrintUnformatted(value) : NULL;
    const char *its = engine_default(path);

    return text && its && strcmp(its, text) == 0;
}

/* Go leaves these out, or writes them where nothing was: "" and [] and {} and null and false. A 0 is a value:
 * a grace period of 0 is not an absent one. */
static bool is_empty(const cJSON *value)
{
    const cJSON *member;

    if (!value || cJSON_IsNull(value) || cJSON_IsFalse(value))
        return true;
    if (cJSON_IsString(value))
        return value->valuestring[0] == '\0';
    if (!cJSON_IsArray(value) && !cJSON_IsObject(value))
        return false;
    cJSON_ArrayForEach(member, value)
    {
        if (cJSON_IsArray(value) || !is_empty(member))
            return false;
    }
    return true;
}

static void report(struct comparison *c, const cJSON *desired, const cJSON *live)
{
    c->count++;
    if (c->on_difference)
        c->on_difference(c->context, c->path, desired, live);
}

static void compare(struct comparison *c, const cJSON *desired, const cJSON *live);

static void compare_member(struct comparison *c, const char *key, const cJSON *desired, const cJSON *live)
{
    const size_t length = strlen(c->path);

    (void)snprintf(c->path + length, sizeof c->path - length, "%s%s", length > 0 && key[0] != '[' ? "." : "",
                   key);
    compare(c, desired, live);
    c->path[length] = '\0';
}

static void compare_objects(struct comparison *c, const cJSON *desired, const cJSON *live)
{
    const cJSON *member;

    cJSON_ArrayForEach(member, desired)
        compare_member(c, member->string, member, cJSON_GetObjectItemCaseSensitive(live, member->string));
    if (c->only_desired)
        return;
    cJSON_ArrayForEach(member, live)
    {
        if (!cJSON_GetObjectItemCaseSensitive(desired, member->string))
            compare_member(c, member->string, NULL, member);
    }
}

static void compare_arrays(struct comparison *c, const cJSON *desired, const cJSON *live)
{
    const cJSON *a = desired->child, *b = live->child;

    if (cJSON_GetArraySize(desired) != cJSON_GetArraySize(live)) {
        report(c, desired, live);
        return;
    }
    for (; a && b; a = a->next, b = b->next)
        compare_member(c, "[]", a, b);
}

static void compare(struct comparison *c, const cJSON *desired, const cJSON *live)
{
    static const cJSON nothing = {.type = cJSON_Object};

    if (is_empty(desired) && is_empty(live))
        return;
    if ((is_empty(desired) && is_engine_default(c->path, live)) ||
        (is_empty(live) && is_engine_default(c->path, desired)))
        return;
    if ((!desired || cJSON_IsObject(desired)) && (!live || cJSON_IsObject(live)) && (desired || live))
        compare_objects(c, desired ? desired : &nothing, live ? live : &nothing);
    else if (cJSON_IsArray(desired) && cJSON_IsArray(live))
        compare_arrays(c, desired, live);
    else if (!desired || !live || !cJSON_Compare(desired, live, true))
        report(c, desired, live);
}

/* cJSON_Raw (large numbers) as cJSON reads them back: comparable. NULL without memory. */
static cJSON *plain_copy(const cJSON *json)
{
    mst_cleanup(mst_freep) char *text = cJSON_PrintUnformatted(json);

    return text ? cJSON_Parse(text) : NULL;
}

static const char *mode_name(const cJSON *body)
{
    const cJSON *mode = mst_json_at(body, "Mode", NULL);

    return mode && mode->child && mode->child->string ? mode->child->string : "Replicated";
}

/* One order for ports, which have none: that two clients sort them differently is no reason for an update. */
static void sort_ports(cJSON *spec)
{
    cJSON *ports =
        cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(spec, "EndpointSpec"), "Ports");
    cJSON *sorted = cJSON_IsArray(ports) ? cJSON_CreateArray() : NULL;

    while (sorted && ports->child) {
        cJSON *port, *least = ports->child;
        cJSON_ArrayForEach(port, ports)
        {
            const uint64_t a = mst_json_u64_or(port, "PublishedPort", 0) << 32 |
                               mst_json_u64_or(port, "TargetPort", 0) << 8 |
                               (unsigned char)mst_json_string_or(port, "Protocol", "tcp")[0];
            const uint64_t b = mst_json_u64_or(least, "PublishedPort", 0) << 32 |
                               mst_json_u64_or(least, "TargetPort", 0) << 8 |
                               (unsigned char)mst_json_string_or(least, "Protocol", "tcp")[0];
            if (a < b)
                least = port;
        }
        (void)cJSON_AddItemToArray(sorted,
                                   cJSON_DetachItemViaPointer(ports, least)); /* fails for NULL only */
    }
    if (sorted)
        (void)cJSON_ReplaceItemInObjectCaseSensitive(cJSON_GetObjectItemCaseSensitive(spec, "EndpointSpec"),
                                                     "Ports", sorted);
}

size_t compare_service(const cJSON *desired, const cJSON *live_spec, compare_fn *on_difference, void *context)
{
    mst_cleanup(mst_json_deletep) cJSON *plain = plain_copy(desired);
    mst_cleanup(mst_json_deletep) cJSON *live = cJSON_Duplicate(live_spec, true);
    struct comparison c = {.on_difference = on_difference, .context = context};

    if (!plain || !live)
        return 1; /* without memory, "changed" is the safe answer */
    /* {"Global": {}} has no leaf to compare. */
    if (strcmp(mode_name(plain), mode_name(live)) != 0) {
        (void)snprintf(c.path, sizeof c.path, "Mode");
        report(&c, mst_json_at(plain, "Mode", NULL), mst_json_at(live, "Mode", NULL));
        c.path[0] = '\0';
    }
    sort_ports(plain);
    sort_ports(live);
    compare(&c, plain, live);
    return c.count;
}

size_t compare_network(const cJSON *desired, const cJSON *live, compare_fn *on_difference, void *context)
{
    struct comparison c = {.on_difference = on_difference, .context = context, .only_desired = true};
    const cJSON *ipam = mst_json_at(desired, "IPAM", "Config", NULL);
    static const char *const keys[] = {"Driver", "Options", "Labels"};

    for (size_t i = 0; i < MST_ARRAY_COUNT(keys); i++)
        compare_member(&c, keys[i], mst_json_at(desired, keys[i], NULL), mst_json_at(live, keys[i], NULL));
    c.only_desired = false;
    compare_member(&c, "Internal", mst_json_at(desired, "Internal", NULL),
                   mst_json_at(live, "Internal", NULL));
    compare_member(&c, "Attachable", mst_json_at(desired, "Attachable", NULL),
                   mst_json_at(live, "Attachable", NULL));
    c.only_desired = true;
    if (ipam)
        compare_member(&c, "IPAM.Config", ipam, mst_json_at(live, "IPAM", "Config", NULL));
    return c.count;
}

void compare_value_text(const cJSON *value, char *text, size_t capacity)
{
    mst_cleanup(mst_freep) char *printed = value ? cJSON_PrintUnformatted(value) : NULL;

    (void)snprintf(text, capacity, "%s", printed ? printed : "none");
    if (printed && strlen(printed) >= capacity && capacity > 4)
        memcpy(text + capacity - 4, "...", 4);
}

/* Of a secret or config that is still to be made; its name differs too, and says more. */
static bool is_unknown_id(const char *path, const cJSON *value)
{
    const size_t bytes = strlen(path), ending = sizeof "[].ConfigID" - 1;

    return bytes > ending &&
           (strcmp(path + bytes - ending, "[].ConfigID") == 0 ||
            strcmp(path + bytes - ending, "[].SecretID") == 0) &&
           cJSON_IsString(value) && value->valuestring[0] == '\0';
}

static void side_text(const char *path, const cJSON *value, char *text, size_t capacity)
{
    const char *filled_in = is_empty(value) ? engine_default(path) : NULL;

    if (filled_in)
        (void)snprintf(text, capacity, "%s", filled_in);
    else
        compare_value_text(value, text, capacity);
}

void compare_add_line(struct mst_buf *lines, const char *path, const cJSON *desired, const cJSON *live)
{
    char before[96], after[96];

    if (is_unknown_id(path, desired))
        return;
    side_text(path, live, before, sizeof before);
    side_text(path, desired, after, sizeof after);
    (void)mst_buf_printf(lines, "%s: %s -> %s\n", path, before, after);
}

void compare_short_text(const char *lines, char *text, size_t capacity)
{
    const size_t first = strcspn(lines, "\n");
    size_t more = 0;

    for (const char *at = lines + first; *at != '\0'; at++)
        more += at[0] == '\n' && at[1] != '\0';
    if (more == 0)
        (void)snprintf(text, capacity, "%.*s", (int)first, lines);
    else
        (void)snprintf(text, capacity, "%.*s, and %zu more", (int)first, lines, more);
}
