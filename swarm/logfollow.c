/* SPDX-License-Identifier: Apache-2.0 */
#include "logfollow.h"

#include "logsource.h"
#include "muster/cleanup.h"
#include "muster/clock.h"

#include <stdio.h>
#include <string.h>

#define RETRY_FIRST_MS  250
#define RETRY_MAX_MS    5000
#define SILENT_TRIES    1 /* an engine that is restarted cuts all logs once; then it should be there again */
#define PATH_MAX_BYTES  1024
#define QUERY_MAX_BYTES 1024

struct service_log {
    struct logfollow *follow;
    const char *head; /* of the path: "/services/" */
    char id[ENGINE_NAME_MAX_BYTES], name[ENGINE_NAME_MAX_BYTES];
    struct engine_stream *stream; /* NULL: ended */
    struct engine_frames frames;
    struct engine_lines lines;
    struct logsources sources;
    uint64_t retry_ns;           /* when to open again; 0: not at all */
    unsigned retry_ms, failures; /* since the last message */
    bool is_tty;
    struct service_log *next;
};

struct logfollow {
    struct session *session; /* borrowed */
    struct logfollow_options options;
    log_message_fn *on_message;
    void *context;
    struct service_log *first;
    bool has_warned; /* of logs that cannot be read, since the last message */
    int code;        /* of the first failure that ends it all */
    struct mst_error error;
};

/* The value of one key of "a=1,b=2", ended in place. */
static const char *detail(char *details, const char *key)
{
    const size_t bytes = strlen(key);

    for (char *at = details; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, key, bytes) == 0 && at[bytes] == '=')
            return at + bytes + 1;
    }
    return "";
}

int log_message_parse(char *line, size_t count, struct log_message *ret_message, struct mst_error *err)
{
    char *space = memchr(line, ' ', count);
    char *details = space ? space + 1 : NULL;
    char *end = details ? memchr(details, ' ', count - (size_t)(details - line)) : NULL;
    const char *task_id, *node_id;

    if (!end || (size_t)(space - line) >= LOGSOURCE_TIMESTAMP_BYTES || (size_t)(space - line) < 20 ||
        strncmp(details, "com.docker.swarm.", 17) != 0)
        return mst_error_set(err, -EPROTO, "service log: a line without time and task: %.80s", line);
    *space = *end = '\0';
    task_id = detail(details, "com.docker.swarm.task.id");
    node_id = detail(details, "com.docker.swarm.node.id");
    for (char *c = details; c < end; c++) {
        if (*c == ',')
            *c = '\0'; /* ends the values found above */
    }
    *ret_message = (struct log_message){
        .task_id = task_id,
        .node_id = node_id,
        .timestamp = line,
        .text = end + 1,
        .count = count - (size_t)(end + 1 - line),
    };
    return 0;
}

/* Hand a message on; the first refusal ends it all. */
static int deliver(struct service_log *log, struct log_message *message, struct mst_error *err)
{
    struct logfollow *follow = log->follow;
    int r;

    log->retry_ms = RETRY_FIRST_MS;
    log->failures = 0;
    follow->has_warned = false;
    message->service = log->name;
    r = follow->on_message(follow->context, message, err);
    if (r < 0 && follow->code == 0) {
        follow->code = r;
        follow->error = err ? *err : (struct mst_error)MST_ERROR_INIT;
    }
    return r;
}

/* What there is of a line: `has_end` when its end is in. */
static int take_part(struct service_log *log, struct log_message *message, bool has_end,
                     struct mst_error *err)
{
    struct logsource *source = logsources_find(&log->sources, message->task_id, message->stream);
    const bool is_in_parts = source && (source->begun_at[0] != '\0' || !has_end);
    int r;

    if (!source)
        return 0;
    if (is_in_parts) {
        r = logsource_join(source, message->timestamp, message->text, message->count, has_end);
        if (r < 0)
            return mst_error_set(err, r, "log of service '%s': no memory", log->name);
        if (r == 0)
            return 0;
        message->timestamp = source->begun_at;
        message->text = mst_buf_text(&source->begun);
        message->count = source->begun.count;
    }
    r = logsource_take(source, message->timestamp, message->text, message->count) ? deliver(log, message, err)
                                                                                  : 0;
    logsource_ended(source);
    return r;
}

