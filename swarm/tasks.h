/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks in the order and with the names that people know from docker stack ps. */
#ifndef SWARM_TASKS_H
#define SWARM_TASKS_H

#include "nodes.h"

struct task_row {
    const cJSON *json; /* borrowed from the list */
    const char *id, *node_id, *state, *desired, *error, *container_id;
    char name[ENGINE_NAME_MAX_BYTES]; /* "web_app.1"; "web_app.<node id>" for a global service */
    uint64_t slot;                    /* 0: global */
    double changed_s;                 /* unix seconds of the newest state */
    double created_s;
};

/* `services` gives the names. *ret_rows is the caller's to free: by name, newest first. */
int tasks_rows(const cJSON *tasks, const cJSON *services, struct task_row **ret_rows, size_t *ret_count,
               struct mst_error *err);
/* "3 minutes ago", "1 hour ago", "now". */
void tasks_age_text(double seconds, char *text, size_t capacity);

#endif
