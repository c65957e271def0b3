/* SPDX-License-Identifier: Apache-2.0 */
/* A client of the Docker Engine API over a Unix socket, TCP, TLS or ssh, on libcurl and cJSON.
 *
 * Order of calls: engine_new() reads the host and does no I/O; the first request asks GET /_ping and settles
 * the API version, min(ours, theirs); then engine_request() and the helpers below it, one after the other;
 * engine_free(). Long replies (logs, events, archives) are streams: a `struct engine_streams` drives any
 * number of them in one thread.
 *
 * Threads: an engine and its streams belong to one thread at a time; make one engine for each thread.
 *
 * Errors: -EREMOTEIO when the engine answered with a status of 400 or more, in the form
 *     POST /v1.43/services/create (service 'web'): 409 Conflict: name conflicts with an existing object
 * -ETIMEDOUT at a deadline, -ECANCELED when the cancel descriptor became readable, -EPROTO for a reply that
 * is cut or makes no sense, -EFBIG for one that is too large, and what the socket says (-ENOENT,
 * -ECONNREFUSED, -EACCES, ...), with the socket's name, when there is no connection. -EINVAL only for a host
 * that cannot be read, -ENOENT also for a docker context that is not there.
 *
 * Redirects are not followed, proxies of the environment are not used, and only HTTP is spoken, inside TLS or
 * not. */
#ifndef MUSTER_ENGINE_H
#define MUSTER_ENGINE_H

#include "muster/buf.h"
#include "muster/error.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* API 1.x: what this client knows. 1.41 is Docker 20.10. */
#define ENGINE_API_MIN_MINOR 41
#define ENGINE_API_MAX_MINOR 47

#define ENGINE_REPLY_MAX_BYTES ((size_t)64 << 20) /* a list of 10000 tasks is about 30 MiB */
#define ENGINE_FRAME_MAX_BYTES ((size_t)1 << 20)  /* one log message; dockerd cuts them at 16 KiB */
#define ENGINE_LINE_MAX_BYTES  ((size_t)1 << 20)  /* one event */
#define ENGINE_NAME_MAX_BYTES  256                /* names and ids, with their NUL */

struct engine;

struct engine_options {
    /* "unix:///path", "tcp://host:port" (TLS by DOCKER_TLS_VERIFY and DOCKER_CERT_PATH) or
     * "ssh://user@host:port" (docker system dial-stdio over there). NULL: the context, else DOCKER_HOST,
     * DOCKER_CONTEXT, the current context of docker's configuration, or Docker's own socket. */
    const char *host;
    const char *context;         /* of docker's contexts; NULL: none */
    uint32_t connect_timeout_ms; /* 0: 5000 */
    uint32_t
        request_timeout_ms; /* of a whole request; 0: 30000, for the manager itself gives up after 20000 */
};

int engine_new(const struct engine_options *options, struct engine **ret_engine, struct mst_error *err);
void engine_free(struct engine *engine); /* NULL is fine */
void engine_freep(struct engine **engine);

/* From now on every wait of this engine and its streams ends with -ECANCELED while `fd` (borrowed) is
 * readable; -1: nothing cancels, as at the start. The descriptor is never read here. A write is not begun
 * then; one that is under way gets 5 s for its reply, for the engine does what it was sent in any case. */
void engine_set_cancel_fd(struct engine *engine, int fd);

/* "unix:///var/run/docker.sock": for messages. */
const char *engine_host(const struct engine *engine);
/* The negotiated minor version of API 1.x; asks the engine when nobody did so far. */
int engine_api_minor(struct engine *engine, unsigned *ret_minor, struct mst_error *err);

/* Docker's own folder, DOCKER_CONFIG or ~/.docker; the caller frees, NULL: there is none. */
char *engine_docker_folder(void);

/* ---- one request ---- */

/* A body out of a file, from where it stands on. */
struct engine_upload {
    int fd;         /* borrowed */
    uint64_t count; /* bytes; the file must have as many */
    const char *content_type;
    /* How far it is, now and then; may be NULL. */
    void (*on_progress)(void *context, uint64_t sent);
    void *context;
};

