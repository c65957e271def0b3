/* SPDX-License-Identifier: Apache-2.0 */
/* Where to look for workers. A task on an overlay has at least two interfaces: the overlay's, and
 * docker_gwbridge's, which holds the default route, has the same addresses on every node and leads to no
 * other worker. With published ports there is the ingress network's too, on which every service of the swarm
 * is. On a bare machine the default route's interface is somebody's office network, to be swept only when
 * asked for. */
#include "muster/cleanup.h"
#include "muster/discovery.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OVERLAY_MTU      1450 /* Ethernet's 1500 less VXLAN's 50 */
#define SUBNETS_IN_TEXTS 12

struct mst_cidr discovery_own_subnet(const struct discovery_interface *interface)
{
    const uint32_t mask = interface->prefix == 0 ? 0 : UINT32_MAX << (32 - interface->prefix);
    return (struct mst_cidr){.network = interface->ipv4 & mask, .prefix = interface->prefix};
}

static bool is_private(uint32_t ipv4)
{
    static const struct mst_cidr ranges[] = {
        {0x0a000000, 8}, {0xac100000, 12}, {0xc0a80000, 16}, {0x64400000, 10}}; /* RFC 1918, RFC 6598 */
    for (size_t i = 0; i < MST_ARRAY_COUNT(ranges); i++)
        if (mst_cidr_contains(ranges[i], ipv4))
            return true;
    return false;
}

/* The subnets that Docker gives to ingress unless told otherwise, since 18.09 and before. */
static bool looks_like_ingress(const struct discovery_interface *interface)
{
    const struct mst_cidr own = discovery_own_subnet(interface);
    return (own.network == 0x0a000000 && own.prefix == 24) || (own.network == 0x0aff0000 && own.prefix == 16);
}

