/* SPDX-License-Identifier: Apache-2.0 */
/* volumes: at the top, and services.X.volumes: "[SOURCE:]TARGET[:OPTIONS]" or a mapping. */
#include "schema.h"
#include "show.h"

#include <ctype.h>
#include <string.h>

/* --- at the top --- */

struct volume_draft {
    struct compose_volume volume;
    struct schema_external external;
};

static const struct schema_field volume_fields[] = {
    SCHEMA_FIELD("driver", schema_set_text, offsetof(struct volume_draft, volume.driver),
                 .may_be_null = true),
    SCHEMA_FIELD("driver_opts", schema_set_pairs, offsetof(struct volume_draft, volume.driver_opts),
                 .may_be_null = true),
    SCHEMA_FIELD("labels", schema_set_pairs, offsetof(struct volume_draft, volume.labels),
                 .may_be_null = true),
    SCHEMA_FIELD("name", schema_set_text, offsetof(struct volume_draft, volume.name)),
    SCHEMA_FIELD("external", schema_set_external, offsetof(struct volume_draft, external)),
    SCHEMA_FIELD("x-cluster-spec", schema_set_ignored, 0, .advice = "muster makes no cluster volumes"),
};

static struct compose_volume *find_volume(struct compose_project *project, const char *key)
{
    for (size_t i = 0; i < project->volume_count; i++)
        if (strcmp(project->volumes[i].key, key) == 0)
            return &project->volumes[i];
    return NULL;
}

static int read_volume(struct schema_load *load, const struct node_entry *entry, const void *context)
{
    (void)context;
    struct compose_project *project = load->project;
    struct compose_volume *known = find_volume(project, entry->key);
    struct volume_draft draft = {0};
    if (known)
        draft.volume = *known;
    draft.volume.key = entry->key;
    draft.volume.place = entry->key_place;
    int r = 0;
    if (entry->value->kind != NODE_SCALAR || entry->value->scalar.kind != SCALAR_NULL)
        r = schema_map(load, entry->value, volume_fields, MST_ARRAY_COUNT(volume_fields), true, &draft);
    if (r == 0)
        r = schema_settle_name(load, &draft.external, entry->key, &draft.volume.name, &draft.volume.external);
    if (r < 0)
        return r;
    if (draft.volume.external &&
        (draft.volume.driver || draft.volume.driver_opts.count || draft.volume.labels.count))
        return schema_fail(load, &entry->key_place,
                           "an external volume has no driver, driver_opts or labels here");
    if (known) {
        *known = draft.volume;
        return 0;
    }
    return schema_append(load, &project->volumes, &project->volume_count, &draft.volume, sizeof draft.volume);
}

int schema_set_volumes(struct schema_load *load, const struct node *node, void *member,
                       const struct schema_field *f)
{
    (void)member;
    (void)f;
    return schema_each(load, node, read_volume, NULL);
}

/* --- in a service: the short form --- */

static const char *const propagations[] = {"private", "rprivate", "shared", "rshared",
                                           "slave",   "rslave",   NULL};

/* C:\data, \\server\share and \\.\pipe\name: the swarm may have Windows nodes. */
static bool is_windows_path(const char *path)
{
    return (isalpha((unsigned char)path[0]) && path[1] == ':' && (path[2] == '\\' || path[2] == '/')) ||
           (path[0] == '\\' && path[1] == '\\');
}

static bool is_bind_source(const char *source)
{
    return *source == '.' || *source == '/' || *source == '~';
}

static int apply_option(struct schema_load *load, const struct node *node, const char *option,
                        struct compose_mount *mount)
{
    char shown[SHOW_BYTES];
    if (strcmp(option, "ro") == 0 || strcmp(option, "rw") == 0) {
        mount->read_only = option[1] == 'o';
        return 0;
    }
    if (strcmp(option, "nocopy") == 0) {
        mount->has_volume = true;
        mount->volume_nocopy = true;
        return 0;
    }
    for (size_t i = 0; propagations[i]; i++) {
        if (strcmp(propagations[i], option) == 0) {
            mount->has_bind = true;
            mount->bind_propagation = propagations[i];
            return 0;
        }
    }
    return schema_warn(load, &node->place,
                       "the option %s is ignored: stacks know ro, rw, nocopy and propagations",
                       show(option, shown));
}

