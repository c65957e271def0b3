/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that can be known to go wrong, before the first write. */
#ifndef SWARM_CHECK_H
#define SWARM_CHECK_H

#include "live.h"
#include "muster/compose.h"
#include "nodes.h"
#include "spec.h"
#include "subnets.h"

/* What the file alone shows and compose/ leaves to who knows the Swarm: constraints. -EBADMSG with the place.
 */
int check_project(const struct compose_project *project, struct mst_error *err);
/* Every service that wants to run has a usable node; a pin to a host name or an id meets exactly one.
 * SWARM_NO_CONVERGENCE when not. */
int check_pins(const struct compose_project *project, const struct swarm_nodes *nodes, struct mst_error *err);
/* Subnets of the networks that are going to be made, which are added to `used`. -EADDRINUSE with a free
 * subnet in the text. */
int check_subnets(const struct compose_project *project, const struct live *live, struct subnets *used,
                  struct mst_error *err);
/* Names that are to be made are free, or the stack's own: -EEXIST with the owner. */
int check_names(const struct compose_project *project, const struct live *live, struct mst_error *err);
/* No other service publishes the same port: -EADDRINUSE with its name. */
int check_ports(const struct compose_project *project, const struct live *live, struct mst_error *err);
/* No service is to change its mode, which the engine does not do: -EREMOTEIO. */
int check_modes(const struct compose_project *project, const struct live *live, struct mst_error *err);
/* External networks, secrets and configs exist (-ENOENT when not); those and what lives of the stack go into
 * `ids`. Secrets that muster makes may be missing. Asks the engine. */
int check_references(struct engine *engine, const struct compose_project *project, const struct live *live,
                     struct spec_ids *ids, struct mst_error *err);

#endif
