/* SPDX-License-Identifier: Apache-2.0 */
/* A Docker engine that does as it is told, on a Unix socket: a Swarm manager in memory that keeps what is
 * created and forgets what is deleted, and rules that make single replies go wrong. Only for what a real
 * engine cannot be made to do at a chosen moment. */
#ifndef FAKE_ENGINE_H
#define FAKE_ENGINE_H

#include "muster/buf.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

enum fake_fault {
    FAKE_REFUSE,   /* `status` and {"message": text} */
    FAKE_REPLY,    /* `status` and `text` as JSON, whatever it is */
    FAKE_CUT,      /* half a reply, then the connection closes; what was asked for is done */
    FAKE_CLOSE,    /* no reply at all */
    FAKE_SILENCE,  /* no reply, and the connection stays open */
    FAKE_HUGE,     /* a list that does not end */
    FAKE_REDIRECT, /* 302 to `text` */
};

struct fake_rule {
    const char *method, *path; /* path without version and query; a '*' at its end matches any rest */
    unsigned first, count; /* from the first-th such request on (1: the first), `count` times (0: always) */
    enum fake_fault fault;
    int status;
    const char *text;
    unsigned seen; /* counts requests */
};

struct fake_engine;

/* Starts a thread that serves; asserts on any failure of the machine. `rules` are borrowed and changed
 * (seen). */
struct fake_engine *fake_engine_start(struct fake_rule *rules, size_t rule_count);
void fake_engine_stop(struct fake_engine *fake);
/* Other rules from now on. */
void fake_engine_rules(struct fake_engine *fake, struct fake_rule *rules, size_t rule_count);
const char *fake_engine_host(const struct fake_engine *fake); /* "unix:///tmp/..." */

/* Requests so far that begin so ("POST /services/create"); all of them with "". */
size_t fake_engine_count(struct fake_engine *fake, const char *begin);
/* The body of the newest request that begins so: the caller's to delete, NULL when there was none. */
cJSON *fake_engine_body(struct fake_engine *fake, const char *begin);
/* How many objects of a list ("services", "networks", "secrets", "configs") there are. */
size_t fake_engine_objects(struct fake_engine *fake, const char *list);
/* Put an object into a list as it stands (borrowed text). */
void fake_engine_add(struct fake_engine *fake, const char *list, const char *json);
/* What GET /services/{id}/logs and other streams of that path reply, raw bytes (borrowed), before they end.
 */
void fake_engine_stream(struct fake_engine *fake, const char *path, const void *bytes, size_t count);
/* Append a message of a service's log, as the engine frames it: `second` is of 2026-01-01T00:00, two digits;
 * `text` ends as it does (a line with "\n"). */
void fake_engine_frame(struct mst_buf *log, unsigned char stream, const char *second, const char *task,
                       const char *text);

#endif
