/* SPDX-License-Identifier: Apache-2.0 */
/* One question to all nodes at the same time. */
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "peers_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOGETHER_MAX     128 /* connections; more wait for their turn */
#define CONNECT_MS       2000
#define POLL_CAP_MS      500
#define CONNECT_TO_BYTES 96

struct asking {
    struct peers_answer *answer; /* borrowed */
    CURL *easy;                  /* owned */
    struct curl_slist *connect_to;
    char words[CURL_ERROR_SIZE]; /* libcurl's */
    bool is_too_large;
};

static size_t take(char *bytes, size_t size, size_t count, void *context)
{
    struct asking *asking = context;
    struct peers_answer *answer = asking->answer;

    if (answer->at_ns == 0)
        answer->at_ns = mst_now_ns();
    if (mst_buf_append(&answer->body, bytes, size * count) < 0) {
        asking->is_too_large = true;
        return 0; /* taking fewer bytes than offered makes libcurl stop the transfer */
    }
    return size * count;
}

/* The first failure ends it: an option that is not understood must not be passed over. */
#define SET(option, value)                                                                                   \
    do {                                                                                                     \
        if (code == CURLE_OK)                                                                                \
            code = curl_easy_setopt(easy, option, value);                                                    \
    } while (0)

static int prepare(const struct peers *peers, const struct peers_node *node, const char *path,
                   uint32_t timeout_ms, struct asking *asking)
{
    const struct peers_options *options = peers->options;
    char url[2 * PEERS_URL_BYTES], connect_to[CONNECT_TO_BYTES];
    CURL *easy = asking->easy = curl_easy_init();
    CURLcode code = easy ? CURLE_OK : CURLE_OUT_OF_MEMORY;

    if (snprintf(url, sizeof url, "%s%s", node->url, path) >= (int)sizeof url)
        return -E2BIG;
    if (node->address[0] != '\0') { /* any host and port of the URL: this address, its own port */
        (void)snprintf(connect_to, sizeof connect_to, "::%s:", node->address);
        asking->connect_to = curl_slist_append(NULL, connect_to);
        if (!asking->connect_to)
            return -ENOMEM;
        SET(CURLOPT_CONNECT_TO, asking->connect_to);
    }
    SET(CURLOPT_URL, url);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_PROXY, "");
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)(timeout_ms < CONNECT_MS ? timeout_ms : CONNECT_MS));
    SET(CURLOPT_TIMEOUT_MS, (long)timeout_ms);
    SET(CURLOPT_ACCEPT_ENCODING, "gzip");
    SET(CURLOPT_WRITEFUNCTION, take);
    SET(CURLOPT_WRITEDATA, asking);
    SET(CURLOPT_ERRORBUFFER, asking->words);
    SET(CURLOPT_PRIVATE, asking);
    if (peers->user) {
        SET(CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
        SET(CURLOPT_USERNAME, peers->user);
        SET(CURLOPT_PASSWORD, peers->password);
    }
    if (options->ca)
        SET(CURLOPT_CAINFO, options->ca);
    if (options->certificate) {
        SET(CURLOPT_SSLCERT, options->certificate);
        SET(CURLOPT_SSLKEY, options->key);
    }
    return code == CURLE_OK ? 0 : code == CURLE_OUT_OF_MEMORY ? -ENOMEM : -EINVAL;
}

static void set_fault(struct peers_answer *answer, int code, const char *text)
{
    answer->code = code;
    (void)snprintf(answer->fault, sizeof answer->fault, "%s", text);
    answer->fault[strcspn(answer->fault, "\r\n")] = '\0';
    mst_buf_clear(&answer->body);
}

static void judge(struct asking *asking, CURLcode code, uint32_t timeout_ms)
{
    struct peers_answer *answer = asking->answer;
    char text[128];
    long status = 0;

    (void)curl_easy_getinfo(asking->easy, CURLINFO_RESPONSE_CODE, &status);
    if (asking->is_too_large) {
        (void)snprintf(text, sizeof text, "the answer has more than %zu bytes", answer->body.max_bytes);
        set_fault(answer, -EFBIG, text);
    } else if (code == CURLE_OPERATION_TIMEDOUT) {
        (void)snprintf(text, sizeof text, "no answer in %u ms", (unsigned)timeout_ms);
        set_fault(answer, -ETIMEDOUT, text);
    } else if (code != CURLE_OK) {
        set_fault(answer, -EHOSTUNREACH, asking->words[0] ? asking->words : curl_easy_strerror(code));
    } else if (status != 200) {
        (void)snprintf(text, sizeof text, "status %ld%s", status,
                       status == 401                   ? ": it wants a user and a password"
                       : status == 404                 ? ": not a monitor, or behind a prefix"
                       : status >= 300 && status < 400 ? ": it sends us elsewhere, which is not followed"
                                                       : "");
        set_fault(answer, -EREMOTEIO, text);
    } else {
        answer->code = 0;
    }
    if (answer->at_ns == 0)
        answer->at_ns = mst_now_ns();
}

