/* SPDX-License-Identifier: Apache-2.0 */
#include "web.h"

#include "exposition.h"
#include "muster/cleanup.h"
#include "muster/file.h"
#include "muster/log.h"
#include "nodes.h"
#include "page_files.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define CHARTS_MAX_BYTES  ((size_t)4 << 20)
#define HISTORY_MAX_BYTES ((size_t)256 << 20)
#define NAMES_MAX         32
#define PAGES_MAX         16

struct web {
    struct web_options options;
    struct http *http;
    struct mst_buf charts, text;
    struct http_page pages[PAGES_MAX];
    const char *questions[4];
    char *about;               /* who this is, as JSON; owned */
    struct nodes_watch *nodes; /* NULL: none */
};

/* Without charts the page still shows its tables, so a missing file is no failure. */
static void load_charts(struct web *web)
{
    struct mst_error err = MST_ERROR_INIT;
    const char *path = web->options.charts_path;
    if (path && mst_file_read(path, &web->charts, &err) < 0)
        mst_log_warn("monitor", "the page has no charts (Debian: libjs-chart.js): %s", err.text);
}

static size_t list_pages(struct web *web)
{
    size_t count = 0;
    static const char ok[] = "ok", healthy[] = "healthy\n", none[] = "";
    for (size_t i = 0; i < page_file_count; i++)
        web->pages[count++] = page_files[i];
    web->pages[count++] =
        (struct http_page){"/chart.js", "text/javascript; charset=utf-8",
                           web->charts.count ? web->charts.bytes : none, web->charts.count, false};
    web->pages[count++] = (struct http_page){"/healthz", "text/plain; charset=utf-8", ok, 2, false};
    web->pages[count++] =
        (struct http_page){"/-/healthy", "text/plain; charset=utf-8", healthy, sizeof healthy - 1, false};
    web->pages[count++] =
        (struct http_page){NODES_NAME_PATH, "application/json", web->about, strlen(web->about), false};
    return count;
}

/* Another node's monitor asks for it, where it knows this one by an address alone. */
static char *make_about(const struct web_options *options)
{
    cJSON *json = cJSON_CreateObject();
    char *text = NULL;
    if (cJSON_AddStringToObject(json, "node", options->node ? options->node : "") &&
        cJSON_AddStringToObject(json, "version", options->version ? options->version : ""))
        text = cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    return text;
}

int web_new(const struct web_options *options, struct web **ret_web, struct mst_error *err)
{
    struct web *web = calloc(1, sizeof *web);
    if (!web)
        return mst_error_set(err, -ENOMEM, "serve: no memory");
    web->options = *options;
    web->charts = (struct mst_buf)MST_BUF_INIT(CHARTS_MAX_BYTES);
    web->text = (struct mst_buf)MST_BUF_INIT(EXPOSITION_MAX_BYTES);
    web->about = make_about(options);
    if (!web->about) {
        web_free(web);
        return mst_error_set(err, -ENOMEM, "serve: no memory");
    }
    load_charts(web);
    web->questions[0] = options->metrics_path;
    web->questions[1] = WEB_HISTORY_PATH;
    web->questions[2] = WEB_NODES_PATH;
    const struct http_options http = {.addresses = options->addresses,
                                      .from_systemd = options->from_systemd,
                                      .config_file = options->config_file,
                                      .prefix = options->prefix ? options->prefix : "",
                                      .pages = web->pages,
                                      .page_count = list_pages(web),
                                      .questions = web->questions,
                                      .max_requests = options->max_requests};
    int r = options->nodes ? nodes_watch_new(options->nodes, &web->nodes, err) : 0;
    if (r == 0)
        r = http_new(&http, &web->http, err);
    if (r < 0) {
        web_free(web);
        return r;
    }
    for (size_t i = 0; http_address(web->http, i); i++)
        mst_log_info("monitor", "listening on %s", http_address(web->http, i));
    *ret_web = web;
    return 0;
}

