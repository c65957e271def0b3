/* SPDX-License-Identifier: Apache-2.0 */
#include "experiment/conduct_results.h"

#include "muster/cleanup.h"
#include "muster/experiment.h"
#include "muster/file.h"
#include "muster/json.h"
#include "muster/parse.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define FILE_MAX_BYTES ((size_t)256 << 20)

/* Columns of stats.csv. */
enum { STATS_NODE = 1, STATS_SLOT = 4, STATS_CONTAINER = 5, STATS_CPU_SECONDS = 8, STATS_COLUMNS = 9 };

static int read_text(const char *folder, const char *name, struct mst_buf *text, struct mst_error *err)
{
    mst_cleanup(mst_freep) char *path = mst_path_join(folder, name);

    return path ? mst_file_read(path, text, err) : mst_error_set(err, -ENOMEM, "read '%s': no memory", name);
}

static bool is_worker(const cJSON *run, const char *slot)
{
    const cJSON *worker;

    cJSON_ArrayForEach(worker, mst_json_at(run, "workers", NULL))
    {
        if (strcmp(mst_json_string_or(worker, "slot", ""), slot) == 0)
            return true;
    }
    return false;
}

static int note_cpu(struct conduct_results *results, const char *node, const char *container, double seconds)
{
    struct conduct_results_cpu_row *rows;

    for (size_t i = 0; i < results->cpu_count; i++) {
        struct conduct_results_cpu_row *row = &results->cpus[i];
        if (strcmp(row->container, container) == 0 && strcmp(row->node, node) == 0) {
            row->seconds = fmax(row->seconds, seconds);
            return 0;
        }
    }
    rows = reallocarray(results->cpus, results->cpu_count + 1, sizeof *rows);
    if (!rows)
        return -ENOMEM;
    results->cpus = rows;
    rows += results->cpu_count++;
    (void)snprintf(rows->node, sizeof rows->node, "%s", node);
    (void)snprintf(rows->container, sizeof rows->container, "%s", container);
    rows->seconds = seconds;
    return 0;
}

/* A row whose names need quotes is none of a worker's: slots are plain names. */
static int take_stats(struct conduct_results *results, char *line)
{
    char *columns[STATS_COLUMNS];
    double seconds;

    for (size_t i = 0; i < STATS_COLUMNS; i++) {
        columns[i] = strsep(&line, ",");
        if (!columns[i] || columns[i][0] == '"')
            return 0;
    }
    if (!is_worker(results->run, columns[STATS_SLOT]) ||
        mst_parse_double(columns[STATS_CPU_SECONDS], 0, 1e12, &seconds, NULL) < 0)
        return 0;
    results->has_cpu = true;
    return note_cpu(results, columns[STATS_NODE], columns[STATS_CONTAINER], seconds);
}

static int take_start(struct conduct_results *results, const cJSON *json)
{
    struct conduct_results_start *starts;
    const char *slot;
    const cJSON *worker;

    starts = reallocarray(results->starts, results->start_count + 1, sizeof *starts);
    if (!starts)
        return -ENOMEM;
    results->starts = starts;
    starts += results->start_count++;
    slot = mst_json_string_or(json, "slot", "");
    *starts = (struct conduct_results_start){.s = mst_json_double_or(json, "t", -1) -
                                                  mst_json_double_or(json, "pid_age_ms", 0) / 1000};
    cJSON_ArrayForEach(worker, mst_json_at(results->run, "workers", NULL))
    {
        if (strcmp(mst_json_string_or(worker, "slot", ""), slot) == 0)
            (void)snprintf(starts->node, sizeof starts->node, "%s", mst_json_string_or(worker, "node", ""));
    }
    return 0;
}

static bool is_event(const char *line, const char *name)
{
    static const char before[] = "{\"event\":\"";
    const size_t bytes = strlen(name);

    return strncmp(line, before, sizeof before - 1) == 0 &&
           strncmp(line + sizeof before - 1, name, bytes) == 0 && line[sizeof before - 1 + bytes] == '"';
}

static int take_event(struct conduct_results *results, char *line)
{
    mst_cleanup(mst_json_deletep) cJSON *json = NULL;
    const bool starts = is_event(line, "start"), steps = is_event(line, "first_step"),
               ends = is_event(line, "done");

    if ((!starts && !steps && !ends) ||
        mst_json_parse(line, strlen(line), EXPERIMENT_EVENTS_FILE, &json, NULL) < 0)
        return 0;
    if (starts)
        return take_start(results, json);
    const double t = mst_json_double_or(json, "t", -1);
    if (steps)
        results->first_step_s = results->first_step_s < 0 ? t : fmin(results->first_step_s, t);
    else
        results->done_s = fmax(results->done_s, t);
    return 0;
}

static int each_line(struct conduct_results *results, struct mst_buf *text,
                     int (*take)(struct conduct_results *results, char *line))
{
    char *line, *rest = text->bytes;
    int r = 0;

    while (r >= 0 && (line = strsep(&rest, "\n")))
        r = line[0] != '\0' ? take(results, line) : 0;
    return r;
}

