/* SPDX-License-Identifier: Apache-2.0 */
/* muster run */
#include "cli.h"
#include "deploy.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/parse.h"
#include "run.h"
#include "runfolder.h"

#include <unistd.h>

struct run_settings {
    struct cli_common common;
    const char *out;
    bool leave;
};

static int set_out(void *settings, const char *text, struct mst_error *err)
{
    (void)err;
    ((struct run_settings *)settings)->out = text;
    return 0;
}

CLI_SET_FLAG(set_leave, struct run_settings, leave)

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
    CLI_RESOLVE_OPTION,
    CLI_AUTH_OPTION,
    CLI_SHIP_OPTIONS,
    CLI_DRY_RUN_OPTION("print what would be made, as plan does, and write nothing"),
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
             "MUSTER_NODE1 to 3 (ready nodes), MUSTER_REPLICAS1 to 3 (MUSTER_WORKERS spread over them), "
             "MUSTER_RUN (the\n"
             "run folder's name).",
    .table = table,
    .count = MST_ARRAY_COUNT(table),
};

int verb_run(int argc, char **argv)
{
    mst_cleanup(mst_freep) char *name = NULL;
    mst_cleanup(ship_release) struct ship ship = {0};
    struct run_settings settings = {0};
    struct cli_project work = {0};
    struct mst_error err = MST_ERROR_INIT;
    int status, r;
    const int first = cli_begin(&options, argc, argv, &settings.common, 1, 1, &status);

    if (first < 0)
        return status;
    if (compose_stack_name_check(argv[first], &err) < 0)
        return cli_usage(&err);
    /* Workers know their run by the folder's name, so it is chosen before the stack file is read. */
    r = runfolder_name(settings.out, argv[first], mst_wall_s(), &name, &err);
    if (r >= 0)
        r = variables_add(&work.variables, "MUSTER_RUN", name, &err);
    if (r < 0)
        return cli_end(NULL, r, &err);
    status = cli_project_open(&settings.common, argv[first], &work);
    if (status != 0)
        return status;
    r = cli_project_ship(&settings.common, &work, &ship, &err);
    if (r < 0)
        return cli_project_end(&work, r, &err);
    if (settings.common.dry_run) {
        const struct deploy_options deploy = {.resolve = settings.common.resolve, .local = &ship.local};
        r = deploy_show(&work.session, work.project, &deploy, OUTPUT_TABLE, &err);
        return cli_project_end(&work, r, &err);
    }
    const struct run_options run = {
        .out = settings.out,
        .name = name,
        .leave = settings.leave,
        .resolve = settings.common.resolve,
        .local = &ship.local,
        .with_auth = settings.common.with_auth,
        .timeout_ns = settings.common.timeout_ns,
        .given = settings.common.given,
        .environment = (const char *const *)environ,
        .filled = (const char *const *)work.variables.items,
    };
    r = run_stack(&work.session, work.project, &run, &err);
    return cli_project_end(&work, r, &err);
}
