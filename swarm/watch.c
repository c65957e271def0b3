/* SPDX-License-Identifier: Apache-2.0 */
#include "watch.h"

#include "converge.h"
#include "live.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/json.h"
#include "role.h"
#include "stack.h"

#include <stdio.h>
#include <string.h>

#define ROUND_MS                 100
#define TASKS_EVERY_MS           500
#define TASKS_WHILE_ALL_TRAIN_MS 2000 /* most that happens workers say themselves */
#define FAILURE_GRACE_MS                                                                                     \
    5000 /* for the others to say why they stop, so that the first can be told from the rest */
#define SILENCE_GRACE_MS 5000  /* tasks are complete, and the log has not caught up */
#define LATE_GRACE_MS    10000 /* for one that looks for the others although they are done */
#define NO_NODE_GRACE_MS 5000

static int take_message(void *context, const struct log_message *message, struct mst_error *err)
{
    struct watch *watch = context;
    mst_cleanup(mst_json_deletep) cJSON *sample = NULL;
    int r = workers_take(&watch->workers, message, &sample, err);

    if (r >= 0 && watch->events && workers_by_task(&watch->workers, message->task_id))
        r = events_log_add(watch->events, message->text, message->count, err);
    return r >= 0 && sample && watch->stats ? stats_csv_add(watch->stats, sample, err) : r;
}

static int follow_service(struct watch *watch, const cJSON *service, struct mst_error *err)
{
    const cJSON *spec = mst_json_at(service, "Spec", NULL);
    const enum service_role role = service_role(spec);
    const bool is_tty =
        mst_json_bool_or(mst_json_at(spec, "TaskTemplate", "ContainerSpec", NULL), "TTY", false);

    watch->expected += role == ROLE_WORKER;
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
    watch->progress = (struct progress){.nodes = watch->nodes, .stack = watch->stack};
    return 0;
}

void watch_release(struct watch *watch)
{
    logfollow_freep(&watch->follow);
    workers_release(&watch->workers);
    slot_memory_release(&watch->memory);
}

/* A worker that was killed cannot say so; its task can. */
static void note_ended(struct watch *watch, const cJSON *task, bool is_dead)
{
    struct worker *worker = workers_by_task(&watch->workers, mst_json_string_or(task, "ID", ""));

    if (!worker || worker->state == WORKER_DONE || worker->state == WORKER_LEFT)
        return;
    worker->is_dead = is_dead;
    if (worker->state == WORKER_FAILED)
        return; /* its own words say more */
    worker->state = worker->state == WORKER_LEAVING ? WORKER_LEFT : WORKER_LOST;
    worker->failed_s = 0; /* before all that could say a word */
    (void)snprintf(worker->reason, sizeof worker->reason, "its task ended: %s", slot_task_error(task));
}

static void note_slots(struct watch *watch, const struct slots *slots)
{
    for (size_t i = 0; i < slots->count; i++) {
        const struct slot *slot = &slots->items[i];
        if (slot->ended)
            note_ended(watch, slot->ended, slot->state == SLOT_DEAD && slot->ended == slot->task);
    }
}

/* Most workers that any `waiting` needs, of those in that state; 0: nobody says so. */
static size_t needed(const struct workers *workers, enum worker_state state)
{
    size_t most = 0;

    for (size_t i = 0; i < workers->count; i++) {
        const struct worker *worker = &workers->items[i];
        if (worker->state == state && worker->want > most)
            most = worker->want;
    }
    return most;
}

static bool was_in_a_view(const struct workers *workers)
{
    return workers->newest_view > 0;
}

static size_t slots_left(const struct slots *slots)
{
    const size_t dead = slots_count(slots, SLOT_DEAD);

    return slots->wanted > dead ? slots->wanted - dead : 0;
}

