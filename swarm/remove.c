/* SPDX-License-Identifier: Apache-2.0 */
#include "remove.h"

#include "live.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/json.h"
#include "nodes.h"
#include "stack.h"
#include "taskstate.h"

#include <string.h>

#define POLL_MS       150
#define PATIENT_POLLS 20 /* after which the operator hears what is waited for */

static int remove_all(struct session *session, enum engine_kind kind, const cJSON *list,
                      struct mst_error *err)
{
    const cJSON *object;

    cJSON_ArrayForEach(object, list)
    {
        const char *name = live_name(object, kind);
        const int r = engine_remove(session->engine, kind, live_id(object, kind), name, err);
        if (r < 0)
            return r;
        report_line(&session->report, "removed %s %s", engine_kind_text(kind), name);
    }
    return 0;
}

static bool has_service(const cJSON *services, const cJSON *task)
{
    const char *id = mst_json_string_or(task, "ServiceID", "");
    const cJSON *service;

    cJSON_ArrayForEach(service, services)
    {
        if (strcmp(live_id(service, ENGINE_SERVICE), id) == 0)
            return true;
    }
    return false;
}

/* A node that is down never says that a task has ended. */
static bool is_on_dead_node(const struct swarm_nodes *nodes, const cJSON *task)
{
    const struct swarm_node *node = swarm_nodes_find(nodes, mst_json_string_or(task, "NodeID", ""));

    return node &&
           strcmp(mst_json_string_or(mst_json_at(node->json, "Status", NULL), "State", ""), "ready") != 0;
}

/* Tasks that still run for services that are no more. The manager forgets a task once its node said that it
 * ended. */
static int count_leftovers(struct session *session, const char *stack, size_t *ret_count,
                           struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *tasks = NULL, *services = NULL;
    mst_cleanup(swarm_nodes_release) struct swarm_nodes nodes = {0};
    const cJSON *task;
    int r = live_list(session->engine, ENGINE_TASK, stack, &tasks, err);

    *ret_count = 0;
    if (r < 0 || cJSON_GetArraySize(tasks) == 0)
        return r;
    r = live_list(session->engine, ENGINE_SERVICE, stack, &services, err);
    if (r >= 0)
        r = swarm_nodes_load(session->engine, &nodes, err);
    if (r < 0)
        return r;
    cJSON_ArrayForEach(task, tasks)
    {
        const char *state = mst_json_string_or(mst_json_at(task, "Status", NULL), "State", "");
        if (!has_service(services, task) && !taskstate_is_end(state) && !is_on_dead_node(&nodes, task))
            (*ret_count)++;
    }
    return 0;
}

int remove_await_leftovers(struct session *session, const char *stack, uint64_t deadline_ns,
                           struct mst_error *err)
{
    for (unsigned polls = 0;; polls++) {
        size_t count;
        int r = count_leftovers(session, stack, &count, err);

        if (r < 0 || count == 0)
            return r;
        if (polls == PATIENT_POLLS)
            report_line(&session->report, "waiting for %zu tasks of removed services to stop", count);
        r = session_wait(session, POLL_MS, deadline_ns, err);
        if (r == -ETIMEDOUT)
            return mst_error_set(err, r, "stack '%s': %zu tasks of removed services have not stopped", stack,
                                 count);
        if (r < 0)
            return r;
    }
}

/* Until GET /networks has none: a node's own copy goes when its last container does. */
static int remove_networks(struct session *session, const char *stack, uint64_t deadline_ns, bool *ret_found,
                           struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *announced = cJSON_CreateObject();

    for (unsigned polls = 0;; polls++) {
        mst_cleanup(mst_json_deletep) cJSON *list = NULL;
        struct mst_error why = MST_ERROR_INIT;
        const cJSON *network;
        int r = live_list(session->engine, ENGINE_NETWORK, stack, &list, err);

        if (r < 0 || cJSON_GetArraySize(list) == 0)
            return r;
        *ret_found = true;
        cJSON_ArrayForEach(network, list)
        {
            const char *name = live_name(network, ENGINE_NETWORK);
            r = engine_remove(session->engine, ENGINE_NETWORK, live_id(network, ENGINE_NETWORK), name, &why);
            if (r < 0 && r != -EREMOTEIO) {
                if (err)
                    *err = why;
                return r;
            }
            if (r >= 0 && !cJSON_HasObjectItem(announced, name)) {
                (void)cJSON_AddTrueToObject(announced, name);
                report_line(&session->report, "removed network %s", name);
            }
        }
        if (polls == PATIENT_POLLS)
            report_line(&session->report, "waiting for %d networks to go%s%s", cJSON_GetArraySize(list),
                        why.text[0] ? ": " : "", why.text);
        r = session_wait(session, POLL_MS, deadline_ns, err);
        if (r == -ETIMEDOUT)
            return mst_error_set(err, r, "stack '%s': %d networks are still there%s%s", stack,
                                 cJSON_GetArraySize(list), why.text[0] ? ": " : "", why.text);
        if (r < 0)
            return r;
    }
}

/* From the beginning on: what is gone already is not in the lists. *ret_listed: the engine knew the stack. */
static int remove_once(struct session *session, const char *stack, uint64_t deadline_ns, bool *ret_listed,
                       bool *ret_found, struct mst_error *err)
{
    mst_cleanup(live_release) struct live live = {0};
    int r = live_load(session->engine, stack, &live, err);

    if (r < 0)
        return r;
    *ret_listed = true;
    *ret_found |= cJSON_GetArraySize(live.services) + cJSON_GetArraySize(live.secrets) +
                      cJSON_GetArraySize(live.configs) + cJSON_GetArraySize(live.networks) >
                  0;
    r = remove_all(session, ENGINE_SERVICE, live.services, err);
    if (r >= 0)
        r = remove_await_leftovers(session, stack, deadline_ns, err);
    if (r >= 0)
        r = remove_all(session, ENGINE_SECRET, live.secrets, err);
    if (r >= 0)
        r = remove_all(session, ENGINE_CONFIG, live.configs, err);
    return r < 0 ? r : remove_networks(session, stack, deadline_ns, ret_found, err);
}

int remove_stack(struct session *session, const char *stack, bool is_known, uint64_t deadline_ns,
                 bool *ret_found, struct mst_error *err)
{
    struct trouble trouble = {0};

    *ret_found = false;
    for (;;) {
        struct mst_error why = MST_ERROR_INIT;
        int r = remove_once(session, stack, deadline_ns, &is_known, ret_found, &why);

        if (r >= 0)
            return 0;
        if (!is_known || mst_now_ns() >= deadline_ns || !session_bears(session, &trouble, r, &why)) {
            if (err)
                *err = why;
            return r;
        }
        r = session_wait(session, POLL_MS, deadline_ns, err);
        if (r == -ETIMEDOUT)
            return mst_error_set(err, r, "stack '%s' is not gone in time: %s", stack, why.text);
        if (r < 0)
            return r;
    }
}
