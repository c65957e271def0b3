/* SPDX-License-Identifier: Apache-2.0 */
#include "worker.h"

#include "muster/cleanup.h"
#include "muster/json.h"
#include "plain.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void worker_begin_anew(struct worker *worker)
{
    worker->rank = -1;
    worker->view = worker->world = worker->have = worker->want = 0;
    worker->test_accuracy = -1;
    worker->sweep_ms = worker->view_ms = worker->first_step_ms = -1;
    worker->state = WORKER_FORMING;
    worker->is_dead = false;
    worker->digest[0] = worker->reason[0] = '\0';
}

void worker_init(struct worker *worker)
{
    *worker = (struct worker){0};
    worker_begin_anew(worker);
}

void worker_release(struct worker *worker)
{
    free(worker->history);
    worker->history = NULL;
    worker->history_count = 0;
}

const char *worker_state_text(enum worker_state state)
{
    static const char *const texts[] = {
        [WORKER_FORMING] = "forming",   [WORKER_TRAINING] = "training", [WORKER_PAUSED] = "paused",
        [WORKER_CHANGING] = "changing", [WORKER_LEAVING] = "leaving",   [WORKER_LEFT] = "left",
        [WORKER_LOST] = "lost",         [WORKER_DONE] = "done",         [WORKER_FAILED] = "failed"};

    return texts[state];
}

bool worker_is_at_work(const struct worker *worker)
{
    return worker->state == WORKER_TRAINING || worker->state == WORKER_PAUSED ||
           worker->state == WORKER_CHANGING || worker->state == WORKER_LEAVING;
}

double worker_event_number(const cJSON *event, const char *key, double fallback)
{
    const double value = mst_json_double_or(event, key, fallback);

    return isfinite(value) ? value : fallback;
}

