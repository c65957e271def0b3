/* SPDX-License-Identifier: Apache-2.0 */
/* The page's parts about differences: the overheads with their intervals, and what they consist of. */
#include "report_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A canvas that page.js draws on by its data. */
static void figure(struct html *html, const char *kind, const char *series, const char *caption)
{
    html_raw(html, "<figure><figcaption>");
    html_print(html, "%s", caption);
    html_raw(html, "</figcaption><div class=\"canvas\"><canvas role=\"img\" data-figure=\"");
    html_print(html, "%s", kind);
    html_raw(html, "\" data-series=\"");
    html_print(html, "%s", series);
    html_raw(html, "\" aria-label=\"");
    html_print(html, "%s", caption);
    html_raw(html, "\"></canvas></div></figure>\n");
}

static const char *verdict(const struct contrast *c)
{
    return !c->ratio.has_interval               ? "one pair: nothing shown"
           : !statistics_excludes(&c->ratio, 1) ? "no difference shown"
           : c->ratio.estimate > 1              ? "slower"
                                                : "faster";
}

static void overhead_row(struct html *html, const struct outcome *outcome, const struct contrast *c)
{
    const int digits = metric_names[c->metric].digits;
    char series[128], text[NUMBER_TEXT_BYTES];

    outcome_series_label(outcome, c->series, series, sizeof series);
    table_row(html, NULL, "%s", outcome->experiment.modes[c->mode].label);
    table_text(html, "%s%s", series,
               c->workload == 1   ? ": the first"
               : c->workload == 2 ? ": the second"
                                  : "");
    table_text(html, "%s, %s", metric_names[c->metric].text, metric_names[c->metric].unit);
    table_number(html, c->base_mean, digits);
    table_number(html, c->mode_mean, digits);
    number_percent(text, c->ratio.estimate);
    html_element(html, "td class=\"number strong\"", "%s", text);
    number_percent_interval(text, &c->ratio);
    html_element(html, "td class=\"number\"", "%s", text);
    table_number(html, (double)c->pairs, 0);
    table_text(html, "%s", verdict(c));
    table_row_end(html);
}

static void overhead_table(struct html *html, const struct outcome *outcome, const char *caption,
                           const enum metric *metrics, size_t count, size_t workload_min, size_t workload_max)
{
    static const char *const headers[] = {"Mode",      "Runs with",      "Quantity", ">Baseline", ">Mode",
                                          ">Overhead", ">95 % interval", ">Pairs",   "Shown",     NULL};

    table_begin(html, caption, NULL, headers);
    for (size_t m = 0; m < count; m++) {
        for (size_t i = 0; i < outcome->contrast_count; i++) {
            const struct contrast *c = &outcome->contrasts[i];
            if (c->metric == metrics[m] && c->pairs > 0 && c->workload >= workload_min &&
                c->workload <= workload_max)
                overhead_row(html, outcome, c);
        }
    }
    table_end(html);
}

static void section_figures(struct html *html, const struct outcome *outcome)
{
    const struct experiment *experiment = &outcome->experiment;
    char caption[256];

    html_element(html, "h3", "Training");
    html_raw(html, "<div class=\"charts\">");
    figure(html, "totals", "", "Training time, seconds: means over runs, and each run as a point");
    figure(html, "step-parts", "", "A step's parts, ms: means over runs");
    for (size_t s = 0; s < experiment->series_count; s++) {
        char label[128];
        outcome_series_label(outcome, experiment->series[s], label, sizeof label);
        (void)snprintf(caption, sizeof caption, "Seconds an epoch, %s", label);
        figure(html, "epoch-seconds", experiment->series[s], caption);
        (void)snprintf(caption, sizeof caption, "Milliseconds a step by epoch, %s", label);
        figure(html, "epoch-steps", experiment->series[s], caption);
    }
    html_raw(html, "</div>\n");
}

void section_overhead(struct html *html, const struct outcome *outcome)
{
    static const enum metric first[] = {METRIC_STEP_MS, METRIC_TRAINING_S},
                             more[] = {METRIC_STEP_MEDIAN, METRIC_WHOLE_S, METRIC_LAUNCH_S, METRIC_TOTAL_S};
    const struct experiment *experiment = &outcome->experiment;
    bool has_two = false;
    char caption[256];

    for (size_t i = 0; i < experiment->series_count; i++)
        has_two = has_two || outcome_workloads(outcome, experiment->series[i]) > 1;
    if (experiment->mode_count > 1) {
        html_element(html, "h3", "Overhead");
        figure(html, "overhead", "", "Time a step against the baseline, per cent, with 95 % intervals");
        (void)snprintf(caption, sizeof caption, "Against the baseline, '%s'",
                       experiment->modes[experiment->baseline].label);
        overhead_table(html, outcome, caption, first, 2, 0, 0);
        html_raw(html, "<details><summary>Medians, whole lives, launching");
        html_raw(html, has_two ? ", and each of two workloads" : "");
        html_raw(html, "</summary>\n");
        overhead_table(html, outcome, "Other quantities", more, 4, 0, 0);
        if (has_two)
            overhead_table(html, outcome, "Each of two workloads at once", first, 2, 1, TRIAL_WORKLOADS_MAX);
        section_spread(html, outcome);
        html_raw(html, "</details>\n");
    }
    section_figures(html, outcome);
}

