/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include "muster/cleanup.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BAR_CELLS       10
#define BLOCK_MAX_BYTES ((size_t)128 << 10)
#define DRAWN_WORKERS   24 /* a terminal's worth; the rest is counted */

static const char *host_name(const struct progress *progress, const struct worker *worker)
{
    const struct swarm_node *node = swarm_nodes_find(progress->nodes, worker->node_id);

    return node ? node->hostname : "?";
}

const char *progress_slot_name(const char *stack, const char *slot)
{
    const size_t bytes = stack ? strlen(stack) : 0;

    return bytes > 0 && strncmp(slot, stack, bytes) == 0 && slot[bytes] == '_' ? slot + bytes + 1 : slot;
}

/* Everything here is of one stack: its name need not be in every line. */
static const char *slot_name(const struct progress *progress, const struct worker *worker)
{
    return progress_slot_name(progress->stack, worker->slot);
}

/* Of all epochs, 0 to 1. */
static double part_done(const struct worker *worker)
{
    double epochs;

    if (worker->state == WORKER_DONE)
        return 1;
    if (worker->epochs == 0 || worker->steps == 0 || worker->epoch == 0)
        return 0;
    epochs = worker->epoch - 1 + (double)worker->step / (double)worker->steps;
    epochs /= worker->epochs;
    return epochs < 0 ? 0 : epochs > 1 ? 1 : epochs;
}

static void bar_text(double part, char text[static BAR_CELLS + 1])
{
    const int full = (int)(part * BAR_CELLS + 0.5);

    for (int i = 0; i < BAR_CELLS; i++)
        text[i] = i < full ? '#' : '-';
    text[BAR_CELLS] = '\0';
}

static void eta_text(const struct worker *worker, char *text, size_t capacity)
{
    const double all_steps = (double)worker->epochs * (double)worker->steps;
    const double left_s = all_steps * (1 - part_done(worker)) * worker->ms_per_step / 1000;

    if (worker->state == WORKER_DONE || !(left_s >= 0) || left_s > 1e7)
        (void)snprintf(text, capacity, "     ");
    else
        (void)snprintf(text, capacity, "%2u:%02u", (unsigned)left_s / 60, (unsigned)left_s % 60);
}

void progress_worker_line(const struct progress *progress, const struct worker *worker, char *text,
                          size_t capacity)
{
    char bar[BAR_CELLS + 1], eta[16];
    const int used =
        snprintf(text, capacity, "  %-10s %-8s ", slot_name(progress, worker), host_name(progress, worker));
    char *rest = used > 0 && (size_t)used < capacity ? text + used : text;
    const size_t left = capacity - (size_t)(rest - text);

    bar_text(part_done(worker), bar);
    eta_text(worker, eta, sizeof eta);
    switch (worker->state) {
    case WORKER_FORMING:
        if (worker->want > 0)
            (void)snprintf(rest, left, "waiting: %" PRIu32 " of %" PRIu32 " workers", worker->have,
                           worker->want);
        else
            (void)snprintf(rest, left, "looking for the others");
        break;
    case WORKER_PAUSED:
        (void)snprintf(rest, left, "paused: %" PRIu32 " of the %" PRIu32 " workers that are needed",
                       worker->have, worker->want);
        break;
    case WORKER_CHANGING:
        (void)snprintf(rest, left, "changing: view %" PRIu32 " is over", worker->view);
        break;
    case WORKER_LEAVING:
    case WORKER_LEFT:
    case WORKER_LOST:
    case WORKER_FAILED:
        (void)snprintf(rest, left, "%s: %s", worker_state_text(worker->state), worker->reason);
        break;
    case WORKER_TRAINING:
    case WORKER_DONE: /* all but the steps fits 80 columns */
        (void)snprintf(rest, left,
                       "[%s] %3" PRIu32 "/%-3" PRIu32 " loss %6.3f acc %5.3f %5.0f ms/step %s  %" PRIu64
                       "/%" PRIu64,
                       bar, worker->epoch, worker->epochs, worker->loss, worker->accuracy,
                       worker->ms_per_step, eta, worker->step, worker->steps);
        break;
    }
}

static void draw(struct progress *progress, struct report *report, const struct workers *workers)
{
    struct mst_buf text = MST_BUF_INIT(BLOCK_MAX_BYTES);
    char line[768];

    for (size_t i = 0; i < workers->count && i < DRAWN_WORKERS; i++) {
        progress_worker_line(progress, &workers->items[i], line, sizeof line);
        (void)mst_buf_printf(&text, "%s\n", line);
    }
    if (workers->count > DRAWN_WORKERS)
        (void)mst_buf_printf(&text, "  and %zu more\n", workers->count - DRAWN_WORKERS);
    if (workers->count < progress->expected)
        (void)mst_buf_printf(&text, "  %zu of %zu workers have started\n", workers->count,
                             progress->expected);
    report_block(report, mst_buf_text(&text));
    mst_buf_release(&text);
}

