/* SPDX-License-Identifier: Apache-2.0 */
/* networks: at the top, and services.X.networks. */
#include "muster/net.h"
#include "schema.h"

#include <string.h>

/* --- at the top --- */

struct network_draft {
    struct compose_network network;
    struct schema_external external;
};

static int add_subnet(struct schema_load *load, const struct node *node, struct compose_network *network)
{
    static const struct schema_field fields[] = {
        SCHEMA_FIELD("subnet", schema_set_text, offsetof(struct compose_subnet, subnet)),
        SCHEMA_FIELD("gateway", schema_set_text, offsetof(struct compose_subnet, gateway)),
        SCHEMA_FIELD("ip_range", schema_set_text, offsetof(struct compose_subnet, ip_range)),
        SCHEMA_FIELD("aux_addresses", schema_set_ignored, 0, .advice = "docker's stacks do not send them"),
    };
    struct compose_subnet subnet = {0};
    struct mst_cidr cidr;
    struct mst_error why = MST_ERROR_INIT;
    int r = schema_map(load, node, fields, MST_ARRAY_COUNT(fields), true, &subnet);
    if (r < 0)
        return r;
    if (!subnet.subnet || !*subnet.subnet)
        return schema_fail(load, &node->place, "subnet is missing");
    /* IPv6 is left to the engine: muster itself works over IPv4 only. */
    if (!strchr(subnet.subnet, ':') && mst_parse_cidr(subnet.subnet, &cidr, &why) < 0)
        return schema_fail(load, &node->place, "%s", why.text);
    struct compose_subnet *items =
        compose_arena_grow(load->arena, network->subnets, network->subnet_count, sizeof *items);
    if (!items)
        return schema_fail_memory(load);
    network->subnets = items;
    items[network->subnet_count++] = subnet;
    return 0;
}

static int set_ipam_config(struct schema_load *load, const struct node *node, void *member,
                           const struct schema_field *f)
{
    (void)f;
    struct compose_network *network = member;
    network->subnets = NULL; /* a later file's subnets replace: two sets would be two networks */
    network->subnet_count = 0;
    int r = schema_expect(load, node, NODE_LIST);
    for (size_t i = 0; r == 0 && i < node->count; i++) {
        schema_enter_item(load, i);
        r = add_subnet(load, node->entries[i].value, network);
        schema_leave(load);
    }
    return r;
}

static int set_ipam(struct schema_load *load, const struct node *node, void *member,
                    const struct schema_field *f)
{
    (void)f;
    static const struct schema_field fields[] = {
        SCHEMA_FIELD("driver", schema_set_text, offsetof(struct compose_network, ipam_driver)),
        SCHEMA_FIELD("config", set_ipam_config, 0, .may_be_null = true),
        SCHEMA_FIELD("options", schema_set_ignored, 0, .advice = "docker's stacks do not send them"),
    };
    return schema_map(load, node, fields, MST_ARRAY_COUNT(fields), true, member);
}

static const struct schema_field network_fields[] = {
    SCHEMA_FIELD("driver", schema_set_text, offsetof(struct network_draft, network.driver),
                 .may_be_null = true),
    SCHEMA_FIELD("driver_opts", schema_set_pairs, offsetof(struct network_draft, network.driver_opts),
                 .may_be_null = true),
    SCHEMA_FIELD("ipam", set_ipam, offsetof(struct network_draft, network), .may_be_null = true),
    SCHEMA_FIELD("attachable", schema_set_bool, offsetof(struct network_draft, network.attachable)),
    SCHEMA_FIELD("internal", schema_set_bool, offsetof(struct network_draft, network.internal)),
    SCHEMA_FIELD("enable_ipv6", schema_set_maybe_bool, offsetof(struct network_draft, network.enable_ipv6)),
    SCHEMA_FIELD("labels", schema_set_pairs, offsetof(struct network_draft, network.labels),
                 .may_be_null = true),
    SCHEMA_FIELD("name", schema_set_text, offsetof(struct network_draft, network.name)),
    SCHEMA_FIELD("external", schema_set_external, offsetof(struct network_draft, external)),
    SCHEMA_FIELD("enable_ipv4", schema_set_ignored, 0, .advice = "an overlay has IPv4 always"),
};

static struct compose_network *find_network(struct compose_project *project, const char *key)
{
    for (size_t i = 0; i < project->network_count; i++)
        if (strcmp(project->networks[i].key, key) == 0)
            return &project->networks[i];
    return NULL;
}

