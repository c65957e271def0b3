/* SPDX-License-Identifier: Apache-2.0 */
#include "apply.h"

#include "compare.h"
#include "converge.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/digest.h"
#include "muster/json.h"
#include "plan_private.h"
#include "stack.h"

#include <string.h>

#define UPDATE_TRIES  4  /* the first and three more, as versions go out of sequence */
#define GHOST_TRIES   20 /* of a service whose network is still going away */
#define GHOST_WAIT_MS 250
#define ALLOCATION_TIMEOUT_MS                                                                                \
    10000 /* the manager gives a network its driver and subnet after it answered                             \
           */
#define ALLOCATION_POLL_MS  50
#define GENERATED_MAX_BYTES 1024

/* What this call made, for undoing it. */
struct made {
    enum engine_kind kind;
    char id[ENGINE_NAME_MAX_BYTES];
    const char *name; /* borrowed from the plan's step */
};

struct apply {
    struct session *session;
    struct plan *plan;
    const struct apply_options *options;
    bool shall_stand; /* the failure is one of the services, not of a write */
    struct made *made;
    size_t made_count;
};

static void remember(struct apply *apply, const struct plan_step *step, const char *id)
{
    struct made *made = &apply->made[apply->made_count++]; /* there is one for each step */

    made->kind = step->kind;
    made->name = step->name;
    (void)snprintf(made->id, sizeof made->id, "%s", id);
    report_line(&apply->session->report, "created %s %s", engine_kind_text(step->kind), step->name);
}

/* A create whose reply was lost may have happened: look the name up before it is called a failure. A name
 * that is there although it was not when the plan was made tells of another deployment of this stack. */
static int create(struct apply *apply, const struct plan_step *step, const cJSON *body, const char *header,
                  char ret_id[static ENGINE_NAME_MAX_BYTES], struct mst_error *err)
{
    struct engine *engine = apply->session->engine;
    mst_cleanup(mst_json_deletep) cJSON *object = NULL;
    const char *const headers[] = {header, NULL};
    int r = engine_create(engine, step->kind, step->name, body, header ? headers : NULL, ret_id, err);

    if (r >= 0 || r == -EREMOTEIO || r == -ECANCELED || r == -ENOMEM)
        return r;
    if (engine_find(engine, step->kind, step->name, &object, NULL) < 0 || !object ||
        !live_belongs(object, step->kind, apply->plan->project->stack))
        return r == -EEXIST ? -EREMOTEIO : r;
    if (r == -EEXIST)
        return mst_error_set(err, r,
                             "%s '%s' was made by somebody else meanwhile: stack '%s' is being deployed "
                             "twice at a time",
                             engine_kind_text(step->kind), step->name, apply->plan->project->stack);
    (void)snprintf(ret_id, ENGINE_NAME_MAX_BYTES, "%s", live_id(object, step->kind));
    return 0;
}

/* The engine takes an overlapping subnet at first, and then never gives the network a driver
 * (moby/moby#48069). */
static int await_allocation(struct apply *apply, const char *id, const char *name, struct mst_error *err)
{
    const uint64_t deadline_ns = mst_now_ns() + ALLOCATION_TIMEOUT_MS * MST_NS_PER_MS;

    for (;;) {
        mst_cleanup(mst_json_deletep) cJSON *network = NULL;
        int r = engine_find(apply->session->engine, ENGINE_NETWORK, id, &network, err);
        if (r < 0)
            return r;
        if (network && mst_json_string_or(network, "Driver", "")[0] != '\0' &&
            cJSON_GetArraySize(mst_json_at(network, "IPAM", "Config", NULL)) > 0)
            return 0;
        r = session_wait(apply->session, ALLOCATION_POLL_MS, deadline_ns, err);
        if (r == -ETIMEDOUT)
            return mst_error_set(
                err, -EREMOTEIO,
                "network '%s': the manager gave it no driver or subnet in %d ms; its subnet may overlap "
                "another network's",
                name, ALLOCATION_TIMEOUT_MS);
        if (r < 0)
            return r;
    }
}

