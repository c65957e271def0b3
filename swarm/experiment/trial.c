/* SPDX-License-Identifier: Apache-2.0 */
#include "trial.h"

#include "muster/buf.h"
#include "muster/cleanup.h"
#include "muster/experiment.h"
#include "muster/file.h"
#include "muster/json.h"

#include <math.h>
#include <string.h>

#define JSON_MAX_BYTES ((size_t)64 << 20)
#define MODES_MAX      16
#define REPEATS_MAX    1000
#define PATH_MAX_BYTES 512
#define TEXT_MAX_BYTES 120

/* ---- modes ---- */

static int take_modes(struct experiment *experiment, const char *what, struct mst_error *err)
{
    const cJSON *list = mst_json_at(experiment->json, "modes", NULL), *json;
    const int count = cJSON_GetArraySize(list);
    const char *baseline;
    int r = mst_json_get_string(experiment->json, "baseline", what, &baseline, err);

    if (r < 0)
        return r;
    if (!cJSON_IsArray(list) || count < 1 || count > MODES_MAX)
        return mst_error_set(err, -EBADMSG, "%s: 'modes' is no list of 1 to %d modes", what, MODES_MAX);
    experiment->modes = calloc((size_t)count, sizeof *experiment->modes);
    if (!experiment->modes)
        return mst_error_set(err, -ENOMEM, "%s: no memory", what);
    experiment->baseline = (size_t)count;
    cJSON_ArrayForEach(json, list)
    {
        struct experiment_mode *mode = &experiment->modes[experiment->mode_count];
        r = mst_json_get_string(json, "name", what, &mode->name, err);
        if (r < 0)
            return r;
        mode->label = mst_json_string_or(json, "label", mode->name);
        if (strlen(mode->name) > TEXT_MAX_BYTES || strlen(mode->label) > TEXT_MAX_BYTES)
            return mst_error_set(err, -EBADMSG, "%s: a mode's name or label is longer than %d bytes", what,
                                 TEXT_MAX_BYTES);
        if (strcmp(mode->name, baseline) == 0)
            experiment->baseline = experiment->mode_count;
        experiment->mode_count++;
    }
    return experiment->baseline < experiment->mode_count
               ? 0
               : mst_error_set(err, -EBADMSG, "%s: baseline '%.64s' is none of the modes", what, baseline);
}

static int find_mode(const struct experiment *experiment, const char *name, const char *what,
                     size_t *ret_mode, struct mst_error *err)
{
    for (size_t i = 0; i < experiment->mode_count; i++) {
        if (strcmp(experiment->modes[i].name, name) == 0) {
            *ret_mode = i;
            return 0;
        }
    }
    return mst_error_set(err, -EBADMSG, "%s: a run of mode '%.64s', which is none of the modes", what, name);
}

/* ---- noise ---- */

static void take_reading(const cJSON *json, struct noise_reading *reading)
{
    *reading = (struct noise_reading){
        .seconds = mst_json_double_or(json, "seconds", NAN),
        .steal_percent = mst_json_double_or(json, "steal_percent", NAN),
        .busy_percent = mst_json_double_or(json, "busy_percent", NAN),
        .other_percent = mst_json_double_or(json, "other_percent", NAN),
        .mhz = mst_json_double_or(json, "mhz", NAN),
        .load1 = mst_json_double_or(json, "load1", NAN),
    };
}

static int take_noise(const cJSON *list, const char *what, struct trial *trial, struct mst_error *err)
{
    const cJSON *json;

    if (cJSON_GetArraySize(list) == 0)
        return 0;
    trial->noise = calloc((size_t)cJSON_GetArraySize(list), sizeof *trial->noise);
    if (!trial->noise)
        return mst_error_set(err, -ENOMEM, "%s: no memory", what);
    cJSON_ArrayForEach(json, list)
    {
        struct noise *noise = &trial->noise[trial->noise_count++];
        noise->node = mst_json_string_or(json, "node", "");
        take_reading(mst_json_at(json, "before", NULL), &noise->before);
        take_reading(mst_json_at(json, "during", NULL), &noise->during);
        take_reading(mst_json_at(json, "after", NULL), &noise->after);
    }
    return 0;
}

/* ---- runs ---- */

static int take_trial(const struct experiment *experiment, const cJSON *json, const char *what,
                      struct trial *trial, struct mst_error *err)
{
    const struct {
        const char *key;
        uint64_t min, max;
        size_t *member;
    } numbers[] = {
        {"number", 1, EXPERIMENT_RUNS_MAX, &trial->number},
        {"workloads", 1, TRIAL_WORKLOADS_MAX, &trial->workloads},
        {"repeat", 0, REPEATS_MAX, &trial->repeat},
        {"position", 0, EXPERIMENT_RUNS_MAX, &trial->position},
        {"attempt", 1, REPEATS_MAX, &trial->attempt},
    };
    const char *mode;
    int r = mst_json_get_string(json, "series", what, &trial->series, err);

