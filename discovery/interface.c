/* SPDX-License-Identifier: Apache-2.0 */
/* What this network namespace is attached to: addresses from getifaddrs(3), default routes from
 * /proc/net/route. */
#include "muster/cleanup.h"
#include "muster/discovery.h"
#include "muster/file.h"
#include "muster/parse.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define ROUTE_FILE_MAX_BYTES (1 << 20)

static void freeifaddrsp(struct ifaddrs **addresses)
{
    if (*addresses)
        freeifaddrs(*addresses);
}

static uint32_t ipv4_of(const struct sockaddr *address)
{
    struct sockaddr_in in;
    memcpy(&in, address, sizeof in); /* sockaddr's alignment is less than sockaddr_in's */
    return ntohl(in.sin_addr.s_addr);
}

/* "eth0:1" is a label of eth0's second address. */
static void copy_name(char *ret_name, const char *label)
{
    const size_t count = strcspn(label, ":");
    (void)snprintf(ret_name, DISCOVERY_INTERFACE_NAME_BYTES, "%.*s", (int)count, label);
}

/* The link's own entry: index, MAC and kind. */
static void fill_from_link(struct discovery_interface *interface, const struct ifaddrs *addresses)
{
    for (const struct ifaddrs *a = addresses; a; a = a->ifa_next) {
        struct sockaddr_ll link;
        if (!a->ifa_addr || a->ifa_addr->sa_family != AF_PACKET || strcmp(a->ifa_name, interface->name) != 0)
            continue;
        memcpy(&link, a->ifa_addr, sizeof link);
        interface->index = (unsigned)link.sll_ifindex;
        interface->ethernet = link.sll_hatype == ARPHRD_ETHER && link.sll_halen == DISCOVERY_MAC_BYTES &&
                              !(a->ifa_flags & IFF_NOARP);
        if (link.sll_halen == DISCOVERY_MAC_BYTES)
            memcpy(interface->mac, link.sll_addr, sizeof interface->mac);
        return;
    }
}

static uint32_t mtu_of(int socket_fd, const char *name)
{
    struct ifreq request = {0};
    (void)snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    return ioctl(socket_fd, SIOCGIFMTU, &request) == 0 ? (uint32_t)request.ifr_mtu : 0;
}

/* One line of /proc/net/route: name, then hex words in the kernel's byte order. A mask of one bit counts as
 * well: VPNs put two such routes over the default one. */
static bool line_is_default_route(const char *line, char *ret_name)
{
    unsigned destination, gateway, flags, mask;
    if (sscanf(line, "%15s %x %x %x %*d %*u %*d %x", ret_name, &destination, &gateway, &flags, &mask) != 5)
        return false;
    const uint32_t ones = ntohl(mask);
    return (flags & 1) && (ones == 0 || ones == 0x80000000U); /* RTF_UP */
}

static int mark_default_routes(struct discovery_interface *list, size_t count, struct mst_error *err)
{
    char name[DISCOVERY_INTERFACE_NAME_BYTES];
    mst_cleanup(mst_buf_release) struct mst_buf routes = MST_BUF_INIT(ROUTE_FILE_MAX_BYTES);
    const int r = mst_file_read("/proc/net/route", &routes, err);
    if (r < 0)
        return mst_error_wrap(err, r, "find the default route");
    for (const char *line = mst_buf_text(&routes); *line; line += *line == '\n') {
        if (line_is_default_route(line, name))
            for (size_t i = 0; i < count; i++)
                list[i].holds_default_route |= strcmp(list[i].name, name) == 0;
        line += strcspn(line, "\n");
    }
    return 0;
}

int discovery_interfaces_list(struct discovery_interface *ret_list, size_t capacity, size_t *ret_count,
                              struct mst_error *err)
{
    mst_cleanup(freeifaddrsp) struct ifaddrs *addresses = NULL;
    mst_cleanup(mst_closep) int socket_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (socket_fd < 0 || getifaddrs(&addresses) < 0)
        return mst_error_errno(err, -errno, "list this machine's interfaces");

    size_t count = 0;
    for (const struct ifaddrs *a = addresses; a; a = a->ifa_next) {
        if (!a->ifa_addr || a->ifa_addr->sa_family != AF_INET || !a->ifa_netmask)
            continue;
        if (count == capacity)
            return mst_error_set(err, -ENOBUFS, "more than %zu addresses on this machine", capacity);
        struct discovery_interface *interface = &ret_list[count++];
        *interface = (struct discovery_interface){
            .ipv4 = ipv4_of(a->ifa_addr),
            .prefix = (uint32_t)__builtin_popcount(ipv4_of(a->ifa_netmask)),
            .up = a->ifa_flags & IFF_UP,
            .loopback = a->ifa_flags & IFF_LOOPBACK,
        };
        copy_name(interface->name, a->ifa_name);
        interface->mtu = mtu_of(socket_fd, interface->name);
        fill_from_link(interface, addresses);
    }
    const int r = mark_default_routes(ret_list, count, err);
    if (r < 0)
        return r;
    *ret_count = count;
    return 0;
}

int discovery_interfaces_find(const struct mst_cidr *subnet, const struct discovery_filter *filter,
                              struct discovery_choice *ret_choices, size_t capacity, size_t *ret_count,
                              struct mst_error *err)
{
    size_t count = 0;
    mst_cleanup(mst_freep) struct discovery_interface *list = calloc(DISCOVERY_INTERFACES_MAX, sizeof *list);
    if (!list)
        return mst_error_set(err, -ENOMEM, "list this machine's interfaces: no memory");
    const int r = discovery_interfaces_list(list, DISCOVERY_INTERFACES_MAX, &count, err);
    if (r < 0)
        return r;
    return discovery_interfaces_choose(list, count, subnet, filter, ret_choices, capacity, ret_count, err);
}

int discovery_interface_find(const struct mst_cidr *subnet, struct discovery_choice *ret_choice,
                             struct mst_error *err)
{
    size_t choices;
    return discovery_interfaces_find(subnet, NULL, ret_choice, 1, &choices, err);
}