static int read_short(struct schema_load *load, const struct node *node, struct compose_mount *mount)
{
    const char *text;
    char shown[SHOW_BYTES];
    int r = schema_text(load, node, &text);
    if (r < 0)
        return r;
    char *copy = compose_arena_text(load->arena, text);
    if (!copy)
        return schema_fail_memory(load);
    char *parts[3], *rest = copy;
    size_t count = 0;
    for (; rest && count < MST_ARRAY_COUNT(parts); count++)
        parts[count] = strsep(&rest, ":");
    for (size_t i = 0; i < count; i++)
        if (!*parts[i])
            return schema_fail(load, &node->place, "%s is not [SOURCE:]TARGET[:OPTIONS]", show(text, shown));
    if (rest)
        return schema_fail(load, &node->place, "%s has more than SOURCE:TARGET:OPTIONS", show(text, shown));
    mount->target = count == 1 ? parts[0] : parts[1];
    if (count == 1)
        return 0;
    mount->source = parts[0];
    if (is_bind_source(parts[0]))
        mount->type = COMPOSE_MOUNT_BIND;
    else if (!parts[0][1] && isalpha((unsigned char)parts[0][0]))
        r = schema_warn(load, &node->place,
                        "docker takes the one-letter volume %s for a Windows drive: give it a longer name",
                        show(parts[0], shown));
    char *options = count == 3 ? parts[2] : NULL;
    while (r == 0 && options)
        r = apply_option(load, node, strsep(&options, ","), mount);
    return r;
}

/* --- in a service: the long form --- */

static int set_mount_type(struct schema_load *load, const struct node *node, void *member,
                          const struct schema_field *f)
{
    static const char *const names[] = {[COMPOSE_MOUNT_VOLUME] = "volume",
                                        [COMPOSE_MOUNT_BIND] = "bind",
                                        [COMPOSE_MOUNT_TMPFS] = "tmpfs",
                                        [COMPOSE_MOUNT_NPIPE] = "npipe",
                                        [COMPOSE_MOUNT_CLUSTER] = "cluster",
                                        [COMPOSE_MOUNT_IMAGE] = "image",
                                        NULL};
    size_t index;
    int r = schema_choose(load, node, f, names, &index);
    if (r == 0)
        *(enum compose_mount_type *)member = (enum compose_mount_type)index;
    return r;
}

static int set_bind(struct schema_load *load, const struct node *node, void *member,
                    const struct schema_field *f)
{
    (void)f;
    static const struct schema_field fields[] = {
        SCHEMA_FIELD("propagation", schema_set_choice, offsetof(struct compose_mount, bind_propagation),
                     .choices = propagations),
        SCHEMA_FIELD("create_host_path", schema_set_ignored, 0,
                     .advice = "swarm refuses a task whose bind source is missing"),
        SCHEMA_FIELD("selinux", schema_set_ignored, 0, .advice = "swarm does not relabel"),
        SCHEMA_FIELD("recursive", schema_set_ignored, 0, .advice = "docker's stacks do not send it"),
    };
    ((struct compose_mount *)member)->has_bind = true;
    return schema_map_open(load, node, fields, MST_ARRAY_COUNT(fields), member);
}

static int set_volume_options(struct schema_load *load, const struct node *node, void *member,
                              const struct schema_field *f)
{
    (void)f;
    static const struct schema_field fields[] = {
        SCHEMA_FIELD("nocopy", schema_set_bool, offsetof(struct compose_mount, volume_nocopy)),
        SCHEMA_FIELD("subpath", schema_set_text, offsetof(struct compose_mount, volume_subpath)),
        SCHEMA_FIELD("labels", schema_set_ignored, 0,
                     .advice = "labels belong to the volume at the top of the file"),
    };
    ((struct compose_mount *)member)->has_volume = true;
    return schema_map_open(load, node, fields, MST_ARRAY_COUNT(fields), member);
}

static int set_tmpfs(struct schema_load *load, const struct node *node, void *member,
                     const struct schema_field *f)
{
    (void)f;
    static const struct schema_field fields[] = {
        SCHEMA_FIELD("size", schema_set_bytes, offsetof(struct compose_mount, tmpfs_size_bytes)),
        SCHEMA_FIELD("mode", schema_set_ignored, 0, .advice = "docker's stacks do not send it"),
    };
    ((struct compose_mount *)member)->has_tmpfs = true;
    return schema_map_open(load, node, fields, MST_ARRAY_COUNT(fields), member);
}

static int set_image(struct schema_load *load, const struct node *node, void *member,
                     const struct schema_field *f)
{
    (void)f;
    static const struct schema_field fields[] = {
        SCHEMA_FIELD("subpath", schema_set_text, offsetof(struct compose_mount, image_subpath)),
    };
    ((struct compose_mount *)member)->has_image = true;
    return schema_map_open(load, node, fields, MST_ARRAY_COUNT(fields), member);
}

