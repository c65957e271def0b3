/* SPDX-License-Identifier: Apache-2.0 */
#include "converge.h"

#include "live.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/json.h"
#include "stack.h"
#include "taskstate.h"

#include <stdio.h>
#include <string.h>

#define POLL_MS          250
#define NO_NODE_GRACE_MS 5000 /* resources of a stack that just went come back within this time */
#define FAILURES_MAX     3    /* failed tasks of one service until it is called a crash loop */
#define REJECTIONS_MAX   2

/* What the tasks of one service say. */
struct tally {
    size_t running, completed, failed, rejected, starting;
    const cJSON *newest_trouble;
    bool has_no_node;
};

static void set_reason(struct converge_service *service, const cJSON *task)
{
    const cJSON *status = mst_json_at(task, "Status", NULL);
    const uint64_t code = mst_json_u64_or(mst_json_at(status, "ContainerStatus", NULL), "ExitCode", 0);
    const char *text = mst_json_string_or(status, "Err", "");

    if (text[0] == '\0')
        text = mst_json_string_or(status, "Message", "");
    if (code != 0 && !strstr(text, "exit"))
        (void)snprintf(service->reason, sizeof service->reason, "%s (exit code %u)", text, (unsigned)code);
    else
        (void)snprintf(service->reason, sizeof service->reason, "%s", text);
}

static void count_task(struct tally *tally, const cJSON *task, double since_s)
{
    const char *state = mst_json_string_or(mst_json_at(task, "Status", NULL), "State", "");
    const char *error = mst_json_string_or(mst_json_at(task, "Status", NULL), "Err", "");
    const char *wanted = mst_json_string_or(task, "DesiredState", "");
    const bool is_old = taskstate_time_s(mst_json_string_or(task, "CreatedAt", "")) < since_s;
    const bool is_bad = strcmp(state, "failed") == 0 || strcmp(state, "rejected") == 0;

    if (strcmp(state, "running") == 0 && strcmp(wanted, "running") == 0)
        tally->running++;
    else if (strcmp(state, "complete") == 0)
        tally->completed++;
    else if (!is_bad && taskstate_is_before_running(state))
        tally->starting++;
    if (is_old && is_bad)
        return;
    tally->failed += strcmp(state, "failed") == 0;
    tally->rejected += strcmp(state, "rejected") == 0;
    if (strcmp(state, "pending") == 0 && strstr(error, "no suitable node"))
        tally->has_no_node = true;
    if ((is_bad || error[0] != '\0') &&
        (!tally->newest_trouble ||
         taskstate_time_s(mst_json_string_or(task, "CreatedAt", "")) >=
             taskstate_time_s(mst_json_string_or(tally->newest_trouble, "CreatedAt", ""))))
        tally->newest_trouble = task;
}

static size_t count_global_nodes(const cJSON *service, const struct swarm_nodes *nodes)
{
    const cJSON *list = mst_json_at(service, "Spec", "TaskTemplate", "Placement", "Constraints", NULL), *item;
    const char *texts[64];
    struct compose_strings constraints = {texts, 0};

    cJSON_ArrayForEach(item, list)
    {
        if (cJSON_IsString(item) && constraints.count < MST_ARRAY_COUNT(texts))
            texts[constraints.count++] = item->valuestring;
    }
    return constraints_count_nodes(&constraints, nodes);
}

/* *ret_is_job: wanted is how many must complete. */
static size_t wanted_tasks(const cJSON *service, const struct swarm_nodes *nodes, bool *ret_is_job)
{
    const cJSON *mode = mst_json_at(service, "Spec", "Mode", NULL);
    const cJSON *job = mst_json_at(mode, "ReplicatedJob", NULL);

    *ret_is_job = job || mst_json_at(mode, "GlobalJob", NULL);
    if (job)
        return (size_t)mst_json_u64_or(job, "TotalCompletions", 1);
    if (*ret_is_job || mst_json_at(mode, "Global", NULL))
        return count_global_nodes(service, nodes);
    return (size_t)mst_json_u64_or(mst_json_at(mode, "Replicated", NULL), "Replicas", 1);
}

/* Paused and rolled back are ends of an update, but not of one that this deployment did not make. */
static void judge_update(struct converge_service *service, const cJSON *json)
{
    const cJSON *update = mst_json_at(json, "UpdateStatus", NULL);
    const char *state = mst_json_string_or(update, "State", "");
    const char *message = mst_json_string_or(update, "Message", "");

    if (strcmp(state, "updating") == 0) {
        service->is_settled = false;
        (void)snprintf(service->state, sizeof service->state, "updating");
    } else if (strcmp(state, "paused") == 0 || strcmp(state, "rollback_paused") == 0) {
        service->code = SWARM_NO_CONVERGENCE;
        (void)snprintf(service->reason, sizeof service->reason, "%s: %s", state, message);
    } else if (strcmp(state, "rollback_started") == 0 || strcmp(state, "rollback_completed") == 0) {
        service->code = SWARM_ROLLED_BACK;
        (void)snprintf(service->reason, sizeof service->reason, "rolled back: %s", message);
    }
}

