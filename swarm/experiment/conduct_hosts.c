/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked of all hosts at once, before and after an experiment. */
#include "experiment/conduct.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/digest.h"
#include "muster/file.h"
#include "muster/json.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define LOOK_TIMEOUT_S   60
#define REMOVE_TIMEOUT_S 60
#define DATA_TIMEOUT_S   3600
#define DATA_FILES_MAX   10000

static void delete_requests(struct conduct_call *calls, size_t count)
{
    for (size_t i = 0; i < count; i++)
        cJSON_Delete(calls[i].request);
}

/* `calls` has a request for each host; they are its to delete. */
static int call_all(struct conduct *conduct, struct conduct_call *calls, unsigned timeout_s,
                    struct mst_error *err)
{
    struct launches set = LAUNCHES_INIT(conduct->signal_fd);
    int r = 0;

    for (size_t i = 0; i < conduct->host_count && r >= 0; i++)
        r = conduct_call_start(conduct, &set, &calls[i], err);
    if (r >= 0)
        r = conduct_calls_await(&set, calls, conduct->host_count, mst_now_ns() + timeout_s * MST_NS_PER_S,
                                err);
    launches_release(&set);
    return r;
}

static int take_look(struct conduct_call *call, const cJSON *json, struct mst_error *err)
{
    struct conduct *conduct = call->context;
    struct checks_look *look = &conduct->looks[call->index];
    const char *kind = mst_json_string_or(json, "host", "");

    (void)err;
    if (strcmp(kind, "clock") == 0) {
        look->round_trip_ms = mst_ms_since(call->asked_ns);
        look->clock_offset_ms =
            (mst_json_double_or(json, "t", 0) - mst_wall_s()) * 1000 + look->round_trip_ms / 2;
    } else if (strcmp(kind, "look") == 0) {
        const double offset_ms = look->clock_offset_ms, round_trip_ms = look->round_trip_ms;
        checks_look_parse(json, look);
        look->clock_offset_ms = offset_ms;
        look->round_trip_ms = round_trip_ms;
    }
    return 0;
}

int conduct_hosts_look(struct conduct *conduct, struct mst_error *err)
{
    mst_cleanup(mst_freep) struct conduct_call *calls = calloc(conduct->host_count, sizeof *calls);
    const struct limits *limits = &conduct->jobs[0].workers[0].limits;
    bool ok = calls != NULL;
    int r;

    for (size_t i = 0; i < conduct->host_count && ok; i++) {
        cJSON *request = conduct_request("look", conduct);
        calls[i] = (struct conduct_call){.host = conduct->hosts[i],
                                         .name = "look",
                                         .request = request,
                                         .on_json = take_look,
                                         .context = conduct,
                                         .index = i};
        ok = cJSON_AddStringToObject(request, "agent", conduct->options->agent) &&
             cJSON_AddStringToObject(request, "subnet",
                                     conduct->options->subnet ? conduct->options->subnet : "") &&
             cJSON_AddNumberToObject(request, "nano_cpus", (double)limits->nano_cpus) &&
             cJSON_AddNumberToObject(request, "memory_bytes", (double)limits->memory_bytes) &&
             cJSON_AddNumberToObject(request, "pids", (double)limits->pids);
    }
    r = ok ? call_all(conduct, calls, LOOK_TIMEOUT_S, err)
           : mst_error_set(err, -ENOMEM, "look at the hosts: no memory");
    if (calls)
        delete_requests(calls, conduct->host_count);
    conduct->has_looks = r >= 0;
    return r;
}

/* ---- the data ---- */

static int add_file(const char *folder, const char *name, cJSON *list, struct mst_error *err)
{
    mst_cleanup(mst_freep) char *path = mst_path_join(folder, name);
    cJSON *item = cJSON_CreateObject();
    char text[MST_SHA256_HEX_BYTES];
    uint8_t digest[MST_SHA256_BYTES];
    struct stat status = {0};
    int r = path ? mst_sha256_file(path, digest, err) : mst_error_set(err, -ENOMEM, "data: no memory");

    if (r >= 0 && stat(path, &status) < 0)
        r = mst_error_errno(err, -errno, "look at '%s'", path);
    if (r < 0) {
        cJSON_Delete(item);
        return r;
    }
    mst_hex(digest, sizeof digest, text);
    if (cJSON_AddStringToObject(item, "name", name) &&
        cJSON_AddNumberToObject(item, "bytes", (double)status.st_size) &&
        cJSON_AddStringToObject(item, "sha256", text) && cJSON_AddItemToArray(list, item))
        return 0;
    cJSON_Delete(item);
    return mst_error_set(err, -ENOMEM, "data: no memory");
}