    if (r >= 0)
        r = mst_json_get_string(json, "state", what, &trial->state, err);
    if (r >= 0)
        r = mst_json_get_string(json, "mode", what, &mode, err);
    if (r >= 0)
        r = find_mode(experiment, mode, what, &trial->mode, err);
    for (size_t i = 0; i < MST_ARRAY_COUNT(numbers) && r >= 0; i++) {
        uint64_t value;
        r = mst_json_get_u64(json, numbers[i].key, numbers[i].min, numbers[i].max, what, &value, err);
        if (r >= 0)
            *numbers[i].member = (size_t)value;
    }
    if (r < 0)
        return r;
    trial->exchange = mst_json_string_or(json, "exchange", "");
    trial->started = mst_json_string_or(json, "started", "");
    trial->is_warmup = mst_json_bool_or(json, "warmup", false);
    trial->launch_s = mst_json_double_or(json, "launch_seconds", NAN);
    trial->total_s = mst_json_double_or(json, "total_seconds", NAN);
    return take_noise(mst_json_at(json, "noise", NULL), what, trial, err);
}

/* Inside of the experiment's folder, whatever the file says. */
static bool path_is_within(const char *path)
{
    if (path[0] == '/' || path[0] == '\0' || strlen(path) > PATH_MAX_BYTES)
        return false;
    while (*path != '\0') {
        const size_t bytes = strcspn(path, "/");
        if (bytes == 2 && strncmp(path, "..", 2) == 0)
            return false;
        path += bytes + (path[bytes] == '/');
    }
    return true;
}

static int load_run(const struct experiment *experiment, const cJSON *folder, const char *what,
                    struct trial *trial, struct mst_error *err)
{
    const char *relative;
    uint64_t workload;
    int r = mst_json_get_u64(folder, "workload", 1, trial->workloads, what, &workload, err);

    if (r >= 0)
        r = mst_json_get_string(folder, "folder", what, &relative, err);
    if (r < 0)
        return r;
    if (workload != trial->run_count + 1)
        return mst_error_set(err, -EBADMSG, "%s: workloads are not in order 1, 2", what);
    if (!path_is_within(relative))
        return mst_error_set(err, -EBADMSG, "%s: folder '%.64s' is not within the experiment", what,
                             relative);
    mst_cleanup(mst_freep) char *path = mst_path_join(experiment->path, relative);
    if (!path)
        return mst_error_set(err, -ENOMEM, "%s: no memory", what);
    r = run_load(path, &trial->runs[trial->run_count], err);
    if (r < 0)
        return r;
    if (strcmp(trial->runs[trial->run_count++].result, "done") != 0)
        return mst_error_set(err, -EBADMSG, "%s/run.json: its result is '%.32s', not 'done'", path,
                             trial->runs[workload - 1].result);
    return 0;
}

static int leave_out(struct trial *trial, const char *why, struct mst_error *err)
{
    free(trial->left_out);
    trial->left_out = strdup(why);
    return trial->left_out ? 0 : mst_error_set(err, -ENOMEM, "no memory");
}

/* Damage to a run's files leaves that run out, and says why; want of memory ends all. */
static int load_files(const struct experiment *experiment, const cJSON *json, const char *what,
                      struct trial *trial, struct mst_error *err)
{
    const cJSON *folders = mst_json_at(json, "folders", NULL), *folder;
    struct mst_error fault = MST_ERROR_INIT;
    int r = 0;

    if (strcmp(trial->state, "complete") != 0) {
        const char *reason = mst_json_string_or(json, "reason", "");
        mst_cleanup(mst_freep) char *why = mst_format("%s%s%s", trial->state, reason[0] ? ": " : "", reason);
        return leave_out(trial, why ? why : trial->state, err);
    }
    if (cJSON_GetArraySize(folders) != (int)trial->workloads)
        return leave_out(trial, "damaged: it has not as many run folders as workloads", err);
    cJSON_ArrayForEach(folder, folders)
    {
        if (r >= 0)
            r = load_run(experiment, folder, what, trial, &fault);
    }
    if (r == -ENOMEM)
        return mst_error_wrap(err, r, "%s", fault.text);
    if (r < 0) {
        mst_cleanup(mst_freep) char *why = mst_format("damaged: %s", fault.text);
        return leave_out(trial, why ? why : "damaged", err);
    }
    return trial->is_warmup ? leave_out(trial, "warm-up", err) : 0;
}

/* Of several attempts the last complete one counts. */
static int choose_attempts(struct experiment *experiment, struct mst_error *err)
{
    for (size_t i = 0; i < experiment->trial_count; i++) {
        struct trial *trial = &experiment->trials[i];
        trial->counts = !trial->left_out;
        for (size_t k = 0; k < i && trial->counts; k++) {
            struct trial *before = &experiment->trials[k];
            if (before->counts && before->mode == trial->mode && before->repeat == trial->repeat &&
                strcmp(before->series, trial->series) == 0) {
                before->counts = false;
                if (leave_out(before, "made again later", err) < 0)
                    return -ENOMEM;
            }
        }
    }
    return 0;
}

