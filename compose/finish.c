/* SPDX-License-Identifier: Apache-2.0 */
#include "finish.h"

#include "muster/digest.h"
#include "muster/file.h"
#include "muster/parse.h"
#include "show.h"

#include <ctype.h>
#include <string.h>

/* Run `f` for each service, with "services.KEY" as the path. */
static int each_service(struct schema_load *load, finish_service *f)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < load->project->service_count; i++) {
        schema_enter(load, "services");
        schema_enter(load, load->project->services[i].key);
        r = f(load, &load->project->services[i], &load->drafts[i]);
        schema_leave(load);
        schema_leave(load);
    }
    return r;
}

/* --- ports of one service against another's --- */

struct taken_port {
    const struct compose_port *port;
    const struct compose_service *service;
};

static int compare_taken(const void *a, const void *b)
{
    const struct taken_port *left = a, *right = b;
    if (left->port->published != right->port->published)
        return left->port->published < right->port->published ? -1 : 1;
    return strcmp(finish_protocol(left->port), finish_protocol(right->port));
}

/* An ingress port belongs to one service of the whole swarm. */
static int check_ports_between_services(struct schema_load *load)
{
    const struct compose_project *project = load->project;
    size_t count = 0, filled = 0;
    for (size_t i = 0; i < project->service_count; i++)
        count += project->services[i].port_count;
    if (count < 2)
        return 0;
    mst_cleanup(mst_freep) struct taken_port *taken = calloc(count, sizeof *taken);
    if (!taken)
        return schema_fail_memory(load);
    for (size_t i = 0; i < project->service_count; i++)
        for (size_t p = 0; p < project->services[i].port_count; p++)
            if (project->services[i].ports[p].published && finish_is_ingress(&project->services[i].ports[p]))
                taken[filled++] = (struct taken_port){&project->services[i].ports[p], &project->services[i]};
    if (filled > 1)
        qsort(taken, filled, sizeof *taken, compare_taken);
    for (size_t i = 1; i < filled; i++) {
        if (compare_taken(&taken[i - 1], &taken[i]) != 0)
            continue;
        /* Say it at the one that stands later in the file. */
        const struct taken_port *first = &taken[i - 1], *second = &taken[i];
        if (first->service > second->service) {
            first = &taken[i];
            second = &taken[i - 1];
        }
        schema_enter(load, "services");
        schema_enter(load, second->service->key);
        return SCHEMA_FAIL_AT(load, "ports", &second->port->place,
                              "port %u/%s is published by service '%s' already", second->port->published,
                              finish_protocol(second->port), first->service->key);
    }
    return 0;
}

/* --- references --- */

/* The object of `key` in an array of structs that each have their key at `key_offset`. */
static void *find_object(void *items, size_t count, size_t item_bytes, size_t key_offset, const char *key)
{
    for (size_t i = 0; i < count; i++) {
        char *item = (char *)items + i * item_bytes;
        if (strcmp(*(const char **)(void *)(item + key_offset), key) == 0)
            return item;
    }
    return NULL;
}

