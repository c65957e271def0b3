/* SPDX-License-Identifier: Apache-2.0 */
/* What the plan's own files share. */
#ifndef SWARM_PLAN_PRIVATE_H
#define SWARM_PLAN_PRIVATE_H

#include "plan.h"

/* `id` NULL: does not live so far. NULL without memory, with the error set. The step is valid until the next
 * one is added. */
struct plan_step *plan_add_step(struct plan *plan, enum engine_kind kind, enum plan_action action,
                                size_t index, const char *name, const char *id, struct mst_error *err);

/* Secrets or configs: find the version that is as the file says, or plan a new one. */
int plan_contents(struct plan *plan, struct engine *engine, enum engine_kind kind, struct mst_error *err);
/* Versions that no service refers to when the plan has been carried out. After services were planned. */
int plan_old_versions(struct plan *plan, enum engine_kind kind, struct mst_error *err);

/* cJSON frees without wiping: the text of a secret is overwritten first. */
void contents_forget(cJSON *body);

#endif
