/* SPDX-License-Identifier: Apache-2.0 */
#include "spec.h"

#include "build.h"
#include "muster/cleanup.h"
#include "muster/json.h"
#include "stack.h"

#include <stdio.h>
#include <string.h>

static void add_limits(struct build *build, const struct compose_limits *limits, const char *key,
                       cJSON *resources)
{
    cJSON *object, *array;

    if (!limits->is_set)
        return;
    object = build_object(build, resources, key);
    build_int_if(build, object, "NanoCPUs", limits->nano_cpus);
    build_int_if(build, object, "MemoryBytes", limits->memory_bytes);
    build_int_if(build, object, "Pids", limits->pids);
    if (limits->generic_count == 0)
        return;
    array = build_array(build, object, "GenericResources");
    for (size_t i = 0; array && i < limits->generic_count; i++) {
        cJSON *item = build_append(build, array), *discrete;

        discrete = build_object(build, item, "DiscreteResourceSpec");
        build_text_if(build, discrete, "Kind", limits->generic[i].kind);
        build_int_if(build, discrete, "Value", limits->generic[i].value);
    }
}

static void add_restart_policy(struct build *build, const struct compose_restart_policy *policy, cJSON *task)
{
    cJSON *object;

    if (!policy->is_set)
        return;
    object = build_object(build, task, "RestartPolicy");
    build_text_if(build, object, "Condition", policy->condition);
    build_maybe(build, object, "Delay", policy->delay_ns);
    build_maybe(build, object, "MaxAttempts", policy->max_attempts);
    build_maybe(build, object, "Window", policy->window_ns);
}

static void add_placement(struct build *build, const struct compose_deploy *deploy, const cJSON *platforms,
                          cJSON *task)
{
    cJSON *placement = build_object(build, task, "Placement"), *array;

    build_strings_if(build, placement, "Constraints", deploy->constraints);
    if (deploy->spread.count > 0) {
        array = build_array(build, placement, "Preferences");
        for (size_t i = 0; array && i < deploy->spread.count; i++) {
            cJSON *item = build_append(build, array);

            build_text(build, build_object(build, item, "Spread"), "SpreadDescriptor",
                       deploy->spread.items[i]);
        }
    }
    build_int_if(build, placement, "MaxReplicas", (int64_t)deploy->max_replicas_per_node);
    if (platforms && cJSON_GetArraySize(platforms) > 0) {
        cJSON *copy = cJSON_Duplicate(platforms, true);
        if (!placement || !copy || !cJSON_AddItemToObject(placement, "Platforms", copy)) {
            cJSON_Delete(copy);
            build->no_memory = true;
        }
    }
}

static void add_networks(struct build *build, const struct compose_service *service,
                         const struct spec_ids *ids, cJSON *task)
{
    cJSON *array = build_array(build, task, "Networks");

    for (size_t i = 0; array && i < service->network_count; i++) {
        const struct compose_attachment *use = &service->networks[i];
        const bool is_predefined = spec_network_is_predefined(use->network->name);
        const char *id = is_predefined ? NULL : spec_ids_find(ids, ENGINE_NETWORK, use->network->name);
        cJSON *object = build_append(build, array), *aliases;

        build_text(build, object, "Target", id ? id : use->network->name);
        if (use->aliases.count > 0 || !is_predefined) {
            aliases = build_array(build, object, "Aliases");
            for (size_t a = 0; a < use->aliases.count; a++)
                build_item(build, aliases, use->aliases.items[a]);
            if (!is_predefined)
                build_item(build, aliases, service->key);
        }
        (void)build_pairs_if(build, object, "DriverOpts", &use->driver_opts);
    }
}

static void add_log_driver(struct build *build, const struct compose_logging *logging, cJSON *task)
{
    cJSON *object;

    if (!logging->is_set)
        return;
    object = build_object(build, task, "LogDriver");
    build_text_if(build, object, "Name", logging->driver);
    (void)build_pairs_if(build, object, "Options", &logging->options);
}

static void add_mode(struct build *build, const struct compose_deploy *deploy, cJSON *body)
{
    cJSON *mode = build_object(build, body, "Mode"), *job;

    switch (deploy->mode) {
    case COMPOSE_MODE_REPLICATED:
        build_maybe(build, build_object(build, mode, "Replicated"), "Replicas", deploy->replicas);
        break;
    case COMPOSE_MODE_GLOBAL:
        (void)build_object(build, mode, "Global");
        break;
    case COMPOSE_MODE_REPLICATED_JOB:
        job = build_object(build, mode, "ReplicatedJob");
        build_maybe(build, job, "MaxConcurrent", deploy->replicas);
        build_maybe(build, job, "TotalCompletions", deploy->replicas);
        break;
    case COMPOSE_MODE_GLOBAL_JOB:
        (void)build_object(build, mode, "GlobalJob");
        break;
    }
}

