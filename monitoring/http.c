/* SPDX-License-Identifier: Apache-2.0 */
#include "http.h"

#include "http_guard.h"
#include "http_listen.h"
#include "muster/buf.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "web_config.h"

#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <zlib.h>

#define HTTP_IDLE_S         15                  /* without a byte */
#define HTTP_ASK_NS         (10 * MST_NS_PER_S) /* until a request is complete: a byte now and then is no life */
#define HTTP_TAKE_NS        (60 * MST_NS_PER_S) /* until the answer is taken */
#define HTTP_MEMORY_BYTES   ((size_t)16 << 10)  /* of a connection, so also for its headers */
#define HTTP_QUERY_MAX      32
#define HTTP_BODY_MAX_BYTES ((size_t)512 << 20)
#define HTTP_COMPRESS_ABOVE 512

/* A connection, for ending those that only occupy. */
struct client {
    struct client *next, **before;
    int fd;
    bool is_asking;    /* no complete request yet, or the next one is under way */
    uint64_t since_ns; /* of the state above */
};

struct parameter {
    struct parameter *next;
    char *key, *value;
};

struct http_question {
    struct http_question *next;
    struct http *http;
    struct MHD_Connection *connection;
    char path[HTTP_PATH_MAX_BYTES];
    struct parameter *parameters;
    bool is_head, takes_gzip, is_parked;
    struct MHD_Response *response; /* the answer */
    int status;
};

struct http {
    struct http_options options;
    struct MHD_Daemon *daemons[HTTP_ADDRESSES_MAX];
    int fds[HTTP_ADDRESSES_MAX]; /* listening; the daemons have copies */
    char texts[HTTP_ADDRESSES_MAX][64];
    size_t count;
    struct web_config config; /* changed only while no daemon runs */
    /* When it and the files that it names had been changed, at the last try. */
    struct timespec times[1 + WEB_FILES_MAX];
    bool is_pending; /* to be tried again as it is: a file was on its way, or nothing could be started */
    bool is_down;    /* no daemon runs */
    struct http_guard guard;
    int event_fd;
    atomic_bool is_ready;

    pthread_mutex_t lock; /* guards what is below */
    struct http_question *first, **last;
    struct client *clients;
    uint32_t parked; /* questions without an answer */
    bool is_ending;
};

/* ---- connections ---- */

static void on_connection(void *context, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http *http = context;
    (void)pthread_mutex_lock(&http->lock);
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        struct client *client = info ? calloc(1, sizeof *client) : NULL;
        *socket_context = client; /* NULL costs only the deadline */
        if (client) {
            *client = (struct client){.next = http->clients,
                                      .before = &http->clients,
                                      .fd = info->connect_fd,
                                      .is_asking = true,
                                      .since_ns = mst_now_ns()};
            if (client->next)
                client->next->before = &client->next;
            http->clients = client;
        }
    } else if (*socket_context) {
        struct client *client = *socket_context;
        *client->before = client->next;
        if (client->next)
            client->next->before = client->before;
        free(client);
        *socket_context = NULL;
    }
    (void)pthread_mutex_unlock(&http->lock);
}

static void client_is(struct http *http, struct MHD_Connection *connection, bool is_asking)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct client *client = info ? info->socket_context : NULL;
    if (!client)
        return;
    (void)pthread_mutex_lock(&http->lock);
    client->is_asking = is_asking;
    client->since_ns = mst_now_ns();
    (void)pthread_mutex_unlock(&http->lock);
}

/* ---- answers ---- */

