/* SPDX-License-Identifier: Apache-2.0 */
#include "logorder.h"

#include "muster/cleanup.h"
#include "muster/clock.h"

#include <stdlib.h>
#include <string.h>

#define HELD_MAX_BYTES ((size_t)128 << 20)

/* One block of memory: the struct, and its texts behind it. */
struct held {
    struct log_message message;
    uint64_t number, came_ns;
    size_t bytes;
};

struct logorder {
    log_message_fn *on_message;
    void *context;
    uint64_t hold_ns, next_number;
    struct held **items; /* owned, as they came */
    size_t count, capacity, bytes;
};

int logorder_new(unsigned hold_ms, log_message_fn *on_message, void *context, struct logorder **ret_order,
                 struct mst_error *err)
{
    struct logorder *order = calloc(1, sizeof *order);

    if (!order)
        return mst_error_set(err, -ENOMEM, "logs: no memory");
    *order =
        (struct logorder){.on_message = on_message, .context = context, .hold_ns = hold_ms * MST_NS_PER_MS};
    *ret_order = order;
    return 0;
}

void logorder_free(struct logorder *order)
{
    if (!order)
        return;
    for (size_t i = 0; i < order->count; i++)
        free(order->items[i]);
    free(order->items);
    free(order);
}

void logorder_freep(struct logorder **order)
{
    logorder_free(*order);
    *order = NULL;
}

static const char *put(char **at, const char *text, size_t bytes)
{
    char *copy = *at;

    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    *at += bytes + 1;
    return copy;
}

static struct held *copy_of(const struct log_message *message)
{
    const size_t task = strlen(message->task_id), node = strlen(message->node_id),
                 service = strlen(message->service), time = strlen(message->timestamp),
                 bytes = sizeof(struct held) + task + node + service + time + message->count + 5;
    struct held *held = malloc(bytes);
    char *at = (char *)(held + 1);

    if (!held)
        return NULL;
    *held = (struct held){.bytes = bytes};
    held->message = (struct log_message){
        .service = put(&at, message->service, service),
        .task_id = put(&at, message->task_id, task),
        .node_id = put(&at, message->node_id, node),
        .timestamp = put(&at, message->timestamp, time),
        .text = put(&at, message->text, message->count),
        .count = message->count,
        .stream = message->stream,
    };
    return held;
}

static int by_time(const void *a, const void *b)
{
    const struct held *const *x = a, *const *y = b;
    const int order = strcmp((*x)->message.timestamp, (*y)->message.timestamp);

    return order != 0 ? order : ((*x)->number > (*y)->number) - ((*x)->number < (*y)->number);
}

/* The first `count` of the sorted go out. */
static int hand_on(struct logorder *order, size_t count, struct mst_error *err)
{
    int r = 0;

    for (size_t i = 0; i < count; i++) {
        if (r >= 0)
            r = order->on_message(order->context, &order->items[i]->message, err);
        order->bytes -= order->items[i]->bytes;
        free(order->items[i]);
    }
    order->count -= count;
    if (order->count > 0) /* `items` is NULL before the first message */
        memmove(order->items, order->items + count, order->count * sizeof(struct held *));
    return r < 0 ? r : 0;
}

static void sort(struct logorder *order)
{
    if (order->count > 1)
        qsort(order->items, order->count, sizeof(struct held *), by_time);
}

int logorder_add(void *context, const struct log_message *message, struct mst_error *err)
{
    struct logorder *order = context;
    struct held *held;

    if (order->count == order->capacity) {
        const size_t capacity = order->capacity ? 2 * order->capacity : 256;
        struct held **items = reallocarray(order->items, capacity, sizeof(struct held *));
        if (!items)
            return mst_error_set(err, -ENOMEM, "logs: no memory");
        order->items = items;
        order->capacity = capacity;
    }
    held = copy_of(message);
    if (!held)
        return mst_error_set(err, -ENOMEM, "logs: no memory");
    held->number = order->next_number++;
    held->came_ns = mst_now_ns();
    order->items[order->count++] = held;
    order->bytes += held->bytes;
    if (order->bytes <= HELD_MAX_BYTES)
        return 0;
    sort(order);
    return hand_on(order, order->count / 2, err);
}

/* All up to the newest that was held long enough: an older one among them may have come later. */
int logorder_tick(struct logorder *order, uint64_t now_ns, struct mst_error *err)
{
    size_t count = 0;

    if (order->hold_ns == 0)
        return 0;
    sort(order);
    for (size_t i = 0; i < order->count; i++) {
        if (now_ns - order->items[i]->came_ns >= order->hold_ns)
            count = i + 1;
    }
    return hand_on(order, count, err);
}

int logorder_flush(struct logorder *order, struct mst_error *err)
{
    sort(order);
    return hand_on(order, order->count, err);
}
