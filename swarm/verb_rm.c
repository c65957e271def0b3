/* SPDX-License-Identifier: Apache-2.0 */
/* muster rm */
#include "cli.h"
#include "live.h"
#include "muster/cleanup.h"
#include "remove.h"

static const struct mst_option table[] = {
    CLI_DRY_RUN_OPTION("list what would be removed, and remove nothing"),
    CLI_FORMAT_OPTION_OF("form of the list of --dry-run"),
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

/* In the order in which they would go. */
static int show(struct session *session, char *const *stacks, size_t count, enum output_format format,
                struct mst_error *err)
{
    static const struct output_column columns[] = {{"stack", "STACK"}, {"kind", "KIND"}, {"name", "NAME"}};
    mst_cleanup(output_release) struct output output = {0};
    int r = output_init(&output, format, columns, MST_ARRAY_COUNT(columns), err);

    for (size_t s = 0; s < count && r >= 0; s++) {
        mst_cleanup(live_release) struct live live = {0};
        r = live_load(session->engine, stacks[s], &live, err);
        const struct {
            enum engine_kind kind;
            const cJSON *list;
        } parts[] = {{ENGINE_SERVICE, live.services},
                     {ENGINE_SECRET, live.secrets},
                     {ENGINE_CONFIG, live.configs},
                     {ENGINE_NETWORK, live.networks}};
        for (size_t p = 0; p < MST_ARRAY_COUNT(parts); p++) {
            const cJSON *object;
            cJSON_ArrayForEach(object, parts[p].list)
            {
                output_text(&output, "%s", stacks[s]);
                output_text(&output, "%s", engine_kind_text(parts[p].kind));
                output_text(&output, "%s", live_name(object, parts[p].kind));
            }
        }
    }
    return r < 0 ? r : output_print(&output, err);
}

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
    if (common.dry_run)
        return cli_end(&session, show(&session, argv + first, (size_t)(argc - first), common.format, &err),
                       &err);
    for (int i = first; i < argc && r >= 0; i++) {
        bool is_found = false;
        r = remove_stack(&session, argv[i], false, cli_deadline_ns(&common), &is_found, &err);
        if (r >= 0 && !is_found)
            report_line(&session.report, "nothing found in stack '%s'", argv[i]);
    }
    return cli_end(&session, r, &err);
}
