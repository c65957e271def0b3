/* SPDX-License-Identifier: Apache-2.0 */
/* The page's parts about the experiment itself: its runs one by one, the noise around them, and the setting.
 */
#include "muster/cleanup.h"
#include "muster/json.h"
#include "report_private.h"

#include <math.h>
#include <string.h>

/* ---- runs ---- */

/* The largest over the nodes of what others took during the run; NAN: nobody looked. */
static double worst(const struct trial *trial, bool is_steal)
{
    double most = NAN;

    for (size_t i = 0; i < trial->noise_count; i++)
        most = fmax(most,
                    is_steal ? trial->noise[i].during.steal_percent : trial->noise[i].during.other_percent);
    return most;
}

void section_runs(struct html *html, const struct outcome *outcome)
{
    static const char *const headers[] = {"Run",        "Mode",         "Series",     ">Repeat",
                                          ">ms a step", ">Training, s", ">Launch, s", ">Steal, %",
                                          ">Others, %", "Note",         NULL};
    const struct experiment *experiment = &outcome->experiment;

    html_element(html, "h3", "All runs");
    table_begin(html, "In the order in which they were carried out", NULL, headers);
    for (size_t i = 0; i < experiment->trial_count; i++) {
        const struct trial *trial = &experiment->trials[i];
        const bool has_files = trial->run_count == trial->workloads;
        table_row(html, trial->counts ? NULL : "gone", "%zu", trial->number);
        table_text(html, "%s", experiment->modes[trial->mode].label);
        table_text(html, "%s", trial->series);
        table_number(html, trial->repeat > 0 ? (double)trial->repeat : NAN, 0);
        table_number(html, has_files ? trial_metric(trial, METRIC_STEP_MS, 0) : NAN, 2);
        table_number(html, has_files ? trial_metric(trial, METRIC_TRAINING_S, 0) : NAN, 2);
        table_number(html, trial->launch_s, 2);
        table_number(html, worst(trial, true), 1);
        table_number(html, worst(trial, false), 1);
        if (trial->left_out)
            html_element(html, trial->is_warmup ? "td" : "td class=\"wide\"", "not counted: %s",
                         trial->left_out);
        else
            table_text(html, "%s", outcome->outliers[i] ? "far from the others of its mode; counted" : "");
        table_row_end(html);
    }
    table_end(html);
}

/* ---- noise ---- */

struct noise_sum {
    struct noise_reading sum, count;
};

static void add(double value, double *sum, double *count)
{
    if (isfinite(value)) {
        *sum += value;
        *count += 1;
    }
}

static void add_reading(struct noise_sum *to, const struct noise_reading *reading)
{
    add(reading->steal_percent, &to->sum.steal_percent, &to->count.steal_percent);
    add(reading->busy_percent, &to->sum.busy_percent, &to->count.busy_percent);
    add(reading->other_percent, &to->sum.other_percent, &to->count.other_percent);
    add(reading->mhz, &to->sum.mhz, &to->count.mhz);
    add(reading->load1, &to->sum.load1, &to->count.load1);
}

static void noise_row(struct html *html, const struct outcome *outcome, const char *node, size_t mode)
{
    struct noise_sum around = {0}, during = {0};

    for (size_t i = 0; i < outcome->experiment.trial_count; i++) {
        const struct trial *trial = &outcome->experiment.trials[i];
        for (size_t k = 0; k < trial->noise_count && trial->counts && trial->mode == mode; k++) {
            if (strcmp(trial->noise[k].node, node) != 0)
                continue;
            add_reading(&around, &trial->noise[k].before);
            add_reading(&around, &trial->noise[k].after);
            add_reading(&during, &trial->noise[k].during);
        }
    }
    table_row(html, NULL, "%s", node);
    table_text(html, "%s", outcome->experiment.modes[mode].label);
    table_number(html, around.sum.busy_percent / around.count.busy_percent, 1);
    table_number(html, around.sum.steal_percent / around.count.steal_percent, 2);
    table_number(html, during.sum.busy_percent / during.count.busy_percent, 1);
    table_number(html, during.sum.steal_percent / during.count.steal_percent, 2);
    table_number(html, during.sum.other_percent / during.count.other_percent, 1);
    table_number(html, during.sum.mhz / during.count.mhz, 0);
    table_number(html, during.sum.load1 / during.count.load1, 2);
    table_row_end(html);
}

