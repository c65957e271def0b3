/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes file: how the engine of each node is reached, for what the manager's API cannot do. One node a
 * line,
 *
 *     # host name   engine, as for -H
 *     node1         unix:///var/run/docker.sock
 *     node2         ssh://me@node2
 */
#ifndef SWARM_NODESFILE_H
#define SWARM_NODESFILE_H

#include "muster/error.h"

#include <stddef.h>

#define NODESFILE_NODES_MAX 1024

struct nodesfile_entry {
    char *hostname, *host; /* owned */
};

struct nodesfile {
    struct nodesfile_entry *items; /* owned, file order, each name once */
    size_t count;
};

/* -EBADMSG with line and what was expected. */
int nodesfile_read(const char *path, struct nodesfile *ret_file, struct mst_error *err);
int nodesfile_parse(const char *text, const char *name, struct nodesfile *ret_file, struct mst_error *err);
void nodesfile_release(struct nodesfile *file);
const char *nodesfile_host(const struct nodesfile *file, const char *hostname); /* NULL: not in it */

#endif