static void add_headers(const struct http *http, struct MHD_Response *response, const char *type)
{
    bool has_policy = false, has_options = false;
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    for (size_t i = 0; i < http->config.header_count; i++) {
        const struct web_header *header = &http->config.headers[i];
        has_policy = has_policy || strcmp(header->name, "Content-Security-Policy") == 0;
        has_options = has_options || strcmp(header->name, "X-Content-Type-Options") == 0;
        (void)MHD_add_response_header(response, header->name, header->value);
    }
    if (!has_policy) /* the page needs nothing from elsewhere, and nobody needs the page in a frame */
        (void)MHD_add_response_header(response, "Content-Security-Policy",
                                      "default-src 'self'; frame-ancestors 'none'; base-uri 'none'");
    if (!has_options)
        (void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
}

static enum MHD_Result say(const struct http *http, struct MHD_Connection *connection, unsigned status,
                           const char *text, const char *header, const char *value)
{
    union {
        const char *in;
        void *out;
    } both = {.in = text};
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), both.out, MHD_RESPMEM_PERSISTENT);
    if (!response)
        return MHD_NO;
    add_headers(http, response, "text/plain; charset=utf-8");
    if (header)
        (void)MHD_add_response_header(response, header, value);
    const enum MHD_Result r = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return r;
}

/* gzip at its fastest: the page is scraped over and over, and shrinks to a twentieth anyway. */
static int compress_body(const void *bytes, size_t count, struct mst_buf *ret_body)
{
    z_stream stream = {0};
    if (count > UINT32_MAX || deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return -ENOMEM;
    int r = mst_buf_reserve(ret_body, deflateBound(&stream, (uLong)count));
    if (r == 0) {
        union {
            const void *in;
            unsigned char *out;
        } both = {.in = bytes}; /* zlib only reads it */
        stream.next_in = both.out;
        stream.avail_in = (uInt)count;
        stream.next_out = (unsigned char *)ret_body->bytes;
        stream.avail_out = (uInt)deflateBound(&stream, (uLong)count);
        r = deflate(&stream, Z_FINISH) == Z_STREAM_END ? 0 : -EIO;
        ret_body->count = stream.total_out;
    }
    (void)deflateEnd(&stream);
    return r;
}

/* `takes_gzip`: compressed, if that is worth it. NULL without memory. */
static struct MHD_Response *response_of(const struct http *http, const char *type, const void *bytes,
                                        size_t count, bool takes_gzip)
{
    mst_cleanup(mst_buf_release) struct mst_buf packed = MST_BUF_INIT(HTTP_BODY_MAX_BYTES);
    const bool is_packed =
        takes_gzip && count > HTTP_COMPRESS_ABOVE && compress_body(bytes, count, &packed) == 0;
    union {
        const void *in;
        void *out;
    } both = {.in = bytes};
    struct MHD_Response *response =
        is_packed ? MHD_create_response_from_buffer(packed.count, packed.bytes, MHD_RESPMEM_MUST_FREE)
                  : MHD_create_response_from_buffer(count, both.out, MHD_RESPMEM_MUST_COPY);
    if (!response)
        return NULL;
    if (is_packed) {
        packed = (struct mst_buf)MST_BUF_INIT(0); /* the response's now */
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip");
    }
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ACCEPT_ENCODING);
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
    add_headers(http, response, type);
    return response;
}

/* "gzip" among the words of Accept-Encoding, not with q=0. */
static bool takes_gzip(struct MHD_Connection *connection)
{
    const char *at =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT_ENCODING);
    for (; at && *at; at += strcspn(at, ","), at += *at == ',') {
        at += strspn(at, " \t");
        const size_t bytes = strcspn(at, ",; \t");
        if ((bytes == 4 && strncasecmp(at, "gzip", 4) == 0) || (bytes == 1 && *at == '*')) {
            const char *quality = at + bytes + strspn(at + bytes, " \t;");
            return strncmp(quality, "q=0", 3) != 0 ||
                   strspn(quality + 3, ".0") < strcspn(quality + 3, ", \t");
        }
    }
    return false;
}

/* ---- requests ---- */

static void question_free(struct http_question *question)
{
    if (!question)
        return;
    for (struct parameter *next, *at = question->parameters; at; at = next) {
        next = at->next;
        free(at->key);
        free(at->value);
        free(at);
    }
    if (question->response)
        MHD_destroy_response(question->response);
    free(question);
}

static enum MHD_Result on_parameter(void *context, enum MHD_ValueKind kind, const char *key,
                                    const char *value)
{
    struct http_question *question = context;
    size_t count = 0;
    (void)kind;
    for (const struct parameter *at = question->parameters; at; at = at->next)
        count++;
    struct parameter *added = count < HTTP_QUERY_MAX ? calloc(1, sizeof *added) : NULL;
    if (!added)
        return MHD_NO;
    added->key = strdup(key);
    added->value = strdup(value ? value : "");
    struct parameter **last = &question->parameters;
    while (*last)
        last = &(*last)->next;
    *last = added;
    return added->key && added->value ? MHD_YES : MHD_NO;
}

