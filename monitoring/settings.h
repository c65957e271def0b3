/* SPDX-License-Identifier: Apache-2.0 */
/* What the command line and the environment say, and the options of each verb. */
#ifndef MONITORING_SETTINGS_H
#define MONITORING_SETTINGS_H

#include "muster/log.h"
#include "muster/opts.h"
#include "serve.h"
#include "stats.h"

#include <limits.h>

#define SETTINGS_LIST_MAX 64

/* Repeated or comma-separated values. */
struct settings_list {
    const char *items[SETTINGS_LIST_MAX + 1]; /* the last is NULL */
    size_t count;
};

struct settings {
    struct monitor_options monitor;
    struct serve_options serve;
    struct stats_options stats;
    const char *node, *slot;
    const char *rootfs;
    const char *engine;    /* --docker; "" for none */
    const char *port, *ip; /* cAdvisor's way to say where to listen */
    struct settings_list addresses, labels, envs, events, nodes;
    struct peers_options peers; /* --nodes and what belongs to it */
    bool all_nodes;
    unsigned disabled, enabled; /* enum metrics_kind */
    double speed;               /* replay */
    const char *csv_path, *from, *to;
    bool is_served;
    enum mst_log_level level;
    enum mst_log_format format;
    char host_name[MONITOR_NAME_BYTES];
    char paths[2][PATH_MAX];
    char listen[128];    /* --port and --listen_ip together */
    char words[4][4096]; /* lists that were split */
    size_t word_count;
};

struct settings_table {
    const struct mst_option *options;
    size_t count;
};

extern const struct settings_table settings_basic, settings_serve, settings_record, settings_replay,
    settings_stats;

void settings_init(struct settings *settings);

/* cAdvisor's and Go's ways to write options: one dash for a long one, flags with "=true" or without. Changes
 * `argv` in place; the new texts live as long as the process. */
int settings_go_style(const struct settings_table *table, int argc, char **argv, struct mst_error *err);

/* Once all are read: defaults that depend on others, and what excludes each other. `version` is the
 * program's. */
int settings_complete(struct settings *settings, const char *version, struct mst_error *err);

#endif
