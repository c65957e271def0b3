/* SPDX-License-Identifier: Apache-2.0 */
/* muster rm */
#include "cli.h"
#include "muster/cleanup.h"
#include "remove.h"

static const struct mst_option table[] = {
    CLI_TIMEOUT_OPTION("2m", "give up when a stack is not gone by then"),
    CLI_COMMON_OPTIONS,
};

static const struct mst_options options = {
    .program = "muster",
    .verb = "rm",
    .synopsis = "[options] STACK...",
    .about = "Remove stacks: services, and when their tasks have ended secrets, configs and networks. "
             "Returns when all\n"
             "is gone. Volumes stay.",
    .table = table,
    .count = MST_ARRAY_COUNT(table),
};

int verb_rm(int argc, char **argv)
{
    struct cli_common common = {0};
    struct mst_error err = MST_ERROR_INIT;
    struct session session;
    int status, r = 0;
    const int first = cli_begin(&options, argc, argv, &common, 1, -1, &status);

    if (first < 0)
        return status;
    for (int i = first; i < argc; i++) {
        if (compose_stack_name_check(argv[i], &err) < 0)
            return cli_usage(&err);
    }
    status = cli_open(&common, &session);
    if (status != 0)
        return status;
    for (int i = first; i < argc && r >= 0; i++) {
        bool is_found = false;
        r = remove_stack(&session, argv[i], false, cli_deadline_ns(&common), &is_found, &err);
        if (r >= 0 && !is_found)
            report_line(&session.report, "nothing found in stack '%s'", argv[i]);
    }
    return cli_end(&session, r, &err);
}
