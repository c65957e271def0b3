/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets and configs of a plan: which version is the file's, and which are not needed any more. */
#include "muster/buf.h"
#include "muster/cleanup.h"
#include "muster/json.h"
#include "plan_private.h"
#include "stack.h"
#include "versions.h"

#include <string.h>

#define NOT_COMPARED "content not compared (plan --ask-secrets does)"

struct contents {
    enum engine_kind kind;
    const struct compose_content *items;
    size_t count;
    const cJSON *list, *others; /* what lives */
};

static struct contents contents_of(const struct plan *plan, enum engine_kind kind)
{
    const struct compose_project *project = plan->project;

    if (kind == ENGINE_SECRET)
        return (struct contents){kind, project->secrets, project->secret_count, plan->live.secrets,
                                 plan->live.other_secrets};
    return (struct contents){kind, project->configs, project->config_count, plan->live.configs,
                             plan->live.other_configs};
}

/* The engine gives a config's content back. A secret's it does not; but it looks at the content of an update
 * before it looks at its version, and version 0 never is the object's: so the answer is either that the
 * content differs, or that the version does, and nothing is written. */
static int secret_is_same(struct engine *engine, const cJSON *live, const cJSON *body, bool *ret_is_same,
                          struct mst_error *err)
{
    struct mst_error why = MST_ERROR_INIT;
    mst_cleanup(mst_json_deletep) cJSON *question = cJSON_CreateObject();
    const char *name = live_name(live, ENGINE_SECRET);
    cJSON *data = cJSON_Duplicate(cJSON_GetObjectItemCaseSensitive(body, "Data"), true);
    cJSON *labels = cJSON_Duplicate(mst_json_at(live, "Spec", "Labels", NULL), true);
    int r;

    if (!question || !cJSON_AddStringToObject(question, "Name", name) ||
        (data && !cJSON_AddItemToObject(question, "Data", data)) ||
        (labels && !cJSON_AddItemToObject(question, "Labels", labels)))
        return mst_error_set(err, -ENOMEM, "secret '%s': no memory", name);
    r = engine_update(engine, ENGINE_SECRET, live_id(live, ENGINE_SECRET), name, 0, question, NULL, NULL,
                      &why);
    contents_forget(question);
    if (r == -EREMOTEIO && strstr(why.text, "only updates to Labels")) {
        *ret_is_same = false;
        return 0;
    }
    if (r < 0 && r != -ESTALE) {
        if (err)
            *err = why;
        return r;
    }
    *ret_is_same = true;
    return 0;
}

/* Where a value comes from (a driver) or how it is filled in (a template) cannot change either. */
static bool has_same_drivers(const cJSON *spec, const cJSON *body)
{
    static const char *const keys[] = {"Driver", "Templating"};

    for (size_t i = 0; i < MST_ARRAY_COUNT(keys); i++) {
        const cJSON *live = mst_json_at(spec, keys[i], NULL), *desired = mst_json_at(body, keys[i], NULL);
        if (strcmp(mst_json_string_or(live, "Name", ""), mst_json_string_or(desired, "Name", "")) != 0)
            return false;
    }
    return true;
}

static int is_same(struct engine *engine, enum engine_kind kind, bool asks, const cJSON *live,
                   const cJSON *body, bool *ret_is_same, struct mst_error *err)
{
    const cJSON *spec = mst_json_at(live, "Spec", NULL);

    *ret_is_same = has_same_drivers(spec, body);
    if (!*ret_is_same)
        return 0;
    if (kind == ENGINE_SECRET && asks)
        return secret_is_same(engine, live, body, ret_is_same, err);
    if (kind == ENGINE_CONFIG)
        *ret_is_same =
            strcmp(mst_json_string_or(body, "Data", ""), mst_json_string_or(spec, "Data", "")) == 0;
    return 0;
}

/* The stack's services refer to one of the versions: that one first, for it is as the file said last. */
static void put_current_first(const struct plan *plan, enum engine_kind kind, struct versions *versions)
{
    for (size_t i = 0; i < versions->count; i++) {
        const cJSON *current = versions->items[i], *service;
        cJSON_ArrayForEach(service, plan->live.services)
        {
            if (!version_is_referred(mst_json_at(service, "Spec", NULL), kind, live_id(current, kind)))
                continue;
            memmove(&versions->items[1], &versions->items[0], i * sizeof versions->items[0]);
            versions->items[0] = current;
            return;
        }
    }
}

/* What was found about a secret or config that lives already. */
struct found {
    const cJSON *live; /* the version that is as the file says; NULL: none is */
    size_t versions;
    bool is_guess; /* its content was not compared */
};

static int find_same(const struct plan *plan, struct engine *engine, const struct contents *contents,
                     const char *name, const cJSON *body, struct found *ret_found, struct mst_error *err)
{
    const bool has_hidden = contents->kind == ENGINE_SECRET && cJSON_HasObjectItem(body, "Data");
    struct versions versions;

    versions_find(contents->list, contents->others, name, &versions);
    *ret_found = (struct found){.versions = versions.count, .is_guess = has_hidden && !plan->asks_secrets};
    if (ret_found->is_guess)
        put_current_first(plan, contents->kind, &versions);
    for (size_t i = 0; i < versions.count && !ret_found->live; i++) {
        bool same = false;
        const int r = is_same(engine, contents->kind, has_hidden && plan->asks_secrets, versions.items[i],
                              body, &same, err);
        if (r < 0)
            return r;
        if (same)
            ret_found->live = versions.items[i];
    }
    return 0;
}

