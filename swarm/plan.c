/* SPDX-License-Identifier: Apache-2.0 */
#include "plan.h"

#include "autoscale/keep.h"
#include "check.h"
#include "compare.h"
#include "muster/cleanup.h"
#include "muster/file.h"
#include "muster/json.h"
#include "plan_private.h"
#include "stack.h"
#include "versions.h"

#include <stdio.h>
#include <string.h>

#define ROUTES_PATH       "/proc/net/route"
#define ROUTES_MAX_BYTES  ((size_t)1 << 20)
#define CHANGES_MAX_BYTES ((size_t)64 << 10)

const char *plan_action_text(enum plan_action action)
{
    static const char *const texts[] = {
        [PLAN_KEEP] = "keep", [PLAN_CREATE] = "create", [PLAN_UPDATE] = "update", [PLAN_REMOVE] = "remove"};

    return texts[action];
}

struct plan_step *plan_add_step(struct plan *plan, enum engine_kind kind, enum plan_action action,
                                size_t index, const char *name, const char *id, struct mst_error *err)
{
    struct plan_step *steps = reallocarray(plan->steps, plan->count + 1, sizeof *steps);
    struct plan_step *step;

    if (steps) {
        plan->steps = steps;
        step = &steps[plan->count];
        *step = (struct plan_step){.kind = kind, .action = action, .index = index, .name = strdup(name)};
        plan->count++;
        if (id)
            step->id = strdup(id);
        if (step->name && (!id || step->id))
            return step;
    }
    (void)mst_error_set(err, -ENOMEM, "plan: no memory");
    return NULL;
}

static void note_change(void *context, const char *path, const cJSON *desired, const cJSON *live)
{
    compare_add_line(context, path, desired, live);
}

static int plan_networks(struct plan *plan, struct report *report, struct mst_error *err)
{
    const struct compose_project *project = plan->project;

    for (size_t i = 0; i < project->network_count; i++) {
        const struct compose_network *network = &project->networks[i];
        mst_cleanup(mst_buf_release) struct mst_buf changes = MST_BUF_INIT(CHANGES_MAX_BYTES);
        mst_cleanup(mst_json_deletep) cJSON *body = NULL;
        const cJSON *live;
        int r;

        if (network->external || !network->is_used)
            continue;
        live = live_find(plan->live.networks, ENGINE_NETWORK, network->name);
        if (!plan_add_step(plan, ENGINE_NETWORK, live ? PLAN_KEEP : PLAN_CREATE, i, network->name,
                           live ? live_id(live, ENGINE_NETWORK) : NULL, err))
            return -ENOMEM;
        if (!live)
            continue;
        r = spec_network(project, network, &body, err);
        if (r < 0)
            return r;
        /* Recreating a network would cut every task off: that is the operator's to decide. */
        if (compare_network(body, live, note_change, &changes) > 0)
            report_line(report,
                        "warning: network '%s' is not as the file says, and stays so until the stack is "
                        "removed: %.*s",
                        network->name, (int)strcspn(mst_buf_text(&changes), "\n"), mst_buf_text(&changes));
    }
    return 0;
}

int plan_service_body(const struct plan *plan, size_t index, const cJSON *live, cJSON **ret_body,
                      struct mst_error *err)
{
    const struct spec_image image = {plan->images.items[index].image, plan->images.items[index].platforms};
    const struct spec_kept kept = {
        .force_update = mst_json_u64_or(mst_json_at(live, "Spec", "TaskTemplate", NULL), "ForceUpdate", 0),
    };
    mst_cleanup(mst_json_deletep) cJSON *body = NULL;
    int r =
        spec_service(plan->project, &plan->project->services[index], &plan->ids, &image, &kept, &body, err);

    if (r >= 0)
        r = autoscale_keep(body, live, err);
    if (r < 0)
        return r;
    *ret_body = body;
    body = NULL;
    return 0;
}

