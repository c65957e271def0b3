/* SPDX-License-Identifier: Apache-2.0 */
#include "http.h"

#include "http_listen.h"
#include "http_private.h"
#include "muster/cleanup.h"
#include "muster/clock.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define HTTP_IDLE_S       15                  /* without a byte */
#define HTTP_ASK_NS       (10 * MST_NS_PER_S) /* until a request is complete: a byte now and then is no life */
#define HTTP_TAKE_NS      (60 * MST_NS_PER_S) /* until the answer is taken */
#define HTTP_MEMORY_BYTES ((size_t)16 << 10)  /* of a connection, so also for its headers */

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

void http_client_is(struct http *http, struct MHD_Connection *connection, bool is_asking)
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
        flags, 0, NULL, NULL, http_on_request, http, MHD_OPTION_NOTIFY_COMPLETED, http_on_completed, http,
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
    question->response = http_response(http, type, bytes, count, question->takes_gzip);
    question->status = status;
    (void)pthread_mutex_lock(&http->lock);
    http->parked--;
    (void)pthread_mutex_unlock(&http->lock);
    /* Without memory it is asked again at once, and again refused then: no loop of its own. */
    if (!question->response) {
        question->response = http_response(http, "text/plain", "", 0, false);
        question->status = MHD_HTTP_INTERNAL_SERVER_ERROR;
    }
    MHD_resume_connection(question->connection);
}
