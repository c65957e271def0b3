/* SPDX-License-Identifier: Apache-2.0 */
#include "http_private.h"
#include "muster/clock.h"

#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HTTP_QUERY_MAX 32

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
        return http_say(http, question->connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                        "too many requests at a time\n", MHD_HTTP_HEADER_RETRY_AFTER, "1");
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
        http_response(http, page->type, page->bytes, page->count, http_takes_gzip(connection));
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
        return http_say(http, connection, MHD_HTTP_FORBIDDEN, "a client certificate is needed\n", NULL, NULL);
    if (!http_guard_has_room(&http->guard, &http->config, mst_now_ns()))
        return http_say(http, connection, MHD_HTTP_TOO_MANY_REQUESTS, "too many requests\n", NULL, NULL);
    if (!is_admitted(http, connection))
        return http_say(http, connection, MHD_HTTP_UNAUTHORIZED, "Unauthorized\n",
                        MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Basic realm=\"muster-monitor\"");
    if (page)
        return answer_page(http, connection, page);
    if (path && strcmp(path, "/-/ready") == 0)
        return atomic_load(&http->is_ready)
                   ? http_say(http, connection, MHD_HTTP_OK, "ready\n", NULL, NULL)
                   : http_say(http, connection, MHD_HTTP_SERVICE_UNAVAILABLE, "not ready\n", NULL, NULL);
    if (!path || !is_question(http, path) || strlen(path) >= sizeof question->path)
        return http_say(http, connection, MHD_HTTP_NOT_FOUND, "not found\n", NULL, NULL);
    memcpy(question->path, path, strlen(path) + 1);
    (void)MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, on_parameter, question);
    question->takes_gzip = http_takes_gzip(connection);
    return park(http, question);
}

/* Called when the headers are there, then when the request is complete, and again after an answer. */
enum MHD_Result http_on_request(void *context, struct MHD_Connection *connection, const char *url,
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
        http_client_is(http, connection, false);
        if (!is_head && strcmp(method, MHD_HTTP_METHOD_GET) != 0)
            return http_say(http, connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n",
                            MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
        if ((length && strcmp(length, "0") != 0) ||
            MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Transfer-Encoding"))
            return http_say(http, connection, MHD_HTTP_CONTENT_TOO_LARGE, "no body is taken\n", NULL, NULL);
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
        http_client_is(http, connection, false);
        return r;
    }
    return route(http, connection, url, question);
}

void http_on_completed(void *context, struct MHD_Connection *connection, void **request_context,
                       enum MHD_RequestTerminationCode code)
{
    (void)code;
    http_client_is(context, connection, true); /* the next request has its own time */
    question_free(*request_context);
    *request_context = NULL;
}