/* The training has no way on. *ret_needed: the workers that it would take, 0: any. */
static bool is_hopeless(const struct watch *watch, const struct slots *slots, size_t *ret_needed)
{
    const struct workers *workers = &watch->workers;
    const bool is_forming = !was_in_a_view(workers);

    *ret_needed = 0;
    if (slots_left(slots) == 0)
        return slots->wanted > 0;
    if (is_forming && slots_count(slots, SLOT_DEAD) == 0)
        return false; /* too few were asked for: more may be */
    *ret_needed = needed(workers, is_forming ? WORKER_FORMING : WORKER_PAUSED);
    return *ret_needed > slots_left(slots);
}

/* After it said that it was done it hands its files on, and nobody does that for it. */
static const struct worker *failed_after_done(const struct workers *workers)
{
    for (size_t i = 0; i < workers->count; i++) {
        if (workers->items[i].was_done && workers->items[i].state == WORKER_FAILED)
            return &workers->items[i];
    }
    return NULL;
}

static const struct slot *first_dead(const struct slots *slots)
{
    for (size_t i = 0; i < slots->count; i++) {
        if (slots->items[i].state == SLOT_DEAD)
            return &slots->items[i];
    }
    return NULL;
}

static int say_failed(const struct watch *watch, const struct slots *slots, size_t wanted,
                      struct mst_error *err)
{
    const struct worker *culprit = watch_culprit(&watch->workers);
    const size_t left = slots_left(slots);
    const struct slot *slot = first_dead(slots);
    const struct worker_tail *words =
        slot ? workers_tail(&watch->workers, mst_json_string_or(slot->task, "ID", "")) : NULL;
    char rest[96] = "";

    if (left > 0 && wanted > left)
        (void)snprintf(rest, sizeof rest, "; %zu of the %zu workers that are needed are left", left, wanted);
    if (culprit)
        return mst_error_set(err, SWARM_WORKER_FAILED, "worker '%s' failed: %s%s", culprit->slot,
                             culprit->reason, rest);
    if (!slot)
        return mst_error_set(err, SWARM_WORKER_FAILED,
                             "the training cannot go on: stack '%s' has %zu workers, and %zu are needed",
                             watch->stack, left, wanted);
    return mst_error_set(err, SWARM_WORKER_FAILED, "a worker never came up: service %s: %s%s%s%s",
                         slot ? slot->service : "", slot ? slot_task_error(slot->task) : "",
                         words ? ": " : "", words ? words->lines[(words->count - 1) % WORKERS_TAIL] : "",
                         rest);
}

/* Who failed, and whether the wait for the others' words is over. */
static int judge_failure(struct watch *watch, const struct slots *slots, struct mst_error *err)
{
    const struct worker *late = failed_after_done(&watch->workers);
    const struct slot *dead = first_dead(slots);
    size_t wanted = 0;

    if (late)
        return mst_error_set(err, SWARM_WORKER_FAILED, "worker '%s' failed: %s", late->slot, late->reason);
    if (!is_hopeless(watch, slots, &wanted)) {
        watch->failed_ns = 0;
        return 0;
    }
    if (watch->failed_ns == 0)
        watch->failed_ns = mst_now_ns();
    /* A worker that never started has nothing but its last words, and the log may lag behind its task. */
    const bool all_is_said = slots_count(slots, SLOT_DEAD) >= slots->wanted &&
                             (watch_culprit(&watch->workers) ||
                              workers_tail(&watch->workers, mst_json_string_or(dead->task, "ID", "")));
    if (!all_is_said && mst_ms_since(watch->failed_ns) < FAILURE_GRACE_MS)
        return 0;
    return say_failed(watch, slots, wanted, err);
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
        /* Once the training began, a node that is away is no end of it: it may come back. */
        if (role == ROLE_WORKER && was_in_a_view(&watch->workers))
            continue;
        is_waiting |= s->is_waiting_for_node && !s->is_settled;
        if (s->is_waiting_for_node && watch->no_node_ns > 0 &&
            mst_ms_since(watch->no_node_ns) >= NO_NODE_GRACE_MS)
            r = mst_error_set(err, SWARM_NO_CONVERGENCE, "service '%s' will not converge: %s", s->name,
                              s->reason);
        /* Of workers that fail, their own words and their slots tell more. */
        if (r >= 0 && s->code != 0 && !(role == ROLE_WORKER && s->is_failing))
            r = mst_error_set(err, s->code, "service '%s' will not converge (%s): %s", s->name, s->state,
                              s->reason);
    }
    if (!is_waiting)
        watch->no_node_ns = 0;
    else if (watch->no_node_ns == 0)
        watch->no_node_ns = mst_now_ns();
    return r;
}

