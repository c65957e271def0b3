/* SPDX-License-Identifier: Apache-2.0 */
#include "watch.h"

#include "converge.h"
#include "live.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/json.h"
#include "stack.h"
#include "taskstate.h"

#include <stdio.h>
#include <string.h>

#define ROUND_MS       100
#define TASKS_EVERY_MS 500
#define FAILURE_GRACE_MS                                                                                     \
    5000 /* for the others to say why they stop, so that the first can be told from the rest */
#define SILENCE_GRACE_MS 5000 /* tasks are complete, and the log has not caught up */
#define NO_NODE_GRACE_MS 5000
#define TROUBLE_MAX_MS   20000 /* an engine that restarts is back by then */

static bool has_word(const cJSON *list, int index, const char *word)
{
    const cJSON *item = cJSON_GetArrayItem(list, index);

    return cJSON_IsString(item) && strcmp(item->valuestring, word) == 0;
}

enum service_role service_role(const cJSON *spec)
{
    static const struct {
        const char *label, *program, *verb;
        enum service_role role;
    } roles[] = {{"worker", "muster-agent", "train", ROLE_WORKER},
                 {"worker", "muster-agent", "exec", ROLE_WORKER},
                 {"collector", "muster-agent", "collect", ROLE_COLLECTOR},
                 {"monitor", "muster-monitor", "emit", ROLE_MONITOR}};
    const char *label = mst_json_string_or(mst_json_at(spec, "Labels", NULL), ROLE_LABEL, NULL);
    const cJSON *container = mst_json_at(spec, "TaskTemplate", "ContainerSpec", NULL);
    const cJSON *command = mst_json_at(container, "Command", NULL),
                *arguments = mst_json_at(container, "Args", NULL);

    for (size_t i = 0; i < MST_ARRAY_COUNT(roles); i++) {
        const bool is_meant =
            label ? strcmp(label, roles[i].label) == 0
                  : (has_word(command, 0, roles[i].program) &&
                     (has_word(command, 1, roles[i].verb) || has_word(arguments, 0, roles[i].verb))) ||
                        (!command && has_word(arguments, 0, roles[i].program) &&
                         has_word(arguments, 1, roles[i].verb));
        if (is_meant)
            return roles[i].role;
    }
    return ROLE_OTHER;
}

/* A lost worker ends the run where nothing starts it again. */
static bool is_final(const cJSON *service)
{
    const cJSON *policy = mst_json_at(service, "Spec", "TaskTemplate", "RestartPolicy", NULL);

    return strcmp(mst_json_string_or(policy, "Condition", "any"), "none") == 0;
}

static int take_message(void *context, const struct log_message *message, struct mst_error *err)
{
    struct watch *watch = context;
    mst_cleanup(mst_json_deletep) cJSON *sample = NULL;
    const int r = workers_take(&watch->workers, message, &sample, err);

    return r >= 0 && sample && watch->stats ? stats_csv_add(watch->stats, sample, err) : r;
}

static int follow_service(struct watch *watch, const cJSON *service, struct mst_error *err)
{
    const cJSON *spec = mst_json_at(service, "Spec", NULL);
    const cJSON *mode = mst_json_at(spec, "Mode", NULL);
    const enum service_role role = service_role(spec);
    const bool is_tty =
        mst_json_bool_or(mst_json_at(spec, "TaskTemplate", "ContainerSpec", NULL), "TTY", false);

    if (role == ROLE_WORKER)
        watch->expected +=
            mst_json_at(mode, "Global", NULL)
                ? watch->nodes->usable_count
                : (size_t)mst_json_u64_or(mst_json_at(mode, "Replicated", NULL), "Replicas", 1);
    watch->has_collector |= role == ROLE_COLLECTOR;
    return logfollow_add(watch->follow, live_id(service, ENGINE_SERVICE), live_name(service, ENGINE_SERVICE),
                         is_tty, err);
}

