/* SPDX-License-Identifier: Apache-2.0 */
/* Run folders that no experiment knows, as an experiment of one run a mode. */
#include "muster/cleanup.h"
#include "muster/file.h"
#include "trial.h"

#include <math.h>
#include <string.h>

#define SERIES "runs"

/* The JSON holds the modes' names, as that of a real experiment does. */
static int add_mode(struct experiment *experiment, const char *path, struct mst_error *err)
{
    mst_cleanup(mst_freep) char *copy = strdup(path);
    struct experiment_mode *mode = &experiment->modes[experiment->mode_count];
    cJSON *name;

    if (!copy)
        return mst_error_set(err, -ENOMEM, "%s: no memory", path);
    for (size_t end = strlen(copy); end > 1 && copy[end - 1] == '/'; end--)
        copy[end - 1] = '\0';
    name = cJSON_CreateString(strrchr(copy, '/') && strrchr(copy, '/')[1] ? strrchr(copy, '/') + 1 : copy);
    if (!name || !cJSON_AddItemToArray(experiment->json, name)) {
        cJSON_Delete(name);
        return mst_error_set(err, -ENOMEM, "%s: no memory", path);
    }
    mode->name = mode->label = name->valuestring;
    experiment->mode_count++;
    return 0;
}

int experiment_of_runs(const char *const *paths, size_t count, struct experiment *ret_experiment,
                       struct mst_error *err)
{
    mst_cleanup(experiment_release) struct experiment experiment = {
        .path = strdup(paths[0]), .json = cJSON_CreateArray(), .name = "runs side by side", .is_plain = true};
    int r = 0;

    experiment.modes = calloc(count, sizeof *experiment.modes);
    experiment.trials = calloc(count, sizeof *experiment.trials);
    experiment.series = calloc(1, sizeof *experiment.series);
    if (!experiment.path || !experiment.json || !experiment.modes || !experiment.trials || !experiment.series)
        return mst_error_set(err, -ENOMEM, "%s: no memory", paths[0]);
    experiment.series[experiment.series_count++] = SERIES;
    for (size_t i = 0; i < count && r >= 0; i++) {
        struct trial *trial = &experiment.trials[experiment.trial_count++];
        *trial = (struct trial){.series = SERIES,
                                .exchange = "",
                                .state = "complete",
                                .started = "",
                                .mode = i,
                                .number = i + 1,
                                .workloads = 1,
                                .repeat = 1,
                                .position = i + 1,
                                .attempt = 1,
                                .launch_s = NAN,
                                .total_s = NAN,
                                .counts = true};
        r = add_mode(&experiment, paths[i], err);
        if (r >= 0)
            r = run_load(paths[i], &trial->runs[0], err);
        if (r >= 0) {
            trial->run_count = 1;
            trial->total_s = trial->runs[0].total_s;
        }
    }
    if (r < 0)
        return r;
    *ret_experiment = experiment;
    experiment = (struct experiment){0};
    return 0;
}