static void add_update(struct build *build, const struct compose_update *update, const char *key, cJSON *body)
{
    cJSON *object;

    if (!update->is_set)
        return;
    object = build_object(build, body, key);
    build_int(build, object, "Parallelism",
              update->parallelism.is_set ? (int64_t)update->parallelism.value : 1);
    build_int_if(build, object, "Delay", (int64_t)update->delay_ns);
    build_text_if(build, object, "FailureAction", update->failure_action);
    build_int_if(build, object, "Monitor", (int64_t)update->monitor_ns);
    if (object && !cJSON_AddNumberToObject(object, "MaxFailureRatio", update->max_failure_ratio))
        build->no_memory = true;
    build_text(build, object, "Order", update->order ? update->order : "");
}

static void add_endpoint(struct build *build, const struct compose_service *service, cJSON *body)
{
    cJSON *endpoint = build_object(build, body, "EndpointSpec"), *ports;

    build_text_if(build, endpoint, "Mode", service->deploy.endpoint_mode);
    if (service->port_count == 0)
        return;
    ports = build_array(build, endpoint, "Ports");
    for (size_t i = 0; ports && i < service->port_count; i++) {
        const struct compose_port *port = &service->ports[i];
        cJSON *object = build_append(build, ports);

        build_text_if(build, object, "Protocol", port->protocol);
        build_int_if(build, object, "TargetPort", (int64_t)port->target);
        build_int_if(build, object, "PublishedPort", (int64_t)port->published);
        build_text_if(build, object, "PublishMode", port->mode);
    }
}

int spec_service(const struct compose_project *project, const struct compose_service *service,
                 const struct spec_ids *ids, const struct spec_image *image, const struct spec_kept *kept,
                 cJSON **ret_body, struct mst_error *err)
{
    struct build build = {0};
    mst_cleanup(mst_json_deletep) cJSON *body = build_object(&build, NULL, NULL);
    cJSON *labels, *task, *resources;

    build_text(&build, body, "Name", service->name);
    labels = build_labels(&build, body, "Labels", &service->deploy.labels, project->stack);
    cJSON_DeleteItemFromObjectCaseSensitive(labels, IMAGE_LABEL);
    build_text(&build, labels, IMAGE_LABEL, service->image);
    task = build_object(&build, body, "TaskTemplate");
    spec_container(&build, project, service, ids, image->image, task);
    resources = build_object(&build, task, "Resources");
    add_limits(&build, &service->deploy.limits, "Limits", resources);
    add_limits(&build, &service->deploy.reservations, "Reservations", resources);
    add_restart_policy(&build, &service->deploy.restart_policy, task);
    add_placement(&build, &service->deploy, image->platforms, task);
    add_networks(&build, service, ids, task);
    add_log_driver(&build, &service->logging, task);
    build_int(&build, task, "ForceUpdate", (int64_t)kept->force_update);
    add_mode(&build, &service->deploy, body);
    add_update(&build, &service->deploy.update_config, "UpdateConfig", body);
    add_update(&build, &service->deploy.rollback_config, "RollbackConfig", body);
    add_endpoint(&build, service, body);
    if (build.no_memory)
        return mst_error_set(err, -ENOMEM, "service '%s': no memory for its specification", service->name);
    *ret_body = body;
    body = NULL;
    return 0;
}

bool spec_network_is_predefined(const char *name)
{
    static const char *const names[] = {"host", "bridge", "none", "default", "nat"};

    for (size_t i = 0; i < MST_ARRAY_COUNT(names); i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

/* docker.io/library/busybox is busybox to people and in docker's bodies. */
static const char *familiar(const char *image)
{
    static const char *const prefixes[] = {"docker.io/library/", "index.docker.io/library/", "docker.io/",
                                           "index.docker.io/"};

    for (size_t i = 0; i < MST_ARRAY_COUNT(prefixes); i++) {
        const size_t bytes = strlen(prefixes[i]);
        if (strncmp(image, prefixes[i], bytes) == 0)
            return image + bytes;
    }
    return image;
}

char *spec_image_with_tag(const char *image)
{
    const char *known = familiar(image);
    const char *slash = strrchr(known, '/');
    const char *name = slash ? slash + 1 : known;
    char *text = NULL;

    if (strchr(name, ':') || strchr(name, '@'))
        return strdup(known);
    return asprintf(&text, "%s:latest", known) < 0 ? NULL : text;
}
