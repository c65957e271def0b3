/* SPDX-License-Identifier: Apache-2.0 */
/* Where `rsh` finds its own agent: an abstract Unix socket, as for health checks (health.c). It belongs to
 * the network namespace and needs no folder. */
#ifndef EXEC_LAUNCH_ADDRESS_H
#define EXEC_LAUNCH_ADDRESS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

static inline socklen_t launch_address(uint16_t port, struct sockaddr_un *ret_address)
{
    *ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    const int length = snprintf(ret_address->sun_path + 1, sizeof ret_address->sun_path - 1,
                                "muster-launch/%u", (unsigned)port);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

#endif
