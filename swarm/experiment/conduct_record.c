/* SPDX-License-Identifier: Apache-2.0 */
/* experiment.json: written anew after each run, so that whatever ends an experiment, what was done is known.
 */
#include "build.h"
#include "experiment/conduct.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/digest.h"
#include "muster/experiment.h"
#include "muster/file.h"
#include "muster/json.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#define RECORD_MAX_BYTES ((size_t)64 << 20)

static const char *network_text(enum conduct_network network)
{
    static const char *const texts[] = {[CONDUCT_NETWORK_HOST] = "host",
                                        [CONDUCT_NETWORK_OVERLAY] = "overlay",
                                        [CONDUCT_NETWORK_ENCRYPTED] = "encrypted"};

    return texts[network];
}

static void add_number(struct build *build, cJSON *object, const char *key, double value)
{
    if (object && !cJSON_AddNumberToObject(object, key, value))
        build->no_memory = true;
}

static void add_bool(struct build *build, cJSON *object, const char *key, bool value)
{
    if (object && !cJSON_AddBoolToObject(object, key, value))
        build->no_memory = true;
}

static void add_text_or_null(struct build *build, cJSON *object, const char *key, const char *text)
{
    if (object && !(text ? cJSON_AddStringToObject(object, key, text) : cJSON_AddNullToObject(object, key)))
        build->no_memory = true;
}

static void add_copy(struct build *build, cJSON *object, const char *key, const cJSON *item)
{
    cJSON *copy = cJSON_Duplicate(item, true);

    if (!copy || !object || !cJSON_AddItemToObject(object, key, copy)) {
        cJSON_Delete(copy);
        build->no_memory = true;
    }
}

/* ---- what was asked for ---- */

static void add_variables(struct build *build, cJSON *asked, const struct cli_common *common)
{
    cJSON *object = build_object(build, asked, "variables");

    for (size_t i = 0; i < common->given_count; i++) {
        char name[128];
        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(common->given[i], "="), common->given[i]);
        if (!variables_is_private(name))
            build_text(build, object, name, common->given[i] + strcspn(common->given[i], "=") + 1);
    }
}

static int digest_list(const cJSON *items, char text[MST_SHA256_HEX_BYTES], struct mst_error *err)
{
    mst_cleanup(mst_freep) char *list = cJSON_PrintUnformatted(items);
    uint8_t digest[MST_SHA256_BYTES];
    const int r =
        list ? mst_sha256(list, strlen(list), digest, err) : mst_error_set(err, -ENOMEM, "digest: no memory");

    if (r >= 0)
        mst_hex(digest, sizeof digest, text);
    return r;
}

static cJSON *describe_worker(const struct job *job, const struct job_worker *worker)
{
    static const struct job_place nowhere = {
        .folder = "", .data = "", .cluster = "", .slot = "", .run = "", .subnet = ""};
    struct build build = {0};
    cJSON *object = build_object(&build, NULL, NULL), *environment = job_environment(job, worker, &nowhere);

    build_text(&build, object, "image", worker->service->image);
    add_number(&build, object, "nano_cpus", (double)worker->limits.nano_cpus);
    add_number(&build, object, "memory_bytes", (double)worker->limits.memory_bytes);
    add_number(&build, object, "pids", (double)worker->limits.pids);
    if (environment && object && cJSON_AddItemToObject(object, "environment", environment))
        environment = NULL;
    cJSON_Delete(environment);
    if (!build.no_memory && cJSON_HasObjectItem(object, "environment"))
        return object;
    cJSON_Delete(object);
    return NULL;
}

/* One digest for all that the stacks make of their workers, whatever it came from: files, variables,
 * settings. */
static int digest_workers(const struct conduct *conduct, char text[MST_SHA256_HEX_BYTES],
                          struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *list = cJSON_CreateArray();

    for (size_t j = 0; j < conduct->job_count; j++) {
        const struct job *job = &conduct->jobs[j];
        for (size_t i = 0; i < job->worker_count; i++) {
            cJSON *worker = describe_worker(job, &job->workers[i]);
            if (!worker || !list || !cJSON_AddItemToArray(list, worker)) {
                cJSON_Delete(worker);
                return mst_error_set(err, -ENOMEM, "workers: no memory");
            }
        }
        for (size_t i = 0; i < job->file_count; i++) {
            uint8_t digest[MST_SHA256_BYTES];
            char file[MST_SHA256_HEX_BYTES];
            cJSON *item;
            const int r = mst_sha256(job->files[i].bytes, job->files[i].count, digest, err);
            if (r < 0)
                return r;
            mst_hex(digest, sizeof digest, file);
            item = cJSON_CreateString(file);
            if (!item || !cJSON_AddItemToArray(list, item)) {
                cJSON_Delete(item);
                return mst_error_set(err, -ENOMEM, "workers: no memory");
            }
        }
    }
    return digest_list(list, text, err);
}

