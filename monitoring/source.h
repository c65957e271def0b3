/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel file that is opened once and read each tick: pread(2) on an open descriptor costs about a sixth of
 * open, read and close. */
#ifndef MONITORING_SOURCE_H
#define MONITORING_SOURCE_H

#include "muster/buf.h"

#include <stdbool.h>

/* net/dev of a host with a hundred interfaces is 12 KiB, memory.stat 2 KiB. */
#define SOURCE_MAX_BYTES ((size_t)256 << 10)

/* Opens folder + "/" + name for reading: a descriptor, the caller's, or a negative errno. */
int source_open(const char *folder, const char *name);

/* Replaces `text` with the whole content. 0 or a negative errno; `text` needs a limit (SOURCE_MAX_BYTES). */
int source_read(int fd, struct mst_buf *text);

/* The three ways in which the kernel says that a control group or process has gone. */
bool source_is_gone(int code);

#endif
