/* SPDX-License-Identifier: Apache-2.0 */
#include "outcome.h"

#include "muster/cleanup.h"
#include "muster/json.h"

#include <stdio.h>
#include <string.h>

size_t outcome_workloads(const struct outcome *outcome, const char *series)
{
    for (size_t i = 0; i < outcome->experiment.trial_count; i++) {
        const struct trial *trial = &outcome->experiment.trials[i];
        if (trial->counts && strcmp(trial->series, series) == 0)
            return trial->workloads;
    }
    return 1;
}

static const char *exchange_of(const struct outcome *outcome, const char *series)
{
    for (size_t i = 0; i < outcome->experiment.trial_count; i++) {
        if (strcmp(outcome->experiment.trials[i].series, series) == 0)
            return outcome->experiment.trials[i].exchange;
    }
    return "";
}

/* What all series have in common need not be said. */
void outcome_series_label(const struct outcome *outcome, const char *series, char *text, size_t bytes)
{
    const size_t workloads = outcome_workloads(outcome, series);
    const char *exchange = exchange_of(outcome, series);
    bool differs = false;

    for (size_t i = 0; i < outcome->experiment.series_count; i++)
        differs = differs || strcmp(exchange_of(outcome, outcome->experiment.series[i]), exchange) != 0;
    (void)snprintf(text, bytes, "%s%s%s", workloads > 1 ? "two workloads at once" : "one workload",
                   differs ? ", exchange " : "", differs ? exchange : "");
}

bool outcome_is_same(const struct outcome *outcome, size_t mode)
{
    const cJSON *modes = mst_json_at(outcome->experiment.json, "modes", NULL);
    const cJSON *one = cJSON_GetArrayItem(modes, (int)mode),
                *other = cJSON_GetArrayItem(modes, (int)outcome->experiment.baseline);
    static const char *const keys[] = {"kind", "network"};

    for (size_t i = 0; i < MST_ARRAY_COUNT(keys); i++) {
        const char *text = mst_json_string_or(one, keys[i], NULL),
                   *base = mst_json_string_or(other, keys[i], NULL);
        if (!text || !base || strcmp(text, base) != 0)
            return false;
    }
    return mst_json_bool_or(one, "monitor", true) == mst_json_bool_or(other, "monitor", true);
}

const struct contrast *outcome_find(const struct outcome *outcome, const char *series, size_t mode,
                                    enum metric metric, size_t workload)
{
    for (size_t i = 0; i < outcome->contrast_count; i++) {
        const struct contrast *contrast = &outcome->contrasts[i];
        if (contrast->mode == mode && contrast->metric == metric && contrast->workload == workload &&
            strcmp(contrast->series, series) == 0)
            return contrast;
    }
    return NULL;
}

static int make_contrasts(struct outcome *outcome, struct mst_error *err)
{
    const struct experiment *experiment = &outcome->experiment;
    const size_t most =
        experiment->series_count * experiment->mode_count * (TRIAL_WORKLOADS_MAX + 1) * METRIC_COUNT;
    int r = 0;

    outcome->contrasts = calloc(most + 1, sizeof *outcome->contrasts);
    if (!outcome->contrasts)
        return mst_error_set(err, -ENOMEM, "compare runs: no memory");
    for (size_t s = 0; s < experiment->series_count; s++) {
        const size_t workloads = outcome_workloads(outcome, experiment->series[s]);
        for (size_t mode = 0; mode < experiment->mode_count; mode++) {
            for (size_t w = 0; w <= (workloads > 1 ? workloads : 0) && mode != experiment->baseline; w++) {
                for (size_t metric = 0; metric < METRIC_COUNT && r >= 0; metric++)
                    r = contrast_make(experiment, experiment->series[s], mode, (enum metric)metric, w,
                                      &outcome->contrasts[outcome->contrast_count++], err);
            }
        }
    }
    return r;
}

int outcome_make(struct experiment *experiment, struct outcome *ret_outcome, struct mst_error *err)
{
    mst_cleanup(outcome_release) struct outcome outcome = {.experiment = *experiment};
    int r;

    *experiment = (struct experiment){0};
    outcome.outliers = calloc(outcome.experiment.trial_count + 1, sizeof *outcome.outliers);
    r = outcome.outliers ? contrast_outliers(&outcome.experiment, outcome.outliers, err)
                         : mst_error_set(err, -ENOMEM, "compare runs: no memory");
    if (r >= 0)
        r = make_contrasts(&outcome, err);
    if (r >= 0)
        r = outcome_write_sentences(&outcome, err);
    if (r < 0)
        return r;
    *ret_outcome = outcome;
    outcome = (struct outcome){0};
    return 0;
}

void outcome_release(struct outcome *outcome)
{
    experiment_release(&outcome->experiment);
    free(outcome->contrasts);
    free(outcome->outliers);
    for (size_t i = 0; i < OUTCOME_SENTENCES; i++)
        free(outcome->sentences[i]);
    *outcome = (struct outcome){0};
}
