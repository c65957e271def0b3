/* SPDX-License-Identifier: Apache-2.0 */
/* A turn without containers: an agent on each host through the launcher, what they say put together as
 * `muster run` does it, in a run folder of the same form. */
#include "experiment/conduct.h"
#include "history_csv.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/digest.h"
#include "muster/file.h"
#include "muster/json.h"
#include "plain.h"
#include "runfolder.h"
#include "summary.h"
#include "workers.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define KEY_BYTES     32
#define STOP_GRACE_MS 10000 /* as the shipped stacks give a container */
#define END_GRACE_MS  20000

struct bare {
    struct turn *turn;
    unsigned workload;
    const struct job *job;
    struct runfolder folder;
    struct workers workers;
    struct summary_times times;
    struct conduct_call *calls; /* one for each worker; owned */
    unsigned char key[KEY_BYTES];
    size_t files;
};

/* ---- what comes ---- */

static int take_text(struct conduct_call *call, const char *text, size_t count, unsigned stream,
                     struct mst_error *err)
{
    struct bare *bare = call->context;
    const struct job_worker *worker = &bare->job->workers[call->index];
    const struct log_message message = {.service = worker->service->key,
                                        .task_id = worker->slot,
                                        .node_id = worker->host,
                                        .timestamp = "",
                                        .text = text,
                                        .count = count,
                                        .stream = stream};
    mst_cleanup(mst_json_deletep) cJSON *sample = NULL;
    int r = workers_take(&bare->workers, &message, &sample, err);

    if (r >= 0 && stream == 1)
        r = events_log_add(&bare->folder.events, text, count, err);
    return r >= 0 && sample ? stats_csv_add(bare->folder.stats, sample, err) : r;
}

static int take_event(struct conduct_call *call, const char *line, size_t count, struct mst_error *err)
{
    return take_text(call, line, count, 1, err);
}

static int take_complaint(struct conduct_call *call, const char *line, struct mst_error *err)
{
    return take_text(call, line, strlen(line), 2, err);
}

static int take_file(struct conduct_call *call, const char *name, const void *bytes, size_t count,
                     struct mst_error *err)
{
    struct bare *bare = call->context;
    mst_cleanup(mst_freep) char *path = mst_path_join(bare->folder.path, name);

    if (!path)
        return mst_error_set(err, -ENOMEM, "take '%s': no memory", name);
    bare->files++;
    return mst_file_write_atomic(path, bytes, count, 0644, err);
}

/* ---- what is asked ---- */

static int send_files(struct conduct_call *call, struct mst_error *err)
{
    const struct bare *bare = call->context;
    int r = launch_send(call->launch, bare->key, sizeof bare->key);

    for (size_t i = 0; i < bare->job->file_count && r >= 0; i++)
        r = launch_send(call->launch, bare->job->files[i].bytes, bare->job->files[i].count);
    return r < 0 ? mst_error_set(err, -ENOMEM, "send to '%s': no memory", call->host) : 0;
}

static bool add_file(cJSON *list, const char *name, size_t bytes)
{
    cJSON *item = cJSON_CreateObject();

    if (cJSON_AddStringToObject(item, "name", name) &&
        cJSON_AddNumberToObject(item, "bytes", (double)bytes) && cJSON_AddItemToArray(list, item))
        return true;
    cJSON_Delete(item);
    return false;
}

