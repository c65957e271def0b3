/* SPDX-License-Identifier: Apache-2.0 */
/* What a container runs with: healthcheck, logging, ulimits, extra hosts, credential spec. */
#include "muster/parse.h"
#include "schema.h"
#include "show.h"

#include <string.h>

/* --- healthcheck --- */

/* A text is a shell's command line; a list says itself what it is. Replaces, over several files too. */
static int set_test(struct schema_load *load, const struct node *node, void *member,
                    const struct schema_field *f)
{
    struct compose_strings *test = member;
    char shown[SHOW_BYTES];
    if (node->kind == NODE_SCALAR) {
        const char *text;
        struct compose_strings shell = {0};
        int r = schema_text(load, node, &text);
        if (r == 0)
            r = schema_strings_add(load, &shell, "CMD-SHELL");
        if (r == 0)
            r = schema_strings_add(load, &shell, text);
        if (r == 0)
            *test = shell;
        return r;
    }
    int r = schema_set_words(load, node, member, f);
    if (r < 0 || test->count == 0)
        return r;
    const char *first = test->items[0];
    if (strcmp(first, "NONE") != 0 && strcmp(first, "CMD") != 0 && strcmp(first, "CMD-SHELL") != 0)
        return schema_fail(load, &node->place, "a list must start with CMD, CMD-SHELL or NONE, not with %s",
                           show(first, shown));
    return 0;
}

static const struct schema_field healthcheck_fields[] = {
    SCHEMA_FIELD("test", set_test, offsetof(struct compose_healthcheck, test), .may_be_null = true),
    SCHEMA_FIELD("interval", schema_set_duration, offsetof(struct compose_healthcheck, interval_ns)),
    SCHEMA_FIELD("timeout", schema_set_duration, offsetof(struct compose_healthcheck, timeout_ns)),
    SCHEMA_FIELD("start_period", schema_set_duration, offsetof(struct compose_healthcheck, start_period_ns)),
    SCHEMA_FIELD("start_interval", schema_set_duration,
                 offsetof(struct compose_healthcheck, start_interval_ns)),
    SCHEMA_FIELD("retries", schema_set_u64, offsetof(struct compose_healthcheck, retries)),
    SCHEMA_FIELD("disable", schema_set_bool, offsetof(struct compose_healthcheck, disable)),
};

int schema_set_healthcheck(struct schema_load *load, const struct node *node, void *member,
                           const struct schema_field *f)
{
    (void)f;
    struct compose_service *service = member;
    struct compose_healthcheck *check = &service->healthcheck;
    int r = schema_map(load, node, healthcheck_fields, MST_ARRAY_COUNT(healthcheck_fields), true, check);
    if (r < 0)
        return r;
    check->is_set = true;
    const uint64_t times_ns[] = {check->interval_ns, check->timeout_ns, check->start_period_ns,
                                 check->start_interval_ns};
    for (size_t i = 0; i < MST_ARRAY_COUNT(times_ns); i++)
        if (times_ns[i] > 0 && times_ns[i] < 1000000)
            return schema_fail(load, &node->place, "its times must be 0 or at least 1ms");
    if (check->disable && schema_has_key(node, "disable") && schema_has_key(node, "test") &&
        (check->test.count == 0 || strcmp(check->test.items[0], "NONE") != 0))
        return schema_fail(load, &node->place, "test and disable: true can't stand together");
    return 0;
}

/* --- logging --- */

