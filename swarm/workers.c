/* SPDX-License-Identifier: Apache-2.0 */
#include "workers.h"

#include "muster/cleanup.h"
#include "muster/event.h"
#include "muster/json.h"
#include "plain.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define TAILS_MAX 4096

void workers_init(struct workers *workers)
{
    *workers = (struct workers){.test_accuracy = -1};
}

void workers_release(struct workers *workers)
{
    for (size_t i = 0; i < workers->count; i++)
        free(workers->items[i].history);
    free(workers->items);
    free(workers->tails);
    cJSON_Delete(workers->members);
    workers_init(workers);
}

const char *worker_state_text(enum worker_state state)
{
    static const char *const texts[] = {[WORKER_STARTED] = "started",
                                        [WORKER_WAITING] = "waiting",
                                        [WORKER_TRAINING] = "training",
                                        [WORKER_DONE] = "done",
                                        [WORKER_FAILED] = "failed"};

    return texts[state];
}

struct worker *workers_by_task(const struct workers *workers, const char *task_id)
{
    for (size_t i = 0; i < workers->count; i++) {
        if (strcmp(workers->items[i].task_id, task_id) == 0)
            return &workers->items[i];
    }
    return NULL;
}

const struct worker_tail *workers_tail(const struct workers *workers, const char *task_id)
{
    for (size_t i = 0; i < workers->tail_count; i++) {
        if (strcmp(workers->tails[i].task_id, task_id) == 0)
            return &workers->tails[i];
    }
    return NULL;
}

static void forget_results(struct worker *worker)
{
    worker->rank = -1;
    worker->test_accuracy = -1;
    worker->sweep_ms = worker->view_ms = worker->first_step_ms = -1;
    worker->state = WORKER_STARTED;
    worker->digest[0] = worker->reason[0] = '\0';
}

/* In order of slots, so that every list and the display are stable. */
static int insert_worker(struct workers *workers, const char *slot, struct worker **ret_worker,
                         struct mst_error *err)
{
    struct worker *items;
    size_t at = 0;

    while (at < workers->count && strcmp(workers->items[at].slot, slot) < 0)
        at++;
    if (at < workers->count && strcmp(workers->items[at].slot, slot) == 0) {
        *ret_worker = &workers->items[at];
        return 0;
    }
    if (workers->count >= WORKERS_MAX)
        return mst_error_set(err, -E2BIG, "more than %d workers report", WORKERS_MAX);
    items = reallocarray(workers->items, workers->count + 1, sizeof *items);
    if (!items)
        return mst_error_set(err, -ENOMEM, "worker '%s': no memory", slot);
    workers->items = items;
    memmove(&items[at + 1], &items[at], (workers->count - at) * sizeof *items);
    workers->count++;
    items[at] = (struct worker){0};
    (void)snprintf(items[at].slot, sizeof items[at].slot, "%s", slot);
    forget_results(&items[at]);
    *ret_worker = &items[at];
    return 0;
}

/* Numbers of others are finite or they are nothing. */
static double number(const cJSON *event, const char *key, double fallback)
{
    const double value = mst_json_double_or(event, key, fallback);

    return isfinite(value) ? value : fallback;
}