static enum MHD_Result park(struct http *http, struct http_question *question)
{
    const uint64_t one = 1;
    (void)pthread_mutex_lock(&http->lock);
    const uint32_t limit = http->options.max_requests;
    const bool is_refused = http->is_ending || (limit > 0 && http->parked >= limit);
    if (!is_refused) {
        http->parked++;
        question->is_parked = true;
        MHD_suspend_connection(question->connection);
        *http->last = question;
        http->last = &question->next;
    }
    (void)pthread_mutex_unlock(&http->lock);
    if (is_refused)
        return say(http, question->connection, MHD_HTTP_SERVICE_UNAVAILABLE, "too many requests at a time\n",
                   MHD_HTTP_HEADER_RETRY_AFTER, "1");
    (void)!write(http->event_fd, &one, sizeof one); /* a full counter is readable too */
    return MHD_YES;
}

/* A client certificate, where the configuration wants one. */
static bool has_certificate(const struct http *http, struct MHD_Connection *connection)
{
    const enum web_client_auth wanted = http->config.client_auth;
    if (!http->config.has_tls || wanted == WEB_CLIENT_NONE || wanted == WEB_CLIENT_REQUEST)
        return true;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    unsigned count = 0, status = 1;
    gnutls_session_t session = info ? info->tls_session : NULL;
    if (!session)
        return false;
    (void)gnutls_certificate_get_peers(session, &count);
    if (count == 0)
        return wanted == WEB_CLIENT_VERIFY_IF_GIVEN;
    if (wanted == WEB_CLIENT_ANY)
        return true;
    return gnutls_certificate_verify_peers2(session, &status) == 0 && status == 0;
}

static bool is_admitted(struct http *http, struct MHD_Connection *connection)
{
    if (http->config.user_count == 0)
        return true;
    char *password = NULL;
    char *user = MHD_basic_auth_get_username_password(connection, &password);
    const bool is_good = http_guard_admits(&http->guard, &http->config, user, password);
    if (password)
        explicit_bzero(password, strlen(password));
    MHD_free(user);
    MHD_free(password);
    return is_good;
}

static const struct http_page *find_page(const struct http *http, const char *path)
{
    for (size_t i = 0; i < http->options.page_count; i++) {
        if (strcmp(http->options.pages[i].path, path) == 0)
            return &http->options.pages[i];
    }
    return NULL;
}

static bool is_question(const struct http *http, const char *path)
{
    for (const char *const *at = http->options.questions; *at; at++) {
        if (strcmp(*at, path) == 0)
            return true;
    }
    return false;
}

/* The path below the prefix, NULL when it is not below. */
static const char *below_prefix(const struct http *http, const char *path)
{
    const size_t bytes = strlen(http->options.prefix);
    if (strncmp(path, http->options.prefix, bytes) != 0)
        return NULL;
    path += bytes;
    return *path == '\0' ? "/" : *path == '/' ? path : NULL;
}

static enum MHD_Result answer_page(const struct http *http, struct MHD_Connection *connection,
                                   const struct http_page *page)
{
    struct MHD_Response *response =
        response_of(http, page->type, page->bytes, page->count, takes_gzip(connection));
    if (!response)
        return MHD_NO;
    const enum MHD_Result r = MHD_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return r;
}

