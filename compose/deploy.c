/* SPDX-License-Identifier: Apache-2.0 */
/* services.X.deploy */
#include "quantity.h"
#include "schema.h"
#include "show.h"

#include <ctype.h>
#include <string.h>

static int set_mode(struct schema_load *load, const struct node *node, void *member,
                    const struct schema_field *f)
{
    static const char *const names[] = {[COMPOSE_MODE_REPLICATED] = "replicated",
                                        [COMPOSE_MODE_GLOBAL] = "global",
                                        [COMPOSE_MODE_REPLICATED_JOB] = "replicated-job",
                                        [COMPOSE_MODE_GLOBAL_JOB] = "global-job",
                                        NULL};
    size_t index;
    int r = schema_choose(load, node, f, names, &index);
    if (r == 0)
        *(enum compose_mode *)member = (enum compose_mode)index;
    return r;
}

static int set_replicas(struct schema_load *load, const struct node *node, void *member,
                        const struct schema_field *f)
{
    load->drafts[load->service_index].replicas_place = node->place; /* for the errors of the last pass */
    return schema_set_maybe_u64(load, node, member, f);
}

/* --- resources --- */

static int set_cpus(struct schema_load *load, const struct node *node, void *member,
                    const struct schema_field *f)
{
    (void)f;
    struct mst_error why = MST_ERROR_INIT;
    int64_t nano_cpus;
    if (node->kind != NODE_SCALAR || node->scalar.kind == SCALAR_NULL || node->scalar.kind == SCALAR_BOOL)
        return schema_fail_type(load, node, "a number of processors such as 0.5 or 2");
    if (quantity_parse_cpus(node->text, &nano_cpus, &why) < 0)
        return schema_fail(load, &node->place, "%s", why.text);
    if (nano_cpus > 0 && nano_cpus < 1000000)
        return schema_fail(load, &node->place, "the engine takes 0 or at least 0.001");
    *(int64_t *)member = nano_cpus;
    return 0;
}

static int set_memory(struct schema_load *load, const struct node *node, void *member,
                      const struct schema_field *f)
{
    int r = schema_set_bytes(load, node, member, f);
    const int64_t bytes = r == 0 ? *(int64_t *)member : 0;
    if (bytes > 0 && bytes < (4 << 20))
        return schema_fail(load, &node->place, "the engine takes 0 or at least 4M");
    return r;
}

static int set_pids(struct schema_load *load, const struct node *node, void *member,
                    const struct schema_field *f)
{
    (void)f;
    return schema_i64(load, node, -1, INT64_MAX, member);
}

struct generic_item {
    struct compose_generic_resource resource;
    bool has_spec;
};

static int set_generic_spec(struct schema_load *load, const struct node *node, void *member,
                            const struct schema_field *f)
{
    (void)f;
    static const struct schema_field fields[] = {
        SCHEMA_FIELD("kind", schema_set_text, offsetof(struct compose_generic_resource, kind)),
        SCHEMA_FIELD("value", set_pids, offsetof(struct compose_generic_resource, value)),
    };
    struct generic_item *item = member;
    item->has_spec = true;
    int r = schema_map(load, node, fields, MST_ARRAY_COUNT(fields), true, &item->resource);
    if (r == 0 && (!item->resource.kind || !*item->resource.kind))
        return schema_fail(load, &node->place, "kind is missing");
    return r;
}

static int set_generic(struct schema_load *load, const struct node *node, void *member,
                       const struct schema_field *f)
{
    (void)f;
    static const struct schema_field fields[] = {SCHEMA_FIELD("discrete_resource_spec", set_generic_spec, 0)};
    struct compose_limits *limits = member;
    int r = schema_expect(load, node, NODE_LIST);
    for (size_t i = 0; r == 0 && i < node->count; i++) {
        const struct node *value = node->entries[i].value;
        struct generic_item item = {0};
        schema_enter_item(load, i);
        r = schema_map(load, value, fields, MST_ARRAY_COUNT(fields), true, &item);
        if (r == 0 && !item.has_spec)
            r = schema_fail(load, &value->place, "discrete_resource_spec is missing");
        schema_leave(load);
        if (r < 0)
            return r;
        struct compose_generic_resource *items =
            compose_arena_grow(load->arena, limits->generic, limits->generic_count, sizeof *items);
        if (!items)
            return schema_fail_memory(load);
        limits->generic = items;
        items[limits->generic_count++] = item.resource;
    }
    return r;
}

