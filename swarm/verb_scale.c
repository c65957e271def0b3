/* SPDX-License-Identifier: Apache-2.0 */
/* muster scale */
#include "cli.h"
#include "converge.h"
#include "live.h"
#include "muster/cleanup.h"
#include "muster/json.h"
#include "muster/parse.h"
#include "scale.h"

#include <inttypes.h>

#define SETTLE_MS    1000
#define REQUESTS_MAX 256

struct scale_settings {
    struct cli_common common;
    bool detach;
};

CLI_SET_FLAG(set_detach, struct scale_settings, detach)

static const struct mst_option table[] = {
    {.name = "detach",
     .letter = 'd',
     .kind = MST_OPT_FLAG,
     .env = "MUSTER_DETACH",
     .set = set_detach,
     .help = "do not wait until it is so"},
    CLI_DRY_RUN_OPTION("say what would change, and write nothing"),
    CLI_TIMEOUT_OPTION("5m", "give up when it is not so by then"),
    CLI_COMMON_OPTIONS,
};

static const struct mst_options options = {
    .program = "muster",
    .verb = "scale",
    .synopsis = "[options] STACK SERVICE=N...",
    .about = "Change how many replicas services of a stack have, and wait until it is so.",
    .table = table,
    .count = MST_ARRAY_COUNT(table),
};

static int print_requests(const struct scale_request *requests, size_t count, struct mst_error *err)
{
    int r = 0;

    for (size_t i = 0; i < count && r >= 0; i++)
        r = printf("%s %s: %" PRIu64 " -> %" PRIu32 "\n",
                   requests[i].before == requests[i].replicas ? "keep" : "scale", requests[i].name,
                   requests[i].before, requests[i].replicas);
    return r < 0 || fflush(stdout) != 0 ? output_failed(-EIO, err) : 0;
}

static int scale(struct session *session, const struct scale_settings *settings, const char *stack,
                 struct scale_request *requests, size_t count, struct mst_error *err)
{
    mst_cleanup(swarm_nodes_release) struct swarm_nodes nodes = {0};
    mst_cleanup(mst_json_deletep) cJSON *services = NULL;
    struct converge_options converge = {
        .stack = stack,
        .deadline_ns = cli_deadline_ns(&settings->common),
        .settle_ms = SETTLE_MS,
        .nodes = &nodes,
        .none_may_leave = true,
    };
    size_t written = 0;
    int r = live_list(session->engine, ENGINE_SERVICE, stack, &services, err);

    if (r >= 0 && cJSON_GetArraySize(services) == 0)
        r = mst_error_set(err, -ENOENT, "nothing found in stack '%s'", stack);
    if (r >= 0)
        r = scale_check(services, stack, requests, count, err);
    if (r >= 0 && settings->common.dry_run)
        return print_requests(requests, count, err);
    if (r >= 0)
        r = converge_newest_task_s(session, stack, &converge.since_s, err);
    if (r >= 0)
        r = scale_apply(session, requests, count, &written, err);
    if (r >= 0 && written == 0)
        report_line(&session->report, "stack '%s': nothing to change", stack);
    if (r >= 0 && !settings->detach)
        r = swarm_nodes_load(session->engine, &nodes, err);
    return r < 0 || settings->detach ? r : converge_wait(session, &converge, err);
}

int verb_scale(int argc, char **argv)
{
    struct scale_settings settings = {0};
    struct scale_request requests[REQUESTS_MAX];
    struct mst_error err = MST_ERROR_INIT;
    struct session session;
    size_t count = 0;
    int status, r;
    const int first = cli_begin(&options, argc, argv, &settings.common, 2, REQUESTS_MAX, &status);

    if (first < 0)
        return status;
    if (compose_stack_name_check(argv[first], &err) < 0)
        return cli_usage(&err);
    for (int i = first + 1; i < argc; i++) {
        if (scale_parse(argv[i], &requests[count++], &err) < 0)
            return cli_usage(&err);
    }
    status = cli_open(&settings.common, &session);
    if (status != 0)
        return status;
    r = scale(&session, &settings, argv[first], requests, count, &err);
    return cli_end(&session, r, &err);
}
