/* SPDX-License-Identifier: Apache-2.0 */
/* muster ls, services and ps: the three lists. */
#include "cli.h"
#include "live.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/json.h"
#include "role.h"
#include "standing.h"
#include "tasks.h"
#include "taskstate.h"

#include <inttypes.h>
#include <string.h>

static const struct mst_option table[] = {CLI_FORMAT_OPTION, CLI_COMMON_OPTIONS};

/* ---- ls ---- */

struct stack_row {
    const char *name; /* borrowed from the services' labels */
    size_t services, running, desired;
};

static int by_stack(const void *a, const void *b)
{
    return strcmp(((const struct stack_row *)a)->name, ((const struct stack_row *)b)->name);
}

/* One row for each label value. */
static size_t count_stacks(const cJSON *services, struct stack_row *rows)
{
    const cJSON *service;
    size_t count = 0;

    cJSON_ArrayForEach(service, services)
    {
        const cJSON *status = mst_json_at(service, "ServiceStatus", NULL);
        const char *name = mst_json_string_or(mst_json_at(service, "Spec", "Labels", NULL), STACK_LABEL, "");
        size_t i = 0;
        while (i < count && strcmp(rows[i].name, name) != 0)
            i++;
        if (i == count)
            rows[count++] = (struct stack_row){.name = name};
        rows[i].services++;
        rows[i].running += (size_t)mst_json_u64_or(status, "RunningTasks", 0);
        rows[i].desired += (size_t)mst_json_u64_or(status, "DesiredTasks", 0);
    }
    qsort(rows, count, sizeof *rows, by_stack);
    return count;
}

static int list_stacks(struct session *session, const char *stack, enum output_format format,
                       struct mst_error *err)
{
    static const struct output_column columns[] = {
        {"name", "NAME"}, {"services", ">SERVICES"}, {"running", ">RUNNING"}, {"desired", ">DESIRED"}};
    mst_cleanup(mst_json_deletep) cJSON *services = NULL;
    mst_cleanup(output_release) struct output output = {0};
    mst_cleanup(mst_freep) struct stack_row *rows = NULL;
    size_t count;
    int r = engine_list(session->engine, ENGINE_SERVICE, "label", STACK_LABEL, &services, err);

    (void)stack;
    if (r >= 0)
        r = output_init(&output, format, columns, MST_ARRAY_COUNT(columns), err);
    if (r < 0)
        return r;
    rows = calloc((size_t)cJSON_GetArraySize(services) + 1, sizeof *rows);
    if (!rows)
        return mst_error_set(err, -ENOMEM, "stacks: no memory");
    count = count_stacks(services, rows);
    for (size_t i = 0; i < count; i++) {
        output_text(&output, "%s", rows[i].name);
        output_number(&output, (double)rows[i].services, 0);
        output_number(&output, (double)rows[i].running, 0);
        output_number(&output, (double)rows[i].desired, 0);
    }
    return output_print(&output, err);
}

/* ---- services ---- */

static const char *mode_text(const cJSON *service)
{
    const cJSON *mode = mst_json_at(service, "Spec", "Mode", NULL);

    return mst_json_at(mode, "Global", NULL)          ? "global"
           : mst_json_at(mode, "ReplicatedJob", NULL) ? "replicated job"
           : mst_json_at(mode, "GlobalJob", NULL)     ? "global job"
                                                      : "replicated";
}

static void put_ports(struct output *output, const cJSON *service)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(1024);
    const cJSON *port;

    cJSON_ArrayForEach(port, mst_json_at(service, "Endpoint", "Ports", NULL))
    {
        (void)mst_buf_printf(&text, "%s*:%u->%u/%.8s", text.count > 0 ? ", " : "",
                             (unsigned)mst_json_u64_or(port, "PublishedPort", 0),
                             (unsigned)mst_json_u64_or(port, "TargetPort", 0),
                             mst_json_string_or(port, "Protocol", "tcp"));
    }
    output_text(output, "%s", mst_buf_text(&text));
}

/* The image as the file named it: digests are for machines. */
static void put_image(struct output *output, const char *image)
{
    output_text(output, "%.*s", (int)strcspn(image, "@"), image);
}

