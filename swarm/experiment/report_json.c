/* SPDX-License-Identifier: Apache-2.0 */
/* report.json: docs/report.md. */
#include "muster/clock.h"
#include "muster/json.h"
#include "report_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static void put(cJSON *object, const char *key, cJSON *item, bool *ok)
{
    const bool is_put = item && object &&
                        (key ? cJSON_AddItemToObject(object, key, item) : cJSON_AddItemToArray(object, item));

    if (!is_put) {
        cJSON_Delete(item);
        *ok = false;
    }
}

void put_text(cJSON *object, const char *key, const char *text, bool *ok)
{
    put(object, key, text ? cJSON_CreateString(text) : cJSON_CreateNull(), ok);
}

void put_number(cJSON *object, const char *key, double value, bool *ok)
{
    put(object, key, isfinite(value) ? cJSON_CreateNumber(value) : cJSON_CreateNull(), ok);
}

void put_bool(cJSON *object, const char *key, bool value, bool *ok)
{
    put(object, key, cJSON_CreateBool(value), ok);
}

cJSON *put_object(cJSON *object, const char *key, bool *ok)
{
    cJSON *item = cJSON_CreateObject();

    put(object, key, item, ok);
    return *ok ? item : NULL;
}

cJSON *put_array(cJSON *object, const char *key, bool *ok)
{
    cJSON *item = cJSON_CreateArray();

    put(object, key, item, ok);
    return *ok ? item : NULL;
}

static double percent(double ratio)
{
    return 100 * (ratio - 1);
}

static void put_contrast(cJSON *list, const struct outcome *outcome, const struct contrast *c, bool *ok)
{
    cJSON *json = put_object(list, NULL, ok);

    put_text(json, "mode", outcome->experiment.modes[c->mode].name, ok);
    put_number(json, "workload", (double)c->workload, ok);
    put_text(json, "metric", metric_names[c->metric].name, ok);
    put_text(json, "unit", metric_names[c->metric].unit, ok);
    put_number(json, "pairs", (double)c->pairs, ok);
    put_number(json, "without_partner", (double)c->without_partner, ok);
    put_number(json, "baseline_mean", c->base_mean, ok);
    put_number(json, "mode_mean", c->mode_mean, ok);
    put_number(json, "overhead_percent", percent(c->ratio.estimate), ok);
    put_number(json, "overhead_low", percent(c->ratio.low), ok);
    put_number(json, "overhead_high", percent(c->ratio.high), ok);
    put_number(json, "difference", c->difference.estimate, ok);
    put_number(json, "difference_low", c->difference.low, ok);
    put_number(json, "difference_high", c->difference.high, ok);
    put_number(json, "df", c->difference.df, ok);
    put_bool(json, "has_interval", c->ratio.has_interval, ok);
    put_bool(json, "order_in_model", c->difference.has_order, ok);
}

static void put_epochs(cJSON *list, const struct outcome *outcome, const char *series, bool *ok)
{
    const size_t workloads = outcome_workloads(outcome, series);
    size_t epochs, workers;

    epoch_bounds(outcome, series, &epochs, &workers);
    for (size_t mode = 0; mode < outcome->experiment.mode_count; mode++) {
        for (size_t w = 1; w <= workloads; w++) {
            for (size_t i = 0; i < workers * epochs; i++) {
                const size_t worker = i / epochs, epoch = i % epochs + 1;
                const struct epoch_mean mean = epoch_mean(outcome, series, mode, w, worker, (double)epoch);
                cJSON *json = mean.count > 0 ? put_object(list, NULL, ok) : NULL;
                if (!json)
                    continue;
                put_text(json, "mode", outcome->experiment.modes[mode].name, ok);
                put_number(json, "workload", (double)w, ok);
                put_text(json, "node", epoch_node(outcome, series, worker), ok);
                put_number(json, "epoch", (double)epoch, ok);
                put_number(json, "runs", (double)mean.count, ok);
                put_number(json, "seconds", mean.seconds, ok);
                put_number(json, "ms_per_step", mean.ms_per_step, ok);
            }
        }
    }
}

