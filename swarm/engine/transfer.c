/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer.h"

#include "dial.h"
#include "muster/cleanup.h"
#include "muster/digest.h"
#include "muster/json.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>

#define REFUSAL_MAX_BYTES ((size_t)64 << 10)

static size_t on_header(char *line, size_t size, size_t count, void *context)
{
    static const char name[] = "api-version:";
    struct engine_transfer *transfer = context;
    const size_t bytes = size * count;

    if (bytes > sizeof name && strncasecmp(line, name, sizeof name - 1) == 0) {
        const char *value = line + sizeof name - 1;
        size_t left = bytes - (sizeof name - 1), length = 0;
        while (left > 0 && *value == ' ')
            value++, left--;
        while (length < left && value[length] > ' ')
            length++;
        if (length < sizeof transfer->api_version) {
            memcpy(transfer->api_version, value, length);
            transfer->api_version[length] = '\0';
        }
    }
    return bytes;
}

static int take(struct engine_transfer *transfer, const char *bytes, size_t count)
{
    const bool is_refusal = transfer_status(transfer) >= 400;
    int r;

    if (is_refusal && transfer->reply.count + count > REFUSAL_MAX_BYTES)
        return 0; /* the start says why */
    if (!is_refusal && transfer->max_bytes > 0 && count > transfer->max_bytes - transfer->taken_bytes)
        return mst_error_set(&transfer->err, -EFBIG, "%s: the reply has more than %zu bytes", transfer->label,
                             transfer->max_bytes);
    transfer->taken_bytes += count;
    if (transfer->on_bytes && !is_refusal) {
        transfer->deliveries++;
        return transfer->on_bytes(transfer->context, bytes, count, &transfer->err);
    }
    r = mst_buf_append(&transfer->reply, bytes, count);
    return r < 0 ? mst_error_set(&transfer->err, r, "%s: no memory for the reply", transfer->label) : 0;
}

/* Taking fewer bytes than offered makes libcurl stop the transfer. */
static size_t on_body(char *bytes, size_t size, size_t count, void *context)
{
    struct engine_transfer *transfer = context;

    transfer->code = take(transfer, bytes, size * count);
    return transfer->code < 0 ? 0 : size * count;
}

static size_t on_read(char *bytes, size_t size, size_t count, void *context)
{
    struct engine_transfer *transfer = context;
    const struct engine_upload *upload = transfer->upload;
    const uint64_t left = upload->count - transfer->uploaded;
    const size_t room = size * count;
    ssize_t got;

    do {
        got = read(upload->fd, bytes, left < room ? (size_t)left : room);
    } while (got < 0 && errno == EINTR);
    if (got < 0 || (got == 0 && left > 0)) {
        transfer->code = mst_error_errno(&transfer->err, got < 0 ? -errno : -EIO, "%s: read what is sent",
                                         transfer->label);
        return CURL_READFUNC_ABORT;
    }
    transfer->uploaded += (uint64_t)got;
    if (upload->on_progress)
        upload->on_progress(upload->context, transfer->uploaded);
    return (size_t)got;
}

static CURLcode set_upload(struct engine_transfer *transfer)
{
    CURLcode c = curl_easy_setopt(transfer->easy, CURLOPT_POST, 1L);

    if (c == CURLE_OK)
        c = curl_easy_setopt(transfer->easy, CURLOPT_POSTFIELDSIZE_LARGE,
                             (curl_off_t)transfer->upload->count);
    if (c == CURLE_OK)
        c = curl_easy_setopt(transfer->easy, CURLOPT_READFUNCTION, on_read);
    return c == CURLE_OK ? curl_easy_setopt(transfer->easy, CURLOPT_READDATA, transfer) : c;
}

