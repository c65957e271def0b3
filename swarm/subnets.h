/* SPDX-License-Identifier: Apache-2.0 */
/* Who uses which addresses: a new overlay must not overlap a network of the engine, a node, or what this
 * machine reaches by itself. The engine accepts an overlap and then leaves the tasks stuck. */
#ifndef SWARM_SUBNETS_H
#define SWARM_SUBNETS_H

#include "muster/net.h"
#include "nodes.h"

#define SUBNETS_MAX 4096

struct subnet_use {
    struct mst_cidr cidr;
    char owner[160]; /* "network 'ingress'", "node 'node1'", "the route over eth0" */
};

struct subnets {
    struct subnet_use *items; /* owned */
    size_t count;
};

/* owner is "KIND 'NAME'". */
int subnets_add(struct subnets *subnets, struct mst_cidr cidr, const char *kind, const char *name,
                struct mst_error *err);
/* `networks` is the reply of GET /networks; IPv6 subnets are passed over. */
int subnets_add_networks(struct subnets *subnets, const cJSON *networks, struct mst_error *err);
int subnets_add_nodes(struct subnets *subnets, const struct swarm_nodes *nodes, struct mst_error *err);
/* Routes in the form of /proc/net/route; the default route is passed over. */
int subnets_add_routes(struct subnets *subnets, const char *table, struct mst_error *err);
void subnets_release(struct subnets *subnets);

/* Who overlaps `cidr`, NULL when nobody. `but` is an owner that does not count, or NULL. */
const struct subnet_use *subnets_overlap(const struct subnets *subnets, struct mst_cidr cidr,
                                         const char *but);
/* A private subnet of that prefix that nobody uses: 0 or -ENOENT. */
int subnets_propose(const struct subnets *subnets, uint32_t prefix, struct mst_cidr *ret_cidr);

#endif
