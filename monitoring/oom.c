/* SPDX-License-Identifier: Apache-2.0 */
#include "oom.h"

#include "muster/clock.h"

#include <stdlib.h>
#include <string.h>

void oom_release(struct oom *oom)
{
    free(oom->entries);
    *oom = (struct oom){0};
}

static struct oom_entry *find(const struct oom *oom, const char *id)
{
    for (size_t i = 0; i < oom->count; i++) {
        if (strcmp(oom->entries[i].id, id) == 0)
            return &oom->entries[i];
    }
    return NULL;
}

void oom_forget(struct oom *oom, const char *id)
{
    struct oom_entry *entry = find(oom, id);
    if (!entry)
        return;
    oom->count--;
    memmove(entry, entry + 1, (size_t)(oom->entries + oom->count - entry) * sizeof *entry);
}

/* NULL without memory: then the kernel's count is all there is. */
static struct oom_entry *find_or_add(struct oom *oom, const char *id)
{
    struct oom_entry *entry = find(oom, id);
    if (entry)
        return entry;
    if (oom->count == OOM_MAX)
        oom_forget(oom, oom->entries[0].id);
    if (oom->count == oom->room) {
        const size_t room = oom->room ? 2 * oom->room : 8;
        void *entries = reallocarray(oom->entries, room, sizeof *oom->entries);
        if (!entries)
            return NULL;
        oom->entries = entries;
        oom->room = room;
    }
    entry = &oom->entries[oom->count++];
    *entry = (struct oom_entry){0};
    memcpy(entry->id, id, strnlen(id, sizeof entry->id - 1));
    return entry;
}

void oom_event(struct oom *oom, const char *id, uint64_t time_ns)
{
    struct oom_entry *entry = find_or_add(oom, id);
    if (!entry || time_ns <= entry->last_event_ns)
        return;
    entry->last_event_ns = time_ns;
    entry->events++;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The newest event may be of the new life, if that did not last until it was first read. */
static void begin_anew(struct oom_entry *entry, const struct monitor_container *info)
{
    const bool is_newer = entry->events > 0 && info->started_s > 0 &&
                          (double)entry->last_event_ns / (double)MST_NS_PER_S > info->started_s;
    entry->before += larger(entry->kills, entry->events - is_newer);
    entry->kills = 0;
    entry->events = is_newer;
}

uint64_t oom_total(struct oom *oom, const struct monitor_container *info, uint64_t kills)
{
    struct oom_entry *entry = kills > 0 ? find_or_add(oom, info->id) : find(oom, info->id);
    if (!entry)
        return kills;
    if (strcmp(entry->started_at, info->started_at) != 0) {
        if (*entry->started_at || entry->events > 0)
            begin_anew(entry, info);
        memcpy(entry->started_at, info->started_at, sizeof entry->started_at);
    }
    entry->kills = larger(entry->kills, kills);
    return entry->before + larger(entry->kills, entry->events);
}
