/* SPDX-License-Identifier: Apache-2.0 */
/* Three sentences that the numbers support: what was found, where it comes from, what was published. "Takes
 * longer" is said only when the interval excludes zero. */
#include "muster/buf.h"
#include "muster/cleanup.h"
#include "outcome.h"
#include "tables.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#define CLAUSES_MAX        6
#define NOTHING_MS         0.005 /* rounds to 0.00 */
#define SENTENCE_MAX_BYTES ((size_t)8 << 10)

static const char *label(const struct outcome *outcome, size_t mode)
{
    return outcome->experiment.modes[mode].label;
}

/* ---- what was found ---- */

/* "Longer" or "less" only when the interval leaves zero out. */
static int put_clause(const struct outcome *outcome, const struct contrast *c, struct mst_buf *text)
{
    const char *base = label(outcome, outcome->experiment.baseline), *mode = label(outcome, c->mode);
    const double percent = 100 * (c->ratio.estimate - 1);
    char interval[NUMBER_TEXT_BYTES];

    number_percent_interval(interval, &c->ratio);
    if (!c->ratio.has_interval)
        return mst_buf_printf(
            text,
            "a step took %.2f ms in '%s' and %.2f ms in '%s' (%+.1f %%), from one run of each, which "
            "allows no interval and so shows no difference",
            c->mode_mean, mode, c->base_mean, base, percent);
    if (!statistics_excludes(&c->ratio, 1))
        return mst_buf_printf(
            text,
            "no difference is shown between '%s' (%.2f ms a step) and '%s' (%.2f ms): the 95 %% "
            "interval, %s from %zu pairs of runs, covers zero",
            mode, c->mode_mean, base, c->base_mean, interval, c->pairs);
    return mst_buf_printf(
        text,
        "a step takes %.1f %% %s in '%s' (%.2f ms) than in '%s' (%.2f ms), with a 95 %% interval of "
        "%s from %zu pairs of runs",
        fabs(percent), percent > 0 ? "longer" : "less", mode, c->mode_mean, base, c->base_mean, interval,
        c->pairs);
}

/* Which runs a clause is about, where that changes. */
static int put_series(const struct outcome *outcome, const char *before, const char *series,
                      struct mst_buf *text)
{
    char name[128];

    if (before && strcmp(before, series) == 0)
        return mst_buf_append_text(text, ", and ");
    outcome_series_label(outcome, series, name, sizeof name);
    return outcome->experiment.is_plain ? 0
                                        : mst_buf_printf(text, "%s %s: ", before ? "; with" : "With", name);
}

static int say_what(const struct outcome *outcome, struct mst_buf *text)
{
    const char *series = NULL;
    size_t said = 0, all = 0;
    int r = 0;

    for (size_t i = 0; i < outcome->contrast_count && r >= 0; i++) {
        const struct contrast *c = &outcome->contrasts[i];
        if (c->metric != METRIC_STEP_MS || c->workload != 0 || c->pairs == 0)
            continue;
        all++;
        if (said < CLAUSES_MAX) {
            r = put_series(outcome, series, c->series, text);
            if (r >= 0)
                r = put_clause(outcome, c, text);
            series = c->series;
            said++;
        }
    }
    if (r >= 0 && all == 0)
        r = mst_buf_append_text(text, outcome->experiment.mode_count < 2
                                          ? "This is one run alone, with nothing to compare it with"
                                          : "There is no pair of runs of two modes that could be compared");
    if (r >= 0 && all > said)
        r = mst_buf_printf(text, "; the table has %zu more comparisons", all - said);
    if (r >= 0)
        text->bytes[0] = (char)toupper((unsigned char)text->bytes[0]);
    return r < 0 ? r : mst_buf_append_text(text, ".");
}

/* ---- where it comes from ---- */

/* The comparison whose parts the second sentence tells: the shown one that differs most, else the first. */
static const struct contrast *most_telling(const struct outcome *outcome)
{
    const struct contrast *best = NULL;
    double most = -1;

    for (size_t i = 0; i < outcome->contrast_count; i++) {
        const struct contrast *c = &outcome->contrasts[i];
        const double size = statistics_excludes(&c->ratio, 1) ? fabs(log(c->ratio.estimate)) : 0;
        if (c->metric == METRIC_STEP_MS && c->workload == 0 && c->pairs > 0 && size > most) {
            best = c;
            most = size;
        }
    }
    return best;
}

