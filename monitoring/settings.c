/* SPDX-License-Identifier: Apache-2.0 */
#include "settings.h"

#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/parse.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INTERVAL_MIN_NS (100 * MST_NS_PER_MS)
#define INTERVAL_MAX_NS (3600 * MST_NS_PER_S)
#define HISTORY_MAX_NS  (2 * 3600 * MST_NS_PER_S)
#define CHARTS_PATH     "/usr/share/javascript/chart.js/chart.min.js"

#define SET(name) static int set_##name(void *context, const char *text, struct mst_error *err)
#define SETTINGS  struct settings *settings = context

/* Texts that others check. */
#define TEXT(name, member)                                                                                   \
    SET(name)                                                                                                \
    {                                                                                                        \
        SETTINGS;                                                                                            \
        (void)err;                                                                                           \
        settings->member = text;                                                                             \
        return 0;                                                                                            \
    }

TEXT(host, monitor.host)
TEXT(engine, engine)
TEXT(rootfs, rootfs)
TEXT(procfs, monitor.paths.procfs)
TEXT(sysfs, monitor.paths.sysfs)
TEXT(slot, slot)
TEXT(port, port)
TEXT(ip, ip)
TEXT(config_file, serve.web.config_file)
TEXT(charts, serve.web.charts_path)
TEXT(record, serve.record.path)
TEXT(csv, csv_path)
TEXT(from, from)
TEXT(to, to)
TEXT(format, stats.format)
TEXT(nodes_file, peers.file)
TEXT(nodes_credentials, peers.credentials)
TEXT(nodes_ca, peers.ca)
TEXT(nodes_cert, peers.certificate)
TEXT(nodes_key, peers.key)

#define FLAG(name, member)                                                                                   \
    SET(name)                                                                                                \
    {                                                                                                        \
        SETTINGS;                                                                                            \
        return mst_parse_bool(text, &settings->member, err);                                                 \
    }

FLAG(systemd, serve.web.from_systemd)
FLAG(no_machine, serve.web.metrics.without_machine)
FLAG(all_labels, monitor.labels.all)
FLAG(by_service, stats.by_service)
FLAG(no_stream, stats.is_once)
FLAG(no_trunc, stats.with_full_ids)
FLAG(docker_compat, stats.is_docker_cpu)
FLAG(is_served, is_served)
FLAG(all_nodes, all_nodes)

SET(stack)
{
    SETTINGS;
    if (strlen(text) >= MONITOR_NAME_BYTES)
        return mst_error_set(err, -EINVAL, "'%.20s...' is longer than %d bytes", text,
                             MONITOR_NAME_BYTES - 1);
    settings->monitor.stack = *text ? text : NULL;
    return 0;
}

SET(interval)
{
    SETTINGS;
    uint64_t ns;
    const int r = mst_parse_duration_ns(text, &ns, err);
    if (r < 0)
        return r;
    if (ns < INTERVAL_MIN_NS || ns > INTERVAL_MAX_NS)
        return mst_error_set(err, -EINVAL, "'%s' is not from 100ms to 1h", text);
    settings->monitor.interval_ns = ns;
    return 0;
}

SET(node)
{
    SETTINGS;
    if (*text == '\0' || strlen(text) >= MONITOR_NAME_BYTES)
        return mst_error_set(err, -EINVAL, "'%.20s' is not a name of 1 to %d bytes", text,
                             MONITOR_NAME_BYTES - 1);
    settings->node = text;
    return 0;
}

SET(verbose)
{
    SETTINGS;
    (void)err;
    settings->level = strcmp(text, "true") == 0 ? MST_LOG_DEBUG : MST_LOG_INFO;
    return 0;
}

SET(log_format)
{
    SETTINGS;
    const bool is_json = strcmp(text, "json") == 0;
    if (!is_json && strcmp(text, "text") != 0 && strcmp(text, "logfmt") != 0)
        return mst_error_set(err, -EINVAL, "'%s' is neither text nor json", text);
    settings->format = is_json ? MST_LOG_JSON : MST_LOG_TEXT;
    return 0;
}

