/* SPDX-License-Identifier: Apache-2.0 */
/* muster-monitor: command line, signals and exit codes; what it does is in the library. */
#include "muster/cleanup.h"
#include "muster/file.h"
#include "muster/log.h"
#include "muster/monitor.h"
#include "muster/opts.h"
#include "muster/parse.h"
#include "muster/signals.h"
#include "nodes.h"
#include "replay.h"
#include "settings.h"

#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define UNPRIVILEGED_UID 65532 /* `muster` in the image; needs no entry in /etc/passwd elsewhere */

/* ---- verbs ---- */

/* After the outputs are open, for they may lie in a folder of root's; before the first byte from the Engine.
 */
static int give_up_root(const struct monitor_options *options, struct mst_error *err)
{
    const char *kept = NULL;
    const int r = monitor_privileges_drop(options, UNPRIVILEGED_UID, &kept, err);
    if (r == 0 && kept)
        mst_log_info("monitor", "root is not given up: %s", kept);
    return r;
}

static int run_unprivileged(const struct settings *settings, const struct monitor_output *output,
                            struct mst_error *err)
{
    int r = give_up_root(&settings->monitor, err);
    if (r < 0)
        return r;
    r = monitor_run(&settings->monitor, output, err);
    return r == -EPIPE ? 0 : r; /* "| head": the reader has had enough */
}

static int run_serve(const struct settings *settings, char **operands, struct mst_error *err)
{
    (void)operands;
    return serve_run_when(&settings->serve, give_up_root, err);
}

static int run_record(const struct settings *settings, char **operands, struct mst_error *err)
{
    struct serve_options options = settings->serve;
    options.record.path = operands[0];
    return record_run(&options, give_up_root, err);
}

static int run_replay(const struct settings *settings, char **operands, struct mst_error *err)
{
    if (settings->is_served && settings->csv_path)
        return mst_error_set(err, -EINVAL, "options '--serve' and '--csv' exclude each other");
    const struct replay_options options = {.files = (const char *const *)operands,
                                           .from = settings->from,
                                           .to = settings->to,
                                           .speed = settings->speed,
                                           .csv_path = settings->csv_path,
                                           .is_served = settings->is_served,
                                           .stats = settings->stats,
                                           .web = settings->serve.web,
                                           .stop_fd = settings->monitor.stop_fd};
    return replay_run(&options, err);
}

/* What others send is read without root's rights; whom to ask stands in files that may be root's. */
static int run_all_nodes(const struct settings *settings, struct mst_error *err)
{
    mst_cleanup(peers_freep) struct peers *peers = NULL;
    int r = peers_new(&settings->peers, &peers, err);
    if (r < 0)
        return r == -ENOMEM ? r : -EINVAL; /* an input file that cannot be used, whatever its trouble is */
    struct monitor_options alone = settings->monitor;
    alone.source = MONITOR_SOURCE_CGROUPS; /* no engine is asked */
    r = give_up_root(&alone, err);
    return r < 0 ? r : nodes_stats_run(&settings->monitor, &settings->stats, peers, err);
}

static int run_stats(const struct settings *settings, char **operands, struct mst_error *err)
{
    (void)operands;
    if (settings->all_nodes)
        return run_all_nodes(settings, err);
    const int r = give_up_root(&settings->monitor, err);
    return r < 0 ? r : stats_run(&settings->monitor, &settings->stats, err);
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

#define ANY_NUMBER (-1) /* of operands, but not none */

static const struct verb {
    const char *name, *synopsis, *about;
    const struct settings_table *table;
    int operands;
    unsigned groups; /* what is read */
    int (*run)(const struct settings *settings, char **operands, struct mst_error *err);
} verbs[] = {
    {"serve", "[options]",
     "Serves the containers' metrics to Prometheus, with cAdvisor's names, and a page for people. Ends on "
     "SIGTERM or\n"
     "SIGINT.",
     &settings_serve, 0, MONITOR_GROUPS_ALL, run_serve},
    {"stats", "[options]", "Shows what each container uses, with the columns of 'docker stats'.",
     &settings_stats, 0, MONITOR_GROUPS_STATS, run_stats},
    {"record", "[options] FILE",
     "Records everything that can be read about the containers into FILE, once a tick. Ends on SIGTERM or "
     "SIGINT.",
     &settings_record, 1, MONITOR_GROUPS_ALL, run_record},
    {"replay", "[options] FILE...",
     "Shows a recording as 'stats' shows the present, or serves it, or makes CSV of it.", &settings_replay,
     ANY_NUMBER, 0, run_replay},
    {"emit", "[options]",
     "Writes one JSON event \"sample\" for each container and tick to stdout: CPU, memory, block I/O and "
     "network, as\n"
     "raw counters. Ends on SIGTERM or SIGINT.",
     &settings_basic, 0, MONITOR_GROUPS_BASIC, run_emit},
    {"csv", "[options] FILE|-",
     "Appends one row for each container and tick to FILE, with a header if it is new. Ends on SIGTERM or "
     "SIGINT.",
     &settings_basic, 1, MONITOR_GROUPS_BASIC, run_csv},
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

static int check_operands(const struct verb *verb, int count, struct mst_error *err)
{
    if (verb->operands == ANY_NUMBER ? count > 0 : count == verb->operands)
        return 0;
    if (verb->operands == ANY_NUMBER)
        return mst_error_set(err, -EINVAL, "%s takes one operand or more; '--help' says more", verb->name);
    return mst_error_set(err, -EINVAL, "%s takes %d operands, not %d; '--help' says more", verb->name,
                         verb->operands, count);
}

static int run(const struct verb *verb, int argc, char **argv, struct mst_error *err)
{
    const struct mst_options options = {.program = "muster-monitor",
                                        .verb = verb->name,
                                        .synopsis = verb->synopsis,
                                        .about = verb->about,
                                        .table = verb->table->options,
                                        .count = verb->table->count};
    mst_cleanup(mst_freep) struct settings *settings = calloc(1, sizeof *settings);
    mst_cleanup(mst_closep) int stop_fd = -1;
    int operand = 0;
    if (!settings) {
        (void)mst_error_set(err, -ENOMEM, "no memory");
        return mst_fail(MST_EXIT_FAILED, err);
    }
    settings_init(settings);
    settings->monitor.groups = verb->groups;
    settings->monitor.with_training = verb->groups == MONITOR_GROUPS_ALL;

    int r = verb->table == &settings_serve ? settings_go_style(verb->table, argc, argv, err) : 0;
    if (r == 0)
        r = mst_options_parse(&options, argc, argv, settings, &operand, err);
    if (r > 0)
        return MST_EXIT_DONE;
    if (r == 0)
        r = check_operands(verb, argc - operand, err);
    if (r == 0)
        r = settings_complete(settings, MUSTER_VERSION, err);
    if (r < 0)
        return mst_fail(MST_EXIT_USAGE, err);
    mst_log_init("muster-monitor", settings->level, settings->format);

    r = signals_prepare(&stop_fd, err);
    settings->monitor.stop_fd = settings->serve.monitor.stop_fd = stop_fd;
    if (r == 0)
        r = verb->run(settings, argv + operand, err);
    /* Ended by a signal is how most verbs are meant to end: 0. */
    return r < 0 ? mst_fail(mst_exit_status(r), err) : MST_EXIT_DONE;
}

int main(int argc, char **argv)
{
    struct mst_error err = MST_ERROR_INIT;
    if (mst_open_standard_descriptors() < 0)
        return MST_EXIT_FAILED; /* nowhere to say it */
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
