/* SPDX-License-Identifier: Apache-2.0 */
/* One worker as its own events tell of it (docs/events.md). No I/O. */
#ifndef SWARM_WORKER_H
#define SWARM_WORKER_H

#include "muster/engine.h"

#define WORKER_SLOT_BYTES   128
#define WORKER_EPOCHS_MAX   100000
#define WORKER_REASON_BYTES 512

enum worker_state {
    WORKER_FORMING,  /* looks for the others */
    WORKER_TRAINING, /* in a view */
    WORKER_PAUSED,   /* too few are there to go on */
    WORKER_CHANGING, /* between two views */
    WORKER_LEAVING,  /* was told to stop, and says good-bye */
    WORKER_LEFT,     /* and has done so */
    WORKER_LOST,     /* gone without a word */
    WORKER_DONE,
    WORKER_FAILED, /* gone with one */
};

/* One finished epoch: the columns of history-<slot>.csv. */
struct worker_epoch {
    uint32_t epoch, view;
    uint64_t steps, bytes_sent;
    int32_t rank;
    double seconds, ms_per_step, loss, accuracy, wait_ms, transfer_ms, compute_ms;
};

struct worker {
    char slot[WORKER_SLOT_BYTES], service[ENGINE_NAME_MAX_BYTES], task_id[64], node_id[64], address[64];
    enum worker_state state;
    double started_s, t;  /* of its newest `start` and of its newest event, by its own clock */
    uint32_t starts;      /* 1 when it was never started again */
    int32_t rank;         /* -1: not in a view so far */
    uint32_t view, world; /* view 0: not in one so far */
    uint32_t epoch, epochs;
    uint64_t step, steps, total_steps; /* within the epoch, of an epoch, in all (of `done`) */
    double loss, accuracy, ms_per_step, seconds,
        test_accuracy;                       /* of the newest event; test_accuracy -1: none */
    double sweep_ms, view_ms, first_step_ms; /* -1: not heard */
    bool sweep_is_complete;
    uint32_t sweep_addresses, sweep_answered;
    char sweep_method[8], digest[72], version[32], reason[WORKER_REASON_BYTES];
    double failed_s;              /* when, by its own clock; 0: it could not say a word */
    uint32_t have, want;          /* of the newest `waiting`; want 0: none */
    bool is_dead;                 /* lost or failed, and nothing will start it again: watch.c */
    bool was_done;                /* it said so once, whatever came afterwards */
    struct worker_epoch *history; /* owned; over restarts */
    size_t history_count;
};

void worker_init(struct worker *worker);
void worker_release(struct worker *worker);
/* The slot's next task: what the one before said counts no more, but for its history. */
void worker_begin_anew(struct worker *worker);

/* Take one event. 1: it was one of a worker's own; 0: of another kind; or -ENOMEM. */
int worker_take(struct worker *worker, const char *name, const cJSON *event, struct mst_error *err);

/* Its state changes with the view, and has not ended. */
bool worker_is_at_work(const struct worker *worker);
const char *worker_state_text(enum worker_state state);

/* Of an event, with what others may send bounded: finite numbers, texts fit for a terminal. */
double worker_event_number(const cJSON *event, const char *key, double fallback);
uint32_t worker_event_count(const cJSON *event, const char *key);
void worker_event_text(char *text, size_t capacity, const cJSON *event, const char *key);

#endif