int schema_set_logging(struct schema_load *load, const struct node *node, void *member,
                       const struct schema_field *f)
{
    (void)f;
    static const struct schema_field fields[] = {
        SCHEMA_FIELD("driver", schema_set_text, offsetof(struct compose_logging, driver)),
        SCHEMA_FIELD("options", schema_set_pairs, offsetof(struct compose_logging, options),
                     .may_be_null = true),
    };
    struct compose_service *service = member;
    struct compose_logging logging = {.is_set = true};
    int r = schema_map(load, node, fields, MST_ARRAY_COUNT(fields), true, &logging);
    if (r < 0)
        return r;
    struct compose_logging *earlier = &service->logging;
    /* Another driver's options mean nothing to this one. */
    const bool same_driver =
        !logging.driver || !earlier->driver || strcmp(logging.driver, earlier->driver) == 0;
    if (!earlier->is_set || !same_driver) {
        *earlier = logging;
        return 0;
    }
    if (logging.driver)
        earlier->driver = logging.driver;
    for (size_t i = 0; r == 0 && i < logging.options.count; i++)
        r = schema_pairs_put(load, &earlier->options, logging.options.items[i].key,
                             logging.options.items[i].value, &node->place);
    return r;
}

/* --- ulimits --- */

struct ulimit_pair {
    struct compose_maybe_i64 soft, hard;
};

static int read_ulimit(struct schema_load *load, const struct node *node, struct compose_ulimit *ulimit)
{
    static const struct schema_field fields[] = {
        SCHEMA_FIELD("soft", schema_set_maybe_i64, offsetof(struct ulimit_pair, soft)),
        SCHEMA_FIELD("hard", schema_set_maybe_i64, offsetof(struct ulimit_pair, hard)),
    };
    if (node->kind == NODE_SCALAR) {
        int r = schema_i64(load, node, -1, INT64_MAX, &ulimit->soft);
        ulimit->hard = ulimit->soft;
        return r;
    }
    struct ulimit_pair pair = {0};
    int r = schema_map(load, node, fields, MST_ARRAY_COUNT(fields), true, &pair);
    if (r < 0)
        return r;
    if (!pair.soft.is_set || !pair.hard.is_set)
        return schema_fail(load, &node->place, "both soft and hard are needed");
    if (pair.soft.value < -1 || pair.hard.value < -1)
        return schema_fail(load, &node->place, "a limit is -1 (none) or more");
    if (pair.hard.value >= 0 && (pair.soft.value > pair.hard.value || pair.soft.value < 0))
        return schema_fail(load, &node->place, "the soft limit is above the hard one");
    ulimit->soft = pair.soft.value;
    ulimit->hard = pair.hard.value;
    return 0;
}

/* Sorted by name; a later file's replaces. */
static int put_ulimit(struct schema_load *load, struct compose_service *service,
                      const struct compose_ulimit *ulimit)
{
    size_t at = 0;
    while (at < service->ulimit_count && strcmp(service->ulimits[at].name, ulimit->name) < 0)
        at++;
    if (at < service->ulimit_count && strcmp(service->ulimits[at].name, ulimit->name) == 0) {
        service->ulimits[at] = *ulimit;
        return 0;
    }
    struct compose_ulimit *items =
        compose_arena_grow(load->arena, service->ulimits, service->ulimit_count, sizeof *items);
    if (!items)
        return schema_fail_memory(load);
    memmove(&items[at + 1], &items[at], (service->ulimit_count - at) * sizeof *items);
    items[at] = *ulimit;
    service->ulimits = items;
    service->ulimit_count++;
    return 0;
}

int schema_set_ulimits(struct schema_load *load, const struct node *node, void *member,
                       const struct schema_field *f)
{
    (void)f;
    /* RLIMIT_... of getrlimit(2), as the engine takes them. */
    static const char *const names[] = {"core",    "cpu",      "data",   "fsize",      "locks",
                                        "memlock", "msgqueue", "nice",   "nofile",     "nproc",
                                        "rss",     "rtprio",   "rttime", "sigpending", "stack"};
    char shown[SHOW_BYTES];
    int r = schema_expect(load, node, NODE_MAP);
    for (size_t i = 0; r == 0 && i < node->count; i++) {
        const struct node_entry *entry = &node->entries[i];
        struct compose_ulimit ulimit = {.name = entry->key};
        bool is_known = false;
        for (size_t n = 0; n < MST_ARRAY_COUNT(names); n++)
            is_known = is_known || strcmp(names[n], entry->key) == 0;
        if (!is_known) {
            const char *near = mst_nearest(entry->key, names, MST_ARRAY_COUNT(names));
            return schema_fail(load, &entry->key_place, "%s is no ulimit%s%s", show(entry->key, shown),
                               near ? ": did you mean " : "", near ? near : "");
        }
        schema_enter(load, entry->key);
        r = read_ulimit(load, entry->value, &ulimit);
        if (r == 0)
            r = put_ulimit(load, member, &ulimit);
        schema_leave(load);
    }
    return r;
}

