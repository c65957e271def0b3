/* SPDX-License-Identifier: Apache-2.0 */
/* An input as a file, for what reads files only; it exists in memory. */
#ifndef TESTS_FUZZ_FILE_H
#define TESTS_FUZZ_FILE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct fuzz_file {
    int fd;
    char path[64];
};

static inline struct fuzz_file fuzz_file_open(const uint8_t *bytes, size_t count)
{
    struct fuzz_file file = {.fd = memfd_create("fuzz", MFD_CLOEXEC)};
    if (file.fd < 0 || write(file.fd, bytes, count) != (ssize_t)count)
        abort();
    (void)snprintf(file.path, sizeof file.path, "/proc/self/fd/%d", file.fd);
    return file;
}

static inline void fuzz_file_close(struct fuzz_file *file)
{
    (void)close(file->fd);
}

#endif