static uint32_t count(const cJSON *event, const char *key)
{
    const uint64_t value = mst_json_u64_or(event, key, 0);

    return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

static void copy(char *text, size_t capacity, const cJSON *event, const char *key)
{
    (void)snprintf(text, capacity, "%s", mst_json_string_or(event, key, ""));
    plain_text(text);
}

static int on_start(struct workers *workers, struct worker *worker, const cJSON *event, struct mst_error *err)
{
    (void)workers, (void)err;
    copy(worker->version, sizeof worker->version, event, "version");
    copy(worker->address, sizeof worker->address, event, "address");
    return 0;
}

static int on_sweep(struct workers *workers, struct worker *worker, const cJSON *event, struct mst_error *err)
{
    (void)workers, (void)err;
    worker->sweep_ms = number(event, "ms", -1);
    worker->sweep_is_complete = mst_json_bool_or(event, "complete", false);
    worker->sweep_addresses = count(event, "addresses");
    worker->sweep_answered = count(event, "answered");
    copy(worker->sweep_method, sizeof worker->sweep_method, event, "method");
    return 0;
}

static int on_waiting(struct workers *workers, struct worker *worker, const cJSON *event,
                      struct mst_error *err)
{
    (void)workers, (void)err;
    worker->have = count(event, "have");
    worker->want = count(event, "want");
    worker->state = WORKER_WAITING;
    return 0;
}

static int on_view(struct workers *workers, struct worker *worker, const cJSON *event, struct mst_error *err)
{
    const cJSON *members = mst_json_at(event, "members", NULL);

    worker->view = count(event, "view");
    worker->rank = (int32_t)(count(event, "rank") & INT32_MAX);
    worker->world = count(event, "world");
    worker->view_ms = number(event, "since_start_ms", -1);
    worker->state = WORKER_TRAINING;
    if (!cJSON_IsArray(members))
        return 0;
    cJSON_Delete(workers->members);
    workers->members = cJSON_Duplicate(members, true);
    return workers->members ? 0 : mst_error_set(err, -ENOMEM, "view: no memory");
}

static int on_first_step(struct workers *workers, struct worker *worker, const cJSON *event,
                         struct mst_error *err)
{
    (void)workers, (void)err;
    worker->first_step_ms = number(event, "since_start_ms", -1);
    return 0;
}

static int on_progress(struct workers *workers, struct worker *worker, const cJSON *event,
                       struct mst_error *err)
{
    (void)workers, (void)err;
    worker->state = WORKER_TRAINING;
    worker->epoch = count(event, "epoch");
    worker->epochs = count(event, "epochs");
    worker->step = mst_json_u64_or(event, "step", 0);
    worker->steps = mst_json_u64_or(event, "steps", 0);
    worker->loss = number(event, "loss", 0);
    worker->accuracy = number(event, "accuracy", 0);
    worker->ms_per_step = number(event, "ms_per_step", 0);
    return 0;
}

static int on_epoch(struct workers *workers, struct worker *worker, const cJSON *event, struct mst_error *err)
{
    struct worker_epoch *history;
    const int r = on_progress(workers, worker, event, err);

    if (r < 0 || worker->history_count >= WORKERS_EPOCHS_MAX)
        return r;
    worker->step = worker->steps;
    worker->seconds += number(event, "seconds", 0);
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
        .seconds = number(event, "seconds", 0),
        .ms_per_step = worker->ms_per_step,
        .loss = worker->loss,
        .accuracy = worker->accuracy,
        .wait_ms = number(event, "wait_ms", 0),
        .transfer_ms = number(event, "transfer_ms", 0),
        .compute_ms = number(event, "compute_ms", 0),
    };
    return 0;
}

static int on_test(struct workers *workers, struct worker *worker, const cJSON *event, struct mst_error *err)
{
    (void)worker, (void)err;
    workers->test_accuracy = number(event, "accuracy", -1);
    return 0;
}

static int on_done(struct workers *workers, struct worker *worker, const cJSON *event, struct mst_error *err)
{
    (void)workers, (void)err;
    worker->state = WORKER_DONE;
    worker->seconds = number(event, "seconds", worker->seconds);
    worker->total_steps = mst_json_u64_or(event, "steps", 0);
    worker->loss = number(event, "loss", worker->loss);
    worker->accuracy = number(event, "accuracy", worker->accuracy);
    worker->test_accuracy = number(event, "test_accuracy", -1);
    if (worker->epochs == 0)
        worker->epochs = worker->epoch = count(event, "epochs");
    if (worker->total_steps > 0 && worker->seconds > 0)
        worker->ms_per_step = 1000 * worker->seconds / (double)worker->total_steps;
    copy(worker->digest, sizeof worker->digest, event, "digest");
    return 0;
}

static int on_failed(struct workers *workers, struct worker *worker, const cJSON *event,
                     struct mst_error *err)
{
    (void)workers, (void)err;
    worker->state = WORKER_FAILED;
    worker->failed_s = number(event, "t", 0);
    copy(worker->reason, sizeof worker->reason, event, "reason");
    return 0;
}

static const struct {
    const char *name;
    int (*take)(struct workers *workers, struct worker *worker, const cJSON *event, struct mst_error *err);
} worker_events[] = {
    {"start", on_start},
    {"sweep", on_sweep},
    {"waiting", on_waiting},
    {"view", on_view},
    {"first_step", on_first_step},
    {"progress", on_progress},
    {"epoch", on_epoch},
    {"test", on_test},
    {"done", on_done},
    {"failed", on_failed},
};

