/* SPDX-License-Identifier: Apache-2.0 */
/* services.X.ports: "[[ADDRESS:]PUBLISHED:]TARGET[/PROTOCOL]", ranges included, or a mapping. */
#include "schema.h"
#include "show.h"

#include <string.h>

#define PORTS_MAX 4096U

static const char *const port_protocols[] = {"tcp", "udp", "sctp", NULL};
static const char *const port_modes[] = {"ingress", "host", NULL};

struct port_range {
    uint32_t first, last;
};

/* "80" or "80-90"; `end` is behind it. */
static bool parse_range(const char *text, const char *end, struct port_range *range)
{
    uint32_t numbers[2] = {0, 0};
    size_t count = 0;
    for (const char *p = text;; p++) {
        const char *start = p;
        for (; p < end && *p >= '0' && *p <= '9'; p++) {
            numbers[count] = 10 * numbers[count] + (uint32_t)(*p - '0');
            if (numbers[count] > 65535)
                return false;
        }
        if (p == start || ++count > 2)
            return false;
        if (p == end)
            break;
        if (*p != '-' || count == 2)
            return false;
    }
    *range = (struct port_range){numbers[0], numbers[count - 1]};
    return range->first <= range->last;
}

/* A later file's port replaces one of the same published number and protocol, since both can't stand; within
 * one file that is an error for the last pass to find, unless the target is the same as well. */
static bool is_same_port(const struct compose_port *a, const struct compose_port *b)
{
    const char *a_protocol = a->protocol ? a->protocol : "tcp",
               *b_protocol = b->protocol ? b->protocol : "tcp";
    if (a->published != b->published || strcmp(a_protocol, b_protocol) != 0)
        return false;
    return a->target == b->target || (a->published && a->place.file != b->place.file);
}

static int add_port(struct schema_load *load, struct compose_service *service,
                    const struct compose_port *port)
{
    for (size_t i = 0; i < service->port_count; i++) {
        if (is_same_port(&service->ports[i], port)) {
            const bool in_one_file = service->ports[i].place.file == port->place.file;
            service->ports[i] = *port;
            return in_one_file ? schema_warn(load, &port->place, "this port stands twice in the list") : 0;
        }
    }
    if (service->port_count >= PORTS_MAX)
        return schema_fail(load, &port->place, "more than %u ports", PORTS_MAX);
    struct compose_port *items =
        compose_arena_grow(load->arena, service->ports, service->port_count, sizeof *items);
    if (!items)
        return schema_fail_memory(load);
    service->ports = items;
    items[service->port_count++] = *port;
    return 0;
}

/* *end is where the port part ends; returns the protocol, NULL for one that is none. */
static const char *take_protocol(const char *text, const char **end)
{
    const char *slash = strchr(text, '/');
    *end = slash ? slash : text + strlen(text);
    if (!slash)
        return "tcp";
    for (size_t i = 0; port_protocols[i]; i++)
        if (strcasecmp(port_protocols[i], slash + 1) == 0)
            return port_protocols[i];
    return NULL;
}

static const char *find_last(const char *text, const char *end, char c)
{
    return memrchr(text, c, (size_t)(end - text));
}

/* The parts of a short form, from behind: target, published, address. */
static bool split_short(const char *text, const char *end, struct port_range *published,
                        struct port_range *target, bool *ret_has_address)
{
    const char *colon = find_last(text, end, ':');
    *ret_has_address = false;
    *published = (struct port_range){0, 0};
    if (!parse_range(colon ? colon + 1 : text, end, target))
        return false;
    if (!colon)
        return true;
    end = colon;
    colon = find_last(text, end, ':');
    const char *start = colon ? colon + 1 : text;
    if (start < end && !parse_range(start, end, published))
        return false;
    if (!colon)
        return true;
    /* What is left must be an IP address, "[...]" around an IPv6 one; it is not used, so no more is asked of
     * it. */
    const size_t length = (size_t)(colon - text);
    *ret_has_address = true;
    if (length > 2 && text[0] == '[' && colon[-1] == ']')
        return strspn(text + 1, "0123456789abcdefABCDEF:.") == length - 2;
    return length == 0 || strspn(text, "0123456789.") == length;
}

