/* SPDX-License-Identifier: Apache-2.0 */
/* What the client's own files share. */
#ifndef ENGINE_PRIVATE_H
#define ENGINE_PRIVATE_H

#include "endpoint.h"
#include "muster/engine.h"

#include <curl/curl.h>

struct engine {
    struct engine_endpoint endpoint;
    struct engine_options options; /* with the defaults filled in; `host` is not used any more */
    CURLM *multi;                  /* for requests; keeps the connection open between them */
    unsigned api_minor;            /* 0: not asked so far */
    int cancel_fd;                 /* borrowed, -1: none */
};

/* Wait until something moves on `multi`, at most `timeout_ms`: 0, -ECANCELED or -EIO. */
int engine_poll(const struct engine *engine, CURLM *multi, int timeout_ms, struct mst_error *err);

#endif
