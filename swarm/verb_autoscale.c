/* SPDX-License-Identifier: Apache-2.0 */
/* muster autoscale */
#include "autoscale/autoscale.h"
#include "cli.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/parse.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define INTERVAL_MIN_NS MST_NS_PER_S
#define INTERVAL_MAX_NS (10 * 60 * MST_NS_PER_S)

struct autoscale_settings {
    struct cli_common common;
    struct autoscale_options options;
    const char *where[PEERS_WHERE_MAX + 1]; /* the last is NULL */
    size_t where_count;
    const char *slot;
    char host_name[128];
};

static int set_where(void *settings, const char *text, struct mst_error *err)
{
    struct autoscale_settings *mine = settings;
    const int r = peers_check(text, err);

    if (r < 0)
        return r;
    if (mine->where_count == PEERS_WHERE_MAX)
        return mst_error_set(err, -EINVAL, "more than %d of them", PEERS_WHERE_MAX);
    mine->where[mine->where_count++] = text;
    return 0;
}

static int set_interval(void *settings, const char *text, struct mst_error *err)
{
    struct autoscale_settings *mine = settings;
    uint64_t ns;
    const int r = mst_parse_duration_ns(text, &ns, err);

    if (r < 0)
        return r;
    if (ns < INTERVAL_MIN_NS || ns > INTERVAL_MAX_NS)
        return mst_error_set(err, -EINVAL, "'%s' is not from 1s to 10m", text);
    mine->options.interval_ns = ns;
    return 0;
}

#define SET_TEXT(name, member)                                                                               \
    static int name(void *settings, const char *text, struct mst_error *err)                                 \
    {                                                                                                        \
        (void)err;                                                                                           \
        ((struct autoscale_settings *)settings)->member = text;                                              \
        return 0;                                                                                            \
    }

SET_TEXT(set_file, options.peers.file)
SET_TEXT(set_credentials, options.peers.credentials)
SET_TEXT(set_ca, options.peers.ca)
SET_TEXT(set_certificate, options.peers.certificate)
SET_TEXT(set_key, options.peers.key)
SET_TEXT(set_slot, slot)
CLI_SET_FLAG(set_once, struct autoscale_settings, options.is_once)

static const struct mst_option table[] = {
    {.name = "monitors",
     .letter = 'm',
     .kind = MST_OPT_REPEAT,
     .argument = "WHERE",
     .env = "MUSTER_MONITORS",
     .set = set_where,
     .help =
         "a node's monitor: http://HOST:PORT, https://HOST:PORT,\nor tasks.SERVICE:PORT for every task of a "
         "service;\nmay be repeated"},
    {.name = "monitors-file",
     .argument = "FILE",
     .env = "MUSTER_MONITORS_FILE",
     .set = set_file,
     .help = "the monitors, in lines 'NODE WHERE'"},
    {.name = "monitors-credentials",
     .argument = "FILE",
     .env = "MUSTER_MONITORS_CREDENTIALS",
     .set = set_credentials,
     .help = "for monitors that want a user: one line USER:PASSWORD"},
    {.name = "monitors-ca",
     .argument = "FILE",
     .env = "MUSTER_MONITORS_CA",
     .set = set_ca,
     .help = "who signs the monitors' certificates, PEM (default: the\nmachine's authorities)"},
    {.name = "monitors-cert",
     .argument = "FILE",
     .env = "MUSTER_MONITORS_CERT",
     .set = set_certificate,
     .help = "our own certificate, for monitors that want one"},
    {.name = "monitors-key",
     .argument = "FILE",
     .env = "MUSTER_MONITORS_KEY",
     .set = set_key,
     .help = "its key"},
    {.name = "interval",
     .argument = "DURATION",
     .env = "MUSTER_INTERVAL",
     .fallback = "5s",
     .set = set_interval,
     .help = "between two looks, 1s to 10m"},
    {.name = "once", .kind = MST_OPT_FLAG, .set = set_once, .help = "decide once, print a table, and end"},
    CLI_DRY_RUN_OPTION("say what would be done, and write nothing"),
    CLI_FORMAT_OPTION_OF("form of the table of --once"),
    {.name = "slot",
     .argument = "NAME",
     .env = "MUSTER_SLOT",
     .set = set_slot,
     .help = "who speaks, in events (default: the host's name)"},
    CLI_COMMON_OPTIONS,
};

static const struct mst_options options = {
    .program = "muster",
    .verb = "autoscale",
    .synopsis = "[options] STACK",
    .about = "Scale a stack's services by their labels muster.autoscale.* and what the monitors say.",
    .table = table,
    .count = MST_ARRAY_COUNT(table),
};

/* What the files say is input: told before any engine is asked. */
static int check_input(const struct autoscale_settings *settings, struct mst_error *err)
{
    mst_cleanup(peers_freep) struct peers *peers = NULL;

    if (settings->where_count == 0 && !settings->options.peers.file)
        return mst_error_set(err, -EINVAL,
                             "where are the monitors? Option '--monitors' or '--monitors-file' says so");
    return peers_new(&settings->options.peers, &peers, err);
}

int verb_autoscale(int argc, char **argv)
{
    struct autoscale_settings settings = {.where_count = 0};
    struct mst_error err = MST_ERROR_INIT;
    struct session session;
    int status, r;
    const int first = cli_begin(&options, argc, argv, &settings.common, 1, 1, &status);

    if (first < 0)
        return status;
    if (compose_stack_name_check(argv[first], &err) < 0)
        return cli_usage(&err);
    settings.options.stack = argv[first];
    settings.options.peers.where = settings.where;
    settings.options.is_dry = settings.common.dry_run;
    settings.options.format = settings.common.format;
    (void)gethostname(settings.host_name, sizeof settings.host_name - 1); /* fails only for a longer one */
    settings.options.slot = settings.slot ? settings.slot : settings.host_name;
    if (check_input(&settings, &err) < 0)
        return cli_usage(&err);
    status = cli_open(&settings.common, &session);
    if (status != 0)
        return status;
    r = autoscale_run(&session, &settings.options, &err);
    return cli_end(&session, r, &err);
}
