/* SPDX-License-Identifier: Apache-2.0 */
/* What the monitors of other nodes say, read out of their /metrics: for the table of all nodes and for the
 * page. */
#ifndef MONITORING_NODES_H
#define MONITORING_NODES_H

#include "muster/monitor.h"
#include "muster/peers.h"
#include "stats.h"

#define NODES_CONTAINERS_MAX   8192 /* of one node */
#define NODES_ANSWER_MAX_BYTES ((size_t)32 << 20)
#define NODES_ANSWER_MS        4000
#define NODES_NAME_PATH        "/api/v1/node" /* {"node": its name, "version": ...} */

/* One container, or the machine; numbers that were not there are 0 without their flag. */
struct nodes_container {
    char id[MONITOR_ID_BYTES]; /* "" for the machine */
    char name[MONITOR_NAME_BYTES], service[MONITOR_NAME_BYTES], stack[MONITOR_NAME_BYTES];
    bool has_cpu, has_memory, has_limit, has_net, has_block, has_threads;
    double cpu_s, memory, limit, rx, tx, read, write, threads;
};

struct nodes_page {
    struct nodes_container *items; /* owned, in the order of ids; the machine is first */
    size_t count;
    double cpus, memory; /* of the machine; 0: not known */
};

/* -EBADMSG: it makes no sense. -E2BIG: too many containers. */
int nodes_page_read(const char *text, struct nodes_page *ret_page, struct mst_error *err);
void nodes_page_release(struct nodes_page *page); /* usable with mst_cleanup() */
const struct nodes_container *nodes_page_find(const struct nodes_page *page, const char *id);

/* Names of nodes that were found by address alone: they are asked, once each. */
struct nodes_names {
    struct {
        char url[PEERS_URL_BYTES], address[64], name[PEERS_NAME_BYTES];
    } * items; /* owned */
    size_t count;
};

/* Asks for names when one of those that have just answered (`answered`, as of peers_ask()) has none. Whoever
 * does not say it keeps its address for a name. */
int nodes_names_ask(struct nodes_names *names, struct peers *peers, const struct peers_answer *answered,
                    int cancel_fd, struct mst_error *err);
void nodes_names_release(struct nodes_names *names);
const char *nodes_name(const struct nodes_names *names, const struct peers_node *node);

/* `stats --all-nodes`: until stop_fd is readable, or once. */
int nodes_stats_run(const struct monitor_options *monitor, const struct stats_options *options,
                    struct peers *peers, struct mst_error *err);
/* The rows of one page, at most page->count; how many there are is returned. `before` is the page of the same
 * node `between_ns` earlier, NULL: none. `stack` NULL: all. */
size_t nodes_rows(const struct nodes_page *page, const struct nodes_page *before, uint64_t between_ns,
                  const char *node, const char *stack, struct stats_row *rows);

/* ---- for the page ---- */

struct nodes_watch;

/* A thread of its own that asks the nodes while somebody looks: the sampling never waits for them. */
int nodes_watch_new(const struct peers_options *options, struct nodes_watch **ret_watch,
                    struct mst_error *err);
void nodes_watch_free(struct nodes_watch *watch); /* NULL is fine */
/* {"nodes": [...]} of what is known now; asking is what looking is. `watch` NULL: no nodes. */
int nodes_watch_json(struct nodes_watch *watch, struct mst_buf *text);

#endif