/* Of the stack's services, those that are workers. */
static size_t worker_services(const cJSON *services, const cJSON **ret_list)
{
    const cJSON *service;
    size_t count = 0;

    cJSON_ArrayForEach(service, services)
    {
        if (service_role(mst_json_at(service, "Spec", NULL)) == ROLE_WORKER)
            ret_list[count++] = service;
    }
    return count;
}

struct tally {
    size_t wanted, dead, complete;
};

/* One that was done before its task failed is none. */
static size_t count_given_up(const struct watch *watch, const struct slots *slots)
{
    size_t count = 0;

    for (size_t i = 0; i < slots->count; i++) {
        const struct slot *slot = &slots->items[i];
        const struct worker *worker =
            workers_by_task(&watch->workers, mst_json_string_or(slot->task, "ID", ""));
        count += slot->state == SLOT_DEAD && !(worker && worker->state == WORKER_DONE);
    }
    return count;
}

static int look_at_tasks(struct watch *watch, struct tally *ret_tally, struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *services = NULL, *tasks = NULL;
    mst_cleanup(mst_freep) const cJSON **list = NULL;
    mst_cleanup(slots_release) struct slots slots = {0};
    int r = live_list(watch->session->engine, ENGINE_SERVICE, watch->stack, &services, err);

    if (r >= 0)
        r = live_list(watch->session->engine, ENGINE_TASK, watch->stack, &tasks, err);
    if (r < 0)
        return r;
    if (cJSON_GetArraySize(services) == 0)
        return mst_error_set(err, SWARM_WORKER_FAILED, "stack '%s' was removed by somebody else",
                             watch->stack);
    list = calloc((size_t)cJSON_GetArraySize(services), sizeof(cJSON *));
    if (!list)
        return mst_error_set(err, -ENOMEM, "stack '%s': no memory", watch->stack);
    r = slots_judge(list, worker_services(services, list), tasks, watch->nodes->usable_count, mst_now_ns(),
                    &watch->memory, &slots, err);
    if (r < 0)
        return r;
    watch->expected = watch->progress.expected = slots.wanted;
    note_slots(watch, &slots);
    r = judge_failure(watch, &slots, err);
    if (r >= 0)
        r = judge_services(watch, services, tasks, err);
    if (r >= 0)
        *ret_tally = (struct tally){.wanted = slots.wanted,
                                    .dead = count_given_up(watch, &slots),
                                    .complete = slots_count(&slots, SLOT_COMPLETE)};
    watch->has_looked = true;
    return r;
}

/* What is so for some time counts, what passes does not. */
static bool lasts(bool is_so, uint64_t *since_ns, unsigned grace_ms)
{
    if (!is_so)
        *since_ns = 0;
    else if (*since_ns == 0)
        *since_ns = mst_now_ns();
    return is_so && mst_ms_since(*since_ns) >= grace_ms;
}

static bool somebody_is_at_work(const struct workers *workers)
{
    for (size_t i = 0; i < workers->count; i++) {
        if (worker_is_at_work(&workers->items[i]))
            return true;
    }
    return false;
}

/* All that were not given up are done; or their tasks are, and the log lags or was cut; or what is left came
 * too late. */
