/* SPDX-License-Identifier: Apache-2.0 */
#include "run.h"

#include "collect.h"
#include "history_csv.h"
#include "live.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/json.h"
#include "output.h"
#include "remove.h"
#include "runfolder.h"
#include "stack.h"
#include "summary.h"
#include "watch.h"

#include <string.h>

#define DEPLOY_TIMEOUT_NS  (300 * MST_NS_PER_S)
#define REMOVE_TIMEOUT_NS  (120 * MST_NS_PER_S)
#define COLLECT_TIMEOUT_MS 120000 /* models of any size that fits an agent go over in this time */

struct run {
    struct session *session;
    const struct compose_project *project;
    const struct run_options *options;
    struct plan plan;
    struct runfolder folder;
    struct watch watch;
    struct summary_times times;
    size_t collected_files;
    bool is_deployed; /* something of the stack was written */
};

static int check_absent(struct run *run, struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *services = NULL;
    const int r = live_list(run->session->engine, ENGINE_SERVICE, run->project->stack, &services, err);

    if (r >= 0 && cJSON_GetArraySize(services) > 0)
        return mst_error_set(
            err, -EEXIST, "stack '%s' is there already; remove it ('muster rm %s') or run under another name",
            run->project->stack, run->project->stack);
    return r;
}

static int deploy(struct run *run, struct mst_error *err)
{
    const struct deploy_options options = {
        .resolve = run->options->resolve,
        .local = run->options->local,
        .with_auth = run->options->with_auth,
        .deadline_ns = mst_now_ns() + DEPLOY_TIMEOUT_NS,
    };
    double since_s;
    int r = check_absent(run, err);

    if (r < 0)
        return r;
    r = deploy_apply(run->session, run->project, &options, &run->plan, &since_s, err);
    /* Interrupted in the middle, what was written so far stands; any other failure has undone itself. */
    run->is_deployed = r >= 0 || (r == -ECANCELED && run->plan.count > 0);
    run->times.deployed_s = r >= 0 ? mst_wall_s() : 0;
    return r;
}

static int train(struct run *run, struct mst_error *err)
{
    int r;

    run->watch = (struct watch){
        .session = run->session,
        .nodes = &run->plan.nodes,
        .stack = run->project->stack,
        .stats = run->folder.stats,
        .events = &run->folder.events,
        .deadline_ns = run->options->timeout_ns > 0 ? mst_now_ns() + run->options->timeout_ns : 0,
    };
    r = watch_start(&run->watch, err);
    if (r >= 0)
        r = watch_workers(&run->watch, err);
    if (r >= 0)
        run->times.trained_s = mst_wall_s();
    return r;
}

static int collect(struct run *run, struct mst_error *err)
{
    const struct workers *workers = &run->watch.workers;
    struct untar_result result = {0};
    int r;

    if (!run->watch.has_collector)
        return 0;
    r = watch_collector(&run->watch, COLLECT_TIMEOUT_MS, err);
    if (r >= 0)
        r = collect_fetch(run->session, workers->collector_task_id, workers->collected_folder,
                          run->folder.path, &result, err);
    if (r < 0)
        return r;
    run->times.collected_s = mst_wall_s();
    run->collected_files = result.files;
    if (result.skipped > 0)
        report_line(&run->session->report, "warning: %zu files of the collector were not taken, '%s' first",
                    result.skipped, result.first_skipped);
    report_line(&run->session->report, "collected %zu files", result.files);
    return 0;
}

static void show_tail(struct run *run)
{
    const struct worker *culprit = watch_culprit(&run->watch.workers);
    const struct worker_tail *tail = culprit ? workers_tail(&run->watch.workers, culprit->task_id) : NULL;
    const size_t shown = !tail ? 0 : tail->count < WORKERS_TAIL ? tail->count : WORKERS_TAIL;

    report_keep_block(&run->session->report);
    if (shown > 0)
        report_line(&run->session->report, "last lines of worker '%s':", culprit->slot);
    for (size_t i = tail ? tail->count - shown : 0; tail && i < tail->count; i++)
        report_line(&run->session->report, "  %s", tail->lines[i % WORKERS_TAIL]);
}

static const char *result_text(int code)
{
    return code >= 0            ? "done"
           : code == -ECANCELED ? "interrupted"
           : code == -ETIMEDOUT ? "timed out"
                                : "failed";
}

