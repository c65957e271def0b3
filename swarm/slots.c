/* SPDX-License-Identifier: Apache-2.0 */
#include "slots.h"

#include "live.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/json.h"
#include "taskstate.h"

#include <stdio.h>
#include <string.h>

/* The manager makes the next task the moment it hears of the failure: what takes longer never comes, for the
 * attempts are used up. It waits for the delay of the restart policy with the task there. */
#define SUCCESSOR_GRACE_MS 5000
#define MEMORY_MAX         4096

void slot_memory_release(struct slot_memory *memory)
{
    free(memory->items);
    *memory = (struct slot_memory){0};
}

void slots_release(struct slots *slots)
{
    free(slots->items);
    *slots = (struct slots){0};
}

size_t slots_count(const struct slots *slots, enum slot_state state)
{
    size_t count = 0;

    for (size_t i = 0; i < slots->count; i++)
        count += slots->items[i].state == state;
    return count;
}

static const char *state_of(const cJSON *task)
{
    return mst_json_string_or(mst_json_at(task, "Status", NULL), "State", "");
}

const char *slot_task_error(const cJSON *task)
{
    const cJSON *status = mst_json_at(task, "Status", NULL);

    return mst_json_string_or(status, "Err", mst_json_string_or(status, "Message", state_of(task)));
}

static bool has_failed(const cJSON *task)
{
    const char *state = state_of(task);

    return taskstate_is_end(state) && strcmp(state, "complete") != 0;
}

static double made_s(const cJSON *task)
{
    return taskstate_time_s(mst_json_string_or(task, "CreatedAt", ""));
}

/* Tasks of one place: of a global service they share the node, of others the number. */
static bool is_same_place(const cJSON *a, const cJSON *b)
{
    const uint64_t slot = mst_json_u64_or(a, "Slot", 0);

    return slot == mst_json_u64_or(b, "Slot", 0) &&
           (slot > 0 ||
            strcmp(mst_json_string_or(a, "NodeID", ""), mst_json_string_or(b, "NodeID", "")) == 0);
}

static struct slot *place_of(struct slots *slots, const char *service, const cJSON *task)
{
    for (size_t i = 0; i < slots->count; i++) {
        if (slots->items[i].service == service && is_same_place(slots->items[i].task, task))
            return &slots->items[i];
    }
    slots->items[slots->count] = (struct slot){.service = service, .task = task}; /* room for all tasks */
    return &slots->items[slots->count++];
}

static void add_task(struct slots *slots, const char *service, const cJSON *task)
{
    struct slot *slot;

    /* Of a service that was scaled down: the place is wanted no more. */
    if (strcmp(mst_json_string_or(task, "DesiredState", ""), "remove") == 0)
        return;
    slot = place_of(slots, service, task);
    if (made_s(task) > made_s(slot->task))
        slot->task = task;
    if (has_failed(task) && (!slot->ended || made_s(task) > made_s(slot->ended)))
        slot->ended = task;
}

/* How long it has been so; remembered from now on. */
static double ms_without_successor(struct slot_memory *memory, const char *task_id, uint64_t now_ns)
{
    for (size_t i = 0; i < memory->count; i++) {
        if (strcmp(memory->items[i].task_id, task_id) == 0)
            return (double)(now_ns - memory->items[i].since_ns) / (double)MST_NS_PER_MS;
    }
    if (memory->count >= MEMORY_MAX)
        memory->count = 0; /* what is still so is seen again */
    void *items = reallocarray(memory->items, memory->count + 1, sizeof *memory->items);
    if (!items)
        return 0;
    memory->items = items;
    memory->items[memory->count].since_ns = now_ns;
    (void)snprintf(memory->items[memory->count].task_id, sizeof memory->items->task_id, "%s", task_id);
    memory->count++;
    return 0;
}

/* What it was given cannot be used, and the next task of the same specification gets the same. */
static bool is_beyond_help(const struct slot *slot)
{
    const cJSON *container = mst_json_at(slot->ended, "Status", "ContainerStatus", NULL);

    return slot->ended && mst_json_u64_or(container, "ExitCode", 0) == MST_EXIT_USAGE &&
           (slot->ended == slot->task || cJSON_Compare(mst_json_at(slot->ended, "Spec", NULL),
                                                       mst_json_at(slot->task, "Spec", NULL), true));
}

static void judge(struct slot *slot, bool is_final, uint64_t now_ns, struct slot_memory *memory)
{
    if (strcmp(state_of(slot->task), "complete") == 0) {
        slot->state = SLOT_COMPLETE;
    } else if (is_beyond_help(slot)) {
        slot->task = slot->ended;
        slot->state = SLOT_DEAD;
    } else if (!has_failed(slot->task)) {
        slot->state = SLOT_LIVE;
    } else if (is_final || ms_without_successor(memory, mst_json_string_or(slot->task, "ID", ""), now_ns) >=
                               SUCCESSOR_GRACE_MS) {
        slot->state = SLOT_DEAD;
    } else {
        slot->state = SLOT_BETWEEN;
    }
}

/* Nothing starts its tasks again. */
static bool is_final(const cJSON *service)
{
    const cJSON *policy = mst_json_at(service, "Spec", "TaskTemplate", "RestartPolicy", NULL);

    return strcmp(mst_json_string_or(policy, "Condition", "any"), "none") == 0;
}

int slots_judge(const cJSON *const *services, size_t service_count, const cJSON *tasks, size_t node_count,
                uint64_t now_ns, struct slot_memory *memory, struct slots *ret_slots, struct mst_error *err)
{
    struct slots slots = {.items = calloc((size_t)cJSON_GetArraySize(tasks) + 1, sizeof *slots.items)};
    const cJSON *task;

    if (!slots.items)
        return mst_error_set(err, -ENOMEM, "tasks: no memory");
    for (size_t s = 0; s < service_count; s++) {
        const char *id = live_id(services[s], ENGINE_SERVICE), *name = live_name(services[s], ENGINE_SERVICE);
        const cJSON *mode = mst_json_at(services[s], "Spec", "Mode", NULL);
        const size_t first = slots.count;
        cJSON_ArrayForEach(task, tasks)
        {
            if (strcmp(mst_json_string_or(task, "ServiceID", ""), id) == 0)
                add_task(&slots, name, task);
        }
        for (size_t i = first; i < slots.count; i++)
            judge(&slots.items[i], is_final(services[s]), now_ns, memory);
        slots.wanted += mst_json_at(mode, "Global", NULL)
                            ? node_count
                            : (size_t)mst_json_u64_or(mst_json_at(mode, "Replicated", NULL), "Replicas", 1);
    }
    *ret_slots = slots;
    return 0;
}
