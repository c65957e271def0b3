/* SPDX-License-Identifier: Apache-2.0 */
#include "dotenv.h"
#include "finish.h"
#include "interpolate.h"
#include "muster/file.h"
#include "muster/parse.h"
#include "override.h"
#include "reader.h"
#include "show.h"

#include <string.h>

#define PROJECT_FILES_MAX  64U
#define VERSION_LAST_MINOR 13U /* docker's newest schema is 3.13 */

/* --- variables in the tree --- */

struct unset_context {
    struct schema_load *load;
    const struct node *node;
};

static int warn_unset(void *context, const char *name)
{
    const struct unset_context *unset = context;
    return schema_warn_unset(unset->load, &unset->node->place, name);
}

static int interpolate_scalar(struct schema_load *load, struct node *node)
{
    struct mst_error why = MST_ERROR_INIT;
    struct unset_context context = {load, node};
    const char *text;
    int r = interpolate_text(load->arena, node->text, &load->source, warn_unset, &context, &text, &why);
    if (r == -ENOMEM)
        return schema_fail_memory(load);
    if (r < 0 && !*why.text)
        return r; /* of the warning */
    if (r < 0)
        return schema_fail(load, &node->place, "%s", why.text);
    node->substituted = text != node->text;
    node->text = text;
    return 0;
}

/* A node that several aliases share is done once: what a variable becomes does not depend on where it stands.
 */
static int interpolate_tree(struct schema_load *load, struct node *node)
{
    if (node->interpolated)
        return 0;
    node->interpolated = true;
    if (node->kind == NODE_SCALAR)
        return interpolate_scalar(load, node);
    int r = 0;
    for (size_t i = 0; r == 0 && i < node->count; i++) {
        const struct node_entry *entry = &node->entries[i];
        if (entry->key)
            schema_enter(load, entry->key);
        else
            schema_enter_item(load, i);
        /* What stands under x-... at the top is only looked at where something refers to it. */
        if (load->depth > 1 || strncmp(entry->key, "x-", 2) != 0)
            r = interpolate_tree(load, entry->value);
        schema_leave(load);
    }
    return r;
}

/* --- one file --- */

static int set_version(struct schema_load *load, const struct node *node, void *member,
                       const struct schema_field *f)
{
    (void)member;
    (void)f;
    const char *text;
    char shown[SHOW_BYTES];
    int r = schema_text(load, node, &text);
    if (r < 0)
        return r;
    uint32_t minor = VERSION_LAST_MINOR;
    const bool is_3 =
        text[0] == '3' &&
        (!text[1] || (text[1] == '.' && mst_parse_u32(text + 2, 0, VERSION_LAST_MINOR, &minor, NULL) == 0));
    if (!is_3)
        return schema_fail(load, &node->place,
                           "%s is not a format that stacks take: leave it out, or write \"3.%u\"",
                           show(text, shown), VERSION_LAST_MINOR);
    const char *earlier = load->version;
    load->version = text;
    if (!earlier || strcmp(earlier, text) == 0)
        return 0;
    return schema_warn(load, &node->place, "docker refuses files of different versions: another has '%s'",
                       earlier);
}

static const struct schema_field top_fields[] = {
    SCHEMA_FIELD("version", set_version, 0),
    SCHEMA_FIELD("name", schema_set_text, offsetof(struct compose_project, name)),
    SCHEMA_FIELD("services", schema_set_services, 0, .may_be_null = true),
    SCHEMA_FIELD("networks", schema_set_networks, 0, .may_be_null = true),
    SCHEMA_FIELD("volumes", schema_set_volumes, 0, .may_be_null = true),
    SCHEMA_FIELD("secrets", schema_set_secrets, 0, .may_be_null = true),
    SCHEMA_FIELD("configs", schema_set_configs, 0, .may_be_null = true),
    SCHEMA_FIELD("include", schema_set_refused, 0, .advice = "give each file with -c"),
    SCHEMA_FIELD("models", schema_set_ignored, 0, .advice = "swarm does not do it"),
};

/* `file` is kept. */
static int parse_text(struct schema_load *load, const char *text, size_t text_bytes, const char *file,
                      struct node **ret_root)
{
    bool more;
    int r = reader_parse(load->arena, text, text_bytes, file, ret_root, &more, load->err);
    if (r < 0)
        return r;
    const struct compose_place top = {file, 1, 1};
    if (more)
        r = schema_warn(load, &top, "only the first document of the file is read");
    return r < 0 ? r : schema_expect(load, *ret_root, NODE_MAP);
}

/* The files' trees, one onto the other. */
static int apply_trees(struct schema_load *load, struct node **roots, size_t count)
{
    int r = override_apply(load, roots, count);
    for (size_t i = 0; r == 0 && i < count; i++) {
        r = interpolate_tree(load, roots[i]);
        if (r == 0)
            r = schema_map(load, roots[i], top_fields, MST_ARRAY_COUNT(top_fields), true, load->project);
    }
    return r;
}

static int read_stdin(struct mst_buf *content, struct mst_error *err)
{
    char piece[4096];
    for (;;) {
        ssize_t got = read(STDIN_FILENO, piece, sizeof piece);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return mst_error_errno(err, -errno, "read the stack file from stdin");
        if (got == 0)
            return 0;
        int r = mst_buf_append(content, piece, (size_t)got);
        if (r < 0)
            return mst_error_errno(err, r, "read the stack file from stdin");
    }
}