void web_free(struct web *web)
{
    if (!web)
        return;
    http_free(web->http);
    nodes_watch_free(web->nodes);
    free(web->about);
    mst_buf_release(&web->charts);
    mst_buf_release(&web->text);
    free(web);
}

struct http *web_http(const struct web *web)
{
    return web->http;
}

enum web_question web_kind(const struct web *web, const struct http_question *question)
{
    const char *path = http_question_path(question);
    if (strcmp(path, web->options.metrics_path) == 0)
        return WEB_METRICS;
    if (strcmp(path, WEB_NODES_PATH) == 0)
        return WEB_NODES;
    return strcmp(path, WEB_HISTORY_PATH) == 0 ? WEB_HISTORY : WEB_UNKNOWN;
}

void web_answer_error(struct http_question *question, int status, const char *text)
{
    http_answer(question, status, "text/plain; charset=utf-8", text, strlen(text));
}

void web_answer_metrics(struct web *web, struct http_question *question, const struct monitor_pass *pass)
{
    const char *names[NAMES_MAX + 1] = {NULL};
    struct metrics_options options = web->options.metrics;
    for (size_t i = 0; i < NAMES_MAX; i++)
        names[i] = http_question_value(question, "name[]", i);
    if (names[0])
        options.names = names;
    mst_buf_clear(&web->text);
    const int r = metrics_write(pass, &options, &web->text);
    if (r < 0)
        web_answer_error(question, MHD_HTTP_INTERNAL_SERVER_ERROR, "the page is too large\n");
    else
        http_answer(question, MHD_HTTP_OK, EXPOSITION_TYPE, mst_buf_text(&web->text), web->text.count);
}

void web_answer_history(struct web *web, struct http_question *question, const struct history *history,
                        const struct history *day)
{
    const char *since = http_question_value(question, "since", 0);
    const char *range = http_question_value(question, "range", 0);
    char *end = NULL;
    const double since_s = since ? strtod(since, &end) : 0;
    if ((since && (end == since || *end)) || !isfinite(since_s)) {
        web_answer_error(question, MHD_HTTP_BAD_REQUEST, "since: expected Unix time in seconds\n");
        return;
    }
    if (range && !(day && strcmp(range, "day") == 0)) {
        web_answer_error(question, MHD_HTTP_BAD_REQUEST,
                         "range: expected 'day', of an exporter that records\n");
        return;
    }
    mst_buf_clear(&web->text);
    if (history_json(range ? day : history, since_s, day != NULL, &web->text) < 0)
        web_answer_error(question, MHD_HTTP_INTERNAL_SERVER_ERROR, "the history is too large\n");
    else
        http_answer(question, MHD_HTTP_OK, "application/json", mst_buf_text(&web->text), web->text.count);
}

void web_answer_nodes(struct web *web, struct http_question *question)
{
    mst_buf_clear(&web->text);
    if (nodes_watch_json(web->nodes, &web->text) < 0)
        web_answer_error(question, MHD_HTTP_INTERNAL_SERVER_ERROR, "no memory\n");
    else
        http_answer(question, MHD_HTTP_OK, "application/json", mst_buf_text(&web->text), web->text.count);
}

int web_wake_open(int stop_fd, const struct web *web, int *ret_fd, struct mst_error *err)
{
    struct epoll_event event = {.events = EPOLLIN};
    const int fd = epoll_create1(EPOLL_CLOEXEC);
    if (fd < 0 || epoll_ctl(fd, EPOLL_CTL_ADD, stop_fd, &event) < 0 ||
        epoll_ctl(fd, EPOLL_CTL_ADD, http_fd(web->http), &event) < 0) {
        const int r = mst_error_errno(err, -errno, "wait for requests");
        if (fd >= 0)
            (void)close(fd);
        return r;
    }
    *ret_fd = fd;
    return 0;
}

bool web_is_stopped(int stop_fd)
{
    struct pollfd stop = {.fd = stop_fd, .events = POLLIN};
    return poll(&stop, 1, 0) > 0;
}