static int set_limits(struct schema_load *load, const struct node *node, void *member,
                      const struct schema_field *f)
{
    (void)f;
    static const struct schema_field fields[] = {
        SCHEMA_FIELD("cpus", set_cpus, offsetof(struct compose_limits, nano_cpus)),
        SCHEMA_FIELD("memory", set_memory, offsetof(struct compose_limits, memory_bytes)),
        SCHEMA_FIELD("pids", set_pids, offsetof(struct compose_limits, pids)),
    };
    ((struct compose_limits *)member)->is_set = true;
    return schema_map(load, node, fields, MST_ARRAY_COUNT(fields), true, member);
}

static int set_reservations(struct schema_load *load, const struct node *node, void *member,
                            const struct schema_field *f)
{
    (void)f;
    static const struct schema_field fields[] = {
        SCHEMA_FIELD("cpus", set_cpus, offsetof(struct compose_limits, nano_cpus)),
        SCHEMA_FIELD("memory", set_memory, offsetof(struct compose_limits, memory_bytes)),
        SCHEMA_FIELD("generic_resources", set_generic, 0),
        SCHEMA_FIELD("devices", schema_set_ignored, 0, .advice = "swarm gives no devices to services"),
    };
    ((struct compose_limits *)member)->is_set = true;
    return schema_map(load, node, fields, MST_ARRAY_COUNT(fields), true, member);
}

static int set_resources(struct schema_load *load, const struct node *node, void *member,
                         const struct schema_field *f)
{
    (void)f;
    static const struct schema_field fields[] = {
        SCHEMA_FIELD("limits", set_limits, offsetof(struct compose_deploy, limits), .may_be_null = true),
        SCHEMA_FIELD("reservations", set_reservations, offsetof(struct compose_deploy, reservations),
                     .may_be_null = true),
    };
    return schema_map(load, node, fields, MST_ARRAY_COUNT(fields), true, member);
}

/* --- restart_policy, update_config, rollback_config --- */

static int set_restart_policy(struct schema_load *load, const struct node *node, void *member,
                              const struct schema_field *f)
{
    (void)f;
    static const char *const conditions[] = {"none", "on-failure", "any", NULL};
    static const struct schema_field fields[] = {
        SCHEMA_FIELD("condition", schema_set_choice, offsetof(struct compose_restart_policy, condition),
                     .choices = conditions),
        SCHEMA_FIELD("delay", schema_set_maybe_duration, offsetof(struct compose_restart_policy, delay_ns)),
        SCHEMA_FIELD("max_attempts", schema_set_maybe_u64,
                     offsetof(struct compose_restart_policy, max_attempts)),
        SCHEMA_FIELD("window", schema_set_maybe_duration, offsetof(struct compose_restart_policy, window_ns)),
    };
    ((struct compose_restart_policy *)member)->is_set = true;
    return schema_map(load, node, fields, MST_ARRAY_COUNT(fields), true, member);
}

static int set_ratio(struct schema_load *load, const struct node *node, void *member,
                     const struct schema_field *f)
{
    (void)f;
    static const char what[] = "a number from 0 to 1";
    if (node->kind != NODE_SCALAR)
        return schema_fail_type(load, node, what);
    struct scalar scalar = scalar_resolve(node->text);
    if (scalar.kind != SCALAR_INT && scalar.kind != SCALAR_FLOAT)
        return schema_fail_type(load, node, what);
    const double ratio = scalar.kind == SCALAR_FLOAT ? scalar.real : (double)scalar.magnitude;
    if (!(ratio >= 0 && ratio <= 1) || scalar.negative)
        return schema_fail_type(load, node, what);
    *(double *)member = ratio;
    return 0;
}

