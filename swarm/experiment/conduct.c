/* SPDX-License-Identifier: Apache-2.0 */
#include "experiment/conduct.h"

#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/digest.h"
#include "muster/experiment.h"
#include "muster/file.h"
#include "muster/json.h"
#include "muster/signals.h"
#include "runfolder.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PARENT_FOLDER "experiments"

/* ---- the stacks ---- */

/* "compose/stacks/workload1.yml": workload1. */
static int name_stack(const char *file, char name[STACK_NAME_BYTES], struct mst_error *err)
{
    const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file;
    const char *dot = strrchr(base, '.');

    if (strcmp(file, "-") == 0)
        return mst_error_set(err, -EINVAL,
                             "option '--compose-file': stdin cannot be read again for each run");
    (void)snprintf(name, STACK_NAME_BYTES, "%.*s",
                   dot && dot > base ? (int)(dot - base) : STACK_NAME_BYTES - 1, base);
    return compose_stack_name_check(name, err);
}

static unsigned most_workloads(const struct conduct_options *options)
{
    unsigned most = 0;

    for (size_t i = 0; i < options->workloads_count; i++)
        most = options->workloads[i] > most ? options->workloads[i] : most;
    return most;
}

static int check_options(const struct conduct_options *options, struct mst_error *err)
{
    const unsigned most = most_workloads(options);
    bool has_bare = false;

    for (size_t i = 0; i < options->mode_count; i++)
        has_bare |= options->modes[i].kind == CONDUCT_PROCESS;
    if (options->common->file_count != most)
        return mst_error_set(err, -EINVAL, "%zu stack files (-c) for %u workloads: one for each",
                             options->common->file_count, most);
    if (conduct_needs_hosts(options) && !options->subnet)
        return mst_error_set(
            err, -EINVAL,
            "option '--subnet' is needed: on the hosts' own network workers search each other "
            "only where they are told to");
    if (has_bare && !options->data)
        return mst_error_set(
            err, -EINVAL,
            "option '--data' is needed: bare workers are given their data set from this machine");
    if (options->host_folder[0] != '/')
        return mst_error_set(err, -EINVAL, "option '--host-folder': '%s' is no absolute path",
                             options->host_folder);
    return 0;
}

/* 0, or the exit status with the reason printed when `ret_is_told`. */
static int open_stack(struct conduct *conduct, size_t index, bool *ret_is_told, struct mst_error *err)
{
    struct cli_common *common = &conduct->file_common[index];
    struct cli_project *work = &conduct->work[index];
    int r = name_stack(conduct->options->common->files[index], conduct->stacks[index], err);

    if (r < 0)
        return r;
    *common = *conduct->options->common;
    common->files[0] = conduct->options->common->files[index];
    common->file_count = 1;
    if (conduct_needs_engine(conduct->options)) {
        *ret_is_told = cli_project_open(common, conduct->stacks[index], work) != 0;
        if (*ret_is_told)
            return -EINVAL;
        /* Of several the newest hears signals, and the others' ends are closed: all listen to it. */
        conduct->signal_fd = work->session.signal_fd;
        for (size_t i = 0; i <= index; i++)
            engine_set_cancel_fd(conduct->work[i].session.engine, conduct->signal_fd);
    } else {
        work->session.signal_fd = -1;
        r = cli_project_read(common, conduct->stacks[index], work, err);
        if (r < 0)
            return r;
    }
    conduct->job_count = index + 1;
    return job_read(work->project, &conduct->jobs[index], err);
}

/* Two at once: what holds for the first is what is looked at and recorded for both. */
static int check_stacks(const struct conduct *conduct, struct mst_error *err)
{
    if (conduct->job_count < 2)
        return 0;
    if (strcmp(conduct->stacks[0], conduct->stacks[1]) == 0)
        return mst_error_set(
            err, -EINVAL, "'%s' and '%s' are both named '%s': two stacks at once need two names",
            conduct->options->common->files[0], conduct->options->common->files[1], conduct->stacks[0]);
    return job_limits_equal(&conduct->jobs[0].workers[0].limits, &conduct->jobs[1].workers[0].limits)
               ? 0
               : mst_error_set(err, -EBADMSG,
                               "the workers of '%s' and '%s' have different limits: times would not compare",
                               conduct->stacks[0], conduct->stacks[1]);
}

