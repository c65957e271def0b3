/* SPDX-License-Identifier: Apache-2.0 */
#include "schema.h"

#include "muster/parse.h"
#include "quantity.h"
#include "show.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SCHEMA_PATH_BYTES   320
#define SCHEMA_MAX_FIELDS   128U
#define SCHEMA_MAX_WARNINGS 1000U

/* --- path, errors, warnings --- */

void schema_enter(struct schema_load *load, const char *key)
{
    if (load->depth < SCHEMA_MAX_PATH)
        load->path[load->depth] = (struct schema_path){.key = key};
    load->depth++;
}

void schema_enter_item(struct schema_load *load, size_t index)
{
    if (load->depth < SCHEMA_MAX_PATH)
        load->path[load->depth] = (struct schema_path){.index = index};
    load->depth++;
}

void schema_leave(struct schema_load *load)
{
    load->depth--;
}

/* "services.web.ports[0]"; what does not fit is left out, since the place says it as well. */
static void path_text(const struct schema_load *load, char text[static SCHEMA_PATH_BYTES])
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < load->depth && i < SCHEMA_MAX_PATH; i++) {
        const struct schema_path *step = &load->path[i];
        int length = step->key ? snprintf(text + used, SCHEMA_PATH_BYTES - used, "%s%.100s", used ? "." : "",
                                          step->key)
                               : snprintf(text + used, SCHEMA_PATH_BYTES - used, "[%zu]", step->index);
        if (length < 0 || (size_t)length >= SCHEMA_PATH_BYTES - used)
            break;
        used += (size_t)length;
    }
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
}

int schema_fail(struct schema_load *load, const struct compose_place *place, const char *format, ...)
{
    char text[MST_ERROR_TEXT_BYTES], path[SCHEMA_PATH_BYTES];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    path_text(load, path);
    return show_error(load->err, -EBADMSG, place, path, "%s", text);
}

int schema_fail_memory(struct schema_load *load)
{
    return mst_error_set(load->err, -ENOMEM, "no memory for the stack file's content");
}

int schema_fail_type(struct schema_load *load, const struct node *node, const char *what)
{
    char shown[SHOW_BYTES];
    if (node->kind != NODE_SCALAR)
        return schema_fail(load, &node->place, "a %s is not %s", node->kind == NODE_LIST ? "list" : "mapping",
                           what);
    if (node->scalar.kind == SCALAR_NULL)
        return schema_fail(load, &node->place, "nothing stands here: it takes %s", what);
    return schema_fail(load, &node->place, "%s is not %s", show(node->text, shown), what);
}

int schema_warn(struct schema_load *load, const struct compose_place *place, const char *format, ...)
{
    struct mst_error warning;
    char text[MST_ERROR_TEXT_BYTES], path[SCHEMA_PATH_BYTES];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    path_text(load, path);
    (void)show_error(&warning, -EBADMSG, place, path, "%s", text);
    if (load->project->warnings.count >= SCHEMA_MAX_WARNINGS)
        return schema_fail(load, place, "more than %u warnings: this is no stack file", SCHEMA_MAX_WARNINGS);
    const char *copy = compose_arena_text(load->arena, warning.text);
    return copy ? schema_strings_add(load, &load->project->warnings, copy) : schema_fail_memory(load);
}

int schema_warn_unset(struct schema_load *load, const struct compose_place *place, const char *name)
{
    return schema_warn(load, place, "the variable '%s' is not set: nothing stands in its place", name);
}

/* --- mappings by table --- */

/* What docker refuses is refused; what it drops in silence is a warning. */
static int meet_unknown(struct schema_load *load, const struct node_entry *entry,
                        const struct schema_field *fields, size_t count, bool is_open)
{
    const char *names[SCHEMA_MAX_FIELDS];
    char shown[SHOW_BYTES];
    size_t known = 0;
    for (size_t i = 0; i < count && known < SCHEMA_MAX_FIELDS; i++)
        if (fields[i].set != schema_set_refused)
            names[known++] = fields[i].key;
    const char *near = mst_nearest(entry->key, names, known);
    return (is_open ? schema_warn : schema_fail)(load, &entry->key_place, "the key %s is not known%s%s%s",
                                                 show(entry->key, shown), near ? ": did you mean '" : "",
                                                 near ? near : "", near ? "'?" : "");
}

