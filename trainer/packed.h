/* SPDX-License-Identifier: Apache-2.0 */
/* Files that may be gzip-compressed (RFC 1952), in one member or several, which their content tells and not
 * their name. A file that somebody writes to while it is read is an error: half of the old and half of the
 * new would be data that nobody has. */
#ifndef TRAINER_PACKED_H
#define TRAINER_PACKED_H

#include "muster/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <zlib.h>

#define PACKED_BUFFER_BYTES 65536

struct packed_file {
    const char *path;     /* borrowed */
    uint8_t *buffer;      /* PACKED_BUFFER_BYTES as they are in the file, owned; NULL: not open */
    int fd;               /* owned */
    struct stat at_first; /* as it was opened */
    bool is_gzip;
    bool within_member; /* of gzip data: its checksum is still to come */
    bool padded;        /* zeros stood behind the last member: nothing else may follow */
    z_stream stream;    /* is_gzip; its input lies in `buffer` in both cases */
};

int packed_open(struct packed_file *ret_file, const char *path, struct mst_error *err);
/* Read up to `count` bytes: *ret_got is less only at the end of the file. -EBADMSG for damaged or truncated
 * gzip data and for what stands behind it (zeros may: tapes are filled up with them), and at the end of a
 * file that is not as it was opened. */
int packed_read(struct packed_file *file, void *bytes, size_t count, size_t *ret_got, struct mst_error *err);
void packed_close(struct packed_file *file); /* for mst_cleanup(); zeros are fine */

#endif
