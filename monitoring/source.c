/* SPDX-License-Identifier: Apache-2.0 */
#include "source.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#define SOURCE_CHUNK_BYTES 4096 /* what the kernel's seq_file hands out at a time */

int source_open(const char *folder, const char *name)
{
    char path[PATH_MAX];
    const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (length < 0 || (size_t)length >= sizeof path)
        return -ENAMETOOLONG;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

int source_read(int fd, struct mst_buf *text)
{
    mst_buf_clear(text);
    for (;;) {
        const int r = mst_buf_reserve(text, SOURCE_CHUNK_BYTES);
        if (r < 0)
            return r;
        const ssize_t got = pread(fd, text->bytes + text->count, SOURCE_CHUNK_BYTES, (off_t)text->count);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        text->count += (size_t)got;
        text->bytes[text->count] = '\0';
        if (got == 0) /* a short read is no end: seq_file returns what fits by whole records */
            return 0;
    }
}

bool source_is_gone(int code)
{
    return code == -ENOENT || code == -ENODEV || code == -ESRCH;
}
