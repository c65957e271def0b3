/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

int output_wait(int fd, int stop_fd)
{
    for (;;) {
        struct pollfd fds[] = {{.fd = fd, .events = POLLOUT}, {.fd = stop_fd, .events = POLLIN}};
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return -errno;
        if (fds[0].revents != 0) /* an error too: the write will name it */
            return 0;
        if (fds[1].revents != 0)
            return -ECANCELED;
    }
}

uint64_t output_machine_bytes(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : 0;
}