static int fail_undeclared(struct schema_load *load, const struct compose_place *place, const char *what,
                           const char *key, void *items, size_t count, size_t item_bytes, size_t key_offset)
{
    const char *names[64];
    char shown[SHOW_BYTES];
    size_t known = 0;
    for (; known < count && known < MST_ARRAY_COUNT(names); known++)
        names[known] = *(const char **)(void *)((char *)items + known * item_bytes + key_offset);
    const char *near = mst_nearest(key, names, known);
    return schema_fail(load, place, "the %s %s is not declared at the top of the file%s%s%s", what,
                       show(key, shown), near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* Find what `key` names in the project's list `list` and mark it as used, or fail. */
#define RESOLVE(load, list, count, type, what, wanted, place, ret)                                           \
    do {                                                                                                     \
        struct type *found =                                                                                 \
            find_object(list, count, sizeof(struct type), offsetof(struct type, key), wanted);               \
        if (!found)                                                                                          \
            return fail_undeclared(load, place, what, wanted, list, count, sizeof(struct type),              \
                                   offsetof(struct type, key));                                              \
        found->is_used = true;                                                                               \
        *(ret) = found;                                                                                      \
    } while (0)

static int resolve_uses(struct schema_load *load, const char *key, const char *what,
                        struct compose_content *list, size_t count, struct compose_content_use *uses,
                        size_t use_count)
{
    schema_enter(load, key);
    for (size_t i = 0; i < use_count; i++)
        RESOLVE(load, list, count, compose_content, what, uses[i].source, &uses[i].place, &uses[i].content);
    schema_leave(load);
    return 0;
}

static int resolve_service(struct schema_load *load, struct compose_service *service,
                           struct schema_draft *draft)
{
    (void)draft;
    struct compose_project *project = load->project;
    schema_enter(load, "networks");
    for (size_t i = 0; i < service->network_count; i++)
        RESOLVE(load, project->networks, project->network_count, compose_network, "network",
                service->networks[i].network_key, &service->networks[i].place, &service->networks[i].network);
    schema_leave(load);
    schema_enter(load, "volumes");
    for (size_t i = 0; i < service->mount_count; i++) {
        struct compose_mount *mount = &service->mounts[i];
        if (mount->type == COMPOSE_MOUNT_VOLUME && mount->source)
            RESOLVE(load, project->volumes, project->volume_count, compose_volume, "volume", mount->source,
                    &mount->place, &mount->volume);
    }
    schema_leave(load);
    int r = resolve_uses(load, "secrets", "secret", project->secrets, project->secret_count, service->secrets,
                         service->secret_count);
    if (r == 0)
        r = resolve_uses(load, "configs", "config", project->configs, project->config_count, service->configs,
                         service->config_count);
    struct compose_credential_spec *spec = &service->credential_spec;
    if (r == 0 && spec->config) {
        schema_enter(load, "credential_spec");
        RESOLVE(load, project->configs, project->config_count, compose_content, "config", spec->config,
                &service->place, &spec->content);
        schema_leave(load);
    }
    return r;
}

/* `default` is what services are attached to that name no network; it need not be declared. */
static int add_default_network(struct schema_load *load)
{
    struct compose_project *project = load->project;
    bool is_named = false;
    for (size_t i = 0; i < project->service_count; i++) {
        struct compose_service *service = &project->services[i];
        if (service->network_count == 0) {
            service->networks = compose_arena_alloc(load->arena, sizeof *service->networks);
            if (!service->networks)
                return schema_fail_memory(load);
            service->networks[0] =
                (struct compose_attachment){.place = service->place, .network_key = "default"};
            service->network_count = 1;
        }
        for (size_t n = 0; n < service->network_count; n++)
            is_named = is_named || strcmp(service->networks[n].network_key, "default") == 0;
    }
    if (!is_named || find_object(project->networks, project->network_count, sizeof *project->networks,
                                 offsetof(struct compose_network, key), "default"))
        return 0;
    struct compose_network *items =
        compose_arena_grow(load->arena, project->networks, project->network_count, sizeof *items);
    if (!items)
        return schema_fail_memory(load);
    project->networks = items;
    items[project->network_count++] = (struct compose_network){.key = "default", .is_default = true};
    return 0;
}

/* --- names --- */

static int scope(struct schema_load *load, const char *key, const char **name)
{
    if (*name || !load->options->stack)
        return 0;
    *name = compose_arena_printf(load->arena, "%s_%s", load->options->stack, key);
    return *name ? 0 : schema_fail_memory(load);
}

/* Secrets and configs: at most 64 of letters, digits, '-', '_' and '.', a letter or digit at both ends. */
static bool is_content_name(const char *name)
{
    const size_t length = strlen(name);
    if (length == 0 || length > 64)
        return false;
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)name[i]) && (!strchr("-_.", name[i]) || i == 0 || i + 1 == length))
            return false;
    return true;
}

static int name_service(struct schema_load *load, struct compose_service *service, struct schema_draft *draft)
{
    (void)draft;
    char shown[SHOW_BYTES];
    int r = scope(load, service->key, &service->name);
    if (r < 0)
        return r;
    if (!service->name)
        service->name = service->key;
    if (!schema_is_swarm_name(service->name))
        return schema_fail(
            load, &service->place,
            "%s is not a service's name: letters and digits, inside also - and _, at most 63 in all",
            show(service->name, shown));
    return 0;
}

static int name_contents(struct schema_load *load, const char *top, struct compose_content *list,
                         size_t count)
{
    char shown[SHOW_BYTES];
    schema_enter(load, top);
    for (size_t i = 0; i < count; i++) {
        schema_enter(load, list[i].key);
        int r = scope(load, list[i].key, &list[i].name);
        if (r < 0)
            return r;
        const char *name = list[i].name ? list[i].name : list[i].key;
        if (!is_content_name(name))
            return schema_fail(load, &list[i].place,
                               "%s is not a name: letters, digits and - _ . inside, at most 64 in all",
                               show(name, shown));
        schema_leave(load);
    }
    schema_leave(load);
    return 0;
}

static int name_all(struct schema_load *load)
{
    struct compose_project *project = load->project;
    char shown[SHOW_BYTES];
    int r = each_service(load, name_service);
    for (size_t i = 0; r == 0 && i < project->network_count; i++) {
        struct compose_network *network = &project->networks[i];
        r = scope(load, network->key, &network->name);
        const char *name = network->name ? network->name : network->key;
        if (r == 0 && !network->external && !schema_is_swarm_name(name)) {
            schema_enter(load, "networks");
            schema_enter(load, network->key);
            return schema_fail(
                load, &network->place,
                "%s is not a network's name: letters and digits, inside also - and _, at most 63 in all",
                show(name, shown));
        }
    }
    for (size_t i = 0; r == 0 && i < project->volume_count; i++)
        r = scope(load, project->volumes[i].key, &project->volumes[i].name);
    if (r == 0)
        r = name_contents(load, "secrets", project->secrets, project->secret_count);
    if (r == 0)
        r = name_contents(load, "configs", project->configs, project->config_count);
    return r;
}

