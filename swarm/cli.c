/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/parse.h"
#include "muster/signals.h"
#include "plain.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

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
    case SWARM_READER_LEFT:
        return MST_EXIT_DONE;
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

int cli_set_context(void *settings, const char *text, struct mst_error *err)
{
    struct cli_common *common = settings;

    (void)err;
    common->context = text;
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

int cli_set_env_file(void *settings, const char *text, struct mst_error *err)
{
    struct cli_common *common = settings;

    if (common->env_file_count >= CLI_FILES_MAX)
        return mst_error_set(err, -EINVAL, "at most %d files", CLI_FILES_MAX);
    common->env_files[common->env_file_count++] = text;
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

int cli_set_prune(void *settings, const char *text, struct mst_error *err)
{
    struct cli_common *common = settings;

    return mst_parse_bool(text, &common->prune, err);
}

int cli_set_nodes_file(void *settings, const char *text, struct mst_error *err)
{
    struct cli_common *common = settings;

    (void)err;
    common->nodes_file = text;
    return 0;
}

int cli_set_ship(void *settings, const char *text, struct mst_error *err)
{
    struct cli_common *common = settings;

    return mst_parse_bool(text, &common->ship, err);
}

int cli_set_with_auth(void *settings, const char *text, struct mst_error *err)
{
    struct cli_common *common = settings;

    return mst_parse_bool(text, &common->with_auth, err);
}

int cli_set_dry_run(void *settings, const char *text, struct mst_error *err)
{
    struct cli_common *common = settings;

    return mst_parse_bool(text, &common->dry_run, err);
}

int cli_set_resolve(void *settings, const char *text, struct mst_error *err)
{
    struct cli_common *common = settings;

    return image_parse_resolve(text, &common->resolve, err);
}

/* What files, engines and containers said stands in it. */
static int fail(int exit_status, const struct mst_error *err)
{
    struct mst_error shown = *err;

    plain_text(shown.text);
    return mst_fail(exit_status, &shown);
}

int cli_usage(const struct mst_error *err)
{
    return fail(MST_EXIT_USAGE, err);
}

int cli_common_words(const char *argument)
{
    static const struct mst_option table[] = {CLI_COMMON_OPTIONS};

    for (size_t i = 0; i < MST_ARRAY_COUNT(table); i++) {
        const size_t bytes = strlen(table[i].name);
        const bool is_long =
                       strncmp(argument, "--", 2) == 0 && strncmp(argument + 2, table[i].name, bytes) == 0,
                   is_short = table[i].letter && argument[1] == table[i].letter;
        const char *rest = is_long ? argument + 2 + bytes : argument + 2;
        if ((is_long && (*rest == '\0' || *rest == '=')) || is_short)
            return table[i].kind == MST_OPT_FLAG || *rest != '\0' ? 1 : 2;
    }
    return 0;
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
    if (common->host && common->context) {
        (void)mst_error_set(&err, -EINVAL,
                            "a host (option '--host' or MUSTER_HOST) and a context (option '--context' or "
                            "MUSTER_CONTEXT): which of them?");
        *ret_status = cli_usage(&err);
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
    int r = session_open(session, common->host, common->context, &err);

    if (r >= 0)
        r = session_catch_signals(session, &err);
    return r < 0 ? cli_end(session, r, &err) : 0;
}

int cli_end(struct session *session, int code, const struct mst_error *err)
{
    static const struct mst_error interrupted = {.code = -ECANCELED, .text = "interrupted"};

    if (session)
        session_close(session);
    if (code == -ECANCELED)
        err = &interrupted; /* what was waited for just then says nothing to the operator */
    if (code >= 0 || code == SWARM_READER_LEFT)
        return MST_EXIT_DONE;
    return fail(swarm_exit_status(code, mst_signals_newest()), err);
}

uint64_t cli_deadline_ns(const struct cli_common *common)
{
    return mst_now_ns() + common->timeout_ns;
}
