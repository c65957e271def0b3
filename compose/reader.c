/* SPDX-License-Identifier: Apache-2.0 */
#include "reader.h"

#include "anchors.h"
#include "muster/cleanup.h"
#include "show.h"

#include <string.h>
#include <yaml.h>

struct reader {
    struct compose_arena *arena;
    const char *file, *text;
    size_t text_bytes;
    yaml_parser_t parser;
    struct anchors anchors;
    struct mst_error *err;
};

static struct compose_place place_of(const struct reader *reader, const yaml_mark_t *mark)
{
    return (struct compose_place){reader->file, (uint32_t)mark->line + 1, (uint32_t)mark->column + 1};
}

#define FAIL(reader, place, ...) show_error((reader)->err, -EBADMSG, &(place), NULL, __VA_ARGS__)

static int fail_memory(const struct reader *reader)
{
    return mst_error_set(reader->err, -ENOMEM, "%s: no memory for its nodes", reader->file);
}

/* Marks count characters from 0, and only bytes of ASCII are looked for here. */
static bool is_tab_at(const struct reader *reader, const yaml_mark_t *mark)
{
    const char *at = reader->text, *end = at + reader->text_bytes;

    for (size_t line = 0; at && line < mark->line; line++) {
        at = memchr(at, '\n', (size_t)(end - at));
        at = at ? at + 1 : NULL;
    }
    while (at && at < end && *at == ' ')
        at++;
    return at && at < end && *at == '\t';
}

static int fail_yaml(const struct reader *reader)
{
    const yaml_parser_t *parser = &reader->parser;
    if (parser->error == YAML_MEMORY_ERROR)
        return fail_memory(reader);
    struct compose_place place = place_of(reader, &parser->problem_mark);
    const char *problem = parser->problem ? parser->problem : "not YAML";
    if (parser->error == YAML_READER_ERROR) /* has an offset, and no mark */
        return mst_error_set(reader->err, -EBADMSG, "%s: %s at byte %zu", reader->file, problem,
                             parser->problem_offset);
    if (parser->error == YAML_SCANNER_ERROR && is_tab_at(reader, &parser->problem_mark))
        return FAIL(reader, place, "a tab stands at the beginning of this line; YAML wants blanks there");
    if (parser->context)
        return FAIL(reader, place, "%s (%s from line %zu on)", problem, parser->context,
                    parser->context_mark.line + 1);
    return FAIL(reader, place, "%s", problem);
}

static int next_event(struct reader *reader, yaml_event_t *event)
{
    return yaml_parser_parse(&reader->parser, event) ? 0 : fail_yaml(reader);
}

static struct node *node_new(struct reader *reader, enum node_kind kind, const yaml_mark_t *mark)
{
    struct node *node = compose_arena_alloc(reader->arena, sizeof *node);
    if (node) {
        node->kind = kind;
        node->place = place_of(reader, mark);
        node->weight = 1;
        node->height = 1;
    }
    return node;
}

static int anchor_add(struct reader *reader, const yaml_char_t *name, struct node *node,
                      struct anchor **ret_anchor)
{
    *ret_anchor = NULL;
    if (!name)
        return 0;
    *ret_anchor = anchors_add(&reader->anchors, (const char *)name, node);
    return *ret_anchor ? 0 : fail_memory(reader);
}

static int read_alias(struct reader *reader, const yaml_event_t *event, struct node **ret_node)
{
    const char *name = (const char *)event->data.alias.anchor;
    struct compose_place place = place_of(reader, &event->start_mark);
    const struct anchor *found = anchors_find(&reader->anchors, name);
    if (!found)
        return FAIL(reader, place, "alias '*%s': no anchor '&%s' stands before it", name, name);
    if (!found->is_whole)
        return FAIL(reader, place, "alias '*%s' stands inside of what it names", name);
    *ret_node = found->node;
    return 0;
}

/* "!reset" and "!override" say nothing of the value. */
static bool take_merge_tag(struct node *node, const char *tag)
{
    if (strcmp(tag, "!reset") == 0)
        node->merge = NODE_RESET;
    else if (strcmp(tag, "!override") == 0)
        node->merge = NODE_OVERRIDE;
    return node->merge != NODE_ONTO;
}

