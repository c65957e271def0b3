/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the last pass that looks at one service only. */
#include "finish.h"
#include "image.h"
#include "muster/parse.h"
#include "show.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

/* --- what a service says itself --- */

static int check_image(struct schema_load *load, struct compose_service *service, struct schema_draft *draft)
{
    (void)draft;
    char shown[SHOW_BYTES];
    if (!service->image || !*service->image)
        return schema_fail(load, &service->place, "image is missing");
    if (!image_reference_is_valid(service->image))
        return SCHEMA_FAIL_AT(load, "image", &service->place, "%s is not an image reference",
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

static int finish_labels(struct schema_load *load, struct compose_service *service,
                         struct schema_draft *draft)
{
    schema_enter(load, "label_file");
    int r = schema_finish_labels(load, service, draft);
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

/* A later file may have taken `disable` back, so that its effect waits until here. */
static int finish_healthcheck(struct schema_load *load, struct compose_service *service,
                              struct schema_draft *draft)
{
    (void)draft;
    if (!service->healthcheck.disable)
        return 0;
    service->healthcheck.test = (struct compose_strings){0};
    return schema_strings_add(load, &service->healthcheck.test, "NONE");
}

/* The specification's `scale:` is what `deploy.replicas` says, for those who have no `deploy`. */
static int finish_scale(struct schema_load *load, struct compose_service *service, struct schema_draft *draft)
{
    struct compose_maybe_u64 *replicas = &service->deploy.replicas;
    if (!draft->scale.is_set)
        return 0;
    if (replicas->is_set && replicas->value != draft->scale.value)
        return SCHEMA_FAIL_AT(load, "scale", &draft->scale_place, "deploy.replicas says %" PRIu64,
                              replicas->value);
    if (!replicas->is_set)
        draft->replicas_place = draft->scale_place;
    *replicas = draft->scale;
    return 0;
}

static int check_deploy(struct schema_load *load, struct compose_service *service, struct schema_draft *draft)
{
    const struct compose_deploy *deploy = &service->deploy;
    const bool is_job =
        deploy->mode == COMPOSE_MODE_REPLICATED_JOB || deploy->mode == COMPOSE_MODE_GLOBAL_JOB;
    const bool is_global = deploy->mode == COMPOSE_MODE_GLOBAL || deploy->mode == COMPOSE_MODE_GLOBAL_JOB;
    schema_enter(load, "deploy");
    if (is_global && deploy->replicas.is_set)
        return SCHEMA_FAIL_AT(load, "replicas", &draft->replicas_place,
                              "a global service runs once on each node");
    if (is_job && (deploy->update_config.is_set || deploy->rollback_config.is_set))
        return SCHEMA_FAIL_AT(load, deploy->update_config.is_set ? "update_config" : "rollback_config",
                              &service->place, "a job is not updated in steps");
    schema_leave(load);
    return 0;
}

/* --- capabilities --- */

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
                return SCHEMA_FAIL_AT(load, key, place, "%s is not a capability", show(given, shown));
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

/* --- ports --- */

/* docker sorts them by their published port alone, and leaves the others as the file has them (its sort is
 * only stable for up to 12, or for what is in order already). The engine starts tasks anew for another order.
 */
struct ranked_port {
    struct compose_port port;
    size_t rank;
};

static int compare_ports(const void *a, const void *b)
{
    const struct ranked_port *left = a, *right = b;
    if (left->port.published != right->port.published)
        return left->port.published < right->port.published ? -1 : 1;
    return (left->rank > right->rank) - (left->rank < right->rank);
}

static int sort_ports(struct schema_load *load, struct compose_service *service)
{
    const size_t count = service->port_count;
    if (count < 2)
        return 0;
    struct ranked_port *ranked = compose_arena_alloc(load->arena, count * sizeof *ranked);
    if (!ranked)
        return schema_fail_memory(load);
    for (size_t i = 0; i < count; i++)
        ranked[i] = (struct ranked_port){service->ports[i], i};
    qsort(ranked, count, sizeof *ranked, compare_ports);
    for (size_t i = 0; i < count; i++)
        service->ports[i] = ranked[i].port;
    return 0;
}

static int finish_ports(struct schema_load *load, struct compose_service *service, struct schema_draft *draft)
{
    (void)draft;
    const bool is_dnsrr =
        service->deploy.endpoint_mode && strcmp(service->deploy.endpoint_mode, "dnsrr") == 0;
    int r = sort_ports(load, service);
    if (r < 0)
        return r;
    for (size_t i = 0; i < service->port_count; i++) {
        const struct compose_port *port = &service->ports[i];
        if (is_dnsrr && finish_is_ingress(port))
            return SCHEMA_FAIL_AT(load, "ports", &port->place,
                                  "endpoint_mode dnsrr has no ingress: publish port %u with mode: host",
                                  port->target);
        for (size_t j = i; port->published && j-- > 0 && service->ports[j].published == port->published;)
            if (strcmp(finish_protocol(&service->ports[j]), finish_protocol(port)) == 0)
                return SCHEMA_FAIL_AT(load, "ports", &port->place, "port %u/%s is published twice",
                                      port->published, finish_protocol(port));
    }
    return 0;
}

finish_service *const finish_service_steps[] = {
    check_image,  finish_environment, finish_labels, finish_restart, finish_scale,
    check_deploy, finish_healthcheck, finish_caps,   finish_ports,   NULL};
