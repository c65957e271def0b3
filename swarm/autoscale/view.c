/* SPDX-License-Identifier: Apache-2.0 */
#include "autoscale/view.h"

#include "live.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/json.h"
#include "taskstate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void read_rollout(struct autoscale_subject *subject)
{
    static const struct {
        const char *state, *text;
    } states[] = {
        {"updating", "an update is under way"},
        {"paused", "an update is paused"},
        {"rollback_started", "an update is being rolled back"},
        {"rollback_paused", "the rollback of an update is paused"},
    };
    const cJSON *update = mst_json_at(subject->json, "UpdateStatus", NULL);
    const char *state = mst_json_string_or(update, "State", ""),
               *message = mst_json_string_or(update, "Message", "");

    for (size_t i = 0; i < MST_ARRAY_COUNT(states); i++) {
        if (strcmp(states[i].state, state) == 0)
            (void)snprintf(subject->rollout, sizeof subject->rollout, "%s%s%s", states[i].text,
                           message[0] ? ": " : "", message);
    }
}

static int take_task(struct autoscale_subject *subject, const cJSON *task, struct mst_error *err)
{
    const cJSON *status = mst_json_at(task, "Status", NULL);
    const char *wanted = mst_json_string_or(task, "DesiredState", ""),
               *state = mst_json_string_or(status, "State", "");
    struct autoscale_task *tasks;

    if (strcmp(wanted, "running") != 0 && strcmp(wanted, "ready") != 0)
        return 0;
    if (strcmp(state, "running") != 0) {
        const bool has_no_room = strcmp(state, "pending") == 0 &&
                                 strstr(mst_json_string_or(status, "Err", ""), "no suitable node");
        subject->without_room += has_no_room;
        subject->starting += !has_no_room;
        return 0;
    }
    tasks = reallocarray(subject->tasks, subject->task_count + 1, sizeof *tasks);
    if (!tasks)
        return mst_error_set(err, -ENOMEM, "tasks of service '%s': no memory", subject->name);
    subject->tasks = tasks;
    tasks[subject->task_count++] = (struct autoscale_task){
        .id = mst_json_string_or(task, "ID", ""),
        .container = mst_json_string_or(mst_json_at(status, "ContainerStatus", NULL), "ContainerID", ""),
        .slot = mst_json_u64_or(task, "Slot", 0),
    };
    return 0;
}

static int make_subject(const cJSON *service, const cJSON *tasks, const char *stack,
                        struct autoscale_subject *subject, struct mst_error *err)
{
    const uint64_t replicas =
        mst_json_u64_or(mst_json_at(service, "Spec", "Mode", "Replicated", NULL), "Replicas", 1);
    const cJSON *task;
    int r = 0;

    subject->json = service;
    subject->id = live_id(service, ENGINE_SERVICE);
    subject->name = live_name(service, ENGINE_SERVICE);
    subject->replicas = replicas > UINT32_MAX ? UINT32_MAX : (uint32_t)replicas;
    subject->is_wanted = autoscale_is_wanted(service);
    if (subject->is_wanted)
        subject->code = autoscale_policy_read(service, stack, &subject->policy, &subject->fault);
    read_rollout(subject);
    cJSON_ArrayForEach(task, tasks)
    {
        if (r >= 0 && strcmp(mst_json_string_or(task, "ServiceID", ""), subject->id) == 0)
            r = take_task(subject, task, err);
    }
    return r;
}

int autoscale_view_make(const cJSON *services, const cJSON *tasks, const char *stack,
                        struct autoscale_view *ret_view, struct mst_error *err)
{
    mst_cleanup(autoscale_view_release) struct autoscale_view view = {0};
    const int count = cJSON_GetArraySize(services);
    const cJSON *service;

