/* SPDX-License-Identifier: Apache-2.0 */
#include "workers.h"

#include "muster/cleanup.h"
#include "muster/event.h"
#include "muster/json.h"
#include "plain.h"

#include <stdio.h>
#include <string.h>

#define TAILS_MAX 4096
#define SLOTS_MAX 64 /* named in one recovery; the rest is not shown */

void workers_init(struct workers *workers)
{
    *workers = (struct workers){.test_accuracy = -1};
}

static void release_recovery(struct worker_recovery *recovery)
{
    cJSON_Delete(recovery->lost);
    cJSON_Delete(recovery->joined);
    cJSON_Delete(recovery->left);
}

void workers_release(struct workers *workers)
{
    for (size_t i = 0; i < workers->count; i++)
        worker_release(&workers->items[i]);
    for (size_t i = 0; i < workers->recovery_count; i++)
        release_recovery(&workers->recoveries[i]);
    free(workers->items);
    free(workers->tails);
    free(workers->losses);
    free(workers->recoveries);
    cJSON_Delete(workers->members);
    workers_init(workers);
}

struct worker *workers_by_task(const struct workers *workers, const char *task_id)
{
    for (size_t i = 0; i < workers->count; i++) {
        if (strcmp(workers->items[i].task_id, task_id) == 0)
            return &workers->items[i];
    }
    return NULL;
}

struct worker *workers_by_slot(const struct workers *workers, const char *slot)
{
    for (size_t i = 0; i < workers->count; i++) {
        if (strcmp(workers->items[i].slot, slot) == 0)
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
    worker_init(&items[at]);
    (void)snprintf(items[at].slot, sizeof items[at].slot, "%s", slot);
    *ret_worker = &items[at];
    return 0;
}

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

/* ---- what happens to the view ---- */

static int note_view(struct workers *workers, const struct worker *worker, const cJSON *event,
                     struct mst_error *err)
{
    const cJSON *members = mst_json_at(event, "members", NULL);