static int list_series(struct experiment *experiment, struct mst_error *err)
{
    experiment->series = calloc(experiment->trial_count + 1, sizeof *experiment->series);
    if (!experiment->series)
        return mst_error_set(err, -ENOMEM, "no memory");
    for (size_t i = 0; i < experiment->trial_count; i++) {
        size_t k = 0;
        while (k < experiment->series_count &&
               strcmp(experiment->series[k], experiment->trials[i].series) != 0)
            k++;
        if (k == experiment->series_count && experiment->trials[i].counts)
            experiment->series[experiment->series_count++] = experiment->trials[i].series;
    }
    return 0;
}

static int take_trials(struct experiment *experiment, const char *what, struct mst_error *err)
{
    const cJSON *list = mst_json_at(experiment->json, "runs", NULL), *json;
    const int count = cJSON_GetArraySize(list);
    int r = 0;

    if (!cJSON_IsArray(list) || count > EXPERIMENT_RUNS_MAX)
        return mst_error_set(err, -EBADMSG, "%s: 'runs' is no list of at most %d runs", what,
                             EXPERIMENT_RUNS_MAX);
    experiment->trials = calloc((size_t)count + 1, sizeof *experiment->trials);
    if (!experiment->trials)
        return mst_error_set(err, -ENOMEM, "%s: no memory", what);
    cJSON_ArrayForEach(json, list)
    {
        struct trial *trial = &experiment->trials[experiment->trial_count++];
        mst_cleanup(mst_freep) char *place =
            mst_format("%s: run %zu of the list", what, experiment->trial_count);
        if (!place)
            return mst_error_set(err, -ENOMEM, "%s: no memory", what);
        r = take_trial(experiment, json, place, trial, err);
        if (r >= 0)
            r = load_files(experiment, json, place, trial, err);
        if (r < 0)
            return r;
    }
    r = choose_attempts(experiment, err);
    if (r >= 0)
        r = list_series(experiment, err);
    if (r >= 0 && experiment->series_count == 0)
        r = mst_error_set(err, -EBADMSG, "%s: no run of it can be counted%s%s", what,
                          experiment->trial_count > 0 ? "; the first one is " : "",
                          experiment->trial_count > 0 ? experiment->trials[0].left_out : "");
    return r;
}

int experiment_load(const char *path, struct experiment *ret_experiment, struct mst_error *err)
{
    mst_cleanup(experiment_release) struct experiment experiment = {.path = strdup(path)};
    mst_cleanup(mst_freep) char *what = mst_path_join(path, "experiment.json");
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(JSON_MAX_BYTES);
    uint64_t format;
    int r = experiment.path && what ? mst_file_read(what, &text, err)
                                    : mst_error_set(err, -ENOMEM, "%s: no memory", path);

    if (r >= 0)
        r = mst_json_parse(mst_buf_text(&text), text.count, what, &experiment.json, err);
    if (r >= 0)
        r = mst_json_get_u64(experiment.json, "format", 1, 1, what, &format, err);
    if (r >= 0)
        r = mst_json_get_string(experiment.json, "name", what, &experiment.name, err);
    if (r >= 0)
        r = take_modes(&experiment, what, err);
    if (r >= 0)
        r = take_trials(&experiment, what, err);
    if (r < 0)
        return r;
    *ret_experiment = experiment;
    experiment = (struct experiment){0};
    return 0;
}

void experiment_release(struct experiment *experiment)
{
    for (size_t i = 0; i < experiment->trial_count; i++) {
        struct trial *trial = &experiment->trials[i];
        for (size_t k = 0; k < trial->run_count; k++)
            run_release(&trial->runs[k]);
        free(trial->noise);
        free(trial->left_out);
    }
    free(experiment->trials);
    free(experiment->modes);
    free(experiment->series);
    free(experiment->path);
    cJSON_Delete(experiment->json);
    *experiment = (struct experiment){0};
}

const struct trial *experiment_find(const struct experiment *experiment, const char *series, size_t mode,
                                    size_t repeat)
{
    for (size_t i = 0; i < experiment->trial_count; i++) {
        const struct trial *trial = &experiment->trials[i];
        if (trial->counts && trial->mode == mode && trial->repeat == repeat &&
            strcmp(trial->series, series) == 0)
            return trial;
    }
    return NULL;
}

size_t experiment_repeats(const struct experiment *experiment)
{
    size_t repeats = 0;

    for (size_t i = 0; i < experiment->trial_count; i++) {
        if (experiment->trials[i].counts && experiment->trials[i].repeat > repeats)
            repeats = experiment->trials[i].repeat;
    }
    return repeats;
}
