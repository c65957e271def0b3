/* SPDX-License-Identifier: Apache-2.0 */
#include "contrast.h"

#include "muster/cleanup.h"

#include <math.h>
#include <string.h>

const struct metric_name metric_names[METRIC_COUNT] = {
    [METRIC_STEP_MS] = {"step_ms", "time a step", "ms", 2},
    [METRIC_STEP_MEDIAN] = {"step_median_ms", "median step", "ms", 2},
    [METRIC_STEP_COMPUTE] = {"step_compute_ms", "compute", "ms", 2},
    [METRIC_STEP_EXCHANGE] = {"step_exchange_ms", "exchange", "ms", 2},
    [METRIC_STEP_REST] = {"step_rest_ms", "rest", "ms", 2},
    [METRIC_TRAINING_S] = {"training_seconds", "training time", "s", 2},
    [METRIC_WHOLE_S] = {"whole_seconds", "whole life of a worker", "s", 2},
    [METRIC_PART_FIRST + RUN_PART_START] = {"start_seconds", "start", "s", 3},
    [METRIC_PART_FIRST + RUN_PART_DISCOVERY] = {"discovery_seconds", "discovery", "s", 3},
    [METRIC_PART_FIRST + RUN_PART_CONNECT] = {"connect_seconds", "connect", "s", 3},
    [METRIC_PART_FIRST + RUN_PART_COMPUTE] = {"compute_seconds", "compute", "s", 3},
    [METRIC_PART_FIRST + RUN_PART_EXCHANGE] = {"exchange_seconds", "exchange", "s", 3},
    [METRIC_PART_FIRST + RUN_PART_SAVING] = {"saving_seconds", "saving", "s", 3},
    [METRIC_PART_FIRST + RUN_PART_REST] = {"rest_seconds", "rest", "s", 3},
    [METRIC_LAUNCH_S] = {"launch_seconds", "launch", "s", 2},
    [METRIC_TOTAL_S] = {"total_seconds", "order to results", "s", 2},
};

/* Per step, as the mean over the workers. */
static double step_part(const struct run *run, enum metric metric)
{
    double sum = 0;

    for (size_t i = 0; i < run->worker_count; i++) {
        double steps = 0, ms = 0, compute = 0, exchange = 0;
        for (size_t k = 0; k < run->workers[i].epoch_count; k++) {
            const struct run_epoch *e = &run->workers[i].epochs[k];
            steps += e->steps;
            ms += 1000 * e->seconds;
            compute += e->compute_ms;
            exchange += e->wait_ms + e->transfer_ms;
        }
        sum += (metric == METRIC_STEP_COMPUTE    ? compute
                : metric == METRIC_STEP_EXCHANGE ? exchange
                                                 : ms - compute - exchange) /
               steps;
    }
    return sum / (double)run->worker_count;
}

static double life_part(const struct run *run, enum metric metric)
{
    double sum = 0;

    for (size_t i = 0; i < run->worker_count; i++) {
        const struct run_worker *worker = &run->workers[i];
        if (!worker->has_parts)
            return NAN;
        sum += metric == METRIC_WHOLE_S ? worker->whole_ms : worker->part_ms[metric - METRIC_PART_FIRST];
    }
    return sum / 1000 / (double)run->worker_count;
}

static double step_median(const struct run *run)
{
    mst_cleanup(mst_freep) double *scratch = calloc(run_scratch_count(run) + 1, sizeof *scratch);

    return scratch ? run_step_median_ms(run, scratch) : NAN;
}

double run_metric(const struct run *run, enum metric metric)
{
    switch (metric) {
    case METRIC_STEP_MS:
        return run_step_ms(run);
    case METRIC_STEP_MEDIAN:
        return step_median(run);
    case METRIC_STEP_COMPUTE:
    case METRIC_STEP_EXCHANGE:
    case METRIC_STEP_REST:
        return step_part(run, metric);
    case METRIC_TRAINING_S:
        return run_training_s(run);
    case METRIC_LAUNCH_S:
    case METRIC_TOTAL_S:
        return NAN; /* of the trial */
    default:
        return life_part(run, metric);
    }
}

double trial_metric(const struct trial *trial, enum metric metric, size_t workload)
{
    double sum = 0;

    if (metric == METRIC_LAUNCH_S || metric == METRIC_TOTAL_S)
        return metric == METRIC_LAUNCH_S ? trial->launch_s : trial->total_s;
    if (workload > 0)
        return workload <= trial->run_count ? run_metric(&trial->runs[workload - 1], metric) : NAN;
    for (size_t i = 0; i < trial->run_count; i++)
        sum += run_metric(&trial->runs[i], metric);
    return trial->run_count > 0 ? sum / (double)trial->run_count : NAN;
}

