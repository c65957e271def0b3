/* SPDX-License-Identifier: Apache-2.0 */
/* muster report */
#include "cli.h"
#include "muster/cleanup.h"
#include "muster/experiment.h"
#include "muster/file.h"

#include <string.h>

struct report_settings {
    struct cli_common common;
    struct report_options options;
};

static int set_out(void *settings, const char *text, struct mst_error *err)
{
    struct report_settings *report = settings;

    if (text[0] == '\0')
        return mst_error_set(err, -EINVAL, "expected a folder");
    report->options.out = text;
    return 0;
}

static int set_charts(void *settings, const char *text, struct mst_error *err)
{
    struct report_settings *report = settings;

    (void)err;
    report->options.charts = text;
    return 0;
}

static const struct mst_option table[] = {
    {.name = "out",
     .argument = "DIR",
     .set = set_out,
     .help = "folder for report.html, report.csv and report.json\n(default: the RUN, when there is one)"},
    {.name = "charts",
     .argument = "FILE",
     .env = "MUSTER_CHARTS",
     .fallback = REPORT_CHARTS_FILE,
     .set = set_charts,
     .help = "Chart.js, put into the page"},
    CLI_COMMON_OPTIONS,
};

static const struct mst_options options = {
    .program = "muster",
    .verb = "report",
    .synopsis = "[options] RUN...",
    .about = "Make a page of experiments that muster compare made, or of run folders side by side. Asks no "
             "engine.",
    .table = table,
    .count = MST_ARRAY_COUNT(table),
};

/* What is not counted, a line each. */
static void warn(const char *lines)
{
    for (; *lines != '\0'; lines += strcspn(lines, "\n") + 1)
        mst_log_warn("report", "%.*s", (int)strcspn(lines, "\n"), lines);
}

int verb_report(int argc, char **argv)
{
    mst_cleanup(report_result_release) struct report_result result = {0};
    mst_cleanup(mst_freep) char *text = NULL;
    struct report_settings settings = {0};
    struct mst_error err = MST_ERROR_INIT;
    int status, r;
    const int first = cli_begin(&options, argc, argv, &settings.common, 1, -1, &status);

    if (first < 0)
        return status;
    r = report_make((const char *const *)&argv[first], (size_t)(argc - first), &settings.options, &result,
                    &err);
    if (r < 0)
        return cli_end(NULL, r, &err);
    warn(result.left_out);
    text = mst_format("%s%s\n", result.summary, result.page);
    r = text ? mst_write_all(STDOUT_FILENO, text, strlen(text)) : -ENOMEM;
    if (r < 0)
        r = output_failed(r, &err);
    return cli_end(NULL, r, &err);
}
