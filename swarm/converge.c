/* SPDX-License-Identifier: Apache-2.0 */
#include "converge.h"

#include "live.h"
#include "logfollow.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/json.h"
#include "stack.h"
#include "taskstate.h"

#include <stdio.h>
#include <string.h>

#define POLL_MS          250
#define EARLY_POLL_MS    100 /* most services are up within seconds, and somebody waits for it */
#define EARLY_MS         10000
#define NO_NODE_GRACE_MS 5000 /* resources of a stack that just went come back within this time */
#define TAIL_LINES       "8"  /* of a failed task's log */
#define TAIL_PATIENCE_MS 3000 /* a node that is down never answers */
#define TAIL_ROUND_MS    100

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

static bool has_global(const cJSON *services)
{
    const cJSON *service;

    cJSON_ArrayForEach(service, services)
    {
        const cJSON *mode = mst_json_at(service, "Spec", "Mode", NULL);
        if (mst_json_at(mode, "Global", NULL) || mst_json_at(mode, "GlobalJob", NULL))
            return true;
    }
    return false;
}

/* What the file does not have is not for a deployment of it to wait for: it may be there to be pruned. */
static void keep_services(cJSON *services, const struct compose_project *project)
{
    cJSON *service, *next;

    for (service = services->child; service; service = next) {
        bool is_wanted = false;
        next = service->next;
        for (size_t i = 0; i < project->service_count && !is_wanted; i++)
            is_wanted = strcmp(project->services[i].name, live_name(service, ENGINE_SERVICE)) == 0;
        if (!is_wanted)
            cJSON_Delete(cJSON_DetachItemViaPointer(services, service));
    }
}

int converge_look(struct session *session, const struct converge_options *options,
                  struct converge_view *ret_view, struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *services = NULL, *tasks = NULL;
    mst_cleanup(swarm_nodes_release) struct swarm_nodes fresh = {0};
    const struct swarm_nodes *nodes = options->nodes;
    int r = live_list(session->engine, ENGINE_SERVICE, options->stack, &services, err);

    if (r >= 0 && options->project)
        keep_services(services, options->project);
    if (r >= 0)
        r = list_tasks(session->engine, options->stack, &tasks, err);
    /* How many tasks a global service wants changes with the nodes: one may be drained meanwhile. */
    if (r >= 0 && has_global(services)) {
        r = swarm_nodes_load(session->engine, &fresh, err);
        nodes = &fresh;
    }
    return r < 0 ? r : converge_judge(services, tasks, nodes, options->since_s, ret_view, err);
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

/* What was known before and is needed at the end: a rollback takes the failed tasks out of the lists. */
static void remember(struct converge_view *view, const struct converge_view *before, double now_s)
{
    for (size_t i = 0; i < view->count; i++) {
        struct converge_service *service = &view->items[i];
        const struct converge_service *old = NULL;
        for (size_t k = 0; k < before->count && !old; k++) {
            if (strcmp(before->items[k].id, service->id) == 0)
                old = &before->items[k];
        }
        if (old && service->failed_task[0] == '\0') {
            (void)snprintf(service->failed_task, sizeof service->failed_task, "%s", old->failed_task);
            (void)snprintf(service->failure, sizeof service->failure, "%s", old->failure);
        } else if (service->failed_task[0] != '\0') {
            (void)snprintf(service->failure, sizeof service->failure, "%s", service->reason);
        }
        service->settled_s = !service->is_settled ? 0 : old && old->is_settled ? old->settled_s : now_s;
    }
}

/* The table on a terminal; elsewhere one line for each change of state. */
static void show(struct session *session, const struct converge_view *view, struct converge_view *shown)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT((size_t)64 << 10);
    size_t width = sizeof "SERVICE" - 1;

    for (size_t i = 0; i < view->count; i++)
        width = strlen(view->items[i].name) > width ? strlen(view->items[i].name) : width;
    (void)mst_buf_printf(&text, "  %-*s  %9s  %-12s  %7s  LAST ERROR\n", (int)width, "SERVICE", "REPLICAS",
                         "STATE", "SECONDS");
    for (size_t i = 0; i < view->count; i++) {
        const struct converge_service *s = &view->items[i];
        const bool is_new = i >= shown->count || strcmp(shown->items[i].state, s->state) != 0 ||
                            strcmp(shown->items[i].reason, s->reason) != 0;
        const double seconds = s->settled_s > 0 ? s->settled_s : report_seconds(&session->report);
        char replicas[32];
        (void)snprintf(replicas, sizeof replicas, "%zu/%zu", s->running + s->completed, s->wanted);
        (void)mst_buf_printf(&text, "%s  %-*s  %9s  %-12s  %7.1f  %s\n",
                             s->code != 0    ? REPORT_RED
                             : s->is_settled ? REPORT_GREEN
                             : s->reason[0]  ? REPORT_YELLOW
                                             : "",
                             (int)width, s->name, replicas, s->state, seconds, s->reason);
        if (is_new && !session->report.is_terminal && strcmp(s->state, "starting") != 0)
            report_line(&session->report, "service %s: %zu/%zu %s%s%s", s->name, s->running + s->completed,
                        s->wanted, s->state, s->reason[0] ? ": " : "", s->reason);
    }
    report_block(&session->report, mst_buf_text(&text));
}

struct tail {
    struct report *report;
    const char *service;
    bool has_lines;
};

static int print_tail(void *context, const struct log_message *message, struct mst_error *err)
{
    struct tail *tail = context;

    (void)err;
    if (!tail->has_lines)
        report_line(tail->report, "last lines of service '%s':", tail->service);
    tail->has_lines = true;
    report_line(tail->report, "  %s", message->text);
    return 0;
}