static int plan_new(struct plan *plan, const struct contents *contents, size_t index, size_t versions,
                    struct mst_error *err)
{
    const struct compose_content *content = &contents->items[index];
    char name[ENGINE_NAME_MAX_BYTES];
    struct plan_step *step;
    int r = version_name(contents->kind, content, contents->list, contents->others, name, err);

    if (r < 0)
        return r;
    step = plan_add_step(plan, contents->kind, PLAN_CREATE, index, name, NULL, err);
    if (!step)
        return -ENOMEM;
    if (versions > 0) {
        step->changes = mst_format("content changed: a new version of %s\n", content->name);
        if (!step->changes)
            return mst_error_set(err, -ENOMEM, "plan: no memory");
    }
    /* Services are compared with the name that it will have. */
    return spec_ids_add_version(&plan->ids, contents->kind, content->name, name, "", err);
}

static int plan_content(struct plan *plan, struct engine *engine, const struct contents *contents,
                        size_t index, struct mst_error *err)
{
    const struct compose_content *content = &contents->items[index];
    mst_cleanup(mst_json_deletep) cJSON *body = NULL, *labelled = NULL;
    struct found found = {0};
    struct plan_step *step;
    bool has_same_labels;
    const char *name, *id;
    int r =
        spec_content(plan->project, content, content->name, content->bytes, content->byte_count, &body, err);

    if (r >= 0)
        r = find_same(plan, engine, contents, content->name, body, &found, err);
    contents_forget(body);
    if (r < 0)
        return r;
    if (!found.live)
        return plan_new(plan, contents, index, found.versions, err);
    name = live_name(found.live, contents->kind);
    id = live_id(found.live, contents->kind);
    r = spec_content(plan->project, content, name, NULL, 0, &labelled, err);
    if (r < 0)
        return r;
    has_same_labels = cJSON_Compare(mst_json_at(labelled, "Labels", NULL),
                                    mst_json_at(found.live, "Spec", "Labels", NULL), true);
    step =
        plan_add_step(plan, contents->kind, has_same_labels ? PLAN_KEEP : PLAN_UPDATE, index, name, id, err);
    if (!step)
        return -ENOMEM;
    if (found.is_guess) {
        step->changes = strdup(NOT_COMPARED "\n");
        if (!step->changes)
            return mst_error_set(err, -ENOMEM, "plan: no memory");
    }
    return spec_ids_add_version(&plan->ids, contents->kind, content->name, name, id, err);
}

int plan_contents(struct plan *plan, struct engine *engine, enum engine_kind kind, struct mst_error *err)
{
    const struct contents contents = contents_of(plan, kind);
    int r = 0;

    for (size_t i = 0; i < contents.count && r >= 0; i++) {
        const struct compose_content *content = &contents.items[i];
        const char *id = content->external ? spec_ids_find(&plan->ids, kind, content->name) : NULL;
        if (!content->external)
            r = plan_content(plan, engine, &contents, i, err);
        else if (content->generate_bytes > 0 &&
                 !plan_add_step(plan, kind, id ? PLAN_KEEP : PLAN_CREATE, i, content->name, id, err))
            r = -ENOMEM;
    }
    return r;
}

static const struct plan_step *service_step(const struct plan *plan, const char *name)
{
    for (size_t i = 0; i < plan->count; i++) {
        if (plan->steps[i].kind == ENGINE_SERVICE && strcmp(plan->steps[i].name, name) == 0)
            return &plan->steps[i];
    }
    return NULL;
}

/* Will a service refer to it when the plan is carried out, or the specification that it could be rolled back
 * to? What is updated can be rolled back to what it is now. */
static bool will_be_referred(const struct plan *plan, enum engine_kind kind, const char *id)
{
    const cJSON *service;

    cJSON_ArrayForEach(service, plan->live.other_services)
    {
        if (version_is_referred(mst_json_at(service, "Spec", NULL), kind, id) ||
            version_is_referred(mst_json_at(service, "PreviousSpec", NULL), kind, id))
            return true;
    }
    cJSON_ArrayForEach(service, plan->live.services)
    {
        const struct plan_step *step = service_step(plan, live_name(service, ENGINE_SERVICE));
        const bool is_updated = step && step->action == PLAN_UPDATE;
        if (version_is_referred(mst_json_at(service, "Spec", NULL), kind, id) ||
            (!is_updated && version_is_referred(mst_json_at(service, "PreviousSpec", NULL), kind, id)))
            return true;
    }
    return false;
}

int plan_old_versions(struct plan *plan, enum engine_kind kind, struct mst_error *err)
{
    const struct contents contents = contents_of(plan, kind);

    for (size_t i = 0; i < contents.count; i++) {
        const char *name = contents.items[i].name;
        const char *current = spec_ids_actual(&plan->ids, kind, name);
        const cJSON *object;
        if (contents.items[i].external)
            continue;
        cJSON_ArrayForEach(object, contents.list)
        {
            const char *its = live_name(object, kind);
            if (!version_belongs(object, name) || strcmp(its, current) == 0 ||
                will_be_referred(plan, kind, live_id(object, kind)))
                continue;
            if (!plan_add_step(plan, kind, PLAN_REMOVE, 0, its, live_id(object, kind), err))
                return -ENOMEM;
        }
    }
    return 0;
}