/* What it depends on comes first; else the file's order. compose/ has seen to it that there is no circle. */
static void put_in_order(const struct compose_project *project, size_t index, bool *is_in, size_t *order,
                         size_t *count)
{
    const struct compose_service *service = &project->services[index];

    if (is_in[index])
        return;
    is_in[index] = true;
    for (size_t i = 0; i < service->depends_on_count; i++) {
        if (service->depends_on[i].service)
            put_in_order(project, (size_t)(service->depends_on[i].service - project->services), is_in, order,
                         count);
    }
    order[(*count)++] = index;
}

static int plan_services(struct plan *plan, struct mst_error *err)
{
    const size_t all = plan->project->service_count;
    mst_cleanup(mst_freep) bool *is_in = calloc(all + 1, sizeof *is_in);
    mst_cleanup(mst_freep) size_t *order = calloc(all + 1, sizeof *order);
    size_t count = 0;

    if (!is_in || !order)
        return mst_error_set(err, -ENOMEM, "plan: no memory");
    for (size_t i = 0; i < all; i++)
        put_in_order(plan->project, i, is_in, order, &count);
    for (size_t k = 0; k < count; k++) {
        const size_t i = order[k];
        const char *name = plan->project->services[i].name;
        mst_cleanup(mst_buf_release) struct mst_buf changes = MST_BUF_INIT(CHANGES_MAX_BYTES);
        mst_cleanup(mst_json_deletep) cJSON *body = NULL;
        const cJSON *live = live_find(plan->live.services, ENGINE_SERVICE, name);
        struct plan_step *step = plan_add_step(plan, ENGINE_SERVICE, live ? PLAN_KEEP : PLAN_CREATE, i, name,
                                               live ? live_id(live, ENGINE_SERVICE) : NULL, err);
        int r;

        if (!step)
            return -ENOMEM;
        if (!live)
            continue;
        r = plan_service_body(plan, i, live, &body, err);
        if (r < 0)
            return r;
        if (compare_service(body, mst_json_at(live, "Spec", NULL), note_change, &changes) == 0)
            continue;
        step->action = PLAN_UPDATE;
        step->changes = strdup(mst_buf_text(&changes));
        if (!step->changes)
            return mst_error_set(err, -ENOMEM, "plan: no memory");
    }
    return 0;
}

static bool is_wanted(const struct compose_project *project, enum engine_kind kind, const cJSON *object)
{
    const char *name = live_name(object, kind);

    for (size_t i = 0; kind == ENGINE_SERVICE && i < project->service_count; i++) {
        if (strcmp(project->services[i].name, name) == 0)
            return true;
    }
    for (size_t i = 0; kind == ENGINE_NETWORK && i < project->network_count; i++) {
        if (strcmp(project->networks[i].name, name) == 0)
            return true;
    }
    for (size_t i = 0; kind == ENGINE_SECRET && i < project->secret_count; i++) {
        if (version_belongs(object, project->secrets[i].name))
            return true;
    }
    for (size_t i = 0; kind == ENGINE_CONFIG && i < project->config_count; i++) {
        if (version_belongs(object, project->configs[i].name))
            return true;
    }
    return false;
}

static int plan_removals(struct plan *plan, struct mst_error *err)
{
    const struct {
        enum engine_kind kind;
        const cJSON *list;
    } lists[] = {{ENGINE_SERVICE, plan->live.services},
                 {ENGINE_SECRET, plan->live.secrets},
                 {ENGINE_CONFIG, plan->live.configs},
                 {ENGINE_NETWORK, plan->live.networks}};

    for (size_t i = 0; i < MST_ARRAY_COUNT(lists); i++) {
        const cJSON *object;
        cJSON_ArrayForEach(object, lists[i].list)
        {
            const char *name = live_name(object, lists[i].kind);
            if (!is_wanted(plan->project, lists[i].kind, object) &&
                !plan_add_step(plan, lists[i].kind, PLAN_REMOVE, 0, name, live_id(object, lists[i].kind),
                               err))
                return -ENOMEM;
        }
    }
    return 0;
}