int watch_start(struct watch *watch, struct mst_error *err)
{
    const struct logfollow_options options = {.follow = true};
    mst_cleanup(mst_json_deletep) cJSON *services = NULL;
    const cJSON *service;
    int r;

    workers_init(&watch->workers);
    r = live_list(watch->session->engine, ENGINE_SERVICE, watch->stack, &services, err);
    if (r >= 0)
        r = logfollow_new(watch->session, &options, take_message, watch, &watch->follow, err);
    if (r < 0)
        return r;
    cJSON_ArrayForEach(service, services)
    {
        r = follow_service(watch, service, err);
        if (r < 0)
            return r;
    }
    if (watch->expected == 0)
        return mst_error_set(
            err, -ENOENT,
            "stack '%s' has no workers: no service runs 'muster-agent train' or is labelled %s=worker",
            watch->stack, ROLE_LABEL);
    watch->progress =
        (struct progress){.nodes = watch->nodes, .stack = watch->stack, .expected = watch->expected};
    return 0;
}

void watch_release(struct watch *watch)
{
    logfollow_freep(&watch->follow);
    workers_release(&watch->workers);
}

/* A worker that was killed cannot say so; its task can. */
static void note_dead(struct watch *watch, const cJSON *task, const char *state)
{
    const cJSON *status = mst_json_at(task, "Status", NULL);
    struct worker *worker = workers_by_task(&watch->workers, mst_json_string_or(task, "ID", ""));
    const char *error = mst_json_string_or(status, "Err", mst_json_string_or(status, "Message", state));

    if (watch->failed_ns == 0)
        watch->failed_ns = mst_now_ns();
    if (!worker || worker->state == WORKER_FAILED || worker->state == WORKER_DONE)
        return;
    worker->state = WORKER_FAILED;
    worker->failed_s = 0; /* before all that could say a word */
    (void)snprintf(worker->reason, sizeof worker->reason, "its task ended: %s", error);
}

struct tally {
    size_t ended, complete, dead;
    char dead_reason[512]; /* of the first that is dead */
    char dead_task_id[ENGINE_NAME_MAX_BYTES];
};

static void look_at_task(struct watch *watch, const cJSON *service, const cJSON *task, struct tally *tally)
{
    const cJSON *status = mst_json_at(task, "Status", NULL);
    const char *state = mst_json_string_or(status, "State", "");

    if (strcmp(mst_json_string_or(task, "ServiceID", ""), live_id(service, ENGINE_SERVICE)) != 0)
        return;
    tally->ended += taskstate_is_end(state);
    tally->complete += strcmp(state, "complete") == 0;
    if (is_final(service) && (strcmp(state, "failed") == 0 || strcmp(state, "rejected") == 0)) {
        if (tally->dead++ == 0) {
            (void)snprintf(tally->dead_reason, sizeof tally->dead_reason, "%s: %s",
                           live_name(service, ENGINE_SERVICE), mst_json_string_or(status, "Err", state));
            (void)snprintf(tally->dead_task_id, sizeof tally->dead_task_id, "%s",
                           mst_json_string_or(task, "ID", ""));
        }
        note_dead(watch, task, state);
    }
}

/* Who failed, and whether the wait for the others' words is over. */
static int judge_failure(struct watch *watch, const struct tally *tally, struct mst_error *err)
{
    const struct worker *culprit = watch_culprit(&watch->workers);
    const struct worker_tail *words = workers_tail(&watch->workers, tally->dead_task_id);
    /* A worker that never started has nothing but its last words, and the log may lag behind its task. */
    const bool all_is_said = tally->ended >= watch->expected && (culprit || words);

    if (watch->failed_ns == 0 || (!all_is_said && mst_ms_since(watch->failed_ns) < FAILURE_GRACE_MS))
        return 0;
    if (culprit)
        return mst_error_set(err, SWARM_WORKER_FAILED, "worker '%s' failed: %s", culprit->slot,
                             culprit->reason);
    return mst_error_set(err, SWARM_WORKER_FAILED, "a worker never came up: service %s%s%s",
                         tally->dead_reason, words ? ": " : "",
                         words ? words->lines[(words->count - 1) % WORKERS_TAIL] : "");
}

