/* SPDX-License-Identifier: Apache-2.0 */
/* The node tree: a YAML document with the place of each node. Aliases share the node they name, so the tree
 * is a graph without cycles; the reader has limited how large it would be if every alias were written out. */
#ifndef COMPOSE_NODE_H
#define COMPOSE_NODE_H

#include "muster/compose.h"
#include "scalar.h"

enum node_kind { NODE_SCALAR, NODE_LIST, NODE_MAP };

/* What the value does to the one that an earlier file has: override.h. */
enum node_merge { NODE_ONTO, NODE_RESET, NODE_OVERRIDE };

struct node;

struct node_entry {
    const char *key; /* NULL in lists */
    struct compose_place key_place;
    struct node *value;
};

struct node {
    enum node_kind kind;
    enum node_merge merge;
    struct compose_place place;
    /* Scalars. `scalar` says what the text means; quoted ones are always texts. */
    const char *text;
    struct scalar scalar;
    bool substituted;  /* a variable was replaced in it: the text may be read as a number or truth value */
    bool interpolated; /* has been looked at, scalars and others alike: shared nodes are done once */
    /* Lists and maps. */
    struct node_entry *entries; /* in file order; merged ones ("<<") behind the map's own */
    size_t count;
    size_t weight; /* nodes, aliases written out */
    unsigned height;
};

#endif