/* Tags that Go's reader knows; "!!binary", "!!set" and an application's own are errors, since what they ask
 * for would not be done. */
static int apply_tag(struct reader *reader, struct node *node, const char *tag, bool is_plain)
{
#define YAML_TAG "tag:yaml.org,2002:"
    static const struct {
        const char *tag;
        enum scalar_kind kind;
    } tags[] = {{YAML_TAG "null", SCALAR_NULL},
                {YAML_TAG "bool", SCALAR_BOOL},
                {YAML_TAG "int", SCALAR_INT},
                {YAML_TAG "float", SCALAR_FLOAT}};
    if (!tag || strcmp(tag, "!") == 0 || take_merge_tag(node, tag)) {
        if (is_plain && (!tag || tag[1]))
            node->scalar = scalar_resolve(node->text);
        return 0;
    }
    if (strcmp(tag, YAML_TAG "str") == 0)
        return 0;
    for (size_t i = 0; i < MST_ARRAY_COUNT(tags); i++) {
        if (strcmp(tag, tags[i].tag) != 0)
            continue;
        node->scalar = scalar_resolve(node->text);
        if (node->scalar.kind == SCALAR_INT && tags[i].kind == SCALAR_FLOAT)
            return 0;
        if (node->scalar.kind != tags[i].kind) {
            char shown[SHOW_BYTES];
            return FAIL(reader, node->place, "%s is not what its tag '!!%s' says", show(node->text, shown),
                        tag + strlen(YAML_TAG));
        }
        return 0;
    }
    char shown[SHOW_BYTES];
    return FAIL(reader, node->place, "the tag %s is not supported", show(tag, shown));
#undef YAML_TAG
}

static int read_scalar(struct reader *reader, const yaml_event_t *event, struct node **ret_node)
{
    const char *text = (const char *)event->data.scalar.value;
    const size_t bytes = event->data.scalar.length;
    struct node *node = node_new(reader, NODE_SCALAR, &event->start_mark);
    if (!node)
        return fail_memory(reader);
    if (memchr(text, '\0', bytes))
        return FAIL(reader, node->place, "a text may not hold a NUL character");
    node->text = compose_arena_text_n(reader->arena, text, bytes);
    if (!node->text)
        return fail_memory(reader);
    struct anchor *anchor;
    int r = anchor_add(reader, event->data.scalar.anchor, node, &anchor);
    if (r < 0)
        return r;
    if (anchor)
        anchor->is_whole = true;
    *ret_node = node;
    return apply_tag(reader, node, (const char *)event->data.scalar.tag,
                     event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE);
}

static int container_add(struct reader *reader, struct node *node, const struct node_entry *entry)
{
    if (node->count >= READER_MAX_ENTRIES)
        return FAIL(reader, entry->value->place, "more than %u entries in one list or mapping",
                    READER_MAX_ENTRIES);
    node->weight += entry->value->weight;
    if (node->weight > READER_MAX_WEIGHT)
        return FAIL(reader, entry->value->place,
                    "the file grows past %u values when its aliases are written out", READER_MAX_WEIGHT);
    if (entry->value->height >= node->height)
        node->height = entry->value->height + 1;
    if (node->height > READER_MAX_DEPTH)
        return FAIL(reader, entry->value->place, "nested deeper than %d levels", READER_MAX_DEPTH);
    struct node_entry *entries =
        compose_arena_grow(reader->arena, node->entries, node->count, sizeof *node->entries);
    if (!entries)
        return fail_memory(reader);
    node->entries = entries;
    node->entries[node->count++] = *entry;
    return 0;
}

static int read_node(struct reader *reader, const yaml_event_t *event, unsigned depth,
                     struct node **ret_node);

static int read_list(struct reader *reader, struct node *node, unsigned depth)
{
    for (;;) {
        mst_cleanup(yaml_event_delete) yaml_event_t event = {0};
        int r = next_event(reader, &event);
        if (r < 0 || event.type == YAML_SEQUENCE_END_EVENT)
            return r;
        struct node_entry entry = {0};
        r = read_node(reader, &event, depth + 1, &entry.value);
        if (r < 0)
            return r;
        entry.key_place = entry.value->place;
        r = container_add(reader, node, &entry);
        if (r < 0)
            return r;
    }
}