struct engine_call {
    const char *method; /* "GET", "POST", "PUT", "DELETE", "HEAD" */
    const char *path;   /* without the version: "/services/create"; see engine_path() for names in it */
    const char *query;  /* "a=b&c=d", encoded: engine_query_add(); NULL: none */
    const cJSON *body;  /* borrowed; NULL: none */
    const struct engine_upload *upload; /* in place of `body`; borrowed until the end; NULL: none */
    const char *const *headers;         /* "Name: value" lines, the last is NULL; NULL: none */
    const char *about;      /* what it is about, for error texts: "service 'web'"; NULL: nothing */
    uint32_t timeout_ms;    /* 0: the engine's request_timeout_ms. Streams: of the whole stream, 0: none */
    size_t max_reply_bytes; /* 0: ENGINE_REPLY_MAX_BYTES. Streams: 0: no limit */
    bool any_status;        /* a status of 400 or more is not an error: the caller looks at reply.status */
};

struct engine_reply {
    int status;
    cJSON *json; /* owned; NULL when the body is empty or not JSON by its Content-Type */
};

int engine_request(struct engine *engine, const struct engine_call *call, struct engine_reply *ret_reply,
                   struct mst_error *err);
void engine_reply_release(struct engine_reply *reply); /* usable with mst_cleanup() */

/* The error for a reply that any_status let through. Returns -EREMOTEIO. */
int engine_refused(const struct engine *engine, const struct engine_call *call,
                   const struct engine_reply *reply, struct mst_error *err);
/* The server's own words in a reply, "" when there are none. */
const char *engine_reply_message(const struct engine_reply *reply);

/* Append "key=value" (with '&' where needed), percent-encoded. */
int engine_query_add(struct mst_buf *query, const char *key, const char *value);
/* Append the `filters` parameter for one key with one value: {"label":["com.docker.stack.namespace=web"]}. */
int engine_query_filter(struct mst_buf *query, const char *key, const char *value);
/* "/services/" + encoded name + "/logs" (`tail` may be NULL). */
int engine_path(struct mst_buf *path, const char *head, const char *name, const char *tail);

/* ---- objects: the same five calls for all kinds ---- */

enum engine_kind {
    ENGINE_SERVICE,
    ENGINE_TASK,
    ENGINE_NODE,
    ENGINE_NETWORK,
    ENGINE_SECRET,
    ENGINE_CONFIG,
    ENGINE_VOLUME,
    ENGINE_CONTAINER,
};

const char *engine_kind_text(enum engine_kind kind); /* "service" */

/* All objects of a kind (running containers only), or those with `filter_value` for `filter_key` ("label",
 * "name", "service"; NULL: all). Beware: the engine's name filter matches prefixes. *ret_list is an array,
 * the caller's. Services come with ServiceStatus (running and desired tasks). */
int engine_list(struct engine *engine, enum engine_kind kind, const char *filter_key,
                const char *filter_value, cJSON **ret_list, struct mst_error *err);
/* One object by id or name; *ret_object is NULL when there is none (0 is returned). */
int engine_find(struct engine *engine, enum engine_kind kind, const char *id_or_name, cJSON **ret_object,
                struct mst_error *err);
/* `name` is for error texts; `headers` as in engine_call. `ret_id` may be NULL. -EEXIST when the engine has
 * one of that name (409), with its words. */
int engine_create(struct engine *engine, enum engine_kind kind, const char *name, const cJSON *body,
                  const char *const *headers, char ret_id[ENGINE_NAME_MAX_BYTES], struct mst_error *err);
/* Services, secrets, configs and nodes. -ESTALE when `version` is not the object's any more ("update out of
 * sequence"): read it again and decide anew. *ret_warnings (may be NULL) is the reply's Warnings, NULL when
 * none. */
int engine_update(struct engine *engine, enum engine_kind kind, const char *id, const char *name,
                  uint64_t version, const cJSON *body, const char *const *headers, cJSON **ret_warnings,
                  struct mst_error *err);
/* Gone already counts as done. */
int engine_remove(struct engine *engine, enum engine_kind kind, const char *id, const char *name,
                  struct mst_error *err);

/* What GET /info says and muster needs. */
struct engine_info {
    char name[ENGINE_NAME_MAX_BYTES];           /* the host's name */
    char server_version[ENGINE_NAME_MAX_BYTES]; /* "20.10.24" */
    char node_id[ENGINE_NAME_MAX_BYTES];        /* in the Swarm, "" outside */
    char node_address[ENGINE_NAME_MAX_BYTES];
    char local_state[ENGINE_NAME_MAX_BYTES]; /* "active", "inactive", "pending", "locked", "error" */
    char kernel[ENGINE_NAME_MAX_BYTES];
    char os[ENGINE_NAME_MAX_BYTES];
    char architecture[ENGINE_NAME_MAX_BYTES];
    uint64_t memory_bytes;
    uint32_t cpus;
    bool is_manager; /* ControlAvailable: services can be asked and changed here */
};

