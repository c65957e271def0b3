/* SPDX-License-Identifier: Apache-2.0 */
/* report.csv: a line for each number (docs/report.md). */
#include "muster/csv.h"
#include "report_private.h"

#include <math.h>
#include <stdio.h>

#define HEADER                                                                                               \
    "experiment,series,mode,workload,repeat,run,counts,node,slot,epoch,quantity,unit,value,low,high,pairs\n"

/* What a line is about; texts NULL and numbers below 0 are left empty. */
struct line {
    const char *experiment, *series, *mode, *node, *slot, *quantity, *unit;
    double workload, repeat, run, counts, epoch, value, low, high, pairs;
};

#define LINE(outcome, series_name, mode_place)                                                               \
    (struct line)                                                                                            \
    {                                                                                                        \
        .experiment = (outcome)->experiment.name, .series = (series_name),                                   \
        .mode = (outcome)->experiment.modes[mode_place].name, .workload = -1, .repeat = -1, .run = -1,       \
        .counts = -1, .epoch = -1, .low = NAN, .high = NAN, .pairs = -1                                      \
    }

static int put_count(struct mst_buf *text, double value)
{
    return value >= 0 ? mst_buf_printf(text, "%.0f,", value) : mst_buf_append_text(text, ",");
}

static int put_value(struct mst_buf *text, double value)
{
    return isfinite(value) ? mst_buf_printf(text, "%.9g,", value) : mst_buf_append_text(text, ",");
}

static int put_line(struct mst_buf *text, const struct line *line)
{
    const char *const first[] = {line->experiment, line->series, line->mode};
    const double counts[] = {line->workload, line->repeat, line->run, line->counts};
    const double values[] = {line->value, line->low, line->high};
    int r = 0;

    for (size_t i = 0; i < 3 && r >= 0; i++)
        r = mst_csv_append(text, first[i], ',');
    for (size_t i = 0; i < 4 && r >= 0; i++)
        r = put_count(text, counts[i]);
    if (r >= 0)
        r = mst_csv_append(text, line->node ? line->node : "", ',');
    if (r >= 0)
        r = mst_csv_append(text, line->slot ? line->slot : "", ',');
    if (r >= 0)
        r = put_count(text, line->epoch);
    if (r >= 0)
        r = mst_csv_append(text, line->quantity, ',');
    if (r >= 0)
        r = mst_csv_append(text, line->unit, ',');
    for (size_t i = 0; i < 3 && r >= 0; i++)
        r = put_value(text, values[i]);
    return r < 0              ? r
           : line->pairs >= 0 ? mst_buf_printf(text, "%.0f\n", line->pairs)
                              : mst_buf_append_text(text, "\n");
}

static int put_contrast(struct mst_buf *text, const struct outcome *outcome, const struct contrast *c)
{
    struct line line = LINE(outcome, c->series, c->mode);
    char name[96];
    int r;

    line.workload = c->workload > 0 ? (double)c->workload : -1;
    line.pairs = (double)c->pairs;
    (void)snprintf(name, sizeof name, "difference of %s", metric_names[c->metric].name);
    line.quantity = name;
    line.unit = metric_names[c->metric].unit;
    line.value = c->difference.estimate;
    line.low = c->difference.low;
    line.high = c->difference.high;
    r = put_line(text, &line);
    (void)snprintf(name, sizeof name, "overhead of %s", metric_names[c->metric].name);
    line.unit = "percent";
    line.value = 100 * (c->ratio.estimate - 1);
    line.low = 100 * (c->ratio.low - 1);
    line.high = 100 * (c->ratio.high - 1);
    return r < 0 || !isfinite(line.value) ? r : put_line(text, &line);
}

static int put_worker(struct mst_buf *text, struct line line, const struct run_worker *worker)
{
    int r = 0;

    line.node = worker->node;
    line.slot = worker->slot;
    for (size_t i = 0; i < worker->epoch_count && r >= 0; i++) {
        const struct run_epoch *e = &worker->epochs[i];
        const struct {
            const char *quantity, *unit;
            double value;
        } values[] = {
            {"epoch_seconds", "s", e->seconds},    {"ms_per_step", "ms", e->ms_per_step},
            {"compute_ms", "ms", e->compute_ms},   {"wait_ms", "ms", e->wait_ms},
            {"transfer_ms", "ms", e->transfer_ms}, {"bytes_sent", "bytes", e->bytes_sent},
        };
        line.epoch = e->epoch;
        for (size_t k = 0; k < sizeof values / sizeof *values && r >= 0; k++) {
            line.quantity = values[k].quantity;
            line.unit = values[k].unit;
            line.value = values[k].value;
            r = put_line(text, &line);
        }
    }
    return r;
}

static int put_trial(struct mst_buf *text, const struct outcome *outcome, const struct trial *trial)
{
    struct line line = LINE(outcome, trial->series, trial->mode);
    int r = 0;

    line.repeat = (double)trial->repeat;
    line.run = (double)trial->number;
    line.counts = trial->counts;
    for (size_t metric = 0; metric < METRIC_COUNT && r >= 0; metric++) {
        line.quantity = metric_names[metric].name;
        line.unit = metric_names[metric].unit;
        line.value = trial_metric(trial, (enum metric)metric, 0);
        if (isfinite(line.value))
            r = put_line(text, &line);
    }
    for (size_t w = 0; w < trial->run_count; w++) {
        line.workload = (double)w + 1;
        for (size_t i = 0; i < trial->runs[w].worker_count && r >= 0; i++)
            r = put_worker(text, line, &trial->runs[w].workers[i]);
    }
    return r;
}

int report_csv(const struct report_content *content, struct mst_buf *text)
{
    int r = mst_buf_append_text(text, HEADER);

    for (size_t i = 0; i < content->outcome_count; i++) {
        const struct outcome *outcome = &content->outcomes[i];
        for (size_t k = 0; k < outcome->contrast_count && r >= 0; k++) {
            if (outcome->contrasts[k].pairs > 0)
                r = put_contrast(text, outcome, &outcome->contrasts[k]);
        }
        for (size_t k = 0; k < outcome->experiment.trial_count && r >= 0; k++) {
            if (outcome->experiment.trials[k].run_count > 0)
                r = put_trial(text, outcome, &outcome->experiment.trials[k]);
        }
    }
    return r;
}
