/* SPDX-License-Identifier: Apache-2.0 */
#include "experiment/conduct_job.h"

#include "muster/cleanup.h"
#include "nodes.h"
#include "stack.h"
#include "variables.h"

#include <stdio.h>
#include <string.h>

#define PATH_BYTES 1024

bool job_is_role(const struct compose_service *service, const char *role)
{
    const char *label = compose_pairs_find(&service->deploy.labels, ROLE_LABEL);

    return label && strcmp(label, role) == 0;
}

static bool has_word(const struct compose_strings *words, size_t at, const char *word)
{
    return words->count > at && strcmp(words->items[at], word) == 0;
}

static bool trains(const struct compose_service *service)
{
    return has_word(&service->command, 0, "muster-agent") && has_word(&service->command, 1, "train");
}

bool job_is_worker(const struct compose_service *service)
{
    return job_is_role(service, "worker") ||
           (trains(service) && !compose_pairs_find(&service->deploy.labels, ROLE_LABEL));
}

const char *job_variable(const struct compose_service *service, const char *name)
{
    const size_t bytes = strlen(name);

    for (size_t i = 0; i < service->environment.count; i++) {
        const char *item = service->environment.items[i];
        if (strncmp(item, name, bytes) == 0 && item[bytes] == '=')
            return item + bytes + 1;
    }
    return NULL;
}

static int fault(const struct compose_service *service, struct mst_error *err, const char *text)
{
    return mst_error_set(err, -EBADMSG, "%s:%u:%u: services.%s: %s",
                         service->place.file ? service->place.file : "stack", (unsigned)service->place.line,
                         (unsigned)service->place.column, service->key, text);
}

static int find_host(const struct compose_service *service, char *host, size_t bytes, struct mst_error *err)
{
    for (size_t i = 0; i < service->deploy.constraints.count; i++) {
        struct constraint constraint;
        if (constraint_parse(service->deploy.constraints.items[i], &constraint, NULL) == 0 &&
            strcmp(constraint.key, "node.hostname") == 0 && !constraint.must_differ) {
            (void)snprintf(host, bytes, "%s", constraint.value);
            return 0;
        }
    }
    return fault(
        service, err,
        "no constraint 'node.hostname == HOST': a bare run must know on which host this worker belongs");
}

bool job_limits_equal(const struct limits *a, const struct limits *b)
{
    return a->nano_cpus == b->nano_cpus && a->memory_bytes == b->memory_bytes && a->pids == b->pids;
}

static int add_worker(struct job *job, const struct compose_service *service, const char *host,
                      struct mst_error *err)
{
    struct job_worker *worker = &job->workers[job->worker_count];
    unsigned before = 0;

    if (job->worker_count == JOB_WORKERS_MAX)
        return fault(service, err, "more workers than an experiment takes (256)");
    for (size_t i = 0; i < job->worker_count; i++)
        before += strcmp(job->workers[i].host, host) == 0;
    *worker = (struct job_worker){.service = service,
                                  .limits = {.nano_cpus = service->deploy.limits.nano_cpus,
                                             .memory_bytes = service->deploy.limits.memory_bytes,
                                             .pids = service->deploy.limits.pids}};
    (void)snprintf(worker->host, sizeof worker->host, "%s", host);
    (void)snprintf(worker->slot, sizeof worker->slot, "%s", host);
    if (before > 0)
        (void)snprintf(worker->slot, sizeof worker->slot, "%s-%u", host, before + 1);
    if (job->worker_count > 0 && !job_limits_equal(&worker->limits, &job->workers[0].limits))
        return fault(service, err, "its limits are not those of the other workers: times would not compare");
    job->worker_count++;
    return 0;
}

static int add_service(struct job *job, const struct compose_service *service, struct mst_error *err)
{
    const struct compose_deploy *deploy = &service->deploy;
    const uint64_t replicas = deploy->replicas.is_set ? deploy->replicas.value : 1;
    char host[128];
    int r;

    if (!trains(service))
        return fault(service, err,
                     "a worker that does not run 'muster-agent train': only trainings are compared");
    if (service->command.count > 2)
        return fault(
            service, err,
            "options after 'muster-agent train' reach no bare worker: give them as MUSTER_* variables");
    if (deploy->mode != COMPOSE_MODE_REPLICATED)
        return fault(service, err, "workers of an experiment are replicated services");
    r = find_host(service, host, sizeof host, err);
    for (uint64_t i = 0; i < replicas && r >= 0; i++)
        r = add_worker(job, service, host, err);
    return r;
}

static bool uses_equal(const struct compose_content_use *a, const struct compose_content_use *b)
{
    return strcmp(a->target, b->target) == 0 &&
           (a->content == b->content ||
            (a->content->bytes && b->content->bytes && a->content->byte_count == b->content->byte_count &&
             memcmp(a->content->bytes, b->content->bytes, a->content->byte_count) == 0));
}

/* All bare workers are given the first one's files. */
static int check_files(const struct job *job, struct mst_error *err)
{
    const struct compose_service *first = job->workers[0].service;

    for (size_t w = 1; w < job->worker_count; w++) {
        const struct compose_service *service = job->workers[w].service;
        bool are_equal = service->config_count == first->config_count;
        for (size_t i = 0; i < service->config_count && are_equal; i++)
            are_equal = uses_equal(&service->configs[i], &first->configs[i]);
        if (!are_equal)
            return fault(service, err,
                         "its configs are not those of the other workers: they would not train the same");
    }
    return 0;
}

