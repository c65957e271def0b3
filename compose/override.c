/* SPDX-License-Identifier: Apache-2.0 */
#include "override.h"

#include "reader.h"

#include <string.h>

struct override {
    struct schema_load *load;
    struct node **earlier; /* the trees before the one that is walked */
    size_t earlier_count;
    const char *keys[READER_MAX_DEPTH + 1]; /* the way to where the walk stands */
    size_t depth;
};

/* Where `key` stands in a map, or in a list of "KEY=VALUE" that says the same; `count` when nowhere. */
static size_t find(const struct node *node, const char *key)
{
    const size_t key_bytes = strlen(key);
    size_t i = 0;
    for (; i < node->count; i++) {
        if (node->kind == NODE_MAP && strcmp(node->entries[i].key, key) == 0)
            break;
        const struct node *item = node->entries[i].value;
        if (node->kind == NODE_LIST && item->kind == NODE_SCALAR &&
            strncmp(item->text, key, key_bytes) == 0 &&
            (!item->text[key_bytes] || item->text[key_bytes] == '='))
            break;
    }
    return i;
}

/* Aliases may share a node, and what is taken from one place must stay in the others. */
static struct node *copy_node(struct schema_load *load, const struct node *node)
{
    struct node *copy = compose_arena_alloc(load->arena, sizeof *copy);
    struct node_entry *entries = compose_arena_alloc(load->arena, (node->count + 1) * sizeof *entries);
    if (!copy || !entries)
        return NULL;
    *copy = *node;
    memcpy(entries, node->entries, node->count * sizeof *entries);
    copy->entries = entries;
    return copy;
}

/* Take what `keys` lead to out of a tree, if it is there. */
static int take_out(struct schema_load *load, struct node **node, const char *const *keys, size_t count)
{
    size_t at = find(*node, keys[0]);
    if (at == (*node)->count || (count > 1 && (*node)->kind != NODE_MAP))
        return 0;
    struct node *copy = copy_node(load, *node);
    if (!copy)
        return schema_fail_memory(load);
    *node = copy;
    if (count > 1)
        return take_out(load, &copy->entries[at].value, keys + 1, count - 1);
    for (; at < copy->count; at = find(copy, keys[0])) {
        memmove(&copy->entries[at], &copy->entries[at + 1], (copy->count - at - 1) * sizeof *copy->entries);
        copy->count--;
    }
    return 0;
}

static int fail_place(struct override *job, const struct node *node)
{
    return schema_fail(job->load, &node->place, "'!%s' must follow a key, and not one inside of a list",
                       node->merge == NODE_RESET ? "reset" : "override");
}

/* The tree that is walked stays as it is: another way may lead to the same node. */
static int walk(struct override *job, const struct node *node, bool in_list)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < node->count; i++) {
        const struct node_entry *entry = &node->entries[i];
        const struct node *value = entry->value;
        if (node->kind == NODE_LIST) {
            if (value->merge != NODE_ONTO)
                return fail_place(job, value);
            r = walk(job, value, true);
            continue;
        }
        schema_enter(job->load, entry->key);
        job->keys[job->depth++] = entry->key;
        if (value->merge != NODE_ONTO && in_list)
            r = fail_place(job, value);
        for (size_t f = 0; r == 0 && value->merge != NODE_ONTO && f < job->earlier_count; f++)
            r = take_out(job->load, &job->earlier[f], job->keys, job->depth);
        if (r == 0)
            r = walk(job, value, in_list);
        job->depth--;
        if (r == 0)
            schema_leave(job->load);
    }
    return r;
}

/* Afterwards no node has an entry with !reset; shared ones are done again for each way, with nothing left to
 * do.
 */
static void drop_resets(struct node *node)
{
    size_t kept = 0;
    for (size_t i = 0; i < node->count; i++) {
        if (node->entries[i].value->merge == NODE_RESET)
            continue;
        drop_resets(node->entries[i].value);
        node->entries[kept++] = node->entries[i];
    }
    node->count = kept;
}

int override_apply(struct schema_load *load, struct node **roots, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct override job = {.load = load, .earlier = roots, .earlier_count = i};
        if (roots[i]->merge != NODE_ONTO)
            return fail_place(&job, roots[i]);
        int r = walk(&job, roots[i], false);
        if (r < 0)
            return r;
        drop_resets(roots[i]);
    }
    return 0;
}