/* ---- pairs ---- */

struct pairs {
    double *base, *mode, *difference, *order, *scratch; /* one block, owned by base */
    size_t count;
    bool is_positive; /* all of it: a ratio makes sense */
};

static void collect(const struct experiment *experiment, struct contrast *contrast, struct pairs *pairs)
{
    const size_t repeats = experiment_repeats(experiment);

    pairs->is_positive = true;
    for (size_t repeat = 1; repeat <= repeats; repeat++) {
        const struct trial *a = experiment_find(experiment, contrast->series, experiment->baseline, repeat);
        const struct trial *b = experiment_find(experiment, contrast->series, contrast->mode, repeat);
        const double base = a ? trial_metric(a, contrast->metric, contrast->workload) : NAN;
        const double mode = b ? trial_metric(b, contrast->metric, contrast->workload) : NAN;
        if (!isfinite(base) || !isfinite(mode)) {
            contrast->without_partner += a || b;
            continue;
        }
        pairs->base[pairs->count] = base;
        pairs->mode[pairs->count] = mode;
        pairs->difference[pairs->count] = mode - base;
        pairs->order[pairs->count] = (double)b->position - (double)a->position;
        pairs->is_positive = pairs->is_positive && base > 0 && mode > 0;
        contrast->base_mean += base;
        contrast->mode_mean += mode;
        pairs->count++;
    }
}

int contrast_make(const struct experiment *experiment, const char *series, size_t mode, enum metric metric,
                  size_t workload, struct contrast *ret_contrast, struct mst_error *err)
{
    const size_t repeats = experiment_repeats(experiment) + 1;
    mst_cleanup(mst_freep) double *block = calloc(repeats, 5 * sizeof *block);
    struct contrast contrast = {.series = series, .mode = mode, .workload = workload, .metric = metric};
    struct pairs pairs = {
        block, block + repeats, block + 2 * repeats, block + 3 * repeats, block + 4 * repeats, 0, false};

    if (!block)
        return mst_error_set(err, -ENOMEM, "compare runs: no memory");
    collect(experiment, &contrast, &pairs);
    contrast.pairs = pairs.count;
    contrast.base_mean = pairs.count > 0 ? contrast.base_mean / (double)pairs.count : NAN;
    contrast.mode_mean = pairs.count > 0 ? contrast.mode_mean / (double)pairs.count : NAN;
    statistics_paired(pairs.difference, pairs.order, pairs.count, CONTRAST_LEVEL, &contrast.difference);
    statistics_ratio(pairs.base, pairs.mode, pairs.order, pairs.is_positive ? pairs.count : 0, CONTRAST_LEVEL,
                     pairs.scratch, &contrast.ratio);
    *ret_contrast = contrast;
    return 0;
}

bool contrast_parts_suffice(const struct contrast *whole, const struct contrast *rest)
{
    const double half = (whole->difference.high - whole->difference.low) / 2;

    return whole->difference.has_interval && fabs(rest->difference.estimate) <= half;
}

int contrast_outliers(const struct experiment *experiment, bool *ret_marks, struct mst_error *err)
{
    const size_t count = experiment->trial_count;
    mst_cleanup(mst_freep) double *values = calloc(count + 1, 2 * sizeof *values);
    mst_cleanup(mst_freep) size_t *places = calloc(count + 1, sizeof *places);
    mst_cleanup(mst_freep) bool *marks = calloc(count + 1, sizeof *marks);

    if (!values || !places || !marks)
        return mst_error_set(err, -ENOMEM, "look for outliers: no memory");
    memset(ret_marks, 0, count * sizeof *ret_marks);
    for (size_t s = 0; s < experiment->series_count; s++) {
        for (size_t mode = 0; mode < experiment->mode_count; mode++) {
            size_t found = 0;
            for (size_t i = 0; i < count; i++) {
                const struct trial *trial = &experiment->trials[i];
                if (!trial->counts || trial->mode != mode ||
                    strcmp(trial->series, experiment->series[s]) != 0)
                    continue;
                values[found] = log(trial_metric(trial, METRIC_STEP_MS, 0));
                places[found++] = i;
            }
            (void)statistics_outliers(values, found, values + count + 1, marks);
            for (size_t i = 0; i < found; i++)
                ret_marks[places[i]] = marks[i];
        }
    }
    return 0;
}
