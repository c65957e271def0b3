/* SPDX-License-Identifier: Apache-2.0 */
/* Files out of a tar archive that somebody else made, into one folder: regular files with plain names only.
 */
#ifndef SWARM_UNTAR_H
#define SWARM_UNTAR_H

#include "muster/error.h"

#include <stddef.h>
#include <stdint.h>

#define UNTAR_FILES_MAX 8192

struct untar_limits {
    uint64_t file_bytes, all_bytes;
    /* Names that are not to be taken, ended by NULL (NULL: none): they are the caller's own. */
    const char *const *reserved;
};

struct untar_result {
    size_t files, skipped;
    uint64_t bytes;
    char first_skipped[256]; /* for a message */
};

/* `fd` is read from where it stands. Entries lie at most one folder deep ("run1/history.csv"), as the engine
 * packs a folder; folders themselves, links, devices, deeper and reserved names are skipped and counted.
 * Every file appears whole, in mode 0644. -EPROTO for what is no tar archive or is cut, -EFBIG past a limit;
 * files that were complete by then stay. */
int untar_fd(int fd, const char *folder, const struct untar_limits *limits, struct untar_result *ret_result,
             struct mst_error *err);

#endif