static int not_found(const char *stack, struct mst_error *err)
{
    return mst_error_set(err, -ENOENT, "nothing found in stack '%s'", stack);
}

static int list_services(struct session *session, const char *stack, enum output_format format,
                         struct mst_error *err)
{
    static const struct output_column columns[] = {{"id", "ID"},
                                                   {"name", "NAME"},
                                                   {"mode", "MODE"},
                                                   {"running", ">RUNNING"},
                                                   {"desired", ">DESIRED"},
                                                   {"image", "IMAGE"},
                                                   {"ports", "PORTS"}};
    mst_cleanup(mst_json_deletep) cJSON *services = NULL;
    mst_cleanup(output_release) struct output output = {0};
    const cJSON *service;
    int r = live_list(session->engine, ENGINE_SERVICE, stack, &services, err);

    if (r >= 0 && cJSON_GetArraySize(services) == 0)
        r = not_found(stack, err);
    if (r >= 0)
        r = output_init(&output, format, columns, MST_ARRAY_COUNT(columns), err);
    if (r < 0)
        return r;
    cJSON_ArrayForEach(service, services)
    {
        const cJSON *status = mst_json_at(service, "ServiceStatus", NULL);
        output_text(&output, "%.12s", live_id(service, ENGINE_SERVICE));
        output_text(&output, "%s", live_name(service, ENGINE_SERVICE));
        output_text(&output, "%s", mode_text(service));
        output_number(&output, mst_json_double_or(status, "RunningTasks", 0), 0);
        output_number(&output, mst_json_double_or(status, "DesiredTasks", 0), 0);
        put_image(&output,
                  mst_json_string_or(mst_json_at(service, "Spec", "TaskTemplate", "ContainerSpec", NULL),
                                     "Image", ""));
        put_ports(&output, service);
    }
    return output_print(&output, err);
}

/* ---- ps ---- */

/* Unknown, or of a task that is no worker's: nothing. */
static void put_standing(struct output *output, const struct worker *worker, bool has_ended)
{
    const char *state = standing_text(worker, has_ended);
    const bool has_view = worker && worker->view > 0;

    if (state)
        output_text(output, "%s", state);
    else
        output_nothing(output);
    if (has_view)
        output_number(output, worker->view, 0);
    else
        output_nothing(output);
    if (has_view && worker->rank >= 0)
        output_number(output, worker->rank, 0);
    else
        output_nothing(output);
    if (worker && worker->epoch > 0)
        output_text(output, "%" PRIu32 "/%" PRIu64, worker->epoch, worker->step);
    else
        output_nothing(output);
}

static void put_task(struct output *output, const struct task_row *row, const struct swarm_nodes *nodes,
                     const struct standings *standings, bool has_workers)
{
    const struct swarm_node *node = swarm_nodes_find(nodes, row->node_id);
    char age[32];

    tasks_age_text(mst_wall_s() - row->changed_s, age, sizeof age);
    output_text(output, "%.12s", row->id);
    output_text(output, "%s", row->name);
    put_image(output, mst_json_string_or(mst_json_at(row->json, "Spec", "ContainerSpec", NULL), "Image", ""));
    output_text(output, "%s", node ? node->hostname : row->node_id);
    output_text(output, "%s", row->desired);
    output_text(output, "%s", row->state);
    if (output->format == OUTPUT_JSON)
        output_number(output, row->changed_s, 3);
    else
        output_text(output, "%s", age);
    if (has_workers)
        put_standing(output, standings_find(standings, row->id), taskstate_is_end(row->state));
    output_text(output, "%s", row->error);
}

static bool has_workers(const cJSON *services)
{
    const cJSON *service;

    cJSON_ArrayForEach(service, services)
    {
        if (service_role(mst_json_at(service, "Spec", NULL)) == ROLE_WORKER)
            return true;
    }
    return false;
}

