/* SPDX-License-Identifier: Apache-2.0 */
/* What a deployment would do: every check, every comparison, no write. */
#ifndef SWARM_PLAN_H
#define SWARM_PLAN_H

#include "image.h"
#include "live.h"
#include "nodes.h"
#include "output.h"
#include "session.h"
#include "spec.h"

enum plan_action { PLAN_KEEP, PLAN_CREATE, PLAN_UPDATE, PLAN_REMOVE };

struct plan_step {
    enum engine_kind kind;
    enum plan_action action;
    size_t index;  /* in the project's list of that kind; not for PLAN_REMOVE */
    char *name;    /* owned */
    char *id;      /* owned, NULL: does not live so far */
    char *changes; /* owned: lines "path: old -> new"; NULL: nothing to say */
};

struct plan {
    const struct compose_project *project; /* borrowed */
    struct engine_info info;
    struct swarm_nodes nodes;
    struct live live;
    struct spec_ids ids;
    struct images images;
    bool asks_secrets; /* of plan_options */
    struct plan_step
        *steps; /* in the order in which they are taken: networks, secrets, configs, services, removals */
    size_t count;
};

struct plan_options {
    enum image_resolve resolve;
    bool prune, with_auth;
    bool ask_secrets; /* compare the contents of secrets, by updates that the manager must refuse; else no
                         call but GET is made, and a secret of this name is kept, whatever it holds */
    const struct compose_strings *local; /* images that no registry has, as the file names them; NULL: none */
};

/* Warnings (an image without a digest, a network that drifted) go to session->report. The plan is the
 * caller's to release, also after an error. */
int plan_make(struct session *session, const struct compose_project *project,
              const struct plan_options *options, struct plan *ret_plan, struct mst_error *err);
void plan_release(struct plan *plan);
bool plan_has_changes(const struct plan *plan);
/* The table or its JSON on stdout. */
int plan_print(const struct plan *plan, enum output_format format, struct mst_error *err);
const char *plan_action_text(enum plan_action action);
/* A service's body with what is known now. `live` is the service as it lives, NULL for a new one. */
int plan_service_body(const struct plan *plan, size_t index, const cJSON *live, cJSON **ret_body,
                      struct mst_error *err);

#endif
