/* SPDX-License-Identifier: Apache-2.0 */
/* What the manager says of a stack's services and tasks, as far as scaling goes. No I/O. */
#ifndef SWARM_AUTOSCALE_VIEW_H
#define SWARM_AUTOSCALE_VIEW_H

#include "autoscale/decide.h"

struct autoscale_task {
    const char *id;        /* borrowed from the list */
    const char *container; /* its id, "" when there is none */
    uint64_t slot;
};

struct autoscale_subject {
    const cJSON *json; /* borrowed */
    const char *id, *name;
    uint32_t replicas;
    struct autoscale_task *tasks; /* owned: those that are to run and run */
    size_t task_count;
    uint32_t starting;     /* that are to run, and do not yet */
    uint32_t without_room; /* that no node takes */
    char rollout[256];     /* what is under way; "" */
    bool is_wanted;        /* it has labels of ours */
    int code;              /* of reading them */
    struct autoscale_policy policy;
    struct mst_error fault;
};

struct autoscale_view {
    struct autoscale_subject *items; /* owned: all services of the stack */
    size_t count;
};

/* `services` and `tasks` are the stack's, and must outlive the view. */
int autoscale_view_make(const cJSON *services, const cJSON *tasks, const char *stack,
                        struct autoscale_view *ret_view, struct mst_error *err);
void autoscale_view_release(struct autoscale_view *view); /* usable with mst_cleanup() */
/* By full name; NULL: none. */
const struct autoscale_subject *autoscale_view_find(const struct autoscale_view *view, const char *name);

/* When and how it was scaled last by an autoscaler, whichever: the label that it leaves on the service.
 * Labels of services restart no tasks. */
struct autoscale_stamp {
    double wall_s;
    bool is_out;
    uint32_t from, to;
};

#define AUTOSCALE_STAMP_BYTES 96
void autoscale_stamp_text(const struct autoscale_stamp *stamp, char text[static AUTOSCALE_STAMP_BYTES]);
/* False for what is none. */
bool autoscale_stamp_parse(const char *text, struct autoscale_stamp *ret_stamp);
const char *autoscale_stamp_of(const cJSON *service); /* "" when it has none */

/* What is remembered of a service between two looks, so that a change by somebody else is seen. */
struct autoscale_known {
    char id[ENGINE_NAME_MAX_BYTES];
    char stamp[AUTOSCALE_STAMP_BYTES];
    uint32_t replicas;
    bool has_look;
    struct autoscale_memory memory;
    struct autoscale_decision said; /* the newest that was told */
    bool has_said;
};

/* Bring what is known up to what the manager says now: who scaled it last, and when. */
void autoscale_known_update(struct autoscale_known *known, const struct autoscale_subject *subject,
                            uint64_t now_ns, double wall_s);

#endif
