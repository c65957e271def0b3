/* SPDX-License-Identifier: Apache-2.0 */
/* report.html: one file that asks for nothing else. Tables are plain HTML; the figures are drawn by
 * page/report.js with the charting library, whose text stands in the page with its licence's notice. */
#include "muster/cleanup.h"
#include "muster/json.h"
#include "page_text.h"
#include "report_private.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define DOUBTS_MAX_BYTES ((size_t)64 << 10)

/* Nothing in data may end a script element. */
static int put_json(struct html *html, const char *id, const cJSON *json, struct mst_error *err)
{
    char *const text = cJSON_PrintUnformatted(json);

    if (!text)
        return mst_error_set(err, -ENOMEM, "report.html: no memory");
    html_raw(html, "<script type=\"application/json\" id=\"");
    html_raw(html, id);
    html_raw(html, "\">");
    for (const char *at = text; *at != '\0';) {
        const size_t plain = strcspn(at, "<");
        if (html->error == 0)
            html->error = mst_buf_append(&html->text, at, plain);
        at += plain;
        if (*at == '<') {
            html_raw(html, "\\u003c");
            at++;
        }
    }
    html_raw(html, "</script>\n");
    cJSON_free(text);
    return 0;
}

static void put_warnings(struct html *html, const struct outcome *outcome)
{
    const cJSON *warnings = mst_json_at(outcome->experiment.json, "warnings", NULL), *warning;
    const char *state = mst_json_string_or(outcome->experiment.json, "state", "complete");
    mst_cleanup(mst_buf_release) struct mst_buf doubts = MST_BUF_INIT(DOUBTS_MAX_BYTES);
    bool is_open;

    if (outcome_doubts(outcome, &doubts) < 0)
        html->error = -ENOMEM;
    is_open = doubts.count > 0;
    for (size_t i = 0; i < outcome->experiment.trial_count; i++)
        is_open =
            is_open || (outcome->experiment.trials[i].left_out && !outcome->experiment.trials[i].is_warmup);
    if (!is_open && cJSON_GetArraySize(warnings) == 0 && strcmp(state, "complete") == 0)
        return;
    html_raw(html, "<div class=\"warning\" role=\"note\"><p><strong>Mind:</strong></p><ul>\n");
    if (strcmp(state, "complete") != 0)
        html_element(html, "li", "The experiment is %s: %s", state,
                     mst_json_string_or(outcome->experiment.json, "reason", "not all runs were made"));
    for (size_t i = 0; i < outcome->experiment.trial_count; i++) {
        const struct trial *trial = &outcome->experiment.trials[i];
        if (trial->left_out && !trial->is_warmup)
            html_element(html, "li", "Run %zu (%s, %s, repeat %zu) is not counted: %s", trial->number,
                         outcome->experiment.modes[trial->mode].label, trial->series, trial->repeat,
                         trial->left_out);
        if (outcome->outliers[i])
            html_element(html, "li",
                         "Run %zu (%s, %s, repeat %zu) took a time that is far from the others of its mode; "
                         "it is counted",
                         trial->number, outcome->experiment.modes[trial->mode].label, trial->series,
                         trial->repeat);
    }
    for (const char *line = mst_buf_text(&doubts); *line != '\0'; line += strcspn(line, "\n") + 1)
        html_element(html, "li", "%.*s", (int)strcspn(line, "\n"), line);
    cJSON_ArrayForEach(warning, warnings)
    {
        if (cJSON_IsString(warning))
            html_element(html, "li", "%s", warning->valuestring);
    }
    html_raw(html, "</ul></div>\n");
}

static void put_experiment(struct html *html, const struct outcome *outcome, size_t place)
{
    char number[24];

    (void)snprintf(number, sizeof number, "%zu", place);
    html_raw(html, "<section class=\"experiment\" data-experiment=\"");
    html_raw(html, number);
    html_raw(html, "\">\n");
    html_element(html, "h2", "%s", outcome->experiment.name);
    html_raw(html, "<div class=\"summary\">\n");
    for (size_t i = 0; i < OUTCOME_SENTENCES; i++)
        html_element(html, "p", "%s", outcome->sentences[i]);
    html_raw(html, "</div>\n");
    put_warnings(html, outcome);
    section_overhead(html, outcome);
    section_parts(html, outcome);
    html_raw(html, page_use);
    section_epochs(html, outcome);
    section_runs(html, outcome);
    if (!outcome->experiment.is_plain)
        section_noise(html, outcome);
    section_setting(html, outcome);
    html_raw(html, "</section>\n");
}

static void put_head(struct html *html, const struct report_content *content)
{
    const time_t made = (time_t)content->made_s;
    char text[48] = "";
    struct tm tm;

    if (gmtime_r(&made, &tm))
        (void)strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &tm);
    html_raw(html, page_head);
    html_raw(html, "<style>\n");
    html_raw(html, page_style);
    html_raw(html, "</style>\n</head>\n<body>\n<header>\n");
    html_element(html, "h1", "Training runs compared");
    html_element(html, "p class=\"quiet\"", "muster %s, %s", MUSTER_VERSION, text);
    html_raw(html, "</header>\n<main>\n");
}

int report_page(const struct report_content *content, const char *charts, const cJSON *json, const cJSON *use,
                struct html *html, struct mst_error *err)
{
    int r;

    /* A text that would end the element that it stands in would be shown, not run. */
    if (strcasestr(charts, "</script") || strstr(charts, "<!--"))
        return mst_error_set(
            err, -EBADMSG, "the charting library cannot stand in a page: it has '</script' or '<!--' in it");
    put_head(html, content);
    for (size_t i = 0; i < content->outcome_count; i++)
        put_experiment(html, &content->outcomes[i], i);
    html_raw(html, page_foot);
    r = put_json(html, "report", json, err);
    if (r >= 0)
        r = put_json(html, "use", use, err);
    if (r < 0)
        return r;
    html_raw(html, "<script>\n");
    html_raw(html, charts);
    html_raw(html, "\n</script>\n<script>\n");
    html_raw(html, page_script);
    html_raw(html, "</script>\n</body>\n</html>\n");
    return html->error < 0 ? mst_error_errno(err, html->error, "report.html") : 0;
}
