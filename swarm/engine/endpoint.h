/* SPDX-License-Identifier: Apache-2.0 */
/* Where an engine is: the host text of -H and DOCKER_HOST, taken apart. ssh://, contexts and TLS belong here.
 */
#ifndef ENGINE_ENDPOINT_H
#define ENGINE_ENDPOINT_H

#include "muster/error.h"

struct engine_endpoint {
    char *text;        /* for messages: "unix:///var/run/docker.sock" */
    char *socket_path; /* NULL: TCP */
    char *base_url;    /* "http://10.0.0.1:2375"; a fixed name for Unix sockets */
};

/* `host` NULL or "": DOCKER_HOST, else Docker's own socket. -EINVAL when it cannot be read. */
int endpoint_init(struct engine_endpoint *endpoint, const char *host, struct mst_error *err);
void endpoint_release(struct engine_endpoint *endpoint);

#endif
