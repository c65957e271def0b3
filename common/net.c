/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/net.h"

#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/parse.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define POLL_CAP_MS 60000

int mst_parse_ipv4(const char *text, uint32_t *ret_ipv4, struct mst_error *err)
{
    struct in_addr address;
    if (inet_pton(AF_INET, text, &address) != 1)
        return mst_error_set(err, -EINVAL, "'%.64s' is not an IPv4 address such as 10.0.0.1", text);
    *ret_ipv4 = ntohl(address.s_addr);
    return 0;
}

static uint32_t prefix_mask(uint32_t prefix)
{
    return prefix == 0 ? 0 : UINT32_MAX << (32 - prefix); /* a shift by 32 is undefined */
}

struct mst_cidr mst_cidr_of(uint32_t ipv4, uint32_t prefix)
{
    return (struct mst_cidr){.network = ipv4 & prefix_mask(prefix), .prefix = prefix};
}

int mst_parse_cidr(const char *text, struct mst_cidr *ret_cidr, struct mst_error *err)
{
    char address[MST_IPV4_TEXT_BYTES];
    const char *slash = strchr(text, '/');
    uint32_t ipv4 = 0, prefix = 0;
    if (!slash || (size_t)(slash - text) >= sizeof address)
        goto bad;
    memcpy(address, text, (size_t)(slash - text));
    address[slash - text] = '\0';
    if (mst_parse_ipv4(address, &ipv4, NULL) < 0 || mst_parse_u32(slash + 1, 0, 32, &prefix, NULL) < 0)
        goto bad;
    *ret_cidr = mst_cidr_of(ipv4, prefix);
    return 0;
bad:
    return mst_error_set(err, -EINVAL, "'%.64s' is not a subnet such as 10.0.0.0/24", text);
}

const char *mst_ipv4_text(uint32_t ipv4, char text[static MST_IPV4_TEXT_BYTES])
{
    (void)snprintf(text, MST_IPV4_TEXT_BYTES, "%u.%u.%u.%u", ipv4 >> 24, ipv4 >> 16 & 255, ipv4 >> 8 & 255,
                   ipv4 & 255);
    return text;
}

bool mst_cidr_contains(struct mst_cidr cidr, uint32_t ipv4)
{
    return (ipv4 & prefix_mask(cidr.prefix)) == cidr.network;
}

bool mst_cidr_overlaps(struct mst_cidr a, struct mst_cidr b)
{
    return a.prefix < b.prefix ? mst_cidr_contains(a, b.network) : mst_cidr_contains(b, a.network);
}

/* "eth0 00A8C0 ...": the numbers are hexadecimal, in network byte order as this machine's memory has it. */
bool mst_route_parse(const char *line, struct mst_route *ret_route)
{
    struct mst_route route;
    unsigned destination, flags, mask;

    if (sscanf(line, "%15s %x %*x %x %*d %*u %*d %x", route.interface, &destination, &flags, &mask) != 4)
        return false;
    route.destination = mst_cidr_of(ntohl(destination), (uint32_t)__builtin_popcount(mask));
    route.is_up = flags & 1; /* RTF_UP */
    *ret_route = route;
    return true;
}

static struct sockaddr_in socket_address(uint32_t ipv4, uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(ipv4)};
}

int mst_tcp_listen(uint32_t ipv4, uint16_t port, int backlog, int *ret_fd, uint16_t *ret_port,
                   struct mst_error *err)
{
    char text[MST_IPV4_TEXT_BYTES];
    struct sockaddr_in address = socket_address(ipv4, port);
    socklen_t address_bytes = sizeof address;
    const int on = 1;
    mst_cleanup(mst_closep) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        bind(fd, (const struct sockaddr *)&address, sizeof address) < 0 || listen(fd, backlog) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &address_bytes) < 0)
        return mst_error_errno(err, -errno, "listen on %s:%u", mst_ipv4_text(ipv4, text), (unsigned)port);
    if (ret_port)
        *ret_port = ntohs(address.sin_port);
    *ret_fd = fd;
    fd = -1;
    return 0;
}

/* What is announced when connecting holds for both directions: the other side keeps to it, and so do we. */
int mst_tcp_connect_start_within(uint32_t ipv4, uint16_t port, int segment_bytes, int *ret_fd,
                                 struct mst_error *err)
{
    char text[MST_IPV4_TEXT_BYTES];
    const struct sockaddr_in address = socket_address(ipv4, port);
    mst_cleanup(mst_closep) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 ||
        (segment_bytes > 0 &&
         setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment_bytes, sizeof segment_bytes) < 0) ||
        (connect(fd, (const struct sockaddr *)&address, sizeof address) < 0 && errno != EINPROGRESS))
        return mst_error_errno(err, -errno, "connect to %s:%u", mst_ipv4_text(ipv4, text), (unsigned)port);
    *ret_fd = fd;
    fd = -1;
    return 0;
}

