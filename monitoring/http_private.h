/* SPDX-License-Identifier: Apache-2.0 */
/* The server's parts: daemons and their configuration (http.c), what is asked (http_request.c), and what is
 * answered (http_answer.c). Callbacks of libmicrohttpd run in the threads of its daemons. */
#ifndef MONITORING_HTTP_PRIVATE_H
#define MONITORING_HTTP_PRIVATE_H

#include "http.h"
#include "http_guard.h"
#include "web_config.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

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

/* The client's time for a request, or for taking an answer, begins. */
void http_client_is(struct http *http, struct MHD_Connection *connection, bool is_asking);

/* For MHD_start_daemon(); the context is the struct http. */
enum MHD_Result http_on_request(void *context, struct MHD_Connection *connection, const char *url,
                                const char *method, const char *version, const char *upload,
                                size_t *upload_bytes, void **request_context);
void http_on_completed(void *context, struct MHD_Connection *connection, void **request_context,
                       enum MHD_RequestTerminationCode code);

/* Answer with one line of text and, unless NULL, a header. */
enum MHD_Result http_say(const struct http *http, struct MHD_Connection *connection, unsigned status,
                         const char *text, const char *header, const char *value);
/* `takes_gzip`: compressed, if that is worth it. NULL without memory. */
struct MHD_Response *http_response(const struct http *http, const char *type, const void *bytes, size_t count,
                                   bool takes_gzip);
bool http_takes_gzip(struct MHD_Connection *connection);

#endif
