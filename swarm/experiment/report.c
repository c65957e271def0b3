/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/experiment.h"
#include "muster/file.h"
#include "muster/json.h"
#include "report_private.h"

#include <string.h>

#define CHARTS_MAX_BYTES ((size_t)4 << 20)
#define FOLDERS_MAX      16
#define NOTES_MAX_BYTES  ((size_t)4 << 20)

static void content_release(struct report_content *content)
{
    for (size_t i = 0; i < content->outcome_count; i++)
        outcome_release(&content->outcomes[i]);
    free(content->outcomes);
}

/* ---- reading ---- */

static int has_file(const char *folder, const char *name)
{
    mst_cleanup(mst_freep) char *path = mst_path_join(folder, name);

    return !path ? -ENOMEM : access(path, F_OK) == 0;
}

static int add_experiment(struct report_content *content, struct experiment *experiment,
                          struct mst_error *err)
{
    const int r = outcome_make(experiment, &content->outcomes[content->outcome_count], err);

    content->outcome_count += r >= 0;
    return r;
}

/* Experiments in their order, then all run folders side by side. */
static int read_all(const char *const *folders, size_t count, struct report_content *content,
                    struct mst_error *err)
{
    const char *runs[FOLDERS_MAX];
    struct experiment experiment;
    size_t run_count = 0;
    int r = 0;

    content->outcomes = calloc(count + 1, sizeof *content->outcomes);
    if (!content->outcomes)
        return mst_error_set(err, -ENOMEM, "report: no memory");
    for (size_t i = 0; i < count && r >= 0; i++) {
        const int is_experiment = has_file(folders[i], EXPERIMENT_FILE),
                  is_run = has_file(folders[i], EXPERIMENT_RUN_FILE);
        if (is_experiment < 0 || is_run < 0)
            return mst_error_set(err, -ENOMEM, "report: no memory");
        if (is_experiment) {
            r = experiment_load(folders[i], &experiment, err);
            if (r >= 0)
                r = add_experiment(content, &experiment, err);
        } else if (is_run) {
            runs[run_count++] = folders[i];
        } else {
            r = mst_error_set(err, -EBADMSG,
                              "'%s' has neither %s nor %s in it: expected an experiment's or a run's folder",
                              folders[i], EXPERIMENT_FILE, EXPERIMENT_RUN_FILE);
        }
    }
    if (r >= 0 && run_count > 0) {
        r = experiment_of_runs(runs, run_count, &experiment, err);
        if (r >= 0)
            r = add_experiment(content, &experiment, err);
    }
    /* Whatever is wrong with an input file, is the input's fault. */
    return r < 0 && r != -ENOMEM ? -EBADMSG : r;
}

static int read_charts(const char *path, struct mst_buf *text, struct mst_error *err)
{
    const int r = mst_file_read(path, text, err);

    return r < 0 ? mst_error_wrap(err, r, "the charting library (Debian: libjs-chart.js)") : 0;
}

/* ---- telling ---- */

static int tell_doubts(const struct outcome *outcome, struct mst_buf *text)
{
    mst_cleanup(mst_buf_release) struct mst_buf doubts = MST_BUF_INIT(NOTES_MAX_BYTES);
    int r = outcome_doubts(outcome, &doubts);

    for (const char *line = mst_buf_text(&doubts); r >= 0 && *line != '\0'; line += strcspn(line, "\n") + 1)
        r = mst_buf_printf(text, "%s: %.*s\n", outcome->experiment.name, (int)strcspn(line, "\n"), line);
    return r;
}

static int tell(const struct report_content *content, struct report_result *result, struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf summary = MST_BUF_INIT(NOTES_MAX_BYTES),
                                                left_out = MST_BUF_INIT(NOTES_MAX_BYTES);
    int r = 0;

    for (size_t i = 0; i < content->outcome_count && r >= 0; i++) {
        const struct experiment *experiment = &content->outcomes[i].experiment;
        const cJSON *warning;
        for (size_t k = 0; k < OUTCOME_SENTENCES && r >= 0; k++)
            r = mst_buf_printf(&summary, "%s\n", content->outcomes[i].sentences[k]);
        for (size_t k = 0; k < experiment->trial_count && r >= 0; k++) {
            const struct trial *trial = &experiment->trials[k];
            if (trial->left_out && !trial->is_warmup)
                r = mst_buf_printf(&left_out, "%s: run %zu is not counted: %s\n", experiment->name,
                                   trial->number, trial->left_out);
        }
        if (r >= 0)
            r = tell_doubts(&content->outcomes[i], &left_out);
        cJSON_ArrayForEach(warning, mst_json_at(experiment->json, "warnings", NULL))
        {
            if (cJSON_IsString(warning) && r >= 0)
                r = mst_buf_printf(&left_out, "%s: %s\n", experiment->name, warning->valuestring);
        }
    }
    if (r >= 0) {
        result->summary = strdup(mst_buf_text(&summary));
        result->left_out = strdup(mst_buf_text(&left_out));
    }
    return r >= 0 && result->summary && result->left_out
               ? 0
               : mst_error_errno(err, r < 0 ? r : -ENOMEM, "report");
}

