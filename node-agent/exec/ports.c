/* SPDX-License-Identifier: Apache-2.0 */
#include "ports.h"

#include "muster/buf.h"
#include "muster/cleanup.h"
#include "muster/digest.h"
#include "muster/file.h"
#include "muster/net.h"
#include "muster/parse.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* As few are worth choosing from; a thousand workers at one address are not meant. */
#define PORTS_ENOUGH 64
#define PORTS_FIRST  20000
#define PORTS_TRIES  4096

int exec_ports_parse(const char *text, struct exec_port_range *ret_range, struct mst_error *err)
{
    char first_text[8];
    uint32_t first = 0, last = 0;
    const char *colon = strchr(text, ':');
    const size_t length = colon ? (size_t)(colon - text) : strlen(text);
    if (length < sizeof first_text) {
        memcpy(first_text, text, length);
        first_text[length] = '\0';
        if (mst_parse_u32(first_text, 1, 65535, &first, NULL) == 0 &&
            mst_parse_u32(colon ? colon + 1 : first_text, first, 65535, &last, NULL) == 0) {
            *ret_range = (struct exec_port_range){(uint16_t)first, (uint16_t)last};
            return 0;
        }
    }
    return mst_error_set(err, -EINVAL, "'%.64s' is neither a port nor FIRST:LAST", text);
}

struct exec_port_range exec_ports_default(void)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(64);
    unsigned first = 32768, last = 60999; /* the kernel's defaults, where /proc does not tell */
    if (mst_file_read("/proc/sys/net/ipv4/ip_local_port_range", &text, NULL) == 0)
        (void)sscanf(mst_buf_text(&text), "%u %u", &first, &last);
    if (first < 1 || last > 65535 || first > last)
        return (struct exec_port_range){32768, 60999};
    if (first >= PORTS_FIRST + PORTS_ENOUGH)
        return (struct exec_port_range){PORTS_FIRST, (uint16_t)(first - 1)};
    return (struct exec_port_range){(uint16_t)first, (uint16_t)last};
}

/* Without SO_REUSEADDR: then a port that anybody listens on, or has bound, is refused. */
static int bind_at(uint32_t ipv4, uint16_t port, int *ret_fd)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(ipv4)};
    mst_cleanup(mst_closep) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof address) < 0)
        return -errno;
    *ret_fd = fd;
    fd = -1;
    return 0;
}

int exec_ports_reserve(uint32_t ipv4, struct exec_port_range range, uint16_t *ret_port, int *ret_fd,
                       struct mst_error *err)
{
    char address[MST_IPV4_TEXT_BYTES];
    uint32_t start;
    int r = mst_random(&start, sizeof start, err);
    if (r < 0)
        return r;
    const uint32_t count = (uint32_t)range.last - range.first + 1;
    const uint32_t tries = count < PORTS_TRIES ? count : PORTS_TRIES;
    for (uint32_t t = 0; t < tries; t++) {
        const uint16_t port = (uint16_t)(range.first + (start % count + t) % count);
        r = bind_at(ipv4, port, ret_fd);
        if (r == 0) {
            *ret_port = port;
            return 0;
        }
        if (r != -EADDRINUSE && r != -EACCES) /* EACCES: a privileged one of the range */
            break;
    }
    return mst_error_errno(err, r, "find a free port of %u:%u at %s", (unsigned)range.first,
                           (unsigned)range.last, mst_ipv4_text(ipv4, address));
}
