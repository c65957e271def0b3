/* SPDX-License-Identifier: Apache-2.0 */
/* muster logs */
#include "cli.h"
#include "live.h"
#include "logfollow.h"
#include "logorder.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/json.h"
#include "muster/parse.h"
#include "plain.h"
#include "tasks.h"

#include <string.h>
#include <unistd.h>

#define ROUND_MS 200
#define HOLD_MS  500 /* messages of several nodes come out of order by about as much */

struct logs_settings {
    struct cli_common common;
    struct logfollow_options logs;
    char since[32];
    bool has_timestamps, is_raw, has_samples;
};

CLI_SET_FLAG(set_follow, struct logs_settings, logs.follow)

CLI_SET_FLAG(set_timestamps, struct logs_settings, has_timestamps)

CLI_SET_FLAG(set_raw, struct logs_settings, is_raw)

CLI_SET_FLAG(set_samples, struct logs_settings, has_samples)

static int set_tail(void *settings, const char *text, struct mst_error *err)
{
    struct logs_settings *logs = settings;
    uint32_t lines;

    if (strcmp(text, "all") != 0 && mst_parse_u32(text, 0, 10000000, &lines, err) < 0)
        return -EINVAL;
    logs->logs.tail = text;
    return 0;
}

static int set_since(void *settings, const char *text, struct mst_error *err)
{
    struct logs_settings *logs = settings;
    uint64_t ago_ns;

    if (mst_parse_duration_ns(text, &ago_ns, err) < 0)
        return -EINVAL;
    (void)snprintf(logs->since, sizeof logs->since, "%.3f", mst_wall_s() - (double)ago_ns / 1e9);
    logs->logs.since = logs->since;
    return 0;
}

static const struct mst_option table[] = {
    {.name = "follow", .letter = 'f', .kind = MST_OPT_FLAG, .set = set_follow, .help = "go on as lines come"},
    {.name = "tail",
     .letter = 'n',
     .argument = "N|all",
     .fallback = "all",
     .set = set_tail,
     .help = "begin with the last N lines of each task"},
    {.name = "since", .argument = "DURATION", .set = set_since, .help = "begin so long ago: 90s, 2h"},
    {.name = "timestamps",
     .letter = 't',
     .kind = MST_OPT_FLAG,
     .set = set_timestamps,
     .help = "print each line's time"},
    {.name = "samples",
     .kind = MST_OPT_FLAG,
     .set = set_samples,
     .help = "also print the monitor's samples, a line a container and second"},
    {.name = "raw",
     .kind = MST_OPT_FLAG,
     .set = set_raw,
     .help = "print the lines alone, without task and node"},
    CLI_COMMON_OPTIONS,
};

static const struct mst_options options = {
    .program = "muster",
    .verb = "logs",
    .synopsis = "[options] STACK [SERVICE]",
    .about = "Print what the tasks of a stack, or of one of its services, wrote, in order of time.",
    .table = table,
    .count = MST_ARRAY_COUNT(table),
};

/* For the "web_app.1@node1 | " in front of lines. */
struct printer {
    const struct logs_settings *settings;
    struct session *session;
    struct swarm_nodes nodes;
    cJSON *slots; /* task id -> slot as text */
    bool is_terminal;
};

/* A task that is new since the start is asked for once. */
static const char *slot_text(struct printer *printer, const struct log_message *message)
{
    mst_cleanup(mst_json_deletep) cJSON *task = NULL;
    const char *known = mst_json_string_or(printer->slots, message->task_id, NULL);
    char slot[32];

    if (known)
        return known;
    if (engine_find(printer->session->engine, ENGINE_TASK, message->task_id, &task, NULL) < 0 || !task)
        return message->task_id;
    (void)snprintf(slot, sizeof slot, "%llu", (unsigned long long)mst_json_u64_or(task, "Slot", 0));
    (void)cJSON_AddStringToObject(printer->slots, message->task_id, strcmp(slot, "0") == 0 ? "" : slot);
    return mst_json_string_or(printer->slots, message->task_id, "");
}

/* As the monitor writes it: emit.c. */
static bool is_sample(const struct log_message *message)
{
    static const char begin[] = "{\"event\":\"sample\",";

    return message->stream == 1 && strncmp(message->text, begin, sizeof begin - 1) == 0;
}

