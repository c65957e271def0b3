/* SPDX-License-Identifier: Apache-2.0 */
/* What a stack's workers do, as processes without containers would have to do it: read from the stack itself,
 * so that both do the same by construction. No I/O. */
#ifndef EXPERIMENT_CONDUCT_JOB_H
#define EXPERIMENT_CONDUCT_JOB_H

#include "experiment/limits.h"
#include "muster/compose.h"

#include <cjson/cJSON.h>
#include <stdbool.h>

#define JOB_WORKERS_MAX 256
#define JOB_FILES_MAX   16

struct job_worker {
    const struct compose_service *service; /* borrowed from the project */
    char host[128], slot[128];             /* slot: the host's name; of a second one there "HOST-2" */
    struct limits limits;
};

struct job_file {
    const char *target; /* in a container */
    char name[32];      /* in the folder of a bare worker */
    const void *bytes;  /* borrowed */
    size_t count;
};

struct job {
    const struct compose_project *project;
    struct job_worker workers[JOB_WORKERS_MAX];
    size_t worker_count;
    struct job_file files[JOB_FILES_MAX];
    size_t file_count;
};

/* Every worker service must be pinned to one host (node.hostname == X): -EBADMSG with its place when not, or
 * when limits or configs differ between workers, or it is no training, or one with options of its own. */
int job_read(const struct compose_project *project, struct job *ret_job, struct mst_error *err);

bool job_limits_equal(const struct limits *a, const struct limits *b);
bool job_is_worker(const struct compose_service *service);
bool job_is_role(const struct compose_service *service, const char *role);
/* A variable of a service, NULL: none. */
const char *job_variable(const struct compose_service *service, const char *name);

/* What is different without a container. */
struct job_place {
    const char *folder; /* of this worker's run on its host */
    const char *data;   /* folder with the data there */
    const char *cluster, *slot, *run, *subnet;
    const char *exchange; /* NULL: as the stack says */
    unsigned port;
};

/* The process's variables, "NAME=VALUE", as a JSON array; the caller deletes it. NULL without memory. Nothing
 * secret is among them: of variables whose names speak of secrets none is taken. */
cJSON *job_environment(const struct job *job, const struct job_worker *worker, const struct job_place *place);

#endif
