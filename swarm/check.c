/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include "check_private.h"
#include "muster/cleanup.h"
#include "muster/json.h"
#include "stack.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

int check_fail_at(struct mst_error *err, struct compose_place place, int code, const char *format, ...)
{
    char text[MST_ERROR_TEXT_BYTES];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (!place.file)
        return mst_error_set(err, code, "%s", text);
    return mst_error_set(err, code, "%s:%" PRIu32 ":%" PRIu32 ": %s", place.file, place.line, place.column,
                         text);
}

int check_project(const struct compose_project *project, struct mst_error *err)
{
    for (size_t s = 0; s < project->service_count; s++) {
        const struct compose_service *service = &project->services[s];
        for (size_t i = 0; i < service->deploy.constraints.count; i++) {
            struct constraint constraint;
            struct mst_error inner = MST_ERROR_INIT;
            if (constraint_parse(service->deploy.constraints.items[i], &constraint, &inner) < 0)
                return check_fail_at(err, service->place, -EBADMSG, "services.%s.deploy.placement: %s",
                                     service->key, inner.text);
        }
    }
    return 0;
}

/* "node1, node2, node3" */
/* A list in a message: as many as fit, and how many do not. */
struct listing {
    struct mst_buf text;
    size_t left_out;
    char more[32];
};

#define LISTING_INIT                                                                                         \
    {                                                                                                        \
        .text = MST_BUF_INIT(512)                                                                            \
    }

static void listing_release(struct listing *listing)
{
    mst_buf_release(&listing->text);
}

static void listing_add(struct listing *listing, const char *between, const char *quote, const char *name)
{
    if (listing->left_out > 0 ||
        mst_buf_printf(&listing->text, "%s%s%s%s", listing->text.count > 0 ? between : "", quote, name,
                       quote) < 0)
        (void)snprintf(listing->more, sizeof listing->more, " and %zu more", ++listing->left_out);
}

static void usable_names(const struct swarm_nodes *nodes, struct listing *names)
{
    for (size_t i = 0; i < nodes->count; i++) {
        if (nodes->items[i].is_usable)
            listing_add(names, ", ", "", nodes->items[i].hostname);
    }
}

static int check_pin(const struct compose_service *service, const struct constraint *constraint,
                     const struct swarm_nodes *nodes, struct mst_error *err)
{
    mst_cleanup(listing_release) struct listing names = LISTING_INIT;
    size_t usable = 0, known = 0;

    if (constraint->must_differ ||
        (strcasecmp(constraint->key, "node.hostname") != 0 && strcasecmp(constraint->key, "node.id") != 0))
        return 0;
    for (size_t i = 0; i < nodes->count; i++) {
        const bool is_allowed = constraint_allows(constraint, &nodes->items[i]);
        known += is_allowed;
        usable += is_allowed && nodes->items[i].is_usable;
    }
    if (usable == 1)
        return 0;
    usable_names(nodes, &names);
    if (known == 0)
        return check_fail_at(err, service->place, SWARM_NO_CONVERGENCE,
                             "services.%s: no node has %s '%s' (ready nodes: %s%s)", service->key,
                             constraint->key, constraint->value, mst_buf_text(&names.text), names.more);
    if (usable == 0)
        return check_fail_at(
            err, service->place, SWARM_NO_CONVERGENCE,
            "services.%s: the node with %s '%s' is not ready or not active (ready nodes: %s%s)", service->key,
            constraint->key, constraint->value, mst_buf_text(&names.text), names.more);
    return check_fail_at(err, service->place, SWARM_NO_CONVERGENCE,
                         "services.%s: %zu nodes have %s '%s'; pin by node.id or a label", service->key,
                         usable, constraint->key, constraint->value);
}

/* Names the one that no usable node meets, or all of them, when it takes them together. */
static int refuse_constraints(const struct compose_service *service, const struct swarm_nodes *nodes,
                              struct mst_error *err)
{
    mst_cleanup(listing_release) struct listing all = LISTING_INIT;
    const struct compose_deploy *deploy = &service->deploy;
    const struct compose_place *places = deploy->constraint_places;

    for (size_t i = 0; i < deploy->constraints.count; i++) {
        const struct compose_strings one = {&deploy->constraints.items[i], 1};
        if (constraints_count_nodes(&one, nodes) == 0)
            return check_fail_at(err, places ? places[i] : service->place, SWARM_NO_CONVERGENCE,
                                 "services.%s: none of the %zu ready nodes meets '%s'", service->key,
                                 nodes->usable_count, one.items[0]);
        listing_add(&all, " and ", "'", one.items[0]);
    }
    return check_fail_at(err, places && deploy->constraints.count > 0 ? places[0] : service->place,
                         SWARM_NO_CONVERGENCE, "services.%s: none of the %zu ready nodes meets all of %s%s",
                         service->key, nodes->usable_count, mst_buf_text(&all.text), all.more);
}

