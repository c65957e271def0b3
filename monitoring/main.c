/* SPDX-License-Identifier: Apache-2.0 */
/* muster-monitor: command line, signals and exit codes; what it does is in the library. */
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/log.h"
#include "muster/monitor.h"
#include "muster/opts.h"
#include "muster/parse.h"
#include "muster/signals.h"

#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define INTERVAL_MIN_NS  (100 * MST_NS_PER_MS)
#define INTERVAL_MAX_NS  (3600 * MST_NS_PER_S)
#define UNPRIVILEGED_UID 65532 /* `muster` in the image; needs no entry in /etc/passwd elsewhere */

struct settings {
    struct monitor_options monitor;
    const char *node, *slot;
    const char *rootfs;
    enum mst_log_level level;
    enum mst_log_format format;
};

/* ---- options ---- */

static int set_host(void *settings, const char *text, struct mst_error *err)
{
    (void)err; /* read, and refused, by the engine client */
    ((struct settings *)settings)->monitor.host = text;
    return 0;
}

static int set_stack(void *settings, const char *text, struct mst_error *err)
{
    if (strlen(text) >= MONITOR_NAME_BYTES)
        return mst_error_set(err, -EINVAL, "'%.20s...' is longer than %d bytes", text,
                             MONITOR_NAME_BYTES - 1);
    ((struct settings *)settings)->monitor.stack = *text ? text : NULL;
    return 0;
}

static int set_interval(void *settings, const char *text, struct mst_error *err)
{
    uint64_t ns;
    const int r = mst_parse_duration_ns(text, &ns, err);
    if (r < 0)
        return r;
    if (ns < INTERVAL_MIN_NS || ns > INTERVAL_MAX_NS)
        return mst_error_set(err, -EINVAL, "'%s' is not from 100ms to 1h", text);
    ((struct settings *)settings)->monitor.interval_ns = ns;
    return 0;
}

static int set_rootfs(void *settings, const char *text, struct mst_error *err)
{
    (void)err;
    ((struct settings *)settings)->rootfs = text;
    return 0;
}

static int set_procfs(void *settings, const char *text, struct mst_error *err)
{
    (void)err;
    ((struct settings *)settings)->monitor.paths.procfs = text;
    return 0;
}

static int set_sysfs(void *settings, const char *text, struct mst_error *err)
{
    (void)err;
    ((struct settings *)settings)->monitor.paths.sysfs = text;
    return 0;
}

static int set_node(void *settings, const char *text, struct mst_error *err)
{
    if (*text == '\0' || strlen(text) >= MONITOR_NAME_BYTES)
        return mst_error_set(err, -EINVAL, "'%.20s' is not a name of 1 to %d bytes", text,
                             MONITOR_NAME_BYTES - 1);
    ((struct settings *)settings)->node = text;
    return 0;
}

static int set_slot(void *settings, const char *text, struct mst_error *err)
{
    (void)err; /* its length is the event sink's to check */
    ((struct settings *)settings)->slot = text;
    return 0;
}

static int set_verbose(void *settings, const char *text, struct mst_error *err)
{
    (void)err;
    ((struct settings *)settings)->level = strcmp(text, "true") == 0 ? MST_LOG_DEBUG : MST_LOG_INFO;
    return 0;
}

static int set_log_format(void *settings, const char *text, struct mst_error *err)
{
    const bool is_json = strcmp(text, "json") == 0;
    if (!is_json && strcmp(text, "text") != 0)
        return mst_error_set(err, -EINVAL, "'%s' is neither text nor json", text);
    ((struct settings *)settings)->format = is_json ? MST_LOG_JSON : MST_LOG_TEXT;
    return 0;
}