    if (worker->view < workers->newest_view)
        return 0; /* a log that lags */
    workers->newest_view = worker->view;
    if (!cJSON_IsArray(members))
        return 0;
    cJSON_Delete(workers->members);
    workers->members = cJSON_Duplicate(members, true);
    return workers->members ? 0 : mst_error_set(err, -ENOMEM, "view: no memory");
}

static int add_loss(struct workers *workers, const struct worker_loss *loss, struct mst_error *err)
{
    struct worker_loss *losses;

    if (workers->loss_count >= WORKERS_LOSSES_MAX)
        return 0;
    losses = reallocarray(workers->losses, workers->loss_count + 1, sizeof *losses);
    if (!losses)
        return mst_error_set(err, -ENOMEM, "worker '%s' lost: no memory", loss->slot);
    workers->losses = losses;
    losses[workers->loss_count++] = *loss;
    return 0;
}

/* Every survivor says it; the first is heard. */
static int note_loss(struct workers *workers, const cJSON *event, struct mst_error *err)
{
    struct worker_loss loss = {.view = worker_event_count(event, "view"),
                               .step = mst_json_u64_or(event, "step", 0)};
    struct worker *worker;

    worker_event_text(loss.slot, sizeof loss.slot, event, "lost");
    worker_event_text(loss.reason, sizeof loss.reason, event, "reason");
    for (size_t i = workers->loss_count; i > 0; i--) {
        const struct worker_loss *known = &workers->losses[i - 1];
        if (!known->said_itself && known->view == loss.view && strcmp(known->slot, loss.slot) == 0)
            return 0;
    }
    if (loss.slot[0] == '\0')
        return 0;
    /* Not one that was started again meanwhile: logs of several nodes come as they like. */
    worker = workers_by_slot(workers, loss.slot);
    if (worker && worker->view == loss.view && worker_is_at_work(worker)) {
        worker->state = worker->state == WORKER_LEAVING ? WORKER_LEFT : WORKER_LOST;
        worker->failed_s = 0;
        (void)snprintf(worker->reason, sizeof worker->reason, "%s", loss.reason);
    }
    return add_loss(workers, &loss, err);
}

static int note_failure(struct workers *workers, const struct worker *worker, struct mst_error *err)
{
    struct worker_loss loss = {.view = worker->view, .said_itself = true};

    (void)snprintf(loss.slot, sizeof loss.slot, "%s", worker->slot);
    (void)snprintf(loss.reason, sizeof loss.reason, "%s", worker->reason);
    return add_loss(workers, &loss, err);
}

/* Names, and nothing else, as an array that is the caller's. NULL without memory. */
static cJSON *slots_of(const cJSON *event, const char *key)
{
    cJSON *slots = cJSON_CreateArray();
    const cJSON *item;

    cJSON_ArrayForEach(item, mst_json_at(event, key, NULL))
    {
        char slot[WORKER_SLOT_BYTES];
        if (!cJSON_IsString(item) || cJSON_GetArraySize(slots) >= SLOTS_MAX)
            continue;
        (void)snprintf(slot, sizeof slot, "%s", item->valuestring);
        plain_text(slot);
        if (!cJSON_AddItemToArray(slots, cJSON_CreateString(slot))) {
            cJSON_Delete(slots);
            return NULL;
        }
    }
    return slots;
}

static double duration_ms(const cJSON *event, const char *key)
{
    const double ms = worker_event_number(event, key, 0);

    return ms > 0 ? ms : 0;
}

static int note_recovery(struct workers *workers, const cJSON *event, struct mst_error *err)
{
    struct worker_recovery recovery = {
        .view = worker_event_count(event, "view"),
        .world = worker_event_count(event, "world"),
        .lost = slots_of(event, "lost"),
        .joined = slots_of(event, "joined"),
        .left = slots_of(event, "left"),
        .detected_ms = duration_ms(event, "detected_ms"),
        .agreed_ms = duration_ms(event, "agreed_ms"),
        .ready_ms = duration_ms(event, "ready_ms"),
        .ms = duration_ms(event, "ms"),
        .steps_repeated = mst_json_u64_or(event, "steps_repeated", 0),
    };
    struct worker_recovery *recoveries = NULL;
    size_t at = 0;
    int r = 0;

    while (at < workers->recovery_count && workers->recoveries[at].view != recovery.view)
        at++;
    if (!recovery.lost || !recovery.joined || !recovery.left) {
        r = -ENOMEM;
    } else if (at < workers->recovery_count && workers->recoveries[at].ms < recovery.ms) {
        release_recovery(&workers->recoveries[at]);
        workers->recoveries[at] = recovery;
        return 0;
    } else if (at == workers->recovery_count && at < WORKERS_RECOVERIES_MAX) {
        recoveries = reallocarray(workers->recoveries, at + 1, sizeof *recoveries);
        r = recoveries ? 0 : -ENOMEM;
    }
    if (!recoveries) {
        release_recovery(&recovery);
        return r < 0 ? mst_error_set(err, r, "recovery of the view: no memory") : 0;
    }
    workers->recoveries = recoveries;
    recoveries[workers->recovery_count++] = recovery;
    return 0;
}

static void note_left(struct workers *workers, const cJSON *event)
{
    const cJSON *item;

    cJSON_ArrayForEach(item, mst_json_at(event, "left", NULL))
    {
        struct worker *worker = cJSON_IsString(item) ? workers_by_slot(workers, item->valuestring) : NULL;
        if (worker && worker->state == WORKER_LEAVING)
            worker->state = WORKER_LEFT;
    }
}

static int note_for_all(struct workers *workers, const struct worker *worker, const char *name,
                        const cJSON *event, struct mst_error *err)
{
    if (strcmp(name, "view") == 0)
        return note_view(workers, worker, event, err);
    if (strcmp(name, "lost") == 0)
        return note_loss(workers, event, err);
    if (strcmp(name, "failed") == 0)
        return note_failure(workers, worker, err);
    if (strcmp(name, "recovered") == 0) {
        note_left(workers, event);
        return note_recovery(workers, event, err);
    }
    if (strcmp(name, "test") == 0)
        workers->test_accuracy = worker_event_number(event, "accuracy", -1);
    return 0;
}

static void on_collected(struct workers *workers, const struct log_message *message, const cJSON *event)
{
    workers->is_collected = true;
    workers->collected_files = mst_json_u64_or(event, "files", 0);
    workers->collected_bytes = mst_json_u64_or(event, "bytes", 0);
    worker_event_text(workers->collected_folder, sizeof workers->collected_folder, event, "folder");
    (void)snprintf(workers->collector_task_id, sizeof workers->collector_task_id, "%s", message->task_id);
}

/* A slot begins with a `start`, and begins anew with the next task's. *ret_worker NULL: this one is of a task
 * that another has followed, and its log came late. */
static int on_start(struct workers *workers, const struct log_message *message, const char *slot,
                    const cJSON *event, struct worker **ret_worker, struct mst_error *err)
{
    struct worker *worker;
    const int r = insert_worker(workers, slot, &worker, err);

    if (r < 0)
        return r;
    *ret_worker = NULL;
    if (strcmp(worker->node_id, message->node_id) == 0 &&
        worker->started_s > worker_event_number(event, "t", 0))
        return 0;
    if (strcmp(worker->task_id, message->task_id) != 0)
        worker_begin_anew(worker);
    (void)snprintf(worker->service, sizeof worker->service, "%s", message->service);
    (void)snprintf(worker->task_id, sizeof worker->task_id, "%s", message->task_id);
    (void)snprintf(worker->node_id, sizeof worker->node_id, "%s", message->node_id);
    *ret_worker = worker;
    return 0;
}

/* Only a worker starts; other programs' failures are in their tails. */
static int take_worker_event(struct workers *workers, const struct log_message *message, const char *name,
                             const cJSON *event, struct mst_error *err)
{
    struct worker *worker = workers_by_task(workers, message->task_id);
    char slot[WORKER_SLOT_BYTES];
    int r;

    worker_event_text(slot, sizeof slot, event, "slot");
    if (strcmp(name, "start") == 0 && slot[0] != '\0') {
        r = on_start(workers, message, slot, event, &worker, err);
        if (r < 0 || !worker)
            return r;
    }
    if (!worker)
        return keep_line(workers, message);
    r = worker_take(worker, name, event, err);
    return r < 0 ? r : note_for_all(workers, worker, name, event, err);
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

/* ---- of all workers ---- */

size_t workers_count_state(const struct workers *workers, enum worker_state state)
{
    size_t total = 0;

    for (size_t i = 0; i < workers->count; i++)
        total += workers->items[i].state == state;
    return total;
}

static uint32_t finished_epoch(const struct worker *worker)
{
    return worker->history_count > 0 ? worker->history[worker->history_count - 1].epoch : 0;
}

uint32_t workers_common_epoch(const struct workers *workers)
{
    uint32_t most = 0, fewest = UINT32_MAX;

    /* One that was lost, or is on its way into the view, does not count; nor does one that joined later than
     * others finished. */
    for (size_t i = 0; i < workers->count; i++) {
        const struct worker *worker = &workers->items[i];
        const uint32_t finished = finished_epoch(worker);
        most = finished > most ? finished : most;
        if (worker_is_at_work(worker) || worker->state == WORKER_DONE)
            fewest = finished < fewest ? finished : fewest;
    }
    if (most == 0)
        return 0;
    return fewest < most ? most - 1 : most;
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

double workers_slowest_recovery_ms(const struct workers *workers)
{
    double most_ms = -1;

    for (size_t i = 0; i < workers->recovery_count; i++)
        most_ms = workers->recoveries[i].ms > most_ms ? workers->recoveries[i].ms : most_ms;
    return most_ms;
}