static void list_hosts(struct conduct *conduct)
{
    for (size_t j = 0; j < conduct->job_count; j++) {
        for (size_t i = 0; i < conduct->jobs[j].worker_count; i++) {
            const char *host = conduct->jobs[j].workers[i].host;
            bool is_there = false;
            for (size_t h = 0; h < conduct->host_count; h++)
                is_there |= strcmp(conduct->hosts[h], host) == 0;
            if (!is_there && conduct->host_count < CONDUCT_HOSTS_MAX)
                conduct->hosts[conduct->host_count++] = host;
        }
    }
}

static unsigned workers_a_host(const struct conduct *conduct)
{
    unsigned most = 0;

    for (size_t h = 0; h < conduct->host_count; h++) {
        unsigned count = 0;
        for (size_t j = 0; j < conduct->job_count; j++) {
            for (size_t i = 0; i < conduct->jobs[j].worker_count; i++)
                count += strcmp(conduct->jobs[j].workers[i].host, conduct->hosts[h]) == 0;
        }
        most = count > most ? count : most;
    }
    return most;
}

/* ---- checks ---- */

static int check_swarm(struct conduct *conduct, struct mst_error *err)
{
    mst_cleanup(swarm_nodes_release) struct swarm_nodes nodes = {0};
    int r;

    if (!conduct_needs_engine(conduct->options))
        return 0;
    r = swarm_nodes_load(conduct->work[0].session.engine, &nodes, err);
    for (size_t h = 0; h < conduct->host_count && r >= 0; h++) {
        bool is_ready = false;
        for (size_t i = 0; i < nodes.count; i++)
            is_ready |= nodes.items[i].is_usable && strcmp(nodes.items[i].hostname, conduct->hosts[h]) == 0;
        if (!is_ready)
            r = mst_error_set(err, -EHOSTDOWN, "host '%s' is no ready, active node of the Swarm",
                              conduct->hosts[h]);
    }
    return r;
}

static int check_hosts(struct conduct *conduct, struct mst_error *err)
{
    struct checks_needs needs = {.limits = &conduct->jobs[0].workers[0].limits,
                                 .workers_a_host = workers_a_host(conduct),
                                 .muster = MUSTER_VERSION};
    const size_t known = conduct->warnings.count; /* of an experiment that goes on */
    int r = check_swarm(conduct, err);

    for (size_t i = 0; i < conduct->options->mode_count; i++) {
        needs.has_bare |= conduct->options->modes[i].kind == CONDUCT_PROCESS;
        needs.has_encrypted |= conduct->options->modes[i].network == CONDUCT_NETWORK_ENCRYPTED;
    }
    if (r < 0 || (!conduct_needs_hosts(conduct->options) && !needs.has_encrypted))
        return r;
    report_line(&conduct->report, "looking at %zu hosts", conduct->host_count);
    r = conduct_hosts_look(conduct, err);
    if (r >= 0)
        r = checks_judge(conduct->looks, conduct->hosts, conduct->host_count, &needs, &conduct->warnings,
                         err);
    for (size_t i = known; i < conduct->warnings.count; i++)
        report_line(&conduct->report, "warning: %s", conduct->warnings.items[i]);
    return r;
}

/* ---- the folder ---- */

static int choose_folder(struct conduct *conduct, struct mst_error *err)
{
    mst_cleanup(mst_freep) char *name = NULL;
    int r;

    if (conduct->options->out) {
        conduct->out = strdup(conduct->options->out);
        for (size_t n = conduct->out ? strlen(conduct->out) : 0; n > 1 && conduct->out[n - 1] == '/'; n--)
            conduct->out[n - 1] = '\0';
    } else {
        r = runfolder_name(PARENT_FOLDER, conduct->options->name, mst_wall_s(), &name, err);
        if (r < 0)
            return r;
        conduct->out = mst_path_join(PARENT_FOLDER, name);
    }
    if (!conduct->out)
        return mst_error_set(err, -ENOMEM, "experiment: no memory");
    if (strlen(conduct->out) > CONDUCT_OUT_MAX_BYTES)
        return mst_error_set(err, -EINVAL, "option '--out': a path of %zu bytes, expected at most %d",
                             strlen(conduct->out), CONDUCT_OUT_MAX_BYTES);
    r = mst_make_folders(conduct->out, 0755, err);
    return r == -EINVAL ? -EIO : r;
}

