/* SPDX-License-Identifier: Apache-2.0 */
/* All that is computed over one experiment, from which page, CSV and JSON are written. */
#ifndef EXPERIMENT_OUTCOME_H
#define EXPERIMENT_OUTCOME_H

#include "contrast.h"
#include "muster/buf.h"

#define OUTCOME_SENTENCES 3

struct outcome {
    struct experiment experiment;
    struct contrast *contrasts; /* owned: series, then modes but the baseline, then workloads (0: their mean),
                                   then metrics */
    size_t contrast_count;
    bool *outliers;                     /* owned, one a trial */
    char *sentences[OUTCOME_SENTENCES]; /* owned */
};

/* Takes the experiment over, also on an error. */
int outcome_make(struct experiment *experiment, struct outcome *ret_outcome, struct mst_error *err);
void outcome_release(struct outcome *outcome);

/* NULL: not made. */
const struct contrast *outcome_find(const struct outcome *outcome, const char *series, size_t mode,
                                    enum metric metric, size_t workload);
/* Of a series: how many workloads at once, and what it is called for people. */
size_t outcome_workloads(const struct outcome *outcome, const char *series);
void outcome_series_label(const struct outcome *outcome, const char *series, char *text, size_t bytes);
/* Both modes are the same thing: an A/A comparison. */
bool outcome_is_same(const struct outcome *outcome, size_t mode);

/* words.c: the three sentences, from the numbers. */
int outcome_write_sentences(struct outcome *outcome, struct mst_error *err);

/* doubts.c: a line for each thing in the runs themselves that speaks against comparing them. -EFBIG or
 * -ENOMEM. */
int outcome_doubts(const struct outcome *outcome, struct mst_buf *lines);

/* What was published for the testbed, and where it stands in relation to ours. */
#define PUBLISHED_SAID_PERCENT  20
#define PUBLISHED_SINGLE_BARE_S 150 /* 2:30 */
#define PUBLISHED_SINGLE_S      185 /* 3:05 */
#define PUBLISHED_DOUBLE_BARE_S 250 /* 4:10 */
#define PUBLISHED_DOUBLE_S      318 /* 5:18 */
#define PUBLISHED_STEP_BARE_MS                                                                               \
    {                                                                                                        \
        143, 215                                                                                             \
    }
#define PUBLISHED_STEP_MS                                                                                    \
    {                                                                                                        \
        200, 233                                                                                             \
    }
#define PUBLISHED_RATIO_SINGLE ((double)PUBLISHED_SINGLE_S / PUBLISHED_SINGLE_BARE_S)
#define PUBLISHED_RATIO_DOUBLE ((double)PUBLISHED_DOUBLE_S / PUBLISHED_DOUBLE_BARE_S)

#endif
