/* SPDX-License-Identifier: Apache-2.0 */
#include "standing.h"

#include "live.h"
#include "logfollow.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/event.h"
#include "muster/json.h"
#include "role.h"

#include <stdio.h>
#include <string.h>

#define TAIL_LINES   "100" /* at an event a second, of which each kind has all that is shown */
#define PATIENCE_MS  3000  /* a node that is down never answers */
#define ROUND_MS     100
#define TASKS_MAX    8192
#define STARTING_MAX 64 /* of a service: each is a connection */

void standings_release(struct standings *standings)
{
    for (size_t i = 0; i < standings->count; i++)
        worker_release(&standings->items[i]);
    free(standings->items);
    *standings = (struct standings){0};
}

static struct worker *find(const struct standings *standings, const char *task_id)
{
    for (size_t i = 0; i < standings->count; i++) {
        if (strcmp(standings->items[i].task_id, task_id) == 0)
            return &standings->items[i];
    }
    return NULL;
}

const struct worker *standings_find(const struct standings *standings, const char *task_id)
{
    return find(standings, task_id);
}

const char *standing_text(const struct worker *worker, bool has_ended)
{
    if (!worker)
        return NULL;
    if (!has_ended)
        return worker_state_text(worker->state);
    return worker->state == WORKER_LEAVING                                  ? worker_state_text(WORKER_LEFT)
           : worker->state == WORKER_DONE || worker->state == WORKER_FAILED ? worker_state_text(worker->state)
                                                                            : NULL;
}

static int add(struct standings *standings, const char *task_id, struct worker **ret_worker)
{
    struct worker *items;

    *ret_worker = NULL;
    if (standings->count >= TASKS_MAX)
        return 0;
    items = reallocarray(standings->items, standings->count + 1, sizeof *items);
    if (!items)
        return -ENOMEM;
    standings->items = items;
    *ret_worker = &items[standings->count++];
    worker_init(*ret_worker);
    (void)snprintf((*ret_worker)->task_id, sizeof(*ret_worker)->task_id, "%s", task_id);
    return 0;
}

static int take_message(void *context, const struct log_message *message, struct mst_error *err)
{
    struct standings *standings = context;
    struct worker *worker = find(standings, message->task_id);
    mst_cleanup(mst_json_deletep) cJSON *event = NULL;
    const char *name;
    int r = 0;

    if (message->text[0] != '{' || message->count > MST_EVENT_MAX_BYTES ||
        mst_json_parse(message->text, message->count, "event", &event, NULL) < 0 ||
        mst_json_get_string(event, "event", "event", &name, NULL) < 0)
        return 0;
    if (!worker)
        r = add(standings, message->task_id, &worker);
    if (r >= 0 && worker)
        r = worker_take(worker, name, event, NULL);
    return r < 0 ? mst_error_set(err, r, "logs: no memory") : 0;
}

/* A worker starts until its health is known, and trains long before. */
static int add_starting(struct logfollow *follow, const cJSON *service, bool is_tty, const cJSON *tasks,
                        struct mst_error *err)
{
    const cJSON *task;
    size_t count = 0;

    cJSON_ArrayForEach(task, tasks)
    {
        const char *state = mst_json_string_or(mst_json_at(task, "Status", NULL), "State", "");
        int r;
        if (strcmp(state, "starting") != 0 || count >= STARTING_MAX ||
            strcmp(mst_json_string_or(task, "ServiceID", ""), live_id(service, ENGINE_SERVICE)) != 0)
            continue;
        r = logfollow_add_task(follow, mst_json_string_or(task, "ID", ""), live_name(service, ENGINE_SERVICE),
                               is_tty, err);
        if (r < 0)
            return r;
        count++;
    }
    return 0;
}

static int follow_workers(struct logfollow *follow, const cJSON *services, const cJSON *tasks,
                          struct mst_error *err)
{
    const cJSON *service;

    cJSON_ArrayForEach(service, services)
    {
        const cJSON *spec = mst_json_at(service, "Spec", NULL);
        const bool is_tty =
            mst_json_bool_or(mst_json_at(spec, "TaskTemplate", "ContainerSpec", NULL), "TTY", false);
        int r;
        if (service_role(spec) != ROLE_WORKER)
            continue;
        r = logfollow_add(follow, live_id(service, ENGINE_SERVICE), live_name(service, ENGINE_SERVICE),
                          is_tty, err);
        if (r >= 0)
            r = add_starting(follow, service, is_tty, tasks, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int standings_read(struct session *session, const cJSON *services, const cJSON *tasks,
                   struct standings *ret_standings, struct mst_error *err)
{
    const struct logfollow_options options = {.stdout_only = true, .tail = TAIL_LINES};
    const uint64_t deadline_ns = mst_now_ns() + PATIENCE_MS * MST_NS_PER_MS;
    mst_cleanup(logfollow_freep) struct logfollow *follow = NULL;
    mst_cleanup(standings_release) struct standings standings = {0};
    struct mst_error why = MST_ERROR_INIT;
    int r = logfollow_new(session, &options, take_message, &standings, &follow, &why);

    if (r >= 0)
        r = follow_workers(follow, services, tasks, &why);
    while (r >= 0 && logfollow_open_count(follow) > 0) {
        r = session_wait(session, ROUND_MS, deadline_ns, &why);
        if (r == -ETIMEDOUT)
            (void)mst_error_set(&why, r, "not all logs were read in %d ms", PATIENCE_MS);
        if (r >= 0)
            r = logfollow_tick(follow, &why);
    }
    if (r >= 0)
        r = logfollow_tick(follow, &why); /* the failure of the last one */
    if (r == -ENOMEM || r == -ECANCELED) {
        if (err)
            *err = why;
        return r;
    }
    if (r < 0)
        report_line(&session->report, "warning: states of workers may be missing: %s", why.text);
    *ret_standings = standings;
    standings = (struct standings){0};
    return 0;
}