int conduct_record_asked(const struct conduct *conduct, cJSON **ret_asked, struct mst_error *err)
{
    const struct conduct_options *options = conduct->options;
    struct build build = {0};
    mst_cleanup(mst_json_deletep) cJSON *asked = build_object(&build, NULL, NULL);
    const char *seed = job_variable(conduct->jobs[0].workers[0].service, "MUSTER_SEED");
    char digest[MST_SHA256_HEX_BYTES];
    cJSON *list;
    int r;

    add_number(&build, asked, "repeats", options->repeats);
    add_number(&build, asked, "warmups", options->warmups);
    list = build_array(&build, asked, "modes");
    for (size_t i = 0; i < options->mode_count; i++)
        build_item(&build, list, options->modes[i].name);
    list = build_array(&build, asked, "workloads");
    for (size_t i = 0; i < options->workloads_count; i++) {
        if (!list || !cJSON_AddItemToArray(list, cJSON_CreateNumber(options->workloads[i])))
            build.no_memory = true;
    }
    list = build_array(&build, asked, "exchanges");
    for (size_t i = 0; i < options->exchange_count; i++)
        build_item(&build, list, options->exchanges[i]);
    list = build_array(&build, asked, "files");
    for (size_t i = 0; i < conduct->job_count; i++)
        build_item(&build, list, conduct->file_common[i].files[0]);
    add_variables(&build, asked, options->common);
    build_text(&build, asked, "launcher", options->launcher_text);
    add_text_or_null(&build, asked, "subnet", options->subnet);
    add_text_or_null(&build, asked, "seed", seed);
    add_number(&build, asked, "port", options->port);
    build_text(&build, asked, "muster", MUSTER_VERSION);
    r = digest_workers(conduct, digest, err);
    if (r < 0)
        return r;
    build_text(&build, asked, "workers_digest", digest);
    if (conduct->data) { /* of its files' names and digests */
        r = digest_list(conduct->data, digest, err);
        if (r < 0)
            return r;
        build_text(&build, asked, "data_digest", digest);
    }
    if (build.no_memory)
        return mst_error_set(err, -ENOMEM, EXPERIMENT_FILE ": no memory");
    *ret_asked = asked;
    asked = NULL;
    return 0;
}

/* ---- writing ---- */

static void add_command(struct build *build, const struct conduct *conduct, cJSON *root)
{
    cJSON *list = build_array(build, root, "command");
    char cwd[4096];

    build_item(build, list, "muster");
    for (const char *const *word = conduct->options->command; *word; word++) {
        static const char long_set[] = "--set=",
                          short_set[] = "-e"; /* before the variable, in the same word */
        const char *name = *word, *equal;
        char text[4096];
        if (strncmp(name, long_set, sizeof long_set - 1) == 0)
            name += sizeof long_set - 1;
        else if (strncmp(name, short_set, sizeof short_set - 1) == 0)
            name += sizeof short_set - 1;
        equal = strchr(name, '=');
        if (equal && variables_is_private(name)) {
            (void)snprintf(text, sizeof text, "%.*s=***", (int)(equal - *word), *word);
            build_item(build, list, text);
        } else {
            build_item(build, list, *word);
        }
    }
    build_text(build, root, "cwd", getcwd(cwd, sizeof cwd) ? cwd : "");
}

static void add_modes(struct build *build, const struct conduct_options *options, cJSON *root)
{
    cJSON *list = build_array(build, root, "modes");

    for (size_t i = 0; i < options->mode_count; i++) {
        const struct conduct_mode *mode = &options->modes[i];
        cJSON *object = build_append(build, list);
        build_text(build, object, "name", mode->name);
        build_text(build, object, "label", mode->label);
        build_text(build, object, "kind", mode->kind == CONDUCT_PROCESS ? "process" : "container");
        build_text(build, object, "network", network_text(mode->network));
        add_bool(build, object, "monitor", mode->monitor);
    }
}

