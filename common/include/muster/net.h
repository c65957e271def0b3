/* SPDX-License-Identifier: Apache-2.0 */
/* IPv4 and TCP, with a deadline on everything that can wait. Addresses are uint32_t in host byte order, so
 * that < orders them as people count them. All sockets are close-on-exec. Deadlines are mst_now_ns() values.
 */
#ifndef MUSTER_NET_H
#define MUSTER_NET_H

#include "muster/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MST_IPV4_TEXT_BYTES sizeof "255.255.255.255"

struct mst_cidr {
    uint32_t network; /* host byte order, host bits zero */
    uint32_t prefix;  /* 0 to 32 */
};

int mst_parse_ipv4(const char *text, uint32_t *ret_ipv4, struct mst_error *err);
/* "10.0.0.0/24"; host bits may be set and are dropped. */
int mst_parse_cidr(const char *text, struct mst_cidr *ret_cidr, struct mst_error *err);
const char *mst_ipv4_text(uint32_t ipv4, char text[static MST_IPV4_TEXT_BYTES]); /* returns text */
struct mst_cidr mst_cidr_of(uint32_t ipv4, uint32_t prefix); /* the subnet that an address is in */
bool mst_cidr_contains(struct mst_cidr cidr, uint32_t ipv4);
bool mst_cidr_overlaps(struct mst_cidr a, struct mst_cidr b);

/* A line of /proc/net/route. */
struct mst_route {
    char interface[16];
    struct mst_cidr destination; /* prefix 0: the default route */
    bool is_up;
};
/* False for what is none, as the heading. */
bool mst_route_parse(const char *line, struct mst_route *ret_route);

/* Listening non-blocking socket with SO_REUSEADDR; port 0 takes a free one, told in *ret_port (may be NULL).
 */
int mst_tcp_listen(uint32_t ipv4, uint16_t port, int backlog, int *ret_fd, uint16_t *ret_port,
                   struct mst_error *err);

/* Start a non-blocking connect; the caller polls for POLLOUT and asks mst_tcp_connect_result(). */
int mst_tcp_connect_start(uint32_t ipv4, uint16_t port, int *ret_fd, struct mst_error *err);
int mst_tcp_connect_result(int fd); /* 0 or a negative errno */

/* Connect and wait for it; the socket is non-blocking. -ETIMEDOUT at the deadline. */
int mst_tcp_connect(uint32_t ipv4, uint16_t port, uint64_t deadline_ns, int *ret_fd, struct mst_error *err);

/* The same with TCP segments of at most so many bytes in both directions (0: as the interface's MTU allows),
 * for paths that lose larger packets without a word. */
int mst_tcp_connect_start_within(uint32_t ipv4, uint16_t port, int segment_bytes, int *ret_fd,
                                 struct mst_error *err);
int mst_tcp_connect_within(uint32_t ipv4, uint16_t port, int segment_bytes, uint64_t deadline_ns, int *ret_fd,
                           struct mst_error *err);

/* Accept one connection, non-blocking and close-on-exec: a descriptor, or -EAGAIN and other negative errnos.
 */
int mst_tcp_accept(int listen_fd, uint32_t *ret_ipv4, uint16_t *ret_port);

/* No Nagle delay, keep-alive, and TCP_USER_TIMEOUT of `dead_ms` (0: leave the system's). */
int mst_tcp_tune(int fd, unsigned dead_ms, struct mst_error *err);

/* TCP's congestion control from now on, "cubic" for one, instead of the network namespace's own. Errors:
 * -ENOENT when the kernel has none of that name, -EPERM when this process may not choose it. */
#define MST_CONGESTION_MAX_BYTES 15 /* the kernel's TCP_CA_NAME_MAX, without its end */
int mst_tcp_set_congestion(int fd, const char *name, struct mst_error *err);

/* Move exactly `count` bytes over a non-blocking socket by the deadline. -EPIPE when the other side closed,
 * -ETIMEDOUT, or what the socket says. */
int mst_send_all(int fd, const void *bytes, size_t count, uint64_t deadline_ns);
int mst_receive_all(int fd, void *bytes, size_t count, uint64_t deadline_ns);

/* Wait until poll(2) reports one of `events` on fd: 0, or -ETIMEDOUT at the deadline. */
int mst_wait_fd(int fd, short events, uint64_t deadline_ns);

/* Both ends of a connected pair of non-blocking Unix stream sockets (tests, pipes between threads). */
int mst_socket_pair(int ret_fds[static 2], struct mst_error *err);

#endif