static int apply_network(struct apply *apply, const struct plan_step *step, struct mst_error *err)
{
    const struct compose_network *network = &apply->plan->project->networks[step->index];
    mst_cleanup(mst_json_deletep) cJSON *body = NULL;
    char id[ENGINE_NAME_MAX_BYTES];
    int r;

    if (step->action == PLAN_KEEP)
        return 0;
    r = spec_network(apply->plan->project, network, &body, err);
    if (r >= 0)
        r = create(apply, step, body, NULL, id, err);
    if (r < 0)
        return r;
    remember(apply, step, id);
    r = await_allocation(apply, id, network->name, err);
    return r < 0 ? r : spec_ids_add(&apply->plan->ids, ENGINE_NETWORK, network->name, id, err);
}

void contents_forget(cJSON *body)
{
    cJSON *data = cJSON_GetObjectItemCaseSensitive(body, "Data");

    if (cJSON_IsString(data))
        mst_forget(data->valuestring, strlen(data->valuestring));
}

static int create_content(struct apply *apply, const struct plan_step *step,
                          const struct compose_content *content, const void *bytes, size_t count,
                          struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *body = NULL;
    char id[ENGINE_NAME_MAX_BYTES];
    int r = spec_content(apply->plan->project, content, step->name, bytes, count, &body, err);

    if (r >= 0)
        r = create(apply, step, body, NULL, id, err);
    contents_forget(body);
    if (r < 0)
        return r;
    remember(apply, step, id);
    return spec_ids_add_version(&apply->plan->ids, step->kind, content->name, step->name, id, err);
}

static int generate_secret(struct apply *apply, const struct plan_step *step,
                           const struct compose_content *content, struct mst_error *err)
{
    unsigned char bytes[GENERATED_MAX_BYTES];
    const size_t count = content->generate_bytes;
    int r;

    if (count > sizeof bytes)
        return mst_error_set(err, -EINVAL, "secret '%s': at most %zu bytes are generated", content->name,
                             sizeof bytes);
    r = mst_random(bytes, count, err);
    if (r >= 0)
        r = create_content(apply, step, content, bytes, count, err);
    mst_forget(bytes, sizeof bytes);
    return r;
}

/* Only labels of a secret or config can change: without data, the content stays as it is. */
static int update_content(struct apply *apply, const struct plan_step *step,
                          const struct compose_content *content, struct mst_error *err)
{
    struct engine *engine = apply->session->engine;
    mst_cleanup(mst_json_deletep) cJSON *body = NULL;
    int r = spec_content(apply->plan->project, content, step->name, NULL, 0, &body, err);

    for (int try = 0; r >= 0 && try < UPDATE_TRIES; try++) {
        mst_cleanup(mst_json_deletep) cJSON *object = NULL;
        r = engine_find(engine, step->kind, step->id, &object, err);
        if (r >= 0 && !object)
            r = mst_error_set(err, -EREMOTEIO, "%s '%s' went away meanwhile", engine_kind_text(step->kind),
                              step->name);
        if (r < 0)
            break;
        r = engine_update(engine, step->kind, step->id, step->name, live_version(object), body, NULL, NULL,
                          err);
        if (r >= 0)
            report_line(&apply->session->report, "updated %s %s (labels)", engine_kind_text(step->kind),
                        step->name);
        if (r != -ESTALE)
            break;
        r = try + 1 < UPDATE_TRIES ? 0 : mst_error_wrap(err, -EREMOTEIO, "%d tries", UPDATE_TRIES);
    }
    return r;
}

static int apply_content(struct apply *apply, const struct plan_step *step, struct mst_error *err)
{
    const struct compose_project *project = apply->plan->project;
    const struct compose_content *content =
        step->kind == ENGINE_SECRET ? &project->secrets[step->index] : &project->configs[step->index];

    if (step->action == PLAN_CREATE && content->external)
        return generate_secret(apply, step, content, err);
    if (step->action == PLAN_CREATE)
        return create_content(apply, step, content, content->bytes, content->byte_count, err);
    if (step->action == PLAN_UPDATE)
        return update_content(apply, step, content, err);
    return 0;
}

/* Networks of this stack whose ids the manager no longer knows, although the list still named them: a removal
 * was under way. They are made anew. */
