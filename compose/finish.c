/* SPDX-License-Identifier: Apache-2.0 */
#include "finish.h"

#include "image.h"
#include "muster/digest.h"
#include "muster/file.h"
#include "muster/parse.h"
#include "show.h"

#include <ctype.h>
#include <string.h>

/* Run `f` for each service, with "services.KEY" as the path. */
typedef int finish_service(struct schema_load *load, struct compose_service *service,
                           struct schema_draft *draft);

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

/* As schema_fail(), one key further down. */
#define FAIL_AT(load, key, place, ...) (schema_enter(load, key), schema_fail(load, place, __VA_ARGS__))

/* --- what a service says itself
 * ----------------------------------------------------------------------------- */

static int check_image(struct schema_load *load, struct compose_service *service, struct schema_draft *draft)
{
    (void)draft;
    char shown[SHOW_BYTES];
    if (!service->image || !*service->image)
        return schema_fail(load, &service->place, "image is missing");
    if (!image_reference_is_valid(service->image))
        return FAIL_AT(load, "image", &service->place, "%s is not an image reference",
                       show(service->image, shown));
    return 0;
}

static int finish_environment(struct schema_load *load, struct compose_service *service,
                              struct schema_draft *draft)
{
    schema_enter(load, "environment");
    int r = schema_finish_environment(load, service, draft);
    schema_leave(load);
    return r;
}

/* The older `restart:` is what docker falls back on. */
static int finish_restart(struct schema_load *load, struct compose_service *service,
                          struct schema_draft *draft)
{
    struct compose_restart_policy *policy = &service->deploy.restart_policy;
    const char *restart = draft->restart;
    if (!restart)
        return 0;
    if (policy->is_set) {
        schema_enter(load, "restart");
        int r = schema_warn(load, &draft->restart_place, "ignored: deploy.restart_policy stands as well");
        schema_leave(load);
        return r;
    }
    if (strcmp(restart, "no") == 0)
        return 0;
    policy->is_set = true;
    policy->condition = *restart == 'o' ? "on-failure" : "any";
    const char *count = strchr(restart, ':');
    if (!count)
        return 0;
    policy->max_attempts.is_set = true;
    return mst_parse_u64(count + 1, 0, UINT32_MAX, &policy->max_attempts.value, load->err);
}

static int check_deploy(struct schema_load *load, struct compose_service *service, struct schema_draft *draft)
{
    const struct compose_deploy *deploy = &service->deploy;
    const bool is_job =
        deploy->mode == COMPOSE_MODE_REPLICATED_JOB || deploy->mode == COMPOSE_MODE_GLOBAL_JOB;
    const bool is_global = deploy->mode == COMPOSE_MODE_GLOBAL || deploy->mode == COMPOSE_MODE_GLOBAL_JOB;
    schema_enter(load, "deploy");
    if (is_global && deploy->replicas.is_set)
        return FAIL_AT(load, "replicas", &draft->replicas_place, "a global service runs once on each node");
    if (is_job && (deploy->update_config.is_set || deploy->rollback_config.is_set))
        return FAIL_AT(load, deploy->update_config.is_set ? "update_config" : "rollback_config",
                       &service->place, "a job is not updated in steps");
    schema_leave(load);
    return 0;
}

/* --- capabilities
 * ------------------------------------------------------------------------------------------- */

static int compare_strings(const void *a, const void *b)
{
    const char *const *left = a, *const *right = b;
    return strcmp(*left, *right);
}

static bool strings_have(const struct compose_strings *list, const char *text)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i], text) == 0)
            return true;
    return false;
}

/* "net_raw" to "CAP_NET_RAW"; each once; ALL beats the others; sorted. */
static int normalise_caps(struct schema_load *load, const char *key, struct compose_strings *caps,
                          const struct compose_place *place)
{
    struct compose_strings normal = {0};
    char shown[SHOW_BYTES];
    bool has_all = false;
    for (size_t i = 0; i < caps->count; i++) {
        const char *given = caps->items[i];
        bool is_whole = strcasecmp(given, "ALL") == 0 || strcasecmp(given, "RESET") == 0;
        char *cap = compose_arena_printf(load->arena, "%s%s",
                                         is_whole || strncasecmp(given, "CAP_", 4) == 0 ? "" : "CAP_", given);
        if (!cap)
            return schema_fail_memory(load);
        for (char *p = cap; *p; p++) {
            *p = (char)toupper((unsigned char)*p);
            if (!isupper((unsigned char)*p) && *p != '_')
                return FAIL_AT(load, key, place, "%s is not a capability", show(given, shown));
        }
        has_all = has_all || strcmp(cap, "ALL") == 0;
        int r = strings_have(&normal, cap) ? 0 : schema_strings_add(load, &normal, cap);
        if (r < 0)
            return r;
    }
    if (has_all) {
        normal.items[0] = "ALL";
        normal.count = 1;
    }
    if (normal.count > 1)
        qsort((void *)normal.items, normal.count, sizeof *normal.items, compare_strings);
    *caps = normal;
    return 0;
}

