/* SPDX-License-Identifier: Apache-2.0 */
/* muster deploy */
#include "cli.h"
#include "deploy.h"
#include "live.h"
#include "muster/cleanup.h"
#include "muster/json.h"
#include "muster/parse.h"

#define SETTLE_MS 1000 /* a container that dies at once is seen by then */

struct deploy_settings {
    struct cli_common common;
    struct deploy_options deploy;
};

static int set_detach(void *settings, const char *text, struct mst_error *err)
{
    return mst_parse_bool(text, &((struct deploy_settings *)settings)->deploy.detach, err);
}

static int set_prune(void *settings, const char *text, struct mst_error *err)
{
    return mst_parse_bool(text, &((struct deploy_settings *)settings)->deploy.prune, err);
}

static int set_resolve(void *settings, const char *text, struct mst_error *err)
{
    return image_parse_resolve(text, &((struct deploy_settings *)settings)->deploy.resolve, err);
}

static const struct mst_option table[] = {
    CLI_FILE_OPTIONS,
    {.name = "detach",
     .letter = 'd',
     .kind = MST_OPT_FLAG,
     .env = "MUSTER_DETACH",
     .set = set_detach,
     .help = "do not wait until the services run"},
    {.name = "prune",
     .kind = MST_OPT_FLAG,
     .env = "MUSTER_PRUNE",
     .set = set_prune,
     .help = "afterwards remove what the stack has and the file does not"},
    {.name = "resolve-image",
     .argument = "always|changed|never",
     .env = "MUSTER_RESOLVE_IMAGE",
     .fallback = "always",
     .set = set_resolve,
     .help = "ask the registry for the images' digests"},
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

/* After an interruption the operator must know what is there. */
static void say_what_stands(struct session *session, const char *stack)
{
    mst_cleanup(mst_json_deletep) cJSON *services = NULL;

    engine_set_cancel_fd(session->engine, -1);
    if (live_list(session->engine, ENGINE_SERVICE, stack, &services, NULL) < 0)
        return;
    report_keep_block(&session->report);
    report_line(&session->report, "stack '%s' stands with %d services; 'muster rm %s' removes it", stack,
                cJSON_GetArraySize(services), stack);
}

int verb_deploy(int argc, char **argv)
{
    mst_cleanup(compose_project_freep) struct compose_project *project = NULL;
    mst_cleanup(variables_release) struct variables variables = {0};
    struct deploy_settings settings = {0};
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
    settings.deploy.deadline_ns = cli_deadline_ns(&settings.common);
    settings.deploy.settle_ms = SETTLE_MS;
    if (r >= 0)
        r = deploy_stack(&session, project, &settings.deploy, &err);
    if (r == -ECANCELED)
        say_what_stands(&session, argv[first]);
    if (r >= 0)
        report_line(&session.report, "stack '%s': %zu services %s in %.1f s", project->stack,
                    project->service_count, settings.deploy.detach ? "deployed" : "up",
                    report_seconds(&session.report));
    return cli_end(&session, r, &err);
}
