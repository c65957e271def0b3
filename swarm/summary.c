/* SPDX-License-Identifier: Apache-2.0 */
#include "summary.h"

#include "build.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/file.h"
#include "muster/json.h"
#include "muster/table.h"
#include "variables.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#define FORMAT_VERSION 1 /* of run.json */
#define DIGEST_SHOWN   12

double summary_first_step_ms(const struct workers *workers)
{
    double least_ms = -1;

    /* The first step is everybody's at once, so the worker that started last waited least. */
    for (size_t i = 0; i < workers->count; i++) {
        const double ms = workers->items[i].first_step_ms;
        if (ms >= 0 && (least_ms < 0 || ms < least_ms))
            least_ms = ms;
    }
    return least_ms;
}

double summary_sweep_ms(const struct workers *workers)
{
    double most_ms = -1;

    for (size_t i = 0; i < workers->count; i++)
        most_ms = workers->items[i].sweep_ms > most_ms ? workers->items[i].sweep_ms : most_ms;
    return most_ms;
}

static void add_number(struct build *build, cJSON *object, const char *key, double value)
{
    if (object && !cJSON_AddNumberToObject(object, key, value))
        build->no_memory = true;
}

/* -1 stands for "not heard": null in JSON. */
static void add_heard(struct build *build, cJSON *object, const char *key, double value)
{
    if (object &&
        !(value >= 0 ? cJSON_AddNumberToObject(object, key, value) : cJSON_AddNullToObject(object, key)))
        build->no_memory = true;
}

static void add_bool(struct build *build, cJSON *object, const char *key, bool value)
{
    if (object && !cJSON_AddBoolToObject(object, key, value))
        build->no_memory = true;
}

static void add_time(struct build *build, cJSON *object, const char *key, double wall_s)
{
    char text[MST_UTC_TEXT_BYTES];

    if (wall_s <= 0)
        return;
    mst_utc_text(wall_s, text);
    build_text(build, object, key, text);
}

static void add_host(struct build *build, const struct summary *summary, cJSON *root)
{
    cJSON *host = build_object(build, root, "host"), *engine = build_object(build, root, "engine");
    struct utsname name;

    if (uname(&name) == 0) {
        build_text(build, host, "name", name.nodename);
        build_text(build, host, "kernel", name.release);
        build_text(build, host, "architecture", name.machine);
    }
    add_number(build, host, "cpus", (double)sysconf(_SC_NPROCESSORS_ONLN));
    build_text(build, engine, "name", summary->info->name);
    build_text(build, engine, "version", summary->info->server_version);
    add_number(build, engine, "api_minor", summary->api_minor);
}

static void add_nodes(struct build *build, const struct swarm_nodes *nodes, cJSON *root)
{
    cJSON *array = build_array(build, root, "nodes");

    for (size_t i = 0; i < nodes->count; i++) {
        const cJSON *description = mst_json_at(nodes->items[i].json, "Description", NULL);
        cJSON *node = build_append(build, array);
        build_text(build, node, "hostname", nodes->items[i].hostname);
        build_text(build, node, "address", nodes->items[i].address);
        build_text(build, node, "engine",
                   mst_json_string_or(mst_json_at(description, "Engine", NULL), "EngineVersion", ""));
        add_number(build, node, "cpus",
                   mst_json_double_or(mst_json_at(description, "Resources", NULL), "NanoCPUs", 0) / 1e9);
        add_number(build, node, "memory_bytes",
                   mst_json_double_or(mst_json_at(description, "Resources", NULL), "MemoryBytes", 0));
        add_bool(build, node, "usable", nodes->items[i].is_usable);
    }
}

/* MUSTER_... of the environment and all that was given on the command line. */
static void add_variables(struct build *build, const struct summary *summary, cJSON *root)
{
    const char *const *const lists[] = {summary->given, summary->environment, summary->filled};
    cJSON *object = build_object(build, root, "variables");

    for (size_t l = 0; l < MST_ARRAY_COUNT(lists); l++) {
        for (const char *const *item = lists[l]; item && *item; item++) {
            char name[128];
            const char *equal = strchr(*item, '=');
            (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(*item, "="), *item);
            if (!equal || (l == 1 && strncmp(name, "MUSTER_", 7) != 0) || variables_is_private(name) ||
                cJSON_HasObjectItem(object, name))
                continue;
            build_text(build, object, name, equal + 1);
        }
    }
}

static void add_images(struct build *build, const struct compose_project *project, cJSON *root)
{
    cJSON *object = build_object(build, root, "images");

    for (size_t i = 0; i < project->service_count; i++)
        build_text(build, object, project->services[i].key, project->services[i].image);
}

