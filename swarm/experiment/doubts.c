/* SPDX-License-Identifier: Apache-2.0 */
/* What in the runs themselves speaks against comparing them: the same job leaves the same parameters after as
 * many steps, whoever ran it. */
#include "muster/cleanup.h"
#include "outcome.h"

#include <string.h>

static double steps_of(const struct run *run)
{
    double steps = 0;

    for (size_t i = 0; i < run->workers[0].epoch_count; i++)
        steps += run->workers[0].epochs[i].steps;
    return steps;
}

static const struct run *counting_run(const struct outcome *outcome, size_t i, const char *series,
                                      size_t workload)
{
    const struct trial *trial = &outcome->experiment.trials[i];

    return trial->counts && strcmp(trial->series, series) == 0 && workload < trial->run_count
               ? &trial->runs[workload]
               : NULL;
}

/* The first run that is not as the series' first one, by what `is_like` compares; NULL: all are. */
static const struct trial *odd_one(const struct outcome *outcome, const char *series,
                                   bool (*is_like)(const struct run *, const struct run *),
                                   const struct trial **ret_first)
{
    for (size_t workload = 0; workload < TRIAL_WORKLOADS_MAX; workload++) {
        const struct run *first = NULL;
        for (size_t i = 0; i < outcome->experiment.trial_count; i++) {
            const struct run *run = counting_run(outcome, i, series, workload);
            if (run && first && !is_like(first, run))
                return &outcome->experiment.trials[i];
            if (run && !first) {
                first = run;
                *ret_first = &outcome->experiment.trials[i];
            }
        }
    }
    return NULL;
}

static bool has_same_steps(const struct run *a, const struct run *b)
{
    return steps_of(a) == steps_of(b) && a->worker_count == b->worker_count;
}

static bool has_same_model(const struct run *a, const struct run *b)
{
    return a->digest[0] == '\0' || b->digest[0] == '\0' || strcmp(a->digest, b->digest) == 0;
}

static bool has_same_version(const struct run *a, const struct run *b)
{
    return strcmp(a->version, b->version) == 0;
}

/* Of one whose agent does not tell its version nothing is said. */
static bool has_same_agents(const struct run *a, const struct run *b)
{
    for (size_t i = 0; i < a->worker_count; i++) {
        for (size_t k = 0; k < b->worker_count; k++) {
            const char *left = a->workers[i].version, *right = b->workers[k].version;
            if (left[0] != '\0' && right[0] != '\0' && strcmp(left, right) != 0)
                return false;
        }
    }
    return true;
}

int outcome_doubts(const struct outcome *outcome, struct mst_buf *lines)
{
    static const struct {
        bool (*is_like)(const struct run *, const struct run *);
        const char *text;
    } checks[] = {
        {has_same_steps, "did not make as many steps with as many workers"},
        {has_same_version, "were made by different versions of muster"},
        {has_same_agents, "had workers of different versions of muster-agent"},
        {has_same_model, "ended with different parameters: they did not train the same"},
    };
    int r = 0;

    for (size_t s = 0; s < outcome->experiment.series_count; s++) {
        for (size_t i = 0; i < MST_ARRAY_COUNT(checks) && r >= 0; i++) {
            const struct trial *first = NULL;
            const struct trial *odd =
                odd_one(outcome, outcome->experiment.series[s], checks[i].is_like, &first);
            if (odd)
                r = mst_buf_printf(lines, "runs %zu and %zu %s\n", first->number, odd->number,
                                   checks[i].text);
            if (odd && i == 0)
                break; /* other numbers of steps make other parameters */
        }
    }
    return r;
}