static int add_files(struct job *job, const struct compose_service *service, struct mst_error *err)
{
    for (size_t i = 0; i < service->config_count; i++) {
        const struct compose_content_use *use = &service->configs[i];
        struct job_file *file = &job->files[job->file_count];
        if (job->file_count == JOB_FILES_MAX)
            return fault(service, err, "more configs than an experiment takes (16)");
        if (use->content->external || !use->content->bytes)
            return fault(service, err,
                         "a config that is not a file of the stack cannot be given to bare workers");
        *file = (struct job_file){
            .target = use->target, .bytes = use->content->bytes, .count = use->content->byte_count};
        (void)snprintf(file->name, sizeof file->name, "config-%zu", i);
        job->file_count++;
    }
    return 0;
}

int job_read(const struct compose_project *project, struct job *ret_job, struct mst_error *err)
{
    int r = 0;

    *ret_job = (struct job){.project = project};
    for (size_t i = 0; i < project->service_count && r >= 0; i++) {
        if (job_is_worker(&project->services[i]))
            r = add_service(ret_job, &project->services[i], err);
    }
    if (r >= 0 && ret_job->worker_count == 0)
        r = mst_error_set(err, -EBADMSG, "stack '%s' has no workers: no service runs 'muster-agent train'",
                          project->stack);
    if (r >= 0)
        r = check_files(ret_job, err);
    return r < 0 ? r : add_files(ret_job, ret_job->workers[0].service, err);
}

/* ---- variables ---- */

static bool is_replaced(const char *item)
{
    /* What belongs to a container, is said anew, or is a secret's way in. */
    static const char *const names[] = {
        "MUSTER_CLUSTER", "MUSTER_SLOT",         "MUSTER_OUT",
        "MUSTER_STATE",   "MUSTER_RUN",          "MUSTER_KEY_FILE",
        "MUSTER_DATA",    "MUSTER_OLD_KEY_FILE", "MUSTER_SUBNET",
        "MUSTER_PEERS",   "MUSTER_PORT",         "MUSTER_INTERFACE",
        "MUSTER_DNS",     "MUSTER_FROM_XML",     "MUSTER_COLLECT",
        "MUSTER_USER",    "MUSTER_STEP_LOG",     "PATH",
    };
    const size_t bytes = strcspn(item, "=");

    for (size_t i = 0; i < MST_ARRAY_COUNT(names); i++) {
        if (strlen(names[i]) == bytes && strncmp(names[i], item, bytes) == 0)
            return true;
    }
    return item[bytes] == '\0' || variables_is_private(item) || strstr(item, "{{") != NULL;
}

static bool append(cJSON *list, const char *name, const char *value)
{
    mst_cleanup(mst_freep) char *text = mst_format("%s=%s", name, value);
    cJSON *item = text ? cJSON_CreateString(text) : NULL;

    return item && cJSON_AddItemToArray(list, item);
}

static bool append_path(cJSON *list, const char *name, const char *folder, const char *file)
{
    char path[PATH_BYTES];

    (void)snprintf(path, sizeof path, "%s/%s", folder, file);
    return append(list, name, path);
}

/* As it is, unless it names a file that the container gets as a config. */
static bool append_item(cJSON *list, const struct job *job, const struct job_place *place, const char *item)
{
    const char *value = strchr(item, '=') + 1;
    char name[256];

    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(item, "="), item);
    if (place->exchange && strcmp(name, "MUSTER_EXCHANGE") == 0)
        return true;
    for (size_t i = 0; i < job->file_count; i++) {
        if (strcmp(job->files[i].target, value) == 0)
            return append_path(list, name, place->folder, job->files[i].name);
    }
    return append(list, name, value);
}

cJSON *job_environment(const struct job *job, const struct job_worker *worker, const struct job_place *place)
{
    const struct compose_strings *environment = &worker->service->environment;
    cJSON *list = cJSON_CreateArray();
    char port[16];
    bool ok = list != NULL;

    for (size_t i = 0; i < environment->count && ok; i++)
        ok = is_replaced(environment->items[i]) || append_item(list, job, place, environment->items[i]);
    (void)snprintf(port, sizeof port, "%u", place->port);
    ok = ok && append(list, "MUSTER_CLUSTER", place->cluster) && append(list, "MUSTER_SLOT", place->slot) &&
         append(list, "MUSTER_RUN", place->run) && append(list, "MUSTER_SUBNET", place->subnet) &&
         append(list, "MUSTER_PORT", port) && append(list, "MUSTER_DATA", place->data) &&
         append_path(list, "MUSTER_KEY_FILE", place->folder, "key") &&
         append_path(list, "MUSTER_OUT", place->folder, "out") &&
         append_path(list, "MUSTER_STATE", place->folder, "state") &&
         append(list, "MUSTER_STEP_LOG", "true") &&
         (!place->exchange || append(list, "MUSTER_EXCHANGE", place->exchange));
    if (ok)
        return list;
    cJSON_Delete(list);
    return NULL;
}
