/* SPDX-License-Identifier: Apache-2.0 */
/* One round's verdicts, from what the manager says. No I/O. */
#include "converge.h"
#include "live.h"
#include "muster/cleanup.h"
#include "muster/json.h"
#include "stack.h"
#include "taskstate.h"

#include <stdio.h>
#include <string.h>

#define FAILURES_MAX   3 /* failed tasks of one service until it is called a crash loop */
#define REJECTIONS_MAX 2

/* What the tasks of one service say. */
struct tally {
    size_t running, completed, failed, rejected, starting;
    size_t given_up; /* failed or rejected, and no other task takes the place */
    const cJSON *newest_trouble, *newest_failed;
    bool has_no_node;
};

static bool is_newer(const cJSON *task, const cJSON *than)
{
    return !than || taskstate_time_s(mst_json_string_or(task, "CreatedAt", "")) >=
                        taskstate_time_s(mst_json_string_or(than, "CreatedAt", ""));
}

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

static bool is_bad_state(const char *state)
{
    return strcmp(state, "failed") == 0 || strcmp(state, "rejected") == 0;
}

/* A replica's tasks share its slot, a global service's their node. */
static bool share_place(const cJSON *a, const cJSON *b)
{
    const uint64_t slot = mst_json_u64_or(a, "Slot", 0);

    if (strcmp(mst_json_string_or(a, "ServiceID", ""), mst_json_string_or(b, "ServiceID", "")) != 0 ||
        slot != mst_json_u64_or(b, "Slot", 0))
        return false;
    return slot != 0 || strcmp(mst_json_string_or(a, "NodeID", ""), mst_json_string_or(b, "NodeID", "")) == 0;
}

/* The manager sets a task that ended to "shutdown" and makes the one that follows it in one write: one that
 * failed without a follower is its place's last, until the service changes. */
static bool is_given_up(const cJSON *task, const cJSON *tasks)
{
    const double made_s = taskstate_time_s(mst_json_string_or(task, "CreatedAt", ""));
    const cJSON *other;

    if (!is_bad_state(mst_json_string_or(mst_json_at(task, "Status", NULL), "State", "")) ||
        strcmp(mst_json_string_or(task, "DesiredState", ""), "shutdown") != 0)
        return false;
    cJSON_ArrayForEach(other, tasks)
    {
        if (taskstate_time_s(mst_json_string_or(other, "CreatedAt", "")) > made_s && share_place(task, other))
            return false;
    }
    return true;
}

static bool is_same(const cJSON *service, const char *key)
{
    const cJSON *now = mst_json_at(service, "Spec", key, NULL);
    const cJSON *before = mst_json_at(service, "PreviousSpec", key, NULL);

    return (!now && !before) || cJSON_Compare(now, before, true);
}

/* Will the manager leave the tasks that there are as they are? Not between a write that changes them and the
 * end of the update that it leads to: what failed earlier with the same specification is replaced then too.
 * A write of anything else (replicas, labels) replaces none. */
static bool keeps_its_tasks(const cJSON *service)
{
    const char *state = mst_json_string_or(mst_json_at(service, "UpdateStatus", NULL), "State", "");

    if (state[0] != '\0')
        return strcmp(state, "updating") != 0 && strcmp(state, "rollback_started") != 0;
    return !mst_json_at(service, "PreviousSpec", NULL) ||
           (is_same(service, "TaskTemplate") && is_same(service, "EndpointSpec"));
}

static void count_task(struct tally *tally, const cJSON *task, double since_s, bool was_given_up)
{
    const char *state = mst_json_string_or(mst_json_at(task, "Status", NULL), "State", "");
    const char *error = mst_json_string_or(mst_json_at(task, "Status", NULL), "Err", "");
    const char *wanted = mst_json_string_or(task, "DesiredState", "");
    const bool is_old = taskstate_time_s(mst_json_string_or(task, "CreatedAt", "")) < since_s;
    const bool is_bad = is_bad_state(state);

    if (strcmp(state, "running") == 0 && strcmp(wanted, "running") == 0)
        tally->running++;
    else if (strcmp(state, "complete") == 0)
        tally->completed++;
    else if (!is_bad && taskstate_is_before_running(state) && strcmp(wanted, "shutdown") != 0 &&
             strcmp(wanted, "remove") != 0) /* on a node that is down it never gets any further */
        tally->starting++;
    if (is_old && is_bad && !was_given_up)
        return;
    tally->given_up += was_given_up;
    tally->failed += strcmp(state, "failed") == 0;
    tally->rejected += strcmp(state, "rejected") == 0;
    if (strcmp(state, "pending") == 0 && strstr(error, "no suitable node"))
        tally->has_no_node = true;
    if ((is_bad || error[0] != '\0') && is_newer(task, tally->newest_trouble))
        tally->newest_trouble = task;
    if (strcmp(state, "failed") == 0 && is_newer(task, tally->newest_failed))
        tally->newest_failed = task;
}