static int print_tasks(const struct task_row *rows, size_t count, const struct swarm_nodes *nodes,
                       const struct standings *standings, bool has_standings, enum output_format format,
                       struct mst_error *err)
{
    static const struct output_column with_workers[] = {
        {"id", "ID"},           {"name", "NAME"},   {"image", "IMAGE"}, {"node", "NODE"},
        {"desired", "DESIRED"}, {"state", "STATE"}, {"since", "SINCE"}, {"worker", "WORKER"},
        {"view", ">VIEW"},      {"rank", ">RANK"},  {"step", "STEP"},   {"error", "ERROR"}};
    static const struct output_column without[] = {
        {"id", "ID"},           {"name", "NAME"},   {"image", "IMAGE"}, {"node", "NODE"},
        {"desired", "DESIRED"}, {"state", "STATE"}, {"since", "SINCE"}, {"error", "ERROR"}};
    mst_cleanup(output_release) struct output output = {0};
    const int r = has_standings
                      ? output_init(&output, format, with_workers, MST_ARRAY_COUNT(with_workers), err)
                      : output_init(&output, format, without, MST_ARRAY_COUNT(without), err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < count; i++)
        put_task(&output, &rows[i], nodes, standings, has_standings);
    return output_print(&output, err);
}

static int list_tasks(struct session *session, const char *stack, enum output_format format,
                      struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *services = NULL, *tasks = NULL;
    mst_cleanup(swarm_nodes_release) struct swarm_nodes nodes = {0};
    mst_cleanup(standings_release) struct standings standings = {0};
    mst_cleanup(mst_freep) struct task_row *rows = NULL;
    size_t count = 0;
    int r = live_list(session->engine, ENGINE_SERVICE, stack, &services, err);

    if (r >= 0)
        r = live_list(session->engine, ENGINE_TASK, stack, &tasks, err);
    if (r >= 0 && cJSON_GetArraySize(services) + cJSON_GetArraySize(tasks) == 0)
        r = not_found(stack, err);
    if (r >= 0)
        r = swarm_nodes_load(session->engine, &nodes, err);
    if (r >= 0)
        r = tasks_rows(tasks, services, &rows, &count, err);
    if (r >= 0)
        r = standings_read(session, services, tasks, &standings, err);
    /* For programs the keys are always there; a stack without workers needs no empty columns. */
    return r < 0 ? r
                 : print_tasks(rows, count, &nodes, &standings,
                               format == OUTPUT_JSON || has_workers(services), format, err);
}

/* ---- all three ---- */

static int run_list(const struct mst_options *options, int argc, char **argv, int operands,
                    int (*list)(struct session *, const char *, enum output_format, struct mst_error *))
{
    struct cli_common common = {0};
    struct mst_error err = MST_ERROR_INIT;
    struct session session;
    int status;
    const int first = cli_begin(options, argc, argv, &common, operands, operands, &status);

    if (first < 0)
        return status;
    if (operands > 0 && compose_stack_name_check(argv[first], &err) < 0)
        return cli_usage(&err);
    status = cli_open(&common, &session);
    if (status != 0)
        return status;
    return cli_end(&session, list(&session, operands > 0 ? argv[first] : NULL, common.format, &err), &err);
}

int verb_ls(int argc, char **argv)
{
    static const struct mst_options options = {
        .program = "muster",
        .verb = "ls",
        .synopsis = "[options]",
        .about = "List the stacks of the swarm, whoever deployed them.",
        .table = table,
        .count = MST_ARRAY_COUNT(table),
    };

    return run_list(&options, argc, argv, 0, list_stacks);
}

int verb_services(int argc, char **argv)
{
    static const struct mst_options options = {
        .program = "muster",
        .verb = "services",
        .synopsis = "[options] STACK",
        .about = "List the services of a stack.",
        .table = table,
        .count = MST_ARRAY_COUNT(table),
    };

    return run_list(&options, argc, argv, 1, list_services);
}

int verb_ps(int argc, char **argv)
{
    static const struct mst_options options = {
        .program = "muster",
        .verb = "ps",
        .synopsis = "[options] STACK",
        .about =
            "List the tasks of a stack: where they run, in which state, how far a worker is, and what went "
            "wrong.",
        .table = table,
        .count = MST_ARRAY_COUNT(table),
    };

    return run_list(&options, argc, argv, 1, list_tasks);
}
