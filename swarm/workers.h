/* SPDX-License-Identifier: Apache-2.0 */
/* What the workers of a run said in their events (docs/events.md), put together: one record a slot, and what
 * happened to their view. No I/O. */
#ifndef SWARM_WORKERS_H
#define SWARM_WORKERS_H

#include "logfollow.h"
#include "worker.h"

#define WORKERS_MAX            1024
#define WORKERS_TAIL           8 /* last plain log lines kept for the report of a failure */
#define WORKERS_TAIL_BYTES     240
#define WORKERS_LOSSES_MAX     10000
#define WORKERS_RECOVERIES_MAX 10000

/* Lines that are no events, by task: what a process says before it dies. */
struct worker_tail {
    char task_id[64];
    char lines[WORKERS_TAIL][WORKERS_TAIL_BYTES];
    size_t count; /* all that came; the newest are kept */
};

/* A member of a view that the others lost, or a worker that said itself that it failed. */
struct worker_loss {
    char slot[WORKER_SLOT_BYTES], reason[WORKER_REASON_BYTES];
    uint32_t view;
    uint64_t step; /* in all */
    bool said_itself;
};

/* Training again in a later view: the slowest worker's account of it. */
struct worker_recovery {
    uint32_t view, world;
    cJSON *lost, *joined, *left; /* arrays of slots, owned; never NULL */
    double detected_ms, agreed_ms, ready_ms, ms;
    uint64_t steps_repeated;
};

struct workers {
    struct worker *items; /* owned, by slot */
    size_t count;
    struct worker_tail *tails; /* owned */
    size_t tail_count;
    struct worker_loss *losses; /* owned, as they were heard of */
    size_t loss_count;
    struct worker_recovery *recoveries; /* owned, one a view, as they were heard of */
    size_t recovery_count;
    uint32_t newest_view; /* 0: none so far */
    bool is_collected;
    char collected_folder[512], collector_task_id[64];
    uint64_t collected_files, collected_bytes;
    double test_accuracy; /* of rank 0's `test`; -1: not heard */
    cJSON *members;       /* of the newest view, owned: [{slot, address}] */
};

void workers_init(struct workers *workers);
void workers_release(struct workers *workers);

/* Take one log message. *ret_sample is a `sample` event of the monitor, the caller's, or NULL. What is no
 * event, or one that makes no sense, goes to the task's tail. -ENOMEM, or -E2BIG above WORKERS_MAX. */
int workers_take(struct workers *workers, const struct log_message *message, cJSON **ret_sample,
                 struct mst_error *err);

struct worker *workers_by_task(const struct workers *workers, const char *task_id); /* NULL: not heard of */
struct worker *workers_by_slot(const struct workers *workers, const char *slot);
const struct worker_tail *workers_tail(const struct workers *workers, const char *task_id);
size_t workers_count_state(const struct workers *workers, enum worker_state state);
/* The newest epoch that all workers of the view have finished, or some have gone beyond. */
uint32_t workers_common_epoch(const struct workers *workers);
/* Of those that are done; false when none is. */
bool workers_digests_are_equal(const struct workers *workers);
/* The longest of the recoveries, -1: there was none. */
double workers_slowest_recovery_ms(const struct workers *workers);

#endif