/* Bridges that container engines and hypervisors make on their host, docker_gwbridge among them. */
static bool is_host_bridge(const char *name)
{
    static const char *const prefixes[] = {"docker", "br-", "virbr", "podman", "cni", "lxcbr", "lxdbr"};
    for (size_t i = 0; i < MST_ARRAY_COUNT(prefixes); i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

static bool size_is_fit(uint32_t prefix)
{
    return prefix >= DISCOVERY_ARP_MIN_PREFIX && prefix <= DISCOVERY_MAX_PREFIX;
}

/* Could be swept as a whole at all. */
static bool is_possible(const struct discovery_interface *interface)
{
    return interface->up && !interface->loopback && size_is_fit(interface->prefix);
}

/* May be swept unasked, the default route apart. */
static bool is_candidate(const struct discovery_interface *interface)
{
    return is_possible(interface) && !is_host_bridge(interface->name);
}

static bool is_fit(const struct discovery_interface *interface, const struct mst_cidr *subnet,
                   const struct discovery_filter *filter)
{
    const enum discovery_filter_match match = discovery_filter_match(filter, interface);
    if (match == DISCOVERY_FILTER_OUT)
        return false;
    if (subnet)
        return interface->up && !interface->loopback && interface->prefix <= subnet->prefix &&
               mst_cidr_contains(*subnet, interface->ipv4);
    if (match == DISCOVERY_FILTER_NAMED)
        return is_possible(interface);
    return is_candidate(interface) && !interface->holds_default_route;
}

static unsigned score(const struct discovery_interface *interface)
{
    return (looks_like_ingress(interface) ? 0U : 4U) + (interface->mtu == OVERLAY_MTU ? 2U : 0U) +
           (is_private(interface->ipv4) ? 1U : 0U);
}

/* Best first. Equals by subnet: on another machine the kernel may have met them in another order, and all
 * should begin with the same one. */
static int compare_choices(const void *left, const void *right)
{
    const struct discovery_choice *a = left, *b = right;
    const unsigned score_a = score(&a->interface), score_b = score(&b->interface);
    if (score_a != score_b)
        return score_a > score_b ? -1 : 1;
    if (a->subnet.network != b->subnet.network)
        return a->subnet.network < b->subnet.network ? -1 : 1;
    if (a->subnet.prefix != b->subnet.prefix)
        return a->subnet.prefix < b->subnet.prefix ? -1 : 1;
    if (a->interface.index != b->interface.index)
        return a->interface.index < b->interface.index ? -1 : 1;
    return (a->interface.ipv4 > b->interface.ipv4) - (a->interface.ipv4 < b->interface.ipv4);
}

static struct discovery_choice make_choice(const struct discovery_interface *interface,
                                           const struct mst_cidr *subnet,
                                           const struct discovery_filter *filter)
{
    char address[MST_IPV4_TEXT_BYTES];
    struct discovery_choice choice = {.interface = *interface,
                                      .subnet = subnet ? *subnet : discovery_own_subnet(interface)};
    const char *route = interface->holds_default_route ? "the default route's" : "not the default route's";
    const bool named = discovery_filter_match(filter, interface) == DISCOVERY_FILTER_NAMED;
    (void)snprintf(choice.reason, sizeof choice.reason, "%s %s/%u: %s%s%s%s", interface->name,
                   mst_ipv4_text(interface->ipv4, address), interface->prefix,
                   subnet  ? "--subnet asks for it, "
                   : named ? "--interface asks for it, "
                           : "",
                   interface->mtu == OVERLAY_MTU ? "MTU 1450 as overlays have, " : "",
                   looks_like_ingress(interface) ? "perhaps the ingress network, "
                   : is_private(interface->ipv4) ? "private, "
                                                 : "",
                   route);
    return choice;
}

bool discovery_choice_narrow(struct discovery_choice *choice, uint32_t prefix)
{
    char network[MST_IPV4_TEXT_BYTES];
    if (choice->subnet.prefix >= prefix)
        return false;
    const struct discovery_interface part = {.ipv4 = choice->interface.ipv4, .prefix = prefix};
    choice->subnet = discovery_own_subnet(&part);
    const size_t used = strlen(choice->reason);
    (void)snprintf(choice->reason + used, sizeof choice->reason - used, ", only %s/%u of it",
                   mst_ipv4_text(choice->subnet.network, network), prefix);
    return true;
}

/* "eth0 10.10.0.0/24, eth1 172.18.0.0/16" into text; "nothing" for an empty list. */
static void attached_text(const struct discovery_interface *list, size_t count, char *text, size_t text_bytes)
{
    char network[MST_IPV4_TEXT_BYTES];
    size_t used = 0, shown = 0;
    (void)snprintf(text, text_bytes, "nothing");
    for (size_t i = 0; i < count && shown < SUBNETS_IN_TEXTS; i++) {
        if (list[i].loopback || !list[i].up)
            continue;
        const int more =
            snprintf(text + used, text_bytes - used, "%s%s %s/%u", shown ? ", " : "", list[i].name,
                     mst_ipv4_text(discovery_own_subnet(&list[i]).network, network), list[i].prefix);
        if (more < 0 || (size_t)more >= text_bytes - used)
            return; /* cut: the text is for people */
        used += (size_t)more;
        shown++;
    }
}

static int refuse_subnet(const struct discovery_interface *list, size_t count, const struct mst_cidr *subnet,
                         struct mst_error *err)
{
    char network[MST_IPV4_TEXT_BYTES], attached[512];
    mst_ipv4_text(subnet->network, network);
    attached_text(list, count, attached, sizeof attached);
    for (size_t i = 0; i < count; i++)
        if (list[i].up && !list[i].loopback && mst_cidr_contains(*subnet, list[i].ipv4))
            return mst_error_set(err, -EINVAL, "subnet %s/%u reaches beyond what is attached here: %s",
                                 network, subnet->prefix, attached);
    return mst_error_set(err, -EINVAL, "subnet %s/%u is not attached here; attached are: %s", network,
                         subnet->prefix, attached);
}

static int refuse_filter(const struct discovery_interface *list, size_t count,
                         const struct discovery_filter *filter, struct mst_error *err)
{
    char network[MST_IPV4_TEXT_BYTES], attached[512];
    for (size_t i = 0; i < count; i++) {
        if (!list[i].up || list[i].loopback || size_is_fit(list[i].prefix) ||
            discovery_filter_match(filter, &list[i]) != DISCOVERY_FILTER_NAMED)
            continue;
        return mst_error_set(err, -EINVAL, "%s %s/%u: from /%d to /%d can be swept%s", list[i].name,
                             mst_ipv4_text(discovery_own_subnet(&list[i]).network, network), list[i].prefix,
                             DISCOVERY_ARP_MIN_PREFIX, DISCOVERY_MAX_PREFIX,
                             list[i].prefix < DISCOVERY_ARP_MIN_PREFIX ? "; name a part of it with --subnet"
                                                                       : "");
    }
    attached_text(list, count, attached, sizeof attached);
    return mst_error_set(err, -EINVAL, "--interface leaves none on which workers could be; attached are: %s",
                         attached);
}

static int refuse_all(const struct discovery_interface *list, size_t count,
                      const struct discovery_filter *filter, struct mst_error *err)
{
    char network[MST_IPV4_TEXT_BYTES], attached[512];
    if (filter && filter->count > 0)
        return refuse_filter(list, count, filter, err);
    for (size_t i = 0; i < count; i++) {
        if (!is_candidate(&list[i]) || !list[i].holds_default_route)
            continue;
        mst_ipv4_text(discovery_own_subnet(&list[i]).network, network);
        return mst_error_set(err, -EINVAL,
                             "--subnet is required: only %s %s/%u could be swept, and it holds the default "
                             "route (say --subnet %s/%u if workers are there)",
                             list[i].name, network, list[i].prefix, network, list[i].prefix);
    }
    attached_text(list, count, attached, sizeof attached);
    return mst_error_set(err, -EINVAL, "no interface on which workers could be: attached are: %s", attached);
}

int discovery_interfaces_choose(const struct discovery_interface *list, size_t count,
                                const struct mst_cidr *subnet, const struct discovery_filter *filter,
                                struct discovery_choice *ret_choices, size_t capacity, size_t *ret_count,
                                struct mst_error *err)
{
    char network[MST_IPV4_TEXT_BYTES];
    if (subnet && !size_is_fit(subnet->prefix))
        return mst_error_set(err, -EINVAL, "subnet %s/%u: from /%d to /%d can be swept",
                             mst_ipv4_text(subnet->network, network), subnet->prefix,
                             DISCOVERY_ARP_MIN_PREFIX, DISCOVERY_MAX_PREFIX);
    mst_cleanup(mst_freep) struct discovery_choice *all = calloc(count ? count : 1, sizeof *all);
    if (!all)
        return mst_error_set(err, -ENOMEM, "choose an interface: no memory");

    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        if (is_fit(&list[i], subnet, filter))
            all[found++] = make_choice(&list[i], subnet, filter);
    if (found == 0 && subnet)
        return refuse_subnet(list, count, subnet, err);
    if (found == 0)
        return refuse_all(list, count, filter, err);

    qsort(all, found, sizeof *all, compare_choices);
    *ret_count = found < capacity ? found : capacity;
    memcpy(ret_choices, all, *ret_count * sizeof *all);
    return 0;
}
