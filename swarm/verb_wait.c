/* SPDX-License-Identifier: Apache-2.0 */
/* muster wait */
#include "cli.h"
#include "converge.h"
#include "live.h"
#include "muster/cleanup.h"
#include "muster/json.h"
#include "muster/parse.h"
#include "run.h"

struct wait_settings {
    struct cli_common common;
    bool complete;
};

CLI_SET_FLAG(set_complete, struct wait_settings, complete)

static const struct mst_option table[] = {
    {.name = "complete",
     .kind = MST_OPT_FLAG,
     .set = set_complete,
     .help = "wait until the training is done, and fail when it cannot go on"},
    CLI_TIMEOUT_OPTION("24h", "give up then"),
    CLI_COMMON_OPTIONS,
};

static const struct mst_options options = {
    .program = "muster",
    .verb = "wait",
    .synopsis = "[options] STACK",
    .about = "Wait until all services of a stack run as they should, or say why they never will.",
    .table = table,
    .count = MST_ARRAY_COUNT(table),
};

static int wait_converged(struct session *session, const char *stack, uint64_t deadline_ns,
                          struct mst_error *err)
{
    mst_cleanup(swarm_nodes_release) struct swarm_nodes nodes = {0};
    mst_cleanup(mst_json_deletep) cJSON *services = NULL;
    const struct converge_options converge = {.stack = stack, .deadline_ns = deadline_ns, .nodes = &nodes};
    int r = live_list(session->engine, ENGINE_SERVICE, stack, &services, err);

    if (r >= 0 && cJSON_GetArraySize(services) == 0)
        r = mst_error_set(err, -ENOENT, "nothing found in stack '%s'", stack);
    if (r >= 0)
        r = swarm_nodes_load(session->engine, &nodes, err);
    return r < 0 ? r : converge_wait(session, &converge, err);
}

int verb_wait(int argc, char **argv)
{
    struct wait_settings settings = {0};
    struct mst_error err = MST_ERROR_INIT;
    struct session session;
    int status, r;
    const int first = cli_begin(&options, argc, argv, &settings.common, 1, 1, &status);

    if (first < 0)
        return status;
    if (compose_stack_name_check(argv[first], &err) < 0)
        return cli_usage(&err);
    status = cli_open(&settings.common, &session);
    if (status != 0)
        return status;
    r = settings.complete ? run_await_workers(&session, argv[first], cli_deadline_ns(&settings.common), &err)
                          : wait_converged(&session, argv[first], cli_deadline_ns(&settings.common), &err);
    return cli_end(&session, r, &err);
}
