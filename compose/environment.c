/* SPDX-License-Identifier: Apache-2.0 */
/* services.X.environment, env_file and label_file. */
#include "interpolate.h"
#include "muster/file.h"
#include "schema.h"
#include "show.h"

#include <string.h>

#define FILES_MAX 64U

int schema_set_environment(struct schema_load *load, const struct node *node, void *member,
                           const struct schema_field *f)
{
    (void)f;
    (void)member;
    return schema_pairs(load, node, true, &load->drafts[load->service_index].environment);
}

/* --- env_file --- */

struct env_file {
    const char *path, *format;
    struct compose_maybe_bool required;
};

static int add_env_file(struct schema_load *load, const struct node *node)
{
    static const char *const formats[] = {"raw", NULL};
    static const struct schema_field fields[] = {
        SCHEMA_FIELD("path", schema_set_text, offsetof(struct env_file, path)),
        SCHEMA_FIELD("required", schema_set_maybe_bool, offsetof(struct env_file, required)),
        SCHEMA_FIELD("format", schema_set_choice, offsetof(struct env_file, format), .choices = formats),
    };
    struct schema_draft *draft = &load->drafts[load->service_index];
    struct env_file file = {0};
    int r = node->kind == NODE_MAP ? schema_map(load, node, fields, MST_ARRAY_COUNT(fields), true, &file)
                                   : schema_text(load, node, &file.path);
    if (r < 0)
        return r;
    if (!file.path || !*file.path)
        return schema_fail(load, &node->place, "path is missing");
    if (draft->env_files.count >= FILES_MAX)
        return schema_fail(load, &node->place, "more than %u files", FILES_MAX);
    const char *path;
    r = schema_path_resolve(load, node, file.path, &path);
    if (r < 0)
        return r;
    bool *required =
        compose_arena_grow(load->arena, draft->env_file_required, draft->env_files.count, sizeof(bool));
    if (!required)
        return schema_fail_memory(load);
    draft->env_file_required = required;
    required[draft->env_files.count] = !file.required.is_set || file.required.value;
    draft->env_file_place = node->place;
    return schema_strings_add(load, &draft->env_files, path);
}

int schema_set_env_file(struct schema_load *load, const struct node *node, void *member,
                        const struct schema_field *f)
{
    (void)f;
    (void)member;
    if (node->kind != NODE_LIST)
        return add_env_file(load, node);
    int r = 0;
    for (size_t i = 0; r == 0 && i < node->count; i++) {
        schema_enter_item(load, i);
        r = add_env_file(load, node->entries[i].value);
        schema_leave(load);
    }
    return r;
}

int schema_set_label_file(struct schema_load *load, const struct node *node, void *member,
                          const struct schema_field *f)
{
    (void)member;
    struct schema_draft *draft = &load->drafts[load->service_index];
    struct compose_strings files = {0};
    int r = schema_set_string_or_strings(load, node, &files, f);
    draft->label_file_place = node->place;
    for (size_t i = 0; r == 0 && i < files.count; i++) {
        const char *path;
        if (!*files.items[i])
            return schema_fail(load, &node->place, "a path is missing");
        if (draft->label_files.count >= FILES_MAX)
            return schema_fail(load, &node->place, "more than %u files", FILES_MAX);
        r = schema_path_resolve(load, node, files.items[i], &path);
        if (r == 0)
            r = schema_strings_add(load, &draft->label_files, path);
    }
    return r;
}

/* --- what files say --- */

static const char *variable(const struct schema_load *load, const char *name)
{
    return interpolate_lookup(&load->source, name, strlen(name));
}

/* docker gives the value of the caller's environment to a name without a value, and to one with an empty
 * value. */
static int put_variable(struct schema_load *load, struct compose_pairs *all, const char *name,
                        const char *value, const struct compose_place *place)
{
    const char *outer = !value || !*value ? variable(load, name) : NULL;
    return schema_pairs_put(load, all, name, outer ? outer : value, place);
}

/* What a file's pairs are. */
struct file_pairs {
    struct compose_pairs *all;
    bool are_labels; /* these take nothing from the caller's environment */
    const char *what;
};

static int put_pair(struct schema_load *load, const struct file_pairs *pairs, const char *name,
                    const char *value, const struct compose_place *place)
{
    if (pairs->are_labels)
        return schema_pairs_put(load, pairs->all, name, value ? value : "", place);
    if (value)
        return put_variable(load, pairs->all, name, value, place);
    value = variable(load, name);
    return value ? schema_pairs_put(load, pairs->all, name, value, place) : 0;
}