static const char *host_name(const struct summary *summary, const struct worker *worker)
{
    const struct swarm_node *node = swarm_nodes_find(summary->nodes, worker->node_id);

    return node ? node->hostname : worker->node_id;
}

static void add_worker(struct build *build, const struct summary *summary, const struct worker *worker,
                       cJSON *array)
{
    cJSON *object = build_append(build, array), *sweep;

    build_text(build, object, "slot", worker->slot);
    build_text(build, object, "node", host_name(summary, worker));
    build_text(build, object, "address", worker->address);
    build_text(build, object, "version", worker->version);
    build_text(build, object, "state", worker_state_text(worker->state));
    build_text_if(build, object, "reason", worker->reason);
    add_heard(build, object, "rank", worker->rank);
    add_number(build, object, "view", worker->view);
    add_number(build, object, "starts", worker->starts);
    add_number(build, object, "epochs", (double)worker->history_count);
    add_number(build, object, "steps", (double)worker->total_steps);
    add_number(build, object, "seconds", worker->seconds);
    add_number(build, object, "ms_per_step", worker->ms_per_step);
    add_number(build, object, "loss", worker->loss);
    add_number(build, object, "accuracy", worker->accuracy);
    add_heard(build, object, "test_accuracy", worker->test_accuracy);
    build_text(build, object, "digest", worker->digest);
    sweep = build_object(build, object, "sweep");
    add_heard(build, sweep, "ms", worker->sweep_ms);
    add_number(build, sweep, "addresses", worker->sweep_addresses);
    add_number(build, sweep, "answered", worker->sweep_answered);
    add_bool(build, sweep, "complete", worker->sweep_is_complete);
    build_text(build, sweep, "method", worker->sweep_method);
    add_heard(build, object, "view_ms", worker->view_ms);
    add_heard(build, object, "first_step_ms", worker->first_step_ms);
}

static void add_slots(struct build *build, cJSON *object, const char *key, const cJSON *slots)
{
    cJSON *copy = cJSON_Duplicate(slots, true);

    if (!copy || !object || !cJSON_AddItemToObject(object, key, copy)) {
        cJSON_Delete(copy);
        build->no_memory = true;
    }
}

static void add_recoveries(struct build *build, const struct workers *workers, cJSON *root)
{
    cJSON *array = build_array(build, root, "recoveries");

    for (size_t i = 0; i < workers->recovery_count; i++) {
        const struct worker_recovery *recovery = &workers->recoveries[i];
        cJSON *object = build_append(build, array);
        add_number(build, object, "view", recovery->view);
        add_number(build, object, "world", recovery->world);
        add_slots(build, object, "lost", recovery->lost);
        add_slots(build, object, "joined", recovery->joined);
        add_slots(build, object, "left", recovery->left);
        add_number(build, object, "detected_ms", recovery->detected_ms);
        add_number(build, object, "agreed_ms", recovery->agreed_ms);
        add_number(build, object, "ready_ms", recovery->ready_ms);
        add_number(build, object, "ms", recovery->ms);
        add_number(build, object, "steps_repeated", (double)recovery->steps_repeated);
    }
}

static double between(double from_s, double to_s)
{
    return from_s > 0 && to_s > 0 ? to_s - from_s : -1;
}

static void add_timings(struct build *build, const struct summary *summary, cJSON *root)
{
    const struct summary_times *t = &summary->times;
    cJSON *object = build_object(build, root, "timings");

    add_heard(build, object, "sweep_ms", summary_sweep_ms(summary->workers));
    add_heard(build, object, "first_step_ms", summary_first_step_ms(summary->workers));
    add_heard(build, object, "deploy_seconds", between(t->started_s, t->deployed_s));
    add_heard(build, object, "until_trained_seconds", between(t->started_s, t->trained_s));
    add_heard(build, object, "collect_seconds", between(t->trained_s, t->collected_s));
    add_heard(build, object, "total_seconds", between(t->started_s, t->ended_s));
}

