/* SPDX-License-Identifier: Apache-2.0 */
#include "runs.h"

#include "csvread.h"
#include "muster/buf.h"
#include "muster/cleanup.h"
#include "muster/file.h"
#include "muster/json.h"
#include "muster/statistics.h"
#include "times.h"

#include <math.h>
#include <string.h>

#define JSON_MAX_BYTES    ((size_t)32 << 20)
#define HISTORY_MAX_BYTES ((size_t)32 << 20)
#define STEPS_MAX_BYTES   ((size_t)256 << 20)
#define WORKERS_MAX       1024
#define EPOCHS_MAX        100000
#define LARGE             1e15 /* bound of times and counts */

const char *const run_part_names[RUN_PART_COUNT] = {"start",    "discovery", "connect", "compute",
                                                    "exchange", "saving",    "rest"};

/* ---- a worker's files ---- */

static int load_history(const char *folder, struct run_worker *worker, struct mst_error *err)
{
    static const char *const names[] = {"epoch",    "steps",   "seconds",     "ms_per_step", "loss",
                                        "accuracy", "wait_ms", "transfer_ms", "compute_ms",  "bytes_sent"};
    mst_cleanup(csvread_release) struct csvread csv = {0};
    mst_cleanup(mst_freep) char *path = mst_format("%s/history-%s.csv", folder, worker->slot);
    size_t columns[MST_ARRAY_COUNT(names)];
    int r =
        path ? csvread_load(path, HISTORY_MAX_BYTES, &csv, err) : mst_error_set(err, -ENOMEM, "no memory");

    for (size_t i = 0; i < MST_ARRAY_COUNT(names) && r >= 0; i++)
        r = csvread_column(&csv, names[i], &columns[i], err);
    if (r >= 0 && csv.rows == 0)
        r = mst_error_set(err, -EBADMSG, "%s: no epoch in it", path);
    if (r < 0)
        return r;
    worker->epochs = calloc(csv.rows, sizeof *worker->epochs);
    if (!worker->epochs)
        return mst_error_set(err, -ENOMEM, "%s: no memory", path);
    for (size_t row = 0; row < csv.rows; row++) {
        struct run_epoch *e = &worker->epochs[row];
        double *const values[] = {&e->epoch,      &e->steps,     &e->seconds, &e->ms_per_step,
                                  &e->loss,       &e->accuracy,  &e->wait_ms, &e->transfer_ms,
                                  &e->compute_ms, &e->bytes_sent};
        for (size_t i = 0; i < MST_ARRAY_COUNT(names); i++) {
            r = csvread_number(&csv, row, columns[i], i == 0, i == 0 ? EPOCHS_MAX : LARGE, false, values[i],
                               err);
            if (r < 0)
                return r;
        }
        if (e->steps < 1 || e->seconds <= 0 || e->ms_per_step <= 0)
            return mst_error_set(err, -EBADMSG, "%s:%zu: an epoch without steps or time", path, row + 2);
        e->end_s = NAN;
    }
    worker->epoch_count = csv.rows;
    return 0;
}

static int load_steps(const char *folder, struct run_worker *worker, struct mst_error *err)
{
    mst_cleanup(csvread_release) struct csvread csv = {0};
    mst_cleanup(mst_freep) char *path = mst_format("%s/steps-%s.csv", folder, worker->slot);
    size_t column;
    int r;

    if (!path)
        return mst_error_set(err, -ENOMEM, "no memory");
    r = csvread_load(path, STEPS_MAX_BYTES, &csv, err);
    if (r == -ENOENT)
        return 0;
    if (r >= 0)
        r = csvread_column(&csv, "ms", &column, err);
    if (r < 0 || csv.rows == 0)
        return r;
    worker->step_ms = calloc(csv.rows, sizeof *worker->step_ms);
    if (!worker->step_ms)
        return mst_error_set(err, -ENOMEM, "%s: no memory", path);
    for (size_t row = 0; row < csv.rows && r >= 0; row++)
        r = csvread_number(&csv, row, column, 0, LARGE, false, &worker->step_ms[row], err);
    worker->step_count = csv.rows;
    return r;
}

static int load_worker(const char *folder, const char *what, const cJSON *json, struct run_worker *worker,
                       struct mst_error *err)
{
    const char *slot, *node, *state;
    int r = mst_json_get_string(json, "slot", what, &slot, err);

    if (r >= 0)
        r = mst_json_get_string(json, "state", what, &state, err);
    if (r < 0)
        return r;
    node = mst_json_string_or(json, "node", slot);
    if (!mst_name_is_plain(slot))
        return mst_error_set(err, -EBADMSG, "%s: slot '%.64s' is no plain name", what, slot);
    worker->begin_s = NAN;
    worker->slot = strdup(slot);
    worker->node = strdup(node[0] != '\0' ? node : slot);
    worker->version = strdup(mst_json_string_or(json, "version", ""));
    if (!worker->slot || !worker->node || !worker->version)
        return mst_error_set(err, -ENOMEM, "%s: no memory", what);
    r = load_history(folder, worker, err);
    return r < 0 ? r : load_steps(folder, worker, err);
}

/* ---- run.json ---- */

static int by_node(const void *a, const void *b)
{
    const struct run_worker *left = a, *right = b;
    const int order = strcmp(left->node, right->node);

    return order != 0 ? order : strcmp(left->slot, right->slot);
}