static bool is_over(struct watch *watch, const struct tally *tally)
{
    const size_t done = workers_count_state(&watch->workers, WORKER_DONE);

    return (done > 0 && done + tally->dead >= tally->wanted) ||
           lasts(tally->complete > 0 && tally->complete + tally->dead >= tally->wanted,
                 &watch->silent_done_ns, SILENCE_GRACE_MS) ||
           lasts(done > 0 && !somebody_is_at_work(&watch->workers), &watch->late_ns, LATE_GRACE_MS);
}

static bool is_time_to_look(const struct watch *watch)
{
    const bool all_train =
        watch->expected > 0 && workers_count_state(&watch->workers, WORKER_TRAINING) >= watch->expected;
    const unsigned every_ms = all_train ? TASKS_WHILE_ALL_TRAIN_MS : TASKS_EVERY_MS;

    return watch->looked_ns == 0 || mst_now_ns() >= watch->looked_ns + every_ms * MST_NS_PER_MS;
}

/* 1 and the tally; 0 when the engine did not answer and may be given time; or what ends the run. */
static int look(struct watch *watch, struct tally *ret_tally, struct mst_error *err)
{
    struct mst_error why = MST_ERROR_INIT;

    watch->looked_ns = mst_now_ns();
    const int r = look_at_tasks(watch, ret_tally, &why);
    if (r >= 0) {
        watch->trouble.since_ns = 0;
        return 1;
    }
    if (session_bears(watch->session, &watch->trouble, r, &why))
        return 0;
    if (err)
        *err = why;
    return r;
}

static int one_round(struct watch *watch, bool *ret_is_done, struct mst_error *err)
{
    struct tally tally;
    int r = session_wait(watch->session, ROUND_MS, watch->deadline_ns, err);

    if (r >= 0)
        r = logfollow_tick(watch->follow, err);
    progress_show(&watch->progress, &watch->session->report, &watch->workers);
    if (r == -ETIMEDOUT)
        return mst_error_set(err, r, "stack '%s': %zu of %zu workers were done in time", watch->stack,
                             workers_count_state(&watch->workers, WORKER_DONE), watch->expected);
    if (r < 0)
        return r;
    /* Often the last word: nobody waits for the next look at the tasks. */
    *ret_is_done = watch->has_looked && workers_count_state(&watch->workers, WORKER_DONE) >= watch->expected;
    if (*ret_is_done || !is_time_to_look(watch))
        return 0;
    r = look(watch, &tally, err);
    if (r > 0)
        *ret_is_done = is_over(watch, &tally);
    return r < 0 ? r : 0;
}

/* Who did not come to the end with the others. */
static void name_missing(struct watch *watch)
{
    for (size_t i = 0; i < watch->workers.count; i++) {
        const struct worker *worker = &watch->workers.items[i];
        if (worker->state != WORKER_DONE && worker->state != WORKER_LEFT)
            report_line(&watch->session->report, "warning: done without worker '%s' (%s%s%s)", worker->slot,
                        worker_state_text(worker->state), worker->reason[0] ? ": " : "", worker->reason);
    }
}

int watch_workers(struct watch *watch, struct mst_error *err)
{
    bool is_done = false;

    while (!is_done) {
        const int r = one_round(watch, &is_done, err);
        if (r < 0)
            return r;
    }
    progress_show(&watch->progress, &watch->session->report, &watch->workers);
    report_keep_block(&watch->session->report);
    name_missing(watch);
    return 0;
}

int watch_collector(struct watch *watch, unsigned timeout_ms, struct mst_error *err)
{
    const uint64_t deadline_ns = mst_now_ns() + timeout_ms * MST_NS_PER_MS;

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
        if (r >= 0 && is_time_to_look(watch))
            r = look(watch, &tally, err);
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
        if (worker->is_dead && (!first || worker->failed_s < first->failed_s))
            first = worker;
    }
    return first ? first : failed_after_done(workers);
}
