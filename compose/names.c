/* SPDX-License-Identifier: Apache-2.0 */
/* Names and paths: what swarm takes, what is external, where a relative path starts. */
#include "interpolate.h"
#include "schema.h"
#include "show.h"

#include <ctype.h>
#include <string.h>

#define SWARM_NAME_MAX_BYTES 63U /* a DNS label */
#define PATH_PARTS_MAX       256U

bool schema_is_swarm_name(const char *name)
{
    const size_t length = strlen(name);
    if (length == 0 || length > SWARM_NAME_MAX_BYTES)
        return false;
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)name[i]) &&
            ((name[i] != '-' && name[i] != '_') || i == 0 || i + 1 == length))
            return false;
    return true;
}

int compose_stack_name_check(const char *stack, struct mst_error *err)
{
    char shown[SHOW_BYTES];
    if (schema_is_swarm_name(stack))
        return 0;
    return mst_error_set(
        err, -EINVAL, "%s is not a stack's name: letters and digits, inside also - and _, at most %u in all",
        show(stack, shown), SWARM_NAME_MAX_BYTES);
}

int schema_set_external(struct schema_load *load, const struct node *node, void *member,
                        const struct schema_field *f)
{
    (void)f;
    static const struct schema_field fields[] = {
        SCHEMA_FIELD("name", schema_set_text, offsetof(struct schema_external, name)),
    };
    struct schema_external *external = member;
    external->place = node->place;
    if (node->kind != NODE_MAP)
        return schema_bool(load, node, &external->is_set);
    external->is_set = true;
    return schema_map(load, node, fields, MST_ARRAY_COUNT(fields), true, external);
}

int schema_settle_name(struct schema_load *load, const struct schema_external *external, const char *key,
                       const char **name, bool *is_external)
{
    if (external->name && *name && strcmp(external->name, *name) != 0)
        return schema_fail(load, &external->place, "external.name and name can't stand together");
    if (external->is_set)
        *is_external = true;
    if (external->name)
        *name = external->name;
    if (*name && !**name)
        *name = NULL;
    if (*is_external && !*name)
        *name = key;
    return 0;
}

/* Take "." , ".." and double slashes out of an absolute path, in place, without looking at the disk. */
static bool clean_path(char *path)
{
    char *starts[PATH_PARTS_MAX], *out = path, *next = path;
    size_t count = 0;
    for (;;) {
        while (*next == '/')
            next++;
        if (!*next)
            break;
        const size_t length = strcspn(next, "/");
        char *part = next;
        next += length;
        if (length == 1 && part[0] == '.')
            continue;
        if (length == 2 && part[0] == '.' && part[1] == '.') {
            if (count > 0)
                out = starts[--count];
            continue;
        }
        if (count == PATH_PARTS_MAX)
            return false;
        starts[count++] = out;
        *out++ = '/';
        memmove(out, part, length);
        out += length;
    }
    if (out == path)
        *out++ = '/';
    *out = '\0';
    return true;
}

int schema_path_resolve(struct schema_load *load, const struct node *node, const char *path,
                        const char **ret_path)
{
    const char *folder = load->folder;
    char shown[SHOW_BYTES];
    if (*path == '/') { /* as it stands, as docker leaves it */
        *ret_path = path;
        return 0;
    }
    if (*path == '~') {
        folder = interpolate_lookup(&load->source, "HOME", strlen("HOME"));
        if ((path[1] && path[1] != '/') || !folder || *folder != '/')
            return schema_fail(load, &node->place,
                               "%s: only ~/... with HOME set is a path from the home folder",
                               show(path, shown));
        path++;
    }
    char *joined = compose_arena_printf(load->arena, "%s/%s", folder, path);
    if (!joined)
        return schema_fail_memory(load);
    if (!clean_path(joined))
        return schema_fail(load, &node->place, "%s has too many parts", show(path, shown));
    *ret_path = joined;
    return 0;
}
