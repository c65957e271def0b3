/* SPDX-License-Identifier: Apache-2.0 */
/* One HTTP exchange as libcurl sees it: how a handle is set up, what comes back, and what its end means.
 * Requests and streams are the same here; they differ in who drives the multi handle. */
#ifndef ENGINE_TRANSFER_H
#define ENGINE_TRANSFER_H

#include "endpoint.h"
#include "muster/engine.h"

#include <curl/curl.h>

struct engine_transfer {
    CURL *easy;                         /* owned */
    struct curl_slist *headers;         /* owned */
    char *label;                        /* "POST /v1.43/services/create (service 'web')", owned */
    char *body;                         /* what is sent, owned; may hold a secret, so it is wiped */
    struct mst_buf reply;               /* the body, or the refusal of a stream */
    const struct engine_upload *upload; /* borrowed */
    uint64_t uploaded;
    engine_bytes_fn *on_bytes; /* NULL: collect in `reply` */
    void *context;
    int code;             /* set when our side stopped the transfer */
    struct mst_error err; /* its text */
    char curl_text[CURL_ERROR_SIZE];
    char api_version[16]; /* of the Api-Version header */
    size_t taken_bytes, max_bytes;
    uint32_t timeout_ms, connect_timeout_ms;
    const struct engine_endpoint *endpoint; /* borrowed */
    const char *host;                       /* its text */
    unsigned deliveries;                    /* calls of on_bytes so far */
};

/* `api_minor` 0: no version in the path. After an error there is nothing to release. */
int transfer_init(struct engine_transfer *transfer, const struct engine_endpoint *endpoint,
                  const struct engine_options *options, unsigned api_minor, const struct engine_call *call,
                  struct mst_error *err);
void transfer_release(struct engine_transfer *transfer);

/* What the finished transfer means: 0, or an error with its text. Any HTTP status is 0. */
int transfer_result(struct engine_transfer *transfer, CURLcode curl_code, struct mst_error *err);
int transfer_status(const struct engine_transfer *transfer);
/* Parse `reply` where the Content-Type says JSON; *ret_json is NULL where it does not. */
int transfer_json(const struct engine_transfer *transfer, cJSON **ret_json, struct mst_error *err);

/* -EREMOTEIO with label, status and the server's words. */
int transfer_refused(const char *label, int status, const cJSON *json, struct mst_error *err);

#endif
