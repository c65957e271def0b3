/* SPDX-License-Identifier: Apache-2.0 */
/* muster deploy */
#include "cli.h"
#include "deploy.h"
#include "live.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/json.h"
#include "muster/parse.h"

#define SETTLE_MAX_NS (3600 * MST_NS_PER_S)

struct deploy_settings {
    struct cli_common common;
    bool detach;
    uint64_t settle_ns;
};

CLI_SET_FLAG(set_detach, struct deploy_settings, detach)

static int set_settle(void *settings, const char *text, struct mst_error *err)
{
    uint64_t settle_ns;
    const int r = mst_parse_duration_ns(text, &settle_ns, err);

    if (r < 0)
        return r;
    if (settle_ns > SETTLE_MAX_NS)
        return mst_error_set(err, -EINVAL, "'%s' is more than an hour", text);
    ((struct deploy_settings *)settings)->settle_ns = settle_ns;
    return 0;
}

static const struct mst_option table[] = {
    CLI_FILE_OPTIONS,
    {.name = "detach",
     .letter = 'd',
     .kind = MST_OPT_FLAG,
     .env = "MUSTER_DETACH",
     .set = set_detach,
     .help = "do not wait until the services run"},
    CLI_PRUNE_OPTION("afterwards remove what the stack has and the file does not"),
    CLI_RESOLVE_OPTION,
    CLI_AUTH_OPTION,
    CLI_SHIP_OPTIONS,
    CLI_DRY_RUN_OPTION("print what would change, as plan does, and write nothing"),
    CLI_FORMAT_OPTION_OF("form of the list of --dry-run"),
    {.name = "settle",
     .argument = "DURATION",
     .env = "MUSTER_SETTLE",
     .fallback = "1s",
     .set = set_settle,
     .help = "how long all services must stay up to count as up"},
    CLI_TIMEOUT_OPTION("5m", "give up when the services do not run by then"),
    CLI_COMMON_OPTIONS,
};

static const struct mst_options options = {
    .program = "muster",
    .verb = "deploy",
    .synopsis = "[options] -c FILE... STACK",
    .about = "Create or update a stack and wait until its services run. Everything is checked before the "
             "first write;\n"
             "services that are as the file says are left alone.",
    .table = table,
    .count = MST_ARRAY_COUNT(table),
};

/* After an interruption, or when it does not come up, the operator must know what is there. */
static void say_what_stands(struct session *session, const char *stack)
{
    mst_cleanup(mst_json_deletep) cJSON *services = NULL;

    engine_set_cancel_fd(session->engine, -1);
    if (live_list(session->engine, ENGINE_SERVICE, stack, &services, NULL) < 0 ||
        cJSON_GetArraySize(services) == 0)
        return;
    report_keep_block(&session->report);
    report_line(&session->report, "stack '%s' stands with %d services; 'muster rm %s' removes it", stack,
                cJSON_GetArraySize(services), stack);
}

int verb_deploy(int argc, char **argv)
{
    mst_cleanup(ship_release) struct ship ship = {0};
    struct deploy_settings settings = {0};
    struct cli_project work = {0};
    struct mst_error err = MST_ERROR_INIT;
    bool has_changed;
    int status, r;
    const int first = cli_begin(&options, argc, argv, &settings.common, 1, 1, &status);

    if (first < 0)
        return status;
    status = cli_project_open(&settings.common, argv[first], &work);
    if (status != 0)
        return status;
    r = cli_project_ship(&settings.common, &work, &ship, &err);
    if (r < 0)
        return cli_project_end(&work, r, &err);
    const struct deploy_options deploy = {
        .local = &ship.local,
        .with_auth = settings.common.with_auth,
        .resolve = settings.common.resolve,
        .prune = settings.common.prune,
        .detach = settings.detach,
        .deadline_ns = cli_deadline_ns(&settings.common),
        .settle_ms = (unsigned)(settings.settle_ns / MST_NS_PER_MS),
    };
    if (settings.common.dry_run) {
        r = deploy_show(&work.session, work.project, &deploy, settings.common.format, &err);
        return cli_project_end(&work, r, &err);
    }
    r = deploy_stack(&work.session, work.project, &deploy, &has_changed, &err);
    if (r == -ECANCELED || r == -ETIMEDOUT || r == SWARM_NO_CONVERGENCE)
        say_what_stands(&work.session, argv[first]);
    if (r >= 0 && !has_changed)
        report_line(&work.session.report, "stack '%s': nothing to change", argv[first]);
    if (r >= 0)
        report_line(&work.session.report, "stack '%s': %zu services %s in %.1f s", argv[first],
                    work.project->service_count, settings.detach ? "deployed" : "up",
                    report_seconds(&work.session.report));
    return cli_project_end(&work, r, &err);
}