static int check_addresses(const struct plan *plan, struct mst_error *err)
{
    mst_cleanup(subnets_release) struct subnets used = {0};
    mst_cleanup(mst_buf_release) struct mst_buf routes = MST_BUF_INIT(ROUTES_MAX_BYTES);
    int r = subnets_add_networks(&used, plan->live.networks, err);

    if (r >= 0)
        r = subnets_add_networks(&used, plan->live.other_networks, err);
    if (r >= 0)
        r = subnets_add_nodes(&used, &plan->nodes, err);
    if (r >= 0)
        r = mst_file_read(ROUTES_PATH, &routes, err);
    if (r >= 0)
        r = subnets_add_routes(&used, mst_buf_text(&routes), err);
    return r < 0 ? r : check_subnets(plan->project, &plan->live, &used, err);
}

static int check_manager(const struct engine_info *info, const char *host, struct mst_error *err)
{
    if (info->is_manager)
        return 0;
    if (strcmp(info->local_state, "active") == 0)
        return mst_error_set(err, -EREMOTEIO,
                             "the engine at %s ('%s') is a worker of its swarm; talk to a manager", host,
                             info->name);
    return mst_error_set(
        err, -EREMOTEIO,
        "the engine at %s ('%s') is not in a swarm (state %s); 'docker swarm init' makes one", host,
        info->name, info->local_state);
}

/* Reads and checks, in the order of what costs least. */
static int gather(struct session *session, struct plan *plan, const struct plan_options *options,
                  struct mst_error *err)
{
    int r = check_project(plan->project, err);

    if (r >= 0)
        r = session_info(session, &plan->info, err);
    if (r >= 0)
        r = check_manager(&plan->info, engine_host(session->engine), err);
    if (r >= 0)
        r = swarm_nodes_load(session->engine, &plan->nodes, err);
    if (r >= 0)
        r = check_pins(plan->project, &plan->nodes, err);
    if (r >= 0)
        r = live_load(session->engine, plan->project->stack, &plan->live, err);
    if (r >= 0)
        r = check_names(plan->project, &plan->live, err);
    if (r >= 0)
        r = check_ports(plan->project, &plan->live, err);
    if (r >= 0)
        r = check_modes(plan->project, &plan->live, err);
    if (r >= 0)
        r = check_references(session->engine, plan->project, &plan->live, &plan->ids, err);
    if (r >= 0)
        r = check_addresses(plan, err);
    if (r >= 0)
        r = images_resolve(session->engine, plan->project, plan->live.services, options->resolve,
                           options->with_auth, options->local, &session->report, &plan->images, err);
    return r;
}

int plan_make(struct session *session, const struct compose_project *project,
              const struct plan_options *options, struct plan *ret_plan, struct mst_error *err)
{
    int r;

    *ret_plan = (struct plan){.project = project, .asks_secrets = options->ask_secrets};
    r = gather(session, ret_plan, options, err);
    if (r >= 0)
        r = plan_networks(ret_plan, &session->report, err);
    if (r >= 0)
        r = plan_contents(ret_plan, session->engine, ENGINE_SECRET, err);
    if (r >= 0)
        r = plan_contents(ret_plan, session->engine, ENGINE_CONFIG, err);
    if (r >= 0)
        r = plan_services(ret_plan, err);
    if (r >= 0)
        r = plan_old_versions(ret_plan, ENGINE_SECRET, err);
    if (r >= 0)
        r = plan_old_versions(ret_plan, ENGINE_CONFIG, err);
    if (r >= 0 && options->prune)
        r = plan_removals(ret_plan, err);
    return r;
}

void plan_release(struct plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        free(plan->steps[i].name);
        free(plan->steps[i].id);
        free(plan->steps[i].changes);
    }
    free(plan->steps);
    images_release(&plan->images);
    spec_ids_release(&plan->ids);
    live_release(&plan->live);
    swarm_nodes_release(&plan->nodes);
    *plan = (struct plan){0};
}

bool plan_has_changes(const struct plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        if (plan->steps[i].action != PLAN_KEEP)
            return true;
    }
    return false;
}
