/* SPDX-License-Identifier: Apache-2.0 */
/* What the manager says of the workers' places: a worker that was killed cannot say so, but its task can; and
 * whether Swarm starts another in its place decides whether a training can go on. */
#ifndef SWARM_SLOTS_H
#define SWARM_SLOTS_H

#include "muster/engine.h"

enum slot_state {
    SLOT_LIVE,     /* its task runs, or is on its way */
    SLOT_BETWEEN,  /* its task failed; another should follow */
    SLOT_COMPLETE, /* its task ended well */
    SLOT_DEAD,     /* its task failed, and no other follows, or would be of any use */
};

/* One place of one worker service. Texts are borrowed from the lists. */
struct slot {
    const char *service; /* name */
    const cJSON *task;   /* the newest; the one that failed where it is dead */
    const cJSON *ended;  /* the newest that failed, NULL: none */
    enum slot_state state;
};

struct slots {
    struct slot *items; /* owned */
    size_t count;
    size_t wanted; /* by the services' specifications */
};

/* When tasks were first seen to have failed without a successor. */
struct slot_memory {
    struct {
        char task_id[64];
        uint64_t since_ns;
    } * items; /* owned */
    size_t count;
};
void slot_memory_release(struct slot_memory *memory);

/* `services` are the worker services (borrowed objects of the engine's list) and `tasks` all tasks of the
 * stack; `node_count` is how many tasks a global service has. A failed task is dead at once when its service
 * starts none again, or when it ended with status 2 (what it was given cannot be used, and the next gets the
 * same); else when no other has followed it for some seconds by `now_ns`. */
int slots_judge(const cJSON *const *services, size_t service_count, const cJSON *tasks, size_t node_count,
                uint64_t now_ns, struct slot_memory *memory, struct slots *ret_slots, struct mst_error *err);
void slots_release(struct slots *slots);
size_t slots_count(const struct slots *slots, enum slot_state state);

/* "task: non-zero exit (137)": what the manager says of a task that failed. */
const char *slot_task_error(const cJSON *task);

#endif
