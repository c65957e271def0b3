/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's neighbour cache, read over netlink (rtnetlink(7)): addresses of an interface that were spoken
 * to lately. Needs no rights. */
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/discovery.h"

#include <arpa/inet.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define REPLY_MS          200 /* the kernel answers at once; this is for the day it does not */
#define REPLY_PIECE_BYTES 32768
#define ENTRIES_LOOKED_AT 65536

struct request {
    struct nlmsghdr header;
    struct ndmsg body;
};

static int ask(int fd, unsigned interface_index, struct mst_error *err)
{
    const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    const struct request request = {
        .header = {.nlmsg_len = sizeof request,
                   .nlmsg_type = RTM_GETNEIGH,
                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .body = {.ndm_family = AF_INET, .ndm_ifindex = (int)interface_index},
    };
    if (sendto(fd, &request, sizeof request, 0, (const struct sockaddr *)&kernel, sizeof kernel) < 0)
        return mst_error_errno(err, -errno, "ask for the neighbours");
    return 0;
}

/* The entry's address, or 0 when it is none that answered lately. */
static uint32_t entry_address(struct nlmsghdr *header, unsigned interface_index)
{
    const struct ndmsg *entry = NLMSG_DATA(header);
    const unsigned alive = NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT;
    if (header->nlmsg_type != RTM_NEWNEIGH || header->nlmsg_len < NLMSG_LENGTH(sizeof *entry) ||
        entry->ndm_family != AF_INET || entry->ndm_ifindex != (int)interface_index ||
        !(entry->ndm_state & alive))
        return 0;
    size_t left = header->nlmsg_len - NLMSG_LENGTH(sizeof *entry);
    const char *next = (const char *)entry + NLMSG_ALIGN(sizeof *entry);
    while (left >= sizeof(struct rtattr)) {
        struct rtattr attribute;
        uint32_t ipv4;
        memcpy(&attribute, next, sizeof attribute);
        if (attribute.rta_len < sizeof attribute || attribute.rta_len > left)
            return 0;
        if (attribute.rta_type == NDA_DST && attribute.rta_len == RTA_LENGTH(sizeof ipv4)) {
            memcpy(&ipv4, next + RTA_LENGTH(0), sizeof ipv4);
            return ntohl(ipv4);
        }
        const size_t step = RTA_ALIGN(attribute.rta_len);
        next += step;
        left = step < left ? left - step : 0;
    }
    return 0;
}

/* One piece of the dump: 1 when it was the last. */
static int take_piece(char *bytes, size_t count, const struct discovery_choice *choice, uint32_t *list,
                      size_t capacity, size_t *used, size_t *looked_at)
{
    for (struct nlmsghdr *header = (struct nlmsghdr *)(void *)bytes; NLMSG_OK(header, count);
         header = NLMSG_NEXT(header, count)) {
        if (header->nlmsg_type == NLMSG_DONE || header->nlmsg_type == NLMSG_ERROR ||
            ++*looked_at > ENTRIES_LOOKED_AT)
            return 1;
        const uint32_t ipv4 = entry_address(header, choice->interface.index);
        if (ipv4 == 0 || ipv4 == choice->interface.ipv4 || !mst_cidr_contains(choice->subnet, ipv4))
            continue;
        if (*used == capacity)
            return 1;
        list[(*used)++] = ipv4;
    }
    return 0;
}

int discovery_neighbours(const struct discovery_choice *choice, uint32_t *ret_ipv4, size_t capacity,
                         size_t *ret_count, struct mst_error *err)
{
    size_t used = 0, looked_at = 0;
    mst_cleanup(mst_closep) int fd =
        socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    if (fd < 0)
        return mst_error_errno(err, -errno, "ask for the neighbours");
    mst_cleanup(mst_freep) char *piece = malloc(REPLY_PIECE_BYTES);
    if (!piece)
        return mst_error_set(err, -ENOMEM, "ask for the neighbours: no memory");
    int r = ask(fd, choice->interface.index, err);
    const uint64_t deadline_ns = mst_now_ns() + REPLY_MS * MST_NS_PER_MS;
    while (r == 0) {
        r = mst_wait_fd(fd, POLLIN, deadline_ns);
        if (r < 0)
            return mst_error_errno(err, r, "ask for the neighbours");
        const ssize_t got = recv(fd, piece, REPLY_PIECE_BYTES, 0);
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (got < 0)
            return mst_error_errno(err, -errno, "ask for the neighbours");
        r = take_piece(piece, (size_t)got, choice, ret_ipv4, capacity, &used, &looked_at);
    }
    if (r < 0)
        return r;
    *ret_count = used;
    return 0;
}