int check_pins(const struct compose_project *project, const struct swarm_nodes *nodes, struct mst_error *err)
{
    for (size_t s = 0; s < project->service_count; s++) {
        const struct compose_service *service = &project->services[s];
        const struct compose_deploy *deploy = &service->deploy;
        const bool is_global = deploy->mode == COMPOSE_MODE_GLOBAL || deploy->mode == COMPOSE_MODE_GLOBAL_JOB;

        if (!is_global && deploy->replicas.is_set && deploy->replicas.value == 0)
            continue;
        for (size_t i = 0; i < deploy->constraints.count; i++) {
            struct constraint constraint;
            int r = constraint_parse(deploy->constraints.items[i], &constraint, err);
            if (r >= 0)
                r = check_pin(service, &constraint, nodes, err);
            if (r < 0)
                return r;
        }
        /* A global service without a node has nothing to run, and that is its end. */
        if (!is_global && constraints_count_nodes(&deploy->constraints, nodes) == 0)
            return refuse_constraints(service, nodes, err);
    }
    return 0;
}

static int refuse_subnet(const struct compose_network *network, const char *text, struct mst_cidr cidr,
                         const struct subnets *used, const struct subnet_use *use, struct mst_error *err)
{
    char address[MST_IPV4_TEXT_BYTES], proposal[MST_IPV4_TEXT_BYTES];
    struct mst_cidr other;

    (void)mst_ipv4_text(use->cidr.network, address);
    if (subnets_propose(used, cidr.prefix, &other) < 0)
        return check_fail_at(err, network->place, -EADDRINUSE,
                             "networks.%s: subnet %s overlaps %s (%s/%" PRIu32 ")", network->key, text,
                             use->owner, address, use->cidr.prefix);
    return check_fail_at(err, network->place, -EADDRINUSE,
                         "networks.%s: subnet %s overlaps %s (%s/%" PRIu32 "); %s/%" PRIu32 " is free",
                         network->key, text, use->owner, address, use->cidr.prefix,
                         mst_ipv4_text(other.network, proposal), other.prefix);
}

int check_subnets(const struct compose_project *project, const struct live *live, struct subnets *used,
                  struct mst_error *err)
{
    for (size_t n = 0; n < project->network_count; n++) {
        const struct compose_network *network = &project->networks[n];

        if (network->external || !network->is_used ||
            live_find(live->networks, ENGINE_NETWORK, network->name))
            continue;
        for (size_t i = 0; i < network->subnet_count; i++) {
            const char *text = network->subnets[i].subnet;
            const struct subnet_use *use;
            struct mst_cidr cidr;
            int r;
            if (!text || strchr(text, ':'))
                continue; /* IPv6: the engine looks at it */
            if (mst_parse_cidr(text, &cidr, NULL) < 0)
                return check_fail_at(err, network->place, -EBADMSG,
                                     "networks.%s: '%s' is not a subnet such as 10.1.0.0/24", network->key,
                                     text);
            use = subnets_overlap(used, cidr, NULL);
            if (use)
                return refuse_subnet(network, text, cidr, used, use, err);
            /* The next one of the same file must not overlap it either. */
            r = subnets_add(used, cidr, "network", network->name, err);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

static int note_live(const cJSON *list, enum engine_kind kind, struct spec_ids *ids, struct mst_error *err)
{
    const cJSON *object;

    cJSON_ArrayForEach(object, list)
    {
        const int r = spec_ids_add(ids, kind, live_name(object, kind), live_id(object, kind), err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int check_external(struct engine *engine, enum engine_kind kind, const char *section, const char *key,
                          const char *name, struct compose_place place, bool may_be_missing,
                          struct spec_ids *ids, struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *object = NULL;
    int r = engine_find(engine, kind, name, &object, err);

    if (r < 0)
        return r;
    if (!object && may_be_missing)
        return 0;
    if (!object)
        return check_fail_at(err, place, -ENOENT, "%s.%s: declared as external, but the swarm has no %s '%s'",
                             section, key, engine_kind_text(kind), name);
    if (kind == ENGINE_NETWORK && strcmp(mst_json_string_or(object, "Scope", ""), "swarm") != 0)
        return check_fail_at(err, place, -ENOENT,
                             "%s.%s: network '%s' is local to one node; a stack needs scope swarm", section,
                             key, name);
    return spec_ids_add(ids, kind, name, live_id(object, kind), err);
}

static int check_external_contents(struct engine *engine, enum engine_kind kind, const char *section,
                                   const struct compose_content *contents, size_t count, struct spec_ids *ids,
                                   struct mst_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const struct compose_content *c = &contents[i];
        int r;
        if (!c->external || (!c->is_used && c->generate_bytes == 0))
            continue;
        r = check_external(engine, kind, section, c->key, c->name, c->place, c->generate_bytes > 0, ids, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int check_references(struct engine *engine, const struct compose_project *project, const struct live *live,
                     struct spec_ids *ids, struct mst_error *err)
{
    int r = note_live(live->networks, ENGINE_NETWORK, ids, err);

    if (r >= 0)
        r = note_live(live->secrets, ENGINE_SECRET, ids, err);
    if (r >= 0)
        r = note_live(live->configs, ENGINE_CONFIG, ids, err);
    for (size_t i = 0; i < project->network_count && r >= 0; i++) {
        const struct compose_network *n = &project->networks[i];
        if (n->external && n->is_used && !spec_network_is_predefined(n->name))
            r = check_external(engine, ENGINE_NETWORK, "networks", n->key, n->name, n->place, false, ids,
                               err);
    }
    if (r >= 0)
        r = check_external_contents(engine, ENGINE_SECRET, "secrets", project->secrets, project->secret_count,
                                    ids, err);
    if (r >= 0)
        r = check_external_contents(engine, ENGINE_CONFIG, "configs", project->configs, project->config_count,
                                    ids, err);
    return r;
}
