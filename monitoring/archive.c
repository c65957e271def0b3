/* SPDX-License-Identifier: Apache-2.0 */
#include "archive.h"

#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/log.h"
#include "record.h"
#include "recording.h"

#include <stdlib.h>
#include <unistd.h>

int archive_init(struct history *day, const char *node, const char *version, struct mst_error *err)
{
    const int r = history_init(day, ARCHIVE_STEPS, node, version, err);
    day->min_gap_s = ARCHIVE_SPAN_S / ARCHIVE_STEPS;
    return r;
}

/* Blocks in between are not read, so that a day takes no longer than some hundred blocks do. */
static int load_day(struct recording *recording, double from_s, double last_s, struct history *day,
                    struct mst_error *err)
{
    const struct monitor_pass *pass;
    int r = 0;
    while (r == 0 && from_s <= last_s) {
        r = recording_seek(recording, from_s, err);
        if (r == 0)
            r = recording_next(recording, &pass, err);
        if (r <= 0)
            return r;
        from_s = pass->wall_s + day->min_gap_s;
        r = history_add(day, pass, err);
    }
    return r;
}

static int load_recent(struct recording *recording, double from_s, struct history *recent,
                       struct mst_error *err)
{
    const struct monitor_pass *pass;
    int r = recording_seek(recording, from_s, err);
    while (r == 0 && (r = recording_next(recording, &pass, err)) == 1)
        r = history_add(recent, pass, err);
    return r;
}

static int load_file(const char *path, double recent_s, struct history *recent, struct history *day,
                     struct mst_error *err)
{
    struct recording *recording = NULL;
    double first_s, last_s;
    const double now_s = mst_wall_s();
    int r = recording_open(path, &recording, err);
    if (r < 0)
        return r;
    if (recording_passes(recording) > 0) {
        recording_span(recording, &first_s, &last_s);
        const double day_s = now_s - ARCHIVE_SPAN_S > first_s ? now_s - ARCHIVE_SPAN_S : first_s;
        if (last_s >= now_s - ARCHIVE_SPAN_S && first_s <= now_s)
            r = load_day(recording, day_s, last_s, day, err);
        if (r == 0 && last_s >= now_s - recent_s && first_s <= now_s)
            r = load_recent(recording, now_s - recent_s, recent, err);
    }
    recording_free(recording);
    return r;
}

int archive_load(const char *path, double recent_s, struct history *recent, struct history *day,
                 struct mst_error *err)
{
    size_t count = 0;
    int r = 0;
    char **paths = record_files(path, &count);
    for (size_t i = 0; i < count; i++) {
        struct mst_error complaint = MST_ERROR_INIT;
        if (r == 0 && access(paths[i], F_OK) == 0 &&
            load_file(paths[i], recent_s, recent, day, &complaint) < 0) {
            mst_log_warn("monitor", "the page begins without it: %s", complaint.text);
            r = complaint.code == -ENOMEM ? mst_error_set(err, -ENOMEM, "%s", complaint.text) : 0;
        }
        free(paths[i]);
    }
    free(paths);
    return r;
}
