/* SPDX-License-Identifier: Apache-2.0 */
#include "categories.h"

#include "muster/parse.h"

#include <stdlib.h>
#include <string.h>

void categories_release(struct categories *set)
{
    for (size_t i = 0; i < set->count; i++)
        free(set->sorted[i].text);
    free(set->sorted);
    free(set->names);
    *set = (struct categories){0};
}

/* Where `text` stands, or would stand. */
static size_t place_of(const struct categories *set, const char *text, bool *ret_there)
{
    size_t low = 0, high = set->count;

    *ret_there = false;
    while (low < high && !*ret_there) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(set->sorted[middle].text, text);
        if (order == 0) {
            *ret_there = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int grow(struct categories *set)
{
    const size_t there = set->there > 0 ? 2 * set->there : 16;
    struct category *grown = realloc(set->sorted, there * sizeof *grown);

    if (!grown)
        return -ENOMEM;
    set->sorted = grown;
    set->there = there;
    return 0;
}

int categories_find(struct categories *set, const char *text, uint32_t *ret_number)
{
    bool there;
    const size_t place = place_of(set, text, &there);

    if (there) {
        *ret_number = set->sorted[place].number;
        return 0;
    }
    if (set->closed)
        return -ENOENT;
    if (set->count == CATEGORIES_MAX)
        return -EFBIG;
    char *copy = strdup(text);
    if (!copy || (set->count == set->there && grow(set) < 0)) {
        free(copy);
        return -ENOMEM;
    }
    memmove(set->sorted + place + 1, set->sorted + place, (set->count - place) * sizeof *set->sorted);
    set->sorted[place] = (struct category){.text = copy, .number = (uint32_t)set->count};
    *ret_number = (uint32_t)set->count++;
    return 0;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static uint64_t value_of(const char *text)
{
    uint64_t value = 0;

    (void)mst_parse_u64(text, 0, UINT64_MAX, &value, NULL); /* known to be one */
    return value;
}

static int by_value(const void *a, const void *b)
{
    const uint64_t first = value_of(*(char *const *)a), second = value_of(*(char *const *)b);

    return first == second ? by_bytes(a, b) : (first > second) - (first < second);
}

static bool all_are_numbers(const struct categories *set)
{
    uint64_t value;

    for (size_t i = 0; i < set->count; i++) {
        if (mst_parse_u64(set->sorted[i].text, 0, UINT64_MAX, &value, NULL) < 0)
            return false;
    }
    return true;
}

int categories_close(struct categories *set, bool keep_order, uint32_t **ret_moved)
{
    uint32_t *moved = calloc(set->count + 1, sizeof *moved);
    char **names = calloc(set->count + 1, sizeof *names);

    if (!moved || !names) {
        free(moved);
        free(names);
        return -ENOMEM;
    }
    for (size_t i = 0; i < set->count; i++)
        names[set->sorted[i].number] = set->sorted[i].text;
    if (!keep_order)
        qsort(names, set->count, sizeof *names, all_are_numbers(set) ? by_value : by_bytes);
    for (size_t i = 0; i < set->count; i++) {
        bool there;
        struct category *category = &set->sorted[place_of(set, names[i], &there)];
        moved[category->number] = (uint32_t)i;
    }
    for (size_t i = 0; i < set->count; i++)
        set->sorted[i].number = moved[set->sorted[i].number];
    set->names = names;
    set->closed = true;
    *ret_moved = moved;
    return 0;
}