SET(log_level)
{
    SETTINGS;
    static const char *const names[] = {"error", "warn", "info", "debug"};
    for (size_t i = 0; i < MST_ARRAY_COUNT(names); i++) {
        if (strcmp(names[i], text) == 0) {
            settings->level = (enum mst_log_level)i;
            return 0;
        }
    }
    return mst_error_set(err, -EINVAL, "'%s' is none of error, warn, info and debug", text);
}

SET(source)
{
    SETTINGS;
    static const char *const names[] = {"engine", "cgroups", "api"};
    for (size_t i = 0; i < MST_ARRAY_COUNT(names); i++) {
        if (strcmp(names[i], text) == 0) {
            settings->monitor.source = (enum monitor_source)i;
            return 0;
        }
    }
    return mst_error_set(err, -EINVAL, "'%s' is none of engine, cgroups and api", text);
}

static int list_add(struct settings_list *list, const char *item, struct mst_error *err)
{
    if (list->count == SETTINGS_LIST_MAX)
        return mst_error_set(err, -EINVAL, "more than %d of them", SETTINGS_LIST_MAX);
    list->items[list->count++] = item;
    return 0;
}

/* "a, b,c" to items; blanks around them are dropped. */
static int list_split(struct settings *settings, struct settings_list *list, const char *text,
                      struct mst_error *err)
{
    if (settings->word_count == MST_ARRAY_COUNT(settings->words) || strlen(text) >= sizeof settings->words[0])
        return mst_error_set(err, -EINVAL, "the list is longer than %zu bytes",
                             sizeof settings->words[0] - 1);
    char *rest = settings->words[settings->word_count++];
    (void)snprintf(rest, sizeof settings->words[0], "%s", text);
    for (char *item; (item = strsep(&rest, ",;"));) {
        item += strspn(item, " \t");
        for (size_t end = strlen(item); end > 0 && isspace((unsigned char)item[end - 1]);)
            item[--end] = '\0';
        const int r = *item ? list_add(list, item, err) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

SET(address)
{
    SETTINGS;
    const int r = http_check_address(text, err);
    return r < 0 ? r : list_add(&settings->addresses, text, err);
}

SET(nodes)
{
    SETTINGS;
    const int r = peers_check(text, err);
    return r < 0 ? r : list_add(&settings->nodes, text, err);
}

SET(nodes_link)
{
    SETTINGS;
    if ((strncmp(text, "http://", 7) != 0 && strncmp(text, "https://", 8) != 0) || !strstr(text, "{node}"))
        return mst_error_set(err, -EINVAL, "'%.40s' is no URL as http://{node}:8080/", text);
    settings->peers.link = text;
    return 0;
}

SET(events)
{
    SETTINGS;
    return list_add(&settings->events, text, err);
}

SET(labels)
{
    SETTINGS;
    return list_split(settings, &settings->labels, text, err);
}

SET(envs)
{
    SETTINGS;
    return list_split(settings, &settings->envs, text, err);
}

/* cAdvisor's groups; those that muster never reads may be named, and are off. */
static int kinds_of(struct settings *settings, const char *text, unsigned *ret_kinds, struct mst_error *err)
{
    static const struct {
        const char *name;
        unsigned kinds;
    } names[] = {{"cpu", METRICS_CPU},
                 {"memory", METRICS_MEMORY},
                 {"disk", METRICS_DISK},
                 {"diskIO", METRICS_DISK},
                 {"network", METRICS_NETWORK},
                 {"process", METRICS_PROCESS},
                 {"oom_event", METRICS_OOM},
                 {"pressure", METRICS_PRESSURE},
                 {"training", METRICS_TRAINING},
                 {"percpu", 0},
                 {"app", 0},
                 {"advtcp", 0},
                 {"cpu_topology", 0},
                 {"cpuLoad", METRICS_LOAD},
                 {"cpuset", 0},
                 {"hugetlb", 0},
                 {"memory_numa", 0},
                 {"perf_event", 0},
                 {"referenced_memory", 0},
                 {"resctrl", 0},
                 {"sched", 0},
                 {"tcp", 0},
                 {"udp", 0}};
    struct settings_list words = {.count = 0};
    int r = list_split(settings, &words, text, err);
    unsigned kinds = 0;
    for (size_t i = 0; r == 0 && i < words.count; i++) {
        size_t n = 0;
        while (n < MST_ARRAY_COUNT(names) && strcmp(names[n].name, words.items[i]) != 0)
            n++;
        if (n == MST_ARRAY_COUNT(names))
            return mst_error_set(err, -EINVAL, "'%.40s' is no group of metrics", words.items[i]);
        kinds |= names[n].kinds;
    }
    *ret_kinds |= kinds;
    return r;
}

SET(disable)
{
    SETTINGS;
    return kinds_of(settings, text, &settings->disabled, err);
}

SET(enable)
{
    SETTINGS;
    return kinds_of(settings, text, &settings->enabled, err);
}

SET(no_own)
{
    SETTINGS;
    bool is_off;
    const int r = mst_parse_bool(text, &is_off, err);
    if (r == 0 && is_off)
        settings->disabled |= METRICS_OWN;
    return r;
}

SET(metrics_path)
{
    SETTINGS;
    if (*text != '/' || strlen(text) >= HTTP_PATH_MAX_BYTES || strpbrk(text, "?#% ") ||
        strcmp(text, "/") == 0)
        return mst_error_set(err, -EINVAL, "'%.40s' is no path as /metrics", text);
    settings->serve.web.metrics_path = text;
    return 0;
}

SET(prefix)
{
    SETTINGS;
    const size_t bytes = strlen(text);
    if (bytes > 0 && (*text != '/' || text[bytes - 1] == '/' || bytes >= 256 || strpbrk(text, "?#% ")))
        return mst_error_set(err, -EINVAL, "'%.40s' is no path as /monitor", text);
    settings->serve.web.prefix = text;
    return 0;
}

SET(max_requests)
{
    SETTINGS;
    return mst_parse_u32(text, 0, 100000, &settings->serve.web.max_requests, err);
}

SET(timestamps)
{
    SETTINGS;
    const bool is_cadvisor = strcmp(text, "cadvisor") == 0;
    if (!is_cadvisor && strcmp(text, "none") != 0)
        return mst_error_set(err, -EINVAL, "'%s' is neither none nor cadvisor", text);
    settings->serve.web.metrics.has_timestamps = is_cadvisor;
    return 0;
}

SET(history)
{
    SETTINGS;
    uint64_t ns;
    const int r = mst_parse_duration_ns(text, &ns, err);
    if (r == 0 && (ns < MST_NS_PER_S || ns > HISTORY_MAX_NS))
        return mst_error_set(err, -EINVAL, "'%s' is not from 1s to 2h", text);
    settings->serve.history_ns = r == 0 ? ns : settings->serve.history_ns;
    return r;
}

/* "64MiB", "1GB", "500000". */
SET(rotate_size)
{
    SETTINGS;
    static const struct {
        const char *unit;
        uint64_t bytes;
    } units[] = {{"", 1},           {"B", 1},     {"KiB", 1U << 10}, {"MiB", 1U << 20},
                 {"GiB", 1U << 30}, {"kB", 1000}, {"MB", 1000000},   {"GB", 1000000000}};
    char digits[32];
    const size_t count = strspn(text, "0123456789");
    uint64_t value;
    (void)snprintf(digits, sizeof digits, "%.*s", (int)(count < 20 ? count : 20), text);
    for (size_t i = 0; i < MST_ARRAY_COUNT(units); i++) {
        if (strcmp(units[i].unit, text + count) == 0 &&
            mst_parse_u64(digits, 0, UINT64_MAX / units[i].bytes, &value, NULL) == 0) {
            settings->serve.record.max_bytes = value * units[i].bytes;
            return 0;
        }
    }
    return mst_error_set(err, -EINVAL, "'%s' is no size as 64MiB", text);
}

SET(rotate_age)
{
    SETTINGS;
    return mst_parse_duration_ns(text, &settings->serve.record.max_age_ns, err);
}

SET(rotate_keep)
{
    SETTINGS;
    return mst_parse_u32(text, 0, 100000, &settings->serve.record.keep, err);
}

SET(speed)
{
    SETTINGS;
    return mst_parse_double(text, 0, 1e6, &settings->speed, err);
}

SET(sort)
{
    SETTINGS;
    static const char *const names[] = {"name", "cpu", "memory", "net", "block", "pids"};
    for (size_t i = 0; i < MST_ARRAY_COUNT(names); i++) {
        if (strcmp(names[i], text) == 0) {
            settings->stats.sort = (enum stats_column)i;
            settings->stats.is_sorted = true;
            return 0;
        }
    }
    return mst_error_set(err, -EINVAL, "'%s' is none of name, cpu, memory, net, block and pids", text);
}

/* Said once for all of them: nobody should look for the effect of a flag that has none. */
SET(ignored)
{
    (void)context;
    (void)text;
    (void)err;
    static bool was_said;
    if (!was_said)
        mst_log_info("monitor",
                     "flags of cAdvisor's housekeeping and storage are accepted and have no effect here");
    was_said = true;
    return 0;
}

/* A flag that would protect must not be passed over. */
SET(refused)
{
    (void)context;
    (void)text;
    return mst_error_set(err, -EINVAL, "is not supported; users belong into --web.config.file");
}

/* clang-format off */
#define OPTIONS_SOURCE \
    {.name = "host", .letter = 'H', .argument = "HOST", .env = "DOCKER_HOST", .set = set_host, \
     .help = "the Engine: unix:///path or tcp://host:port\n(default: Docker's own socket)"}, \
    {.name = "source", .argument = "SOURCE", .env = "MUSTER_SOURCE", .fallback = "engine", .set = set_source, \
     .help = "engine: containers from the Engine, numbers from the\nkernel; cgroups: without an Engine, from the control\ngroups alone; api: numbers from the Engine's stats too"}, \
    {.name = "stack", .argument = "NAME", .env = "MUSTER_STACK", .set = set_stack, \
     .help = "only the containers of this stack (default: all)"}, \
    {.name = "interval", .argument = "TIME", .env = "MUSTER_INTERVAL", .fallback = "1s", .set = set_interval, \
     .help = "time between two samples, 100ms to 1h"}, \
    {.name = "path.rootfs", .argument = "DIR", .env = "MUSTER_PATH_ROOTFS", .fallback = "/", .set = set_rootfs, \
     .help = "in a container: where parts of the host's root are\nmounted; DIR/proc and DIR/sys/fs/cgroup are read"}, \
    {.name = "path.procfs", .argument = "DIR", .env = "MUSTER_PATH_PROCFS", .set = set_procfs, \
     .help = "the host's /proc, if it is elsewhere"}, \
    {.name = "path.sysfs", .argument = "DIR", .env = "MUSTER_PATH_SYSFS", .set = set_sysfs, \
     .help = "the host's /sys, if it is elsewhere"}
#define OPTIONS_NODE \
    {.name = "node", .argument = "NAME", .env = "MUSTER_NODE", .set = set_node, \
     .help = "this node's name in the output\n(default: the host's)"}
#define OPTIONS_LOG \
    {.name = "verbose", .letter = 'v', .kind = MST_OPT_FLAG, .env = "MUSTER_VERBOSE", .set = set_verbose, \
     .help = "say more on stderr"}, \
    {.name = "log-format", .argument = "FORMAT", .env = "MUSTER_LOG_FORMAT", .fallback = "text", \
     .set = set_log_format, .help = "text or json, on stderr"}
#define OPTIONS_EVENTS \
    {.name = "events", .kind = MST_OPT_REPEAT, .argument = "FILE", .set = set_events, \
     .help = "follow a worker without a container: the file that\nits stdout goes to; may be repeated"}
#define OPTIONS_ROTATE \
    {.name = "rotate-size", .argument = "SIZE", .env = "MUSTER_ROTATE_SIZE", .fallback = "64MiB", .set = set_rotate_size, \
     .help = "begin a new file at this size; 0: never"}, \
    {.name = "rotate-age", .argument = "TIME", .env = "MUSTER_ROTATE_AGE", .fallback = "24h", .set = set_rotate_age, \
     .help = "begin a new file after this time; 0: never"}, \
    {.name = "rotate-keep", .argument = "N", .env = "MUSTER_ROTATE_KEEP", .fallback = "7", .set = set_rotate_keep, \
     .help = "how many older files stay; 0: all"}
#define OPTIONS_WEB \
    {.name = "web.listen-address", .kind = MST_OPT_REPEAT, .argument = "ADDRESS", .env = "MUSTER_LISTEN", .set = set_address, \
     .help = "HOST:PORT, or :PORT for all of this machine; may be\nrepeated (default: 127.0.0.1:8080)"}, \
    {.name = "web.systemd-socket", .kind = MST_OPT_FLAG, .set = set_systemd, \
     .help = "listen on the sockets that systemd hands over"}, \
    {.name = "web.config.file", .argument = "FILE", .env = "MUSTER_WEB_CONFIG", .set = set_config_file, \
     .help = "TLS, users, headers and a rate limit, in the YAML of\nPrometheus' exporters"}, \
    {.name = "web.telemetry-path", .argument = "PATH", .fallback = "/metrics", .set = set_metrics_path, \
     .help = "where the metrics are"}, \
    {.name = "web.max-requests", .argument = "N", .fallback = "40", .set = set_max_requests, \
     .help = "requests at a time, more get 503; 0: no limit"}, \
    {.name = "web.disable-exporter-metrics", .kind = MST_OPT_FLAG, .set = set_no_own, \
     .help = "leave process_* and muster_scrape_* out"}, \
    {.name = "web.charts", .argument = "FILE", .env = "MUSTER_WEB_CHARTS", .fallback = CHARTS_PATH, .set = set_charts, \
     .help = "Chart.js, for the page"}, \
    {.name = "url_base_prefix", .argument = "PATH", .set = set_prefix, \
     .help = "before all paths, for a proxy that passes it on"}, \
    {.name = "timestamps", .argument = "WHICH", .fallback = "none", .set = set_timestamps, \
     .help = "cadvisor: on every sample of a container; none: on\ncontainer_last_seen only"}, \
    {.name = "disable_metrics", .argument = "LIST", .set = set_disable, \
     .help = "groups to leave out, by cAdvisor's names: cpu, memory,\ndisk, diskIO, network, process, oom_event, pressure,\ncpuLoad; and training"}, \
    {.name = "enable_metrics", .argument = "LIST", .set = set_enable, \
     .help = "only these groups"}, \
    {.name = "disable_root_cgroup_stats", .argument = "BOOL", .set = set_no_machine, \
     .help = "leave id=\"/\" out"}

#define OPTIONS_NODES \
    {.name = "nodes", .kind = MST_OPT_REPEAT, .argument = "WHERE", .env = "MUSTER_MONITORS", .set = set_nodes, \
     .help = "a node's monitor: http://HOST:PORT, https://HOST:PORT, or\ntasks.SERVICE:PORT for every task of a service; may be\nrepeated"}, \
    {.name = "nodes-file", .argument = "FILE", .env = "MUSTER_MONITORS_FILE", .set = set_nodes_file, \
     .help = "the monitors, in lines 'NODE WHERE [LINK]'"}, \
    {.name = "nodes-credentials", .argument = "FILE", .env = "MUSTER_MONITORS_CREDENTIALS", .set = set_nodes_credentials, \
     .help = "for those that want a user: one line USER:PASSWORD"}, \
    {.name = "nodes-ca", .argument = "FILE", .env = "MUSTER_MONITORS_CA", .set = set_nodes_ca, \
     .help = "who signs their certificates, PEM (default: the\nmachine's authorities)"}, \
    {.name = "nodes-cert", .argument = "FILE", .env = "MUSTER_MONITORS_CERT", .set = set_nodes_cert, \
     .help = "our own certificate, for those that want one"}, \
    {.name = "nodes-key", .argument = "FILE", .env = "MUSTER_MONITORS_KEY", .set = set_nodes_key, .help = "its key"}

static const struct mst_option basic_table[] = {
    OPTIONS_SOURCE, OPTIONS_NODE,
    {.name = "slot", .argument = "NAME", .env = "MUSTER_SLOT", .set = set_slot,
     .help = "who speaks, in events (default: the host's name)"},
    OPTIONS_LOG,
};

static const struct mst_option serve_table[] = {
    OPTIONS_SOURCE, OPTIONS_NODE, OPTIONS_WEB,
    {.name = "page.history", .argument = "TIME", .env = "MUSTER_PAGE_HISTORY", .fallback = "10m", .set = set_history,
     .help = "how far the page goes back, 1s to 2h"},
    {.name = "record", .argument = "FILE", .env = "MUSTER_RECORD", .set = set_record,
     .help = "record what is read, for 'replay'"},
    OPTIONS_ROTATE, OPTIONS_EVENTS, OPTIONS_NODES,
    {.name = "nodes-link", .argument = "URL", .env = "MUSTER_MONITORS_LINK", .set = set_nodes_link,
     .help = "where a browser finds a node's page:\nhttp://{node}:8080/"},
    {.name = "docker", .argument = "HOST", .set = set_engine,
     .help = "as --host; empty: as --source cgroups"},
    {.name = "port", .argument = "PORT", .set = set_port,
     .help = "as --web.listen-address, with --listen_ip"},
    {.name = "listen_ip", .argument = "IP", .set = set_ip,
     .help = "the address for --port (default: 127.0.0.1)"},
    {.name = "prometheus_endpoint", .argument = "PATH", .set = set_metrics_path,
     .help = "as --web.telemetry-path"},
    {.name = "housekeeping_interval", .argument = "TIME", .set = set_interval,
     .help = "as --interval"},
    {.name = "store_container_labels", .argument = "BOOL", .set = set_all_labels,
     .help = "true: each label of a container becomes one of its\nmetrics (default: Swarm's and Compose's own)"},
    {.name = "whitelisted_container_labels", .argument = "LIST", .set = set_labels,
     .help = "these labels instead"},
    {.name = "env_metadata_whitelist", .argument = "LIST", .set = set_envs,
     .help = "variables whose names begin so become labels too"},
    {.name = "http_auth_file", .argument = "FILE", .set = set_refused,
     .help = "refused: users belong into --web.config.file"},
    {.name = "docker_only", .argument = "BOOL", .set = set_ignored, .help = "no effect: it is always so"},
    {.name = "logtostderr", .argument = "BOOL", .set = set_ignored, .help = "no effect: it is always so"},
    {.name = "max_housekeeping_interval", .argument = "TIME", .set = set_ignored, .help = "no effect"},
    {.name = "allow_dynamic_housekeeping", .argument = "BOOL", .set = set_ignored, .help = "no effect"},
    {.name = "storage_duration", .argument = "TIME", .set = set_ignored, .help = "no effect; see --page.history"},
    {.name = "raw_cgroup_prefix_whitelist", .argument = "LIST", .set = set_ignored, .help = "no effect"},
    {.name = "machine_id_file", .argument = "LIST", .set = set_ignored, .help = "no effect"},
    {.name = "log.level", .argument = "LEVEL", .set = set_log_level, .help = "error, warn, info or debug"},
    {.name = "log.format", .argument = "FORMAT", .set = set_log_format, .help = "as --log-format; logfmt is text"},
    OPTIONS_LOG,
};

static const struct mst_option record_table[] = {
    OPTIONS_SOURCE, OPTIONS_NODE, OPTIONS_ROTATE, OPTIONS_EVENTS, OPTIONS_LOG,
};

static const struct mst_option replay_table[] = {
    {.name = "serve", .kind = MST_OPT_FLAG, .set = set_is_served,
     .help = "serve the page and the metrics instead of printing"},
    {.name = "csv", .argument = "FILE", .set = set_csv,
     .help = "write the rows of 'csv' to FILE, - for stdout"},
    {.name = "from", .argument = "TIME", .set = set_from,
     .help = "begin here: 2026-01-31T23:59:59Z, Unix seconds, or a\nduration after the first sample"},
    {.name = "to", .argument = "TIME", .set = set_to,
     .help = "end here"},
    {.name = "speed", .argument = "N", .fallback = "1", .set = set_speed,
     .help = "times as fast as it was; 0: at once"},
    {.name = "service", .kind = MST_OPT_FLAG, .set = set_by_service, .help = "one row a service"},
    {.name = "sort", .argument = "COLUMN", .set = set_sort, .help = "by name, cpu, memory, net, block or pids"},
    {.name = "format", .argument = "FORMAT", .set = set_format, .help = "as for 'docker stats'"},
    {.name = "no-trunc", .kind = MST_OPT_FLAG, .set = set_no_trunc, .help = "ids in full"},
    OPTIONS_WEB, OPTIONS_NODE, OPTIONS_LOG,
};

static const struct mst_option stats_table[] = {
    {.name = "service", .kind = MST_OPT_FLAG, .set = set_by_service,
     .help = "one row a service: sums over its tasks on this node"},
    {.name = "sort", .argument = "COLUMN", .set = set_sort, .help = "by name, cpu, memory, net, block or pids"},
    {.name = "format", .argument = "FORMAT", .set = set_format,
     .help = "json, table, table TEMPLATE, or a template with\n{{.Name}} and its like, as for 'docker stats'"},
    {.name = "no-stream", .kind = MST_OPT_FLAG, .set = set_no_stream, .help = "print once, and end"},
    {.name = "no-trunc", .kind = MST_OPT_FLAG, .set = set_no_trunc, .help = "ids in full"},
    {.name = "docker-compat", .kind = MST_OPT_FLAG, .set = set_docker_compat,
     .help = "CPU % by Docker's own formula, which leaves stolen\ntime out"},
    {.name = "all-nodes", .kind = MST_OPT_FLAG, .set = set_all_nodes,
     .help = "what the monitors of all nodes say, with a column NODE"},
    OPTIONS_NODES, OPTIONS_SOURCE, OPTIONS_LOG,
};
/* clang-format on */

#define TABLE(name)                                                                                          \
    const struct settings_table settings_##name = {name##_table, MST_ARRAY_COUNT(name##_table)}
TABLE(basic);
TABLE(serve);
TABLE(record);
TABLE(replay);
TABLE(stats);

void settings_init(struct settings *settings)
{
    *settings = (struct settings){.level = MST_LOG_INFO, .rootfs = "/"};
    settings->node = settings->slot = settings->host_name;
    settings->monitor.interval_ns = MST_NS_PER_S;
    settings->speed = 1;
    (void)gethostname(settings->host_name, sizeof settings->host_name - 1); /* fails only for a longer one */
}

/* ---- other people's habits ---- */

static const struct mst_option *find(const struct settings_table *table, const char *name, size_t bytes)
{
    for (size_t i = 0; i < table->count; i++) {
        if (strlen(table->options[i].name) == bytes && strncmp(table->options[i].name, name, bytes) == 0)
            return &table->options[i];
    }
    return NULL;
}

int settings_go_style(const struct settings_table *table, int argc, char **argv, struct mst_error *err)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const char *name = argv[i];
        if (*name != '-')
            continue;
        name += name[1] == '-' ? 2 : 1;
        const size_t bytes = strcspn(name, "=");
        const struct mst_option *option = bytes > 1 ? find(table, name, bytes) : NULL;
        if (!option)
            continue;
        /* Go's flags of truth need no value. */
        const bool is_truth =
            option->argument && strcmp(option->argument, "BOOL") == 0 && name[bytes] == '\0';
        char *text = mst_format("--%s%s", name, is_truth ? "=true" : "");
        if (!text)
            return mst_error_set(err, -ENOMEM, "read the command line: no memory");
        argv[i] = text;
    }
    return 0;
}