/* Other "x-muster-..." keys than those in the table are most likely meant to be one of them. */
static int check_extension(struct schema_load *load, const struct node_entry *entry)
{
    char shown[SHOW_BYTES];
    if (strncmp(entry->key, "x-muster-", strlen("x-muster-")) != 0)
        return 0;
    return schema_warn(load, &entry->key_place, "the extension key %s means nothing here",
                       show(entry->key, shown));
}

static int read_map(struct schema_load *load, const struct node *node, const struct schema_field *fields,
                    size_t count, bool is_open, bool extensions, void *target)
{
    int r = schema_expect(load, node, NODE_MAP);
    for (size_t i = 0; r == 0 && i < node->count; i++) {
        const struct node_entry *entry = &node->entries[i];
        const struct schema_field *field = NULL;
        for (size_t f = 0; !field && f < count; f++)
            if (strcmp(fields[f].key, entry->key) == 0)
                field = &fields[f];
        if (!field) {
            bool is_extension = extensions && strncmp(entry->key, "x-", 2) == 0;
            r = is_extension ? check_extension(load, entry)
                             : meet_unknown(load, entry, fields, count, is_open);
            continue;
        }
        const struct node *value = entry->value;
        if (field->may_be_null && value->kind == NODE_SCALAR && value->scalar.kind == SCALAR_NULL)
            continue;
        schema_enter(load, entry->key);
        if (field->set == schema_set_ignored || field->set == schema_set_refused) {
            /* It is the key that is out of place, not the value. */
            struct node at_key = *value;
            at_key.place = entry->key_place;
            r = field->set(load, &at_key, NULL, field);
        } else {
            r = field->set(load, value, (char *)target + field->offset, field);
        }
        schema_leave(load);
    }
    return r;
}

int schema_map(struct schema_load *load, const struct node *node, const struct schema_field *fields,
               size_t count, bool extensions, void *target)
{
    return read_map(load, node, fields, count, false, extensions, target);
}

int schema_map_open(struct schema_load *load, const struct node *node, const struct schema_field *fields,
                    size_t count, void *target)
{
    return read_map(load, node, fields, count, true, true, target);
}

bool schema_has_key(const struct node *map, const char *key)
{
    for (size_t i = 0; map->kind == NODE_MAP && i < map->count; i++)
        if (strcmp(map->entries[i].key, key) == 0)
            return true;
    return false;
}

int schema_set_ignored(struct schema_load *load, const struct node *node, void *member,
                       const struct schema_field *f)
{
    (void)member;
    return schema_warn(load, &node->place, "ignored: %s", f->advice);
}

int schema_set_refused(struct schema_load *load, const struct node *node, void *member,
                       const struct schema_field *f)
{
    (void)member;
    return schema_fail(load, &node->place, "not supported in stacks: %s", f->advice);
}

int schema_expect(struct schema_load *load, const struct node *node, enum node_kind kind)
{
    static const char *const names[] = {
        [NODE_SCALAR] = "a single value", [NODE_LIST] = "a list", [NODE_MAP] = "a mapping"};
    return node->kind == kind ? 0 : schema_fail_type(load, node, names[kind]);
}

int schema_each(struct schema_load *load, const struct node *node,
                int (*read)(struct schema_load *load, const struct node_entry *entry, const void *context),
                const void *context)
{
    int r = schema_expect(load, node, NODE_MAP);
    for (size_t i = 0; r == 0 && i < node->count; i++) {
        schema_enter(load, node->entries[i].key);
        r = read(load, &node->entries[i], context);
        schema_leave(load);
    }
    return r;
}

int schema_append(struct schema_load *load, void *list, size_t *count, const void *item, size_t item_bytes)
{
    void *items;
    memcpy(&items, list, sizeof items); /* of any type */
    items = compose_arena_grow(load->arena, items, *count, item_bytes);
    if (!items)
        return schema_fail_memory(load);
    memcpy((char *)items + *count * item_bytes, item, item_bytes);
    memcpy(list, &items, sizeof items);
    (*count)++;
    return 0;
}

/* --- single values --- */

int schema_text(struct schema_load *load, const struct node *node, const char **ret_text)
{
    char shown[SHOW_BYTES];
    if (node->kind != NODE_SCALAR || node->scalar.kind == SCALAR_NULL)
        return schema_fail_type(load, node, "a text");
    if (node->scalar.kind != SCALAR_TEXT)
        return schema_fail(load, &node->place, "%s is a %s here, not a text: put it in quotes",
                           show(node->text, shown),
                           node->scalar.kind == SCALAR_BOOL ? "truth value" : "number");
    *ret_text = node->text;
    return 0;
}