uint32_t worker_event_count(const cJSON *event, const char *key)
{
    const uint64_t value = mst_json_u64_or(event, key, 0);

    return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

void worker_event_text(char *text, size_t capacity, const cJSON *event, const char *key)
{
    (void)snprintf(text, capacity, "%s", mst_json_string_or(event, key, ""));
    plain_text(text);
}

static int on_start(struct worker *worker, const cJSON *event, struct mst_error *err)
{
    (void)err;
    worker->started_s = worker_event_number(event, "t", 0);
    worker->starts++;
    worker_event_text(worker->version, sizeof worker->version, event, "version");
    worker_event_text(worker->address, sizeof worker->address, event, "address");
    return 0;
}

static int on_sweep(struct worker *worker, const cJSON *event, struct mst_error *err)
{
    (void)err;
    worker->sweep_ms = worker_event_number(event, "ms", -1);
    worker->sweep_is_complete = mst_json_bool_or(event, "complete", false);
    worker->sweep_addresses = worker_event_count(event, "addresses");
    worker->sweep_answered = worker_event_count(event, "answered");
    worker_event_text(worker->sweep_method, sizeof worker->sweep_method, event, "method");
    return 0;
}

/* Before its first view it forms one; afterwards it has lost one, and may be short of others. */
static int on_waiting(struct worker *worker, const cJSON *event, struct mst_error *err)
{
    (void)err;
    worker->have = worker_event_count(event, "have");
    worker->want = worker_event_count(event, "want");
    if (worker->state == WORKER_LEAVING)
        return 0;
    if (mst_json_bool_or(event, "quorum", false) || (worker->view > 0 && worker->have < worker->want))
        worker->state = WORKER_PAUSED;
    else
        worker->state = worker->view > 0 ? WORKER_CHANGING : WORKER_FORMING;
    return 0;
}

static void take_place(struct worker *worker, const cJSON *event)
{
    worker->view = worker_event_count(event, "view");
    worker->rank = (int32_t)(worker_event_count(event, "rank") & INT32_MAX);
    worker->world = worker_event_count(event, "world");
}

static int on_view(struct worker *worker, const cJSON *event, struct mst_error *err)
{
    (void)err;
    take_place(worker, event);
    if (worker->view_ms < 0)
        worker->view_ms = worker_event_number(event, "since_start_ms", -1);
    worker->state = WORKER_TRAINING;
    worker->want = 0;
    return 0;
}

static int on_lost(struct worker *worker, const cJSON *event, struct mst_error *err)
{
    (void)event, (void)err;
    if (worker->state == WORKER_TRAINING)
        worker->state = WORKER_CHANGING;
    return 0;
}

static int on_leaving(struct worker *worker, const cJSON *event, struct mst_error *err)
{
    (void)err;
    worker->state = WORKER_LEAVING;
    worker_event_text(worker->reason, sizeof worker->reason, event, "reason");
    return 0;
}

static int on_recovered(struct worker *worker, const cJSON *event, struct mst_error *err)
{
    (void)event, (void)err;
    worker->state = WORKER_TRAINING;
    return 0;
}

static int on_first_step(struct worker *worker, const cJSON *event, struct mst_error *err)
{
    (void)err;
    worker->first_step_ms = worker_event_number(event, "since_start_ms", -1);
    return 0;
}

static int on_progress(struct worker *worker, const cJSON *event, struct mst_error *err)
{
    (void)err;
    if (cJSON_HasObjectItem(event, "view"))
        take_place(worker, event);
    if (worker->state != WORKER_LEAVING)
        worker->state = WORKER_TRAINING;
    worker->epoch = worker_event_count(event, "epoch");
    worker->epochs = worker_event_count(event, "epochs");
    worker->step = mst_json_u64_or(event, "step", 0);
    worker->steps = mst_json_u64_or(event, "steps", 0);
    worker->loss = worker_event_number(event, "loss", 0);
    worker->accuracy = worker_event_number(event, "accuracy", 0);
    worker->ms_per_step = worker_event_number(event, "ms_per_step", 0);
    return 0;
}

/* Epochs are gone through again after a checkpoint was taken up: the newest of each counts. */
static void forget_repeated(struct worker *worker)
{
    while (worker->history_count > 0 && worker->history[worker->history_count - 1].epoch >= worker->epoch)
        worker->history_count--;
}

static double history_seconds(const struct worker *worker)
{
    double sum_s = 0;

    for (size_t i = 0; i < worker->history_count; i++)
        sum_s += worker->history[i].seconds;
    return sum_s;
}

static int on_epoch(struct worker *worker, const cJSON *event, struct mst_error *err)
{
    struct worker_epoch *history;

    (void)on_progress(worker, event, err);
    worker->step = worker->steps;
    forget_repeated(worker);
    if (worker->history_count >= WORKER_EPOCHS_MAX)
        return 0;
    history = reallocarray(worker->history, worker->history_count + 1, sizeof *history);
    if (!history)
        return mst_error_set(err, -ENOMEM, "worker '%s': no memory for its history", worker->slot);
    worker->history = history;
    history[worker->history_count++] = (struct worker_epoch){
        .epoch = worker->epoch,
        .view = worker->view,
        .rank = worker->rank,
        .steps = worker->steps,
        .bytes_sent = mst_json_u64_or(event, "bytes_sent", 0),
        .seconds = worker_event_number(event, "seconds", 0),
        .ms_per_step = worker->ms_per_step,
        .loss = worker->loss,
        .accuracy = worker->accuracy,
        .wait_ms = worker_event_number(event, "wait_ms", 0),
        .transfer_ms = worker_event_number(event, "transfer_ms", 0),
        .compute_ms = worker_event_number(event, "compute_ms", 0),
    };
    worker->seconds = history_seconds(worker);
    return 0;
}

static int on_done(struct worker *worker, const cJSON *event, struct mst_error *err)
{
    double steps = 0;

    (void)err;
    worker->state = WORKER_DONE;
    worker->was_done = true;
    worker->seconds = worker_event_number(event, "seconds", worker->seconds);
    worker->total_steps = mst_json_u64_or(event, "steps", 0);
    worker->loss = worker_event_number(event, "loss", worker->loss);
    worker->accuracy = worker_event_number(event, "accuracy", worker->accuracy);
    worker->test_accuracy = worker_event_number(event, "test_accuracy", -1);
    if (worker->epochs == 0)
        worker->epochs = worker->epoch = worker_event_count(event, "epochs");
    /* One that was started again did not make all steps itself, nor spend the time. */
    for (size_t i = 0; i < worker->history_count; i++)
        steps += (double)worker->history[i].steps;
    if (worker->starts > 1 && steps > 0)
        worker->ms_per_step = 1000 * history_seconds(worker) / steps;
    else if (worker->total_steps > 0 && worker->seconds > 0)
        worker->ms_per_step = 1000 * worker->seconds / (double)worker->total_steps;
    worker_event_text(worker->digest, sizeof worker->digest, event, "digest");
    return 0;
}

static int on_failed(struct worker *worker, const cJSON *event, struct mst_error *err)
{
    (void)err;
    worker->state = WORKER_FAILED;
    worker->failed_s = worker_event_number(event, "t", 0);
    worker_event_text(worker->reason, sizeof worker->reason, event, "reason");
    return 0;
}

int worker_take(struct worker *worker, const char *name, const cJSON *event, struct mst_error *err)
{
    static const struct {
        const char *name;
        int (*take)(struct worker *worker, const cJSON *event, struct mst_error *err);
    } events[] = {
        {"start", on_start},         {"sweep", on_sweep},
        {"waiting", on_waiting},     {"view", on_view},
        {"lost", on_lost},           {"leaving", on_leaving},
        {"recovered", on_recovered}, {"first_step", on_first_step},
        {"progress", on_progress},   {"epoch", on_epoch},
        {"done", on_done},           {"failed", on_failed},
    };

    for (size_t i = 0; i < MST_ARRAY_COUNT(events); i++) {
        if (strcmp(events[i].name, name) == 0) {
            const int r = events[i].take(worker, event, err);
            worker->t = worker_event_number(event, "t", worker->t);
            return r < 0 ? r : 1;
        }
    }
    return 0;
}
