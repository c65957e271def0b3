/* SPDX-License-Identifier: Apache-2.0 */
/* Files that may be gzip-compressed, which their content tells and not their name. */
#ifndef TRAINER_PACKED_H
#define TRAINER_PACKED_H

#include "muster/error.h"

#include <stddef.h>
#include <zlib.h>

int packed_open(const char *path, gzFile *ret_file, struct mst_error *err);
/* Read up to `count` bytes: *ret_got is less only at the end of the file. -EBADMSG for damaged or truncated
 * gzip data. */
int packed_read(gzFile file, const char *path, void *bytes, size_t count, size_t *ret_got,
                struct mst_error *err);
void packed_closep(gzFile *file); /* for mst_cleanup() */

#endif
