/* SPDX-License-Identifier: Apache-2.0 */
/* `stats`: a table with the columns of `docker stats`, live on a terminal. */
#ifndef MONITORING_STATS_H
#define MONITORING_STATS_H

#include "muster/buf.h"
#include "muster/monitor.h"

enum stats_column {
    STATS_NAME,
    STATS_CPU,
    STATS_MEMORY,
    STATS_NET,
    STATS_BLOCK,
    STATS_PIDS,
};

struct stats_options {
    const char *format; /* NULL: the table; "json", "table TEMPLATE", or a template of Docker's */
    enum stats_column sort;
    bool is_sorted;     /* else in the order in which they came */
    bool by_service;    /* sums over the tasks of a service on this node */
    bool is_once;       /* --no-stream */
    bool with_full_ids; /* --no-trunc */
    bool is_docker_cpu; /* --docker-compat: over the time that the machine's CPUs counted, as Docker does */
    double cpu_scale;   /* for that: what to multiply with; 0: 1 */
    bool with_nodes;    /* --all-nodes: rows say of which node they are */
};

/* One row, of numbers that may be missing. */
struct stats_row {
    char id[MONITOR_ID_BYTES];
    char name[MONITOR_NAME_BYTES];
    bool has_cpu, has_memory, has_limit, has_net, has_block, has_pids;
    double cpu_percent;
    uint64_t memory_bytes, limit_bytes, rx_bytes, tx_bytes, read_bytes, write_bytes, pids;
    unsigned containers; /* of a service */
    char service[MONITOR_NAME_BYTES]; /* "" when it belongs to none */
    char node[MONITOR_NAME_BYTES];    /* with_nodes */
    char fault[256];                  /* a node that could not be asked, and why; "" */
    unsigned nodes;                   /* of a service with tasks on several; 0 and 1: on `node` */
};

/* The rows of a pass, sorted; the caller's to free. */
int stats_rows(const struct monitor_pass *pass, const struct stats_options *options,
               struct stats_row **ret_rows, size_t *ret_count, struct mst_error *err);

/* Sums up by service where that is asked for, and sorts: stats_rows() does so by itself. */
void stats_arrange(struct stats_row *rows, size_t *count, const struct stats_options *options);
/* -EINVAL for a template that makes no sense, before anything is read. */
int stats_check(const struct stats_options *options, struct mst_error *err);

/* The whole output for some rows. -EINVAL for a template that cannot be read. */
int stats_print(const struct stats_row *rows, size_t count, const struct stats_options *options,
                struct mst_buf *text, struct mst_error *err);

/* "1.5MiB" (base 1024, four digits) and "1.5MB" (base 1000, three): Docker's. */
void stats_binary(double bytes, char text[static 32]);
void stats_decimal(double bytes, char text[static 32]);

/* On a terminal each table is drawn over the one before. `fd` is where to. */
int stats_show(int fd, int stop_fd, const struct mst_buf *text, bool is_first, struct mst_error *err);

/* Until stop_fd is readable, or once. */
int stats_run(const struct monitor_options *monitor, const struct stats_options *options,
              struct mst_error *err);

#endif