static void put_spread(cJSON *list, const struct outcome *outcome, const char *series, bool *ok)
{
    const size_t workloads = outcome_workloads(outcome, series);

    for (size_t i = 0; i < outcome->experiment.mode_count * workloads; i++) {
        cJSON *json = put_object(list, NULL, ok);
        struct spread spread;
        if (spread_make(outcome, series, i / workloads, i % workloads + 1, &spread) < 0) {
            *ok = false;
            return;
        }
        put_text(json, "mode", outcome->experiment.modes[i / workloads].name, ok);
        put_number(json, "workload", (double)(i % workloads + 1), ok);
        put_number(json, "steps", (double)spread.steps.count, ok);
        put_number(json, "step_mean_ms", spread.steps.mean, ok);
        put_number(json, "step_median_ms", spread.steps.median, ok);
        put_number(json, "step_p90_ms", spread.step_p90_ms, ok);
        put_number(json, "step_p99_ms", spread.step_p99_ms, ok);
        put_number(json, "step_max_ms", spread.steps.max, ok);
        put_number(json, "epochs", (double)spread.epochs.count, ok);
        put_number(json, "epoch_mean_seconds", spread.epochs.mean, ok);
        put_number(json, "epoch_median_seconds", spread.epochs.median, ok);
    }
}

static void put_series(cJSON *list, const struct outcome *outcome, const char *series, bool *ok)
{
    cJSON *json = put_object(list, NULL, ok), *contrasts;
    char label[128];

    outcome_series_label(outcome, series, label, sizeof label);
    put_text(json, "name", series, ok);
    put_text(json, "label", label, ok);
    put_number(json, "workloads", (double)outcome_workloads(outcome, series), ok);
    contrasts = put_array(json, "contrasts", ok);
    for (size_t i = 0; i < outcome->contrast_count; i++) {
        if (outcome->contrasts[i].pairs > 0 && strcmp(outcome->contrasts[i].series, series) == 0)
            put_contrast(contrasts, outcome, &outcome->contrasts[i], ok);
    }
    put_epochs(put_array(json, "epochs", ok), outcome, series, ok);
    put_spread(put_array(json, "spread", ok), outcome, series, ok);
}

static void put_reading(cJSON *object, const char *key, const struct noise_reading *reading, bool *ok)
{
    cJSON *json = put_object(object, key, ok);

    put_number(json, "seconds", reading->seconds, ok);
    put_number(json, "steal_percent", reading->steal_percent, ok);
    put_number(json, "busy_percent", reading->busy_percent, ok);
    put_number(json, "other_percent", reading->other_percent, ok);
    put_number(json, "mhz", reading->mhz, ok);
    put_number(json, "load1", reading->load1, ok);
}

static void put_trial(cJSON *list, const struct outcome *outcome, const struct trial *trial, bool *ok)
{
    const struct experiment *experiment = &outcome->experiment;
    cJSON *json = put_object(list, NULL, ok), *noise, *metrics;

    put_number(json, "number", (double)trial->number, ok);
    put_text(json, "series", trial->series, ok);
    put_text(json, "mode", experiment->modes[trial->mode].name, ok);
    put_number(json, "workloads", (double)trial->workloads, ok);
    put_number(json, "repeat", (double)trial->repeat, ok);
    put_number(json, "position", (double)trial->position, ok);
    put_number(json, "attempt", (double)trial->attempt, ok);
    put_bool(json, "warmup", trial->is_warmup, ok);
    put_text(json, "state", trial->state, ok);
    put_bool(json, "counts", trial->counts, ok);
    put_text(json, "left_out", trial->left_out, ok);
    put_bool(json, "outlier", outcome->outliers[trial - experiment->trials], ok);
    put_text(json, "started", trial->started, ok);
    noise = put_array(json, "noise", ok);
    for (size_t i = 0; i < trial->noise_count; i++) {
        cJSON *node = put_object(noise, NULL, ok);
        put_text(node, "node", trial->noise[i].node, ok);
        put_reading(node, "before", &trial->noise[i].before, ok);
        put_reading(node, "during", &trial->noise[i].during, ok);
        put_reading(node, "after", &trial->noise[i].after, ok);
    }
    metrics = put_object(json, "metrics", ok);
    for (size_t metric = 0; metric < METRIC_COUNT && trial->counts; metric++)
        put_number(metrics, metric_names[metric].name, trial_metric(trial, (enum metric)metric, 0), ok);
}