static const char *const update_orders[] = {"stop-first", "start-first", NULL};
static const char *const update_actions[] = {"pause", "continue", "rollback", NULL};
static const char *const rollback_actions[] = {"pause", "continue", NULL};

#define UPDATE_FIELDS(actions)                                                                               \
    {                                                                                                        \
        SCHEMA_FIELD("parallelism", schema_set_maybe_u64, offsetof(struct compose_update, parallelism)),     \
            SCHEMA_FIELD("delay", schema_set_duration, offsetof(struct compose_update, delay_ns)),           \
            SCHEMA_FIELD("failure_action", schema_set_choice,                                                \
                         offsetof(struct compose_update, failure_action), .choices = actions),               \
            SCHEMA_FIELD("monitor", schema_set_duration, offsetof(struct compose_update, monitor_ns)),       \
            SCHEMA_FIELD("max_failure_ratio", set_ratio,                                                     \
                         offsetof(struct compose_update, max_failure_ratio)),                                \
            SCHEMA_FIELD("order", schema_set_choice, offsetof(struct compose_update, order),                 \
                         .choices = update_orders),                                                          \
    }

static int set_update(struct schema_load *load, const struct node *node, void *member,
                      const struct schema_field *f)
{
    (void)f;
    static const struct schema_field fields[] = UPDATE_FIELDS(update_actions);
    ((struct compose_update *)member)->is_set = true;
    return schema_map(load, node, fields, MST_ARRAY_COUNT(fields), true, member);
}

static int set_rollback(struct schema_load *load, const struct node *node, void *member,
                        const struct schema_field *f)
{
    (void)f;
    static const struct schema_field fields[] = UPDATE_FIELDS(rollback_actions);
    ((struct compose_update *)member)->is_set = true;
    return schema_map(load, node, fields, MST_ARRAY_COUNT(fields), true, member);
}

/* --- placement --- */

/* "key == value" or "key != value", as swarm's scheduler reads it. */
static bool is_constraint(const char *text)
{
    const char *op = strstr(text, "==");
    const char *unequal = strstr(text, "!=");
    if (!op || (unequal && unequal < op))
        op = unequal;
    if (!op)
        return false;
    const char *key = text, *key_end = op, *value = op + 2;
    while (key < key_end && isspace((unsigned char)*key))
        key++;
    while (key_end > key && isspace((unsigned char)key_end[-1]))
        key_end--;
    value += strspn(value, " \t");
    if (key_end - key < 2 || !*value || (!isalpha((unsigned char)*key) && *key != '_'))
        return false;
    for (; key < key_end; key++)
        if (!isalnum((unsigned char)*key) && !strchr("-_./", *key))
            return false;
    return true;
}

/* Where those stand that this file added. */
static int keep_places(struct schema_load *load, const struct node *node, struct compose_deploy *deploy,
                       size_t earlier)
{
    for (size_t i = earlier; i < deploy->constraints.count; i++) {
        struct compose_place *places =
            compose_arena_grow(load->arena, deploy->constraint_places, i, sizeof *places);
        if (!places)
            return schema_fail_memory(load);
        deploy->constraint_places = places;
        places[i] = node->place;
        for (size_t k = 0; k < node->count; k++) {
            const struct node *item = node->entries[k].value;
            if (item->kind == NODE_SCALAR && strcmp(item->text, deploy->constraints.items[i]) == 0)
                places[i] = item->place;
        }
    }
    return 0;
}