static int only_files(const struct dirent *entry)
{
    return entry->d_name[0] != '.' &&
           (entry->d_type == DT_REG || entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN);
}

int conduct_data_list(const char *folder, cJSON **ret_list, struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *list = cJSON_CreateArray();
    struct dirent **entries = NULL;
    const int count = scandir(folder, &entries, only_files, alphasort);
    int r = count < 0    ? mst_error_errno(err, -errno, "read the data in '%s'", folder)
            : count == 0 ? mst_error_set(err, -EINVAL, "'%s' has no files", folder)
            : count > DATA_FILES_MAX
                ? mst_error_set(err, -EINVAL, "'%s' has more than %d files", folder, DATA_FILES_MAX)
                : 0;

    for (int i = 0; i < count; i++) {
        if (r >= 0)
            r = add_file(folder, entries[i]->d_name, list, err);
        free(entries[i]);
    }
    free(entries);
    if (r >= 0) {
        *ret_list = list;
        list = NULL;
    }
    return r;
}

static int send_data(struct conduct_call *call, const cJSON *json, struct mst_error *err)
{
    const struct conduct *conduct = call->context;
    const cJSON *name, *item;

    if (strcmp(mst_json_string_or(json, "host", ""), "need") != 0)
        return 0;
    cJSON_ArrayForEach(item, conduct->data)
    {
        cJSON_ArrayForEach(name, mst_json_at(json, "names", NULL))
        {
            mst_cleanup(mst_freep) char *path = NULL;
            int fd, r;
            if (!cJSON_IsString(name) || strcmp(name->valuestring, mst_json_string_or(item, "name", "")) != 0)
                continue;
            path = mst_path_join(conduct->options->data, name->valuestring);
            r = path ? mst_file_open(path, &fd, err) : mst_error_set(err, -ENOMEM, "data: no memory");
            if (r >= 0 && launch_send_file(call->launch, fd, mst_json_u64_or(item, "bytes", 0)) < 0)
                r = mst_error_set(err, -ENOMEM, "data: no memory");
            if (r < 0)
                return r;
        }
    }
    return 0;
}

int conduct_hosts_prepare(struct conduct *conduct, struct mst_error *err)
{
    mst_cleanup(mst_freep) struct conduct_call *calls = calloc(conduct->host_count, sizeof *calls);
    bool ok = calls != NULL;
    int r;

    for (size_t i = 0; i < conduct->host_count && ok; i++) {
        cJSON *request = conduct_request("prepare", conduct);
        cJSON *data = conduct->data ? cJSON_Duplicate(conduct->data, true) : cJSON_CreateArray();
        calls[i] = (struct conduct_call){.host = conduct->hosts[i],
                                         .name = "prepare",
                                         .request = request,
                                         .on_json = send_data,
                                         .context = conduct,
                                         .index = i};
        ok = data && cJSON_AddItemToObject(request, "data", data);
    }
    r = ok ? call_all(conduct, calls, DATA_TIMEOUT_S, err)
           : mst_error_set(err, -ENOMEM, "prepare the hosts: no memory");
    if (calls)
        delete_requests(calls, conduct->host_count);
    return r;
}

int conduct_hosts_remove(struct conduct *conduct, struct mst_error *err)
{
    mst_cleanup(mst_freep) struct conduct_call *calls = calloc(conduct->host_count, sizeof *calls);
    const int signal_fd = conduct->signal_fd;
    int r;

    if (!calls)
        return mst_error_set(err, -ENOMEM, "clear the hosts: no memory");
    for (size_t i = 0; i < conduct->host_count; i++)
        calls[i] = (struct conduct_call){.host = conduct->hosts[i],
                                         .name = "remove",
                                         .request = conduct_request("remove", conduct),
                                         .index = i};
    conduct->signal_fd = -1; /* the end after Ctrl-C, too */
    r = call_all(conduct, calls, REMOVE_TIMEOUT_S, err);
    conduct->signal_fd = signal_fd;
    delete_requests(calls, conduct->host_count);
    return r;
}