    view.items = calloc(count > 0 ? (size_t)count : 1, sizeof *view.items);
    if (!view.items)
        return mst_error_set(err, -ENOMEM, "%d services: no memory", count);
    cJSON_ArrayForEach(service, services)
    {
        const int r = make_subject(service, tasks, stack, &view.items[view.count++], err);
        if (r < 0)
            return r;
    }
    *ret_view = view;
    view = (struct autoscale_view){0};
    return 0;
}

void autoscale_view_release(struct autoscale_view *view)
{
    for (size_t i = 0; i < view->count; i++)
        free(view->items[i].tasks);
    free(view->items);
    *view = (struct autoscale_view){0};
}

const struct autoscale_subject *autoscale_view_find(const struct autoscale_view *view, const char *name)
{
    for (size_t i = 0; i < view->count; i++) {
        if (strcmp(view->items[i].name, name) == 0)
            return &view->items[i];
    }
    return NULL;
}

/* ---- the stamp ---- */

void autoscale_stamp_text(const struct autoscale_stamp *stamp, char text[static AUTOSCALE_STAMP_BYTES])
{
    char when[MST_UTC_TEXT_BYTES];

    mst_utc_text(stamp->wall_s, when);
    (void)snprintf(text, AUTOSCALE_STAMP_BYTES, "%s %s %u->%u", when, stamp->is_out ? "out" : "in",
                   (unsigned)stamp->from, (unsigned)stamp->to);
}

bool autoscale_stamp_parse(const char *text, struct autoscale_stamp *ret_stamp)
{
    struct autoscale_stamp stamp;
    char when[MST_UTC_TEXT_BYTES + 8], direction[4], rest[2];
    unsigned from, to;

    if (sscanf(text, "%31s %3s %9u->%9u%1s", when, direction, &from, &to, rest) != 4)
        return false;
    stamp = (struct autoscale_stamp){
        .wall_s = taskstate_time_s(when), .is_out = strcmp(direction, "out") == 0, .from = from, .to = to};
    if (!(stamp.wall_s > 0) || (!stamp.is_out && strcmp(direction, "in") != 0))
        return false;
    *ret_stamp = stamp;
    return true;
}

const char *autoscale_stamp_of(const cJSON *service)
{
    return mst_json_string_or(mst_json_at(service, "Spec", "Labels", NULL), AUTOSCALE_STAMP, "");
}

/* The stamp is by the wall clock of who wrote it, perhaps another machine: one from the future is of now. */
static uint64_t time_of(const struct autoscale_stamp *stamp, uint64_t now_ns, double wall_s)
{
    const double age_s = wall_s - stamp->wall_s;
    const double most_s = (double)(now_ns - 1) / (double)MST_NS_PER_S;
    const double capped_s = age_s < 0 ? 0 : age_s > most_s ? most_s : age_s;

    return now_ns - (uint64_t)(capped_s * (double)MST_NS_PER_S);
}

void autoscale_known_update(struct autoscale_known *known, const struct autoscale_subject *subject,
                            uint64_t now_ns, double wall_s)
{
    const char *text = autoscale_stamp_of(subject->json);
    struct autoscale_memory *memory = &known->memory;
    struct autoscale_stamp stamp;

    if (known->has_look && known->replicas == subject->replicas &&
        strncmp(known->stamp, text, sizeof known->stamp - 1) == 0)
        return;
    if (autoscale_stamp_parse(text, &stamp) && stamp.to == subject->replicas) {
        memory->changed = stamp.is_out ? AUTOSCALE_BY_US_OUT : AUTOSCALE_BY_US_IN;
        memory->changed_ns = time_of(&stamp, now_ns, wall_s);
    } else if (text[0] != '\0' || (known->has_look && known->replicas != subject->replicas)) {
        memory->changed = AUTOSCALE_BY_OTHERS; /* when, nobody says: it counts from now */
        memory->changed_ns = now_ns;
    }
    known->replicas = subject->replicas;
    known->has_look = true;
    (void)snprintf(known->stamp, sizeof known->stamp, "%s", text);
}