static int read_network(struct schema_load *load, const struct node_entry *entry, const void *context)
{
    (void)context;
    struct compose_project *project = load->project;
    struct compose_network *known = find_network(project, entry->key);
    struct network_draft draft = {0};
    if (known)
        draft.network = *known;
    draft.network.key = entry->key;
    draft.network.place = entry->key_place;
    draft.network.is_default = strcmp(entry->key, "default") == 0;
    int r = 0;
    if (entry->value->kind != NODE_SCALAR || entry->value->scalar.kind != SCALAR_NULL)
        r = schema_map(load, entry->value, network_fields, MST_ARRAY_COUNT(network_fields), true, &draft);
    if (r == 0)
        r = schema_settle_name(load, &draft.external, entry->key, &draft.network.name,
                               &draft.network.external);
    if (r < 0)
        return r;
    const struct compose_network *n = &draft.network;
    if (n->external && (n->driver || n->driver_opts.count || n->ipam_driver || n->subnet_count ||
                        n->labels.count || n->attachable || n->internal)) {
        r = schema_warn(load, &entry->key_place,
                        "ignored but for its name: an external network is used as it is");
        if (r < 0)
            return r;
    }
    if (known) {
        *known = draft.network;
        return 0;
    }
    return schema_append(load, &project->networks, &project->network_count, &draft.network,
                         sizeof draft.network);
}

int schema_set_networks(struct schema_load *load, const struct node *node, void *member,
                        const struct schema_field *f)
{
    (void)member;
    (void)f;
    return schema_each(load, node, read_network, NULL);
}

/* --- in a service --- */

/* A later file's aliases replace. */
static int set_aliases(struct schema_load *load, const struct node *node, void *member,
                       const struct schema_field *f)
{
    struct compose_strings aliases = {0};
    int r = schema_set_strings(load, node, &aliases, f);
    if (r == 0)
        *(struct compose_strings *)member = aliases;
    return r;
}

#define ADDRESS_ADVICE "swarm chooses the addresses of tasks"

static const struct schema_field attachment_fields[] = {
    SCHEMA_FIELD("aliases", set_aliases, offsetof(struct compose_attachment, aliases), .may_be_null = true),
    SCHEMA_FIELD("driver_opts", schema_set_pairs, offsetof(struct compose_attachment, driver_opts),
                 .may_be_null = true),
    SCHEMA_FIELD("ipv4_address", schema_set_ignored, 0, .advice = ADDRESS_ADVICE),
    SCHEMA_FIELD("ipv6_address", schema_set_ignored, 0, .advice = ADDRESS_ADVICE),
    SCHEMA_FIELD("link_local_ips", schema_set_ignored, 0, .advice = ADDRESS_ADVICE),
    SCHEMA_FIELD("mac_address", schema_set_ignored, 0, .advice = ADDRESS_ADVICE),
    SCHEMA_FIELD("interface_name", schema_set_ignored, 0, .advice = "docker's stacks do not send it"),
    SCHEMA_FIELD("priority", schema_set_ignored, 0, .advice = "docker's stacks do not send it"),
    SCHEMA_FIELD("gw_priority", schema_set_ignored, 0, .advice = "docker's stacks do not send it"),
};

static int attach(struct schema_load *load, struct compose_service *service, const char *key,
                  const struct compose_place *place, struct compose_attachment **ret_attachment)
{
    for (size_t i = 0; i < service->network_count; i++) {
        if (strcmp(service->networks[i].network_key, key) == 0) {
            *ret_attachment = &service->networks[i];
            return 0;
        }
    }
    const struct compose_attachment attachment = {.place = *place, .network_key = key};
    int r = schema_append(load, &service->networks, &service->network_count, &attachment, sizeof attachment);
    if (r == 0)
        *ret_attachment = &service->networks[service->network_count - 1];
    return r;
}

static int read_attachment(struct schema_load *load, const char *key, const struct compose_place *place,
                           const struct node *value, struct compose_service *service)
{
    struct compose_attachment *attachment;
    int r = attach(load, service, key, place, &attachment);
    if (r < 0 || !value || (value->kind == NODE_SCALAR && value->scalar.kind == SCALAR_NULL))
        return r;
    return schema_map(load, value, attachment_fields, MST_ARRAY_COUNT(attachment_fields), true, attachment);
}

int schema_set_attachments(struct schema_load *load, const struct node *node, void *member,
                           const struct schema_field *f)
{
    (void)f;
    return schema_each_named(load, node, "a list or a mapping of networks", read_attachment, member);
}
