/* SPDX-License-Identifier: Apache-2.0 */
/* muster plan */
#include "cli.h"
#include "muster/cleanup.h"
#include "plan.h"

static const struct mst_option table[] = {
    CLI_FILE_OPTIONS,   CLI_PRUNE_OPTION("show what deploy --prune would remove"),
    CLI_RESOLVE_OPTION, CLI_FORMAT_OPTION,
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
    struct cli_common common = {0};
    struct cli_project work = {0};
    struct mst_error err = MST_ERROR_INIT;
    int status, r;
    const int first = cli_begin(&options, argc, argv, &common, 1, 1, &status);

    if (first < 0)
        return status;
    status = cli_project_open(&common, argv[first], &work);
    if (status != 0)
        return status;
    r = plan_make(&work.session, work.project,
                  &(struct plan_options){.resolve = common.resolve, .prune = common.prune}, &plan, &err);
    if (r >= 0)
        r = plan_print(&plan, common.format, &err);
    const bool has_changes = plan_has_changes(&plan);
    status = cli_project_end(&work, r, &err);
    return status == MST_EXIT_DONE && has_changes ? MST_EXIT_CHANGES : status;
}
