/* SPDX-License-Identifier: Apache-2.0 */
/* Project -> the bodies that the engine's API takes: same keys, order and omissions as docker's client sends,
 * so that a service does not restart because somebody changed tools (swarmkit compares task templates for
 * deep equality). */
#ifndef SWARM_SPEC_H
#define SWARM_SPEC_H

#include "muster/compose.h"
#include "muster/engine.h"

/* The ids of networks, secrets and configs, by the names that the project has for them. */
struct spec_id {
    enum engine_kind kind;
    char name[ENGINE_NAME_MAX_BYTES];
    char actual[ENGINE_NAME_MAX_BYTES]; /* in the engine: another one for a version (versions.h) */
    char id[ENGINE_NAME_MAX_BYTES];     /* "": will be known when it is made */
};

struct spec_ids {
    struct spec_id *items; /* owned */
    size_t count;
};

int spec_ids_add(struct spec_ids *ids, enum engine_kind kind, const char *name, const char *id,
                 struct mst_error *err);
int spec_ids_add_version(struct spec_ids *ids, enum engine_kind kind, const char *name, const char *actual,
                         const char *id, struct mst_error *err);
/* `name` itself when nothing else is known. */
const char *spec_ids_actual(const struct spec_ids *ids, enum engine_kind kind, const char *name);
const char *spec_ids_find(const struct spec_ids *ids, enum engine_kind kind,
                          const char *name); /* NULL: unknown */
void spec_ids_forget(struct spec_ids *ids, enum engine_kind kind, const char *name);
void spec_ids_release(struct spec_ids *ids);

/* What an image name became after the registry was asked. */
struct spec_image {
    const char *image;      /* "muster:latest@sha256:..." or the name with its tag; borrowed */
    const cJSON *platforms; /* array for Placement.Platforms, borrowed; NULL: none */
};

/* What an update keeps of the live service; zero for a new one. */
struct spec_kept {
    uint64_t force_update;
};

/* A service's whole body, the caller's to delete. Networks are attached by id, by name where `ids` does not
 * know them (so that a body can be compared before anything was made). */
int spec_service(const struct compose_project *project, const struct compose_service *service,
                 const struct spec_ids *ids, const struct spec_image *image, const struct spec_kept *kept,
                 cJSON **ret_body, struct mst_error *err);
int spec_network(const struct compose_project *project, const struct compose_network *network,
                 cJSON **ret_body, struct mst_error *err);
/* A secret or a config by the name `actual` (content->name, or a version's); `bytes` are its content. */
int spec_content(const struct compose_project *project, const struct compose_content *content,
                 const char *actual, const void *bytes, size_t byte_count, cJSON **ret_body,
                 struct mst_error *err);

/* host, bridge, none, default and such: attached by name and without an alias. */
bool spec_network_is_predefined(const char *name);
/* The image with ":latest" where it has neither tag nor digest; the caller frees. NULL without memory. */
char *spec_image_with_tag(const char *image);

/* Private to the spec_*.c files. */
struct build;
void spec_container(struct build *build, const struct compose_project *project,
                    const struct compose_service *service, const struct spec_ids *ids, const char *image,
                    cJSON *parent);

#endif