static int set_constraints(struct schema_load *load, const struct node *node, void *member,
                           const struct schema_field *f)
{
    struct compose_deploy *deploy = (void *)((char *)member - f->offset);
    const size_t earlier = deploy->constraints.count;
    char shown[SHOW_BYTES];
    int r = schema_expect(load, node, NODE_LIST);
    for (size_t i = 0; r == 0 && i < node->count; i++) {
        const struct node *item = node->entries[i].value;
        schema_enter_item(load, i);
        if (item->kind == NODE_SCALAR && item->scalar.kind == SCALAR_TEXT && !is_constraint(item->text))
            r = schema_fail(load, &item->place, "%s is not a constraint such as node.hostname == node1",
                            show(item->text, shown));
        schema_leave(load);
    }
    if (r == 0)
        r = schema_set_strings(load, node, member, f);
    return r < 0 ? r : keep_places(load, node, deploy, earlier);
}

static int set_preferences(struct schema_load *load, const struct node *node, void *member,
                           const struct schema_field *f)
{
    (void)f;
    static const struct schema_field fields[] = {SCHEMA_FIELD("spread", schema_set_text, 0)};
    int r = schema_expect(load, node, NODE_LIST);
    for (size_t i = 0; r == 0 && i < node->count; i++) {
        const struct node *item = node->entries[i].value;
        const char *spread = NULL;
        schema_enter_item(load, i);
        r = schema_map(load, item, fields, MST_ARRAY_COUNT(fields), true, &spread);
        if (r == 0 && (!spread || !*spread))
            r = schema_fail(load, &item->place, "spread is missing");
        if (r == 0)
            r = schema_strings_add(load, member, spread);
        schema_leave(load);
    }
    return r;
}

static int set_placement(struct schema_load *load, const struct node *node, void *member,
                         const struct schema_field *f)
{
    (void)f;
    static const struct schema_field fields[] = {
        SCHEMA_FIELD("constraints", set_constraints, offsetof(struct compose_deploy, constraints),
                     .may_be_null = true),
        SCHEMA_FIELD("preferences", set_preferences, offsetof(struct compose_deploy, spread),
                     .may_be_null = true),
        SCHEMA_FIELD("max_replicas_per_node", schema_set_u64,
                     offsetof(struct compose_deploy, max_replicas_per_node)),
    };
    return schema_map(load, node, fields, MST_ARRAY_COUNT(fields), true, member);
}

/* docker writes it in lower case whatever the file has. */
static int set_endpoint_mode(struct schema_load *load, const struct node *node, void *member,
                             const struct schema_field *f)
{
    if (node->kind == NODE_SCALAR && strcasecmp(node->text, "vip") == 0)
        *(const char **)member = "vip";
    else if (node->kind == NODE_SCALAR && strcasecmp(node->text, "dnsrr") == 0)
        *(const char **)member = "dnsrr";
    else
        return schema_set_choice(load, node, member, f);
    return 0;
}

static const char *const endpoint_modes[] = {"vip", "dnsrr", NULL};

static const struct schema_field deploy_fields[] = {
    SCHEMA_FIELD("mode", set_mode, offsetof(struct compose_deploy, mode)),
    SCHEMA_FIELD("replicas", set_replicas, offsetof(struct compose_deploy, replicas)),
    SCHEMA_FIELD("labels", schema_set_pairs, offsetof(struct compose_deploy, labels), .may_be_null = true),
    SCHEMA_FIELD("resources", set_resources, 0, .may_be_null = true),
    SCHEMA_FIELD("restart_policy", set_restart_policy, offsetof(struct compose_deploy, restart_policy)),
    SCHEMA_FIELD("placement", set_placement, 0, .may_be_null = true),
    SCHEMA_FIELD("update_config", set_update, offsetof(struct compose_deploy, update_config)),
    SCHEMA_FIELD("rollback_config", set_rollback, offsetof(struct compose_deploy, rollback_config)),
    SCHEMA_FIELD("endpoint_mode", set_endpoint_mode, offsetof(struct compose_deploy, endpoint_mode),
                 .choices = endpoint_modes),
};

int schema_set_deploy(struct schema_load *load, const struct node *node, void *member,
                      const struct schema_field *f)
{
    (void)f;
    return schema_map(load, node, deploy_fields, MST_ARRAY_COUNT(deploy_fields), true, member);
}
