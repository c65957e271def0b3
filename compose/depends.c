/* SPDX-License-Identifier: Apache-2.0 */
/* services.X.depends_on: a list of services, or a mapping with a condition for each. */
#include "muster/parse.h"
#include "schema.h"
#include "show.h"

#include <string.h>

#define DEPENDS_ON_MAX 1024U /* of one service; finding an earlier one is a walk over the others */

static int set_condition(struct schema_load *load, const struct node *node, void *member,
                         const struct schema_field *f)
{
    static const char *const names[] = {[COMPOSE_STARTED] = "service_started",
                                        [COMPOSE_HEALTHY] = "service_healthy",
                                        [COMPOSE_COMPLETED] = "service_completed_successfully",
                                        NULL};
    size_t index;
    int r = schema_choose(load, node, f, names, &index);
    if (r == 0)
        *(enum compose_condition *)member = (enum compose_condition)index;
    return r;
}

static int set_required(struct schema_load *load, const struct node *node, void *member,
                        const struct schema_field *f)
{
    bool *is_optional = member, is_required;
    (void)f;
    int r = schema_bool(load, node, &is_required);
    if (r == 0)
        *is_optional = !is_required;
    return r;
}

static const struct schema_field dependency_fields[] = {
    SCHEMA_FIELD("condition", set_condition, offsetof(struct compose_dependency, condition)),
    SCHEMA_FIELD("required", set_required, offsetof(struct compose_dependency, is_optional)),
    SCHEMA_FIELD("restart", schema_set_ignored, 0, .advice = "a stack restarts no service for another"),
};

/* The dependency on `key`, a new one unless an earlier file has it. */
static int take_dependency(struct schema_load *load, struct compose_service *service, const char *key,
                           const struct compose_place *place, struct compose_dependency **ret_dependency)
{
    for (size_t i = 0; i < service->depends_on_count; i++) {
        if (strcmp(service->depends_on[i].key, key) == 0) {
            *ret_dependency = &service->depends_on[i];
            return 0;
        }
    }
    if (service->depends_on_count >= DEPENDS_ON_MAX)
        return schema_fail(load, place, "more than %u services", DEPENDS_ON_MAX);
    const struct compose_dependency dependency = {.place = *place, .key = key};
    int r =
        schema_append(load, &service->depends_on, &service->depends_on_count, &dependency, sizeof dependency);
    if (r == 0)
        *ret_dependency = &service->depends_on[service->depends_on_count - 1];
    return r;
}

static int read_dependency(struct schema_load *load, const char *key, const struct compose_place *place,
                           const struct node *value, struct compose_service *service)
{
    struct compose_dependency *dependency;
    int r = take_dependency(load, service, key, place, &dependency);
    return r < 0 || !value ? r
                           : schema_map(load, value, dependency_fields, MST_ARRAY_COUNT(dependency_fields),
                                        true, dependency);
}

int schema_set_depends_on(struct schema_load *load, const struct node *node, void *member,
                          const struct schema_field *f)
{
    (void)f;
    return schema_each_named(load, node, "a list or a mapping of services", read_dependency, member);
}

/* --- when all services are read --- */

static int fail_at(struct schema_load *load, const struct compose_service *service,
                   const struct compose_dependency *dependency, const char *what, const char *hint)
{
    char shown[SHOW_BYTES];
    schema_enter(load, "services");
    schema_enter(load, service->key);
    schema_enter(load, "depends_on");
    return schema_fail(load, &dependency->place, "%s %s%s%s%s", show(dependency->key, shown), what,
                       hint ? ": did you mean '" : "", hint ? hint : "", hint ? "'?" : "");
}

static int find_service(struct schema_load *load, const struct compose_service *service,
                        struct compose_dependency *dependency)
{
    const struct compose_project *project = load->project;
    const char *names[64];
    size_t known = 0;
    for (size_t i = 0; i < project->service_count; i++) {
        if (strcmp(project->services[i].key, dependency->key) == 0) {
            dependency->service = &project->services[i];
            return 0;
        }
        if (known < MST_ARRAY_COUNT(names))
            names[known++] = project->services[i].key;
    }
    return dependency->is_optional ? 0
                                   : fail_at(load, service, dependency, "is no service of this stack",
                                             mst_nearest(dependency->key, names, known));
}

enum visit { VISIT_NONE, VISIT_UNDER_WAY, VISIT_DONE };

/* Depth first, at most as deep as there are services. */
static int visit(struct schema_load *load, size_t index, enum visit *visits)
{
    const struct compose_project *project = load->project;
    const struct compose_service *service = &project->services[index];
    visits[index] = VISIT_UNDER_WAY;
    for (size_t i = 0; i < service->depends_on_count; i++) {
        const struct compose_dependency *dependency = &service->depends_on[i];
        if (!dependency->service)
            continue;
        const size_t next = (size_t)(dependency->service - project->services);
        if (visits[next] == VISIT_UNDER_WAY)
            return fail_at(load, service, dependency, "depends on this service in turn", NULL);
        int r = visits[next] == VISIT_NONE ? visit(load, next, visits) : 0;
        if (r < 0)
            return r;
    }
    visits[index] = VISIT_DONE;
    return 0;
}

int schema_resolve_depends_on(struct schema_load *load)
{
    const struct compose_project *project = load->project;
    int r = 0;
    for (size_t s = 0; s < project->service_count; s++)
        for (size_t i = 0; r == 0 && i < project->services[s].depends_on_count; i++)
            r = find_service(load, &project->services[s], &project->services[s].depends_on[i]);
    enum visit *visits = compose_arena_alloc(load->arena, (project->service_count + 1) * sizeof *visits);
    if (!visits)
        return schema_fail_memory(load);
    for (size_t s = 0; r == 0 && s < project->service_count; s++)
        r = visits[s] == VISIT_NONE ? visit(load, s, visits) : 0;
    return r;
}