static int set_method(struct engine_transfer *transfer, const struct engine_call *call)
{
    CURLcode c = CURLE_OK;

    /* libcurl sends a request again when a kept connection turns out to be dead. A create that was done
     * before the connection died must not be sent twice, so only reads use kept connections. */
    if (strcmp(call->method, "HEAD") != 0 && strcmp(call->method, "GET") != 0)
        c = curl_easy_setopt(transfer->easy, CURLOPT_FRESH_CONNECT, 1L);
    if (c != CURLE_OK)
        return -ENOMEM;
    if (strcmp(call->method, "HEAD") == 0)
        c = curl_easy_setopt(transfer->easy, CURLOPT_NOBODY, 1L);
    else if (strcmp(call->method, "GET") != 0)
        c = curl_easy_setopt(transfer->easy, CURLOPT_CUSTOMREQUEST, call->method);
    if (c == CURLE_OK && transfer->upload) {
        c = set_upload(transfer);
    } else if (c == CURLE_OK && (transfer->body || strcmp(call->method, "POST") == 0)) {
        const char *body = transfer->body ? transfer->body : "";
        c = curl_easy_setopt(transfer->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
        if (c == CURLE_OK)
            c = curl_easy_setopt(transfer->easy, CURLOPT_POSTFIELDS, body);
    }
    return c == CURLE_OK ? 0 : -ENOMEM;
}

static int add_header(struct engine_transfer *transfer, const char *line)
{
    struct curl_slist *longer = curl_slist_append(transfer->headers, line);

    if (!longer)
        return -ENOMEM;
    transfer->headers = longer;
    return 0;
}

static int set_headers(struct engine_transfer *transfer, const struct engine_call *call)
{
    int r = add_header(transfer, "Expect:"); /* no round trip before a large body */

    if (r >= 0)
        r = transfer->upload
                ? 0
                : add_header(transfer, transfer->body ? "Content-Type: application/json" : "Content-Type:");
    if (r >= 0 && transfer->upload) {
        mst_cleanup(mst_freep) char *line = mst_format("Content-Type: %s", transfer->upload->content_type);
        r = line ? add_header(transfer, line) : -ENOMEM;
    }
    for (size_t i = 0; r >= 0 && call->headers && call->headers[i]; i++)
        r = add_header(transfer, call->headers[i]);
    if (r >= 0 && curl_easy_setopt(transfer->easy, CURLOPT_HTTPHEADER, transfer->headers) != CURLE_OK)
        r = -ENOMEM;
    return r;
}

/* A protocol list by name came with libcurl 7.85, and the older bit mask is then deprecated. */
static CURLcode allow_http_only(CURL *easy, bool is_tls)
{
#if CURL_AT_LEAST_VERSION(7, 85, 0)
    return curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, is_tls ? "https" : "http");
#else
    return curl_easy_setopt(easy, CURLOPT_PROTOCOLS, (long)(is_tls ? CURLPROTO_HTTPS : CURLPROTO_HTTP));
#endif
}

static CURLcode set_tls(CURL *easy, const struct engine_endpoint *endpoint)
{
    CURLcode c = CURLE_OK;

    /* Who names an authority trusts that one alone, as with docker. */
    if (endpoint->ca_file)
        c = curl_easy_setopt(easy, CURLOPT_CAINFO, endpoint->ca_file);
    if (c == CURLE_OK && endpoint->ca_file)
        c = curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    if (c == CURLE_OK && endpoint->cert_file)
        c = curl_easy_setopt(easy, CURLOPT_SSLCERT, endpoint->cert_file);
    if (c == CURLE_OK && endpoint->key_file)
        c = curl_easy_setopt(easy, CURLOPT_SSLKEY, endpoint->key_file);
    if (c == CURLE_OK)
        c = curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, endpoint->is_verified ? 1L : 0L);
    if (c == CURLE_OK)
        c = curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, endpoint->is_verified ? 2L : 0L);
    if (c == CURLE_OK)
        c = curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    return c;
}

static int set_options(struct engine_transfer *transfer, const struct engine_endpoint *endpoint,
                       const char *url)
{
    CURL *easy = transfer->easy;
    CURLcode c = curl_easy_setopt(easy, CURLOPT_URL, url);

    if (c == CURLE_OK)
        c = allow_http_only(easy, endpoint->is_tls);
    if (c == CURLE_OK && endpoint->is_tls)
        c = set_tls(easy, endpoint);
    if (c == CURLE_OK && endpoint->dialer)
        c = curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, dialer_socket(endpoint->dialer));
    if (c == CURLE_OK && endpoint->socket_path)
        c = curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, endpoint->socket_path);
    if (c == CURLE_OK)
        c = curl_easy_setopt(easy, CURLOPT_PROXY, ""); /* also keeps http_proxy of the environment out */
    if (c != CURLE_OK)
        return -ENOMEM;
    /* These take no memory and cannot fail on a libcurl that has them. */
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)transfer->connect_timeout_ms);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)transfer->timeout_ms);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->curl_text);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
    return 0;
}

