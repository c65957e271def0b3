/* SPDX-License-Identifier: Apache-2.0 */
#include "subnets.h"

#include "muster/cleanup.h"
#include "muster/json.h"

#include <stdio.h>
#include <string.h>

int subnets_add(struct subnets *subnets, struct mst_cidr cidr, const char *kind, const char *name,
                struct mst_error *err)
{
    struct subnet_use *items;

    if (subnets->count >= SUBNETS_MAX)
        return mst_error_set(err, -E2BIG, "more than %d subnets are in use", SUBNETS_MAX);
    items = reallocarray(subnets->items, subnets->count + 1, sizeof *items);
    if (!items)
        return mst_error_set(err, -ENOMEM, "subnets in use: no memory");
    subnets->items = items;
    items[subnets->count].cidr = cidr;
    (void)snprintf(items[subnets->count].owner, sizeof items->owner, "%s '%.120s'", kind, name);
    subnets->count++;
    return 0;
}

int subnets_add_networks(struct subnets *subnets, const cJSON *networks, struct mst_error *err)
{
    const cJSON *network, *config;

    cJSON_ArrayForEach(network, networks)
    {
        cJSON_ArrayForEach(config, mst_json_at(network, "IPAM", "Config", NULL))
        {
            struct mst_cidr cidr;
            int r;
            if (mst_parse_cidr(mst_json_string_or(config, "Subnet", ""), &cidr, NULL) < 0)
                continue;
            r = subnets_add(subnets, cidr, "network", mst_json_string_or(network, "Name", "?"), err);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

int subnets_add_nodes(struct subnets *subnets, const struct swarm_nodes *nodes, struct mst_error *err)
{
    for (size_t i = 0; i < nodes->count; i++) {
        struct mst_cidr cidr = {.prefix = 32};
        int r;
        if (mst_parse_ipv4(nodes->items[i].address, &cidr.network, NULL) < 0)
            continue;
        r = subnets_add(subnets, cidr, "node", nodes->items[i].hostname, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int add_route(struct subnets *subnets, const char *line, struct mst_error *err)
{
    struct mst_route route;

    if (!mst_route_parse(line, &route) || route.destination.prefix == 0 || !route.is_up)
        return 0; /* the heading; the default route; one that is down */
    return subnets_add(subnets, route.destination, "a route of this machine over", route.interface, err);
}

int subnets_add_routes(struct subnets *subnets, const char *table, struct mst_error *err)
{
    while (*table != '\0') {
        const size_t bytes = strcspn(table, "\n");
        char line[256];
        int r;
        (void)snprintf(line, sizeof line, "%.*s", (int)(bytes < sizeof line ? bytes : sizeof line - 1),
                       table);
        r = add_route(subnets, line, err);
        if (r < 0)
            return r;
        table += bytes + (table[bytes] == '\n');
    }
    return 0;
}

void subnets_release(struct subnets *subnets)
{
    free(subnets->items);
    *subnets = (struct subnets){0};
}

const struct subnet_use *subnets_overlap(const struct subnets *subnets, struct mst_cidr cidr, const char *but)
{
    for (size_t i = 0; i < subnets->count; i++) {
        const struct subnet_use *use = &subnets->items[i];
        if (mst_cidr_overlaps(use->cidr, cidr) && !(but && strcmp(use->owner, but) == 0))
            return use;
    }
    return NULL;
}

int subnets_propose(const struct subnets *subnets, uint32_t prefix, struct mst_cidr *ret_cidr)
{
    /* RFC 1918. 10.0.0.0/8 comes last, for Swarm's own pool is there. */
    static const struct mst_cidr pools[] = {{0xc0a80000, 16}, {0xac100000, 12}, {0x0a400000, 10}};

    for (size_t i = 0; i < MST_ARRAY_COUNT(pools); i++) {
        if (prefix <= pools[i].prefix || prefix > 30)
            continue;
        const uint32_t count = UINT32_C(1) << (prefix - pools[i].prefix);
        for (uint32_t k = 0; k < count && k < SUBNETS_MAX; k++) {
            const struct mst_cidr cidr = {pools[i].network + (k << (32 - prefix)), prefix};
            if (!subnets_overlap(subnets, cidr, NULL)) {
                *ret_cidr = cidr;
                return 0;
            }
        }
    }
    return -ENOENT;
}