static int renew_networks(struct apply *apply, struct mst_error *err)
{
    for (size_t i = 0; i < apply->plan->count; i++) {
        struct plan_step *step = &apply->plan->steps[i];
        mst_cleanup(mst_json_deletep) cJSON *network = NULL;
        int r;
        if (step->kind != ENGINE_NETWORK || step->action != PLAN_KEEP)
            continue;
        r = engine_find(apply->session->engine, ENGINE_NETWORK, step->id, &network, err);
        if (r < 0)
            return r;
        if (network)
            continue;
        step->action = PLAN_CREATE;
        r = apply_network(apply, step, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static bool is_about_lost_network(const struct mst_error *err)
{
    return strstr(err->text, "network") && strstr(err->text, "not found");
}

static int await_dependency(struct apply *apply, const struct compose_dependency *dependency,
                            const char *name, struct mst_error *err)
{
    struct compose_project one = *apply->plan->project;
    const struct converge_options converge = {
        .stack = one.stack,
        .since_s = apply->options->since_s,
        .deadline_ns = apply->options->deadline_ns,
        .nodes = &apply->plan->nodes,
        .project = &one,
        .must_complete = dependency->condition == COMPOSE_COMPLETED,
    };
    int r;

    /* Only one of its services is looked at, and not changed. */
    one.services = &apply->plan->project->services[dependency->service - apply->plan->project->services];
    one.service_count = 1;
    report_line(&apply->session->report, "service %s waits for %s", name, dependency->service->name);
    r = converge_wait(apply->session, &converge, err);
    apply->shall_stand |= r < 0;
    return r;
}

static int await_dependencies(struct apply *apply, const struct plan_step *step, struct mst_error *err)
{
    const struct compose_service *service = &apply->plan->project->services[step->index];

    for (size_t i = 0; i < service->depends_on_count; i++) {
        const struct compose_dependency *dependency = &service->depends_on[i];
        int r;
        if (!dependency->service || dependency->condition == COMPOSE_STARTED)
            continue;
        if (apply->options->is_detached) {
            report_line(&apply->session->report,
                        "warning: service %s does not wait for %s: nothing is waited for with --detach",
                        step->name, dependency->service->name);
            continue;
        }
        r = await_dependency(apply, dependency, step->name, err);
        if (r < 0 && dependency->is_optional && r != -ECANCELED)
            apply->shall_stand = false; /* a wish, not a condition */
        else if (r < 0)
            return r;
    }
    return 0;
}

static int create_service(struct apply *apply, const struct plan_step *step, struct mst_error *err)
{
    struct mst_error why = MST_ERROR_INIT;
    char id[ENGINE_NAME_MAX_BYTES];
    int r = 0;

    for (int try = 0; try < GHOST_TRIES; try++) {
        mst_cleanup(mst_json_deletep) cJSON *body = NULL;
        r = plan_service_body(apply->plan, step->index, NULL, &body, &why);
        if (r >= 0)
            r = create(apply, step, body, apply->plan->images.items[step->index].auth, id, &why);
        if (r != -EREMOTEIO || !is_about_lost_network(&why))
            break;
        r = session_wait(apply->session, GHOST_WAIT_MS, 0, &why);
        if (r >= 0)
            r = renew_networks(apply, &why);
        if (r < 0)
            break;
        r = -EREMOTEIO;
    }
    if (r < 0) {
        if (err)
            *err = why;
        return r;
    }
    remember(apply, step, id);
    return 0;
}

static void report_warnings(struct session *session, const char *name, const cJSON *warnings)
{
    const cJSON *warning;

    cJSON_ArrayForEach(warning, warnings)
    {
        if (cJSON_IsString(warning))
            report_line(&session->report, "warning: service '%s': %.400s", name, warning->valuestring);
    }
}

/* Somebody else may write too (a rolling update, an autoscaler): read again and build anew when the version
 * moved. */
static int update_service(struct apply *apply, const struct plan_step *step, struct mst_error *err)
{
    struct engine *engine = apply->session->engine;
    const char *const headers[] = {apply->plan->images.items[step->index].auth, NULL};
    int r = -ESTALE;

    for (int try = 0; r == -ESTALE && try < UPDATE_TRIES; try++) {
        mst_cleanup(mst_json_deletep) cJSON *live = NULL, *body = NULL, *warnings = NULL;
        r = engine_find(engine, ENGINE_SERVICE, step->id, &live, err);
        if (r >= 0 && !live)
            r = mst_error_set(err, -EREMOTEIO, "service '%s' was removed by somebody else meanwhile",
                              step->name);
        if (r >= 0)
            r = plan_service_body(apply->plan, step->index, live, &body, err);
        if (r >= 0)
            r = engine_update(engine, ENGINE_SERVICE, step->id, step->name, live_version(live), body,
                              headers[0] ? headers : NULL, &warnings, err);
        if (r >= 0)
            report_warnings(apply->session, step->name, warnings);
    }
    if (r == -ESTALE)
        return mst_error_wrap(err, -EREMOTEIO, "%d tries", UPDATE_TRIES);
    if (r >= 0) {
        char changes[1024];
        compare_short_text(step->changes ? step->changes : "", changes, sizeof changes);
        report_line(&apply->session->report, "updated service %s (%s)", step->name, changes);
    }
    return r;
}

static int apply_step(struct apply *apply, const struct plan_step *step, struct mst_error *err)
{
    switch (step->kind) {
    case ENGINE_NETWORK:
        return apply_network(apply, step, err);
    case ENGINE_SECRET:
    case ENGINE_CONFIG:
        return apply_content(apply, step, err);
    case ENGINE_SERVICE:
        if (step->action == PLAN_CREATE) {
            const int r = await_dependencies(apply, step, err);
            return r < 0 ? r : create_service(apply, step, err);
        }
        return step->action == PLAN_UPDATE ? update_service(apply, step, err) : 0;
    default:
        return 0;
    }
}

/* In reverse order; networks may be in use for the moment that a task takes to go. */
static void undo(struct apply *apply, struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf left = MST_BUF_INIT(512);

    for (size_t i = apply->made_count; i > 0; i--) {
        const struct made *made = &apply->made[i - 1];
        const uint64_t deadline_ns = mst_now_ns() + ALLOCATION_TIMEOUT_MS * MST_NS_PER_MS;
        int r;
        do {
            r = engine_remove(apply->session->engine, made->kind, made->id, made->name, NULL);
        } while (r == -EREMOTEIO && made->kind == ENGINE_NETWORK &&
                 session_wait(apply->session, GHOST_WAIT_MS, deadline_ns, NULL) == 0);
        if (r < 0)
            (void)mst_buf_printf(&left, "%s%s %s", left.count > 0 ? ", " : "", engine_kind_text(made->kind),
                                 made->name);
    }
    if (left.count > 0 && err) {
        const size_t used = strlen(err->text);
        (void)snprintf(err->text + used, sizeof err->text - used, "; made before and left standing: %s",
                       mst_buf_text(&left));
    } else if (apply->made_count > 0) {
        report_line(&apply->session->report, "what was created before the failure has been removed again");
    }
}

int apply_plan(struct session *session, struct plan *plan, const struct apply_options *options,
               struct mst_error *err)
{
    /* One more for each network that is made anew. */
    mst_cleanup(mst_freep) struct made *made = calloc(2 * plan->count + 1, sizeof *made);
    struct apply apply = {.session = session, .plan = plan, .options = options, .made = made};
    int r = 0;

    if (!made)
        return mst_error_set(err, -ENOMEM, "deploy: no memory");
    for (size_t i = 0; i < plan->count && r >= 0; i++) {
        if (plan->steps[i].action != PLAN_REMOVE)
            r = apply_step(&apply, &plan->steps[i], err);
    }
    if (r < 0 && r != -ECANCELED && r != -EEXIST && !apply.shall_stand)
        undo(&apply, err);
    return r;
}

int apply_removals(struct session *session, const struct plan *plan, struct mst_error *err)
{
    for (size_t i = 0; i < plan->count; i++) {
        const struct plan_step *step = &plan->steps[i];
        struct mst_error why = MST_ERROR_INIT;
        int r;
        if (step->action != PLAN_REMOVE)
            continue;
        r = engine_remove(session->engine, step->kind, step->id, step->name, &why);
        if (r == -EREMOTEIO) {
            report_line(&session->report, "kept %s %s: %s", engine_kind_text(step->kind), step->name,
                        why.text);
        } else if (r < 0) {
            if (err)
                *err = why;
            return r;
        } else {
            report_line(&session->report, "removed %s %s", engine_kind_text(step->kind), step->name);
        }
    }
    return 0;
}
