/* SPDX-License-Identifier: Apache-2.0 */
/* The server of /metrics and of the page: libmicrohttpd behind a few calls. HTTP has threads of its own, one
 * for each address; what needs the samples is parked as a question, which the sampling thread answers when it
 * gets to it. So no client, however slow, holds the sampling up, and samples need no lock.
 *
 * Order of calls: http_new(), then http_next() and http_answer() whenever http_fd() is readable, http_sweep()
 * about once a second, http_free(). */
#ifndef MONITORING_HTTP_H
#define MONITORING_HTTP_H

#include "muster/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_ADDRESSES_MAX   8
#define HTTP_PATH_MAX_BYTES  512
#define HTTP_CONNECTIONS_MAX 256 /* on each address */

struct http;
struct http_question;

/* Something that does not change while the server runs. */
struct http_page {
    const char *path, *type; /* borrowed */
    const void *bytes;       /* borrowed */
    size_t count;
    bool is_open; /* without authentication, whatever the configuration says */
};

struct http_options {
    const char *const *addresses;  /* "HOST:PORT", ":PORT" for all; the last is NULL */
    bool from_systemd;             /* the sockets that systemd hands over instead */
    const char *config_file;       /* --web.config.file; NULL: plain HTTP for everybody */
    const char *prefix;            /* before all paths, "" or "/monitor" */
    const struct http_page *pages; /* borrowed */
    size_t page_count;
    const char *const *questions; /* paths that are parked; the last is NULL */
    uint32_t max_requests;        /* questions at one time, more get 503; 0: no limit */
};

int http_new(const struct http_options *options, struct http **ret_http, struct mst_error *err);
void http_free(struct http *http); /* NULL is fine; answers what is still parked with 503 */

/* Where it listens, "127.0.0.1:8080"; with port 0 given, the real one. NULL beyond the last. */
const char *http_address(const struct http *http, size_t i);
/* Readable while there are questions. */
int http_fd(const struct http *http);

/* /-/ready says 503 until this was called. */
void http_set_ready(struct http *http, bool is_ready);

/* Ends connections that have not made up their request, or not taken their answer, for too long, and reads a
 * configuration again when it or a file that it names has changed. What is wrong in it, or does not start, is
 * an error, told once for each change, and the old one stays in force; it is tried again where that may help.
 */
int http_sweep(struct http *http, struct mst_error *err);

/* The next that is to be answered, NULL when there is none. */
struct http_question *http_next(struct http *http);
const char *http_question_path(const struct http_question *question); /* without the prefix */
/* The i-th value of a parameter, NULL beyond the last; borrowed until the answer. */
const char *http_question_value(const struct http_question *question, const char *key, size_t i);

/* Answers, and frees the question. `bytes` are copied; they are compressed for who takes that. */
void http_answer(struct http_question *question, int status, const char *type, const void *bytes,
                 size_t count);

/* "127.0.0.1:9100", ":9100", "[::1]:9100", "localhost:9100": does it make sense? */
int http_check_address(const char *text, struct mst_error *err);

#endif
