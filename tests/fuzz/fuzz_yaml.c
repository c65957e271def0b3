/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as YAML: the tree keeps the limits that the reader promises, each node has its place, and each
 * number that an unquoted value is printed as is read as the same number. */
#include "reader.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void check_number(const struct scalar *scalar)
{
    char text[SCALAR_TEXT_BYTES], again[SCALAR_TEXT_BYTES];
    scalar_print(scalar, text);
    struct scalar resolved = scalar_resolve(text);
    if (resolved.kind == SCALAR_TEXT && scalar->kind == SCALAR_FLOAT)
        return; /* NaN, +Inf */
    if (resolved.kind != SCALAR_INT && resolved.kind != SCALAR_FLOAT)
        abort();
    scalar_print(&resolved, again);
    if (scalar->kind == SCALAR_INT && strcmp(text, again) != 0)
        abort();
}

/* Returns the nodes that it stands for, aliases written out. */
static size_t check(const struct node *node, unsigned depth)
{
    if (depth >= READER_MAX_DEPTH + 1 || node->place.line == 0 || node->place.column == 0)
        abort();
    size_t nodes = 1;
    if (node->kind == NODE_SCALAR) {
        if (!node->text || node->count > 0)
            abort();
        if (node->scalar.kind == SCALAR_INT || node->scalar.kind == SCALAR_FLOAT)
            check_number(&node->scalar);
    }
    for (size_t i = 0; i < node->count; i++) {
        if (!node->entries[i].key != (node->kind == NODE_LIST))
            abort();
        nodes += check(node->entries[i].value, depth + 1);
    }
    if (nodes > node->weight || nodes > READER_MAX_WEIGHT)
        abort();
    return nodes;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct compose_arena *arena = compose_arena_new();
    struct mst_error err = MST_ERROR_INIT;
    struct node *root = NULL;
    bool more;
    if (!arena)
        return 0;
    const int r = reader_parse(arena, (const char *)bytes, count, "fuzz.yml", &root, &more, &err);
    if (r < 0 && (root || r != err.code || !*err.text || strchr(err.text, '\n')))
        abort();
    if (r == 0)
        (void)check(root, 0);
    compose_arena_free(arena);
    return 0;
}