static cJSON *make_request(const struct bare *bare, const struct job_worker *worker, bool with_model)
{
    const struct turn *turn = bare->turn;
    const struct conduct *conduct = turn->conduct;
    const struct conduct_options *options = conduct->options;
    char name[300], folder[1024], data[1024];
    const char *run = strrchr(bare->folder.path, '/');
    cJSON *request = conduct_request("train", conduct), *files, *environment;
    const struct job_place place = {.folder = folder,
                                    .data = data,
                                    .cluster = conduct->stacks[bare->workload],
                                    .slot = worker->slot,
                                    .run = run ? run + 1 : bare->folder.path,
                                    .subnet = options->subnet,
                                    .exchange = options->exchange_count > 0 ? turn->cell->exchange : NULL,
                                    .port = options->port + bare->workload};
    bool ok;

    turn_host_name(turn, bare->workload, worker->slot, name, sizeof name);
    (void)snprintf(folder, sizeof folder, "%s/%s", conduct->host_folder, name);
    (void)snprintf(data, sizeof data, "%s/data", conduct->host_folder);
    environment = job_environment(bare->job, worker, &place);
    files = cJSON_AddArrayToObject(request, "files");
    ok = environment && cJSON_AddItemToObject(request, "environment", environment) && files &&
         add_file(files, "key", sizeof bare->key) && cJSON_AddStringToObject(request, "name", name) &&
         cJSON_AddStringToObject(request, "agent", options->agent) &&
         cJSON_AddStringToObject(request, "slot", worker->slot) &&
         cJSON_AddStringToObject(request, "stack", conduct->stacks[bare->workload]) &&
         cJSON_AddNumberToObject(request, "nano_cpus", (double)worker->limits.nano_cpus) &&
         cJSON_AddNumberToObject(request, "memory_bytes", (double)worker->limits.memory_bytes) &&
         cJSON_AddNumberToObject(request, "pids", (double)worker->limits.pids) &&
         cJSON_AddNumberToObject(request, "grace_ms", STOP_GRACE_MS) &&
         cJSON_AddBoolToObject(request, "samples", turn->mode->monitor) &&
         cJSON_AddBoolToObject(request, "model", with_model) &&
         /* Of two workloads on one interface nobody knows whose bytes they are. */
         (turn->cell->workloads > 1 || cJSON_AddStringToObject(request, "subnet", options->subnet));
    for (size_t i = 0; i < bare->job->file_count && ok; i++)
        ok = add_file(files, bare->job->files[i].name, bare->job->files[i].count);
    if (ok)
        return request;
    cJSON_Delete(request);
    return NULL;
}

static int start(struct bare *bare, struct mst_error *err)
{
    struct turn *turn = bare->turn;
    struct conduct *conduct = turn->conduct;
    mst_cleanup(mst_freep) char *name = NULL;
    int r = runfolder_name(turn->folder, conduct->stacks[bare->workload], mst_wall_s(), &name, err);

    if (r >= 0)
        r = runfolder_make(turn->folder, name, conduct->stacks[bare->workload], &bare->folder, err);
    if (r >= 0)
        r = mst_random(bare->key, sizeof bare->key, err);
    if (r < 0)
        return r;
    (void)snprintf(turn->run_folders[bare->workload], CONDUCT_PATH_BYTES, "%s", bare->folder.path);
    bare->times.started_s = mst_wall_s();
    bare->calls = calloc(bare->job->worker_count, sizeof *bare->calls);
    if (!bare->calls)
        return mst_error_set(err, -ENOMEM, "start the workers: no memory");
    for (size_t i = 0; i < bare->job->worker_count && r >= 0; i++) {
        const struct job_worker *worker = &bare->job->workers[i];
        bare->calls[i] = (struct conduct_call){.host = worker->host,
                                               .name = "train",
                                               .request = make_request(bare, worker, i == 0),
                                               .on_event = take_event,
                                               .on_file = take_file,
                                               .on_complaint = take_complaint,
                                               .on_asked = send_files,
                                               .context = bare,
                                               .index = i};
        r = conduct_call_start(conduct, &turn->set, &bare->calls[i], err);
    }
    bare->times.deployed_s = mst_wall_s();
    return r;
}

/* ---- the end ---- */

static const char *result_text(int code)
{
    return code >= 0            ? "done"
           : code == -ECANCELED ? "interrupted"
           : code == -ETIMEDOUT ? "timed out"
                                : "failed";
}

