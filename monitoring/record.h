/* SPDX-License-Identifier: Apache-2.0 */
/* Writes passes into a file that only grows (record_format.h), and into the next when it is full or old. */
#ifndef MONITORING_RECORD_H
#define MONITORING_RECORD_H

#include "muster/monitor.h"

struct record_options {
    const char *path;
    uint64_t max_bytes;  /* 0: no limit; then the file is renamed to PATH.<UTC time of its first pass> */
    uint64_t max_age_ns; /* 0: no limit */
    uint32_t keep;       /* how many of those stay; 0: all */
    uint64_t block_ns;   /* how old a block may be before it is written; 0: 5 s */
    const char *version, *node;
};

struct record;

/* The files that a recording at `path` was rotated into, from the oldest on, then `path` itself: each the
 * caller's, and the list too. NULL when the folder cannot be read. */
char **record_files(const char *path, size_t *ret_count);

/* An older file is carried on; what a crash has torn off at its end is cut. -EBADMSG for a file that is no
 * recording, -EBUSY when another process writes to it. */
int record_open(const struct record_options *options, struct record **ret_record, struct mst_error *err);

/* Keeps the pass; writes when it is time. A full disk is survived: the block is dropped, *ret_lost (may be
 * NULL) says how many passes that has cost so far. So is a next file that cannot be begun: the current one
 * goes on, and it is tried again at each block. */
int record_add(struct record *record, const struct monitor_pass *pass, uint64_t *ret_lost,
               struct mst_error *err);

/* Writes what is kept, and the index. */
int record_close(struct record *record, struct mst_error *err); /* NULL is fine; frees in any case */

#endif