/* Services that do not come up. A monitor is no reason to end a training. */
static int judge_services(struct watch *watch, const cJSON *services, const cJSON *tasks,
                          struct mst_error *err)
{
    mst_cleanup(converge_view_release) struct converge_view view = {0};
    int r = converge_judge(services, tasks, watch->nodes, 0, &view, err);
    bool is_waiting = false;

    for (size_t i = 0; i < view.count && r >= 0; i++) {
        const struct converge_service *s = &view.items[i];
        const cJSON *service = live_find(services, ENGINE_SERVICE, s->name);
        const enum service_role role = service_role(mst_json_at(service, "Spec", NULL));

        if (role == ROLE_MONITOR) {
            if ((s->code != 0 || s->is_waiting_for_node) && !watch->has_warned_monitor)
                report_line(&watch->session->report, "warning: no samples from service '%s' (%s): %s",
                            s->name, s->state, s->reason);
            watch->has_warned_monitor |= s->code != 0 || s->is_waiting_for_node;
            continue;
        }
        is_waiting |= s->is_waiting_for_node && !s->is_settled;
        if (s->is_waiting_for_node && watch->no_node_ns > 0 &&
            mst_ms_since(watch->no_node_ns) >= NO_NODE_GRACE_MS)
            r = mst_error_set(err, SWARM_NO_CONVERGENCE, "service '%s' will not converge: %s", s->name,
                              s->reason);
        /* What a final worker's task came to is judged by its events. */
        if (r >= 0 && s->code != 0 && !(role == ROLE_WORKER && is_final(service)))
            r = mst_error_set(err, s->code, "service '%s' will not converge (%s): %s", s->name, s->state,
                              s->reason);
    }
    if (!is_waiting)
        watch->no_node_ns = 0;
    else if (watch->no_node_ns == 0)
        watch->no_node_ns = mst_now_ns();
    return r;
}

static int look_at_tasks(struct watch *watch, struct tally *ret_tally, struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *services = NULL, *tasks = NULL;
    const cJSON *service, *task;
    int r = live_list(watch->session->engine, ENGINE_SERVICE, watch->stack, &services, err);

    if (r >= 0)
        r = live_list(watch->session->engine, ENGINE_TASK, watch->stack, &tasks, err);
    if (r < 0)
        return r;
    if (cJSON_GetArraySize(services) == 0)
        return mst_error_set(err, SWARM_WORKER_FAILED, "stack '%s' was removed by somebody else",
                             watch->stack);
    *ret_tally = (struct tally){0};
    cJSON_ArrayForEach(service, services)
    {
        if (service_role(mst_json_at(service, "Spec", NULL)) != ROLE_WORKER)
            continue;
        cJSON_ArrayForEach(task, tasks) look_at_task(watch, service, task, ret_tally);
        /* An agent that says that it failed does not wait for its task to end. */
        for (size_t i = 0; i < watch->workers.count && watch->failed_ns == 0; i++) {
            if (watch->workers.items[i].state == WORKER_FAILED && is_final(service) &&
                strcmp(watch->workers.items[i].service, live_name(service, ENGINE_SERVICE)) == 0)
                watch->failed_ns = mst_now_ns();
        }
    }
    r = judge_failure(watch, ret_tally, err);
    return r < 0 ? r : judge_services(watch, services, tasks, err);
}

/* An engine that is away for a moment (restarted) is no failure of the run: the workers do not need it. */
static bool is_passing(struct watch *watch, int code, const struct mst_error *err)
{
    if (code == -ECANCELED || code == -ENOMEM || code == SWARM_WORKER_FAILED ||
        code == SWARM_NO_CONVERGENCE || code == SWARM_ROLLED_BACK)
        return false;
    if (watch->trouble_ns == 0) {
        watch->trouble_ns = mst_now_ns();
        report_line(&watch->session->report, "warning: %s; trying again", err->text);
    }
    return mst_ms_since(watch->trouble_ns) < TROUBLE_MAX_MS;
}