/* What there is of results, whatever the run came to. */
static int write_results(struct run *run, int code, const struct mst_error *why, struct mst_error *err)
{
    const struct run_options *options = run->options;
    struct summary summary = {
        .stack = run->project->stack,
        .result = result_text(code),
        .reason = code < 0 ? why->text : NULL,
        .folder = run->folder.path,
        .workers = &run->watch.workers,
        .nodes = &run->plan.nodes,
        .info = &run->plan.info,
        .project = run->project,
        .times = run->times,
        .given = options->given,
        .environment = options->environment,
        .filled = options->filled,
        .stats_rows = stats_csv_rows(run->folder.stats),
        .collected_files = run->collected_files,
    };
    int r;

    summary.times.ended_s = mst_wall_s();
    (void)engine_api_minor(run->session->engine, &summary.api_minor, NULL);
    r = history_csv_write_missing(run->folder.path, &run->watch.workers, err);
    if (r >= 0)
        r = stats_csv_commit(run->folder.stats, err);
    if (r >= 0)
        r = events_log_commit(&run->folder.events, err);
    if (r >= 0)
        r = summary_write(&summary, err);
    if (r < 0)
        return r;
    r = summary_print(&summary, stdout, err);
    return r < 0 ? output_failed(r, err) : 0;
}

static int take_away(struct run *run, int code, struct mst_error *err)
{
    const char *stack = run->project->stack;
    bool is_interrupted = false, is_found;
    int r;

    if (run->options->leave) {
        report_line(&run->session->report, "stack '%s' is left standing; 'muster rm %s' removes it", stack,
                    stack);
        return 0;
    }
    if (code == -ECANCELED)
        report_line(&run->session->report, "interrupted: removing stack '%s'; once more to leave it as it is",
                    stack);
    r = remove_stack(run->session, stack, true, mst_now_ns() + REMOVE_TIMEOUT_NS, &is_found, err);
    if (r == -ECANCELED) {
        is_interrupted = true;
        session_heed_no_more_signals(run->session);
        report_line(&run->session->report,
                    "interrupted: still removing stack '%s'; once more to leave it as it is", stack);
        r = remove_stack(run->session, stack, true, mst_now_ns() + REMOVE_TIMEOUT_NS, &is_found, err);
    }
    if (r < 0)
        return mst_error_wrap(err, r, "stack '%s' still stands ('muster rm %s')", stack, stack);
    return is_interrupted ? mst_error_set(err, -ECANCELED, "interrupted") : 0;
}

/* The end of every run that wrote something: results first, for the logs go with the stack. */
static int finish(struct run *run, int code, struct mst_error *err)
{
    struct mst_error later = MST_ERROR_INIT;
    int r;

    if (code == -ECANCELED) /* Ctrl-C has done its work: the next one ends the program as it stands */
        session_heed_no_more_signals(run->session);
    if (code == SWARM_WORKER_FAILED)
        show_tail(run);
    report_keep_block(&run->session->report);
    r = write_results(run, code, err, &later);
    if (r < 0 && code < 0)
        report_line(&run->session->report, "warning: %s", later.text);
    else if (r < 0)
        code = mst_error_set(err, r, "%s", later.text);
    logfollow_freep(&run->watch.follow);
    r = take_away(run, code, &later);
    if (r < 0 && code < 0)
        report_line(&run->session->report, "warning: %s", later.text);
    else if (r < 0)
        code = mst_error_set(err, r, "%s", later.text);
    return code;
}

int run_stack(struct session *session, const struct compose_project *project,
              const struct run_options *options, struct mst_error *err)
{
    struct mst_error own = MST_ERROR_INIT;
    struct run run = {.session = session, .project = project, .options = options};
    int r;

    if (!err)
        err = &own; /* the reason also goes into run.json */
    r = runfolder_make(options->out, options->name, project->stack, &run.folder, err);
    if (r < 0)
        return r;
    run.times.started_s = run.folder.started_s;
    workers_init(&run.watch.workers);
    r = deploy(&run, err);
    if (run.is_deployed) {
        if (r >= 0)
            r = train(&run, err);
        if (r >= 0)
            r = collect(&run, err);
        r = finish(&run, r, err);
    } else {
        runfolder_remove_empty(&run.folder);
    }
    watch_release(&run.watch);
    plan_release(&run.plan);
    runfolder_release(&run.folder);
    return r;
}

int run_await_workers(struct session *session, const char *stack, uint64_t deadline_ns, struct mst_error *err)
{
    mst_cleanup(swarm_nodes_release) struct swarm_nodes nodes = {0};
    struct watch watch = {.session = session, .nodes = &nodes, .stack = stack, .deadline_ns = deadline_ns};
    int r = swarm_nodes_load(session->engine, &nodes, err);

    if (r >= 0)
        r = watch_start(&watch, err);
    if (r >= 0)
        r = watch_workers(&watch, err);
    watch_release(&watch);
    return r;
}
