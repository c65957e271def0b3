/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks.h"

#include "live.h"
#include "muster/cleanup.h"
#include "muster/json.h"
#include "taskstate.h"

#include <stdio.h>
#include <string.h>

static const char *service_name(const cJSON *services, const char *id)
{
    const cJSON *service;

    cJSON_ArrayForEach(service, services)
    {
        if (strcmp(live_id(service, ENGINE_SERVICE), id) == 0)
            return live_name(service, ENGINE_SERVICE);
    }
    return id; /* of a service that is no more */
}

static void fill_row(const cJSON *task, const cJSON *services, struct task_row *row)
{
    const cJSON *status = mst_json_at(task, "Status", NULL);
    const char *service = service_name(services, mst_json_string_or(task, "ServiceID", ""));

    *row = (struct task_row){
        .json = task,
        .id = mst_json_string_or(task, "ID", ""),
        .node_id = mst_json_string_or(task, "NodeID", ""),
        .state = mst_json_string_or(status, "State", ""),
        .desired = mst_json_string_or(task, "DesiredState", ""),
        .error = mst_json_string_or(status, "Err", ""),
        .container_id = mst_json_string_or(mst_json_at(status, "ContainerStatus", NULL), "ContainerID", ""),
        .slot = mst_json_u64_or(task, "Slot", 0),
        .changed_s = taskstate_time_s(mst_json_string_or(status, "Timestamp", "")),
        .created_s = taskstate_time_s(mst_json_string_or(task, "CreatedAt", "")),
    };
    if (row->slot > 0)
        (void)snprintf(row->name, sizeof row->name, "%.180s.%llu", service, (unsigned long long)row->slot);
    else
        (void)snprintf(row->name, sizeof row->name, "%.180s.%.64s", service, row->node_id);
}

static int by_name_then_newest(const void *a, const void *b)
{
    const struct task_row *x = a, *y = b;
    const int order = strcmp(x->name, y->name);

    return order != 0 ? order : (x->created_s < y->created_s) - (x->created_s > y->created_s);
}

int tasks_rows(const cJSON *tasks, const cJSON *services, struct task_row **ret_rows, size_t *ret_count,
               struct mst_error *err)
{
    const int count = cJSON_GetArraySize(tasks);
    struct task_row *rows = calloc(count > 0 ? (size_t)count : 1, sizeof *rows);
    const cJSON *task;
    size_t used = 0;

    if (!rows)
        return mst_error_set(err, -ENOMEM, "tasks: no memory for %d", count);
    cJSON_ArrayForEach(task, tasks) fill_row(task, services, &rows[used++]);
    qsort(rows, used, sizeof *rows, by_name_then_newest);
    *ret_rows = rows;
    *ret_count = used;
    return 0;
}

void tasks_age_text(double seconds, char *text, size_t capacity)
{
    static const struct {
        double seconds;
        const char *unit;
    } units[] = {{86400, "day"}, {3600, "hour"}, {60, "minute"}, {1, "second"}};

    for (size_t i = 0; i < MST_ARRAY_COUNT(units); i++) {
        if (seconds >= units[i].seconds) {
            const unsigned long long count = (unsigned long long)(seconds / units[i].seconds);
            (void)snprintf(text, capacity, "%llu %s%s ago", count, units[i].unit, count == 1 ? "" : "s");
            return;
        }
    }
    (void)snprintf(text, capacity, "now");
}