/* --- extra_hosts --- */

static int add_host(struct schema_load *load, struct compose_service *service, const char *name,
                    const char *address)
{
    struct compose_pair *items =
        compose_arena_grow(load->arena, service->extra_hosts, service->extra_host_count, sizeof *items);
    if (!items)
        return schema_fail_memory(load);
    /* "[::1]" is how some write an IPv6 address; /etc/hosts wants it bare. */
    const size_t length = strlen(address);
    if (length > 2 && address[0] == '[' && address[length - 1] == ']')
        address = compose_arena_text_n(load->arena, address + 1, length - 2);
    if (!address)
        return schema_fail_memory(load);
    service->extra_hosts = items;
    items[service->extra_host_count++] = (struct compose_pair){name, address};
    return 0;
}

/* "name:address" or "name=address". */
static int add_host_text(struct schema_load *load, const struct node *node, struct compose_service *service)
{
    const char *text;
    char shown[SHOW_BYTES];
    int r = schema_text(load, node, &text);
    if (r < 0)
        return r;
    const size_t length = strcspn(text, ":=");
    if (length == 0 || !text[length] || !text[length + 1])
        return schema_fail(load, &node->place, "%s is not NAME:ADDRESS", show(text, shown));
    const char *name = compose_arena_text_n(load->arena, text, length);
    return name ? add_host(load, service, name, text + length + 1) : schema_fail_memory(load);
}

int schema_set_extra_hosts(struct schema_load *load, const struct node *node, void *member,
                           const struct schema_field *f)
{
    (void)f;
    struct compose_service *service = member;
    struct compose_pairs sorted = {0};
    int r = 0;
    if (node->kind == NODE_LIST) {
        for (size_t i = 0; r == 0 && i < node->count; i++) {
            schema_enter_item(load, i);
            r = add_host_text(load, node->entries[i].value, service);
            schema_leave(load);
        }
        return r;
    }
    /* docker sorts a mapping, and leaves a list as it is. */
    r = schema_pairs(load, node, false, &sorted);
    for (size_t i = 0; r == 0 && i < sorted.count; i++) {
        if (!*sorted.items[i].value)
            return schema_fail(load, &node->place, "the host has no address");
        r = add_host(load, service, sorted.items[i].key, sorted.items[i].value);
    }
    return r;
}

/* --- credential_spec --- */

int schema_set_credential_spec(struct schema_load *load, const struct node *node, void *member,
                               const struct schema_field *f)
{
    (void)f;
    static const struct schema_field fields[] = {
        SCHEMA_FIELD("config", schema_set_text, offsetof(struct compose_credential_spec, config)),
        SCHEMA_FIELD("file", schema_set_text, offsetof(struct compose_credential_spec, file)),
        SCHEMA_FIELD("registry", schema_set_text, offsetof(struct compose_credential_spec, registry)),
    };
    struct compose_credential_spec spec = {.is_set = true};
    int r = schema_map(load, node, fields, MST_ARRAY_COUNT(fields), true, &spec);
    if (r < 0)
        return r;
    if (!!spec.config + !!spec.file + !!spec.registry != 1)
        return schema_fail(load, &node->place, "one of config, file and registry is needed");
    ((struct compose_service *)member)->credential_spec = spec;
    return 0;
}
