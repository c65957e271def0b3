/* SPDX-License-Identifier: Apache-2.0 */
#include "engine_private.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/json.h"
#include "muster/parse.h"
#include "transfer.h"

#include <pthread.h>
#include <string.h>

#define CONNECT_TIMEOUT_MS 5000
#define REQUEST_TIMEOUT_MS 30000
#define POLL_CAP_MS        1000
#define WRITE_GRACE_MS     5000 /* for a write that is under way when the cancel comes */

static void start_curl(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT); /* a failure shows as curl_multi_init() returning NULL */
}

int engine_new(const struct engine_options *options, struct engine **ret_engine, struct mst_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    mst_cleanup(engine_freep) struct engine *engine = calloc(1, sizeof *engine);
    int r;

    if (!engine)
        return mst_error_set(err, -ENOMEM, "engine client: no memory");
    (void)pthread_once(&once, start_curl);
    engine->cancel_fd = -1;
    if (options)
        engine->options = *options;
    if (engine->options.connect_timeout_ms == 0)
        engine->options.connect_timeout_ms = CONNECT_TIMEOUT_MS;
    if (engine->options.request_timeout_ms == 0)
        engine->options.request_timeout_ms = REQUEST_TIMEOUT_MS;
    r = endpoint_init(&engine->endpoint, engine->options.host, engine->options.context, err);
    if (r < 0)
        return r;
    engine->options.host = engine->options.context = NULL;
    engine->multi = curl_multi_init();
    if (!engine->multi)
        return mst_error_set(err, -ENOMEM, "engine client: libcurl does not start");
    *ret_engine = engine;
    engine = NULL;
    return 0;
}

void engine_free(struct engine *engine)
{
    if (!engine)
        return;
    if (engine->multi)
        (void)curl_multi_cleanup(engine->multi);
    endpoint_release(&engine->endpoint);
    free(engine);
}

void engine_freep(struct engine **engine)
{
    engine_free(*engine);
    *engine = NULL;
}

void engine_set_cancel_fd(struct engine *engine, int fd)
{
    engine->cancel_fd = fd;
}

const char *engine_host(const struct engine *engine)
{
    return engine->endpoint.text;
}

int engine_poll(const struct engine *engine, CURLM *multi, int timeout_ms, struct mst_error *err)
{
    struct curl_waitfd cancel = {.fd = engine->cancel_fd, .events = CURL_WAIT_POLLIN};
    const bool has_cancel = engine->cancel_fd >= 0;
    const CURLMcode m =
        curl_multi_poll(multi, has_cancel ? &cancel : NULL, has_cancel ? 1 : 0, timeout_ms, NULL);

    if (m != CURLM_OK)
        return mst_error_set(err, -EIO, "wait for %s: %s", engine->endpoint.text, curl_multi_strerror(m));
    if (has_cancel && cancel.revents != 0)
        return mst_error_set(err, -ECANCELED, "interrupted while waiting for %s", engine->endpoint.text);
    return 0;
}

static bool is_write(const char *method)
{
    return strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0;
}

/* Drive the one transfer of engine->multi to its end; libcurl keeps the deadline. What was sent of a write
 * the engine does in any case, and whoever cleans up after a cancel must know of it: so the reply is waited
 * for, a little. */
static int drive(struct engine *engine, bool is_writing, CURLcode *ret_curl_code, struct mst_error *err)
{
    struct mst_error why = MST_ERROR_INIT;
    uint64_t cancelled_ns = 0;

    for (;;) {
        int running = 0, left = 0, r;
        const CURLMcode m = curl_multi_perform(engine->multi, &running);
        const CURLMsg *message;

        if (m != CURLM_OK)
            return mst_error_set(err, -EIO, "%s: %s", engine->endpoint.text, curl_multi_strerror(m));
        message = curl_multi_info_read(engine->multi, &left);
        if (message && message->msg == CURLMSG_DONE) {
            *ret_curl_code = message->data.result;
            return 0;
        }
        r = engine_poll(engine, engine->multi, POLL_CAP_MS, &why);
        if (r == -ECANCELED && is_writing) {
            cancelled_ns = mst_now_ns();
            engine->cancel_fd = -1; /* run_transfer() puts it back */
        } else if (r < 0 || (cancelled_ns > 0 && mst_ms_since(cancelled_ns) >= WRITE_GRACE_MS)) {
            if (err)
                *err = why;
            return why.code;
        }
    }
}

static int run_transfer(struct engine *engine, const char *method, struct engine_transfer *transfer,
                        struct mst_error *err)
{
    const int cancel_fd = engine->cancel_fd;
    CURLcode curl_code = CURLE_OK;
    CURLMcode m;
    int r = is_write(method) ? engine_poll(engine, engine->multi, 0, err) : 0;