static int take_run_json(const cJSON *json, const char *what, struct run *run, struct mst_error *err)
{
    const cJSON *timings = mst_json_at(json, "timings", NULL);
    const char *result, *started;
    uint64_t format;
    int r = mst_json_get_u64(json, "format", 1, 1, what, &format, err);

    if (r >= 0)
        r = mst_json_get_string(json, "result", what, &result, err);
    if (r >= 0)
        r = mst_json_get_string(json, "started", what, &started, err);
    if (r >= 0)
        r = times_parse(started, what, &run->started_s, err);
    if (r < 0)
        return r;
    run->result = strdup(result);
    run->stack = strdup(mst_json_string_or(json, "stack", ""));
    run->version = strdup(mst_json_string_or(json, "muster", ""));
    run->engine = strdup(mst_json_string_or(mst_json_at(json, "engine", NULL), "version", ""));
    run->digest =
        strdup(mst_json_string_or(cJSON_GetArrayItem(mst_json_at(json, "workers", NULL), 0), "digest", ""));
    run->until_trained_s = mst_json_double_or(timings, "until_trained_seconds", NAN);
    run->total_s = mst_json_double_or(timings, "total_seconds", NAN);
    run->test_accuracy = mst_json_double_or(json, "test_accuracy", NAN);
    return run->result && run->stack && run->version && run->engine && run->digest
               ? 0
               : mst_error_set(err, -ENOMEM, "%s: no memory", what);
}

static int load_workers(const char *folder, const cJSON *list, const char *what, struct run *run,
                        struct mst_error *err)
{
    const int count = cJSON_GetArraySize(list);
    const cJSON *json;
    int r = 0;

    if (!cJSON_IsArray(list) || count < 1 || count > WORKERS_MAX)
        return mst_error_set(err, -EBADMSG, "%s: 'workers' is no list of 1 to %d workers", what, WORKERS_MAX);
    run->workers = calloc((size_t)count, sizeof *run->workers);
    if (!run->workers)
        return mst_error_set(err, -ENOMEM, "%s: no memory", what);
    cJSON_ArrayForEach(json, list)
    {
        r = load_worker(folder, what, json, &run->workers[run->worker_count++], err);
        if (r < 0)
            return r;
    }
    qsort(run->workers, run->worker_count, sizeof *run->workers, by_node);
    return 0;
}

int run_load(const char *path, struct run *ret_run, struct mst_error *err)
{
    mst_cleanup(run_release) struct run run = {.path = strdup(path)};
    mst_cleanup(mst_json_deletep) cJSON *json = NULL;
    mst_cleanup(mst_freep) char *json_path = mst_path_join(path, "run.json");
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(JSON_MAX_BYTES);
    int r = run.path && json_path ? mst_file_read(json_path, &text, err)
                                  : mst_error_set(err, -ENOMEM, "%s: no memory", path);

    if (r >= 0)
        r = mst_json_parse(mst_buf_text(&text), text.count, json_path, &json, err);
    if (r >= 0)
        r = take_run_json(json, json_path, &run, err);
    if (r >= 0)
        r = load_workers(path, mst_json_at(json, "workers", NULL), json_path, &run, err);
    if (r >= 0)
        r = run_events_load(path, &run, err);
    if (r >= 0)
        r = run_usage_load(path, &run, err);
    if (r < 0)
        return r;
    *ret_run = run;
    run = (struct run){0};
    return 0;
}

void run_release(struct run *run)
{
    for (size_t i = 0; i < run->worker_count; i++) {
        free(run->workers[i].slot);
        free(run->workers[i].node);
        free(run->workers[i].version);
        free(run->workers[i].epochs);
        free(run->workers[i].step_ms);
    }
    free(run->workers);
    run_usage_release(run);
    free(run->path);
    free(run->stack);
    free(run->result);
    free(run->version);
    free(run->engine);
    free(run->digest);
    *run = (struct run){0};
}

/* ---- one number a run ---- */

static double worker_seconds(const struct run_worker *worker)
{
    double seconds = 0;

    for (size_t i = 0; i < worker->epoch_count; i++)
        seconds += worker->epochs[i].seconds;
    return seconds;
}

double run_training_s(const struct run *run)
{
    double longest = 0;

    for (size_t i = 0; i < run->worker_count; i++)
        longest = fmax(longest, worker_seconds(&run->workers[i]));
    return longest;
}

double run_step_ms(const struct run *run)
{
    double sum = 0;

    for (size_t i = 0; i < run->worker_count; i++) {
        double steps = 0;
        for (size_t e = 0; e < run->workers[i].epoch_count; e++)
            steps += run->workers[i].epochs[e].steps;
        sum += 1000 * worker_seconds(&run->workers[i]) / steps;
    }
    return sum / (double)run->worker_count;
}

size_t run_scratch_count(const struct run *run)
{
    size_t count = 0;

    for (size_t i = 0; i < run->worker_count; i++)
        count += run->workers[i].step_count + run->workers[i].epoch_count;
    return count;
}

double run_step_median_ms(const struct run *run, double *scratch)
{
    struct statistics_summary summary;
    bool has_steps = true;
    size_t count = 0;

    for (size_t i = 0; i < run->worker_count; i++)
        has_steps = has_steps && run->workers[i].step_count > 0;
    for (size_t i = 0; i < run->worker_count; i++) {
        const struct run_worker *worker = &run->workers[i];
        for (size_t k = 0; k < (has_steps ? worker->step_count : worker->epoch_count); k++)
            scratch[count++] = has_steps ? worker->step_ms[k] : worker->epochs[k].ms_per_step;
    }
    statistics_summarise(scratch, count, &summary);
    return summary.median;
}