/* clang-format off */
static const struct mst_option option_table[] = {
    {.name = "host", .letter = 'H', .argument = "HOST", .env = "DOCKER_HOST", .set = set_host,
     .help = "the Engine: unix:///path or tcp://host:port\n(default: Docker's own socket)"},
    {.name = "stack", .argument = "NAME", .env = "MUSTER_STACK", .set = set_stack,
     .help = "only the containers of this stack (default: all)"},
    {.name = "interval", .argument = "TIME", .env = "MUSTER_INTERVAL", .fallback = "1s", .set = set_interval,
     .help = "time between two samples, 100ms to 1h"},
    {.name = "node", .argument = "NAME", .env = "MUSTER_NODE", .set = set_node,
     .help = "this node's name in the output\n(default: the host's)"},
    {.name = "slot", .argument = "NAME", .env = "MUSTER_SLOT", .set = set_slot,
     .help = "who speaks, in events (default: the host's name)"},
    {.name = "path.rootfs", .argument = "DIR", .env = "MUSTER_PATH_ROOTFS", .fallback = "/", .set = set_rootfs,
     .help = "in a container: where parts of the host's root are\nmounted; DIR/proc and DIR/sys/fs/cgroup are read"},
    {.name = "path.procfs", .argument = "DIR", .env = "MUSTER_PATH_PROCFS", .set = set_procfs,
     .help = "the host's /proc, if it is elsewhere"},
    {.name = "path.sysfs", .argument = "DIR", .env = "MUSTER_PATH_SYSFS", .set = set_sysfs,
     .help = "the host's /sys, if it is elsewhere"},
    {.name = "verbose", .letter = 'v', .kind = MST_OPT_FLAG, .env = "MUSTER_VERBOSE", .set = set_verbose,
     .help = "say more on stderr"},
    {.name = "log-format", .argument = "FORMAT", .env = "MUSTER_LOG_FORMAT", .fallback = "text",
     .set = set_log_format, .help = "text or json, on stderr"},
};
/* clang-format on */

/* ---- verbs ---- */

/* After the outputs are open, for they may lie in a folder of root's; before the first byte from the Engine.
 */
static int run_unprivileged(const struct settings *settings, const struct monitor_output *output,
                            struct mst_error *err)
{
    const char *kept = NULL;
    int r = monitor_privileges_drop(&settings->monitor, UNPRIVILEGED_UID, &kept, err);
    if (r < 0)
        return r;
    if (kept)
        mst_log_info("monitor", "root is not given up: %s", kept);
    r = monitor_run(&settings->monitor, output, err);
    return r == -EPIPE ? 0 : r; /* "| head": the reader has had enough */
}

static int run_emit(const struct settings *settings, char **operands, struct mst_error *err)
{
    struct mst_event_sink sink;
    struct monitor_emit emit;
    (void)operands;
    int r = mst_event_sink_init(&sink, STDOUT_FILENO, settings->slot, err);
    if (r < 0)
        return r;
    monitor_emit_init(&emit, &sink, settings->node, settings->monitor.stop_fd);
    const struct monitor_output output = monitor_emit_output(&emit);
    r = run_unprivileged(settings, &output, err);
    if (emit.oversized > 0)
        mst_log_warn("monitor", "%" PRIu64 " samples left out: their names make lines of more than %d bytes",
                     emit.oversized, MST_EVENT_MAX_BYTES);
    mst_event_sink_release(&sink);
    return r;
}

static int run_csv(const struct settings *settings, char **operands, struct mst_error *err)
{
    struct monitor_csv csv;
    int r = monitor_csv_open(&csv, operands[0], settings->node, settings->monitor.stop_fd, err);
    if (r < 0)
        return r;
    const struct monitor_output output = monitor_csv_output(&csv);
    r = run_unprivileged(settings, &output, err);
    monitor_csv_release(&csv);
    return r;
}

static const struct verb {
    const char *name, *synopsis, *about;
    int operands;
    int (*run)(const struct settings *settings, char **operands, struct mst_error *err);
} verbs[] = {
    {"emit", "[options]",
     "Writes one JSON event \"sample\" for each container and tick to stdout: CPU, memory, block I/O and "
     "network, as\n"
     "raw counters. Ends on SIGTERM or SIGINT.",
     0, run_emit},
    {"csv", "[options] FILE|-",
     "Appends one row for each container and tick to FILE, with a header if it is new. Ends on SIGTERM or "
     "SIGINT.",
     1, run_csv},
};

static void usage(FILE *stream)
{
    (void)fprintf(stream, "Usage: muster-monitor VERB [options]\n\n"
                          "Watches what the containers of this node use. Verbs:\n");
    for (size_t i = 0; i < MST_ARRAY_COUNT(verbs); i++)
        (void)fprintf(stream, "  %-8s%s\n", verbs[i].name, verbs[i].synopsis);
    (void)fprintf(stream,
                  "\n'muster-monitor VERB --help' lists a verb's options; '--version' prints the version.\n");
}

