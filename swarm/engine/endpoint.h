/* SPDX-License-Identifier: Apache-2.0 */
/* Where an engine is and how it is reached: a host text taken apart (unix, tcp with or without TLS, ssh),
 * from -H, docker's environment or a docker context. */
#ifndef ENGINE_ENDPOINT_H
#define ENGINE_ENDPOINT_H

#include "muster/error.h"

#include <stdbool.h>
#include <stddef.h>

struct dialer;

struct engine_endpoint {
    char *text;        /* for messages: "unix:///var/run/docker.sock" */
    char *socket_path; /* NULL: none */
    char *base_url;    /* "http://10.0.0.1:2375"; a fixed name for Unix sockets and ssh */
    /* TLS, when is_tls: files that are there, NULL otherwise (authorities: the system's). */
    char *ca_file, *cert_file, *key_file;
    bool is_tls, is_verified; /* not verified: --tls of docker, or a context that skips it */
    struct dialer *dialer;    /* ssh: makes the connections; NULL: libcurl does */
};

/* What a context (or the environment) says besides the host. Texts are owned. */
struct endpoint_source {
    char *host;
    char *tls_folder; /* NULL: no TLS of a context's own */
    bool skip_verify;
};

/* `host` "unix://...", "tcp://...", "http(s)://..." or "ssh://..."; NULL or "": `context`, and when that is
 * NULL or "" as well DOCKER_HOST, DOCKER_CONTEXT, the current context of docker's configuration, Docker's own
 * socket. -EINVAL when it cannot be read, -ENOENT for a context that is not there. */
int endpoint_init(struct engine_endpoint *endpoint, const char *host, const char *context,
                  struct mst_error *err);
void endpoint_release(struct engine_endpoint *endpoint);

/* context.c: "default" gives an empty source. */
int context_load(const char *name, struct endpoint_source *ret_source, struct mst_error *err);
/* The context that docker uses now by DOCKER_CONTEXT or its configuration; *ret_name is NULL for none. */
int context_current(char **ret_name, struct mst_error *err);
void endpoint_source_release(struct endpoint_source *source);

#endif
