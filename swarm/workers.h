/* SPDX-License-Identifier: Apache-2.0 */
/* What the workers of a run said in their events (docs/events.md), put together: one record a slot. No I/O.
 */
#ifndef SWARM_WORKERS_H
#define SWARM_WORKERS_H

#include "logfollow.h"

#define WORKERS_MAX        1024
#define WORKERS_TAIL       8 /* last plain log lines kept for the report of a failure */
#define WORKERS_TAIL_BYTES 240
#define WORKERS_EPOCHS_MAX 100000

enum worker_state { WORKER_STARTED, WORKER_WAITING, WORKER_TRAINING, WORKER_DONE, WORKER_FAILED };

/* One finished epoch: the columns of history-<slot>.csv. */
struct worker_epoch {
    uint32_t epoch, view;
    uint64_t steps, bytes_sent;
    int32_t rank;
    double seconds, ms_per_step, loss, accuracy, wait_ms, transfer_ms, compute_ms;
};

struct worker {
    char slot[128], service[ENGINE_NAME_MAX_BYTES], task_id[64], node_id[64], address[64];
    enum worker_state state;
    int32_t rank; /* -1: not in a view so far */
    uint32_t view, world, epoch, epochs;
    uint64_t step, steps, total_steps;
    double loss, accuracy, ms_per_step, seconds,
        test_accuracy;                       /* of the newest event; test_accuracy -1: none */
    double sweep_ms, view_ms, first_step_ms; /* -1: not heard */
    bool sweep_is_complete;
    uint32_t sweep_addresses, sweep_answered;
    char sweep_method[8], digest[72], version[32], reason[512];
    double failed_s;              /* when, by its own clock */
    uint32_t have, want;          /* of the newest `waiting` */
    struct worker_epoch *history; /* owned */
    size_t history_count;
};

/* Lines that are no events, by task: what a process says before it dies. */
struct worker_tail {
    char task_id[64];
    char lines[WORKERS_TAIL][WORKERS_TAIL_BYTES];
    size_t count; /* all that came; the newest are kept */
};

struct workers {
    struct worker *items; /* owned, by slot */
    size_t count;
    struct worker_tail *tails; /* owned */
    size_t tail_count;
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
const struct worker_tail *workers_tail(const struct workers *workers, const char *task_id);
size_t workers_count_state(const struct workers *workers, enum worker_state state);
/* Fewest epochs that any of the `count` workers has finished. */
uint32_t workers_common_epoch(const struct workers *workers);
bool workers_digests_are_equal(
    const struct workers *workers); /* of those that are done; false when none is */
const char *worker_state_text(enum worker_state state);

#endif
