/* SPDX-License-Identifier: Apache-2.0 */
/* events.jsonl: the workers' own events (docs/events.md), for the parts of their lives and for the time axis.
 */
#include "muster/buf.h"
#include "muster/cleanup.h"
#include "muster/file.h"
#include "muster/json.h"
#include "runs.h"

#include <math.h>
#include <string.h>

#define EVENTS_MAX_BYTES ((size_t)256 << 20)
/* The parts of a profile are each rounded, and its total is taken a moment later. */
#define SUM_SLACK_MS 50.0

static const struct {
    const char *key;
    enum run_part part;
} profile_keys[] = {
    {"start_ms", RUN_PART_START},         {"load_ms", RUN_PART_START},
    {"discovery_ms", RUN_PART_DISCOVERY}, {"connect_ms", RUN_PART_CONNECT},
    {"compute_ms", RUN_PART_COMPUTE},     {"exchange_ms", RUN_PART_EXCHANGE},
    {"wait_ms", RUN_PART_EXCHANGE},       {"between_ms", RUN_PART_REST},
    {"verify_ms", RUN_PART_SAVING},       {"validation_ms", RUN_PART_SAVING},
    {"saving_ms", RUN_PART_SAVING},       {"test_ms", RUN_PART_SAVING},
    {"recovery_ms", RUN_PART_REST},
};

static struct run_worker *find_worker(struct run *run, const char *slot)
{
    for (size_t i = 0; i < run->worker_count; i++) {
        if (strcmp(run->workers[i].slot, slot) == 0)
            return &run->workers[i];
    }
    return NULL;
}

static int take_profile(const cJSON *event, const char *what, struct run_worker *worker,
                        struct mst_error *err)
{
    double parts[RUN_PART_COUNT] = {0}, sum = 0, value, whole;
    int r = mst_json_get_double(event, "total_ms", what, &whole, err);

    for (size_t i = 0; i < MST_ARRAY_COUNT(profile_keys) && r >= 0; i++) {
        r = mst_json_get_double(event, profile_keys[i].key, what, &value, err);
        if (r >= 0 && !(value >= 0))
            r = mst_error_set(err, -EBADMSG, "%s: key '%s' is below 0", what, profile_keys[i].key);
        if (r >= 0) {
            parts[profile_keys[i].part] += value;
            sum += value;
        }
    }
    if (r < 0)
        return r;
    if (fabs(sum - whole) > SUM_SLACK_MS + whole / 100)
        return mst_error_set(err, -EBADMSG,
                             "%s: the parts of the profile of '%s' sum to %.0f ms, and its total is %.0f ms",
                             what, worker->slot, sum, whole);
    memcpy(worker->part_ms, parts, sizeof parts);
    worker->whole_ms = whole;
    worker->has_parts = true;
    return 0;
}

static void take_epoch(const cJSON *event, struct run_worker *worker)
{
    const double epoch = mst_json_double_or(event, "epoch", -1);

    for (size_t i = 0; i < worker->epoch_count; i++) {
        if (worker->epochs[i].epoch == epoch)
            worker->epochs[i].end_s = mst_json_double_or(event, "t", NAN);
    }
}

static int take_line(const char *line, size_t bytes, const char *what, struct run *run, struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *event = NULL;
    struct run_worker *worker;
    const char *name;
    int r = mst_json_parse(line, bytes, what, &event, err);

    if (r < 0)
        return r;
    worker = find_worker(run, mst_json_string_or(event, "slot", ""));
    name = mst_json_string_or(event, "event", "");
    if (!worker)
        return 0; /* the collector's and the monitor's */
    if (strcmp(name, "start") == 0)
        worker->begin_s =
            mst_json_double_or(event, "t", NAN) - mst_json_double_or(event, "pid_age_ms", 0) / 1000;
    else if (strcmp(name, "epoch") == 0)
        take_epoch(event, worker);
    else if (strcmp(name, "profile") == 0)
        return take_profile(event, what, worker, err);
    return 0;
}

int run_events_load(const char *folder, struct run *run, struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(EVENTS_MAX_BYTES);
    mst_cleanup(mst_freep) char *path = mst_path_join(folder, "events.jsonl");
    const char *at;
    size_t line = 0;
    int r;

    if (!path)
        return mst_error_set(err, -ENOMEM, "%s: no memory", folder);
    r = mst_file_read(path, &text, err);
    if (r == -ENOENT)
        return 0;
    for (at = mst_buf_text(&text); r >= 0 && *at != '\0';) {
        const size_t bytes = strcspn(at, "\n");
        mst_cleanup(mst_freep) char *what = mst_format("%s:%zu", path, ++line);
        if (!what)
            return mst_error_set(err, -ENOMEM, "%s: no memory", path);
        if (bytes > 0)
            r = take_line(at, bytes, what, run, err);
        at += bytes + (at[bytes] == '\n');
    }
    run->has_events = true;
    return r;
}