static void judge_failures(struct converge_service *service, const struct tally *tally, const char *restart)
{
    const bool is_final = strcmp(restart, "none") == 0;

    if (tally->newest_trouble)
        set_reason(service, tally->newest_trouble);
    service->is_waiting_for_node = tally->has_no_node;
    if (service->is_settled)
        return;
    if (tally->rejected >= REJECTIONS_MAX || (is_final && tally->rejected > 0)) {
        service->code = SWARM_NO_CONVERGENCE;
        (void)snprintf(service->state, sizeof service->state, "rejected");
    } else if (tally->failed >= FAILURES_MAX || (is_final && tally->failed > 0)) {
        service->code = SWARM_NO_CONVERGENCE;
        service->is_failing = true;
        (void)snprintf(service->state, sizeof service->state, is_final ? "failed" : "crash loop");
    }
}

static void judge_service(struct converge_service *service, const cJSON *json, const cJSON *tasks,
                          const struct swarm_nodes *nodes, double since_s)
{
    const char *id = live_id(json, ENGINE_SERVICE);
    const char *restart = mst_json_string_or(mst_json_at(json, "Spec", "TaskTemplate", "RestartPolicy", NULL),
                                             "Condition", "any");
    const cJSON *task;
    struct tally tally = {0};
    bool is_job, is_one_shot;

    cJSON_ArrayForEach(task, tasks)
    {
        if (strcmp(mst_json_string_or(task, "ServiceID", ""), id) == 0)
            count_task(&tally, task, since_s);
    }
    service->wanted = wanted_tasks(json, nodes, &is_job);
    service->running = tally.running;
    service->completed = tally.completed;
    is_one_shot = strcmp(restart, "any") != 0;
    if (is_job)
        service->is_settled = tally.completed >= service->wanted;
    else if (is_one_shot && tally.completed > 0)
        service->is_settled = tally.running + tally.completed >= service->wanted && tally.starting == 0;
    else
        service->is_settled = tally.running == service->wanted && tally.starting == 0;
    (void)snprintf(service->state, sizeof service->state, "%s",
                   !service->is_settled                        ? "starting"
                   : tally.completed > 0 && tally.running == 0 ? "complete"
                                                               : "running");
    judge_failures(service, &tally, restart);
    judge_update(service, json);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct converge_service *)a)->name, ((const struct converge_service *)b)->name);
}

int converge_judge(const cJSON *services, const cJSON *tasks, const struct swarm_nodes *nodes, double since_s,
                   struct converge_view *ret_view, struct mst_error *err)
{
    const int count = cJSON_GetArraySize(services);
    struct converge_view view = {0};
    const cJSON *json;

    view.items = calloc(count > 0 ? (size_t)count : 1, sizeof *view.items);
    if (!view.items)
        return mst_error_set(err, -ENOMEM, "services: no memory for %d", count);
    cJSON_ArrayForEach(json, services)
    {
        struct converge_service *service = &view.items[view.count++];
        (void)snprintf(service->name, sizeof service->name, "%s", live_name(json, ENGINE_SERVICE));
        judge_service(service, json, tasks, nodes, since_s);
    }
    qsort(view.items, view.count, sizeof *view.items, by_name);
    *ret_view = view;
    return 0;
}

void converge_view_release(struct converge_view *view)
{
    free(view->items);
    *view = (struct converge_view){0};
}

bool converge_view_is_settled(const struct converge_view *view)
{
    for (size_t i = 0; i < view->count; i++) {
        if (!view->items[i].is_settled || view->items[i].code != 0)
            return false;
    }
    return true;
}

int converge_verdict(const struct converge_view *view, struct mst_error *err)
{
    for (size_t i = 0; i < view->count; i++) {
        const struct converge_service *service = &view->items[i];
        if (service->code != 0)
            return mst_error_set(err, service->code, "service '%s' will not converge (%s): %s", service->name,
                                 service->state, service->reason);
    }
    return 0;
}

/* Two filters at once; `_up-to-date` is docker's own way to leave out tasks of an older specification. */
static int list_tasks(struct engine *engine, const char *stack, cJSON **ret_tasks, struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf query = MST_BUF_INIT(4096), filters = MST_BUF_INIT(1024);
    mst_cleanup(engine_reply_release) struct engine_reply reply = {0};
    struct engine_call call = {.method = "GET", .path = "/tasks"};
    int r =
        mst_buf_printf(&filters, "{\"label\":[\"%s=%s\"],\"_up-to-date\":[\"true\"]}", STACK_LABEL, stack);

    if (r >= 0)
        r = engine_query_add(&query, "filters", mst_buf_text(&filters));
    if (r < 0)
        return mst_error_set(err, r, "stack '%s': the name is too long", stack);
    call.query = mst_buf_text(&query);
    r = engine_request(engine, &call, &reply, err);
    if (r < 0)
        return r;
    if (!cJSON_IsArray(reply.json))
        return mst_error_set(err, -EPROTO, "GET /tasks: the reply of %s is not a list", engine_host(engine));
    *ret_tasks = reply.json;
    reply.json = NULL;
    return 0;
}