static int choose_id(struct conduct *conduct, struct mst_error *err)
{
    unsigned char bytes[(sizeof conduct->id - 1) / 2];
    const int r = mst_random(bytes, sizeof bytes, err);

    if (r >= 0)
        mst_hex(bytes, sizeof bytes, conduct->id);
    return r;
}

static int find_self(struct conduct *conduct, struct mst_error *err)
{
    char path[4096];
    const ssize_t bytes = readlink("/proc/self/exe", path, sizeof path - 1);

    if (bytes < 0)
        return mst_error_errno(err, -errno, "find this program");
    path[bytes] = '\0';
    conduct->self = strdup(path);
    return conduct->self ? 0 : mst_error_set(err, -ENOMEM, "experiment: no memory");
}

static int begin(struct conduct *conduct, bool *ret_resumes, struct mst_error *err)
{
    int r = find_self(conduct, err);

    if (r >= 0 && conduct->options->data)
        r = conduct_data_list(conduct->options->data, &conduct->data, err);
    if (r >= 0)
        r = conduct_record_asked(conduct, &conduct->asked, err);
    if (r >= 0)
        r = choose_folder(conduct, err);
    if (r >= 0)
        r = choose_id(conduct, err);
    conduct->entries = cJSON_CreateArray();
    conduct->next_number = 1;
    conduct->started_s = mst_wall_s();
    mst_utc_text(conduct->started_s, conduct->started_text);
    if (r >= 0) {
        const char *exchange = job_variable(conduct->jobs[0].workers[0].service, "MUSTER_EXCHANGE");
        r = conduct_plan_make(conduct->options, exchange && exchange[0] ? exchange : "direct", &conduct->plan,
                              err);
    }
    if (r >= 0)
        r = conduct_record_resume(conduct, err);
    *ret_resumes = r > 0;
    conduct->host_folder = mst_format("%s/"
                                      "muster-compare-"
                                      "%s",
                                      conduct->options->host_folder, conduct->id);
    if (r >= 0 && (!conduct->entries || !conduct->host_folder))
        r = mst_error_set(err, -ENOMEM, "experiment: no memory");
    return r < 0 ? r : 0;
}

/* ---- the runs ---- */

static const char *left_text(double seconds, char *text, size_t bytes)
{
    if (!(seconds > 0))
        (void)snprintf(text, bytes, "how long is not known yet");
    else if (seconds < 90)
        (void)snprintf(text, bytes, "about %.0f s left", seconds);
    else
        (void)snprintf(text, bytes, "about %.0f min left", ceil(seconds / 60));
    return text;
}

static void say_begin(struct conduct *conduct, const struct conduct_cell *cell, double seconds_a_run)
{
    const size_t left = conduct_plan_left(&conduct->plan);
    char text[64], repeat[32];

    (void)snprintf(repeat, sizeof repeat, cell->is_warmup ? "warm-up" : "repeat %u of %u", cell->repeat,
                   conduct->options->repeats);
    report_line(&conduct->report, "run %zu of %zu: %s, %s, %u workload%s, %s; %s",
                conduct->plan.count - left + 1, conduct->plan.count,
                conduct->options->modes[cell->mode].label, cell->exchange, cell->workloads,
                cell->workloads > 1 ? "s at once" : "", repeat,
                left_text(seconds_a_run * (double)left, text, sizeof text));
}