static void add_limits(struct build *build, const struct limits *limits, cJSON *root)
{
    cJSON *object = build_object(build, root, "limits");

    if (limits->nano_cpus > 0)
        add_number(build, object, "cpus", (double)limits->nano_cpus / 1e9);
    else
        add_text_or_null(build, object, "cpus", NULL);
    if (limits->memory_bytes > 0)
        add_number(build, object, "memory_bytes", (double)limits->memory_bytes);
    else
        add_text_or_null(build, object, "memory_bytes", NULL);
}

static void add_machine(struct build *build, const struct conduct *conduct, cJSON *root)
{
    cJSON *machine = build_object(build, root, "machine"), *host = build_object(build, machine, "host"),
          *list;
    struct utsname name;

    if (uname(&name) == 0) {
        build_text(build, host, "name", name.nodename);
        build_text(build, host, "kernel", name.release);
        build_text(build, host, "architecture", name.machine);
    }
    add_number(build, host, "cpus", (double)sysconf(_SC_NPROCESSORS_ONLN));
    list = build_array(build, machine, "nodes");
    for (size_t i = 0; i < conduct->host_count; i++) {
        const struct checks_look *look = &conduct->looks[i];
        cJSON *object = build_append(build, list);
        build_text(build, object, "hostname", conduct->hosts[i]);
        if (!conduct->has_looks)
            continue;
        add_text_or_null(build, object, "address", look->address[0] ? look->address : NULL);
        build_text(build, object, "kernel", look->kernel);
        build_text(build, object, "cpu_model", look->cpu_model);
        add_text_or_null(build, object, "congestion", look->congestion[0] ? look->congestion : NULL);
        add_number(build, object, "cpus", look->cpus);
        add_number(build, object, "memory_bytes", (double)look->memory_bytes);
        build_text(build, object, "agent_version", look->agent);
        build_text(build, object, "agent_digest", look->agent_digest);
        build_text(build, object, "boot_id", look->boot_id);
        add_number(build, object, "cgroup_version", look->cgroup_version);
        add_number(build, object, "clock_offset_ms", look->clock_offset_ms);
    }
}

/* Those begun, and then the ones to come. */
static void add_runs(struct build *build, const struct conduct *conduct, cJSON *root)
{
    cJSON *copy = cJSON_Duplicate(conduct->entries, true);
    unsigned number = conduct->next_number;

    if (!copy || !cJSON_AddItemToObject(root, "runs", copy)) {
        cJSON_Delete(copy);
        build->no_memory = true;
        return;
    }
    for (size_t i = 0; i < conduct->plan.count; i++) {
        const struct conduct_cell *cell = &conduct->plan.cells[i];
        cJSON *entry;
        if (cell->is_complete || cell->is_given_up)
            continue;
        entry = conduct_entry_new(conduct, cell, number++, "planned");
        if (!entry || !cJSON_AddItemToArray(copy, entry)) {
            cJSON_Delete(entry);
            build->no_memory = true;
        }
    }
}

int conduct_record_write(const struct conduct *conduct, enum conduct_state state, const char *reason,
                         struct mst_error *err)
{
    static const char *const states[] = {[CONDUCT_UNFINISHED] = "unfinished",
                                         [CONDUCT_COMPLETE] = "complete",
                                         [CONDUCT_INTERRUPTED] = "interrupted",
                                         [CONDUCT_FAILED] = "failed"};
    struct build build = {0};
    mst_cleanup(mst_json_deletep) cJSON *root = build_object(&build, NULL, NULL);
    mst_cleanup(mst_freep) char *text = NULL, *path = mst_path_join(conduct->out, EXPERIMENT_FILE);
    char now[MST_UTC_TEXT_BYTES];
    cJSON *list;

