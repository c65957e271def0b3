/* SPDX-License-Identifier: Apache-2.0 */
/* The published testbed's tables: time and ms a step by epoch and node, in each mode. */
#include "report_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define COLUMNS_MAX 66
#define BESIDE_MAX  6   /* columns of tables that fit beside each other */
#define ROWS_MAX    500 /* the CSV has all */

static bool is_of(const struct trial *trial, const char *series)
{
    return trial->counts && strcmp(trial->series, series) == 0;
}

void epoch_bounds(const struct outcome *outcome, const char *series, size_t *ret_epochs, size_t *ret_workers)
{
    size_t epochs = 0, workers = 0;

    for (size_t i = 0; i < outcome->experiment.trial_count; i++) {
        const struct trial *trial = &outcome->experiment.trials[i];
        for (size_t k = 0; is_of(trial, series) && k < trial->run_count; k++) {
            const struct run *run = &trial->runs[k];
            workers = run->worker_count > workers ? run->worker_count : workers;
            for (size_t w = 0; w < run->worker_count; w++) {
                for (size_t e = 0; e < run->workers[w].epoch_count; e++)
                    epochs = run->workers[w].epochs[e].epoch > (double)epochs
                                 ? (size_t)run->workers[w].epochs[e].epoch
                                 : epochs;
            }
        }
    }
    *ret_epochs = epochs;
    *ret_workers = workers;
}

const char *epoch_node(const struct outcome *outcome, const char *series, size_t worker)
{
    for (size_t i = 0; i < outcome->experiment.trial_count; i++) {
        const struct trial *trial = &outcome->experiment.trials[i];
        if (is_of(trial, series) && worker < trial->runs[0].worker_count)
            return trial->runs[0].workers[worker].node;
    }
    return "";
}

struct epoch_mean epoch_mean(const struct outcome *outcome, const char *series, size_t mode, size_t workload,
                             size_t worker, double epoch)
{
    struct epoch_mean mean = {0};

    for (size_t i = 0; i < outcome->experiment.trial_count; i++) {
        const struct trial *trial = &outcome->experiment.trials[i];
        const struct run *run = &trial->runs[workload - 1];
        if (!is_of(trial, series) || trial->mode != mode || workload > trial->run_count ||
            worker >= run->worker_count)
            continue;
        for (size_t e = 0; e < run->workers[worker].epoch_count; e++) {
            const struct run_epoch *at = &run->workers[worker].epochs[e];
            if (at->epoch != epoch)
                continue;
            mean.seconds += at->seconds;
            mean.ms_per_step += at->ms_per_step;
            mean.count++;
        }
    }
    mean.seconds = mean.count > 0 ? mean.seconds / (double)mean.count : NAN;
    mean.ms_per_step = mean.count > 0 ? mean.ms_per_step / (double)mean.count : NAN;
    return mean;
}

/* A column for each mode and node: first all seconds, then all ms. */
static void table_of(struct html *html, const struct outcome *outcome, const char *series, size_t workload,
                     bool is_step)
{
    const struct experiment *experiment = &outcome->experiment;
    struct html_group groups[COLUMNS_MAX + 2] = {{"", 1}};
    const char *headers[COLUMNS_MAX + 2] = {"Epoch"};
    char nodes[COLUMNS_MAX][80], label[128], caption[256];
    double sums[COLUMNS_MAX] = {0};
    size_t epochs, workers, columns = 0;

    epoch_bounds(outcome, series, &epochs, &workers);
    for (size_t mode = 0; mode < experiment->mode_count; mode++) {
        const size_t room = COLUMNS_MAX - columns, used = workers < room ? workers : room;
        groups[mode + 1] = (struct html_group){experiment->modes[mode].label, used};
        for (size_t w = 0; w < used; w++) {
            (void)snprintf(nodes[columns], sizeof nodes[columns], ">%.70s", epoch_node(outcome, series, w));
            headers[columns + 1] = nodes[columns];
            columns++;
        }
    }
    outcome_series_label(outcome, series, label, sizeof label);
    (void)snprintf(caption, sizeof caption, "%s by epoch and node, %s%s",
                   is_step ? "Milliseconds a step" : "Seconds", label,
                   outcome_workloads(outcome, series) < 2 ? ""
                   : workload == 1                        ? ": the first"
                                                          : ": the second");
    table_begin(html, caption, groups, headers);
    for (size_t epoch = 1; epoch <= epochs; epoch++) {
        if (epoch <= ROWS_MAX)
            table_row(html, NULL, "%zu", epoch);
        for (size_t c = 0; c < columns; c++) {
            const struct epoch_mean mean =
                epoch_mean(outcome, series, c / workers, workload, c % workers, (double)epoch);
            const double value = is_step ? mean.ms_per_step : mean.seconds;
            if (epoch <= ROWS_MAX)
                table_number(html, value, 2);
            sums[c] += value;
        }
        if (epoch <= ROWS_MAX)
            table_row_end(html);
    }
    if (epochs > ROWS_MAX) {
        table_row(html, NULL, "... to %zu", epochs);
        table_row_end(html);
    }
    table_row(html, "sum", "%s", is_step ? "mean" : "all");
    for (size_t c = 0; c < columns; c++)
        table_number(html, is_step ? sums[c] / (double)epochs : sums[c], 2);
    table_row_end(html);
    table_end(html);
    if (columns < workers * experiment->mode_count)
        html_element(html, "p class=\"quiet\"", "%zu of %zu columns are left out; report.csv has them.",
                     workers * experiment->mode_count - columns, workers * experiment->mode_count);
}

void section_epochs(struct html *html, const struct outcome *outcome)
{
    html_element(html, "h3", "Epochs and nodes");
    html_element(html, "p class=\"quiet\"",
                 "Means over the runs that count. Workers go step by step together, so nodes differ little.");
    for (size_t s = 0; s < outcome->experiment.series_count; s++) {
        const char *series = outcome->experiment.series[s];
        size_t epochs, workers;
        epoch_bounds(outcome, series, &epochs, &workers);
        const bool is_wide = workers * outcome->experiment.mode_count > BESIDE_MAX;
        for (size_t w = 1; w <= outcome_workloads(outcome, series); w++) {
            html_raw(html, is_wide ? "<div>" : "<div class=\"pair\">");
            table_of(html, outcome, series, w, false);
            table_of(html, outcome, series, w, true);
            html_raw(html, "</div>");
        }
    }
}
