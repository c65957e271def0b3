/* SPDX-License-Identifier: Apache-2.0 */
/* What the manager would refuse because of what lives already: found before anything is written. */
#include "check.h"
#include "check_private.h"
#include "muster/cleanup.h"
#include "muster/json.h"
#include "stack.h"

#include <stdio.h>
#include <string.h>

/* "stack 'x'" or "no stack" */
static const char *owner_text(const cJSON *object, enum engine_kind kind, char text[static 96])
{
    const cJSON *labels = kind == ENGINE_NETWORK ? mst_json_at(object, "Labels", NULL)
                                                 : mst_json_at(object, "Spec", "Labels", NULL);
    const char *stack = mst_json_string_or(labels, STACK_LABEL, "");

    if (stack[0] == '\0')
        return "no stack";
    (void)snprintf(text, 96, "stack '%.64s'", stack);
    return text;
}

/* A secret or config that belongs to no stack is taken over, as docker does. */
static int check_name(const cJSON *others, enum engine_kind kind, const char *section, const char *key,
                      const char *name, struct compose_place place, struct mst_error *err)
{
    const cJSON *object = live_find(others, kind, name);
    char owner[96];

    if (!object)
        return 0;
    if (kind == ENGINE_NETWORK && strcmp(mst_json_string_or(object, "Scope", ""), "swarm") != 0)
        return 0;
    if ((kind == ENGINE_SECRET || kind == ENGINE_CONFIG) &&
        mst_json_string_or(mst_json_at(object, "Spec", "Labels", NULL), STACK_LABEL, "")[0] == '\0')
        return 0;
    return check_fail_at(err, place, -EEXIST, "%s.%s: there is a %s '%s' already, which belongs to %s",
                         section, key, engine_kind_text(kind), name, owner_text(object, kind, owner));
}

int check_names(const struct compose_project *project, const struct live *live, struct mst_error *err)
{
    int r = 0;

    for (size_t i = 0; i < project->service_count && r >= 0; i++)
        r = check_name(live->other_services, ENGINE_SERVICE, "services", project->services[i].key,
                       project->services[i].name, project->services[i].place, err);
    for (size_t i = 0; i < project->network_count && r >= 0; i++) {
        const struct compose_network *network = &project->networks[i];
        if (!network->external && network->is_used)
            r = check_name(live->other_networks, ENGINE_NETWORK, "networks", network->key, network->name,
                           network->place, err);
    }
    for (size_t i = 0; i < project->secret_count && r >= 0; i++) {
        if (!project->secrets[i].external)
            r = check_name(live->other_secrets, ENGINE_SECRET, "secrets", project->secrets[i].key,
                           project->secrets[i].name, project->secrets[i].place, err);
    }
    for (size_t i = 0; i < project->config_count && r >= 0; i++) {
        if (!project->configs[i].external)
            r = check_name(live->other_configs, ENGINE_CONFIG, "configs", project->configs[i].key,
                           project->configs[i].name, project->configs[i].place, err);
    }
    return r;
}

/* Who publishes the port in the ingress network; NULL: nobody. */
static const cJSON *publisher(const cJSON *services, const struct compose_port *port)
{
    const char *protocol = port->protocol ? port->protocol : "tcp";
    const cJSON *service, *item;

    cJSON_ArrayForEach(service, services)
    {
        cJSON_ArrayForEach(item, mst_json_at(service, "Endpoint", "Ports", NULL))
        {
            if (mst_json_u64_or(item, "PublishedPort", 0) == port->published &&
                strcmp(mst_json_string_or(item, "Protocol", "tcp"), protocol) == 0 &&
                strcmp(mst_json_string_or(item, "PublishMode", "ingress"), "ingress") == 0)
                return service;
        }
    }
    return NULL;
}

int check_ports(const struct compose_project *project, const struct live *live, struct mst_error *err)
{
    for (size_t s = 0; s < project->service_count; s++) {
        const struct compose_service *service = &project->services[s];
        for (size_t i = 0; i < service->port_count; i++) {
            const struct compose_port *port = &service->ports[i];
            const cJSON *other;
            if (port->published == 0 || (port->mode && strcmp(port->mode, "ingress") != 0))
                continue;
            other = publisher(live->other_services, port);
            if (other)
                return check_fail_at(err, port->place, -EADDRINUSE,
                                     "services.%s.ports: port %u/%s is published by service '%s' already",
                                     service->key, (unsigned)port->published,
                                     port->protocol ? port->protocol : "tcp",
                                     live_name(other, ENGINE_SERVICE));
        }
    }
    return 0;
}

int check_modes(const struct compose_project *project, const struct live *live, struct mst_error *err)
{
    static const struct {
        const char *key, *text;
    } modes[] = {
        [COMPOSE_MODE_REPLICATED] = {"Replicated", "replicated"},
        [COMPOSE_MODE_GLOBAL] = {"Global", "global"},
        [COMPOSE_MODE_REPLICATED_JOB] = {"ReplicatedJob", "replicated-job"},
        [COMPOSE_MODE_GLOBAL_JOB] = {"GlobalJob", "global-job"},
    };

    for (size_t s = 0; s < project->service_count; s++) {
        const struct compose_service *service = &project->services[s];
        const cJSON *found = live_find(live->services, ENGINE_SERVICE, service->name);
        const cJSON *mode = mst_json_at(found, "Spec", "Mode", NULL);
        if (!mode || mst_json_at(mode, modes[service->deploy.mode].key, NULL))
            continue;
        for (size_t i = 0; i < MST_ARRAY_COUNT(modes); i++) {
            if (mst_json_at(mode, modes[i].key, NULL))
                return check_fail_at(err, service->place, -EREMOTEIO,
                                     "services.%s.deploy.mode: the live service is %s, and no service can "
                                     "become %s: remove it first, or give the new one another name",
                                     service->key, modes[i].text, modes[service->deploy.mode].text);
        }
    }
    return 0;
}