static enum MHD_Result route(struct http *http, struct MHD_Connection *connection, const char *url,
                             struct http_question *question)
{
    const char *path = below_prefix(http, url);
    const struct http_page *page = path ? find_page(http, path) : NULL;
    if (page && page->is_open)
        return answer_page(http, connection, page);
    if (!has_certificate(http, connection))
        return say(http, connection, MHD_HTTP_FORBIDDEN, "a client certificate is needed\n", NULL, NULL);
    if (!http_guard_has_room(&http->guard, &http->config, mst_now_ns()))
        return say(http, connection, MHD_HTTP_TOO_MANY_REQUESTS, "too many requests\n", NULL, NULL);
    if (!is_admitted(http, connection))
        return say(http, connection, MHD_HTTP_UNAUTHORIZED, "Unauthorized\n",
                   MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Basic realm=\"muster-monitor\"");
    if (page)
        return answer_page(http, connection, page);
    if (path && strcmp(path, "/-/ready") == 0)
        return atomic_load(&http->is_ready)
                   ? say(http, connection, MHD_HTTP_OK, "ready\n", NULL, NULL)
                   : say(http, connection, MHD_HTTP_SERVICE_UNAVAILABLE, "not ready\n", NULL, NULL);
    if (!path || !is_question(http, path) || strlen(path) >= sizeof question->path)
        return say(http, connection, MHD_HTTP_NOT_FOUND, "not found\n", NULL, NULL);
    memcpy(question->path, path, strlen(path) + 1);
    (void)MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, on_parameter, question);
    question->takes_gzip = takes_gzip(connection);
    return park(http, question);
}

/* Called when the headers are there, then when the request is complete, and again after an answer. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_bytes, void **request_context)
{
    struct http *http = context;
    struct http_question *question = *request_context;
    (void)version;
    (void)upload;
    if (!question) {
        const bool is_head = strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
        const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");
        client_is(http, connection, false);
        if (!is_head && strcmp(method, MHD_HTTP_METHOD_GET) != 0)
            return say(http, connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n",
                       MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
        if ((length && strcmp(length, "0") != 0) ||
            MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Transfer-Encoding"))
            return say(http, connection, MHD_HTTP_CONTENT_TOO_LARGE, "no body is taken\n", NULL, NULL);
        question = calloc(1, sizeof *question);
        if (!question)
            return MHD_NO;
        *question = (struct http_question){.http = http, .connection = connection, .is_head = is_head};
        *request_context = question;
        return MHD_YES;
    }
    if (*upload_bytes > 0) {
        *upload_bytes = 0;
        return MHD_YES;
    }
    if (question->response) {
        const enum MHD_Result r =
            MHD_queue_response(connection, (unsigned)question->status, question->response);
        client_is(http, connection, false);
        return r;
    }
    return route(http, connection, url, question);
}

static void on_completed(void *context, struct MHD_Connection *connection, void **request_context,
                         enum MHD_RequestTerminationCode code)
{
    (void)code;
    client_is(context, connection, true); /* the next request has its own time */
    question_free(*request_context);
    *request_context = NULL;
}

/* ---- daemons ---- */

/* libmicrohttpd closes the socket at some of its failures and leaves it at others; the number may be another
 * thread's by then. */
static bool is_same_socket(int fd, int listening)
{
    struct stat ours, theirs;
    return fstat(fd, &ours) == 0 && fstat(listening, &theirs) == 0 && ours.st_ino == theirs.st_ino &&
           ours.st_dev == theirs.st_dev;
}

static int start_one(struct http *http, size_t i, struct mst_error *err)
{
    const struct web_config *config = &http->config;
    struct MHD_OptionItem items[8];
    size_t count = 0;
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC;
    mst_cleanup(mst_closep) int fd = fcntl(http->fds[i], F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return mst_error_errno(err, -errno, "listen on '%s'", http->texts[i]);
    items[count++] = (struct MHD_OptionItem){MHD_OPTION_LISTEN_SOCKET, fd, NULL};
    if (config->has_tls) {
        flags |= MHD_USE_TLS;
        items[count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, config->cert};
        items[count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, config->key};
        items[count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0, config->priorities};
        if (config->client_ca)
            items[count++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_TRUST, 0, config->client_ca};
    }
    items[count] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    http->daemons[i] = MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, http, MHD_OPTION_NOTIFY_COMPLETED, on_completed, http,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, http, MHD_OPTION_CONNECTION_LIMIT, HTTP_CONNECTIONS_MAX,
        MHD_OPTION_CONNECTION_TIMEOUT, HTTP_IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, HTTP_MEMORY_BYTES,
        MHD_OPTION_ARRAY, items, MHD_OPTION_END);
    if (!http->daemons[i]) {
        if (!is_same_socket(fd, http->fds[i]))
            fd = -1;
        return mst_error_set(err, -EIO, "serve on '%s': libmicrohttpd does not start", http->texts[i]);
    }
    fd = -1; /* closed by the daemon */
    return 0;
}