static const struct schema_field mount_fields[] = {
    SCHEMA_FIELD("type", set_mount_type, offsetof(struct compose_mount, type)),
    SCHEMA_FIELD("source", schema_set_text, offsetof(struct compose_mount, source)),
    SCHEMA_FIELD("target", schema_set_text, offsetof(struct compose_mount, target)),
    SCHEMA_FIELD("read_only", schema_set_bool, offsetof(struct compose_mount, read_only)),
    SCHEMA_FIELD("consistency", schema_set_text, offsetof(struct compose_mount, consistency)),
    SCHEMA_FIELD("bind", set_bind, 0, .may_be_null = true),
    SCHEMA_FIELD("volume", set_volume_options, 0, .may_be_null = true),
    SCHEMA_FIELD("tmpfs", set_tmpfs, 0, .may_be_null = true),
    SCHEMA_FIELD("image", set_image, 0, .may_be_null = true),
};

static int read_long(struct schema_load *load, const struct node *node, struct compose_mount *mount)
{
    int r = schema_map(load, node, mount_fields, MST_ARRAY_COUNT(mount_fields), true, mount);
    if (r < 0)
        return r;
    if (!schema_has_key(node, "type"))
        return schema_fail(load, &node->place, "type is missing: volume, bind or tmpfs");
    return 0;
}

/* --- both --- */

static int check_mount(struct schema_load *load, const struct node *node, struct compose_mount *mount)
{
    char shown[SHOW_BYTES];
    const bool is_volume = mount->type == COMPOSE_MOUNT_VOLUME, is_bind = mount->type == COMPOSE_MOUNT_BIND;
    if (mount->source && !*mount->source)
        mount->source = NULL;
    if (!mount->target || !*mount->target)
        return schema_fail(load, &node->place, "target is missing");
    if (*mount->target != '/' && !is_windows_path(mount->target))
        return schema_fail(load, &node->place, "the target %s is not an absolute path",
                           show(mount->target, shown));
    if (mount->has_tmpfs && mount->type != COMPOSE_MOUNT_TMPFS)
        return schema_fail(load, &node->place, "tmpfs options belong to mounts of type tmpfs");
    if (mount->has_bind && !is_bind)
        return schema_fail(load, &node->place, "bind options belong to mounts of type bind");
    if (mount->has_volume && !is_volume)
        return schema_fail(load, &node->place, "volume options belong to mounts of type volume");
    if (mount->has_image && mount->type != COMPOSE_MOUNT_IMAGE)
        return schema_fail(load, &node->place, "image options belong to mounts of type image");
    if (mount->type == COMPOSE_MOUNT_TMPFS && mount->source)
        return schema_fail(load, &node->place, "a tmpfs has no source");
    if (!is_volume && mount->type != COMPOSE_MOUNT_TMPFS && !mount->source)
        return schema_fail(load, &node->place, "source is missing");
    return is_bind && !is_windows_path(mount->source)
               ? schema_path_resolve(load, node, mount->source, &mount->source)
               : 0;
}

/* A target has one mount: twice in one file is an error, a later file's replaces. `earlier` are of other
 * files. */
static int add_mount(struct schema_load *load, struct compose_service *service,
                     const struct compose_mount *mount, size_t earlier)
{
    char shown[SHOW_BYTES];
    for (size_t i = 0; i < service->mount_count; i++) {
        if (strcmp(service->mounts[i].target, mount->target) != 0)
            continue;
        if (i >= earlier)
            return schema_fail(load, &mount->place, "the target %s has a mount already",
                               show(mount->target, shown));
        service->mounts[i] = *mount;
        return 0;
    }
    return schema_append(load, &service->mounts, &service->mount_count, mount, sizeof *mount);
}

int schema_set_mounts(struct schema_load *load, const struct node *node, void *member,
                      const struct schema_field *f)
{
    (void)f;
    struct compose_service *service = member;
    const size_t earlier = service->mount_count;
    int r = schema_expect(load, node, NODE_LIST);
    for (size_t i = 0; r == 0 && i < node->count; i++) {
        const struct node *item = node->entries[i].value;
        struct compose_mount mount = {.place = item->place};
        schema_enter_item(load, i);
        r = item->kind == NODE_MAP ? read_long(load, item, &mount) : read_short(load, item, &mount);
        if (r == 0)
            r = check_mount(load, item, &mount);
        if (r == 0)
            r = add_mount(load, service, &mount, earlier);
        schema_leave(load);
    }
    return r;
}
