/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy.h"

#include "apply.h"
#include "converge.h"
#include "muster/cleanup.h"
#include "muster/json.h"
#include "remove.h"
#include "taskstate.h"

/* By the manager's clock, which need not be this machine's. */
static int newest_task_s(struct session *session, const char *stack, double *ret_since_s,
                         struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *tasks = NULL;
    const cJSON *task;
    const int r = live_list(session->engine, ENGINE_TASK, stack, &tasks, err);

    if (r < 0)
        return r;
    *ret_since_s = 0;
    cJSON_ArrayForEach(task, tasks)
    {
        const double made_s = taskstate_time_s(mst_json_string_or(task, "CreatedAt", ""));
        if (made_s >= *ret_since_s)
            *ret_since_s = made_s + 1e-6;
    }
    return 0;
}

int deploy_apply(struct session *session, const struct compose_project *project,
                 const struct deploy_options *options, struct plan *ret_plan, double *ret_since_s,
                 struct mst_error *err)
{
    const struct plan_options plan_options = {.resolve = options->resolve, .prune = options->prune};
    int r;

    *ret_plan = (struct plan){0};
    r = remove_await_leftovers(session, project->stack, options->deadline_ns, err);
    if (r >= 0)
        r = plan_make(session, project, &plan_options, ret_plan, err);
    if (r >= 0)
        r = newest_task_s(session, project->stack, ret_since_s, err);
    return r < 0 ? r : apply_plan(session, ret_plan, err);
}

int deploy_stack(struct session *session, const struct compose_project *project,
                 const struct deploy_options *options, bool *ret_has_changed, struct mst_error *err)
{
    mst_cleanup(plan_release) struct plan plan = {0};
    struct converge_options converge = {
        .stack = project->stack,
        .deadline_ns = options->deadline_ns,
        .settle_ms = options->settle_ms,
        .nodes = &plan.nodes,
    };
    int r = deploy_apply(session, project, options, &plan, &converge.since_s, err);

    if (r >= 0 && !options->detach)
        r = converge_wait(session, &converge, err);
    /* Last, and only after success: what is removed cannot be rolled back to. */
    if (r >= 0)
        r = apply_removals(session, &plan, err);
    if (r >= 0 && ret_has_changed)
        *ret_has_changed = plan_has_changes(&plan);
    return r;
}