static int keep_line(struct workers *workers, const struct log_message *message)
{
    struct worker_tail *tail = NULL;

    for (size_t i = 0; i < workers->tail_count && !tail; i++) {
        if (strcmp(workers->tails[i].task_id, message->task_id) == 0)
            tail = &workers->tails[i];
    }
    if (!tail) {
        struct worker_tail *tails;
        if (workers->tail_count >= TAILS_MAX)
            return 0;
        tails = reallocarray(workers->tails, workers->tail_count + 1, sizeof *tails);
        if (!tails)
            return -ENOMEM;
        workers->tails = tails;
        tail = &tails[workers->tail_count++];
        *tail = (struct worker_tail){0};
        (void)snprintf(tail->task_id, sizeof tail->task_id, "%s", message->task_id);
    }
    (void)snprintf(tail->lines[tail->count % WORKERS_TAIL], WORKERS_TAIL_BYTES, "%s", message->text);
    tail->count++;
    return 0;
}

static void on_collected(struct workers *workers, const struct log_message *message, const cJSON *event)
{
    workers->is_collected = true;
    workers->collected_files = mst_json_u64_or(event, "files", 0);
    workers->collected_bytes = mst_json_u64_or(event, "bytes", 0);
    copy(workers->collected_folder, sizeof workers->collected_folder, event, "folder");
    (void)snprintf(workers->collector_task_id, sizeof workers->collector_task_id, "%s", message->task_id);
}

/* Only a worker starts; other programs' failures are in their tails. */
static int take_worker_event(struct workers *workers, const struct log_message *message, const char *name,
                             const cJSON *event, struct mst_error *err)
{
    struct worker *worker = workers_by_task(workers, message->task_id);
    char slot[sizeof worker->slot];
    int r = 0;

    copy(slot, sizeof slot, event, "slot");
    for (size_t i = 0; i < MST_ARRAY_COUNT(worker_events); i++) {
        if (strcmp(worker_events[i].name, name) != 0)
            continue;
        if (!worker && (strcmp(name, "start") != 0 || slot[0] == '\0'))
            return keep_line(workers, message);
        if (strcmp(name, "start") == 0) {
            r = insert_worker(workers, slot, &worker, err);
            if (r < 0)
                return r;
            if (strcmp(worker->task_id, message->task_id) != 0)
                forget_results(worker); /* the slot's next task */
            (void)snprintf(worker->service, sizeof worker->service, "%s", message->service);
            (void)snprintf(worker->task_id, sizeof worker->task_id, "%s", message->task_id);
            (void)snprintf(worker->node_id, sizeof worker->node_id, "%s", message->node_id);
        }
        return worker_events[i].take(workers, worker, event, err);
    }
    return 0; /* an event of a newer agent */
}

int workers_take(struct workers *workers, const struct log_message *message, cJSON **ret_sample,
                 struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *event = NULL;
    const char *name;

    *ret_sample = NULL;
    if (message->stream != 1 || message->text[0] != '{' || message->count > MST_EVENT_MAX_BYTES ||
        mst_json_parse(message->text, message->count, "event", &event, NULL) < 0 ||
        mst_json_get_string(event, "event", "event", &name, NULL) < 0) {
        return keep_line(workers, message) < 0 ? mst_error_set(err, -ENOMEM, "log: no memory") : 0;
    }
    if (strcmp(name, "sample") == 0) {
        *ret_sample = event;
        event = NULL;
        return 0;
    }
    if (strcmp(name, "collected") == 0) {
        on_collected(workers, message, event);
        return 0;
    }
    return take_worker_event(workers, message, name, event, err);
}

size_t workers_count_state(const struct workers *workers, enum worker_state state)
{
    size_t total = 0;

    for (size_t i = 0; i < workers->count; i++)
        total += workers->items[i].state == state;
    return total;
}

uint32_t workers_common_epoch(const struct workers *workers)
{
    uint32_t fewest = UINT32_MAX;

    for (size_t i = 0; i < workers->count; i++) {
        const struct worker *worker = &workers->items[i];
        const uint32_t finished =
            worker->history_count > 0 ? worker->history[worker->history_count - 1].epoch : 0;
        fewest = finished < fewest ? finished : fewest;
    }
    return workers->count > 0 ? fewest : 0;
}

bool workers_digests_are_equal(const struct workers *workers)
{
    const char *digest = NULL;

    for (size_t i = 0; i < workers->count; i++) {
        const struct worker *worker = &workers->items[i];
        if (worker->state != WORKER_DONE)
            continue;
        if (worker->digest[0] == '\0' || (digest && strcmp(digest, worker->digest) != 0))
            return false;
        digest = worker->digest;
    }
    return digest != NULL;
}
