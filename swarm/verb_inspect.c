/* SPDX-License-Identifier: Apache-2.0 */
/* muster inspect: everything that a stack consists of, as the engine describes it. */
#include "cli.h"
#include "live.h"
#include "muster/cleanup.h"
#include "muster/json.h"

#include <string.h>

static const struct mst_option table[] = {CLI_FORMAT_OPTION, CLI_COMMON_OPTIONS};

static const struct mst_options options = {
    .program = "muster",
    .verb = "inspect",
    .synopsis = "[options] STACK [SERVICE]",
    .about = "Show what a stack, or one of its services, consists of. With --format json all that the engine "
             "says of it.",
    .table = table,
    .count = MST_ARRAY_COUNT(table),
};

struct part {
    enum engine_kind kind;
    const char *key;
    cJSON *list; /* of live, borrowed */
};

static void put_detail(struct output *output, const cJSON *object, enum engine_kind kind)
{
    const cJSON *spec = mst_json_at(object, "Spec", NULL);
    const char *data;

    switch (kind) {
    case ENGINE_SERVICE:
        output_text(
            output, "image %s",
            mst_json_string_or(mst_json_at(spec, "TaskTemplate", "ContainerSpec", NULL), "Image", "-"));
        break;
    case ENGINE_NETWORK:
        output_text(output, "%s %s", mst_json_string_or(object, "Driver", "-"),
                    mst_json_string_or(cJSON_GetArrayItem(mst_json_at(object, "IPAM", "Config", NULL), 0),
                                       "Subnet", ""));
        break;
    case ENGINE_CONFIG:
        data = mst_json_string_or(spec, "Data", "");
        output_text(output, "%zu bytes",
                    strlen(data) / 4 * 3 - (size_t)(strchr(data, '=') ? strlen(strchr(data, '=')) : 0));
        break;
    default:
        output_text(output, "%s", "");
        break;
    }
}

static int print_table(const struct part *parts, size_t count, struct mst_error *err)
{
    static const struct output_column columns[] = {
        {"kind", "KIND"},       {"name", "NAME"},       {"id", "ID"},        {"version", ">VERSION"},
        {"created", "CREATED"}, {"updated", "UPDATED"}, {"detail", "DETAIL"}};
    mst_cleanup(output_release) struct output output = {0};
    const cJSON *object;
    int r = output_init(&output, OUTPUT_TABLE, columns, MST_ARRAY_COUNT(columns), err);

    for (size_t i = 0; i < count && r >= 0; i++) {
        cJSON_ArrayForEach(object, parts[i].list)
        {
            const bool is_network = parts[i].kind == ENGINE_NETWORK;
            output_text(&output, "%s", engine_kind_text(parts[i].kind));
            output_text(&output, "%s", live_name(object, parts[i].kind));
            output_text(&output, "%.12s", live_id(object, parts[i].kind));
            if (is_network)
                output_nothing(&output);
            else
                output_number(&output, (double)live_version(object), 0);
            output_text(&output, "%.19s",
                        mst_json_string_or(object, is_network ? "Created" : "CreatedAt", "-"));
            output_text(&output, "%.19s", mst_json_string_or(object, "UpdatedAt", "-"));
            put_detail(&output, object, parts[i].kind);
        }
    }
    return r < 0 ? r : output_print(&output, err);
}

static int print_json(const char *stack, const struct part *parts, size_t count, struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *all = cJSON_CreateObject();
    mst_cleanup(mst_freep) char *text = NULL;
    bool is_good = all && cJSON_AddStringToObject(all, "stack", stack);

    for (size_t i = 0; i < count && is_good; i++)
        is_good = cJSON_AddItemReferenceToObject(all, parts[i].key, parts[i].list);
    text = is_good ? cJSON_Print(all) : NULL;
    if (!text)
        return mst_error_set(err, -ENOMEM, "stack '%s': no memory", stack);
    return printf("%s\n", text) < 0 || fflush(stdout) != 0 ? output_failed(-EIO, err) : 0;
}

/* Leaves only the one of that name, with the stack in front or not. */
static int keep_service(cJSON *services, const char *stack, const char *name, struct mst_error *err)
{
    char full[2 * ENGINE_NAME_MAX_BYTES];
    cJSON *service, *next;
    const cJSON *found;

    (void)snprintf(full, sizeof full, "%.200s_%.200s", stack, name);
    found = live_find(services, ENGINE_SERVICE, full);
    if (!found)
        found = live_find(services, ENGINE_SERVICE, name);
    if (!found)
        return mst_error_set(err, -ENOENT, "stack '%s' has no service '%.64s'", stack, name);
    for (service = services->child; service; service = next) {
        next = service->next;
        if (service != found)
            cJSON_Delete(cJSON_DetachItemViaPointer(services, service));
    }
    return 0;
}

static int inspect(struct session *session, const char *stack, const char *service, enum output_format format,
                   struct mst_error *err)
{
    mst_cleanup(live_release) struct live live = {0};
    int r = live_load(session->engine, stack, &live, err);

    if (r >= 0 && cJSON_GetArraySize(live.services) + cJSON_GetArraySize(live.networks) +
                          cJSON_GetArraySize(live.secrets) + cJSON_GetArraySize(live.configs) ==
                      0)
        r = mst_error_set(err, -ENOENT, "nothing found in stack '%s'", stack);
    if (r >= 0 && service)
        r = keep_service(live.services, stack, service, err);
    if (r < 0)
        return r;
    const struct part parts[] = {{ENGINE_SERVICE, "services", live.services},
                                 {ENGINE_NETWORK, "networks", live.networks},
                                 {ENGINE_SECRET, "secrets", live.secrets},
                                 {ENGINE_CONFIG, "configs", live.configs}};
    const size_t count = service ? 1 : MST_ARRAY_COUNT(parts);
    return format == OUTPUT_JSON ? print_json(stack, parts, count, err) : print_table(parts, count, err);
}

int verb_inspect(int argc, char **argv)
{
    struct cli_common common = {0};
    struct mst_error err = MST_ERROR_INIT;
    struct session session;
    int status;
    const int first = cli_begin(&options, argc, argv, &common, 1, 2, &status);

    if (first < 0)
        return status;
    if (compose_stack_name_check(argv[first], &err) < 0)
        return cli_usage(&err);
    status = cli_open(&common, &session);
    if (status != 0)
        return status;
    return cli_end(
        &session,
        inspect(&session, argv[first], first + 1 < argc ? argv[first + 1] : NULL, common.format, &err), &err);
}
