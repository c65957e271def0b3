/* SPDX-License-Identifier: Apache-2.0 */
/* muster run */
#include "cli.h"
#include "muster/cleanup.h"
#include "muster/parse.h"
#include "run.h"

#include <unistd.h>

struct run_settings {
    struct cli_common common;
    struct run_options run;
};

static int set_out(void *settings, const char *text, struct mst_error *err)
{
    (void)err;
    ((struct run_settings *)settings)->run.out = text;
    return 0;
}

static int set_leave(void *settings, const char *text, struct mst_error *err)
{
    return mst_parse_bool(text, &((struct run_settings *)settings)->run.leave, err);
}

static int set_resolve(void *settings, const char *text, struct mst_error *err)
{
    return image_parse_resolve(text, &((struct run_settings *)settings)->run.resolve, err);
}

static const struct mst_option table[] = {
    CLI_FILE_OPTIONS,
    {.name = "out",
     .letter = 'o',
     .argument = "FOLDER",
     .env = "MUSTER_RUNS",
     .fallback = "runs",
     .set = set_out,
     .help = "where the run folder <UTC time>-STACK is made"},
    {.name = "leave",
     .kind = MST_OPT_FLAG,
     .env = "MUSTER_LEAVE",
     .set = set_leave,
     .help = "do not remove the stack at the end, nor after Ctrl-C"},
    {.name = "resolve-image",
     .argument = "always|changed|never",
     .env = "MUSTER_RESOLVE_IMAGE",
     .fallback = "always",
     .set = set_resolve,
     .help = "ask the registry for the images' digests"},
    CLI_TIMEOUT_OPTION("24h", "give up when the workers are not done by then"),
    CLI_COMMON_OPTIONS,
};

static const struct mst_options options = {
    .program = "muster",
    .verb = "run",
    .synopsis = "[options] -c FILE... STACK",
    .about = "Deploy a training stack, follow its workers, collect their files into a run folder, print a "
             "summary and\n"
             "remove the stack. Variables of the file that nobody set are filled in: MUSTER_STACK, "
             "MUSTER_MANAGER,\n"
             "MUSTER_NODE1 to 3 (ready nodes), MUSTER_REPLICAS1 to 3 (MUSTER_WORKERS spread over them).",
    .table = table,
    .count = MST_ARRAY_COUNT(table),
};

int verb_run(int argc, char **argv)
{
    mst_cleanup(compose_project_freep) struct compose_project *project = NULL;
    mst_cleanup(variables_release) struct variables variables = {0};
    struct run_settings settings = {0};
    struct mst_error err = MST_ERROR_INIT;
    struct session session;
    bool is_input;
    int status, r;
    const int first = cli_begin(&options, argc, argv, &settings.common, 1, 1, &status);

    if (first < 0)
        return status;
    status = cli_open(&settings.common, &session);
    if (status != 0)
        return status;
    r = cli_load_project(&settings.common, &session, argv[first], &variables, &project, &is_input, &err);
    if (r < 0 && is_input) {
        session_close(&session);
        return cli_usage(&err);
    }
    settings.run.timeout_ns = settings.common.timeout_ns;
    settings.run.given = settings.common.given;
    settings.run.environment = (const char *const *)environ;
    settings.run.filled = (const char *const *)variables.items;
    if (r >= 0)
        r = run_stack(&session, project, &settings.run, &err);
    return cli_end(&session, r, &err);
}
