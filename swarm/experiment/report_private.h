/* SPDX-License-Identifier: Apache-2.0 */
/* The three files of a report, each made in memory from the same outcomes. */
#ifndef EXPERIMENT_REPORT_PRIVATE_H
#define EXPERIMENT_REPORT_PRIVATE_H

#include "muster/buf.h"
#include "outcome.h"
#include "tables.h"

#define REPORT_MAX_BYTES ((size_t)256 << 20)
#define REPORT_FORMAT    1

struct report_content {
    struct outcome *outcomes; /* owned */
    size_t outcome_count;
    double made_s;
};

/* report_json.c: *ret_json is the caller's. */
int report_json(const struct report_content *content, cJSON **ret_json, struct mst_error *err);
/* report_use.c: what runs used over time, for the page's figures: a list of experiments, each a list of runs.
 */
int report_use(const struct report_content *content, cJSON **ret_json, struct mst_error *err);
/* report_csv.c: a line for each number. 0, -EFBIG or -ENOMEM. */
int report_csv(const struct report_content *content, struct mst_buf *text);
/* report_page.c: `charts` is the charting library's text. */
int report_page(const struct report_content *content, const char *charts, const cJSON *json, const cJSON *use,
                struct html *html, struct mst_error *err);

/* report_sections.c, report_epochs.c, report_details.c: parts of the page. */
void section_overhead(struct html *html, const struct outcome *outcome);
void section_parts(struct html *html, const struct outcome *outcome);
void section_epochs(struct html *html, const struct outcome *outcome);
void section_runs(struct html *html, const struct outcome *outcome);
void section_noise(struct html *html, const struct outcome *outcome);
void section_setting(struct html *html, const struct outcome *outcome);

/* report_epochs.c: what an epoch took on a node, as the mean over the counting runs. count 0: no run has it.
 */
struct epoch_mean {
    double seconds, ms_per_step;
    size_t count;
};
struct epoch_mean epoch_mean(const struct outcome *outcome, const char *series, size_t mode, size_t workload,
                             size_t worker, double epoch);
/* The highest epoch and number of workers of a series. */
void epoch_bounds(const struct outcome *outcome, const char *series, size_t *ret_epochs, size_t *ret_workers);
/* The node of a worker's place; "" when no run has so many. */
const char *epoch_node(const struct outcome *outcome, const char *series, size_t worker);

/* report_spread.c: steps and epochs of one mode and workload, over workers and runs. -ENOMEM. */
struct spread {
    struct statistics_summary steps, epochs; /* ms, seconds; steps.count is 0 without step logs */
    double step_p90_ms, step_p99_ms;
};
int spread_make(const struct outcome *outcome, const char *series, size_t mode, size_t workload,
                struct spread *ret_spread);
void section_spread(struct html *html, const struct outcome *outcome);

/* cJSON with errors that stick: what is put where memory lacked is missing, and *ok is false. */
void put_text(cJSON *object, const char *key, const char *text, bool *ok);
void put_number(cJSON *object, const char *key, double value, bool *ok); /* null when not finite */
void put_bool(cJSON *object, const char *key, bool value, bool *ok);
cJSON *put_object(cJSON *object, const char *key,
                  bool *ok); /* key NULL: `object` is an array. May be NULL. */
cJSON *put_array(cJSON *object, const char *key, bool *ok);

#endif
