/* SPDX-License-Identifier: Apache-2.0 */
/* Which image a service gets: the registry's digest for the tag, what the live service has, or the tag as it
 * is. */
#ifndef SWARM_IMAGE_H
#define SWARM_IMAGE_H

#include "report.h"
#include "spec.h"

enum image_resolve { IMAGE_ALWAYS, IMAGE_CHANGED, IMAGE_NEVER };

struct image {
    char *image;      /* owned: what goes into the body */
    cJSON *platforms; /* owned, NULL: none */
    char *auth;       /* owned: header for the registry (auth.h), NULL: none */
};

struct images {
    struct image *items; /* one for each of the project's services, in their order */
    size_t count;
};

/* "/distribution/host:5000/name:tag/json" for the head "/distribution": the slashes are the image's own. */
int image_path(const char *head, const char *image, struct mst_buf *path);

/* Asks the engine once for each distinct image; an image that no registry knows is a warning on `report`
 * (NULL: no warnings), for the nodes may have it. `live_services` may be NULL. `with_auth`: credentials of
 * docker's configuration go along. No registry is asked for the images in `local` (as the file names them;
 * NULL: none). */
int images_resolve(struct engine *engine, const struct compose_project *project, const cJSON *live_services,
                   enum image_resolve resolve, bool with_auth, const struct compose_strings *local,
                   struct report *report, struct images *ret_images, struct mst_error *err);
void images_release(struct images *images);
int image_parse_resolve(const char *text, enum image_resolve *ret_resolve, struct mst_error *err);

#endif