static int drive(struct peers *peers, uint32_t timeout_ms, int cancel_fd, struct mst_error *err)
{
    struct curl_waitfd cancel = {.fd = cancel_fd, .events = CURL_WAIT_POLLIN};
    int running = 0;

    do {
        CURLMcode code = curl_multi_perform(peers->multi, &running);
        const CURLMsg *message;
        int left;
        while ((message = curl_multi_info_read(peers->multi, &left)) != NULL) {
            char *private = NULL;
            (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &private);
            if (message->msg == CURLMSG_DONE)
                judge((struct asking *)(void *)private, message->data.result, timeout_ms);
        }
        if (code == CURLM_OK && running > 0)
            code = curl_multi_poll(peers->multi, cancel_fd >= 0 ? &cancel : NULL, cancel_fd >= 0 ? 1 : 0,
                                   POLL_CAP_MS, NULL);
        if (code != CURLM_OK)
            return mst_error_set(err, -EIO, "ask the monitors: %s", curl_multi_strerror(code));
        if (cancel_fd >= 0 && cancel.revents != 0)
            return mst_error_set(err, -ECANCELED, "interrupted while asking the monitors");
    } while (running > 0); /* each has its own deadline */
    return 0;
}

static int start(struct peers *peers, size_t i, const char *path, uint32_t timeout_ms, struct asking *asking,
                 struct mst_error *err)
{
    const struct peers_node *node = &peers->nodes[i];
    int r;

    if (node->fault[0] != '\0') {
        set_fault(asking->answer, -ENOENT, node->fault);
        asking->answer->at_ns = mst_now_ns();
        return 0;
    }
    r = prepare(peers, node, path, timeout_ms, asking);
    if (r < 0)
        return mst_error_errno(err, r, "ask '%.64s'", node->url);
    set_fault(asking->answer, -ETIMEDOUT, "not asked");
    return curl_multi_add_handle(peers->multi, asking->easy) == CURLM_OK
               ? 0
               : mst_error_set(err, -ENOMEM, "ask '%.64s': no memory", node->url);
}

int peers_ask(struct peers *peers, const char *path, uint32_t timeout_ms, size_t max_bytes, int cancel_fd,
              struct peers_answer **ret_answers, struct mst_error *err)
{
    struct peers_answer *answers = calloc(peers->count + 1, sizeof *answers);
    mst_cleanup(mst_freep) struct asking *asking = calloc(peers->count + 1, sizeof *asking);
    int r = answers && asking ? 0 : mst_error_set(err, -ENOMEM, "ask %zu monitors: no memory", peers->count);

    if (r >= 0)
        (void)curl_multi_setopt(peers->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)TOGETHER_MAX);
    for (size_t i = 0; r >= 0 && i < peers->count; i++) {
        answers[i].body = (struct mst_buf)MST_BUF_INIT(max_bytes);
        asking[i].answer = &answers[i];
        r = start(peers, i, path, timeout_ms, &asking[i], err);
    }
    if (r >= 0)
        r = drive(peers, timeout_ms, cancel_fd, err);
    for (size_t i = 0; asking && i < peers->count; i++) {
        if (asking[i].easy) {
            (void)curl_multi_remove_handle(peers->multi, asking[i].easy); /* fine if it never was added */
            curl_easy_cleanup(asking[i].easy);
        }
        curl_slist_free_all(asking[i].connect_to);
    }
    if (r < 0) {
        peers_release(answers, peers->count);
        return r;
    }
    *ret_answers = answers;
    return 0;
}

void peers_release(struct peers_answer *answers, size_t count)
{
    for (size_t i = 0; answers && i < count; i++)
        mst_buf_release(&answers[i].body);
    free(answers);
}