/* Those that are parked are answered first: a daemon does not stop while one is. */
static void stop_all(struct http *http)
{
    (void)pthread_mutex_lock(&http->lock);
    http->is_ending = true;
    (void)pthread_mutex_unlock(&http->lock);
    for (struct http_question *question; (question = http_next(http));)
        http_answer(question, MHD_HTTP_SERVICE_UNAVAILABLE, "text/plain", "ending\n", strlen("ending\n"));
    for (size_t i = 0; i < http->count; i++) {
        if (http->daemons[i])
            MHD_stop_daemon(http->daemons[i]);
        http->daemons[i] = NULL;
    }
    http->is_ending = false;
}

/* All or none. */
static int start_all(struct http *http, struct mst_error *err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < http->count; i++)
        r = start_one(http, i, err);
    if (r < 0)
        stop_all(http);
    http->is_down = r < 0;
    return r;
}

static int open_sockets(struct http *http, struct mst_error *err)
{
    if (http->options.from_systemd) {
        const int r = http_listen_systemd(http->fds, HTTP_ADDRESSES_MAX, &http->count, err);
        for (size_t i = 0; i < http->count; i++)
            http_listen_text(http->fds[i], http->texts[i]);
        return r;
    }
    for (const char *const *at = http->options.addresses; *at; at++) {
        if (http->count == HTTP_ADDRESSES_MAX)
            return mst_error_set(err, -EINVAL, "more than %d addresses to listen on", HTTP_ADDRESSES_MAX);
        const int r = http_listen(*at, &http->fds[http->count], http->texts[http->count], err);
        if (r < 0)
            return r;
        http->count++;
    }
    return 0;
}

static void keep_times(struct http *http, struct timespec config_changed)
{
    memset(http->times, 0, sizeof http->times);
    http->times[0] = config_changed;
    for (size_t i = 0; i < http->config.file_count; i++)
        http->times[1 + i] = http->config.files[i].changed;
}

static bool differ(const struct timespec *a, const struct timespec *b)
{
    for (size_t i = 0; i < 1 + WEB_FILES_MAX; i++) {
        if (a[i].tv_sec != b[i].tv_sec || a[i].tv_nsec != b[i].tv_nsec)
            return true;
    }
    return false;
}

int http_new(const struct http_options *options, struct http **ret_http, struct mst_error *err)
{
    struct http *http = calloc(1, sizeof *http);
    int r = 0;
    if (!http)
        return mst_error_set(err, -ENOMEM, "serve: no memory");
    *http = (struct http){.options = *options, .lock = PTHREAD_MUTEX_INITIALIZER, .event_fd = -1};
    http->last = &http->first;
    http_guard_init(&http->guard);
    http->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (http->event_fd < 0)
        r = mst_error_errno(err, -errno, "serve");
    if (r == 0 && options->config_file) {
        const struct timespec changed = web_file_changed(options->config_file);
        r = web_config_read(options->config_file, &http->config, err);
        keep_times(http, changed);
    }
    if (r == 0)
        r = open_sockets(http, err);
    if (r == 0)
        r = start_all(http, err);
    if (r < 0) {
        http_free(http);
        return r;
    }
    *ret_http = http;
    return 0;
}

void http_free(struct http *http)
{
    if (!http)
        return;
    stop_all(http);
    for (size_t i = 0; i < http->count; i++)
        mst_closep(&http->fds[i]);
    mst_closep(&http->event_fd);
    web_config_release(&http->config);
    http_guard_release(&http->guard);
    (void)pthread_mutex_destroy(&http->lock);
    free(http);
}

const char *http_address(const struct http *http, size_t i)
{
    return i < http->count ? http->texts[i] : NULL;
}

int http_fd(const struct http *http)
{
    return http->event_fd;
}

void http_set_ready(struct http *http, bool is_ready)
{
    atomic_store(&http->is_ready, is_ready);
}

