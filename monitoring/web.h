/* SPDX-License-Identifier: Apache-2.0 */
/* What `serve` and `replay` have in common: the page's files, and answers made of passes and of a history. */
#ifndef MONITORING_WEB_H
#define MONITORING_WEB_H

#include "history.h"
#include "http.h"
#include "metrics.h"
#include "muster/monitor.h"
#include "muster/peers.h"

struct web_options {
    const char *const *addresses; /* as http_options */
    bool from_systemd;
    const char *config_file, *prefix;
    const char *metrics_path; /* "/metrics" */
    const char *charts_path;  /* Chart.js, as its Debian package installs it; NULL: no charts */
    uint32_t max_requests;
    struct metrics_options metrics;
    const char *node, *version;
    const struct peers_options *nodes; /* the other nodes' monitors, for the page; NULL: none */
};

#define WEB_HISTORY_PATH "/api/v1/history"
#define WEB_NODES_PATH   "/api/v1/nodes"

struct web;

/* Serves from now on. */
int web_new(const struct web_options *options, struct web **ret_web, struct mst_error *err);
void web_free(struct web *web); /* NULL is fine */
struct http *web_http(const struct web *web);

enum web_question { WEB_METRICS, WEB_HISTORY, WEB_NODES, WEB_UNKNOWN };
enum web_question web_kind(const struct web *web, const struct http_question *question);

/* Answer, and free the question. */
void web_answer_metrics(struct web *web, struct http_question *question, const struct monitor_pass *pass);
/* `day` (NULL: none) is what `range=day` asks for. */
void web_answer_history(struct web *web, struct http_question *question, const struct history *history,
                        const struct history *day);
void web_answer_nodes(struct web *web, struct http_question *question);
void web_answer_error(struct http_question *question, int status, const char *text);

/* Becomes readable with either; owned by the caller. */
int web_wake_open(int stop_fd, const struct web *web, int *ret_fd, struct mst_error *err);
/* Was it stop_fd? */
bool web_is_stopped(int stop_fd);

#endif