int converge_look(struct session *session, const struct converge_options *options,
                  struct converge_view *ret_view, struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *services = NULL, *tasks = NULL;
    int r = live_list(session->engine, ENGINE_SERVICE, options->stack, &services, err);

    if (r >= 0)
        r = list_tasks(session->engine, options->stack, &tasks, err);
    return r < 0 ? r : converge_judge(services, tasks, options->nodes, options->since_s, ret_view, err);
}

int converge_newest_task_s(struct session *session, const char *stack, double *ret_since_s,
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

/* The table on a terminal; elsewhere one line for each change of state. */
static void show(struct session *session, const struct converge_view *view, struct converge_view *shown)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT((size_t)64 << 10);

    for (size_t i = 0; i < view->count; i++) {
        const struct converge_service *s = &view->items[i];
        const bool is_new = i >= shown->count || strcmp(shown->items[i].state, s->state) != 0 ||
                            strcmp(shown->items[i].reason, s->reason) != 0;
        (void)mst_buf_printf(&text, "  %-24s %zu/%zu  %-10s %6.1f s  %s\n", s->name,
                             s->running + s->completed, s->wanted, s->state, report_seconds(&session->report),
                             s->reason);
        if (is_new && !session->report.is_terminal && strcmp(s->state, "starting") != 0)
            report_line(&session->report, "service %s: %zu/%zu %s%s%s", s->name, s->running + s->completed,
                        s->wanted, s->state, s->reason[0] ? ": " : "", s->reason);
    }
    report_block(&session->report, mst_buf_text(&text));
}

/* Names what is still open. */
static int timed_out(const struct converge_view *view, const char *stack, struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf open = MST_BUF_INIT(700);

    for (size_t i = 0; i < view->count; i++) {
        const struct converge_service *s = &view->items[i];
        if (!s->is_settled)
            (void)mst_buf_printf(&open, "%s%s %zu/%zu%s%s", open.count > 0 ? ", " : "", s->name, s->running,
                                 s->wanted, s->reason[0] ? ": " : "", s->reason);
    }
    return mst_error_set(err, -ETIMEDOUT, "stack '%s' has not converged in time: %s", stack,
                         mst_buf_text(&open));
}

/* No node now may be no node for the moment; the scheduler says so again every second. */
static int judge_waiting(const struct converge_view *view, uint64_t *no_node_since_ns, struct mst_error *err)
{
    const struct converge_service *waiting = NULL;

    for (size_t i = 0; i < view->count; i++) {
        if (view->items[i].is_waiting_for_node && !view->items[i].is_settled)
            waiting = &view->items[i];
    }
    if (!waiting) {
        *no_node_since_ns = 0;
        return 0;
    }
    if (*no_node_since_ns == 0)
        *no_node_since_ns = mst_now_ns();
    if (mst_ms_since(*no_node_since_ns) < NO_NODE_GRACE_MS)
        return 0;
    return mst_error_set(err, SWARM_NO_CONVERGENCE, "service '%s' will not converge: %s", waiting->name,
                         waiting->reason);
}

int converge_wait(struct session *session, const struct converge_options *options, struct mst_error *err)
{
    mst_cleanup(converge_view_release) struct converge_view shown = {0};
    uint64_t settled_since_ns = 0, no_node_since_ns = 0;

    for (;;) {
        struct converge_view view = {0};
        int r = converge_look(session, options, &view, err);

        if (r < 0)
            return r;
        show(session, &view, &shown);
        converge_view_release(&shown);
        shown = view; /* for the next round, and released at the end */
        r = converge_verdict(&view, err);
        if (r >= 0)
            r = judge_waiting(&view, &no_node_since_ns, err);
        if (r < 0)
            return r;
        if (!converge_view_is_settled(&view))
            settled_since_ns = 0;
        else if (settled_since_ns == 0)
            settled_since_ns = mst_now_ns();
        if (settled_since_ns > 0 && mst_ms_since(settled_since_ns) >= options->settle_ms) {
            report_keep_block(&session->report);
            return 0;
        }
        r = session_wait(session, POLL_MS, options->deadline_ns, err);
        if (r == -ETIMEDOUT)
            return timed_out(&view, options->stack, err);
        if (r < 0)
            return r;
    }
}