static int prepare(struct engine_transfer *transfer, const struct engine_endpoint *endpoint,
                   unsigned api_minor, const struct engine_call *call)
{
    mst_cleanup(mst_freep) char *url = NULL;
    char version[16] = "";
    int r;

    if (api_minor > 0)
        (void)snprintf(version, sizeof version, "/v1.%u", api_minor);
    if (asprintf(&transfer->label, "%s %s%s%s%s%s", call->method, version, call->path,
                 call->about ? " (" : "", call->about ? call->about : "", call->about ? ")" : "") < 0) {
        transfer->label = NULL;
        return -ENOMEM;
    }
    if (asprintf(&url, "%s%s%s%s%s", endpoint->base_url, version, call->path, call->query ? "?" : "",
                 call->query ? call->query : "") < 0) {
        url = NULL;
        return -ENOMEM;
    }
    if (call->body) {
        transfer->body = cJSON_PrintUnformatted(call->body);
        if (!transfer->body)
            return -ENOMEM;
    }
    transfer->easy = curl_easy_init();
    if (!transfer->easy)
        return -ENOMEM;
    r = set_options(transfer, endpoint, url);
    if (r >= 0)
        r = set_method(transfer, call);
    return r < 0 ? r : set_headers(transfer, call);
}

int transfer_init(struct engine_transfer *transfer, const struct engine_endpoint *endpoint,
                  const struct engine_options *options, unsigned api_minor, const struct engine_call *call,
                  struct mst_error *err)
{
    int r;

    *transfer = (struct engine_transfer){
        .reply = MST_BUF_INIT(call->max_reply_bytes ? call->max_reply_bytes : ENGINE_REPLY_MAX_BYTES),
        .max_bytes = call->max_reply_bytes,
        .timeout_ms = call->timeout_ms,
        .connect_timeout_ms = options->connect_timeout_ms,
        .endpoint = endpoint,
        .upload = call->upload,
        .host = endpoint->text,
    };
    r = prepare(transfer, endpoint, api_minor, call);
    if (r < 0) {
        transfer_release(transfer);
        return mst_error_set(err, r, "%s %s: no memory for the request", call->method, call->path);
    }
    return 0;
}

void transfer_release(struct engine_transfer *transfer)
{
    curl_easy_cleanup(transfer->easy);
    curl_slist_free_all(transfer->headers);
    if (transfer->body)
        mst_forget(transfer->body, strlen(transfer->body));
    free(transfer->body);
    free(transfer->label);
    mst_buf_release(&transfer->reply);
    transfer->easy = NULL;
    transfer->headers = NULL;
    transfer->body = transfer->label = NULL;
}

/* libcurl does not keep the errno of a Unix socket that cannot be reached; the second try asks for it only.
 */
static int connect_errno(const struct engine_transfer *transfer)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = transfer->endpoint->socket_path;
    mst_cleanup(mst_closep) int fd = -1;
    long os_errno = 0;

    (void)curl_easy_getinfo(transfer->easy, CURLINFO_OS_ERRNO, &os_errno);
    if (os_errno > 0)
        return (int)-os_errno;
    if (!path || strlen(path) >= sizeof address.sun_path)
        return -ECONNREFUSED;
    memcpy(address.sun_path, path, strlen(path) + 1);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address) == 0)
        return -ECONNREFUSED;
    return -errno;
}

/* What ssh said before it ended tells more than that it ended. */
static bool ssh_failure(const struct engine_transfer *transfer, struct mst_error *err)
{
    char complaint[256] = "";

    if (transfer->endpoint->dialer)
        dialer_complaint(transfer->endpoint->dialer, complaint, sizeof complaint);
    if (complaint[0] != '\0')
        (void)mst_error_set(err, -ECONNREFUSED, "connect to the engine at %s: %s", transfer->host, complaint);
    return complaint[0] != '\0';
}

/* With TLS 1.3 the engine looks at the client's certificate when the client thinks that all is well, and its
 * alert may be lost in the end of the connection. */
static bool tls_failure(const struct engine_transfer *transfer, CURLcode curl_code, const char *text,
                        struct mst_error *err)
{
    const char *why = "";

    if (!transfer->endpoint->is_tls)
        return false;
    switch (curl_code) {
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_CIPHER:
        break;
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
        if (strcmp(transfer->label, "GET /_ping") != 0)
            return false;
        why = transfer->endpoint->cert_file
                  ? "it ended the connection, so it does not take this client's certificate: "
                  : "it ended the connection, so it wants a client's certificate (cert.pem and key.pem in "
                    "DOCKER_CERT_PATH): ";
        break;
    default:
        return false;
    }
    (void)mst_error_set(err, -EACCES, "TLS with the engine at %s: %s%s", transfer->host, why, text);
    return true;
}

