/* SPDX-License-Identifier: Apache-2.0 */
/* muster plan */
#include "cli.h"
#include "muster/cleanup.h"
#include "muster/parse.h"
#include "plan.h"

struct plan_settings {
    struct cli_common common;
    bool ask_secrets;
};

CLI_SET_FLAG(set_ask_secrets, struct plan_settings, ask_secrets)

static const struct mst_option table[] = {
    CLI_FILE_OPTIONS,
    CLI_PRUNE_OPTION("show what deploy --prune would remove"),
    {.name = "ask-secrets",
     .kind = MST_OPT_FLAG,
     .env = "MUSTER_ASK_SECRETS",
     .set = set_ask_secrets,
     .help = "compare the contents of secrets, by updates that the manager refuses"},
    CLI_RESOLVE_OPTION,
    CLI_FORMAT_OPTION,
    CLI_COMMON_OPTIONS,
};

static const struct mst_options options = {
    .program = "muster",
    .verb = "plan",
    .synopsis = "[options] -c FILE... STACK",
    .about = "Show what deploy would create, change or remove, field by field, and write nothing.\n"
             "Exit status 0: nothing to do; 10: something is.",
    .table = table,
    .count = MST_ARRAY_COUNT(table),
};

int verb_plan(int argc, char **argv)
{
    mst_cleanup(plan_release) struct plan plan = {0};
    struct plan_settings settings = {0};
    struct cli_project work = {0};
    struct mst_error err = MST_ERROR_INIT;
    int status, r;
    const int first = cli_begin(&options, argc, argv, &settings.common, 1, 1, &status);

    if (first < 0)
        return status;
    status = cli_project_open(&settings.common, argv[first], &work);
    if (status != 0)
        return status;
    const struct plan_options how = {.resolve = settings.common.resolve,
                                     .prune = settings.common.prune,
                                     .ask_secrets = settings.ask_secrets};
    r = plan_make(&work.session, work.project, &how, &plan, &err);
    if (r >= 0)
        r = plan_print(&plan, settings.common.format, &err);
    const bool has_changes = plan_has_changes(&plan);
    status = cli_project_end(&work, r, &err);
    return status == MST_EXIT_DONE && has_changes ? MST_EXIT_CHANGES : status;
}
