/* SPDX-License-Identifier: Apache-2.0 */
#include "logsource.h"

#include "muster/clock.h"
#include "muster/engine.h"
#include "taskstate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SOURCES_MAX 4096 /* tasks times streams of one service */
#define OVERLAP_S   10   /* logs of several nodes arrive out of order */
#define SILENT_MS   30000

void logsources_release(struct logsources *sources)
{
    for (size_t i = 0; i < sources->count; i++)
        mst_buf_release(&sources->items[i].begun);
    free(sources->items);
    *sources = (struct logsources){0};
}

struct logsource *logsources_find(struct logsources *sources, const char *task_id, unsigned stream)
{
    struct logsource *items;

    for (size_t i = 0; i < sources->count; i++) {
        if (sources->items[i].stream == stream && strcmp(sources->items[i].task_id, task_id) == 0)
            return &sources->items[i];
    }
    if (sources->count >= SOURCES_MAX)
        return NULL;
    items = reallocarray(sources->items, sources->count + 1, sizeof *items);
    if (!items)
        return NULL;
    sources->items = items;
    items[sources->count] = (struct logsource){
        .stream = stream, .begun = MST_BUF_INIT(LOGSOURCE_LINE_MAX_BYTES + ENGINE_FRAME_MAX_BYTES)};
    (void)snprintf(items[sources->count].task_id, sizeof items->task_id, "%s", task_id);
    return &items[sources->count++];
}

void logsources_read_again(struct logsources *sources)
{
    for (size_t i = 0; i < sources->count; i++) {
        sources->items[i].is_read_again = sources->items[i].last[0] != '\0';
        logsource_ended(&sources->items[i]); /* half a line comes again whole */
    }
}

/* The earliest of the last messages, by their own clocks, so that one that went back loses nothing; but a
 * source that has long been silent, a task that has ended say, is no reason to read everything again. */
double logsources_since_s(const struct logsources *sources)
{
    uint64_t heard_ns = 0;
    double since_s = 0;

    for (size_t i = 0; i < sources->count; i++)
        heard_ns = sources->items[i].heard_ns > heard_ns ? sources->items[i].heard_ns : heard_ns;
    for (size_t i = 0; i < sources->count; i++) {
        const struct logsource *source = &sources->items[i];
        const double last_s = taskstate_time_s(source->last);
        if (source->last[0] == '\0' || heard_ns - source->heard_ns > SILENT_MS * MST_NS_PER_MS)
            continue;
        since_s = since_s <= 0 || last_s < since_s ? last_s : since_s;
    }
    return since_s > OVERLAP_S ? since_s - OVERLAP_S : 0;
}

/* FNV-1a: tells equal lines from others, and nobody gains by one that is taken for another. */
static uint64_t hash(const char *text, size_t count)
{
    uint64_t value = 14695981039346656037ULL;

    for (size_t i = 0; i < count; i++)
        value = (value ^ (unsigned char)text[i]) * 1099511628211ULL;
    return value;
}

bool logsource_take(struct logsource *source, const char *timestamp, const char *text, size_t count)
{
    const uint64_t its_hash = hash(text, count);

    if (source->is_read_again) {
        if (strcmp(timestamp, source->last) == 0 && its_hash == source->last_hash) {
            source->is_read_again = false; /* what comes after it is new, whatever time it bears */
            return false;
        }
        if (strcmp(timestamp, source->newest) <= 0)
            return false;
        source->is_read_again = false; /* the last one is no longer in the log */
    }
    (void)snprintf(source->last, sizeof source->last, "%s", timestamp);
    if (strcmp(timestamp, source->newest) > 0)
        (void)snprintf(source->newest, sizeof source->newest, "%s", timestamp);
    source->last_hash = its_hash;
    source->heard_ns = mst_now_ns();
    return true;
}

int logsource_join(struct logsource *source, const char *timestamp, const char *text, size_t count,
                   bool has_end)
{
    if (source->begun_at[0] == '\0')
        (void)snprintf(source->begun_at, sizeof source->begun_at, "%s", timestamp);
    if (mst_buf_append(&source->begun, text, count) < 0)
        return -ENOMEM;
    return has_end || source->begun.count >= LOGSOURCE_LINE_MAX_BYTES;
}

void logsource_ended(struct logsource *source)
{
    mst_buf_clear(&source->begun);
    source->begun_at[0] = '\0';
}
