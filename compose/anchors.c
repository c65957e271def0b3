/* SPDX-License-Identifier: Apache-2.0 */
#include "anchors.h"

#include <search.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    const struct anchor *left = a, *right = b;
    left->owner->comparisons++;
    return strcmp(left->name, right->name);
}

struct anchor *anchors_add(struct anchors *anchors, const char *name, struct node *node)
{
    struct anchor *anchor = compose_arena_alloc(anchors->arena, sizeof *anchor);
    if (!anchor)
        return NULL;
    *anchor =
        (struct anchor){.name = compose_arena_text(anchors->arena, name), .node = node, .owner = anchors};
    struct anchor **place = anchor->name ? tsearch(anchor, &anchors->tree, compare) : NULL;
    if (!place)
        return NULL;
    *place = anchor; /* a name may be given again */
    return anchor;
}

struct anchor *anchors_find(struct anchors *anchors, const char *name)
{
    const struct anchor wanted = {.name = name, .owner = anchors};
    struct anchor *const *found = tfind(&wanted, &anchors->tree, compare);
    return found ? *found : NULL;
}

static void keep(void *anchor)
{
    (void)anchor; /* it lies in the arena */
}

void anchors_release(struct anchors *anchors)
{
    tdestroy(anchors->tree, keep);
    anchors->tree = NULL;
}