    mst_utc_text(mst_wall_s(), now);
    add_number(&build, root, "format", EXPERIMENT_FORMAT);
    build_text(&build, root, "muster", MUSTER_VERSION);
    build_text(&build, root, "name", conduct->options->name);
    build_text(&build, root, "id", conduct->id);
    build_text(&build, root, "started", conduct->started_text);
    add_text_or_null(&build, root, "ended", state == CONDUCT_UNFINISHED ? NULL : now);
    build_text(&build, root, "state", states[state]);
    add_text_or_null(&build, root, "reason", reason);
    add_command(&build, conduct, root);
    build_text(&build, root, "baseline", conduct->options->modes[conduct->options->baseline].name);
    add_modes(&build, conduct->options, root);
    add_copy(&build, root, "asked", conduct->asked);
    add_limits(&build, &conduct->jobs[0].workers[0].limits, root);
    add_machine(&build, conduct, root);
    list = build_array(&build, root, "warnings");
    for (size_t i = 0; i < conduct->warnings.count; i++)
        build_item(&build, list, conduct->warnings.items[i]);
    add_runs(&build, conduct, root);
    text = build.no_memory ? NULL : cJSON_Print(root);
    if (!text || !path)
        return mst_error_set(err, -ENOMEM, EXPERIMENT_FILE ": no memory");
    return mst_file_write_atomic(path, text, strlen(text), 0644, err);
}

/* ---- entries ---- */

int conduct_entry_set_text(cJSON *entry, const char *key, const char *text)
{
    cJSON *item = text ? cJSON_CreateString(text) : cJSON_CreateNull();

    cJSON_DeleteItemFromObjectCaseSensitive(entry, key);
    return item && cJSON_AddItemToObject(entry, key, item) ? 0 : -ENOMEM;
}

int conduct_entry_set_number(cJSON *entry, const char *key, double value)
{
    cJSON *item = value >= 0 ? cJSON_CreateNumber(value) : cJSON_CreateNull();

    cJSON_DeleteItemFromObjectCaseSensitive(entry, key);
    return item && cJSON_AddItemToObject(entry, key, item) ? 0 : -ENOMEM;
}

cJSON *conduct_entry_new(const struct conduct *conduct, const struct conduct_cell *cell, unsigned number,
                         const char *state)
{
    struct build build = {0};
    cJSON *entry = build_object(&build, NULL, NULL);

    add_number(&build, entry, "number", number);
    build_text(&build, entry, "series", cell->series);
    build_text(&build, entry, "mode", conduct->options->modes[cell->mode].name);
    add_number(&build, entry, "workloads", cell->workloads);
    build_text(&build, entry, "exchange", cell->exchange);
    add_number(&build, entry, "repeat", cell->repeat);
    add_number(&build, entry, "position", cell->position);
    add_number(&build, entry, "attempt", cell->attempts + 1);
    add_bool(&build, entry, "warmup", cell->is_warmup);
    build_text(&build, entry, "state", state);
    add_text_or_null(&build, entry, "reason", NULL);
    add_text_or_null(&build, entry, "started", NULL);
    add_text_or_null(&build, entry, "ended", NULL);
    (void)build_array(&build, entry, "folders");
    add_text_or_null(&build, entry, "launch_seconds", NULL);
    add_text_or_null(&build, entry, "total_seconds", NULL);
    (void)build_array(&build, entry, "noise");
    if (!build.no_memory)
        return entry;
    cJSON_Delete(entry);
    return NULL;
}

/* ---- reading ---- */

static int read_record(const char *out, cJSON **ret_json, struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf text = MST_BUF_INIT(RECORD_MAX_BYTES);
    mst_cleanup(mst_freep) char *path = mst_path_join(out, EXPERIMENT_FILE);
    int r =
        path ? mst_file_read(path, &text, err) : mst_error_set(err, -ENOMEM, EXPERIMENT_FILE ": no memory");

    return r < 0 ? r : mst_json_parse(mst_buf_text(&text), text.count, path, ret_json, err);
}

static int check_same(const struct conduct *conduct, const cJSON *asked, struct mst_error *err)
{
    const cJSON *item;

    cJSON_ArrayForEach(item, conduct->asked)
    {
        const cJSON *before = cJSON_GetObjectItemCaseSensitive(asked, item->string);
        mst_cleanup(mst_freep) char *then = NULL, *now = NULL;
        if (before && cJSON_Compare(before, item, true))
            continue;
        then = before ? cJSON_PrintUnformatted(before) : strdup("nothing");
        now = cJSON_PrintUnformatted(item);
        return mst_error_set(
            err, -EINVAL,
            "'%s' has another experiment: '%s' is %.200s there, and %.200s here (take another --out)",
            conduct->out, item->string, then ? then : "?", now ? now : "?");
    }
    return 0;
}