/* The same training: the same model, to the bit, whatever it ran in. */
static void compare_models(struct conduct *conduct)
{
    const int count = cJSON_GetArraySize(conduct->entries);
    const cJSON *newest = cJSON_GetArrayItem(conduct->entries, count - 1), *entry;
    const char *digest = mst_json_string_or(newest, "digest", "");

    cJSON_ArrayForEach(entry, conduct->entries)
    {
        const char *other = mst_json_string_or(entry, "digest", "");
        if (entry == newest || digest[0] == '\0' || other[0] == '\0' ||
            strcmp(mst_json_string_or(entry, "series", ""), mst_json_string_or(newest, "series", "")) != 0)
            continue;
        if (strcmp(digest, other) != 0) {
            checks_warn(&conduct->warnings,
                        "run %.0f (%s) ended with another model than run %.0f (%s): not the same work",
                        mst_json_double_or(newest, "number", 0), mst_json_string_or(newest, "mode", ""),
                        mst_json_double_or(entry, "number", 0), mst_json_string_or(entry, "mode", ""));
            report_line(&conduct->report, "warning: %s",
                        conduct->warnings.items[conduct->warnings.count - 1]);
        }
        return;
    }
}

/* Again, until it succeeds or was tried often enough. */
static int carry_out(struct conduct *conduct, struct conduct_cell *cell, double *seconds, unsigned *runs,
                     struct mst_error *err)
{
    for (unsigned attempt = 1;; attempt++) {
        const uint64_t start_ns = mst_now_ns();
        int r;
        say_begin(conduct, cell, *runs > 0 ? *seconds / *runs : 0);
        r = conduct_turn(conduct, cell, err);
        if (r == -ECANCELED || r == -ENOMEM || r == -ENOSPC)
            return r;
        if (r >= 0) {
            const cJSON *entry =
                cJSON_GetArrayItem(conduct->entries, cJSON_GetArraySize(conduct->entries) - 1);
            *seconds += mst_ms_since(start_ns) / 1000;
            ++*runs;
            report_line(&conduct->report, "  done in %.1f s, %.1f ms a step", mst_ms_since(start_ns) / 1000,
                        mst_json_double_or(entry, "ms_per_step", 0));
            compare_models(conduct);
            return 0;
        }
        report_line(&conduct->report, "  failed (attempt %u of %u): %s", attempt, conduct->options->attempts,
                    err->text);
        cell->is_given_up = attempt == conduct->options->attempts;
        r = conduct_record_write(conduct, CONDUCT_UNFINISHED, NULL, cell->is_given_up ? NULL : err);
        if (r < 0)
            return r;
        if (cell->is_given_up)
            return SWARM_WORKER_FAILED;
    }
}

static int carry_out_all(struct conduct *conduct, struct mst_error *err)
{
    size_t failed = 0;
    double seconds = 0;
    unsigned runs = 0;

    for (size_t i = 0; i < conduct->plan.count; i++) {
        struct conduct_cell *cell = &conduct->plan.cells[i];
        int r;
        if (cell->is_complete)
            continue;
        r = carry_out(conduct, cell, &seconds, &runs, err);
        /* A warm-up that does not succeed shows what would happen to all the others. */
        if (r < 0 && (r != SWARM_WORKER_FAILED || cell->is_warmup))
            return r;
        failed += r < 0;
        if (r >= 0)
            r = conduct_record_write(conduct, CONDUCT_UNFINISHED, NULL, err);
        if (r < 0 && r != SWARM_WORKER_FAILED)
            return r;
    }
    return failed > 0
               ? mst_error_set(err, SWARM_WORKER_FAILED, "%zu of %zu runs failed; '%s' has their reasons",
                               failed, conduct->plan.count, conduct->out)
               : 0;
}

/* The numbers are safe; a page that cannot be made is made later, by `muster report`. */
static int make_report(struct conduct *conduct, struct mst_error *err)
{
    mst_cleanup(report_result_release) struct report_result result = {0};
    mst_cleanup(mst_freep) char *text = NULL;
    const struct report_options options = {0};
    const char *const folders[] = {conduct->out};
    struct mst_error why = MST_ERROR_INIT;
    int r = report_make(folders, 1, &options, &result, &why);

    if (r < 0) {
        report_line(&conduct->report, "warning: no report ('muster report %s'): %s", conduct->out, why.text);
        return 0;
    }
    text = mst_format("%s%s%s\n", result.left_out, result.summary, result.page);
    r = text ? mst_write_all(STDOUT_FILENO, text, strlen(text)) : -ENOMEM;
    return r < 0 ? output_failed(r, err) : 0;
}