/* Whatever the run came to: what there is of results. */
static int write_results(struct bare *bare, int code, const struct mst_error *why, struct mst_error *err)
{
    const struct cli_common *common = bare->turn->conduct->options->common;
    const struct compose_project none = {.stack = bare->job->project->stack};
    const struct swarm_nodes nodes = {0};
    const struct engine_info info = {0};
    struct summary summary = {
        .stack = bare->turn->conduct->stacks[bare->workload],
        .result = result_text(code),
        .reason = code < 0 ? why->text : NULL,
        .folder = bare->folder.path,
        .workers = &bare->workers,
        .nodes = &nodes,
        .info = &info,
        .project = &none,
        .times = bare->times,
        .given = common->given,
        .environment = (const char *const *)environ,
        .filled = (const char *const *)bare->turn->conduct->work[bare->workload].variables.items,
        .stats_rows = stats_csv_rows(bare->folder.stats),
        .collected_files = bare->files,
    };
    int r = history_csv_write_missing(bare->folder.path, &bare->workers, err);

    if (r >= 0)
        r = stats_csv_commit(bare->folder.stats, err);
    if (r >= 0)
        r = events_log_commit(&bare->folder.events, err);
    summary.times.ended_s = mst_wall_s();
    return r < 0 ? r : summary_write(&summary, err);
}

/* A worker's own words say more than its end does. */
static void say_why(const struct bare *bare, struct mst_error *err)
{
    for (size_t i = 0; i < bare->workers.count; i++) {
        const struct worker *worker = &bare->workers.items[i];
        if (worker->state == WORKER_FAILED && worker->reason[0] != '\0' && !strstr(err->text, worker->reason))
            (void)mst_error_set(err, err->code, "worker '%s': %s", worker->slot, worker->reason);
    }
}

/* 1: all workers ended well. */
static int judge(struct bare *bare, struct mst_error *err)
{
    size_t ended = 0;

    for (size_t i = 0; i < bare->job->worker_count; i++) {
        const struct conduct_call *call = &bare->calls[i];
        if (!launch_has_ended(call->launch))
            continue;
        const int r = conduct_call_result(call, err);
        if (r < 0)
            return r;
        ended++;
    }
    if (bare->times.trained_s <= 0 &&
        workers_count_state(&bare->workers, WORKER_DONE) == bare->job->worker_count)
        bare->times.trained_s = mst_wall_s();
    if (ended < bare->job->worker_count)
        return 0;
    if (bare->times.collected_s <= 0)
        bare->times.collected_s = mst_wall_s();
    return 1;
}

static void release(struct bare *bare)
{
    for (size_t i = 0; bare->calls && i < bare->job->worker_count; i++)
        cJSON_Delete(bare->calls[i].request);
    free(bare->calls);
    mst_forget(bare->key, sizeof bare->key);
    workers_release(&bare->workers);
    runfolder_release(&bare->folder);
}

int conduct_bare(struct turn *turn, struct mst_error *err)
{
    struct bare bares[CONDUCT_WORKLOADS_MAX] = {0};
    const unsigned count = turn->cell->workloads;
    struct mst_error why = MST_ERROR_INIT;
    unsigned started = 0;
    int r = 0;

    for (unsigned w = 0; w < count; w++) {
        bares[w] = (struct bare){.turn = turn, .workload = w, .job = &turn->conduct->jobs[w]};
        workers_init(&bares[w].workers);
    }
    for (; started < count && r >= 0; started++)
        r = start(&bares[started], &why);
    for (unsigned done = 0; r >= 0 && done < count;) {
        r = launches_round(&turn->set, turn->deadline_ns, &why);
        done = 0;
        for (unsigned w = 0; w < count && r >= 0; w++) {
            r = judge(&bares[w], &why);
            done += r > 0;
        }
    }
    if (r == -ETIMEDOUT)
        (void)mst_error_set(&why, r, "the workers were not done within %llu s",
                            (unsigned long long)(turn->conduct->options->run_timeout_ns / MST_NS_PER_S));
    if (r < 0) {
        launches_end(&turn->set, END_GRACE_MS); /* what it still says goes into the results */
        for (unsigned w = 0; w < started; w++)
            say_why(&bares[w], &why);
    }
    for (unsigned w = 0; w < started; w++) {
        struct mst_error later = MST_ERROR_INIT;
        const int written = bares[w].calls ? write_results(&bares[w], r, &why, &later) : 0;
        if (written < 0 && r >= 0)
            r = mst_error_set(&why, written, "%s", later.text);
    }
    for (unsigned w = 0; w < count; w++)
        release(&bares[w]);
    return r < 0 ? mst_error_set(err, r, "%s", why.text) : 0;
}
