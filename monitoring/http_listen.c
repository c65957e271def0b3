/* SPDX-License-Identifier: Apache-2.0 */
#include "http_listen.h"

#include "muster/cleanup.h"
#include "muster/parse.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define LISTEN_BACKLOG 64
#define SYSTEMD_FIRST  3

int http_listen_parse(const char *text, struct sockaddr_storage *ret_address, socklen_t *ret_bytes,
                      struct mst_error *err)
{
    char host[64] = "";
    const char *colon = strrchr(text, ':');
    uint32_t port;
    if (!colon || (size_t)(colon - text) >= sizeof host)
        return mst_error_set(err, -EINVAL, "'%.80s' is not HOST:PORT, with numbers for the host or none",
                             text);
    memcpy(host, text, (size_t)(colon - text));
    const int r = mst_parse_u32(colon + 1, 0, 65535, &port, err);
    if (r < 0)
        return mst_error_wrap(err, r, "port of '%.80s'", text);
    size_t bytes = strlen(host);
    const bool is_bracketed = bytes >= 2 && host[0] == '[' && host[bytes - 1] == ']';
    if (is_bracketed) {
        host[bytes - 1] = '\0';
        memmove(host, host + 1, bytes - 1);
    }
    if (strcmp(host, "localhost") == 0)
        (void)strncpy(host, "127.0.0.1", sizeof host);
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)ret_address;
    struct sockaddr_in *four = (struct sockaddr_in *)ret_address;
    struct sockaddr_storage address = {0};
    if (inet_pton(AF_INET, host, &((struct sockaddr_in *)&address)->sin_addr) == 1 && !is_bracketed) {
        *ret_address = address;
        four->sin_family = AF_INET;
        four->sin_port = htons((uint16_t)port);
        *ret_bytes = sizeof *four;
        return 0;
    }
    if (*host == '\0' || inet_pton(AF_INET6, host, &((struct sockaddr_in6 *)&address)->sin6_addr) == 1) {
        *ret_address = address;
        six->sin6_family = AF_INET6;
        six->sin6_port = htons((uint16_t)port);
        *ret_bytes = sizeof *six;
        return 0;
    }
    return mst_error_set(err, -EINVAL, "'%.80s': '%s' is no address; give its number, or nothing for all",
                         text, host);
}

void http_listen_text(int fd, char ret_text[static 64])
{
    struct sockaddr_storage address = {0};
    socklen_t bytes = sizeof address;
    char host[INET6_ADDRSTRLEN] = "?";
    (void)snprintf(ret_text, 64, "?");
    if (getsockname(fd, (struct sockaddr *)&address, &bytes) < 0)
        return;
    if (address.ss_family == AF_INET) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)&address;
        (void)inet_ntop(AF_INET, &four->sin_addr, host, sizeof host);
        (void)snprintf(ret_text, 64, "%s:%u", host, ntohs(four->sin_port));
    } else if (address.ss_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&address;
        (void)inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof host);
        (void)snprintf(ret_text, 64, "[%s]:%u", host, ntohs(six->sin6_port));
    } else if (address.ss_family == AF_UNIX) {
        (void)snprintf(ret_text, 64, "unix socket");
    }
}

int http_listen(const char *text, int *ret_fd, char ret_text[static 64], struct mst_error *err)
{
    struct sockaddr_storage address;
    socklen_t bytes;
    const int on = 1, off = 0;
    int r = http_listen_parse(text, &address, &bytes, err);
    if (r < 0)
        return r;
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 && errno == EAFNOSUPPORT && *text == ':') { /* all addresses, without IPv6 */
        struct sockaddr_in *four = (struct sockaddr_in *)&address;
        const uint16_t port = ((struct sockaddr_in6 *)&address)->sin6_port;
        *four = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = port};
        bytes = sizeof *four;
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    }
    if (fd < 0)
        return mst_error_errno(err, -errno, "listen on '%s'", text);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address.ss_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, (const struct sockaddr *)&address, bytes) < 0 || listen(fd, LISTEN_BACKLOG) < 0) {
        r = mst_error_errno(err, -errno, "listen on '%s'", text);
        mst_closep(&fd);
        return r;
    }
    http_listen_text(fd, ret_text);
    *ret_fd = fd;
    return 0;
}

int http_listen_systemd(int *ret_fds, size_t max, size_t *ret_count, struct mst_error *err)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
    uint32_t count, owner;
    if (!pid || !fds || mst_parse_u32(pid, 1, INT32_MAX, &owner, NULL) < 0 ||
        mst_parse_u32(fds, 1, (uint32_t)max, &count, NULL) < 0 || (pid_t)owner != getpid())
        return mst_error_set(err, -ENOENT, "systemd has handed no sockets over (LISTEN_PID, LISTEN_FDS)");
    for (uint32_t i = 0; i < count; i++) {
        const int fd = SYSTEMD_FIRST + (int)i;
        if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
            return mst_error_errno(err, -errno, "systemd's socket %d", fd);
        ret_fds[i] = fd;
    }
    *ret_count = count;
    return 0;
}