int mst_tcp_connect_start(uint32_t ipv4, uint16_t port, int *ret_fd, struct mst_error *err)
{
    return mst_tcp_connect_start_within(ipv4, port, 0, ret_fd, err);
}

int mst_tcp_connect_result(int fd)
{
    int error = 0;
    socklen_t error_bytes = sizeof error;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes) < 0)
        return -errno;
    return -error;
}

int mst_tcp_connect(uint32_t ipv4, uint16_t port, uint64_t deadline_ns, int *ret_fd, struct mst_error *err)
{
    return mst_tcp_connect_within(ipv4, port, 0, deadline_ns, ret_fd, err);
}

int mst_tcp_connect_within(uint32_t ipv4, uint16_t port, int segment_bytes, uint64_t deadline_ns, int *ret_fd,
                           struct mst_error *err)
{
    char text[MST_IPV4_TEXT_BYTES];
    const uint64_t start_ns = mst_now_ns();
    mst_cleanup(mst_closep) int fd = -1;
    int r = mst_tcp_connect_start_within(ipv4, port, segment_bytes, &fd, err);
    if (r < 0)
        return r;
    r = mst_wait_fd(fd, POLLOUT, deadline_ns);
    if (r == -ETIMEDOUT)
        return mst_error_set(err, r, "connect to %s:%u: no answer in %.0f ms", mst_ipv4_text(ipv4, text),
                             (unsigned)port, mst_ms_since(start_ns));
    if (r == 0)
        r = mst_tcp_connect_result(fd);
    if (r < 0)
        return mst_error_errno(err, r, "connect to %s:%u", mst_ipv4_text(ipv4, text), (unsigned)port);
    *ret_fd = fd;
    fd = -1;
    return 0;
}

int mst_tcp_accept(int listen_fd, uint32_t *ret_ipv4, uint16_t *ret_port)
{
    struct sockaddr_in address = {0};
    socklen_t address_bytes = sizeof address;
    const int fd =
        accept4(listen_fd, (struct sockaddr *)&address, &address_bytes, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return -errno;
    if (ret_ipv4)
        *ret_ipv4 = ntohl(address.sin_addr.s_addr);
    if (ret_port)
        *ret_port = ntohs(address.sin_port);
    return fd;
}

int mst_tcp_tune(int fd, unsigned dead_ms, struct mst_error *err)
{
    const int on = 1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on) < 0 ||
        (dead_ms > 0 && setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &dead_ms, sizeof dead_ms) < 0))
        return mst_error_errno(err, -errno, "tune TCP connection");
    return 0;
}

int mst_tcp_set_congestion(int fd, const char *name, struct mst_error *err)
{
    if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) == 0)
        return 0;
    if (errno == ENOENT)
        return mst_error_set(err, -ENOENT, "this host's TCP has no congestion control '%.64s'", name);
    if (errno == EPERM)
        return mst_error_set(err, -EPERM,
                             "only this host's administrator may choose TCP's congestion control '%.64s' "
                             "(net.ipv4.tcp_allowed_congestion_control)",
                             name);
    return mst_error_errno(err, -errno, "use TCP's congestion control '%.64s'", name);
}

int mst_wait_fd(int fd, short events, uint64_t deadline_ns)
{
    struct pollfd poll_fd = {.fd = fd, .events = events};
    for (;;) {
        const int wait_ms = mst_ms_until(deadline_ns, POLL_CAP_MS);
        const int ready = poll(&poll_fd, 1, wait_ms);
        if (ready > 0)
            return 0;
        if (ready < 0 && errno != EINTR)
            return -errno;
        if (ready == 0 && wait_ms == 0)
            return -ETIMEDOUT;
    }
}

int mst_send_all(int fd, const void *bytes, size_t count, uint64_t deadline_ns)
{
    const char *next = bytes;
    while (count > 0) {
        const ssize_t sent = send(fd, next, count, MSG_NOSIGNAL);
        if (sent >= 0) {
            next += sent;
            count -= (size_t)sent;
        } else if (errno == EAGAIN) {
            const int r = mst_wait_fd(fd, POLLOUT, deadline_ns);
            if (r < 0)
                return r;
        } else if (errno != EINTR) {
            return -errno;
        }
    }
    return 0;
}

int mst_receive_all(int fd, void *bytes, size_t count, uint64_t deadline_ns)
{
    char *next = bytes;
    while (count > 0) {
        const ssize_t received = recv(fd, next, count, 0);
        if (received > 0) {
            next += received;
            count -= (size_t)received;
        } else if (received == 0) {
            return -EPIPE;
        } else if (errno == EAGAIN) {
            const int r = mst_wait_fd(fd, POLLIN, deadline_ns);
            if (r < 0)
                return r;
        } else if (errno != EINTR) {
            return -errno;
        }
    }
    return 0;
}

int mst_socket_pair(int ret_fds[static 2], struct mst_error *err)
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
        return mst_error_errno(err, -errno, "make a socket pair");
    ret_fds[0] = fds[0];
    ret_fds[1] = fds[1];
    return 0;
}
