/* SPDX-License-Identifier: Apache-2.0 */
/* Any number of long replies in one thread: a multi handle of their own, so that a request made in between
 * does not call back into somebody's log. */
#include "engine_private.h"
#include "muster/cleanup.h"
#include "muster/json.h"
#include "transfer.h"

struct engine_stream {
    struct engine_transfer transfer;
    engine_end_fn *on_end;
    struct engine_streams *set;
    struct engine_stream *next;
};

struct engine_streams {
    struct engine *engine; /* borrowed */
    CURLM *multi;
    struct engine_stream *first;
    size_t count;
};

int engine_streams_new(struct engine *engine, struct engine_streams **ret_streams, struct mst_error *err)
{
    struct engine_streams *streams = calloc(1, sizeof *streams);

    if (streams)
        streams->multi = curl_multi_init();
    if (!streams || !streams->multi) {
        free(streams);
        return mst_error_set(err, -ENOMEM, "engine streams: no memory");
    }
    streams->engine = engine;
    *ret_streams = streams;
    return 0;
}

void engine_stream_close(struct engine_stream *stream)
{
    struct engine_streams *set = stream->set;
    struct engine_stream **at = &set->first;

    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    set->count--;
    (void)curl_multi_remove_handle(set->multi, stream->transfer.easy);
    transfer_release(&stream->transfer);
    free(stream);
}

void engine_streams_free(struct engine_streams *streams)
{
    if (!streams)
        return;
    while (streams->first)
        engine_stream_close(streams->first);
    (void)curl_multi_cleanup(streams->multi);
    free(streams);
}

void engine_streams_freep(struct engine_streams **streams)
{
    engine_streams_free(*streams);
    *streams = NULL;
}

int engine_stream_open(struct engine_streams *streams, const struct engine_call *call,
                       engine_bytes_fn *on_bytes, engine_end_fn *on_end, void *context,
                       struct engine_stream **ret_stream, struct mst_error *err)
{
    struct engine_stream *stream;
    unsigned minor;
    CURLMcode m;
    int r = engine_api_minor(streams->engine, &minor, err);

    if (r < 0)
        return r;
    stream = calloc(1, sizeof *stream);
    if (!stream)
        return mst_error_set(err, -ENOMEM, "%s %s: no memory", call->method, call->path);
    r = transfer_init(&stream->transfer, &streams->engine->endpoint, &streams->engine->options, minor, call,
                      err);
    if (r < 0) {
        free(stream);
        return r;
    }
    stream->transfer.on_bytes = on_bytes;
    stream->transfer.context = context;
    stream->on_end = on_end;
    stream->set = streams;
    (void)curl_easy_setopt(stream->transfer.easy, CURLOPT_PRIVATE, stream);
    m = curl_multi_add_handle(streams->multi, stream->transfer.easy);
    if (m != CURLM_OK) {
        r = mst_error_set(err, -EIO, "%s: %s", stream->transfer.label, curl_multi_strerror(m));
        transfer_release(&stream->transfer);
        free(stream);
        return r;
    }
    stream->next = streams->first;
    streams->first = stream;
    streams->count++;
    if (ret_stream)
        *ret_stream = stream;
    return 0;
}

/* The end of one stream: the stream goes first, so that on_end may open its successor. */
static void finish(struct engine_stream *stream, CURLcode curl_code)
{
    mst_cleanup(mst_json_deletep) cJSON *json = NULL;
    struct mst_error error = MST_ERROR_INIT;
    engine_end_fn *on_end = stream->on_end;
    void *context = stream->transfer.context;
    const int status = transfer_status(&stream->transfer);
    int code = transfer_result(&stream->transfer, curl_code, &error);

    if (code >= 0 && status >= 300) {
        (void)transfer_json(&stream->transfer, &json, NULL);
        code = transfer_refused(stream->transfer.label, status, json, &error);
    }
    engine_stream_close(stream);
    on_end(context, code, status, &error);
}

static unsigned count_deliveries(const struct engine_streams *streams)
{
    unsigned sum = 0;

    for (const struct engine_stream *s = streams->first; s; s = s->next)
        sum += s->transfer.deliveries;
    return sum;
}

/* *ret_busy: callbacks were made. */
static int perform(struct engine_streams *streams, bool *ret_busy, struct mst_error *err)
{
    const unsigned before = count_deliveries(streams);
    int running = 0, left = 0;
    const CURLMcode m = curl_multi_perform(streams->multi, &running);
    const CURLMsg *message;

    if (m != CURLM_OK)
        return mst_error_set(err, -EIO, "%s: %s", streams->engine->endpoint.text, curl_multi_strerror(m));
    *ret_busy = count_deliveries(streams) != before;
    while ((message = curl_multi_info_read(streams->multi, &left)) != NULL) {
        char *private = NULL;
        if (message->msg != CURLMSG_DONE)
            continue;
        (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &private);
        finish((struct engine_stream *)(void *)private, message->data.result);
        *ret_busy = true;
    }
    return 0;
}

int engine_streams_run(struct engine_streams *streams, int timeout_ms, size_t *ret_open,
                       struct mst_error *err)
{
    bool is_busy = false;
    int r = perform(streams, &is_busy, err);

    if (r >= 0) /* a cancel is seen in any case */
        r = engine_poll(streams->engine, streams->multi, is_busy ? 0 : timeout_ms, err);
    if (r >= 0 && !is_busy)
        r = perform(streams, &is_busy, err);
    if (r >= 0 && ret_open)
        *ret_open = streams->count;
    return r;
}

struct download {
    int code;
    bool has_ended;
    struct mst_error error;
};

struct download_sink {
    engine_bytes_fn *on_bytes;
    void *context;
    struct download result;
};

static int pass_on(void *context, const void *bytes, size_t count, struct mst_error *err)
{
    struct download_sink *sink = context;

    return sink->on_bytes(sink->context, bytes, count, err);
}

static void remember_end(void *context, int code, int status, const struct mst_error *err)
{
    struct download_sink *sink = context;

    (void)status;
    sink->result = (struct download){.code = code, .has_ended = true, .error = *err};
}

int engine_download(struct engine *engine, const struct engine_call *call, engine_bytes_fn *on_bytes,
                    void *context, struct mst_error *err)
{
    mst_cleanup(engine_streams_freep) struct engine_streams *streams = NULL;
    struct download_sink sink = {.on_bytes = on_bytes, .context = context};
    int r = engine_streams_new(engine, &streams, err);

    if (r >= 0)
        r = engine_stream_open(streams, call, pass_on, remember_end, &sink, NULL, err);
    while (r >= 0 && !sink.result.has_ended)
        r = engine_streams_run(streams, 1000, NULL, err);
    if (r < 0)
        return r;
    if (sink.result.code < 0 && err)
        *err = sink.result.error;
    return sink.result.code;
}
