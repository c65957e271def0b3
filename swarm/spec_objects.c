/* SPDX-License-Identifier: Apache-2.0 */
/* Networks, secrets and configs, and the table of ids that services are attached by. */
#include "build.h"
#include "muster/cleanup.h"
#include "muster/json.h"
#include "spec.h"
#include "stack.h"

#include <stdio.h>
#include <string.h>

int spec_network(const struct compose_project *project, const struct compose_network *network,
                 cJSON **ret_body, struct mst_error *err)
{
    struct build build = {0};
    mst_cleanup(mst_json_deletep) cJSON *body = build_object(&build, NULL, NULL);
    cJSON *ipam, *configs;

    build_text(&build, body, "Name", network->name);
    build_text(&build, body, "Driver", network->driver ? network->driver : "overlay");
    build_bool_if(&build, body, "Internal", network->internal);
    build_bool_if(&build, body, "Attachable", network->attachable);
    if (network->enable_ipv6.is_set && body &&
        !cJSON_AddBoolToObject(body, "EnableIPv6", network->enable_ipv6.value))
        build.no_memory = true;
    (void)build_pairs_if(&build, body, "Options", &network->driver_opts);
    (void)build_labels(&build, body, "Labels", &network->labels, project->stack);
    if (network->ipam_driver || network->subnet_count > 0) {
        ipam = build_object(&build, body, "IPAM");
        build_text_if(&build, ipam, "Driver", network->ipam_driver);
        configs = build_array(&build, ipam, "Config");
        for (size_t i = 0; configs && i < network->subnet_count; i++) {
            cJSON *item = build_append(&build, configs);

            build_text_if(&build, item, "Subnet", network->subnets[i].subnet);
            build_text_if(&build, item, "Gateway", network->subnets[i].gateway);
            build_text_if(&build, item, "IPRange", network->subnets[i].ip_range);
        }
    }
    if (build.no_memory)
        return mst_error_set(err, -ENOMEM, "network '%s': no memory for its specification", network->name);
    *ret_body = body;
    body = NULL;
    return 0;
}

int spec_content(const struct compose_project *project, const struct compose_content *content,
                 const char *actual, const void *bytes, size_t byte_count, cJSON **ret_body,
                 struct mst_error *err)
{
    struct build build = {0};
    mst_cleanup(mst_json_deletep) cJSON *body = build_object(&build, NULL, NULL);
    cJSON *driver, *labels;

    build_text(&build, body, "Name", actual);
    labels = build_labels(&build, body, "Labels", &content->labels, project->stack);
    if (strcmp(actual, content->name) != 0) {
        cJSON_DeleteItemFromObjectCaseSensitive(labels, VERSION_LABEL);
        build_text(&build, labels, VERSION_LABEL, content->name);
    }
    if (byte_count > 0)
        build_base64(&build, body, "Data", bytes, byte_count);
    if (content->driver) {
        driver = build_object(&build, body, "Driver");
        build_text(&build, driver, "Name", content->driver);
        (void)build_pairs_if(&build, driver, "Options", &content->driver_opts);
    }
    if (content->template_driver)
        build_text(&build, build_object(&build, body, "Templating"), "Name", content->template_driver);
    if (build.no_memory)
        return mst_error_set(err, -ENOMEM, "'%s': no memory for its specification", content->name);
    *ret_body = body;
    body = NULL;
    return 0;
}

int spec_ids_add(struct spec_ids *ids, enum engine_kind kind, const char *name, const char *id,
                 struct mst_error *err)
{
    return spec_ids_add_version(ids, kind, name, name, id, err);
}

int spec_ids_add_version(struct spec_ids *ids, enum engine_kind kind, const char *name, const char *actual,
                         const char *id, struct mst_error *err)
{
    struct spec_id *items;

    if (strlen(name) >= ENGINE_NAME_MAX_BYTES || strlen(actual) >= ENGINE_NAME_MAX_BYTES ||
        strlen(id) >= ENGINE_NAME_MAX_BYTES)
        return mst_error_set(err, -EPROTO, "%s '%.64s...': its name or id is too long",
                             engine_kind_text(kind), name);
    spec_ids_forget(ids, kind, name);
    items = reallocarray(ids->items, ids->count + 1, sizeof *items);
    if (!items)
        return mst_error_set(err, -ENOMEM, "%s '%s': no memory", engine_kind_text(kind), name);
    ids->items = items;
    items[ids->count].kind = kind;
    (void)snprintf(items[ids->count].name, sizeof items->name, "%s", name);
    (void)snprintf(items[ids->count].actual, sizeof items->actual, "%s", actual);
    (void)snprintf(items[ids->count].id, sizeof items->id, "%s", id);
    ids->count++;
    return 0;
}

const char *spec_ids_find(const struct spec_ids *ids, enum engine_kind kind, const char *name)
{
    for (size_t i = 0; i < ids->count; i++) {
        if (ids->items[i].kind == kind && strcmp(ids->items[i].name, name) == 0)
            return ids->items[i].id;
    }
    return NULL;
}

const char *spec_ids_actual(const struct spec_ids *ids, enum engine_kind kind, const char *name)
{
    for (size_t i = 0; i < ids->count; i++) {
        if (ids->items[i].kind == kind && strcmp(ids->items[i].name, name) == 0)
            return ids->items[i].actual;
    }
    return name;
}

void spec_ids_forget(struct spec_ids *ids, enum engine_kind kind, const char *name)
{
    for (size_t i = 0; i < ids->count; i++) {
        if (ids->items[i].kind == kind && strcmp(ids->items[i].name, name) == 0)
            ids->items[i--] = ids->items[--ids->count];
    }
}

void spec_ids_release(struct spec_ids *ids)
{
    free(ids->items);
    *ids = (struct spec_ids){0};
}