static int print_message(void *context, const struct log_message *message, struct mst_error *err)
{
    struct printer *printer = context;
    FILE *stream = message->stream == 2 && printer->settings->is_raw ? stderr : stdout;
    const struct swarm_node *node = swarm_nodes_find(&printer->nodes, message->node_id);
    mst_cleanup(mst_freep) char *plain = NULL;

    if (is_sample(message) && !printer->settings->has_samples)
        return 0;
    if (printer->settings->has_timestamps)
        (void)fprintf(stream, "%s ", message->timestamp);
    if (!printer->settings->is_raw) {
        const char *slot = slot_text(printer, message);
        (void)fprintf(stream, "%s%s%s@%s | ", message->service, slot[0] ? "." : "", slot,
                      node ? node->hostname : message->node_id);
    }
    if (printer->is_terminal && !printer->settings->is_raw) {
        plain = malloc(message->count + 1);
        if (!plain)
            return mst_error_set(err, -ENOMEM, "logs: no memory");
        (void)fwrite(plain, 1, plain_copy(plain, message->text, message->count), stream);
    } else {
        (void)fwrite(message->text, 1, message->count, stream);
    }
    (void)fputc('\n', stream);
    return fflush(stream) == 0 ? 0 : output_failed(-errno, err);
}

static int add_services(struct logfollow *follow, const cJSON *services, const char *stack, const char *only,
                        struct mst_error *err)
{
    const cJSON *service;
    char scoped[ENGINE_NAME_MAX_BYTES];
    size_t count = 0;

    (void)snprintf(scoped, sizeof scoped, "%s_%s", stack, only ? only : "");
    cJSON_ArrayForEach(service, services)
    {
        const char *name = live_name(service, ENGINE_SERVICE);
        const cJSON *container = mst_json_at(service, "Spec", "TaskTemplate", "ContainerSpec", NULL);
        int r;
        if (only && strcmp(name, only) != 0 && strcmp(name, scoped) != 0)
            continue;
        r = logfollow_add(follow, live_id(service, ENGINE_SERVICE), name,
                          mst_json_bool_or(container, "TTY", false), err);
        if (r < 0)
            return r;
        count++;
    }
    if (count > 0)
        return 0;
    return only && cJSON_GetArraySize(services) > 0
               ? mst_error_set(err, -ENOENT, "stack '%s' has no service '%s'", stack, only)
               : mst_error_set(err, -ENOENT, "nothing found in stack '%s'", stack);
}

static int print_logs(struct session *session, const struct logs_settings *settings, const char *stack,
                      const char *only, struct mst_error *err)
{
    mst_cleanup(logfollow_freep) struct logfollow *follow = NULL;
    mst_cleanup(logorder_freep) struct logorder *order = NULL;
    mst_cleanup(mst_json_deletep) cJSON *services = NULL;
    struct printer printer = {.settings = settings,
                              .session = session,
                              .slots = cJSON_CreateObject(),
                              .is_terminal = isatty(STDOUT_FILENO)};
    int r = live_list(session->engine, ENGINE_SERVICE, stack, &services, err);

    if (r >= 0)
        r = swarm_nodes_load(session->engine, &printer.nodes, err);
    if (r >= 0)
        r = logorder_new(settings->logs.follow ? HOLD_MS : 0, print_message, &printer, &order, err);
    if (r >= 0)
        r = logfollow_new(session, &settings->logs, logorder_add, order, &follow, err);
    if (r >= 0)
        r = add_services(follow, services, stack, only, err);
    while (r >= 0 && logfollow_open_count(follow) > 0) {
        r = engine_streams_run(session->streams, ROUND_MS, NULL, err);
        if (r >= 0)
            r = logfollow_tick(follow, err);
        if (r >= 0)
            r = logorder_tick(order, mst_now_ns(), err);
    }
    if (r >= 0)
        r = logfollow_tick(follow, err); /* the failure of the last one */
    if (order && r != SWARM_READER_LEFT) {
        const int flushed =
            logorder_flush(order, r < 0 ? NULL : err); /* what came is shown whatever followed */
        r = r < 0 ? r : flushed;
    }
    cJSON_Delete(printer.slots);
    swarm_nodes_release(&printer.nodes);
    return r;
}

int verb_logs(int argc, char **argv)
{
    struct logs_settings settings = {0};
    struct mst_error err = MST_ERROR_INIT;
    struct session session;
    int status, r;
    const int first = cli_begin(&options, argc, argv, &settings.common, 1, 2, &status);

    if (first < 0)
        return status;
    if (compose_stack_name_check(argv[first], &err) < 0)
        return cli_usage(&err);
    status = cli_open(&settings.common, &session);
    if (status != 0)
        return status;
    r = print_logs(&session, &settings, argv[first], first + 1 < argc ? argv[first + 1] : NULL, &err);
    return cli_end(&session, r, &err);
}