static int add_short(struct schema_load *load, struct compose_service *service, const struct node *node,
                     const char *text)
{
    struct port_range published, target;
    char shown[SHOW_BYTES];
    const char *end;
    bool has_address;
    const char *protocol = take_protocol(text, &end);
    if (!protocol)
        return schema_fail(load, &node->place, "%s: the protocol is none of tcp, udp and sctp",
                           show(text, shown));
    if (!split_short(text, end, &published, &target, &has_address) || target.first == 0)
        return schema_fail(load, &node->place,
                           "%s is not [PUBLISHED:]TARGET[/PROTOCOL] with ports from 1 to 65535",
                           show(text, shown));
    if (has_address) {
        int r =
            schema_warn(load, &node->place,
                        "the address in %s is ignored: a stack's ports listen on all of a node's addresses",
                        show(text, shown));
        if (r < 0)
            return r;
    }
    const uint32_t targets = target.last - target.first, publisheds = published.last - published.first;
    /* 80-82:8080 gives three published ports to one target; otherwise the ranges go side by side. */
    if (published.first != 0 && targets != publisheds && targets != 0)
        return schema_fail(load, &node->place, "%s: the two ranges are of different lengths",
                           show(text, shown));
    const uint32_t most = targets > publisheds ? targets : publisheds;
    if (most >= PORTS_MAX)
        return schema_fail(load, &node->place, "more than %u ports", PORTS_MAX);
    for (uint32_t i = 0; i <= most; i++) {
        const struct compose_port port = {
            .place = node->place,
            .target = target.first + (targets ? i : 0),
            .published = published.first ? published.first + i : 0,
            .protocol = protocol,
            .mode = "ingress",
        };
        int r = add_port(load, service, &port);
        if (r < 0)
            return r;
    }
    return 0;
}

static int set_port(struct schema_load *load, const struct node *node, void *member,
                    const struct schema_field *f)
{
    (void)f;
    int64_t value;
    int r = schema_i64(load, node, 0, 65535, &value);
    if (r == 0)
        *(uint32_t *)member = (uint32_t)value;
    return r;
}

static const struct schema_field port_fields[] = {
    SCHEMA_FIELD("target", set_port, offsetof(struct compose_port, target)),
    SCHEMA_FIELD("published", set_port, offsetof(struct compose_port, published), .may_be_null = true),
    SCHEMA_FIELD("protocol", schema_set_choice, offsetof(struct compose_port, protocol),
                 .choices = port_protocols),
    SCHEMA_FIELD("mode", schema_set_choice, offsetof(struct compose_port, mode), .choices = port_modes),
    SCHEMA_FIELD("host_ip", schema_set_ignored, 0,
                 .advice = "a stack's ports listen on all of a node's addresses"),
    SCHEMA_FIELD("name", schema_set_ignored, 0, .advice = "ports have no names in swarm"),
    SCHEMA_FIELD("app_protocol", schema_set_ignored, 0, .advice = "swarm does not use it"),
};

static int add_long(struct schema_load *load, struct compose_service *service, const struct node *node)
{
    struct compose_port port = {.place = node->place};
    int r = schema_map(load, node, port_fields, MST_ARRAY_COUNT(port_fields), true, &port);
    if (r < 0)
        return r;
    if (port.target == 0)
        return schema_fail(load, &node->place, "target is missing");
    return add_port(load, service, &port);
}

int schema_set_ports(struct schema_load *load, const struct node *node, void *member,
                     const struct schema_field *f)
{
    (void)f;
    int r = schema_expect(load, node, NODE_LIST);
    for (size_t i = 0; r == 0 && i < node->count; i++) {
        const struct node *item = node->entries[i].value;
        schema_enter_item(load, i);
        if (item->kind == NODE_MAP) {
            r = add_long(load, member, item);
        } else if (item->kind == NODE_SCALAR && item->scalar.kind != SCALAR_NULL &&
                   item->scalar.kind != SCALAR_BOOL) {
            const char *text;
            r = schema_loose_text(load, item, false, &text); /* an int's digits as docker prints them */
            if (r == 0)
                r = add_short(load, member, item, text);
        } else {
            r = schema_fail_type(load, item, "a port or a mapping with target, published, protocol and mode");
        }
        schema_leave(load);
    }
    return r;
}