static int put_part(const struct outcome *outcome, const struct contrast *whole, enum metric metric,
                    const char *name, struct mst_buf *text)
{
    const struct contrast *part = outcome_find(outcome, whole->series, whole->mode, metric, 0);
    char interval[NUMBER_TEXT_BYTES];
    int r;

    if (!part)
        return 0;
    number_interval(interval, &part->difference, 2);
    if (metric == METRIC_STEP_REST && fabs(part->difference.estimate) < NOTHING_MS)
        return mst_buf_printf(text, "%s nothing", name);
    r = mst_buf_printf(text, "%s %+.2f ms", name, part->difference.estimate);
    if (r >= 0 && part->difference.has_interval)
        r = mst_buf_printf(text, " (%s%s)", interval,
                           statistics_excludes(&part->difference, 0) ? "" : ", which covers zero");
    return r;
}

static int say_where(const struct outcome *outcome, struct mst_buf *text)
{
    const struct contrast *whole = most_telling(outcome);
    char series[128];
    int r;

    if (!whole)
        return mst_buf_append_text(text, "Parts of a difference can be told only where two modes were run.");
    outcome_series_label(outcome, whole->series, series, sizeof series);
    r = mst_buf_printf(text, "Of the %+.2f ms a step between '%s' and '%s' (%s), ",
                       whole->difference.estimate, label(outcome, outcome->experiment.baseline),
                       label(outcome, whole->mode), series);
    if (r >= 0)
        r = put_part(outcome, whole, METRIC_STEP_EXCHANGE, "exchange accounts for", text);
    if (r >= 0)
        r = mst_buf_append_text(text, ", ");
    if (r >= 0)
        r = put_part(outcome, whole, METRIC_STEP_COMPUTE, "compute for", text);
    if (r >= 0)
        r = mst_buf_append_text(text, " and ");
    if (r >= 0)
        r = put_part(outcome, whole, METRIC_STEP_REST, "what is between steps for", text);
    return r < 0 ? r : mst_buf_append_text(text, ".");
}

/* ---- what was published ---- */

static int say_published(const struct outcome *outcome, struct mst_buf *text)
{
    const struct contrast *c = most_telling(outcome);
    const double said = 1 + PUBLISHED_SAID_PERCENT / 100.0;

    if (outcome->experiment.is_plain)
        return mst_buf_printf(
            text,
            "How much of this would be there again if the runs were repeated, one run of each cannot "
            "tell; the published testbed's about %d %% came from five runs without intervals, and "
            "muster compare repeats runs by turns to give one.",
            PUBLISHED_SAID_PERCENT);
    if (c && outcome_is_same(outcome, c->mode))
        return mst_buf_append_text(
            text, "Both modes are one and the same here, so that a difference, were one shown, "
                  "would be an error of the experiment and not an overhead.");
    if (mst_buf_printf(text,
                       "The published testbed told of about %d %% (its totals are %+.1f %% with one workload "
                       "and %+.1f %% with two), "
                       "from five runs, without intervals, with another program and on other machines",
                       PUBLISHED_SAID_PERCENT, 100 * (PUBLISHED_RATIO_SINGLE - 1),
                       100 * (PUBLISHED_RATIO_DOUBLE - 1)) < 0)
        return -ENOMEM;
    if (c && c->ratio.has_interval)
        return mst_buf_printf(text, "; %d %% lies %s the interval of '%s' found here.",
                              PUBLISHED_SAID_PERCENT,
                              said > c->ratio.high  ? "above"
                              : said < c->ratio.low ? "below"
                                                    : "within",
                              label(outcome, c->mode));
    return mst_buf_append_text(text, "; the runs here are too few to be set against it.");
}

int outcome_write_sentences(struct outcome *outcome, struct mst_error *err)
{
    static int (*const say[OUTCOME_SENTENCES])(const struct outcome *,
                                               struct mst_buf *) = {say_what, say_where, say_published};

    for (size_t i = 0; i < OUTCOME_SENTENCES; i++) {
        mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(SENTENCE_MAX_BYTES);
        if (say[i](outcome, &text) < 0 || !(outcome->sentences[i] = strdup(mst_buf_text(&text))))
            return mst_error_set(err, -ENOMEM, "summary: no memory");
    }
    return 0;
}