static int finish_caps(struct schema_load *load, struct compose_service *service, struct schema_draft *draft)
{
    (void)draft;
    int r = normalise_caps(load, "cap_add", &service->cap_add, &service->place);
    if (r == 0)
        r = normalise_caps(load, "cap_drop", &service->cap_drop, &service->place);
    if (r < 0)
        return r;
    size_t kept = 0; /* to add beats to drop */
    for (size_t i = 0; i < service->cap_drop.count; i++)
        if (!strings_have(&service->cap_add, service->cap_drop.items[i]))
            service->cap_drop.items[kept++] = service->cap_drop.items[i];
    service->cap_drop.count = kept;
    return 0;
}

/* --- ports
 * -------------------------------------------------------------------------------------------------- */

static int compare_texts(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "");
}

static int compare_ports(const void *a, const void *b)
{
    const struct compose_port *left = a, *right = b;
    if (left->published != right->published)
        return left->published < right->published ? -1 : 1;
    if (left->target != right->target)
        return left->target < right->target ? -1 : 1;
    int order = compare_texts(left->protocol, right->protocol);
    return order ? order : compare_texts(left->mode, right->mode);
}

static const char *protocol_of(const struct compose_port *port)
{
    return port->protocol ? port->protocol : "tcp";
}

static bool is_ingress(const struct compose_port *port)
{
    return !port->mode || strcmp(port->mode, "ingress") == 0;
}

static int finish_ports(struct schema_load *load, struct compose_service *service, struct schema_draft *draft)
{
    (void)draft;
    const bool is_dnsrr =
        service->deploy.endpoint_mode && strcmp(service->deploy.endpoint_mode, "dnsrr") == 0;
    if (service->port_count > 1)
        qsort(service->ports, service->port_count, sizeof *service->ports, compare_ports);
    for (size_t i = 0; i < service->port_count; i++) {
        const struct compose_port *port = &service->ports[i];
        if (is_dnsrr && is_ingress(port))
            return FAIL_AT(load, "ports", &port->place,
                           "endpoint_mode dnsrr has no ingress: publish port %u with mode: host",
                           port->target);
        for (size_t j = i; port->published && j-- > 0 && service->ports[j].published == port->published;)
            if (strcmp(protocol_of(&service->ports[j]), protocol_of(port)) == 0)
                return FAIL_AT(load, "ports", &port->place, "port %u/%s is published twice", port->published,
                               protocol_of(port));
    }
    return 0;
}

struct taken_port {
    const struct compose_port *port;
    const struct compose_service *service;
};

static int compare_taken(const void *a, const void *b)
{
    const struct taken_port *left = a, *right = b;
    if (left->port->published != right->port->published)
        return left->port->published < right->port->published ? -1 : 1;
    return strcmp(protocol_of(left->port), protocol_of(right->port));
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
            if (project->services[i].ports[p].published && is_ingress(&project->services[i].ports[p]))
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
        return FAIL_AT(load, "ports", &second->port->place, "port %u/%s is published by service '%s' already",
                       second->port->published, protocol_of(second->port), first->service->key);
    }
    return 0;
}

/* --- references
 * --------------------------------------------------------------------------------------------- */

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

/* --- names
 * -------------------------------------------------------------------------------------------------- */

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

/* --- order
 * -------------------------------------------------------------------------------------------------- */

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

/* --- files of secrets and configs
 * --------------------------------------------------------------------------- */

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

/* --- what is of no use
 * -------------------------------------------------------------------------------------- */

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
    static finish_service *const steps[] = {check_image,  finish_environment, finish_restart,
                                            check_deploy, finish_caps,        finish_ports};
    struct compose_project *project = load->project;
    int r = 0;
    for (size_t i = 0; r == 0 && i < MST_ARRAY_COUNT(steps); i++)
        r = each_service(load, steps[i]);
    if (r == 0)
        r = check_ports_between_services(load);
    if (r == 0)
        r = add_default_network(load);
    if (r == 0)
        r = each_service(load, resolve_service);
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