/* Slowest and mean of the workers' times; loss and accuracy are the same everywhere. */
static void tell_epoch(struct progress *progress, struct report *report, const struct workers *workers,
                       uint32_t epoch)
{
    double sum_ms = 0, slowest_s = 0;
    const struct worker_epoch *last = NULL;
    uint32_t epochs = 0;
    size_t count = 0;

    for (size_t i = 0; i < workers->count; i++) {
        const struct worker *worker = &workers->items[i];
        for (size_t h = worker->history_count; h > 0; h--) {
            if (worker->history[h - 1].epoch != epoch)
                continue;
            last = &worker->history[h - 1];
            sum_ms += last->ms_per_step;
            slowest_s = last->seconds > slowest_s ? last->seconds : slowest_s;
            epochs = worker->epochs;
            count++;
            break;
        }
    }
    progress->told_epoch = epoch;
    if (last)
        report_line(report,
                    "epoch %" PRIu32 "/%" PRIu32 ": %zu workers, %" PRIu64
                    " steps in %.1f s, %.1f ms/step, loss %.4f, accuracy %.4f",
                    epoch, epochs, count, last->steps, slowest_s, sum_ms / (double)count, last->loss,
                    last->accuracy);
}

static void append_names(struct mst_buf *text, const struct progress *progress, const cJSON *slots,
                         const char *what)
{
    const cJSON *slot;
    const char *between = ", ";

    cJSON_ArrayForEach(slot, slots)
    {
        (void)mst_buf_printf(text, "%s%s", between, progress_slot_name(progress->stack, slot->valuestring));
        between = " and ";
    }
    if (cJSON_GetArraySize(slots) > 0)
        (void)mst_buf_printf(text, " %s", what);
}

static void tell_recovery(const struct progress *progress, struct report *report,
                          const struct worker_recovery *recovery)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(16384);

    append_names(&text, progress, recovery->lost, "lost");
    append_names(&text, progress, recovery->left, "left");
    append_names(&text, progress, recovery->joined, "joined");
    report_line(report, "view %" PRIu32 ", %" PRIu32 " workers%s; training again after %.2f s",
                recovery->view, recovery->world, mst_buf_text(&text), recovery->ms / 1000);
}

/* Once a pause, with what the one says that misses most. */
static void tell_pause(struct progress *progress, struct report *report, const struct workers *workers)
{
    const struct worker *paused = NULL;

    for (size_t i = 0; i < workers->count; i++) {
        const struct worker *worker = &workers->items[i];
        if (worker->state == WORKER_PAUSED && (!paused || worker->have < paused->have))
            paused = worker;
    }
    if (paused && !progress->has_told_pause)
        report_line(report, "paused: %" PRIu32 " of the %" PRIu32 " workers that are needed to go on",
                    paused->have, paused->want);
    progress->has_told_pause = paused != NULL;
}

/* What changes the view stays readable on a terminal too. */
static void tell_changes(struct progress *progress, struct report *report, const struct workers *workers)
{
    for (; progress->told_losses < workers->loss_count; progress->told_losses++) {
        const struct worker_loss *loss = &workers->losses[progress->told_losses];
        if (loss->said_itself) {
            report_line(report, "%s failed: %s", progress_slot_name(progress->stack, loss->slot),
                        loss->reason);
            continue;
        }
        report_line(report, "%s lost: %s (view %" PRIu32 ", after step %" PRIu64 ")",
                    progress_slot_name(progress->stack, loss->slot), loss->reason, loss->view, loss->step);
    }
    tell_pause(progress, report, workers);
    for (; progress->told_recoveries < workers->recovery_count; progress->told_recoveries++)
        tell_recovery(progress, report, &workers->recoveries[progress->told_recoveries]);
}

/* All of the first view are in it. */
static bool have_found_each_other(const struct workers *workers, size_t *ret_world)
{
    size_t training = 0;

    *ret_world = 0;
    for (size_t i = 0; i < workers->count; i++) {
        const struct worker *worker = &workers->items[i];
        training += worker->state == WORKER_TRAINING || worker->state == WORKER_DONE;
        *ret_world = worker->world > *ret_world ? worker->world : *ret_world;
    }
    return *ret_world > 0 && training >= *ret_world;
}

static void tell(struct progress *progress, struct report *report, const struct workers *workers)
{
    const uint32_t common = workers_common_epoch(workers);
    size_t world;

    if (workers->count > progress->told_have && workers->count < progress->expected &&
        !progress->has_told_start)
        report_line(report, "%zu of %zu workers have started", workers->count, progress->expected);
    progress->told_have = workers->count;
    if (!progress->has_told_start && have_found_each_other(workers, &world)) {
        report_line(report, "%zu workers have found each other", world);
        progress->has_told_start = true;
    }
    while (progress->told_epoch < common)
        tell_epoch(progress, report, workers, progress->told_epoch + 1);
}

void progress_show(struct progress *progress, struct report *report, const struct workers *workers)
{
    tell_changes(progress, report, workers);
    if (report->is_terminal)
        draw(progress, report, workers);
    else
        tell(progress, report, workers);
}