/* ---- what depends on more than one option ---- */

/* The paths below rootfs, unless they were given. cAdvisor's own Compose files mount the host at /rootfs. */
static int complete_paths(struct settings *settings, struct mst_error *err)
{
    struct monitor_paths *paths = &settings->monitor.paths;
    const char *root = strcmp(settings->rootfs, "/") == 0 ? "" : settings->rootfs;
    if (!*root && settings->monitor.groups == MONITOR_GROUPS_ALL &&
        access("/rootfs/proc/1/cgroup", R_OK) == 0)
        root = "/rootfs";
    if (snprintf(settings->paths[0], PATH_MAX, "%s/proc", root) >= PATH_MAX ||
        snprintf(settings->paths[1], PATH_MAX, "%s/sys", root) >= PATH_MAX)
        return mst_error_set(err, -EINVAL, "option '--path.rootfs': '%.40s...' is too long", root);
    settings->monitor.rootfs = *root ? root : NULL;
    if (!paths->procfs)
        paths->procfs = settings->paths[0];
    if (!paths->sysfs)
        paths->sysfs = settings->paths[1];
    return 0;
}

static int complete_addresses(struct settings *settings, struct mst_error *err)
{
    if (settings->port || settings->ip) {
        const char *ip = settings->ip ? settings->ip : "127.0.0.1";
        const bool is_six = strchr(ip, ':');
        (void)snprintf(settings->listen, sizeof settings->listen, is_six ? "[%s]:%s" : "%s:%s", ip,
                       settings->port ? settings->port : "8080");
        int r = http_check_address(settings->listen, err);
        if (r == 0)
            r = list_add(&settings->addresses, settings->listen, err);
        if (r < 0)
            return mst_error_wrap(err, r, "options '--port' and '--listen_ip'");
    }
    if (settings->addresses.count == 0)
        settings->addresses.items[settings->addresses.count++] = "127.0.0.1:8080";
    settings->serve.web.addresses = settings->addresses.items;
    return 0;
}