static size_t find_mode(const struct conduct_options *options, const char *name)
{
    size_t at = 0;

    while (at < options->mode_count && strcmp(options->modes[at].name, name) != 0)
        at++;
    return at;
}

/* A run that was under way when its program ended is one that was interrupted. */
static int take_entry(struct conduct *conduct, const cJSON *item, struct mst_error *err)
{
    const char *state = mst_json_string_or(item, "state", "");
    const unsigned number = (unsigned)mst_json_u64_or(item, "number", 0);
    struct conduct_cell *cell = conduct_plan_find(
        &conduct->plan, mst_json_string_or(item, "series", ""),
        find_mode(conduct->options, mst_json_string_or(item, "mode", "")),
        (unsigned)mst_json_u64_or(item, "repeat", 0), (unsigned)mst_json_u64_or(item, "position", 0));
    cJSON *copy;

    if (strcmp(state, "planned") == 0)
        return 0;
    copy = cJSON_Duplicate(item, true);
    if (!copy || !cJSON_AddItemToArray(conduct->entries, copy)) {
        cJSON_Delete(copy);
        return mst_error_set(err, -ENOMEM, EXPERIMENT_FILE ": no memory");
    }
    if (strcmp(state, "running") == 0 &&
        (conduct_entry_set_text(copy, "state", "interrupted") < 0 ||
         conduct_entry_set_text(copy, "reason", "muster compare was ended in the middle of it") < 0))
        return mst_error_set(err, -ENOMEM, EXPERIMENT_FILE ": no memory");
    if (number >= conduct->next_number)
        conduct->next_number = number + 1;
    if (cell && strcmp(state, "complete") == 0)
        cell->is_complete = true;
    if (cell)
        cell->attempts++;
    return 0;
}

int conduct_record_resume(struct conduct *conduct, struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *json = NULL;
    struct mst_error why = MST_ERROR_INIT;
    const cJSON *item;
    int r = read_record(conduct->out, &json, &why);

    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return mst_error_set(err, r, "%s", why.text);
    r = check_same(conduct, mst_json_at(json, "asked", NULL), err);
    cJSON_ArrayForEach(item, mst_json_at(json, "runs", NULL))
    {
        if (r >= 0)
            r = take_entry(conduct, item, err);
    }
    /* What it warned of holds for the runs that were made then. */
    cJSON_ArrayForEach(item, mst_json_at(json, "warnings", NULL))
    {
        if (r >= 0 && cJSON_IsString(item))
            checks_warn(&conduct->warnings, "%s", item->valuestring);
    }
    if (r >= 0 && conduct->warnings.no_memory)
        r = mst_error_set(err, -ENOMEM, EXPERIMENT_FILE ": no memory");
    if (r < 0)
        return r;
    (void)snprintf(conduct->started_text, sizeof conduct->started_text, "%s",
                   mst_json_string_or(json, "started", conduct->started_text));
    (void)snprintf(conduct->id, sizeof conduct->id, "%s", mst_json_string_or(json, "id", conduct->id));
    return 1;
}

int conduct_record_command(const char *out, cJSON **ret_json, struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *json = NULL;
    const cJSON *word, *words;
    const int r = read_record(out, &json, err);

    if (r < 0)
        return r;
    words = mst_json_at(json, "command", NULL);
    if (!cJSON_IsArray(words) || cJSON_GetArraySize(words) < 2)
        return mst_error_set(err, -EBADMSG, "'%s/%s': no command is in it", out, EXPERIMENT_FILE);
    cJSON_ArrayForEach(word, words)
    {
        if (!cJSON_IsString(word))
            return mst_error_set(err, -EBADMSG, "'%s/%s': the command is not a list of words", out,
                                 EXPERIMENT_FILE);
        if (strstr(word->valuestring, "=***"))
            return mst_error_set(
                err, -EINVAL,
                "'%s': the command had a secret ('%s'), which is not kept: give it again as it was, with "
                "--out %s",
                out, word->valuestring, out);
    }
    *ret_json = json;
    json = NULL;
    return 0;
}
