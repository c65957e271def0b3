/* SPDX-License-Identifier: Apache-2.0 */
/* Service logs of any number of services, message by message, over lost connections: a stream that ends is
 * opened again from a little before its last message, and what was seen already is dropped. What goes on
 * failing is told once, on the session's report. */
#ifndef SWARM_LOGFOLLOW_H
#define SWARM_LOGFOLLOW_H

#include "session.h"

struct log_message {
    const char *service; /* name */
    const char *task_id, *node_id;
    const char *timestamp; /* RFC 3339 in UTC with nanoseconds: text order is time order, on one node */
    const char *text;      /* a whole line, however docker cut it, without the line end; ends with a NUL */
    size_t count;
    unsigned stream; /* 1 stdout, 2 stderr */
};

/* Takes a service log's line ("TIMESTAMP com.docker.swarm.task.id=...,... TEXT") apart, in place: `line` is
 * changed and borrowed by *ret_message. -EPROTO when it is none. */
int log_message_parse(char *line, size_t count, struct log_message *ret_message, struct mst_error *err);

typedef int log_message_fn(void *context, const struct log_message *message, struct mst_error *err);

struct logfollow_options {
    bool follow; /* keep on; without, each log is read once */
    bool stdout_only;
    const char *tail;  /* "100", "all"; NULL: all */
    const char *since; /* unix seconds as text; NULL: all */
};

struct logfollow;

int logfollow_new(struct session *session, const struct logfollow_options *options,
                  log_message_fn *on_message, void *context, struct logfollow **ret_follow,
                  struct mst_error *err);
void logfollow_free(struct logfollow *follow); /* before its session is closed */
void logfollow_freep(struct logfollow **follow);
/* `is_tty`: the service has a terminal, so its log has no frames. Without `follow` the engine leaves out
 * tasks that start or are not healthy yet: logfollow_add_task(). */
int logfollow_add(struct logfollow *follow, const char *service_id, const char *name, bool is_tty,
                  struct mst_error *err);
/* One task's log; `name` is its service's. */
int logfollow_add_task(struct logfollow *follow, const char *task_id, const char *name, bool is_tty,
                       struct mst_error *err);
/* Call once a round: opens again what ended, and returns what on_message or a log refused for good returned.
 */
int logfollow_tick(struct logfollow *follow, struct mst_error *err);
/* Logs that are still being read, or are going to be again. */
size_t logfollow_open_count(const struct logfollow *follow);

#endif
