/* SPDX-License-Identifier: Apache-2.0 */
#include "deploy.h"

#include "apply.h"
#include "converge.h"
#include "muster/cleanup.h"
#include "remove.h"

static struct plan_options plan_options(const struct deploy_options *options, bool ask_secrets)
{
    return (struct plan_options){.resolve = options->resolve,
                                 .prune = options->prune,
                                 .local = options->local,
                                 .with_auth = options->with_auth,
                                 .ask_secrets = ask_secrets};
}

int deploy_apply(struct session *session, const struct compose_project *project,
                 const struct deploy_options *options, struct plan *ret_plan, double *ret_since_s,
                 struct mst_error *err)
{
    const struct plan_options plan = plan_options(options, true);
    int r;

    *ret_plan = (struct plan){0};
    r = remove_await_leftovers(session, project->stack, options->deadline_ns, err);
    if (r >= 0)
        r = plan_make(session, project, &plan, ret_plan, err);
    if (r >= 0)
        r = converge_newest_task_s(session, project->stack, ret_since_s, err);
    if (r < 0)
        return r;
    const struct apply_options apply = {
        .is_detached = options->detach, .deadline_ns = options->deadline_ns, .since_s = *ret_since_s};
    return apply_plan(session, ret_plan, &apply, err);
}

int deploy_show(struct session *session, const struct compose_project *project,
                const struct deploy_options *options, enum output_format format, struct mst_error *err)
{
    const struct plan_options shown = plan_options(options, false);
    mst_cleanup(plan_release) struct plan plan = {0};
    const int r = plan_make(session, project, &shown, &plan, err);

    return r < 0 ? r : plan_print(&plan, format, err);
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
        .project = project,
    };
    int r = deploy_apply(session, project, options, &plan, &converge.since_s, err);

    /* What was not touched has shown already that it stays up. */
    if (r >= 0 && !plan_has_changes(&plan))
        converge.settle_ms = 0;
    if (r >= 0 && !options->detach)
        r = converge_wait(session, &converge, err);
    /* Last, and only after success: what is removed cannot be rolled back to. */
    if (r >= 0)
        r = apply_removals(session, &plan, err);
    if (r >= 0 && ret_has_changed)
        *ret_has_changed = plan_has_changes(&plan);
    return r;
}
