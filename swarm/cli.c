/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/parse.h"
#include "signals.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#define WORKERS_DEFAULT 3
#define WORKERS_MAX     1024

int swarm_exit_status(int code, int signal_number)
{
    switch (code) {
    case -ECANCELED:
        return signal_number == SIGTERM ? MST_EXIT_TERMINATED : MST_EXIT_INTERRUPTED;
    case SWARM_ROLLED_BACK:
        return MST_EXIT_ROLLED_BACK;
    case SWARM_NO_CONVERGENCE:
        return MST_EXIT_NO_CONVERGENCE;
    case SWARM_WORKER_FAILED:
        return MST_EXIT_WORKER_FAILED;
    default:
        return mst_exit_status(code);
    }
}

int cli_set_host(void *settings, const char *text, struct mst_error *err)
{
    struct cli_common *common = settings;

    (void)err;
    common->host = text;
    return 0;
}

int cli_set_verbose(void *settings, const char *text, struct mst_error *err)
{
    struct cli_common *common = settings;

    return mst_parse_bool(text, &common->is_verbose, err);
}

int cli_set_log_format(void *settings, const char *text, struct mst_error *err)
{
    struct cli_common *common = settings;

    if (strcmp(text, "text") != 0 && strcmp(text, "json") != 0)
        return mst_error_set(err, -EINVAL, "'%s' is neither text nor json", text);
    common->log_format = strcmp(text, "json") == 0 ? MST_LOG_JSON : MST_LOG_TEXT;
    return 0;
}

int cli_set_format(void *settings, const char *text, struct mst_error *err)
{
    struct cli_common *common = settings;

    return output_parse_format(text, &common->format, err);
}

int cli_set_file(void *settings, const char *text, struct mst_error *err)
{
    struct cli_common *common = settings;

    if (common->file_count >= CLI_FILES_MAX)
        return mst_error_set(err, -EINVAL, "at most %d files", CLI_FILES_MAX);
    common->files[common->file_count++] = text;
    return 0;
}

int cli_set_variable(void *settings, const char *text, struct mst_error *err)
{
    struct cli_common *common = settings;
    size_t at = 0;

    if (variables_check(text, err) < 0)
        return -EINVAL;
    /* Of one name the last counts, as with every other option. */
    while (at < common->given_count && strncmp(common->given[at], text, strcspn(text, "=") + 1) != 0)
        at++;
    if (at >= CLI_VARIABLES_MAX)
        return mst_error_set(err, -EINVAL, "at most %d variables", CLI_VARIABLES_MAX);
    common->given[at] = text;
    common->given_count += at == common->given_count;
    return 0;
}

int cli_set_strict(void *settings, const char *text, struct mst_error *err)
{
    struct cli_common *common = settings;

    return mst_parse_bool(text, &common->is_strict, err);
}

int cli_set_timeout(void *settings, const char *text, struct mst_error *err)
{
    struct cli_common *common = settings;

    return mst_parse_duration_ns(text, &common->timeout_ns, err);
}

int cli_usage(const struct mst_error *err)
{
    return mst_fail(MST_EXIT_USAGE, err);
}

int cli_begin(const struct mst_options *options, int argc, char **argv, struct cli_common *common,
              int min_operands, int max_operands, int *ret_status)
{
    struct mst_error err = MST_ERROR_INIT;
    int first = argc;
    const int r = mst_options_parse(options, argc, argv, common, &first, &err);

    if (r != 0) {
        *ret_status = r > 0 ? MST_EXIT_DONE : cli_usage(&err);
        return -1;
    }
    mst_log_init("muster", common->is_verbose ? MST_LOG_DEBUG : MST_LOG_INFO, common->log_format);
    if (argc - first < min_operands || (max_operands >= 0 && argc - first > max_operands)) {
        (void)mst_error_set(&err, -EINVAL, "%s: usage: muster %s %s",
                            argc - first < min_operands ? "too few arguments" : "too many arguments",
                            options->verb, options->synopsis);
        *ret_status = cli_usage(&err);
        return -1;
    }
    return first;
}

