/* SPDX-License-Identifier: Apache-2.0 */
/* Stack files on the command line: read, with variables filled in from the Swarm. */
#include "cli.h"
#include "muster/cleanup.h"
#include "plain.h"
#include "values.h"

#include <string.h>
#include <unistd.h>

#define WORKERS_DEFAULT 3

/* MUSTER_WORKERS decides how many replicas each node gets, wherever it was set. */
static int wanted_workers(const struct cli_common *common, uint32_t *ret_workers, struct mst_error *err)
{
    const char *text = variables_find("MUSTER_WORKERS", common->given, (const char *const *)environ, NULL);
    uint32_t min = 0, max = UINT32_MAX;

    if (text && text[0] != '\0' && values_parse_workers(text, &min, &max, err) < 0)
        return mst_error_wrap(err, -EINVAL, "variable MUSTER_WORKERS");
    *ret_workers = min > WORKERS_DEFAULT ? min : max < WORKERS_DEFAULT ? max : WORKERS_DEFAULT;
    return 0;
}

static int fill_variables(const struct cli_common *common, struct session *session, const char *stack,
                          struct variables *variables, bool *ret_is_input, struct mst_error *err)
{
    mst_cleanup(swarm_nodes_release) struct swarm_nodes nodes = {0};
    struct engine_info info;
    uint32_t workers;
    int r = wanted_workers(common, &workers, err);

    if (r < 0)
        return r;
    if (!session)
        return variables_fill(stack, NULL, NULL, workers, variables, err);
    *ret_is_input = false;
    r = session_info(session, &info, err);
    /* What is no manager cannot list nodes; the plan says so in better words. */
    if (r >= 0 && info.is_manager)
        r = swarm_nodes_load(session->engine, &nodes, err);
    if (r < 0)
        return r;
    *ret_is_input = true;
    return variables_fill(stack, info.name, info.is_manager ? &nodes : NULL, workers, variables, err);
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

static void print_warning(const char *warning)
{
    mst_cleanup(mst_freep) char *text = strdup(warning);

    if (!text)
        return;
    plain_text(text); /* keys and values of a file stand in it */
    (void)fprintf(stderr, "muster: warning: %s\n", text);
}

/* Before the engine is asked: a name that was mistyped is the commonest fault. */
static int check_files(const struct cli_common *common, struct mst_error *err)
{
    for (size_t i = 0; i < common->file_count; i++) {
        if (strcmp(common->files[i], "-") != 0 && access(common->files[i], R_OK) < 0)
            return mst_error_errno(err, -errno, "open '%s'", common->files[i]);
    }
    return 0;
}

/* *ret_is_input: a failure is one of the input. */
static int load(const struct cli_common *common, struct session *session, const char *stack,
                struct cli_project *work, bool *ret_is_input, struct mst_error *err)
{
    mst_cleanup(mst_freep) bool *is_used = calloc(common->given_count + 1, sizeof *is_used);
    struct compose_options options = {
        .files = common->files,
        .file_count = common->file_count,
        .stack = stack,
        .given = common->given,
        .given_used = is_used,
        .environment = (const char *const *)environ,
        .env_files = common->env_files,
        .env_file_count = common->env_file_count,
        .strict = common->is_strict,
    };
    int r = stack ? compose_stack_name_check(stack, err) : 0;

    *ret_is_input = true;
    if (!is_used)
        return mst_error_set(err, -ENOMEM, "read the stack file: no memory");
    if (r >= 0)
        r = check_files(common, err);
    if (r >= 0 && stack)
        r = fill_variables(common, session, stack, &work->variables, ret_is_input, err);
    if (r < 0)
        return r;
    options.fallback = (const char *const *)work->variables.items;
    r = compose_project_load(&options, &work->project, err);
    if (r < 0)
        return r;
    if (session && work->project->service_count == 0)
        return mst_error_set(err, -EBADMSG, "%s: no services: there is nothing to deploy", common->files[0]);
    for (size_t i = 0; i < work->project->env_files.count; i++)
        (void)fprintf(stderr, "muster: variables from '%s'\n", work->project->env_files.items[i]);
    for (size_t i = 0; i < work->project->warnings.count; i++)
        print_warning(work->project->warnings.items[i]);
    warn_unused((const char *const *)common->given, is_used);
    return session ? values_check_project(work->project, err) : 0;
}

int cli_project_read(const struct cli_common *common, const char *stack, struct cli_project *work,
                     struct mst_error *err)
{
    bool is_input;

    return load(common, NULL, stack, work, &is_input, err);
}

void cli_project_release(struct cli_project *work)
{
    compose_project_freep(&work->project);
    variables_release(&work->variables);
}

int cli_project_open(const struct cli_common *common, const char *stack, struct cli_project *work)
{
    struct mst_error err = MST_ERROR_INIT;
    bool is_input = false;
    int r = session_open(&work->session, common->host, common->context, &err);

    if (r >= 0)
        r = load(common, &work->session, stack, work, &is_input, &err);
    if (r < 0 && is_input) {
        session_close(&work->session);
        cli_project_release(work);
        return cli_usage(&err);
    }
    if (r >= 0)
        r = session_catch_signals(&work->session, &err);
    return r < 0 ? cli_project_end(work, r, &err) : 0;
}

int cli_project_end(struct cli_project *work, int code, const struct mst_error *err)
{
    cli_project_release(work);
    return cli_end(&work->session, code, err);
}

int cli_project_ship(const struct cli_common *common, struct cli_project *work, struct ship *ret_ship,
                     struct mst_error *err)
{
    mst_cleanup(nodesfile_release) struct nodesfile file = {0};
    int r;

    *ret_ship = (struct ship){0};
    if (!common->ship)
        return 0;
    if (!common->nodes_file)
        return mst_error_set(err, -EINVAL, "option '--ship' needs '--nodes-file' (or MUSTER_NODES_FILE)");
    r = nodesfile_read(common->nodes_file, &file, err);
    return r < 0 ? r : ship_images(&work->session, work->project, &file, common->dry_run, ret_ship, err);
}
