/* SPDX-License-Identifier: Apache-2.0 */
/* What docker's configuration knows of registries, for the engine to pull with (--with-registry-auth). */
#ifndef SWARM_AUTH_H
#define SWARM_AUTH_H

#include "muster/error.h"

#include <stddef.h>

/* The header line "X-Registry-Auth: ..." for the image's registry; NULL when there is nothing for it, so that
 * what the live service has is not wiped. From config.json in DOCKER_CONFIG or ~/.docker: credHelpers,
 * credsStore (docker-credential-NAME is run), auths. The caller frees (auth_free: it is a secret). */
int auth_header(const char *image, char **ret_line, struct mst_error *err);
void auth_free(char *line);
void auth_freep(char **line);

/* "registry:5000" of "registry:5000/a/b:1"; "https://index.docker.io/v1/" for Docker's own. */
void auth_registry(const char *image, char *text, size_t capacity);

#endif