static void put_outcome(cJSON *list, const struct outcome *outcome, bool *ok)
{
    const struct experiment *experiment = &outcome->experiment;
    cJSON *json = put_object(list, NULL, ok), *item;

    put_text(json, "name", experiment->name, ok);
    put_bool(json, "side_by_side", experiment->is_plain, ok);
    put_text(json, "baseline", experiment->modes[experiment->baseline].name, ok);
    item = put_array(json, "modes", ok);
    for (size_t i = 0; i < experiment->mode_count; i++) {
        cJSON *mode = put_object(item, NULL, ok);
        put_text(mode, "name", experiment->modes[i].name, ok);
        put_text(mode, "label", experiment->modes[i].label, ok);
        put_bool(mode, "same_as_baseline", i == experiment->baseline || outcome_is_same(outcome, i), ok);
    }
    item = put_array(json, "summary", ok);
    for (size_t i = 0; i < OUTCOME_SENTENCES; i++)
        put_text(item, NULL, outcome->sentences[i], ok);
    item = put_array(json, "series", ok);
    for (size_t i = 0; i < experiment->series_count; i++)
        put_series(item, outcome, experiment->series[i], ok);
    item = put_array(json, "runs", ok);
    for (size_t i = 0; i < experiment->trial_count; i++)
        put_trial(item, outcome, &experiment->trials[i], ok);
}

static void put_published(cJSON *json, bool *ok)
{
    put_number(json, "said_percent", PUBLISHED_SAID_PERCENT, ok);
    put_number(json, "single_bare_seconds", PUBLISHED_SINGLE_BARE_S, ok);
    put_number(json, "single_container_seconds", PUBLISHED_SINGLE_S, ok);
    put_number(json, "single_percent", percent(PUBLISHED_RATIO_SINGLE), ok);
    put_number(json, "double_bare_seconds", PUBLISHED_DOUBLE_BARE_S, ok);
    put_number(json, "double_container_seconds", PUBLISHED_DOUBLE_S, ok);
    put_number(json, "double_percent", percent(PUBLISHED_RATIO_DOUBLE), ok);
}

int report_json(const struct report_content *content, cJSON **ret_json, struct mst_error *err)
{
    cJSON *json = cJSON_CreateObject(), *list;
    const time_t made = (time_t)content->made_s;
    bool ok = json != NULL;
    char text[32] = "";
    struct tm tm;

    if (gmtime_r(&made, &tm))
        (void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    put_number(json, "format", REPORT_FORMAT, &ok);
    put_text(json, "muster", MUSTER_VERSION, &ok);
    put_text(json, "made", text, &ok);
    put_number(json, "confidence", CONTRAST_LEVEL, &ok);
    put_published(put_object(json, "published", &ok), &ok);
    list = put_array(json, "experiments", &ok);
    for (size_t i = 0; i < content->outcome_count; i++)
        put_outcome(list, &content->outcomes[i], &ok);
    if (!ok) {
        cJSON_Delete(json);
        return mst_error_set(err, -ENOMEM, "report.json: no memory");
    }
    *ret_json = json;
    return 0;
}