/* ---- all of it ---- */

static void release(struct conduct *conduct)
{
    for (size_t i = 0; i < CONDUCT_WORKLOADS_MAX; i++) {
        cli_project_release(&conduct->work[i]);
        if (conduct->work[i].session.engine)
            session_close(&conduct->work[i].session);
    }
    conduct_plan_release(&conduct->plan);
    checks_warnings_release(&conduct->warnings);
    report_release(&conduct->report);
    cJSON_Delete(conduct->data);
    cJSON_Delete(conduct->entries);
    cJSON_Delete(conduct->asked);
    free(conduct->out);
    free(conduct->self);
    free(conduct->host_folder);
    free(conduct);
}

static int finish(struct conduct *conduct, int code, struct mst_error *err)
{
    const enum conduct_state state = code >= 0            ? CONDUCT_COMPLETE
                                     : code == -ECANCELED ? CONDUCT_INTERRUPTED
                                                          : CONDUCT_FAILED;
    struct mst_error later = MST_ERROR_INIT;
    int r;

    if (conduct_needs_hosts(conduct->options) && conduct_hosts_remove(conduct, &later) < 0)
        report_line(&conduct->report, "warning: %s", later.text);
    r = conduct_record_write(conduct, state, code < 0 ? err->text : NULL, code < 0 ? &later : err);
    if (r < 0 && code < 0)
        report_line(&conduct->report, "warning: %s", later.text);
    if (code == -ECANCELED)
        report_line(&conduct->report, "interrupted: 'muster compare --resume %s' goes on", conduct->out);
    if (r >= 0 && (code >= 0 || code == SWARM_WORKER_FAILED))
        r = make_report(conduct, code < 0 ? &later : err);
    return code < 0 ? code : r;
}

static int conduct_all(struct conduct *conduct, bool *ret_is_told, struct mst_error *err)
{
    static const int caught[] = {SIGINT, SIGTERM};
    bool resumes = false;
    int r = check_options(conduct->options, err);

    for (unsigned w = 0; w < most_workloads(conduct->options) && r >= 0; w++)
        r = open_stack(conduct, w, ret_is_told, err);
    if (r >= 0)
        r = check_stacks(conduct, err);
    if (r >= 0 && conduct->signal_fd < 0)
        r = mst_signals_open(caught, MST_ARRAY_COUNT(caught), &conduct->signal_fd, err);
    if (r >= 0)
        list_hosts(conduct);
    if (r >= 0)
        r = begin(conduct, &resumes, err);
    if (r >= 0)
        r = check_hosts(conduct, err);
    if (r < 0) {
        if (conduct->out)
            (void)rmdir(conduct->out); /* fails when something is in it, as it should */
        return r;
    }
    if (resumes)
        report_line(&conduct->report, "going on with '%s': %zu of %zu runs are complete", conduct->out,
                    conduct->plan.count - conduct_plan_left(&conduct->plan), conduct->plan.count);
    r = conduct_record_write(conduct, CONDUCT_UNFINISHED, NULL, err);
    if (r >= 0 && conduct_needs_hosts(conduct->options))
        r = conduct_hosts_prepare(conduct, err);
    if (r >= 0)
        r = carry_out_all(conduct, err);
    return finish(conduct, r, err);
}

int conduct_experiment(const struct conduct_options *options, struct mst_error *err)
{
    struct conduct *conduct = calloc(1, sizeof *conduct);
    bool is_told = false;
    int r;

    if (!conduct)
        return mst_error_set(err, -ENOMEM, "experiment: no memory");
    conduct->options = options;
    conduct->signal_fd = -1;
    report_init(&conduct->report, stderr);
    r = conduct_all(conduct, &is_told, err);
    if (is_told)
        err->text[0] = '\0';
    release(conduct);
    return r;
}
