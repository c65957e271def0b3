/* SPDX-License-Identifier: Apache-2.0 */
/* How long a sweep takes, in a network of its own (tests/netns.h) with a gateway and three hosts; all other
 * addresses are silent. bench_sweep [--rounds N] [--json FILE]. Needs root for the namespaces. */
#include "../netns.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/opts.h"
#include "muster/parse.h"
#include "muster/sweep.h"
#include "muster/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOSTS      4
#define MAX_ROUNDS 1000

struct settings {
    uint32_t rounds;
    FILE *json; /* beside the table; NULL: none */
};

static int set_rounds(void *settings, const char *text, struct mst_error *err)
{
    return mst_parse_u32(text, 1, MAX_ROUNDS, &((struct settings *)settings)->rounds, err);
}

static int set_json(void *settings, const char *text, struct mst_error *err)
{
    FILE *file = fopen(text, "we");
    ((struct settings *)settings)->json = file;
    return file ? 0 : mst_error_errno(err, -errno, "open '%s'", text);
}

static const struct mst_option option_table[] = {
    {.name = "rounds",
     .argument = "N",
     .fallback = "20",
     .help = "sweeps of each kind, 1 to 1000",
     .set = set_rounds},
    {.name = "json", .argument = "FILE", .help = "write the figures there as JSON, too", .set = set_json},
};

/* The interface has two subnets, a /24 and a /16, with the same four hosts in each. */
static const struct kind {
    const char *name, *subnet;
    enum discovery_method method;
    bool no_resend;
    uint32_t enough; /* stop after so many answers; 0: never */
    bool slow;       /* a tenth of the rounds do */
} kinds[] = {
    {"whole /24", "10.9.0.0/24", DISCOVERY_METHOD_ARP, false, 0, false},
    {"whole /24, no re-send", "10.9.0.0/24", DISCOVERY_METHOD_ARP, true, 0, false},
    {"/24 until all four answered", "10.9.0.0/24", DISCOVERY_METHOD_ARP, false, HOSTS, false},
    {"whole /20", "10.20.0.0/20", DISCOVERY_METHOD_ARP, false, 0, true},
    {"whole /16", "10.20.0.0/16", DISCOVERY_METHOD_ARP, false, 0, true},
    {"whole /24", "10.9.0.0/24", DISCOVERY_METHOD_TCP, false, 0, true},
    {"/24 until all four answered", "10.9.0.0/24", DISCOVERY_METHOD_TCP, false, HOSTS, true},
};

struct row {
    uint32_t rounds, addresses, probes, answered_least;
    double ms[MAX_ROUNDS]; /* sorted */
};

struct progress {
    uint32_t answered, enough;
};

static void count_host(void *context, const struct discovery_host *host)
{
    (void)host;
    ((struct progress *)context)->answered++;
}

static bool has_enough(void *context)
{
    const struct progress *progress = context;
    return progress->enough > 0 && progress->answered >= progress->enough;
}