    if (r < 0) /* no write is begun after a cancel */
        return mst_error_wrap(err, r, "%s", transfer->label);
    m = curl_multi_add_handle(engine->multi, transfer->easy);
    if (m != CURLM_OK)
        return mst_error_set(err, -EIO, "%s: %s", transfer->label, curl_multi_strerror(m));
    r = drive(engine, is_write(method), &curl_code, err);
    engine->cancel_fd = cancel_fd;
    (void)curl_multi_remove_handle(engine->multi, transfer->easy);
    if (r < 0)
        return mst_error_wrap(err, r, "%s", transfer->label);
    return transfer_result(transfer, curl_code, err);
}

/* Api-Version is "1.41". */
static int settle_version(struct engine *engine, const char *text, struct mst_error *err)
{
    uint32_t minor = 0;

    if (strncmp(text, "1.", 2) != 0 || mst_parse_u32(text + 2, 0, 9999, &minor, NULL) < 0)
        return mst_error_set(err, -EPROTO,
                             "GET /_ping: what answers at %s is no Docker engine (Api-Version '%s')",
                             engine->endpoint.text, text);
    if (minor < ENGINE_API_MIN_MINOR)
        return mst_error_set(
            err, -EPROTONOSUPPORT,
            "the engine at %s speaks API 1.%u; 1.%d (Docker 20.10) is the oldest that is understood",
            engine->endpoint.text, (unsigned)minor, ENGINE_API_MIN_MINOR);
    engine->api_minor = minor < ENGINE_API_MAX_MINOR ? minor : ENGINE_API_MAX_MINOR;
    return 0;
}

static int ping(struct engine *engine, struct mst_error *err)
{
    const struct engine_call call = {
        .method = "GET",
        .path = "/_ping",
        .timeout_ms = engine->options.request_timeout_ms,
        .max_reply_bytes = 65536,
    };
    struct engine_transfer transfer;
    int r = transfer_init(&transfer, &engine->endpoint, &engine->options, 0, &call, err);

    if (r < 0)
        return r;
    r = run_transfer(engine, call.method, &transfer, err);
    if (r >= 0 && transfer_status(&transfer) >= 400)
        r = transfer_refused(transfer.label, transfer_status(&transfer), NULL, err);
    if (r >= 0)
        r = settle_version(engine, transfer.api_version, err);
    transfer_release(&transfer);
    return r;
}

int engine_api_minor(struct engine *engine, unsigned *ret_minor, struct mst_error *err)
{
    if (engine->api_minor == 0) {
        const int r = ping(engine, err);
        if (r < 0)
            return r;
    }
    *ret_minor = engine->api_minor;
    return 0;
}

static int take_reply(const struct engine_transfer *transfer, const struct engine_call *call,
                      struct engine_reply *ret_reply, struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *json = NULL;
    const int status = transfer_status(transfer);
    int r = transfer_json(transfer, &json, err);

    if (status >= 400 && !call->any_status)
        return transfer_refused(transfer->label, status, json, err);
    if (r < 0)
        return r;
    if (status >= 300 && status < 400 && status != 304)
        return mst_error_set(err, -EPROTO, "%s: %s answers with status %d, as no engine does",
                             transfer->label, transfer->host, status);
    ret_reply->status = status;
    ret_reply->json = json;
    json = NULL;
    return 0;
}

int engine_request(struct engine *engine, const struct engine_call *call, struct engine_reply *ret_reply,
                   struct mst_error *err)
{
    struct engine_call filled = *call;
    struct engine_transfer transfer;
    unsigned minor;
    int r = engine_api_minor(engine, &minor, err);

    if (r < 0)
        return r;
    if (filled.timeout_ms == 0)
        filled.timeout_ms = engine->options.request_timeout_ms;
    if (filled.max_reply_bytes == 0)
        filled.max_reply_bytes = ENGINE_REPLY_MAX_BYTES;
    r = transfer_init(&transfer, &engine->endpoint, &engine->options, minor, &filled, err);
    if (r < 0)
        return r;
    r = run_transfer(engine, call->method, &transfer, err);
    if (r >= 0)
        r = take_reply(&transfer, call, ret_reply, err);
    transfer_release(&transfer);
    return r;
}

void engine_reply_release(struct engine_reply *reply)
{
    cJSON_Delete(reply->json);
    *reply = (struct engine_reply){0};
}

const char *engine_reply_message(const struct engine_reply *reply)
{
    return mst_json_string_or(reply->json, "message", "");
}

int engine_refused(const struct engine *engine, const struct engine_call *call,
                   const struct engine_reply *reply, struct mst_error *err)
{
    char label[512];

    (void)snprintf(label, sizeof label, "%s /v1.%u%s%s%s%s", call->method, engine->api_minor, call->path,
                   call->about ? " (" : "", call->about ? call->about : "", call->about ? ")" : "");
    return transfer_refused(label, reply->status, reply->json, err);
}
