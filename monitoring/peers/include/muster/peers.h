/* SPDX-License-Identifier: Apache-2.0 */
/* The monitors of the other nodes: where they are, and what they answer, asked all at once.
 *
 * Order of calls: peers_new() reads the files; peers_find() looks names up, again whenever they may have
 * changed; peers_ask() as often as wanted; peers_free(). One thread at a time.
 *
 * A node that cannot be reached is no error: its answer says why. Nothing of what comes from a node is
 * believed beyond its limits: bytes, time, and the text format's grammar. */
#ifndef MUSTER_PEERS_H
#define MUSTER_PEERS_H

#include "muster/buf.h"
#include "muster/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PEERS_MAX        1024 /* nodes */
#define PEERS_WHERE_MAX  64   /* places to look for them */
#define PEERS_PORT       "8080"
#define PEERS_NAME_BYTES 256
#define PEERS_URL_BYTES  512

#define PEERS_GAUGE_BYTES 64

struct peers_options {
    /* "http://HOST[:PORT][/PREFIX]", https likewise, or "HOST[:PORT]"; a host that begins with "tasks."
     * stands for every task of that service, as Swarm's own name server knows them. The last is NULL; NULL:
     * none. */
    const char *const *where;
    const char *file; /* lines "NAME WHERE [LINK]"; NULL: none */
    const char *link; /* what people's browsers reach, where a name is known: "http://{node}:8080/"; NULL: as
                         the file says */
    /* Secrets come from files only; NULL: none. */
    const char *credentials;            /* one line "USER:PASSWORD" */
    const char *ca, *certificate, *key; /* PEM; without `ca` the machine's authorities count */
};

struct peers_node {
    char name[PEERS_NAME_BYTES]; /* of the file, else the host or address */
    char url[PEERS_URL_BYTES];   /* no slash at its end */
    char address[64];            /* where to connect in place of the URL's host; "" */
    char link[PEERS_URL_BYTES];  /* "" when nobody said one */
    char fault[256];             /* why it could not even be looked up; "" */
    bool has_name;               /* somebody gave it one */
};

struct peers;

/* Does it make sense as one of `where`? -EINVAL with what was expected. */
int peers_check(const char *where, struct mst_error *err);
/* -EINVAL and -EBADMSG for what makes no sense, with file and line. `options` is borrowed until the end. */
int peers_new(const struct peers_options *options, struct peers **ret_peers, struct mst_error *err);
void peers_free(struct peers *peers); /* NULL is fine */
void peers_freep(struct peers **peers);

/* Look the names up. A name that is not known is a node with a fault. -E2BIG beyond PEERS_MAX. */
int peers_find(struct peers *peers, struct mst_error *err);
/* Borrowed until the next peers_find(). */
const struct peers_node *peers_nodes(const struct peers *peers, size_t *ret_count);

/* `pattern` with the node's name in place of {node}; "" when there is no such place in it. */
void peers_link(const struct peers_node *node, const char *pattern, char link[static PEERS_URL_BYTES]);

struct peers_answer {
    int code;            /* 0, or a negative errno: then `fault` says why */
    char fault[256];     /* "status 401: wants a user", "no answer in 5000 ms" */
    struct mst_buf body; /* decoded */
    uint64_t at_ns;      /* mst_now_ns() when the answer began to come */
};

/* Ask all nodes for URL + `path`, at the same time. `answers` has one entry for each node, in their order,
 * and is released by peers_release(). Ends early with -ECANCELED when `cancel_fd` (-1: none) is readable. */
int peers_ask(struct peers *peers, const char *path, uint32_t timeout_ms, size_t max_bytes, int cancel_fd,
              struct peers_answer **ret_answers, struct mst_error *err);
void peers_release(struct peers_answer *answers, size_t count);

/* ---- Prometheus' text format ---- */

struct peers_sample {
    const char *name, *labels; /* borrowed, not ended by NUL; `labels` is what stands between the braces */
    size_t name_bytes, label_bytes;
    double value;
};

/* A negative errno ends the reading with it. */
typedef int peers_sample_fn(void *context, const struct peers_sample *sample, struct mst_error *err);

/* Every sample of a page. -EBADMSG with the line that is none. `text` ends with NUL. */
int peers_read(const char *text, peers_sample_fn *take, void *context, struct mst_error *err);
bool peers_is_named(const struct peers_sample *sample, const char *name);
/* A label's value, unescaped and cut to `capacity`; false (and "") when there is none. */
bool peers_label(const struct peers_sample *sample, const char *key, char *value, size_t capacity);
/* The 64 hex digits of a container in its control group's path ("/docker/ID", "docker-ID.scope"). */
bool peers_container_id(const char *path, char id[static 65]);
/* May a gauge be called so (docs/autoscale.md): 1 to 63 letters, digits, '_', '.' and '-'? */
bool peers_is_gauge_name(const char *name);

#endif