static int compare_ms(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static int sweep_once(const struct kind *kind, struct discovery_arp *arp,
                      const struct discovery_sweep_options *options, struct row *row, struct mst_error *err)
{
    struct discovery_sweep *sweep = NULL;
    int r = kind->method == DISCOVERY_METHOD_ARP ? discovery_arp_sweep_new(arp, options, &sweep, err)
                                                 : discovery_tcp_sweep_new(options, &sweep, err);
    if (r == 0)
        r = discovery_sweep_run(sweep, err);
    if (r == 0) {
        const struct discovery_sweep_result *result = discovery_sweep_result(sweep);
        row->ms[row->rounds++] = result->ms;
        row->addresses = result->addresses;
        row->probes = result->probes;
        if (result->answered < row->answered_least)
            row->answered_least = result->answered;
    }
    discovery_sweep_free(sweep);
    return r;
}

static int measure(const struct kind *kind, uint32_t rounds, struct row *row, struct mst_error *err)
{
    struct mst_cidr subnet;
    struct progress progress = {.enough = kind->enough};
    struct discovery_sweep_options options = {
        .no_resend = kind->no_resend, .on_host = count_host, .enough = has_enough, .context = &progress};
    mst_cleanup(discovery_arp_freep) struct discovery_arp *arp = NULL;
    *row = (struct row){.answered_least = UINT32_MAX};
    if (kind->slow)
        rounds = rounds / 10 + 1;
    int r = mst_parse_cidr(kind->subnet, &subnet, err);
    if (r == 0)
        r = discovery_interface_find(&subnet, &options.choice, err);
    if (r == 0 && kind->method == DISCOVERY_METHOD_ARP)
        r = discovery_arp_open(&options.choice.interface, &arp, err);
    for (uint32_t i = 0; r == 0 && i < rounds; i++) {
        progress.answered = 0;
        r = sweep_once(kind, arp, &options, row, err);
    }
    qsort(row->ms, row->rounds, sizeof row->ms[0], compare_ms);
    return r;
}

static void print_json(const struct row *rows, FILE *json)
{
    (void)fprintf(json, "{\"benchmark\":\"sweep\",\"hosts\":%d,\"kinds\":[", HOSTS);
    for (size_t i = 0; i < MST_ARRAY_COUNT(kinds); i++) {
        const struct row *row = &rows[i];
        (void)fprintf(json,
                      "%s{\"kind\":\"%s\",\"method\":\"%s\",\"addresses\":%u,\"rounds\":%u,\"probes\":%u,"
                      "\"answered_least\":%u,\"ms_min\":%.2f,\"ms_median\":%.2f,\"ms_max\":%.2f}",
                      i ? "," : "", kinds[i].name, discovery_method_text(kinds[i].method), row->addresses,
                      row->rounds, row->probes, row->answered_least, row->ms[0], row->ms[row->rounds / 2],
                      row->ms[row->rounds - 1]);
    }
    (void)fprintf(json, "]}\n");
}

static int print_table(const struct row *rows, struct mst_error *err)
{
    struct mst_table *table = NULL;
    int r = mst_table_new("SWEEP|BY|>ADDRESSES|>ROUNDS|>PROBES|>ANSWERED|>MS MIN|>MS MEDIAN|>MS MAX", &table,
                          err);
    for (size_t i = 0; r == 0 && i < MST_ARRAY_COUNT(kinds); i++) {
        const struct row *row = &rows[i];
        r |= mst_table_cell(table, "%s", kinds[i].name);
        r |= mst_table_cell(table, "%s", discovery_method_text(kinds[i].method));
        r |= mst_table_cell(table, "%u", row->addresses);
        r |= mst_table_cell(table, "%u", row->rounds);
        r |= mst_table_cell(table, "%u", row->probes);
        r |= mst_table_cell(table, "%u of %d", row->answered_least, HOSTS); /* in the worst round */
        r |= mst_table_cell(table, "%.1f", row->ms[0]);
        r |= mst_table_cell(table, "%.1f", row->ms[row->rounds / 2]);
        r |= mst_table_cell(table, "%.1f", row->ms[row->rounds - 1]);
    }
    if (r == 0)
        r = mst_table_print(table, stdout);
    mst_table_free(table);
    return r;
}

static int run(const struct settings *settings, struct mst_error *err)
{
    static const char *const addresses[HOSTS][2] = {{"10.9.0.1/24", "10.20.0.1/16"},
                                                    {"10.9.0.3/24", "10.20.0.3/16"},
                                                    {"10.9.0.4/24", "10.20.7.4/16"},
                                                    {"10.9.0.200/24", "10.20.15.200/16"}};
    mst_cleanup(mst_freep) struct row *rows = calloc(MST_ARRAY_COUNT(kinds), sizeof *rows);
    struct netns_peer peers[HOSTS];
    int r = 0;
    if (!rows)
        return mst_error_set(err, -ENOMEM, "no memory");
    if (!netns_enter() || netns_ip("addr add 10.20.0.100/20 dev eth0") != 0 ||
        netns_ip("addr add 10.20.0.101/16 dev eth0") != 0)
        return mst_error_set(err, -EPERM, "cannot make a network namespace (root is needed)");
    for (size_t i = 0; i < HOSTS; i++)
        peers[i] = netns_peer_start(addresses[i][0], addresses[i][1], NULL, NULL);
    for (size_t i = 0; r == 0 && i < MST_ARRAY_COUNT(kinds); i++)
        r = measure(&kinds[i], settings->rounds, &rows[i], err);
    for (size_t i = 0; i < HOSTS; i++)
        netns_peer_stop(&peers[i]);
    if (r == 0)
        r = print_table(rows, err);
    if (r == 0 && settings->json)
        print_json(rows, settings->json);
    return r;
}

int main(int argc, char **argv)
{
    static const struct mst_options options = {.program = "bench_sweep",
                                               .synopsis = "[options]",
                                               .about = "Time sweeps of a network with four hosts.",
                                               .table = option_table,
                                               .count = MST_ARRAY_COUNT(option_table)};
    struct settings settings = {0};
    struct mst_error err = MST_ERROR_INIT;
    int operands;
    const int parsed = mst_options_parse(&options, argc, argv, &settings, &operands, &err);
    if (parsed > 0)
        return MST_EXIT_DONE;
    const int r = parsed < 0 ? parsed : run(&settings, &err);
    if (r < 0)
        (void)fprintf(stderr, "bench_sweep: %s\n", err.text);
    if (settings.json && fclose(settings.json) != 0)
        return MST_EXIT_FAILED;
    return r < 0 ? mst_exit_status(r) : MST_EXIT_DONE;
}
