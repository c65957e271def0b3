/* SPDX-License-Identifier: Apache-2.0 */
/* Images without a registry: what only the engine that is talked to has (an image that was built there, never
 * pulled or pushed) goes as an archive to every node that may run it and does not have it. */
#ifndef SWARM_SHIP_H
#define SWARM_SHIP_H

#include "nodes.h"
#include "nodesfile.h"
#include "session.h"

struct ship {
    /* Of the project's images those that are local, as the file names them: no registry is to be asked for
     * them. Owned. */
    struct compose_strings local;
    size_t sent;
};

/* Each transfer is shown while it is under way and is a line of the report then. `is_dry`: the lines only.
 * -ENOENT, and nothing is sent, when a node that may run a local image is not in the file; -EREMOTEIO and
 * others from its engine. */
int ship_images(struct session *session, const struct compose_project *project, const struct nodesfile *file,
                bool is_dry, struct ship *ret_ship, struct mst_error *err);
void ship_release(struct ship *ship);

/* The image's id on an engine, "" when it has none by this name. *ret_is_local (may be NULL): no registry is
 * known to have it. */
int ship_find(struct engine *engine, const char *image, char ret_id[static ENGINE_NAME_MAX_BYTES],
              bool *ret_is_local, struct mst_error *err);

#endif