/* All tasks are complete, but not all `done` events were read: the log may lag, or have been cut. */
static bool are_silently_done(struct watch *watch, const struct tally *tally)
{
    if (tally->complete < watch->expected) {
        watch->silent_done_ns = 0;
        return false;
    }
    if (watch->silent_done_ns == 0)
        watch->silent_done_ns = mst_now_ns();
    return mst_ms_since(watch->silent_done_ns) >= SILENCE_GRACE_MS;
}

/* 1 and the tally; 0 when the engine did not answer and may be given time; or what ends the run. */
static int look(struct watch *watch, uint64_t *next_look_ns, struct tally *ret_tally, struct mst_error *err)
{
    struct mst_error why = MST_ERROR_INIT;

    *next_look_ns = mst_now_ns() + TASKS_EVERY_MS * MST_NS_PER_MS;
    const int r = look_at_tasks(watch, ret_tally, &why);
    if (r >= 0) {
        watch->trouble_ns = 0;
        return 1;
    }
    if (is_passing(watch, r, &why))
        return 0;
    if (err)
        *err = why;
    return r;
}

static int one_round(struct watch *watch, uint64_t *next_look_ns, bool *ret_is_done, struct mst_error *err)
{
    struct tally tally = {0};
    int r = session_wait(watch->session, ROUND_MS, watch->deadline_ns, err);

    if (r >= 0)
        r = logfollow_tick(watch->follow, err);
    progress_show(&watch->progress, &watch->session->report, &watch->workers);
    if (r == -ETIMEDOUT)
        return mst_error_set(err, r, "stack '%s': %zu of %zu workers were done in time", watch->stack,
                             workers_count_state(&watch->workers, WORKER_DONE), watch->expected);
    if (r < 0)
        return r;
    *ret_is_done = workers_count_state(&watch->workers, WORKER_DONE) >= watch->expected;
    if (*ret_is_done || mst_now_ns() < *next_look_ns)
        return 0;
    r = look(watch, next_look_ns, &tally, err);
    if (r > 0)
        *ret_is_done = are_silently_done(watch, &tally);
    return r < 0 ? r : 0;
}

int watch_workers(struct watch *watch, struct mst_error *err)
{
    uint64_t next_look_ns = 0;
    bool is_done = false;

    while (!is_done) {
        const int r = one_round(watch, &next_look_ns, &is_done, err);
        if (r < 0)
            return r;
    }
    progress_show(&watch->progress, &watch->session->report, &watch->workers);
    report_keep_block(&watch->session->report);
    return 0;
}

int watch_collector(struct watch *watch, unsigned timeout_ms, struct mst_error *err)
{
    const uint64_t deadline_ns = mst_now_ns() + timeout_ms * MST_NS_PER_MS;
    uint64_t next_look_ns = 0;

    while (!watch->workers.is_collected) {
        struct tally tally;
        int r = session_wait(watch->session, ROUND_MS, deadline_ns, err);
        if (r >= 0)
            r = logfollow_tick(watch->follow, err);
        if (r == -ETIMEDOUT)
            return mst_error_set(err, r,
                                 "stack '%s': the collector did not say within %u s that it has all files",
                                 watch->stack, timeout_ms / 1000);
        /* A worker may still fail: it says that it is done before it hands its files on. */
        if (r >= 0 && mst_now_ns() >= next_look_ns)
            r = look(watch, &next_look_ns, &tally, err);
        if (r < 0)
            return r;
    }
    return 0;
}

const struct worker *watch_culprit(const struct workers *workers)
{
    const struct worker *first = NULL;

    for (size_t i = 0; i < workers->count; i++) {
        const struct worker *worker = &workers->items[i];
        if (worker->state == WORKER_FAILED && (!first || worker->failed_s < first->failed_s))
            first = worker;
    }
    return first;
}
