/* SPDX-License-Identifier: Apache-2.0 */
/* How steps and epochs spread within a mode, over all workers of all runs that count. This describes; what is
 * said about differences comes from runs (contrast.c), for steps of one run are not independent. */
#include "muster/cleanup.h"
#include "report_private.h"

#include <math.h>
#include <string.h>

/* Steps and seconds of epochs of a series, mode and workload. */
struct pool {
    double *steps, *epochs; /* owned */
    size_t step_count, epoch_count;
};

static void pool_release(struct pool *pool)
{
    free(pool->steps);
    free(pool->epochs);
}

static const struct run *run_of(const struct outcome *outcome, size_t i, const char *series, size_t mode,
                                size_t workload)
{
    const struct trial *trial = &outcome->experiment.trials[i];

    return trial->counts && trial->mode == mode && strcmp(trial->series, series) == 0 &&
                   workload <= trial->run_count
               ? &trial->runs[workload - 1]
               : NULL;
}

static int pool_fill(const struct outcome *outcome, const char *series, size_t mode, size_t workload,
                     struct pool *pool)
{
    size_t room = 1;

    for (size_t i = 0; i < outcome->experiment.trial_count; i++) {
        const struct run *run = run_of(outcome, i, series, mode, workload);
        room += run ? run_scratch_count(run) : 0;
    }
    *pool = (struct pool){.steps = calloc(room, sizeof *pool->steps),
                          .epochs = calloc(room, sizeof *pool->epochs)};
    if (!pool->steps || !pool->epochs)
        return -ENOMEM;
    for (size_t i = 0; i < outcome->experiment.trial_count; i++) {
        const struct run *run = run_of(outcome, i, series, mode, workload);
        for (size_t w = 0; run && w < run->worker_count; w++) {
            const struct run_worker *worker = &run->workers[w];
            for (size_t k = 0; k < worker->step_count; k++)
                pool->steps[pool->step_count++] = worker->step_ms[k];
            for (size_t k = 0; k < worker->epoch_count; k++)
                pool->epochs[pool->epoch_count++] = worker->epochs[k].seconds;
        }
    }
    return 0;
}

int spread_make(const struct outcome *outcome, const char *series, size_t mode, size_t workload,
                struct spread *ret_spread)
{
    mst_cleanup(pool_release) struct pool pool = {0};
    struct spread spread = {.step_p90_ms = NAN, .step_p99_ms = NAN};

    if (pool_fill(outcome, series, mode, workload, &pool) < 0)
        return -ENOMEM;
    statistics_summarise(pool.steps, pool.step_count, &spread.steps);
    statistics_summarise(pool.epochs, pool.epoch_count, &spread.epochs);
    if (pool.step_count > 0) {
        spread.step_p90_ms = statistics_quantile(pool.steps, pool.step_count, 0.9);
        spread.step_p99_ms = statistics_quantile(pool.steps, pool.step_count, 0.99);
    }
    *ret_spread = spread;
    return 0;
}

void section_spread(struct html *html, const struct outcome *outcome)
{
    static const char *const headers[] = {"Mode",  "Runs with", ">Steps",  ">Mean, ms", ">Median", ">90 %",
                                          ">99 %", ">Most",     ">Epochs", ">Mean, s",  ">Median", NULL};
    const struct experiment *experiment = &outcome->experiment;
    char label[128];

    table_begin(html, "Steps and epochs of all workers and runs that count", NULL, headers);
    for (size_t s = 0; s < experiment->series_count; s++) {
        const size_t workloads = outcome_workloads(outcome, experiment->series[s]);
        outcome_series_label(outcome, experiment->series[s], label, sizeof label);
        for (size_t i = 0; i < experiment->mode_count * workloads; i++) {
            const size_t mode = i / workloads, workload = i % workloads + 1;
            struct spread spread;
            if (spread_make(outcome, experiment->series[s], mode, workload, &spread) < 0) {
                html->error = -ENOMEM;
                return;
            }
            table_row(html, NULL, "%s", experiment->modes[mode].label);
            table_text(html, "%s%s", label,
                       workloads < 2   ? ""
                       : workload == 1 ? ": the first"
                                       : ": the second");
            table_number(html, (double)spread.steps.count, 0);
            table_number(html, spread.steps.mean, 2);
            table_number(html, spread.steps.median, 2);
            table_number(html, spread.step_p90_ms, 2);
            table_number(html, spread.step_p99_ms, 2);
            table_number(html, spread.steps.max, 2);
            table_number(html, (double)spread.epochs.count, 0);
            table_number(html, spread.epochs.mean, 2);
            table_number(html, spread.epochs.median, 2);
            table_row_end(html);
        }
    }
    table_end(html);
}