int summary_json(const struct summary *summary, cJSON **ret_json, struct mst_error *err)
{
    const struct workers *workers = summary->workers;
    struct build build = {0};
    mst_cleanup(mst_json_deletep) cJSON *root = build_object(&build, NULL, NULL);
    cJSON *array;

    add_number(&build, root, "format", FORMAT_VERSION);
    build_text(&build, root, "muster", MUSTER_VERSION);
    build_text(&build, root, "stack", summary->stack);
    build_text(&build, root, "result", summary->result);
    build_text_if(&build, root, "reason", summary->reason);
    add_time(&build, root, "started", summary->times.started_s);
    add_time(&build, root, "ended", summary->times.ended_s);
    add_timings(&build, summary, root);
    add_heard(&build, root, "test_accuracy", workers->test_accuracy);
    add_bool(&build, root, "digests_equal", workers_digests_are_equal(workers));
    add_host(&build, summary, root);
    add_nodes(&build, summary->nodes, root);
    add_images(&build, summary->project, root);
    add_variables(&build, summary, root);
    if (workers->members && !cJSON_AddItemReferenceToObject(root, "members", workers->members))
        build.no_memory = true;
    array = build_array(&build, root, "workers");
    for (size_t i = 0; i < workers->count; i++)
        add_worker(&build, summary, &workers->items[i], array);
    add_recoveries(&build, workers, root);
    add_number(&build, root, "collected_files", (double)summary->collected_files);
    add_number(&build, root, "stats_rows", (double)summary->stats_rows);
    if (build.no_memory)
        return mst_error_set(err, -ENOMEM, "run.json: no memory");
    *ret_json = root;
    root = NULL;
    return 0;
}

int summary_write(const struct summary *summary, struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *json = NULL;
    mst_cleanup(mst_freep) char *path = mst_path_join(summary->folder, "run.json");
    mst_cleanup(mst_freep) char *text = NULL;
    int r = summary_json(summary, &json, err);

    if (r < 0)
        return r;
    text = cJSON_Print(json);
    if (!text || !path)
        return mst_error_set(err, -ENOMEM, "run.json: no memory");
    return mst_file_write_atomic(path, text, strlen(text), 0644, err);
}

static int print_rows(const struct summary *summary, FILE *stream, struct mst_error *err)
{
    struct mst_table *table = NULL;
    int r = mst_table_new("WORKER|NODE|>RANK|>SECONDS|>MS/STEP|>LOSS|>ACCURACY|DIGEST", &table, err);

    for (size_t i = 0; i < summary->workers->count && r >= 0; i++) {
        const struct worker *worker = &summary->workers->items[i];
        r = mst_table_cell(table, "%s", worker->slot);
        r = r < 0 ? r : mst_table_cell(table, "%s", host_name(summary, worker));
        if (r >= 0)
            r = worker->rank >= 0 ? mst_table_cell(table, "%" PRId32, worker->rank)
                                  : mst_table_cell(table, "-");
        r = r < 0 ? r : mst_table_cell(table, "%.2f", worker->seconds);
        r = r < 0 ? r : mst_table_cell(table, "%.1f", worker->ms_per_step);
        r = r < 0 ? r : mst_table_cell(table, "%.4f", worker->loss);
        r = r < 0 ? r : mst_table_cell(table, "%.4f", worker->accuracy);
        r = r < 0 ? r
                  : mst_table_cell(table, "%.*s", DIGEST_SHOWN,
                                   worker->state == WORKER_DONE ? worker->digest
                                                                : worker_state_text(worker->state));
    }
    if (r >= 0)
        r = mst_table_print(table, stream);
    mst_table_free(table);
    return r < 0 ? mst_error_errno(err, r, "print the summary") : 0;
}

/* Nothing, when no worker came that far. */
static void print_ms(FILE *stream, const char *what, double ms)
{
    if (ms >= 0)
        (void)fprintf(stream, "%-38s %.0f ms\n", what, ms);
}

int summary_print(const struct summary *summary, FILE *stream, struct mst_error *err)
{
    const struct workers *workers = summary->workers;
    const int r = workers->count > 0 ? print_rows(summary, stream, err) : 0;

    if (r < 0)
        return r;
    (void)fputc('\n', stream);
    print_ms(stream, "sweep of the subnet:", summary_sweep_ms(workers));
    print_ms(stream, "last start to first training step:", summary_first_step_ms(workers));
    if (workers->recovery_count > 0)
        (void)fprintf(stream, "%-38s %zu, the longest took %.0f ms\n",
                      "changes of the view:", workers->recovery_count, workers_slowest_recovery_ms(workers));
    if (workers->test_accuracy >= 0)
        (void)fprintf(stream, "%-38s %.4f\n", "test accuracy:", workers->test_accuracy);
    if (workers_count_state(workers, WORKER_DONE) > 0)
        (void)fprintf(stream, "%-38s %s\n", "models:",
                      workers_digests_are_equal(workers) ? "identical on all workers"
                                                         : "DIFFERENT between workers");
    (void)fprintf(stream, "%-38s %s\n", "run folder:", summary->folder);
    return fflush(stream) == 0 ? 0 : mst_error_errno(err, -errno, "print the summary");
}