/* --- order --- */

static int compare_attachments(const void *a, const void *b)
{
    const struct compose_attachment *left = a, *right = b;
    if (left->network->name && right->network->name)
        return strcmp(left->network->name, right->network->name);
    return strcmp(left->network_key, right->network_key);
}

static int compare_uses(const void *a, const void *b)
{
    const struct compose_content_use *left = a, *right = b;
    int order = left->content->name && right->content->name
                    ? strcmp(left->content->name, right->content->name)
                    : strcmp(left->source, right->source);
    return order ? order : strcmp(left->target, right->target); /* one object at two targets */
}

static int sort_service(struct schema_load *load, struct compose_service *service, struct schema_draft *draft)
{
    (void)load;
    (void)draft;
    if (service->network_count > 1)
        qsort(service->networks, service->network_count, sizeof *service->networks, compare_attachments);
    if (service->secret_count > 1)
        qsort(service->secrets, service->secret_count, sizeof *service->secrets, compare_uses);
    if (service->config_count > 1)
        qsort(service->configs, service->config_count, sizeof *service->configs, compare_uses);
    return 0;
}

/* --- files of secrets and configs --- */

static int read_content_file(struct schema_load *load, struct compose_content *content, size_t max_bytes)
{
    struct mst_buf file = MST_BUF_INIT(max_bytes);
    struct mst_error why = MST_ERROR_INIT;
    int r = mst_file_read(content->path, &file, &why);
    if (r < 0) {
        (void)schema_fail(load, &content->place, "%s", why.text);
        r = r == -ENOMEM ? r : -EBADMSG;
    } else if (file.count == 0) {
        r = schema_fail(load, &content->place, "the file '%.256s' is empty", content->path);
    } else {
        content->bytes = (const unsigned char *)compose_arena_text_n(load->arena, file.bytes, file.count);
        content->byte_count = file.count;
        r = content->bytes ? 0 : schema_fail_memory(load);
    }
    if (file.bytes)
        mst_forget(file.bytes, file.count);
    mst_buf_release(&file);
    return r;
}

static int read_content_files(struct schema_load *load, const char *top, struct compose_content *list,
                              size_t count, size_t max_bytes)
{
    schema_enter(load, top);
    for (size_t i = 0; i < count; i++) {
        schema_enter(load, list[i].key);
        int r = list[i].path ? read_content_file(load, &list[i], max_bytes) : 0;
        if (r < 0)
            return r;
        schema_leave(load);
    }
    schema_leave(load);
    return 0;
}

/* --- what is of no use --- */

static int warn_unused(struct schema_load *load)
{
    struct compose_project *project = load->project;
    int r = 0;
    schema_enter(load, "networks");
    for (size_t i = 0; r == 0 && i < project->network_count; i++) {
        if (project->networks[i].is_used)
            continue;
        schema_enter(load, project->networks[i].key);
        r = schema_warn(load, &project->networks[i].place, "no service uses it, so that it is not made");
        schema_leave(load);
    }
    schema_leave(load);
    schema_enter(load, "volumes");
    for (size_t i = 0; r == 0 && i < project->volume_count; i++) {
        if (project->volumes[i].is_used)
            continue;
        schema_enter(load, project->volumes[i].key);
        r = schema_warn(load, &project->volumes[i].place, "no service uses it, so that it is not made");
        schema_leave(load);
    }
    schema_leave(load);
    return r;
}

int finish_project(struct schema_load *load)
{
    struct compose_project *project = load->project;
    int r = 0;
    for (size_t i = 0; r == 0 && finish_service_steps[i]; i++)
        r = each_service(load, finish_service_steps[i]);
    if (r == 0)
        r = check_ports_between_services(load);
    if (r == 0)
        r = add_default_network(load);
    if (r == 0)
        r = each_service(load, resolve_service);
    if (r == 0)
        r = schema_resolve_depends_on(load);
    if (r == 0)
        r = name_all(load);
    if (r == 0)
        r = each_service(load, sort_service);
    if (r == 0)
        r = read_content_files(load, "secrets", project->secrets, project->secret_count,
                               COMPOSE_SECRET_MAX_BYTES);
    if (r == 0)
        r = read_content_files(load, "configs", project->configs, project->config_count,
                               COMPOSE_CONFIG_MAX_BYTES);
    return r < 0 ? r : warn_unused(load);
}