static int connect_failure(const struct engine_transfer *transfer, CURLcode curl_code, struct mst_error *err)
{
    int code;

    if (curl_code == CURLE_COULDNT_RESOLVE_HOST)
        return mst_error_set(err, -EHOSTUNREACH, "connect to the engine at %s: %s", transfer->host,
                             transfer->curl_text[0] ? transfer->curl_text : curl_easy_strerror(curl_code));
    code = connect_errno(transfer);
    /* A path that is no socket, or no such file: an input that cannot be read has other codes. */
    if (code == -EINVAL || code == -EBADMSG)
        code = -ECONNREFUSED;
    return mst_error_errno(err, code, "connect to the engine at %s", transfer->host);
}

static int timeout_failure(const struct engine_transfer *transfer, struct mst_error *err)
{
    curl_off_t connected_us = 0;

    (void)curl_easy_getinfo(transfer->easy, CURLINFO_PRETRANSFER_TIME_T, &connected_us);
    if (connected_us == 0)
        return mst_error_set(err, -ETIMEDOUT, "connect to the engine at %s: no answer in %u ms",
                             transfer->host, (unsigned)transfer->connect_timeout_ms);
    return mst_error_set(err, -ETIMEDOUT, "%s: no complete answer from %s in %u ms", transfer->label,
                         transfer->host, (unsigned)transfer->timeout_ms);
}

int transfer_result(struct engine_transfer *transfer, CURLcode curl_code, struct mst_error *err)
{
    const char *text = transfer->curl_text[0] ? transfer->curl_text : curl_easy_strerror(curl_code);

    if (transfer->code < 0) { /* our own side stopped it */
        if (err)
            *err = transfer->err;
        return transfer->code;
    }
    if (curl_code != CURLE_OK && tls_failure(transfer, curl_code, text, err))
        return -EACCES;
    switch (curl_code) {
    case CURLE_OK:
        return 0;
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
        if (ssh_failure(transfer, err))
            return -ECONNREFUSED;
        return connect_failure(transfer, curl_code, err);
    case CURLE_OPERATION_TIMEDOUT:
        return timeout_failure(transfer, err);
    case CURLE_OUT_OF_MEMORY:
        return mst_error_set(err, -ENOMEM, "%s: no memory", transfer->label);
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
        if (transfer->deliveries == 0 && ssh_failure(transfer, err))
            return -ECONNREFUSED;
        return mst_error_set(err, -EPROTO, "%s: the reply of %s was cut: %s", transfer->label, transfer->host,
                             text);
    default:
        return mst_error_set(err, -EPROTO, "%s: %s: %s", transfer->label, transfer->host, text);
    }
}

int transfer_status(const struct engine_transfer *transfer)
{
    long status = 0;

    (void)curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    return (int)status;
}

int transfer_json(const struct engine_transfer *transfer, cJSON **ret_json, struct mst_error *err)
{
    const char *type = NULL;
    int r;

    *ret_json = NULL;
    (void)curl_easy_getinfo(transfer->easy, CURLINFO_CONTENT_TYPE, &type);
    if (transfer->reply.count == 0 || !type || strncasecmp(type, "application/json", 16) != 0)
        return 0;
    r = mst_json_parse(mst_buf_text(&transfer->reply), transfer->reply.count, "reply", ret_json, err);
    if (r < 0) {
        /* -EBADMSG would blame the user's input. */
        return mst_error_wrap(err, r == -ENOMEM ? r : -EPROTO, "%s", transfer->label);
    }
    return 0;
}

static const char *status_text(int status)
{
    static const struct {
        int status;
        const char *text;
    } texts[] = {
        {400, "Bad Request"}, {401, "Unauthorized"},          {403, "Forbidden"},
        {404, "Not Found"},   {405, "Method Not Allowed"},    {406, "Not Acceptable"},
        {409, "Conflict"},    {500, "Internal Server Error"}, {501, "Not Implemented"},
        {502, "Bad Gateway"}, {503, "Service Unavailable"},   {504, "Gateway Timeout"},
    };

    for (size_t i = 0; i < MST_ARRAY_COUNT(texts); i++) {
        if (texts[i].status == status)
            return texts[i].text;
    }
    return "refused";
}

int transfer_refused(const char *label, int status, const cJSON *json, struct mst_error *err)
{
    const char *words = mst_json_string_or(json, "message", "the engine gave no reason");
    char line[768];
    size_t i;

    /* One line, whatever the server puts into it. */
    for (i = 0; i < sizeof line - 1 && words[i] != '\0'; i++)
        line[i] = (unsigned char)words[i] < ' ' || words[i] == 0x7f ? ' ' : words[i];
    while (i > 0 && line[i - 1] == ' ')
        i--;
    line[i] = '\0';
    return mst_error_set(err, -EREMOTEIO, "%s: %d %s: %s", label, status, status_text(status), line);
}
