/* SPDX-License-Identifier: Apache-2.0 */
/* libyaml's events to a node tree. Anchors, aliases and merge keys are resolved here; a key that stands twice
 * is an error, as for docker. */
#ifndef COMPOSE_READER_H
#define COMPOSE_READER_H

#include "arena.h"
#include "node.h"

#define READER_MAX_DEPTH 64
/* Nodes when each alias is written out: ten levels of ten aliases would be 10^10 (the "billion laughs"). A
 * stack of 100 services has some 5,000. */
#define READER_MAX_WEIGHT 100000U
/* A map's own keys and the merged ones. */
#define READER_MAX_ENTRIES 10000U

/* `file` is kept in the places. An empty document is an error, whatever follows the first document is not
 * read
 * (*ret_more says whether something does). The tree belongs to the arena. -EBADMSG with the place. */
int reader_parse(struct compose_arena *arena, const char *text, size_t text_bytes, const char *file,
                 struct node **ret_root, bool *ret_more, struct mst_error *err);

#endif