static int complete_nodes(struct settings *settings, struct mst_error *err)
{
    const bool is_told = settings->nodes.count > 0 || settings->peers.file;
    settings->peers.where = settings->nodes.items;
    if (settings->all_nodes && !is_told)
        return mst_error_set(err, -EINVAL, "option '--all-nodes': where are they? '--nodes' or '--nodes-file' says so");
    if (settings->all_nodes && settings->stats.is_docker_cpu)
        return mst_error_set(err, -EINVAL, "options '--all-nodes' and '--docker-compat' exclude each other");
    settings->serve.web.nodes = is_told ? &settings->peers : NULL;
    return 0;
}

int settings_complete(struct settings *settings, const char *version, struct mst_error *err)
{
    struct monitor_options *monitor = &settings->monitor;
    int r = complete_paths(settings, err);
    if (r == 0)
        r = complete_addresses(settings, err);
    if (r == 0)
        r = complete_nodes(settings, err);
    if (r < 0)
        return r;
    if (settings->engine && *settings->engine)
        monitor->host = settings->engine;
    else if (settings->engine)
        monitor->source = MONITOR_SOURCE_CGROUPS;
    if (monitor->stack && monitor->source == MONITOR_SOURCE_CGROUPS)
        return mst_error_set(err, -EINVAL, "option '--stack': control groups know of no stacks");
    if (settings->labels.count > 0)
        monitor->labels.labels = settings->labels.items;
    if (settings->envs.count > 0)
        monitor->labels.envs = settings->envs.items;
    if (settings->events.count > 0)
        monitor->events = settings->events.items;
    const unsigned always = METRICS_SPEC | METRICS_MACHINE | METRICS_OWN;
    unsigned kinds = settings->enabled ? settings->enabled | always | METRICS_TRAINING : METRICS_ALL;
    settings->serve.web.metrics.kinds = kinds & ~settings->disabled;
    settings->serve.web.metrics.version = settings->serve.web.version = version;
    settings->serve.web.node = settings->node;
    settings->serve.record.version = version;
    settings->serve.record.node = settings->node;
    settings->serve.monitor = *monitor;
    return 0;
}