int http_check_address(const char *text, struct mst_error *err)
{
    struct sockaddr_storage address;
    socklen_t bytes;
    return http_listen_parse(text, &address, &bytes, err);
}

/* The new configuration, or the old one where it does not start. */
static int change_config(struct http *http, struct web_config *config, struct mst_error *err)
{
    struct mst_error why = MST_ERROR_INIT;
    struct web_config old = http->config;
    stop_all(http);
    http->config = *config;
    const int r = start_all(http, err);
    if (r == 0) {
        http_guard_reset(&http->guard);
        web_config_release(&old);
        return 0;
    }
    http->config = old;
    web_config_release(config);
    return start_all(http, &why) < 0 ? mst_error_wrap(err, r, "nor does the old configuration start")
                                     : mst_error_wrap(err, r, "the old configuration stays");
}

/* The toolkit reads its configuration and certificates at each request; once a second does for people. What
 * is wrong is told once for each change. */
static int reload(struct http *http, struct mst_error *err)
{
    struct timespec times[1 + WEB_FILES_MAX] = {web_file_changed(http->options.config_file)};
    struct web_config config;
    for (size_t i = 0; i < http->config.file_count; i++)
        times[1 + i] = web_file_changed(http->config.files[i].path);
    const bool is_told = !differ(times, http->times);
    if (is_told && !http->is_pending)
        return 0;
    memcpy(http->times, times, sizeof times);
    int r = web_config_read(http->options.config_file, &config, err);
    if (r == 0) {
        r = change_config(http, &config, err);
        if (r == 0)
            keep_times(http, times[0]);
        http->is_pending = http->is_down;
    } else {
        struct mst_error why = MST_ERROR_INIT;
        http->is_pending = true;
        r = http->is_down && start_all(http, &why) < 0
                ? mst_error_wrap(err, r, "nor does the old configuration start")
                : mst_error_wrap(err, r, "the old configuration stays");
    }
    return r < 0 && is_told ? 0 : r;
}

int http_sweep(struct http *http, struct mst_error *err)
{
    const uint64_t now = mst_now_ns();
    (void)pthread_mutex_lock(&http->lock);
    for (struct client *client = http->clients; client; client = client->next) {
        const uint64_t limit_ns = client->is_asking ? HTTP_ASK_NS : HTTP_TAKE_NS;
        /* Kept-alive connections between two requests end as well: the next scrape makes a new one. */
        if (now > client->since_ns && now - client->since_ns > limit_ns)
            (void)shutdown(client->fd, SHUT_RDWR);
    }
    (void)pthread_mutex_unlock(&http->lock);
    return http->options.config_file ? reload(http, err) : 0;
}

/* ---- questions ---- */

struct http_question *http_next(struct http *http)
{
    uint64_t count;
    (void)pthread_mutex_lock(&http->lock);
    struct http_question *question = http->first;
    if (question) {
        http->first = question->next;
        if (!http->first)
            http->last = &http->first;
    } else {
        (void)!read(http->event_fd, &count, sizeof count);
    }
    (void)pthread_mutex_unlock(&http->lock);
    return question;
}

const char *http_question_path(const struct http_question *question)
{
    return question->path;
}

const char *http_question_value(const struct http_question *question, const char *key, size_t i)
{
    for (const struct parameter *at = question->parameters; at; at = at->next) {
        if (strcmp(at->key, key) == 0 && i-- == 0)
            return at->value;
    }
    return NULL;
}

void http_answer(struct http_question *question, int status, const char *type, const void *bytes,
                 size_t count)
{
    struct http *http = question->http;
    question->response = response_of(http, type, bytes, count, question->takes_gzip);
    question->status = status;
    (void)pthread_mutex_lock(&http->lock);
    http->parked--;
    (void)pthread_mutex_unlock(&http->lock);
    /* Without memory it is asked again at once, and again refused then: no loop of its own. */
    if (!question->response) {
        question->response = response_of(http, "text/plain", "", 0, false);
        question->status = MHD_HTTP_INTERNAL_SERVER_ERROR;
    }
    MHD_resume_connection(question->connection);
}
