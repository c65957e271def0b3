/* SPDX-License-Identifier: Apache-2.0 */
/* muster plan */
#include "cli.h"
#include "muster/cleanup.h"
#include "muster/parse.h"
#include "plan.h"

#include <string.h>

struct plan_settings {
    struct cli_common common;
    struct plan_options plan;
};

static int set_prune(void *settings, const char *text, struct mst_error *err)
{
    return mst_parse_bool(text, &((struct plan_settings *)settings)->plan.prune, err);
}

static int set_resolve(void *settings, const char *text, struct mst_error *err)
{
    return image_parse_resolve(text, &((struct plan_settings *)settings)->plan.resolve, err);
}

static const struct mst_option table[] = {
    CLI_FILE_OPTIONS,
    {.name = "prune",
     .kind = MST_OPT_FLAG,
     .env = "MUSTER_PRUNE",
     .set = set_prune,
     .help = "show what deploy --prune would remove"},
    {.name = "resolve-image",
     .argument = "always|changed|never",
     .env = "MUSTER_RESOLVE_IMAGE",
     .fallback = "always",
     .set = set_resolve,
     .help = "ask the registry for the images' digests"},
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

static int print_plan(const struct plan *plan, enum output_format format, struct mst_error *err)
{
    static const struct output_column columns[] = {
        {"action", "ACTION"}, {"kind", "KIND"}, {"name", "NAME"}, {"change", "CHANGE"}};
    mst_cleanup(output_release) struct output output;
    int r = output_init(&output, format, columns, MST_ARRAY_COUNT(columns), err);

    for (size_t i = 0; i < plan->count && r >= 0; i++) {
        const struct plan_step *step = &plan->steps[i];
        const char *change = step->changes ? step->changes : "";
        do { /* a row for each field that changes */
            const size_t bytes = strcspn(change, "\n");
            output_text(&output, "%s", plan_action_text(step->action));
            output_text(&output, "%s", engine_kind_text(step->kind));
            output_text(&output, "%s", step->name);
            output_text(&output, "%.*s", (int)bytes, change);
            change += bytes + (change[bytes] == '\n');
        } while (*change != '\0');
    }
    return r < 0 ? r : output_print(&output, err);
}

int verb_plan(int argc, char **argv)
{
    mst_cleanup(compose_project_freep) struct compose_project *project = NULL;
    mst_cleanup(variables_release) struct variables variables = {0};
    mst_cleanup(plan_release) struct plan plan = {0};
    struct plan_settings settings = {0};
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
    if (r >= 0)
        r = plan_make(&session, project, &settings.plan, &plan, &err);
    if (r >= 0)
        r = print_plan(&plan, settings.common.format, &err);
    status = cli_end(&session, r, &err);
    return status == MST_EXIT_DONE && plan_has_changes(&plan) ? MST_EXIT_CHANGES : status;
}