static int take_message(struct service_log *log, unsigned stream, const char *bytes, size_t count,
                        struct mst_error *err)
{
    mst_cleanup(mst_freep) char *line = malloc(count + 1);
    const bool has_end = log->is_tty || (count > 0 && bytes[count - 1] == '\n');
    struct log_message message;

    if (!line)
        return mst_error_set(err, -ENOMEM, "log of service '%s': no memory", log->name);
    memcpy(line, bytes, count);
    while (count > 0 && (line[count - 1] == '\n' || line[count - 1] == '\r'))
        count--;
    line[count] = '\0';
    if (log_message_parse(line, count, &message, NULL) < 0)
        return 0; /* the engine itself puts in a line now and then ("incomplete log stream: ...") */
    message.stream = stream;
    return take_part(log, &message, has_end, err);
}

static int on_frame(void *context, unsigned stream, const char *bytes, size_t count, struct mst_error *err)
{
    return take_message(context, stream, bytes, count, err);
}

static int on_line(void *context, const char *line, size_t count, struct mst_error *err)
{
    return take_message(context, 1, line, count, err);
}

static int on_bytes(void *context, const void *bytes, size_t count, struct mst_error *err)
{
    struct service_log *log = context;

    return log->is_tty ? engine_lines_feed(&log->lines, bytes, count, on_line, log, err)
                       : engine_frames_feed(&log->frames, bytes, count, on_frame, log, err);
}

/* One line for all logs: they fail together. */
static void warn(struct service_log *log, const struct mst_error *err)
{
    if (++log->failures <= SILENT_TRIES || log->follow->has_warned)
        return;
    log->follow->has_warned = true;
    report_line(&log->follow->session->report, "warning: %s; trying again", err->text);
}

/* Lines whose end never came, of tasks that were killed. */
static void deliver_rest(struct service_log *log)
{
    for (size_t i = 0; i < log->sources.count; i++) {
        struct logsource *source = &log->sources.items[i];
        struct log_message message = {.task_id = source->task_id, .node_id = "", .stream = source->stream};
        if (source->begun_at[0] != '\0')
            (void)take_part(log, &message, true, NULL);
    }
}

static void on_end(void *context, int code, int status, const struct mst_error *err)
{
    struct service_log *log = context;
    struct logfollow *follow = log->follow;

    log->stream = NULL;
    if (follow->code < 0)
        return; /* it was stopped from our side */
    if (!follow->options.follow && code >= 0) {
        deliver_rest(log);
        return;
    }
    if (!follow->options.follow) {
        follow->code = code;
        follow->error = *err;
        return;
    }
    if (status == 404)
        return; /* a removed service ends what is followed in peace */
    if (code < 0)
        warn(log, err);
    log->retry_ns = mst_now_ns() + log->retry_ms * MST_NS_PER_MS;
    log->retry_ms = log->retry_ms * 2 < RETRY_MAX_MS ? log->retry_ms * 2 : RETRY_MAX_MS;
}

static int log_query(const struct service_log *log, struct mst_buf *query)
{
    const struct logfollow_options *options = &log->follow->options;
    const double since_s = logsources_since_s(&log->sources);
    char since[32];
    int r = mst_buf_printf(query, "stdout=1&stderr=%d&timestamps=1&details=1&follow=%d",
                           options->stdout_only ? 0 : 1, options->follow ? 1 : 0);

    if (since_s > 0) {
        (void)snprintf(since, sizeof since, "%.3f", since_s);
        return r < 0 ? r : engine_query_add(query, "since", since);
    }
    if (r >= 0)
        r = engine_query_add(query, "tail", options->tail ? options->tail : "all");
    if (r >= 0 && options->since)
        r = engine_query_add(query, "since", options->since);
    return r;
}

