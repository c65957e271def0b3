/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes between two pairs of descriptors, and a connection to a Unix socket: for what stands between the
 * client and the scripted engine. */
#ifndef TESTS_FAULTS_PUMP_H
#define TESTS_FAULTS_PUMP_H

#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* -1 when there is none. */
static inline int pump_connect(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || strlen(path) >= sizeof address.sun_path)
        return -1;
    memcpy(address.sun_path, path, strlen(path) + 1);
    return connect(fd, (const struct sockaddr *)&address, sizeof address) < 0 ? -1 : fd;
}

static inline bool pump_write(int fd, const char *bytes, size_t count)
{
    while (count > 0) {
        const ssize_t n = write(fd, bytes, count);
        if (n <= 0)
            return false;
        bytes += n;
        count -= (size_t)n;
    }
    return true;
}

/* False at the end of `from`, or when `to` takes no more. */
static inline bool pump_once(int from, int to)
{
    char bytes[65536];
    const ssize_t n = read(from, bytes, sizeof bytes);

    return n > 0 && pump_write(to, bytes, (size_t)n);
}

#endif