int cli_open(const struct cli_common *common, struct session *session)
{
    struct mst_error err = MST_ERROR_INIT;
    int cancel_fd = -1, r = signals_install(&cancel_fd, &err);

    *session = (struct session){0}; /* cli_end() closes it whatever failed */
    if (r >= 0)
        r = session_open(session, common->host, cancel_fd, &err);
    return r < 0 ? cli_end(session, r, &err) : 0;
}

int cli_end(struct session *session, int code, const struct mst_error *err)
{
    static const struct mst_error interrupted = {.code = -ECANCELED, .text = "interrupted"};

    if (session)
        session_close(session);
    if (code == -ECANCELED)
        err = &interrupted; /* what was waited for just then says nothing to the operator */
    return code < 0 ? mst_fail(swarm_exit_status(code, signals_caught()), err) : MST_EXIT_DONE;
}

uint64_t cli_deadline_ns(const struct cli_common *common)
{
    return mst_now_ns() + common->timeout_ns;
}

/* MUSTER_WORKERS decides how many replicas each node gets, wherever it was set. */
static int wanted_workers(const struct cli_common *common, uint32_t *ret_workers, struct mst_error *err)
{
    const char *text = variables_find("MUSTER_WORKERS", common->given, (const char *const *)environ, NULL);

    *ret_workers = WORKERS_DEFAULT;
    if (!text || text[0] == '\0')
        return 0;
    return mst_parse_u32(text, 1, WORKERS_MAX, ret_workers, err) < 0
               ? mst_error_wrap(err, -EINVAL, "variable MUSTER_WORKERS")
               : 0;
}

static int fill_variables(const struct cli_common *common, struct session *session, const char *stack,
                          struct variables *ret_variables, bool *ret_is_input, struct mst_error *err)
{
    mst_cleanup(swarm_nodes_release) struct swarm_nodes nodes = {0};
    struct engine_info info;
    uint32_t workers;
    int r = wanted_workers(common, &workers, err);

    if (r < 0)
        return r;
    if (!session)
        return variables_fill(stack, NULL, NULL, workers, ret_variables, err);
    *ret_is_input = false;
    r = engine_info(session->engine, &info, err);
    /* What is no manager cannot list nodes; the plan says so in better words. */
    if (r >= 0 && info.is_manager)
        r = swarm_nodes_load(session->engine, &nodes, err);
    if (r < 0)
        return r;
    *ret_is_input = true;
    return variables_fill(stack, info.name, info.is_manager ? &nodes : NULL, workers, ret_variables, err);
}

/* A misspelt variable changes nothing, and a whole training shows it only at its end. */
static void warn_unused(const char *const *given, const bool *is_used)
{
    for (size_t i = 0; given[i]; i++)
        if (!is_used[i])
            (void)fprintf(stderr,
                          "muster: warning: no stack file uses the variable '%.*s' (option '--set')\n",
                          (int)strcspn(given[i], "="), given[i]);
}

int cli_load_project(const struct cli_common *common, struct session *session, const char *stack,
                     struct variables *ret_variables, struct compose_project **ret_project,
                     bool *ret_is_input, struct mst_error *err)
{
    struct compose_options options = {
        .files = common->files,
        .file_count = common->file_count,
        .stack = stack,
        .given = common->given,
        .environment = (const char *const *)environ,
        .strict = common->is_strict,
    };
    size_t given_count = 0;
    int r = stack ? compose_stack_name_check(stack, err) : 0;

    *ret_is_input = true;
    while (common->given[given_count])
        given_count++;
    mst_cleanup(mst_freep) bool *is_used = calloc(given_count + 1, sizeof *is_used);
    if (!is_used)
        return mst_error_set(err, -ENOMEM, "read the stack file: no memory");
    options.given_used = is_used;
    if (r >= 0 && stack)
        r = fill_variables(common, session, stack, ret_variables, ret_is_input, err);
    if (r < 0)
        return r;
    options.fallback = (const char *const *)ret_variables->items;
    r = compose_project_load(&options, ret_project, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < (*ret_project)->warnings.count; i++)
        (void)fprintf(stderr, "muster: warning: %s\n", (*ret_project)->warnings.items[i]);
    if (given_count > 0)
        warn_unused((const char *const *)common->given, is_used);
    return 0;
}