int engine_info(struct engine *engine, struct engine_info *ret_info, struct mst_error *err);

/* ---- streams ---- */

/* Some of a reply's body. A negative errno ends the stream with that code. */
typedef int engine_bytes_fn(void *context, const void *bytes, size_t count, struct mst_error *err);
/* The stream has ended: code 0 at the end of the reply, else as for requests, `err` with the text; `status`
 * is the reply's, 0 when there was none. `stream` is gone after this call. A new stream may be opened from
 * here. */
typedef void engine_end_fn(void *context, int code, int status, const struct mst_error *err);

struct engine_streams;
struct engine_stream;

int engine_streams_new(struct engine *engine, struct engine_streams **ret_streams, struct mst_error *err);
void engine_streams_free(
    struct engine_streams *streams); /* closes all without on_end; before engine_free() */
void engine_streams_freep(struct engine_streams **streams);

/* Start a transfer; callbacks come from engine_streams_run(). A status of 400 or more ends it with -EREMOTEIO
 * and no bytes. *ret_stream (may be NULL) is valid until on_end was called or the stream was closed. */
int engine_stream_open(struct engine_streams *streams, const struct engine_call *call,
                       engine_bytes_fn *on_bytes, engine_end_fn *on_end, void *context,
                       struct engine_stream **ret_stream, struct mst_error *err);
/* End it now, without on_end. Not from its own callbacks. */
void engine_stream_close(struct engine_stream *stream);

/* Move bytes of all streams for at most `timeout_ms`; returns early after callbacks were made, or -ECANCELED.
 * *ret_open (may be NULL) is how many streams are left. Without streams it just waits, so that one loop
 * serves for all. */
int engine_streams_run(struct engine_streams *streams, int timeout_ms, size_t *ret_open,
                       struct mst_error *err);

/* One reply as a stream, waited for: an archive into a file, say. */
int engine_download(struct engine *engine, const struct engine_call *call, engine_bytes_fn *on_bytes,
                    void *context, struct mst_error *err);

/* ---- parsers of what streams carry; no I/O in them ---- */

/* Docker's multiplexed log format: frames of {stream, 0, 0, 0, length in 4 bytes big-endian} and `length`
 * bytes. In a log every frame is one message. */
struct engine_frames {
    struct mst_buf frame;
    uint8_t header[8];
    size_t header_count;
    size_t missing; /* bytes of the current frame that are still to come */
};

#define ENGINE_FRAMES_INIT                                                                                   \
    {                                                                                                        \
        MST_BUF_INIT(ENGINE_FRAME_MAX_BYTES), {0}, 0, 0                                                      \
    }

/* stream: 0 stdin, 1 stdout, 2 stderr, 3 a message of the engine itself. `bytes` have a NUL behind them. */
typedef int engine_frame_fn(void *context, unsigned stream, const char *bytes, size_t count,
                            struct mst_error *err);

/* Takes bytes as they come, in any portions. -EPROTO for a header that is none, -EFBIG for a frame above
 * ENGINE_FRAME_MAX_BYTES, or what on_frame returned; the parser is only good for release after an error. */
int engine_frames_feed(struct engine_frames *frames, const void *bytes, size_t count,
                       engine_frame_fn *on_frame, void *context, struct mst_error *err);
void engine_frames_release(struct engine_frames *frames);

/* Lines (events come as one JSON object a line; a TTY's log as plain lines). */
struct engine_lines {
    struct mst_buf line;
};

#define ENGINE_LINES_INIT                                                                                    \
    {                                                                                                        \
        MST_BUF_INIT(ENGINE_LINE_MAX_BYTES)                                                                  \
    }

/* `line` is without its line end ("\n" or "\r\n"). */
typedef int engine_line_fn(void *context, const char *line, size_t count, struct mst_error *err);

int engine_lines_feed(struct engine_lines *lines, const void *bytes, size_t count, engine_line_fn *on_line,
                      void *context, struct mst_error *err);
void engine_lines_release(struct engine_lines *lines);

#endif