/* A key must be a text. `1: x` or `true: x` would be another key for a reader with other rules. */
static int check_key(const struct reader *reader, const struct node *key)
{
    char shown[SHOW_BYTES];
    if (key->kind != NODE_SCALAR)
        return FAIL(reader, key->place, "a key must be a text, not a %s",
                    key->kind == NODE_LIST ? "list" : "mapping");
    if (key->merge != NODE_ONTO)
        return FAIL(reader, key->place, "the tag '!%s' stands before a value, not before a key",
                    key->merge == NODE_RESET ? "reset" : "override");
    if (key->scalar.kind != SCALAR_TEXT)
        return FAIL(reader, key->place, "the key %s is not a text: put it in quotes", show(key->text, shown));
    return 0;
}

/* An index over a map's entries, ordered by key and then by standing, so that the first of equals wins. */
static int compare_entries(const void *a, const void *b)
{
    const struct node_entry *const *left = a, *const *right = b;
    int order = strcmp((*left)->key, (*right)->key);
    return order ? order : (*left > *right) - (*left < *right);
}

/* Drop all but the first of entries with equal keys; two of the map's own (`own_count`) are an error. */
static int drop_doubles(struct reader *reader, struct node *map, size_t own_count)
{
    if (map->count < 2)
        return 0;
    mst_cleanup(mst_freep) struct node_entry **index = malloc(map->count * sizeof(struct node_entry *));
    if (!index)
        return fail_memory(reader);
    for (size_t i = 0; i < map->count; i++)
        index[i] = &map->entries[i];
    qsort(index, map->count, sizeof *index, compare_entries);
    size_t first = 0;
    for (size_t i = 1; i < map->count; i++) {
        if (strcmp(index[first]->key, index[i]->key) != 0) {
            first = i;
            continue;
        }
        if (index[i] < map->entries + own_count) {
            char shown[SHOW_BYTES];
            return FAIL(reader, index[i]->key_place, "the key %s stands here already, on line %u",
                        show(index[i]->key, shown), index[first]->key_place.line);
        }
        index[i]->value = NULL;
    }
    size_t kept = 0;
    for (size_t i = 0; i < map->count; i++)
        if (map->entries[i].value)
            map->entries[kept++] = map->entries[i];
    map->count = kept;
    return 0;
}

/* Add the entries of what "<<" names behind the map's own: a map, or a list of maps whose earlier ones win.
 */
static int merge_into(struct reader *reader, struct node *map, const struct node *source)
{
    if (source->kind == NODE_LIST) {
        for (size_t i = 0; i < source->count; i++) {
            if (source->entries[i].value->kind == NODE_LIST)
                return FAIL(reader, source->entries[i].value->place,
                            "a merge key takes mappings, not lists of lists");
            int r = merge_into(reader, map, source->entries[i].value);
            if (r < 0)
                return r;
        }
        return 0;
    }
    if (source->kind != NODE_MAP || source->merge != NODE_ONTO)
        return FAIL(reader, source->place, "a merge key ('<<') takes a mapping or a list of mappings");
    for (size_t i = 0; i < source->count; i++) {
        int r = container_add(reader, map, &source->entries[i]);
        if (r < 0)
            return r;
    }
    return 0;
}

static int read_map(struct reader *reader, struct node *map, unsigned depth)
{
    struct node *merge = NULL;
    for (;;) {
        mst_cleanup(yaml_event_delete) yaml_event_t key_event = {0};
        mst_cleanup(yaml_event_delete) yaml_event_t value_event = {0};
        struct node *key, *value;
        int r = next_event(reader, &key_event);
        if (r < 0)
            return r;
        if (key_event.type == YAML_MAPPING_END_EVENT)
            break;
        r = read_node(reader, &key_event, depth + 1, &key);
        if (r < 0)
            return r;
        r = check_key(reader, key);
        if (r < 0)
            return r;
        r = next_event(reader, &value_event);
        if (r < 0)
            return r;
        r = read_node(reader, &value_event, depth + 1, &value);
        if (r < 0)
            return r;
        bool is_plain =
            key_event.type == YAML_SCALAR_EVENT && key_event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        if (is_plain && strcmp(key->text, "<<") == 0) {
            if (merge)
                return FAIL(reader, key->place,
                            "a second '<<' in one mapping: give one a list, '<<: [*a, *b]'");
            merge = value;
            continue;
        }
        const struct node_entry entry = {key->text, key->place, value};
        r = container_add(reader, map, &entry);
        if (r < 0)
            return r;
    }
    const size_t own_count = map->count;
    int r = merge ? merge_into(reader, map, merge) : 0;
    return r < 0 ? r : drop_doubles(reader, map, own_count);
}

