/* SPDX-License-Identifier: Apache-2.0 */
/* Lists and mappings of texts. */
#include "schema.h"
#include "show.h"
#include "words.h"

#include <string.h>

/* In one list or mapping, over all files. Some of the work on them is quadratic. */
#define LISTS_MAX_ITEMS 4096U

static int fail_full(struct schema_load *load, const struct compose_place *place)
{
    return schema_fail(load, place, "more than %u entries", LISTS_MAX_ITEMS);
}

int schema_strings_add(struct schema_load *load, struct compose_strings *list, const char *text)
{
    const char **items = compose_arena_grow(load->arena, (void *)list->items, list->count, sizeof *items);
    if (!items)
        return schema_fail_memory(load);
    list->items = items;
    list->items[list->count++] = text;
    return 0;
}

/* 0: not there, else its number from 1. */
static size_t strings_find(const struct compose_strings *list, const char *text)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i], text) == 0)
            return i + 1;
    return 0;
}

int schema_set_strings(struct schema_load *load, const struct node *node, void *member,
                       const struct schema_field *f)
{
    (void)f;
    struct compose_strings *list = member;
    const size_t earlier = list->count; /* of files before this one */
    char shown[SHOW_BYTES];
    int r = schema_expect(load, node, NODE_LIST);
    for (size_t i = 0; r == 0 && i < node->count; i++) {
        const char *text;
        schema_enter_item(load, i);
        const struct node *item = node->entries[i].value;
        r = schema_text(load, item, &text);
        if (r == 0) {
            size_t found = strings_find(list, text);
            if (found > earlier)
                r = schema_fail(load, &item->place, "%s stands twice in this list", show(text, shown));
            else if (!found && list->count >= LISTS_MAX_ITEMS)
                r = fail_full(load, &item->place);
            else if (!found)
                r = schema_strings_add(load, list, text);
        }
        schema_leave(load);
    }
    return r;
}

int schema_set_string_or_strings(struct schema_load *load, const struct node *node, void *member,
                                 const struct schema_field *f)
{
    if (node->kind != NODE_SCALAR)
        return schema_set_strings(load, node, member, f);
    const char *text;
    int r = schema_text(load, node, &text);
    if (r < 0 || strings_find(member, text))
        return r;
    return schema_strings_add(load, member, text);
}

int schema_set_words(struct schema_load *load, const struct node *node, void *member,
                     const struct schema_field *f)
{
    (void)f;
    struct compose_strings words = {0};
    int r = 0;
    if (node->kind == NODE_SCALAR) {
        struct mst_error why = MST_ERROR_INIT;
        const char *text;
        r = schema_text(load, node, &text);
        if (r < 0)
            return r;
        r = words_split(load->arena, text, &words, &why);
        if (r == -ENOMEM)
            return schema_fail_memory(load);
        if (r < 0)
            return schema_fail(load, &node->place, "%s", why.text);
    } else {
        r = schema_expect(load, node, NODE_LIST);
        for (size_t i = 0; r == 0 && i < node->count; i++) {
            const char *text;
            schema_enter_item(load, i);
            r = schema_text(load, node->entries[i].value, &text);
            if (r == 0)
                r = schema_strings_add(load, &words, text);
            schema_leave(load);
        }
    }
    if (r == 0)
        *(struct compose_strings *)member = words;
    return r;
}

int schema_pairs_put(struct schema_load *load, struct compose_pairs *pairs, const char *key,
                     const char *value, const struct compose_place *place)
{
    size_t at = 0, end = pairs->count;
    while (at < end) {
        size_t middle = at + (end - at) / 2;
        int order = strcmp(pairs->items[middle].key, key);
        if (order == 0) {
            pairs->items[middle].value = value;
            return 0;
        }
        if (order < 0)
            at = middle + 1;
        else
            end = middle;
    }
    if (pairs->count >= LISTS_MAX_ITEMS)
        return fail_full(load, place);
    struct compose_pair *items = compose_arena_grow(load->arena, pairs->items, pairs->count, sizeof *items);
    if (!items)
        return schema_fail_memory(load);
    pairs->items = items;
    memmove(&items[at + 1], &items[at], (pairs->count - at) * sizeof *items);
    items[at] = (struct compose_pair){key, value};
    pairs->count++;
    return 0;
}

/* `seen`: the names that this list has had. Docker takes the last of a name without a word. */
static int pairs_from_text(struct schema_load *load, const struct node *item, bool values_may_be_null,
                           struct compose_pairs *seen, struct compose_pairs *pairs)
{
    char shown[SHOW_BYTES];
    const size_t seen_count = seen->count;
    const char *text;
    int r = schema_text(load, item, &text);
    if (r < 0)
        return r;
    const char *equals = strchr(text, '=');
    const char *key = equals ? compose_arena_text_n(load->arena, text, (size_t)(equals - text)) : text;
    if (!key)
        return schema_fail_memory(load);
    if (!*key)
        return schema_fail(load, &item->place, "a name must stand before the '='");
    r = schema_pairs_put(load, seen, key, NULL, &item->place);
    if (r == 0 && seen->count == seen_count)
        r = schema_warn(load, &item->place, "%s stands twice in this list: the last counts",
                        show(key, shown));
    return r < 0 ? r
                 : schema_pairs_put(load, pairs, key,
                                    equals               ? equals + 1
                                    : values_may_be_null ? NULL
                                                         : "",
                                    &item->place);
}

int schema_pairs(struct schema_load *load, const struct node *node, bool values_may_be_null,
                 struct compose_pairs *pairs)
{
    struct compose_pairs seen = {0};
    int r = 0;
    if (node->kind == NODE_SCALAR)
        return schema_fail_type(load, node, "a mapping or a list of NAME=VALUE");
    for (size_t i = 0; r == 0 && i < node->count; i++) {
        const struct node_entry *entry = &node->entries[i];
        if (node->kind == NODE_LIST) {
            schema_enter_item(load, i);
            r = pairs_from_text(load, entry->value, values_may_be_null, &seen, pairs);
        } else {
            const char *value;
            schema_enter(load, entry->key);
            r = schema_loose_text(load, entry->value, values_may_be_null, &value);
            if (r == 0 && !*entry->key)
                r = schema_fail(load, &entry->key_place, "an empty name");
            else if (r == 0 && values_may_be_null && strchr(entry->key, '=')) /* a variable's */
                r = schema_fail(load, &entry->key_place, "a variable's name has no '='");
            if (r == 0)
                r = schema_pairs_put(load, pairs, entry->key, value, &entry->key_place);
        }
        schema_leave(load);
    }
    return r;
}

int schema_set_pairs(struct schema_load *load, const struct node *node, void *member,
                     const struct schema_field *f)
{
    (void)f;
    return schema_pairs(load, node, false, member);
}

int schema_each_named(struct schema_load *load, const struct node *node, const char *what,
                      schema_read_named *read, struct compose_service *service)
{
    int r = 0;
    if (node->kind == NODE_SCALAR)
        return schema_fail_type(load, node, what);
    for (size_t i = 0; r == 0 && i < node->count; i++) {
        const struct node_entry *entry = &node->entries[i];
        if (node->kind == NODE_LIST) {
            const char *name;
            schema_enter_item(load, i);
            r = schema_text(load, entry->value, &name);
            if (r == 0)
                r = read(load, name, &entry->key_place, NULL, service);
        } else {
            schema_enter(load, entry->key);
            r = read(load, entry->key, &entry->key_place, entry->value, service);
        }
        schema_leave(load);
    }
    return r;
}