static int open_log(struct service_log *log, struct mst_error *err)
{
    struct logfollow *follow = log->follow;
    mst_cleanup(mst_buf_release) struct mst_buf path = MST_BUF_INIT(PATH_MAX_BYTES),
                                                query = MST_BUF_INIT(QUERY_MAX_BYTES);
    struct engine_call call = {.method = "GET", .about = log->name};
    int r = engine_path(&path, log->head, log->id, "/logs");

    if (r >= 0)
        r = log_query(log, &query);
    if (r < 0)
        return mst_error_set(err, r, "log of service '%s': the request is too long", log->name);
    call.path = mst_buf_text(&path);
    call.query = mst_buf_text(&query);
    /* Half a frame of a lost connection is worth nothing. */
    engine_frames_release(&log->frames);
    engine_lines_release(&log->lines);
    log->frames = (struct engine_frames)ENGINE_FRAMES_INIT;
    log->lines = (struct engine_lines)ENGINE_LINES_INIT;
    logsources_read_again(&log->sources);
    log->retry_ns = 0;
    return engine_stream_open(follow->session->streams, &call, on_bytes, on_end, log, &log->stream, err);
}

int logfollow_new(struct session *session, const struct logfollow_options *options,
                  log_message_fn *on_message, void *context, struct logfollow **ret_follow,
                  struct mst_error *err)
{
    struct logfollow *follow = calloc(1, sizeof *follow);

    if (!follow)
        return mst_error_set(err, -ENOMEM, "logs: no memory");
    *follow = (struct logfollow){
        .session = session, .options = *options, .on_message = on_message, .context = context};
    *ret_follow = follow;
    return 0;
}

void logfollow_free(struct logfollow *follow)
{
    if (!follow)
        return;
    while (follow->first) {
        struct service_log *log = follow->first;
        follow->first = log->next;
        if (log->stream)
            engine_stream_close(log->stream);
        engine_frames_release(&log->frames);
        engine_lines_release(&log->lines);
        logsources_release(&log->sources);
        free(log);
    }
    free(follow);
}

void logfollow_freep(struct logfollow **follow)
{
    logfollow_free(*follow);
    *follow = NULL;
}

static int add_log(struct logfollow *follow, const char *head, const char *id, const char *name, bool is_tty,
                   struct mst_error *err)
{
    struct service_log *log = calloc(1, sizeof *log);

    if (!log)
        return mst_error_set(err, -ENOMEM, "log of service '%s': no memory", name);
    log->follow = follow;
    log->head = head;
    log->is_tty = is_tty;
    log->retry_ms = RETRY_FIRST_MS;
    log->frames = (struct engine_frames)ENGINE_FRAMES_INIT;
    log->lines = (struct engine_lines)ENGINE_LINES_INIT;
    (void)snprintf(log->id, sizeof log->id, "%s", id);
    (void)snprintf(log->name, sizeof log->name, "%s", name);
    log->next = follow->first;
    follow->first = log;
    return open_log(log, err);
}

int logfollow_add(struct logfollow *follow, const char *service_id, const char *name, bool is_tty,
                  struct mst_error *err)
{
    return add_log(follow, "/services/", service_id, name, is_tty, err);
}

int logfollow_add_task(struct logfollow *follow, const char *task_id, const char *name, bool is_tty,
                       struct mst_error *err)
{
    return add_log(follow, "/tasks/", task_id, name, is_tty, err);
}

int logfollow_tick(struct logfollow *follow, struct mst_error *err)
{
    const uint64_t now_ns = mst_now_ns();

    if (follow->code < 0) {
        if (err)
            *err = follow->error;
        return follow->code;
    }
    for (struct service_log *log = follow->first; log; log = log->next) {
        if (log->retry_ns > 0 && now_ns >= log->retry_ns) {
            const int r = open_log(log, err);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

size_t logfollow_open_count(const struct logfollow *follow)
{
    size_t count = 0;

    for (const struct service_log *log = follow->first; log; log = log->next)
        count += log->stream || log->retry_ns > 0;
    return count;
}