static const struct verb *find_verb(const char *name, struct mst_error *err)
{
    const char *names[MST_ARRAY_COUNT(verbs)];
    for (size_t i = 0; i < MST_ARRAY_COUNT(verbs); i++) {
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
        names[i] = verbs[i].name;
    }
    const char *near = mst_nearest(name, names, MST_ARRAY_COUNT(names));
    (void)mst_error_set(err, -EINVAL, "unknown verb '%.40s'; %s%s", name,
                        near ? "did you mean " : "'--help' lists them", near ? near : "");
    return NULL;
}

/* ---- start ---- */

/* SIGTERM and SIGINT become readable on a descriptor. As PID 1 of a container the process has no default
 * actions, and gets the orphans of `docker exec`: the kernel reaps those if SIGCHLD is ignored. */
static int signals_prepare(int *ret_fd, struct mst_error *err)
{
    static const int caught[] = {SIGTERM, SIGINT};
    (void)signal(SIGCHLD, SIG_IGN);
    return mst_signals_open(caught, MST_ARRAY_COUNT(caught), ret_fd, err);
}

/* The paths below rootfs, unless they were given. `texts` holds them. */
static int paths_default(struct settings *settings, char texts[2][PATH_MAX], struct mst_error *err)
{
    const char *root = strcmp(settings->rootfs, "/") == 0 ? "" : settings->rootfs;
    if (snprintf(texts[0], PATH_MAX, "%s/proc", root) >= PATH_MAX ||
        snprintf(texts[1], PATH_MAX, "%s/sys", root) >= PATH_MAX)
        return mst_error_set(err, -EINVAL, "option '--path.rootfs': '%.40s...' is too long", root);
    struct monitor_paths *paths = &settings->monitor.paths;
    if (!paths->procfs)
        paths->procfs = texts[0];
    if (!paths->sysfs)
        paths->sysfs = texts[1];
    return 0;
}

static int run(const struct verb *verb, int argc, char **argv, struct mst_error *err)
{
    const struct mst_options options = {.program = "muster-monitor",
                                        .verb = verb->name,
                                        .synopsis = verb->synopsis,
                                        .about = verb->about,
                                        .table = option_table,
                                        .count = MST_ARRAY_COUNT(option_table)};
    char host_name[MONITOR_NAME_BYTES] = "", paths[2][PATH_MAX];
    struct settings settings = {.level = MST_LOG_INFO, .node = host_name, .slot = host_name};
    mst_cleanup(mst_closep) int stop_fd = -1;
    int operand = 0;
    (void)gethostname(host_name, sizeof host_name - 1); /* fails only for a longer one, which Linux has not */

    int r = mst_options_parse(&options, argc, argv, &settings, &operand, err);
    if (r > 0)
        return MST_EXIT_DONE;
    if (r == 0 && argc - operand != verb->operands)
        r = mst_error_set(err, -EINVAL, "%s takes %d operands, not %d; '--help' says more", verb->name,
                          verb->operands, argc - operand);
    if (r == 0)
        r = paths_default(&settings, paths, err);
    if (r < 0)
        return mst_fail(MST_EXIT_USAGE, err);
    mst_log_init("muster-monitor", settings.level, settings.format);

    r = signals_prepare(&stop_fd, err);
    settings.monitor.stop_fd = stop_fd;
    if (r == 0)
        r = verb->run(&settings, argv + operand, err);
    /* Ended by a signal is how both verbs are meant to end: 0. */
    return r < 0 ? mst_fail(mst_exit_status(r), err) : MST_EXIT_DONE;
}

int main(int argc, char **argv)
{
    struct mst_error err = MST_ERROR_INIT;
    mst_log_init("muster-monitor", MST_LOG_INFO, MST_LOG_TEXT);
    if (argc < 2) {
        usage(stderr);
        return MST_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0) {
        usage(stdout);
        return MST_EXIT_DONE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        (void)printf("muster-monitor %s\n", MUSTER_VERSION);
        return MST_EXIT_DONE;
    }
    const struct verb *verb = find_verb(argv[1], &err);
    return verb ? run(verb, argc - 1, argv + 1, &err) : mst_fail(MST_EXIT_USAGE, &err);
}