static int parse_file(struct schema_load *load, const char *path, struct node **ret_root)
{
    mst_cleanup(mst_buf_release) struct mst_buf content = MST_BUF_INIT(COMPOSE_FILE_MAX_BYTES);
    const bool is_stdin = strcmp(path, "-") == 0;
    int r = is_stdin ? read_stdin(&content, load->err) : mst_file_read(path, &content, load->err);
    if (r < 0)
        return r;
    const char *file = compose_arena_text(load->arena, is_stdin ? "stdin" : path);
    if (!file)
        return schema_fail_memory(load);
    return parse_text(load, mst_buf_text(&content), content.count, file, ret_root);
}

/* --- a project --- */

static int project_new(const struct compose_options *options, struct schema_load *load)
{
    int r = options->stack ? compose_stack_name_check(options->stack, load->err) : 0;
    if (r < 0)
        return r;
    struct compose_arena *arena = compose_arena_new();
    struct compose_project *project = arena ? compose_arena_alloc(arena, sizeof *project) : NULL;
    if (!project) {
        compose_arena_free(arena);
        return schema_fail_memory(load);
    }
    project->arena = arena;
    load->project = project;
    load->arena = arena;
    load->options = options;
    load->source.options = options;
    if (options->stack)
        project->stack = compose_arena_text(arena, options->stack);
    return !options->stack || project->stack ? 0 : schema_fail_memory(load);
}

/* The absolute folder that relative paths start from. */
static int set_folder(struct schema_load *load, const char *folder)
{
    mst_cleanup(mst_freep) char *absolute = realpath(folder, NULL);
    if (!absolute)
        return mst_error_errno(load->err, -errno, "find the folder '%s'", folder);
    load->folder = compose_arena_text(load->arena, absolute);
    return load->folder ? 0 : schema_fail_memory(load);
}

static int set_folder_of_file(struct schema_load *load, const char *path)
{
    const char *slash = strcmp(path, "-") == 0 ? NULL : strrchr(path, '/');
    if (!slash)
        return set_folder(load, ".");
    mst_cleanup(mst_freep) char *folder = strndup(path, slash == path ? 1 : (size_t)(slash - path));
    return folder ? set_folder(load, folder) : schema_fail_memory(load);
}

static int finish(struct schema_load *load)
{
    int r = finish_project(load);
    if (r < 0)
        return r;
    if (load->project->service_count == 0)
        r = schema_warn(load, &(struct compose_place){0}, "no services: there is nothing to deploy");
    const struct compose_strings *warnings = &load->project->warnings;
    if (r == 0 && load->options->strict && warnings->count > 0)
        return mst_error_set(load->err, -EBADMSG, "%s", warnings->items[0]);
    return r;
}

int compose_project_load(const struct compose_options *options, struct compose_project **ret_project,
                         struct mst_error *err)
{
    struct schema_load load = {.err = err};
    struct node *roots[PROJECT_FILES_MAX];
    if (options->file_count == 0)
        return mst_error_set(err, -EINVAL, "no stack file is given");
    if (options->file_count > PROJECT_FILES_MAX)
        return mst_error_set(err, -EINVAL, "more than %u stack files", PROJECT_FILES_MAX);
    int r = project_new(options, &load);
    if (r == 0)
        r = set_folder_of_file(&load, options->files[0]);
    if (r == 0)
        r = dotenv_read(&load);
    for (size_t i = 0; r == 0 && i < options->file_count; i++)
        r = parse_file(&load, options->files[i], &roots[i]);
    if (r == 0)
        r = apply_trees(&load, roots, options->file_count);
    if (r == 0)
        r = finish(&load);
    if (r < 0) {
        compose_project_free(load.project);
        return r;
    }
    *ret_project = load.project;
    return 0;
}

int compose_project_parse(const char *text, size_t text_bytes, const char *file, const char *folder,
                          const struct compose_options *options, struct compose_project **ret_project,
                          struct mst_error *err)
{
    struct schema_load load = {.err = err};
    struct node *root;
    if (text_bytes > COMPOSE_FILE_MAX_BYTES)
        return mst_error_set(err, -EFBIG, "%s: more than %u bytes", file, COMPOSE_FILE_MAX_BYTES);
    int r = project_new(options, &load);
    if (r == 0)
        r = set_folder(&load, folder);
    const char *name = r == 0 ? compose_arena_text(load.arena, file) : NULL;
    if (r == 0)
        r = name ? parse_text(&load, text, text_bytes, name, &root) : schema_fail_memory(&load);
    if (r == 0)
        r = apply_trees(&load, &root, 1);
    if (r == 0)
        r = finish(&load);
    if (r < 0) {
        compose_project_free(load.project);
        return r;
    }
    *ret_project = load.project;
    return 0;
}

void compose_project_free(struct compose_project *project)
{
    if (project)
        compose_arena_free(project->arena); /* the project lies in it as well */
}

void compose_project_freep(struct compose_project **project)
{
    compose_project_free(*project);
    *project = NULL;
}

const char *compose_pairs_find(const struct compose_pairs *pairs, const char *key)
{
    for (size_t i = 0; i < pairs->count; i++)
        if (strcmp(pairs->items[i].key, key) == 0)
            return pairs->items[i].value;
    return NULL;
}