static int read_container(struct reader *reader, const yaml_event_t *event, unsigned depth,
                          struct node **ret_node)
{
    const bool is_map = event->type == YAML_MAPPING_START_EVENT;
    const char *tag = (const char *)(is_map ? event->data.mapping_start.tag : event->data.sequence_start.tag);
    const yaml_char_t *name = is_map ? event->data.mapping_start.anchor : event->data.sequence_start.anchor;
    struct node *node = node_new(reader, is_map ? NODE_MAP : NODE_LIST, &event->start_mark);
    if (!node)
        return fail_memory(reader);
    if (depth >= READER_MAX_DEPTH)
        return FAIL(reader, node->place, "nested deeper than %d levels", READER_MAX_DEPTH);
    if (tag && strcmp(tag, "!") != 0 && strcmp(tag, is_map ? YAML_MAP_TAG : YAML_SEQ_TAG) != 0 &&
        !take_merge_tag(node, tag)) {
        char shown[SHOW_BYTES];
        return FAIL(reader, node->place, "the tag %s is not supported", show(tag, shown));
    }
    struct anchor *anchor;
    int r = anchor_add(reader, name, node, &anchor);
    if (r == 0)
        r = is_map ? read_map(reader, node, depth) : read_list(reader, node, depth);
    if (r < 0)
        return r;
    if (anchor)
        anchor->is_whole = true;
    *ret_node = node;
    return 0;
}

static int read_node(struct reader *reader, const yaml_event_t *event, unsigned depth, struct node **ret_node)
{
    switch (event->type) {
    case YAML_ALIAS_EVENT:
        return read_alias(reader, event, ret_node);
    case YAML_SCALAR_EVENT:
        return read_scalar(reader, event, ret_node);
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        return read_container(reader, event, depth, ret_node);
    default:
        return mst_error_set(reader->err, -EBADMSG, "%s: a YAML event of type %d out of place", reader->file,
                             (int)event->type);
    }
}

static int read_stream(struct reader *reader, struct node **ret_root, bool *ret_more)
{
    for (;;) {
        mst_cleanup(yaml_event_delete) yaml_event_t event = {0};
        int r = next_event(reader, &event);
        if (r < 0)
            return r;
        if (event.type == YAML_STREAM_START_EVENT || event.type == YAML_DOCUMENT_START_EVENT)
            continue;
        if (event.type == YAML_STREAM_END_EVENT)
            return mst_error_set(reader->err, -EBADMSG, "%s: the file is empty", reader->file);
        r = read_node(reader, &event, 0, ret_root);
        if (r < 0)
            return r;
        break;
    }
    /* The end of the document must be well-formed too; what another document holds is not looked at. */
    mst_cleanup(yaml_event_delete) yaml_event_t end = {0}, next = {0};
    int r = next_event(reader, &end);
    if (r < 0)
        return r;
    *ret_more = !yaml_parser_parse(&reader->parser, &next) || next.type != YAML_STREAM_END_EVENT;
    return 0;
}

int reader_parse(struct compose_arena *arena, const char *text, size_t text_bytes, const char *file,
                 struct node **ret_root, bool *ret_more, struct mst_error *err)
{
    struct reader reader = {.arena = arena,
                            .file = file,
                            .text = text,
                            .text_bytes = text_bytes,
                            .anchors = {.arena = arena},
                            .err = err};
    struct node *root = NULL;
    bool more = false;
    if (!yaml_parser_initialize(&reader.parser))
        return fail_memory(&reader);
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text, text_bytes);
    int r = read_stream(&reader, &root, &more);
    yaml_parser_delete(&reader.parser);
    anchors_release(&reader.anchors);
    if (r < 0)
        return r;
    *ret_root = root;
    *ret_more = more;
    return 0;
}
