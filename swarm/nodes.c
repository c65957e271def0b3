/* SPDX-License-Identifier: Apache-2.0 */
#include "nodes.h"

#include "muster/cleanup.h"
#include "muster/json.h"
#include "muster/net.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static int by_hostname(const void *a, const void *b)
{
    return strcmp(((const struct swarm_node *)a)->hostname, ((const struct swarm_node *)b)->hostname);
}

int swarm_nodes_take(cJSON *list, struct swarm_nodes *ret_nodes, struct mst_error *err)
{
    const int count = cJSON_GetArraySize(list);
    struct swarm_nodes nodes = {.list = list};
    const cJSON *json;

    nodes.items = calloc(count > 0 ? (size_t)count : 1, sizeof *nodes.items);
    if (!nodes.items) {
        cJSON_Delete(list);
        return mst_error_set(err, -ENOMEM, "nodes: no memory for %d", count);
    }
    cJSON_ArrayForEach(json, list)
    {
        const char *state = mst_json_string_or(mst_json_at(json, "Status", NULL), "State", "");
        const char *availability = mst_json_string_or(mst_json_at(json, "Spec", NULL), "Availability", "");
        nodes.items[nodes.count] = (struct swarm_node){
            .json = json,
            .id = mst_json_string_or(json, "ID", ""),
            .hostname = mst_json_string_or(mst_json_at(json, "Description", NULL), "Hostname", ""),
            .address = mst_json_string_or(mst_json_at(json, "Status", NULL), "Addr", ""),
            .is_usable = strcmp(state, "ready") == 0 && strcmp(availability, "active") == 0,
            .is_manager =
                strcmp(mst_json_string_or(mst_json_at(json, "Spec", NULL), "Role", ""), "manager") == 0,
        };
        nodes.usable_count += nodes.items[nodes.count++].is_usable;
    }
    qsort(nodes.items, nodes.count, sizeof *nodes.items, by_hostname);
    *ret_nodes = nodes;
    return 0;
}

int swarm_nodes_load(struct engine *engine, struct swarm_nodes *ret_nodes, struct mst_error *err)
{
    cJSON *list = NULL;
    const int r = engine_list(engine, ENGINE_NODE, NULL, NULL, &list, err);

    return r < 0 ? r : swarm_nodes_take(list, ret_nodes, err);
}

void swarm_nodes_release(struct swarm_nodes *nodes)
{
    cJSON_Delete(nodes->list);
    free(nodes->items);
    *nodes = (struct swarm_nodes){0};
}

const struct swarm_node *swarm_nodes_find(const struct swarm_nodes *nodes, const char *id)
{
    for (size_t i = 0; i < nodes->count; i++) {
        if (strcmp(nodes->items[i].id, id) == 0)
            return &nodes->items[i];
    }
    return NULL;
}

/* Copies text[0..count) without the blanks at its ends. */
static int copy_trimmed(const char *text, size_t count, char *ret_text, size_t capacity)
{
    while (count > 0 && isspace((unsigned char)*text))
        text++, count--;
    while (count > 0 && isspace((unsigned char)text[count - 1]))
        count--;
    if (count == 0 || count >= capacity)
        return -EINVAL;
    memcpy(ret_text, text, count);
    ret_text[count] = '\0';
    return 0;
}

int constraint_parse(const char *text, struct constraint *ret_constraint, struct mst_error *err)
{
    static const char *const keys[] = {"node.id",   "node.hostname",    "node.ip",
                                       "node.role", "node.platform.os", "node.platform.arch"};
    const char *equal = strstr(text, "=="), *differ = strstr(text, "!=");
    const char *sign = differ && (!equal || differ < equal) ? differ : equal;
    struct constraint c = {.must_differ = sign && sign == differ};

    if (!sign || copy_trimmed(text, (size_t)(sign - text), c.key, sizeof c.key) < 0 ||
        copy_trimmed(sign + 2, strlen(sign + 2), c.value, sizeof c.value) < 0)
        return mst_error_set(err, -EINVAL, "constraint '%s': expected KEY==VALUE or KEY!=VALUE", text);
    for (size_t i = 0; i < MST_ARRAY_COUNT(keys); i++) {
        if (strcasecmp(c.key, keys[i]) == 0) {
            *ret_constraint = c;
            return 0;
        }
    }
    if (strncasecmp(c.key, "node.labels.", 12) != 0 && strncasecmp(c.key, "engine.labels.", 14) != 0)
        return mst_error_set(
            err, -EINVAL,
            "constraint '%s': a node has no '%s' (node.id, node.hostname, node.ip, node.role, "
            "node.platform.os, node.platform.arch, node.labels.X, engine.labels.X)",
            text, c.key);
    *ret_constraint = c;
    return 0;
}

static bool ip_matches(const char *address, const char *value)
{
    struct mst_cidr cidr;
    uint32_t ipv4;

    if (mst_parse_ipv4(address, &ipv4, NULL) < 0)
        return false;
    if (strchr(value, '/'))
        return mst_parse_cidr(value, &cidr, NULL) == 0 && mst_cidr_contains(cidr, ipv4);
    return strcmp(address, value) == 0;
}

bool constraint_allows(const struct constraint *constraint, const struct swarm_node *node)
{
    const cJSON *description = mst_json_at(node->json, "Description", NULL);
    const cJSON *platform = mst_json_at(description, "Platform", NULL);
    const char *key = constraint->key, *actual;

    if (strcasecmp(key, "node.ip") == 0)
        return ip_matches(node->address, constraint->value) != constraint->must_differ;
    if (strcasecmp(key, "node.id") == 0)
        actual = node->id;
    else if (strcasecmp(key, "node.hostname") == 0)
        actual = node->hostname;
    else if (strcasecmp(key, "node.role") == 0)
        actual = node->is_manager ? "manager" : "worker";
    else if (strcasecmp(key, "node.platform.os") == 0)
        actual = mst_json_string_or(platform, "OS", "");
    else if (strcasecmp(key, "node.platform.arch") == 0)
        actual = mst_json_string_or(platform, "Architecture", "");
    else if (strncasecmp(key, "node.labels.", 12) == 0)
        actual = mst_json_string_or(mst_json_at(node->json, "Spec", "Labels", NULL), key + 12, "");
    else
        actual = mst_json_string_or(mst_json_at(description, "Engine", "Labels", NULL), key + 14, "");
    return (strcasecmp(actual, constraint->value) == 0) != constraint->must_differ;
}

size_t constraints_count_nodes(const struct compose_strings *constraints, const struct swarm_nodes *nodes)
{
    size_t count = 0;

    for (size_t n = 0; n < nodes->count; n++) {
        bool is_allowed = nodes->items[n].is_usable;
        for (size_t i = 0; i < constraints->count && is_allowed; i++) {
            struct constraint constraint;
            is_allowed = constraint_parse(constraints->items[i], &constraint, NULL) == 0 &&
                         constraint_allows(&constraint, &nodes->items[n]);
        }
        count += is_allowed;
    }
    return count;
}
