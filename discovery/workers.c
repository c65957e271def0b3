/* SPDX-License-Identifier: Apache-2.0 */
/* The ordered list of workers. Everybody who knows the same workers has the same order, whatever order they
 * answered in: an index in it can become a rank. */
#include "muster/discovery.h"

#include <stdlib.h>
#include <string.h>

#define WORKERS_FIRST 8

int discovery_identity_compare(const struct discovery_identity *a, const struct discovery_identity *b)
{
    /* Compare, don't subtract: 10.0.0.1 minus 192.168.0.1 does not fit an int. */
    if (a->ipv4 != b->ipv4)
        return a->ipv4 < b->ipv4 ? -1 : 1;
    if (a->port != b->port)
        return a->port < b->port ? -1 : 1;
    return memcmp(a->incarnation, b->incarnation, sizeof a->incarnation);
}

/* Index of the incarnation, or count. */
static size_t workers_index(const struct discovery_workers *workers, const uint8_t *incarnation)
{
    size_t i = 0;
    while (i < workers->count &&
           memcmp(workers->items[i].incarnation, incarnation, DISCOVERY_INCARNATION_BYTES) != 0)
        i++;
    return i;
}

static void workers_take_out(struct discovery_workers *workers, size_t index)
{
    struct discovery_identity *item = workers->items + index;
    memmove(item, item + 1, (workers->count - index - 1) * sizeof *item);
    workers->count--;
}

static int workers_grow(struct discovery_workers *workers, struct mst_error *err)
{
    if (workers->count >= DISCOVERY_WORKERS_MAX)
        return mst_error_set(err, -ENOBUFS, "more than %d workers", DISCOVERY_WORKERS_MAX);
    if (workers->count < workers->capacity)
        return 0;
    const size_t capacity = workers->capacity ? 2 * workers->capacity : WORKERS_FIRST;
    struct discovery_identity *items = reallocarray(workers->items, capacity, sizeof *items);
    if (!items)
        return mst_error_set(err, -ENOMEM, "no memory for %zu workers", capacity);
    workers->items = items;
    workers->capacity = capacity;
    return 0;
}

int discovery_workers_add(struct discovery_workers *workers, const struct discovery_identity *identity,
                          struct mst_error *err)
{
    const struct discovery_identity copy = *identity; /* it may stand in the list itself */
    const size_t known = workers_index(workers, copy.incarnation);
    const bool is_new = known == workers->count;
    if (is_new) {
        const int r = workers_grow(workers, err);
        if (r < 0)
            return r;
    } else {
        workers_take_out(workers, known); /* its address may have changed, and so its place */
    }
    size_t place = workers->count;
    while (place > 0 && discovery_identity_compare(&copy, &workers->items[place - 1]) < 0)
        place--;
    memmove(workers->items + place + 1, workers->items + place,
            (workers->count - place) * sizeof *workers->items);
    workers->items[place] = copy;
    workers->count++;
    return is_new;
}

const struct discovery_identity *
discovery_workers_find(const struct discovery_workers *workers,
                       const uint8_t incarnation[static DISCOVERY_INCARNATION_BYTES])
{
    const size_t index = workers_index(workers, incarnation);
    return index < workers->count ? &workers->items[index] : NULL;
}

bool discovery_workers_remove(struct discovery_workers *workers,
                              const uint8_t incarnation[static DISCOVERY_INCARNATION_BYTES])
{
    const size_t index = workers_index(workers, incarnation);
    if (index == workers->count)
        return false;
    workers_take_out(workers, index);
    return true;
}

void discovery_workers_release(struct discovery_workers *workers)
{
    free(workers->items);
    *workers = (struct discovery_workers){0};
}