/* On a node that is down it never says that it ended. */
static bool is_leaving(const cJSON *task, const struct swarm_nodes *nodes)
{
    const char *wanted = mst_json_string_or(task, "DesiredState", "");
    const struct swarm_node *node =
        nodes ? swarm_nodes_find(nodes, mst_json_string_or(task, "NodeID", "")) : NULL;

    return node && node->is_usable && (strcmp(wanted, "shutdown") == 0 || strcmp(wanted, "remove") == 0) &&
           !taskstate_is_end(mst_json_string_or(mst_json_at(task, "Status", NULL), "State", ""));
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

/* An end of a rollback that began before this deployment wrote anything is none of its own: the live service
 * is what it was rolled back to. An update that was paused then still has not come to its end. */
static bool is_old_rollback(const cJSON *update, double since_s)
{
    const double started_s = taskstate_time_s(mst_json_string_or(update, "StartedAt", ""));

    return started_s > 0 && started_s < since_s;
}

static void judge_update(struct converge_service *service, const cJSON *json, double since_s)
{
    const cJSON *update = mst_json_at(json, "UpdateStatus", NULL);
    const char *state = mst_json_string_or(update, "State", "");
    const char *message = mst_json_string_or(update, "Message", "");

    if (strcmp(state, "updating") == 0 || strcmp(state, "rollback_started") == 0) {
        service->is_settled = false;
        (void)snprintf(service->state, sizeof service->state, "%s",
                       state[0] == 'u' ? "updating" : "rolling back");
        if (state[0] == 'r')
            (void)snprintf(service->reason, sizeof service->reason, "%s", message);
    } else if (strcmp(state, "paused") == 0 || strcmp(state, "rollback_paused") == 0) {
        service->code = SWARM_NO_CONVERGENCE;
        (void)snprintf(service->state, sizeof service->state, "paused");
        (void)snprintf(service->reason, sizeof service->reason, "%s: %s", state, message);
    } else if (strcmp(state, "rollback_completed") == 0 && !is_old_rollback(update, since_s)) {
        service->code = SWARM_ROLLED_BACK;
        (void)snprintf(service->state, sizeof service->state, "rolled back");
        (void)snprintf(service->reason, sizeof service->reason, "%s", message);
    }
}

/* While an update is under way the manager itself decides what failures come to: a pause or a rollback,
 * unless it was told to go on. */
static bool manager_decides(const cJSON *json)
{
    const char *action =
        mst_json_string_or(mst_json_at(json, "Spec", "UpdateConfig", NULL), "FailureAction", "pause");
    const char *state = mst_json_string_or(mst_json_at(json, "UpdateStatus", NULL), "State", "");

    return strcmp(state, "rollback_started") == 0 ||
           (strcmp(state, "updating") == 0 && strcmp(action, "continue") != 0);
}

static void judge_failures(struct converge_service *service, const cJSON *json, const struct tally *tally,
                           const char *restart)
{
    const bool is_final = strcmp(restart, "none") == 0 || tally->given_up > 0;

    if (tally->newest_trouble)
        set_reason(service, tally->newest_trouble);
    if (tally->newest_failed)
        (void)snprintf(service->failed_task, sizeof service->failed_task, "%s",
                       mst_json_string_or(tally->newest_failed, "ID", ""));
    service->is_waiting_for_node = tally->has_no_node;
    if (service->is_settled || manager_decides(json))
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

/* Tasks of a job that ran before, with the same specification, are done with. */
static bool is_of_this_run(const cJSON *task, const cJSON *service)
{
    const cJSON *its = mst_json_at(task, "JobIteration", NULL),
                *current = mst_json_at(service, "JobStatus", "JobIteration", NULL);

    return !its || !current || mst_json_u64_or(its, "Index", 0) == mst_json_u64_or(current, "Index", 0);
}

static void judge_service(struct converge_service *service, const cJSON *json, const cJSON *tasks,
                          const struct swarm_nodes *nodes, double since_s)
{
    const char *id = live_id(json, ENGINE_SERVICE);
    const char *restart = mst_json_string_or(mst_json_at(json, "Spec", "TaskTemplate", "RestartPolicy", NULL),
                                             "Condition", "any");
    const cJSON *task;
    const bool is_one_shot = strcmp(restart, "any") != 0;
    struct tally tally = {0};
    bool is_job, may_give_up;

    service->wanted = wanted_tasks(json, nodes, &is_job);
    /* A job's places are filled again as its manager sees fit, unless nothing may be tried twice. */
    may_give_up = is_one_shot && (!is_job || strcmp(restart, "none") == 0) && keeps_its_tasks(json);
    cJSON_ArrayForEach(task, tasks)
    {
        if (strcmp(mst_json_string_or(task, "ServiceID", ""), id) != 0 || !is_of_this_run(task, json))
            continue;
        count_task(&tally, task, since_s, may_give_up && is_given_up(task, tasks));
        service->leaving += is_leaving(task, nodes);
    }
    (void)snprintf(service->id, sizeof service->id, "%s", id);
    service->is_tty =
        mst_json_bool_or(mst_json_at(json, "Spec", "TaskTemplate", "ContainerSpec", NULL), "TTY", false);
    service->running = tally.running;
    service->completed = tally.completed;
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
    judge_failures(service, json, &tally, restart);
    judge_update(service, json, since_s);
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
            return mst_error_set(err, service->code, "service '%s' %s (%s): %s", service->name,
                                 service->code == SWARM_ROLLED_BACK ? "was rolled back" : "will not converge",
                                 service->state, service->reason);
    }
    return 0;
}