int schema_loose_text(struct schema_load *load, const struct node *node, bool may_be_null,
                      const char **ret_text)
{
    char number[SCALAR_TEXT_BYTES];
    if (node->kind != NODE_SCALAR)
        return schema_fail_type(load, node, "a text, a number or nothing");
    switch (node->scalar.kind) {
    case SCALAR_NULL:
        *ret_text = may_be_null ? NULL : "";
        return 0;
    case SCALAR_INT:
    case SCALAR_FLOAT:
        scalar_print(&node->scalar, number);
        *ret_text = compose_arena_text(load->arena, number);
        return *ret_text ? 0 : schema_fail_memory(load);
    default:
        return schema_text(load, node, ret_text);
    }
}

/* What docker takes for true and false once a variable was replaced. */
static bool parse_substituted_bool(const char *text, bool *ret_value)
{
    static const char *const trues[] = {"true", "y", "yes", "on"}, *const falses[] = {"false", "n", "no",
                                                                                      "off"};
    for (size_t i = 0; i < MST_ARRAY_COUNT(trues); i++) {
        if (strcasecmp(text, trues[i]) == 0 || strcasecmp(text, falses[i]) == 0) {
            *ret_value = strcasecmp(text, trues[i]) == 0;
            return true;
        }
    }
    return false;
}

int schema_bool(struct schema_load *load, const struct node *node, bool *ret_value)
{
    if (node->kind == NODE_SCALAR && node->scalar.kind == SCALAR_BOOL) {
        *ret_value = node->scalar.boolean;
        return 0;
    }
    if (node->kind == NODE_SCALAR && node->scalar.kind == SCALAR_TEXT) {
        /* An unquoted yes is a text for docker, so that it must not silently become true here. */
        const bool is_word = strcmp(node->text, "true") == 0 || strcmp(node->text, "false") == 0;
        if ((is_word || node->substituted) && parse_substituted_bool(node->text, ret_value))
            return 0;
    }
    return schema_fail_type(load, node, "true or false");
}

/* The node's whole number, whatever its bounds; false when it is none. */
static bool whole_number(const struct node *node, int64_t *ret_value)
{
    if (node->kind != NODE_SCALAR)
        return false;
    struct scalar scalar = node->scalar;
    if (scalar.kind == SCALAR_TEXT) {
        /* Decimal digits only: in a text, 010 is ten for docker. */
        const char *digits = node->text + (*node->text == '-' || *node->text == '+');
        while (*digits == '0' && digits[1])
            digits++;
        scalar = scalar_resolve(digits);
        scalar.negative = *node->text == '-';
        if (strspn(digits, "0123456789") != strlen(digits))
            return false;
    }
    if (scalar.kind == SCALAR_FLOAT && scalar.real > -0x1p53 && scalar.real < 0x1p53 &&
        (double)(int64_t)scalar.real == scalar.real) {
        *ret_value = (int64_t)scalar.real;
        return true;
    }
    if (scalar.kind != SCALAR_INT || scalar.magnitude > INT64_MAX)
        return false;
    *ret_value = scalar.negative ? -(int64_t)scalar.magnitude : (int64_t)scalar.magnitude;
    return true;
}

int schema_i64(struct schema_load *load, const struct node *node, int64_t min, int64_t max,
               int64_t *ret_value)
{
    char shown[SHOW_BYTES];
    int64_t value;
    if (!whole_number(node, &value))
        return schema_fail_type(load, node, "a whole number");
    if (value < min || value > max) {
        if (max == INT64_MAX)
            return schema_fail(load, &node->place, "%s is below %" PRId64, show(node->text, shown), min);
        return schema_fail(load, &node->place, "%s is not between %" PRId64 " and %" PRId64,
                           show(node->text, shown), min, max);
    }
    *ret_value = value;
    return 0;
}

/* --- setters of single values --- */

int schema_set_text(struct schema_load *load, const struct node *node, void *member,
                    const struct schema_field *f)
{
    (void)f;
    return schema_text(load, node, (const char **)member);
}