/* ---- parts ---- */

static void part_row(struct html *html, const char *row_class, const struct contrast *c,
                     const struct contrast *whole)
{
    const int digits = metric_names[c->metric].digits;
    char text[NUMBER_TEXT_BYTES];

    table_row(html, row_class, "%s", c == whole ? "all" : metric_names[c->metric].text);
    table_number(html, c->base_mean, digits);
    table_number(html, c->mode_mean, digits);
    number_signed(text, c->difference.estimate, digits);
    html_element(html, "td class=\"number\"", "%s", text);
    number_interval(text, &c->difference, digits);
    html_element(html, "td class=\"number\"", "%s", text);
    number_percent(text, 1 + c->difference.estimate / whole->base_mean);
    html_element(html, "td class=\"number\"", "%s", text);
    table_row_end(html);
}

/* A table of the parts of one whole, and whether they suffice. */
static void parts_table(struct html *html, const struct outcome *outcome, const struct contrast *whole,
                        const enum metric *parts, size_t count, enum metric rest_metric)
{
    static const char *const headers[] = {"Part",           ">Baseline",     ">Mode", ">Difference",
                                          ">95 % interval", ">of the whole", NULL};
    const struct contrast *rest = outcome_find(outcome, whole->series, whole->mode, rest_metric, 0);
    const char *const unit = metric_names[whole->metric].unit;
    const int digits = metric_names[whole->metric].digits;
    double sum = 0; /* of the named parts */
    char caption[384], series[128], named[NUMBER_TEXT_BYTES], all[NUMBER_TEXT_BYTES], left[NUMBER_TEXT_BYTES];

    outcome_series_label(outcome, whole->series, series, sizeof series);
    (void)snprintf(caption, sizeof caption, "'%s' against '%s', %s: %s, %s",
                   outcome->experiment.modes[whole->mode].label,
                   outcome->experiment.modes[outcome->experiment.baseline].label, series,
                   metric_names[whole->metric].text, metric_names[whole->metric].unit);
    table_begin(html, caption, NULL, headers);
    for (size_t i = 0; i < count; i++) {
        const struct contrast *part = outcome_find(outcome, whole->series, whole->mode, parts[i], 0);
        if (!part || part->pairs == 0)
            continue;
        part_row(html, NULL, part, whole);
        sum += parts[i] != rest_metric ? part->difference.estimate : 0;
    }
    part_row(html, "sum", whole, whole);
    table_end(html);
    if (!rest || !whole->difference.has_interval)
        return;
    number_signed(named, sum, digits);
    number_signed(all, whole->difference.estimate, digits);
    number_signed(left, rest->difference.estimate, digits);
    html_element(html, "p class=\"quiet\"",
                 "The named parts sum to %s %s of %s %s, %s the interval of the whole; the rest is %s %s.",
                 named, unit, all, unit, contrast_parts_suffice(whole, rest) ? "within" : "NOT within", left,
                 unit);
}

void section_parts(struct html *html, const struct outcome *outcome)
{
    static const enum metric step_parts[] = {METRIC_STEP_COMPUTE, METRIC_STEP_EXCHANGE, METRIC_STEP_REST};
    enum metric life_parts[RUN_PART_COUNT];
    bool has_life = false;

    for (size_t i = 0; i < RUN_PART_COUNT; i++)
        life_parts[i] = (enum metric)(METRIC_PART_FIRST + i);
    if (outcome->experiment.mode_count < 2)
        return;
    html_element(html, "h3", "Where the difference comes from");
    for (size_t i = 0; i < outcome->contrast_count; i++) {
        const struct contrast *step = &outcome->contrasts[i], *life;
        if (step->pairs == 0 || step->workload != 0 || step->metric != METRIC_STEP_MS)
            continue;
        life = outcome_find(outcome, step->series, step->mode, METRIC_WHOLE_S, 0);
        html_raw(html, "<div class=\"pair\"><div>");
        parts_table(html, outcome, step, step_parts, 3, METRIC_STEP_REST);
        html_raw(html, "</div><div>");
        if (life && life->pairs > 0) {
            parts_table(html, outcome, life, life_parts, RUN_PART_COUNT, METRIC_PART_FIRST + RUN_PART_REST);
            has_life = true;
        }
        html_raw(html, "</div></div>\n");
    }
    html_element(
        html, "p class=\"quiet\"", "%s",
        has_life
            ? "Exchange includes waiting for other workers; saving includes tests and digests. Launching a "
              "container or process comes before a worker's life begins: see the runs below."
            : "Start, discovery, connecting and saving were not recorded: that takes the workers' events "
              "(events.jsonl) in the run folders.");
}