static void take_run(struct conduct_results *results)
{
    const cJSON *worker;

    results->total_seconds =
        mst_json_double_or(mst_json_at(results->run, "timings", NULL), "total_seconds", -1);
    cJSON_ArrayForEach(worker, mst_json_at(results->run, "workers", NULL))
    {
        if (mst_json_double_or(worker, "rank", -1) != 0)
            continue;
        results->ms_per_step = mst_json_double_or(worker, "ms_per_step", -1);
        (void)snprintf(results->digest, sizeof results->digest, "%s",
                       mst_json_string_or(worker, "digest", ""));
    }
}

int conduct_results_read(const char *folder, struct conduct_results *ret_results, struct mst_error *err)
{
    static const struct {
        const char *name;
        int (*take)(struct conduct_results *results, char *line);
    } files[] = {{"stats.csv", take_stats}, {EXPERIMENT_EVENTS_FILE, take_event}};
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(FILE_MAX_BYTES);
    struct conduct_results results = {
        .total_seconds = -1, .ms_per_step = -1, .first_step_s = -1, .done_s = -1};
    int r = read_text(folder, EXPERIMENT_RUN_FILE, &text, err);

    if (r >= 0)
        r = mst_json_parse(mst_buf_text(&text), text.count, EXPERIMENT_RUN_FILE, &results.run, err);
    if (r >= 0)
        take_run(&results);
    for (size_t i = 0; i < MST_ARRAY_COUNT(files) && r >= 0; i++) {
        mst_buf_clear(&text);
        r = read_text(folder, files[i].name, &text, err);
        if (r == -ENOENT) { /* a run without a monitor has no stats.csv */
            r = 0;
            continue;
        }
        if (r < 0)
            break;
        r = text.count > 0 ? each_line(&results, &text, files[i].take) : 0;
        if (r < 0)
            (void)mst_error_errno(err, r, "read '%s' of '%s'", files[i].name, folder);
    }
    if (r < 0)
        conduct_results_release(&results);
    else
        *ret_results = results;
    return r;
}

void conduct_results_release(struct conduct_results *results)
{
    cJSON_Delete(results->run);
    free(results->cpus);
    free(results->starts);
    *results = (struct conduct_results){0};
}

int conduct_results_judge(const struct conduct_results *results, size_t workers, struct mst_error *err)
{
    const cJSON *worker, *list = mst_json_at(results->run, "workers", NULL),
                         *recoveries = mst_json_at(results->run, "recoveries", NULL);
    const char *result = mst_json_string_or(results->run, "result", "");

    if (strcmp(result, "done") != 0)
        return mst_error_set(err, -EOWNERDEAD, "the run is not done: %s",
                             mst_json_string_or(results->run, "reason", result));
    cJSON_ArrayForEach(worker, list)
    {
        const char *slot = mst_json_string_or(worker, "slot", "?"),
                   *state = mst_json_string_or(worker, "state", ""),
                   *version = mst_json_string_or(worker, "version", "of no known version");
        if (strcmp(state, "done") != 0)
            return mst_error_set(err, -EOWNERDEAD, "worker '%s' is not done: %s", slot,
                                 mst_json_string_or(worker, "reason", state));
        if (strcmp(version, MUSTER_VERSION) != 0)
            return mst_error_set(
                err, -EOWNERDEAD,
                "worker '%s' ran muster-agent %s, this is %s: two programs would be compared", slot, version,
                MUSTER_VERSION);
        if (mst_json_u64_or(worker, "starts", 1) > 1)
            return mst_error_set(err, -EOWNERDEAD,
                                 "worker '%s' was lost and started again: the times are not those of an "
                                 "undisturbed run",
                                 slot);
    }
    if ((size_t)cJSON_GetArraySize(list) != workers)
        return mst_error_set(err, -EOWNERDEAD, "%d workers of %zu told of themselves",
                             cJSON_GetArraySize(list), workers);
    if (cJSON_GetArraySize(recoveries) > 0)
        return mst_error_set(err, -EOWNERDEAD,
                             "workers were lost on the way (%d changes of the view): the times are not those "
                             "of an undisturbed run",
                             cJSON_GetArraySize(recoveries));
    if (!mst_json_bool_or(results->run, "digests_equal", false))
        return mst_error_set(err, -EOWNERDEAD, "the workers ended with different models");
    return 0;
}

double conduct_results_overlap(const struct conduct_results *a, const struct conduct_results *b)
{
    const double longer_s = fmax(a->done_s - a->first_step_s, b->done_s - b->first_step_s),
                 both_s = fmin(a->done_s, b->done_s) - fmax(a->first_step_s, b->first_step_s);

    if (fmin(a->first_step_s, b->first_step_s) < 0 || fmin(a->done_s, b->done_s) < 0 || longer_s <= 0)
        return 1;
    return fmax(0, both_s) / longer_s;
}

double conduct_results_cpu(const struct conduct_results *results, const char *node)
{
    double sum_s = 0;

    for (size_t i = 0; i < results->cpu_count; i++)
        sum_s += strcmp(results->cpus[i].node, node) == 0 ? results->cpus[i].seconds : 0;
    return sum_s;
}