/* ---- writing ---- */

/* All are written out before the first takes its place. */
static int write_files(const char *folder, const char *const *names, const struct mst_buf *const *texts,
                       size_t count, struct mst_error *err)
{
    struct mst_file_writer writers[3] = {{.fd = -1}, {.fd = -1}, {.fd = -1}};
    int r = mst_make_folders(folder, 0755, err);

    for (size_t i = 0; i < count && r >= 0; i++) {
        mst_cleanup(mst_freep) char *path = mst_path_join(folder, names[i]);
        r = path ? mst_file_writer_open(&writers[i], path, 0644, err)
                 : mst_error_set(err, -ENOMEM, "report: no memory");
        if (r >= 0) {
            r = mst_write_all(writers[i].fd, mst_buf_text(texts[i]), texts[i]->count);
            if (r < 0)
                (void)mst_error_errno(err, r, "write '%s'", path);
        }
    }
    for (size_t i = 0; i < count && r >= 0; i++)
        r = mst_file_writer_commit(&writers[i], err);
    for (size_t i = 0; i < count; i++)
        mst_file_writer_discard(&writers[i]);
    return r;
}

static int make_files(const struct report_content *content, const char *charts, const char *folder,
                      struct mst_error *err)
{
    static const char *const names[] = {"report.csv", "report.json", "report.html"};
    mst_cleanup(mst_json_deletep) cJSON *json = NULL;
    mst_cleanup(mst_json_deletep) cJSON *use = NULL;
    mst_cleanup(mst_buf_release) struct mst_buf csv = MST_BUF_INIT(REPORT_MAX_BYTES),
                                                json_text = MST_BUF_INIT(REPORT_MAX_BYTES);
    struct html html = {.text = MST_BUF_INIT(REPORT_MAX_BYTES)};
    char *printed = NULL;
    int r = report_csv(content, &csv);

    if (r < 0)
        return mst_error_errno(err, r, "report.csv");
    r = report_json(content, &json, err);
    if (r >= 0)
        r = report_use(content, &use, err);
    if (r >= 0) {
        printed = cJSON_Print(json);
        r = printed ? mst_buf_printf(&json_text, "%s\n", printed) : -ENOMEM;
        if (r < 0)
            (void)mst_error_errno(err, r, "report.json");
        cJSON_free(printed);
    }
    if (r >= 0)
        r = report_page(content, charts, json, use, &html, err);
    if (r >= 0)
        r = write_files(folder, names, (const struct mst_buf *const[]){&csv, &json_text, &html.text}, 3, err);
    mst_buf_release(&html.text);
    return r;
}

int report_make(const char *const *folders, size_t count, const struct report_options *options,
                struct report_result *ret_result, struct mst_error *err)
{
    mst_cleanup(content_release) struct report_content content = {.made_s = mst_wall_s()};
    mst_cleanup(report_result_release) struct report_result result = {0};
    mst_cleanup(mst_buf_release) struct mst_buf charts = MST_BUF_INIT(CHARTS_MAX_BYTES);
    const char *const out = options->out ? options->out : folders[0];
    int r;

    if (count < 1 || count > FOLDERS_MAX)
        return mst_error_set(err, -EINVAL, "%zu folders: from 1 to %d can be in one report", count,
                             FOLDERS_MAX);
    if (count > 1 && !options->out)
        return mst_error_set(err, -EINVAL, "a report over %zu folders needs a folder of its own (--out)",
                             count);
    r = read_all(folders, count, &content, err);
    if (r >= 0)
        r = read_charts(options->charts ? options->charts : REPORT_CHARTS_FILE, &charts, err);
    if (r >= 0)
        r = tell(&content, &result, err);
    if (r >= 0) {
        result.page = mst_path_join(out, "report.html");
        r = result.page ? make_files(&content, mst_buf_text(&charts), out, err)
                        : mst_error_set(err, -ENOMEM, "report: no memory");
    }
    if (r < 0)
        return r;
    *ret_result = result;
    result = (struct report_result){0};
    return 0;
}

void report_result_release(struct report_result *result)
{
    free(result->page);
    free(result->summary);
    free(result->left_out);
    *result = (struct report_result){0};
}