void section_noise(struct html *html, const struct outcome *outcome)
{
    static const char *const headers[] = {
        "Node",      "Mode",       ">Idle: busy, %", ">steal, %", ">Running: busy, %",
        ">steal, %", ">others, %", ">MHz",           ">load",     NULL};
    const struct experiment *experiment = &outcome->experiment;
    const struct trial *some = NULL;

    for (size_t i = 0; i < experiment->trial_count; i++) {
        if (experiment->trials[i].counts && (!some || experiment->trials[i].noise_count > some->noise_count))
            some = &experiment->trials[i];
    }
    html_element(html, "h3", "Noise of the machines");
    if (!some || some->noise_count == 0) {
        html_element(html, "p", "Nobody measured what else went on on the machines.");
        return;
    }
    table_begin(
        html,
        "Per cent of all cores of a node, means over the runs that count: idle before a run, and during it",
        NULL, headers);
    for (size_t k = 0; k < some->noise_count; k++) {
        for (size_t mode = 0; mode < experiment->mode_count; mode++)
            noise_row(html, outcome, some->noise[k].node, mode);
    }
    table_end(html);
    html_element(html, "p class=\"quiet\"",
                 "Steal: time that the hypervisor gave to somebody else. Others: busy time that the measured "
                 "workers did not use.");
}

/* ---- setting ---- */

static void put_value(struct html *html, const cJSON *value)
{
    mst_cleanup(mst_freep) char *text = NULL;

    if (cJSON_IsString(value)) {
        html_print(html, "%s", value->valuestring);
        return;
    }
    text = cJSON_PrintUnformatted(value);
    html_print(html, "%s", text ? text : "");
}

static void put_members(struct html *html, const cJSON *object)
{
    const cJSON *member;

    cJSON_ArrayForEach(member, object)
    {
        if (cJSON_IsNull(member) || !member->string)
            continue;
        html_element(html, "dt", "%s", member->string);
        html_raw(html, "<dd>");
        put_value(html, member);
        html_raw(html, "</dd>\n");
    }
}

static void put_nodes(struct html *html, const cJSON *nodes)
{
    static const char *const headers[] = {"Node",           "Processor", ">Cores", ">Memory, MiB",   "Kernel",
                                          "TCP congestion", "Engine",    "Agent",  ">Clock off, ms", NULL};
    const cJSON *node;

    if (cJSON_GetArraySize(nodes) == 0)
        return;
    table_begin(html, "Nodes", NULL, headers);
    cJSON_ArrayForEach(node, nodes)
    {
        table_row(html, NULL, "%s", mst_json_string_or(node, "hostname", ""));
        table_text(html, "%s", mst_json_string_or(node, "cpu_model", ""));
        table_number(html, mst_json_double_or(node, "cpus", NAN), 0);
        table_number(html, mst_json_double_or(node, "memory_bytes", NAN) / (1 << 20), 0);
        table_text(html, "%s", mst_json_string_or(node, "kernel", ""));
        table_text(html, "%s", mst_json_string_or(node, "congestion", ""));
        table_text(html, "%s", mst_json_string_or(node, "engine", ""));
        table_text(html, "%s", mst_json_string_or(node, "agent_version", ""));
        table_number(html, mst_json_double_or(node, "clock_offset_ms", NAN), 0);
        table_row_end(html);
    }
    table_end(html);
}

static void put_command(struct html *html, const cJSON *command)
{
    const cJSON *word;

    if (cJSON_GetArraySize(command) == 0)
        return;
    html_raw(html, "<pre>");
    cJSON_ArrayForEach(word, command)
    {
        if (cJSON_IsString(word))
            html_print(html, strpbrk(word->valuestring, " ;&|<>(){}*?$'\"") ? "'%s' " : "%s ",
                       word->valuestring);
    }
    html_raw(html, "</pre>\n");
}

void section_setting(struct html *html, const struct outcome *outcome)
{
    const struct experiment *experiment = &outcome->experiment;
    const cJSON *limits = mst_json_at(experiment->json, "limits", NULL);

    html_element(html, "h3", "Setting");
    if (experiment->is_plain) {
        static const char *const headers[] = {"Run",    "Folder",   "Result",         "muster",
                                              "Engine", ">Workers", ">Test accuracy", NULL};
        table_begin(html, "Run folders", NULL, headers);
        for (size_t i = 0; i < experiment->trial_count; i++) {
            const struct run *run = &experiment->trials[i].runs[0];
            table_row(html, NULL, "%s", experiment->modes[i].label);
            table_text(html, "%s", run->path);
            table_text(html, "%s", run->result);
            table_text(html, "%s", run->version);
            table_text(html, "%s", run->engine);
            table_number(html, (double)run->worker_count, 0);
            table_number(html, run->test_accuracy, 4);
            table_row_end(html);
        }
        table_end(html);
        return;
    }
    put_command(html, mst_json_at(experiment->json, "command", NULL));
    put_nodes(html, mst_json_at(experiment->json, "machine", "nodes", NULL));
    html_raw(html, "<dl class=\"setting\">");
    put_members(html, mst_json_at(experiment->json, "asked", NULL));
    if (cJSON_IsObject(limits)) {
        html_element(html, "dt", "limits of each worker");
        html_raw(html, "<dd>");
        put_value(html, limits);
        html_raw(html, "</dd>\n");
    }
    html_raw(html, "</dl>\n");
}
