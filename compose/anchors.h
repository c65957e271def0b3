/* SPDX-License-Identifier: Apache-2.0 */
/* The anchors of one YAML file by name. A file may hold 100,000 of them, so they stand in a tree that is
 * balanced whatever their names are: a hash table's could be chosen to meet in one place. */
#ifndef COMPOSE_ANCHORS_H
#define COMPOSE_ANCHORS_H

#include "arena.h"
#include "node.h"

struct anchor {
    const char *name;
    struct node *node;
    bool is_whole; /* false while the node it names is still being read */
    struct anchors *owner;
};

struct anchors {
    struct compose_arena *arena; /* borrowed: names and anchors lie there */
    void *tree;                  /* of tsearch(3) */
    size_t comparisons;          /* of two names, so far: what a hostile file may make grow */
};

/* The newest of a name is the one that is found. NULL without memory. */
struct anchor *anchors_add(struct anchors *anchors, const char *name, struct node *node);
struct anchor *anchors_find(struct anchors *anchors, const char *name); /* NULL: there is none */
void anchors_release(struct anchors *anchors);

#endif