int schema_set_choice(struct schema_load *load, const struct node *node, void *member,
                      const struct schema_field *f)
{
    const char *text, *names[16];
    char shown[SHOW_BYTES];
    int r = schema_text(load, node, &text);
    if (r < 0)
        return r;
    size_t count = 0;
    struct mst_buf list = MST_BUF_INIT(256);
    for (; f->choices[count] && count < MST_ARRAY_COUNT(names); count++) {
        if (strcmp(f->choices[count], text) == 0) {
            mst_buf_release(&list);
            *(const char **)member = f->choices[count];
            return 0;
        }
        names[count] = f->choices[count];
        (void)mst_buf_printf(&list, "%s%s", count ? ", " : "", names[count]); /* only for the text below */
    }
    r = schema_fail(load, &node->place, "%s is none of: %s", show(text, shown), mst_buf_text(&list));
    mst_buf_release(&list);
    return r;
}

int schema_choose(struct schema_load *load, const struct node *node, const struct schema_field *f,
                  const char *const *words, size_t *ret_index)
{
    const struct schema_field choice = {.key = f->key, .choices = words};
    const char *text = NULL;
    int r = schema_set_choice(load, node, &text, &choice);
    for (size_t i = 0; r == 0 && words[i]; i++)
        if (text == words[i])
            *ret_index = i;
    return r;
}

int schema_set_bool(struct schema_load *load, const struct node *node, void *member,
                    const struct schema_field *f)
{
    (void)f;
    return schema_bool(load, node, member);
}

int schema_set_maybe_bool(struct schema_load *load, const struct node *node, void *member,
                          const struct schema_field *f)
{
    (void)f;
    struct compose_maybe_bool *maybe = member;
    int r = schema_bool(load, node, &maybe->value);
    maybe->is_set = r == 0 || maybe->is_set;
    return r;
}

int schema_set_u64(struct schema_load *load, const struct node *node, void *member,
                   const struct schema_field *f)
{
    (void)f;
    int64_t value;
    int r = schema_i64(load, node, 0, INT64_MAX, &value);
    if (r == 0)
        *(uint64_t *)member = (uint64_t)value;
    return r;
}

int schema_set_maybe_u64(struct schema_load *load, const struct node *node, void *member,
                         const struct schema_field *f)
{
    struct compose_maybe_u64 *maybe = member;
    int r = schema_set_u64(load, node, &maybe->value, f);
    maybe->is_set = r == 0 || maybe->is_set;
    return r;
}

int schema_set_maybe_i64(struct schema_load *load, const struct node *node, void *member,
                         const struct schema_field *f)
{
    (void)f;
    struct compose_maybe_i64 *maybe = member;
    int r = schema_i64(load, node, INT64_MIN, INT64_MAX, &maybe->value);
    maybe->is_set = r == 0 || maybe->is_set;
    return r;
}

int schema_set_duration(struct schema_load *load, const struct node *node, void *member,
                        const struct schema_field *f)
{
    (void)f;
    struct mst_error why = MST_ERROR_INIT;
    if (node->kind != NODE_SCALAR || node->scalar.kind == SCALAR_NULL || node->scalar.kind == SCALAR_BOOL ||
        mst_parse_duration_ns(node->text, member, &why) < 0)
        return schema_fail_type(load, node, "a duration such as 90s, 1m30s or 250ms");
    return 0;
}

int schema_set_maybe_duration(struct schema_load *load, const struct node *node, void *member,
                              const struct schema_field *f)
{
    struct compose_maybe_u64 *maybe = member;
    int r = schema_set_duration(load, node, &maybe->value, f);
    maybe->is_set = r == 0 || maybe->is_set;
    return r;
}

/* int64_t; a number is bytes (the Compose specification), docker wants a text. */
int schema_set_bytes(struct schema_load *load, const struct node *node, void *member,
                     const struct schema_field *f)
{
    (void)f;
    struct mst_error why = MST_ERROR_INIT;
    int64_t number;
    if (node->kind == NODE_SCALAR && node->scalar.kind == SCALAR_INT) {
        int r = schema_i64(load, node, 0, INT64_MAX, &number);
        if (r == 0)
            *(int64_t *)member = number;
        return r;
    }
    if (node->kind != NODE_SCALAR || node->scalar.kind != SCALAR_TEXT)
        return schema_fail_type(load, node, "a size such as 512M, 1.5g or 4096");
    if (quantity_parse_bytes(node->text, member, &why) < 0)
        return schema_fail(load, &node->place, "%s", why.text);
    return 0;
}