/* Why its tasks fail, they said themselves. What cannot be read is left out: the verdict comes in any case.
 */
static void show_last_words(struct session *session, const struct converge_service *service)
{
    const struct logfollow_options options = {.tail = TAIL_LINES};
    const uint64_t deadline_ns = mst_now_ns() + TAIL_PATIENCE_MS * MST_NS_PER_MS;
    mst_cleanup(logfollow_freep) struct logfollow *follow = NULL;
    struct tail tail = {.report = &session->report, .service = service->name};
    int r = logfollow_new(session, &options, print_tail, &tail, &follow, NULL);

    if (r >= 0)
        r = logfollow_add_task(follow, service->failed_task, service->name, service->is_tty, NULL);
    while (r >= 0 && logfollow_open_count(follow) > 0) {
        r = session_wait(session, TAIL_ROUND_MS, deadline_ns, NULL);
        if (r >= 0)
            r = logfollow_tick(follow, NULL);
    }
}

/* A rollback follows a failure at once, and takes the failed task out of the lists of what is up to date. */
static void find_failure(struct session *session, const struct converge_options *options,
                         struct converge_service *service)
{
    mst_cleanup(mst_json_deletep) cJSON *tasks = NULL;
    const cJSON *task;
    double newest_s = options->since_s;

    if (engine_list(session->engine, ENGINE_TASK, "service", service->id, &tasks, NULL) < 0)
        return;
    cJSON_ArrayForEach(task, tasks)
    {
        const cJSON *status = mst_json_at(task, "Status", NULL);
        const char *state = mst_json_string_or(status, "State", "");
        const double created_s = taskstate_time_s(mst_json_string_or(task, "CreatedAt", ""));
        const char *text = mst_json_string_or(status, "Err", "");
        if ((strcmp(state, "failed") != 0 && strcmp(state, "rejected") != 0) || created_s < newest_s)
            continue;
        newest_s = created_s;
        (void)snprintf(service->failed_task, sizeof service->failed_task, "%s",
                       strcmp(state, "failed") == 0 ? mst_json_string_or(task, "ID", "") : "");
        (void)snprintf(service->failure, sizeof service->failure, "%s", text);
    }
}

/* The engine's words say nothing of where an image could come from. */
static void add_image_hint(const struct converge_service *service, struct mst_error *err)
{
    const size_t used = err ? strlen(err->text) : 0;

    if (err && (strstr(service->reason, "No such image") || strstr(service->failure, "No such image")))
        (void)snprintf(err->text + used, sizeof err->text - used,
                       "; no registry gave it to that node: push it to one, or deploy with --ship");
}

static int conclude(struct session *session, const struct converge_options *options,
                    struct converge_view *view, struct mst_error *err)
{
    const int r = converge_verdict(view, err);

    for (size_t i = 0; r < 0 && i < view->count; i++) {
        struct converge_service *service = &view->items[i];
        if (service->code == 0)
            continue;
        report_keep_block(&session->report);
        if (service->failed_task[0] == '\0')
            find_failure(session, options, service);
        if (service->failed_task[0] != '\0')
            show_last_words(session, service);
        if (service->code == SWARM_ROLLED_BACK && service->failure[0] != '\0')
            (void)mst_error_set(err, r, "service '%s' was rolled back: %s; %s", service->name,
                                service->failure, service->reason);
        add_image_hint(service, err);
        break;
    }
    return r;
}

/* Names what is still open. */
static int timed_out(const struct converge_view *view, const char *stack, struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf open = MST_BUF_INIT(700);

    for (size_t i = 0; i < view->count; i++) {
        const struct converge_service *s = &view->items[i];
        if (!s->is_settled)
            (void)mst_buf_printf(&open, "%s%s %zu/%zu%s%s%s", open.count > 0 ? ", " : "", s->name, s->running,
                                 s->wanted, s->leaving > 0 ? " and some that stop" : "",
                                 s->reason[0] ? ": " : "", s->reason);
    }
    return mst_error_set(err, -ETIMEDOUT, "stack '%s' has not converged in time: %s", stack,
                         open.count > 0 ? mst_buf_text(&open)
                                        : "all services are up, but have not been for long enough");
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

static void await_leaving(struct converge_service *service)
{
    if (!service->is_settled || service->leaving == 0)
        return;
    service->is_settled = false;
    (void)snprintf(service->state, sizeof service->state, "%zu stopping", service->leaving);
}

int converge_wait(struct session *session, const struct converge_options *options, struct mst_error *err)
{
    mst_cleanup(converge_view_release) struct converge_view shown = {0};
    const uint64_t begun_ns = mst_now_ns();
    uint64_t settled_since_ns = 0, no_node_since_ns = 0;

    for (;;) {
        struct converge_view view = {0};
        int r = converge_look(session, options, &view, err);

        if (r < 0)
            return r;
        for (size_t i = 0; options->must_complete && i < view.count; i++)
            view.items[i].is_settled = view.items[i].completed >= view.items[i].wanted;
        for (size_t i = 0; options->none_may_leave && i < view.count; i++)
            await_leaving(&view.items[i]);
        remember(&view, &shown, report_seconds(&session->report));
        show(session, &view, &shown);
        converge_view_release(&shown);
        shown = view; /* for the next round, and released at the end */
        r = conclude(session, options, &view, err);
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
        r = session_wait(session, mst_ms_since(begun_ns) < EARLY_MS ? EARLY_POLL_MS : POLL_MS,
                         options->deadline_ns, err);
        if (r == -ETIMEDOUT)
            return timed_out(&view, options->stack, err);
        if (r < 0)
            return r;
    }
}