/* One line: NAME=VALUE or NAME; no quotes, no variables, '#' only at the start. */
static int read_line(struct schema_load *load, const struct file_pairs *pairs, const char *line,
                     size_t length, const struct compose_place *place)
{
    while (length > 0 && (*line == ' ' || *line == '\t'))
        line++, length--;
    if (length > 0 && line[length - 1] == '\r')
        length--;
    if (length == 0 || *line == '#')
        return 0;
    if (memchr(line, '\0', length))
        return schema_fail(load, place, "a NUL character");
    const char *equals = memchr(line, '=', length);
    const size_t name_bytes = equals ? (size_t)(equals - line) : length;
    const char *name = compose_arena_text_n(load->arena, line, name_bytes);
    if (!name)
        return schema_fail_memory(load);
    if (name_bytes == 0)
        return schema_fail(load, place, "a name must stand before the '='");
    if (strpbrk(name, " \t")) {
        /* Not shown: a line that is not NAME=VALUE may be anything, a key for instance. */
        return schema_fail(load, place, "the %s's name has a blank in it", pairs->what);
    }
    if (!equals)
        return put_pair(load, pairs, name, NULL, place);
    const char *value = compose_arena_text_n(load->arena, equals + 1, length - name_bytes - 1);
    return value ? put_pair(load, pairs, name, value, place) : schema_fail_memory(load);
}

static int read_file(struct schema_load *load, const struct file_pairs *pairs, const char *path,
                     const struct compose_place *named_at, bool required)
{
    mst_cleanup(mst_buf_release) struct mst_buf content = MST_BUF_INIT(COMPOSE_FILE_MAX_BYTES);
    struct mst_error why = MST_ERROR_INIT;
    int r = mst_file_read(path, &content, &why);
    if (r == -ENOENT && !required)
        return 0;
    if (r < 0) {
        (void)schema_fail(load, named_at, "%s", why.text);
        return r == -ENOMEM ? r : -EBADMSG;
    }
    const char *text = mst_buf_text(&content), *end = text + content.count;
    if (content.count >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3;
    const char *file = compose_arena_text(load->arena, path);
    if (!file)
        return schema_fail_memory(load);
    struct compose_place place = {file, 1, 1};
    for (; r == 0 && text < end; place.line++) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const char *line_end = newline ? newline : end;
        r = read_line(load, pairs, text, (size_t)(line_end - text), &place);
        text = newline ? newline + 1 : end;
    }
    return r;
}

static int compare_strings(const void *a, const void *b)
{
    const char *const *left = a, *const *right = b;
    return strcmp(*left, *right);
}

int schema_finish_environment(struct schema_load *load, struct compose_service *service,
                              const struct schema_draft *draft)
{
    struct compose_pairs all = {0};
    const struct file_pairs pairs = {.all = &all, .what = "variable"};
    int r = 0;
    for (size_t i = 0; r == 0 && i < draft->env_files.count; i++)
        r = read_file(load, &pairs, draft->env_files.items[i], &draft->env_file_place,
                      draft->env_file_required[i]);
    for (size_t i = 0; r == 0 && i < draft->environment.count; i++)
        r = put_variable(load, &all, draft->environment.items[i].key, draft->environment.items[i].value,
                         &service->place);
    service->environment = (struct compose_strings){0};
    for (size_t i = 0; r == 0 && i < all.count; i++) {
        const struct compose_pair *pair = &all.items[i];
        const char *text =
            pair->value ? compose_arena_printf(load->arena, "%s=%s", pair->key, pair->value) : pair->key;
        r = text ? schema_strings_add(load, &service->environment, text) : schema_fail_memory(load);
    }
    /* By the whole text, as docker does: "A-B=" comes before "A=". */
    if (r == 0 && service->environment.count > 1)
        qsort((void *)service->environment.items, service->environment.count,
              sizeof *service->environment.items, compare_strings);
    return r;
}

int schema_finish_labels(struct schema_load *load, struct compose_service *service,
                         const struct schema_draft *draft)
{
    struct compose_pairs all = {0};
    const struct file_pairs pairs = {.all = &all, .are_labels = true, .what = "label"};
    int r = 0;
    if (draft->label_files.count == 0)
        return 0;
    for (size_t i = 0; r == 0 && i < draft->label_files.count; i++)
        r = read_file(load, &pairs, draft->label_files.items[i], &draft->label_file_place, true);
    for (size_t i = 0; r == 0 && i < service->labels.count; i++)
        r = schema_pairs_put(load, &all, service->labels.items[i].key, service->labels.items[i].value,
                             &service->place);
    service->labels = all;
    return r;
}
