/* SPDX-License-Identifier: Apache-2.0 */
#include "scan.h"

#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/log.h"
#include "muster/sweep.h"
#include "scan_print.h"
#include "station.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef MUSTER_VERSION
#define MUSTER_VERSION "unknown"
#endif

#define NEIGHBOURS_MAX 1024
#define LOOKUP_NS      (2 * MST_NS_PER_S)

/* What is gathered of one network before anybody is greeted. */
struct gathered {
    struct discovery_sweep_result swept; /* its hosts are ours: sorted, and each once */
    size_t capacity;
};

static int add_host(struct gathered *gathered, const struct discovery_host *host, struct mst_error *err)
{
    struct discovery_sweep_result *swept = &gathered->swept;
    for (size_t h = 0; h < swept->count; h++)
        if (swept->hosts[h].ipv4 == host->ipv4)
            return 0;
    if (swept->count == gathered->capacity) {
        const size_t capacity = gathered->capacity ? 2 * gathered->capacity : 64;
        struct discovery_host *hosts = reallocarray(swept->hosts, capacity, sizeof *hosts);
        if (!hosts)
            return mst_error_set(err, -ENOMEM, "scan: no memory for %zu hosts", capacity);
        swept->hosts = hosts;
        gathered->capacity = capacity;
    }
    swept->hosts[swept->count++] = *host;
    return 0;
}

/* A hint that no sweep confirmed: whether anybody is there is for the hello to say. Never beyond what is
 * attached. */
static int add_hint(struct gathered *gathered, const struct discovery_choice *choice, uint32_t ipv4,
                    struct mst_error *err)
{
    const struct discovery_host host = {.ipv4 = ipv4, .self = ipv4 == choice->interface.ipv4};
    return mst_cidr_contains(discovery_own_subnet(&choice->interface), ipv4) ? add_host(gathered, &host, err)
                                                                             : 0;
}

/* The hosts of --from-xml, with the MAC that the file has for them, and this machine. */
static int gather_file(const struct station *station, const struct discovery_choice *choice,
                       struct gathered *gathered, struct mst_error *err)
{
    const struct discovery_interface *own = &choice->interface;
    struct discovery_host self = {.ipv4 = own->ipv4, .self = true, .has_mac = own->ethernet};
    memcpy(self.mac, own->mac, sizeof self.mac);
    gathered->swept = (struct discovery_sweep_result){.method = DISCOVERY_METHOD_FILE, .complete = true};
    int r = add_host(gathered, &self, err);
    for (size_t h = 0; r == 0 && h < station->hint_count; h++) {
        const struct discovery_host *hinted = &station->hinted[h];
        struct discovery_host host = {.ipv4 = hinted->ipv4, .has_mac = hinted->has_mac};
        memcpy(host.mac, hinted->mac, sizeof host.mac);
        if (mst_cidr_contains(discovery_own_subnet(own), host.ipv4))
            r = add_host(gathered, &host, err);
    }
    return r;
}

static int sweep(const struct station_network *network, const struct agent_config *config,
                 uint64_t deadline_ns, struct gathered *gathered, struct mst_error *err)
{
    const struct discovery_sweep_options options = {
        .choice = network->choice, .port = config->port, .deadline_ns = deadline_ns};
    struct discovery_sweep *sweep = NULL;
    int r = network->arp ? discovery_arp_sweep_new(network->arp, &options, &sweep, err)
                         : discovery_tcp_sweep_new(&options, &sweep, err);
    if (r == 0)
        r = discovery_sweep_run(sweep, err);
    if (r == 0) {
        const struct discovery_sweep_result *result = discovery_sweep_result(sweep);
        gathered->swept = *result;
        gathered->swept.hosts = calloc(result->count + 1, sizeof *result->hosts);
        gathered->capacity = result->count + 1;
        if (gathered->swept.hosts)
            memcpy(gathered->swept.hosts, result->hosts, result->count * sizeof *result->hosts);
        else
            r = mst_error_set(err, -ENOMEM, "scan: no memory for %zu hosts", result->count);
    }
    discovery_sweep_free(sweep);
    return r;
}

/* Hosts that the sweep may have missed, or did not ask. Hints that fail are no failure. */
static int gather_hints(const struct station *station, const struct discovery_choice *choice,
                        uint64_t deadline_ns, struct gathered *gathered, struct mst_error *err)
{
    struct mst_error why = MST_ERROR_INIT;
    uint32_t list[NEIGHBOURS_MAX];
    size_t count = 0;
    int r = 0;
    struct discovery_choice whole = *choice;
    whole.subnet = discovery_own_subnet(&choice->interface);
    if (discovery_neighbours(&whole, list, NEIGHBOURS_MAX, &count, &why) < 0)
        mst_log_debug("scan", "no hints from the neighbour cache: %s", why.text);
    for (size_t i = 0; r == 0 && i < count; i++)
        r = add_hint(gathered, choice, list[i], err);
    if (r < 0 || !station->dns)
        return r;

    struct discovery_lookup *lookup = NULL;
    const uint64_t end_ns = mst_now_ns() + LOOKUP_NS;
    r = discovery_lookup_new(station->dns, end_ns < deadline_ns ? end_ns : deadline_ns, &lookup, &why);
    if (r == 0)
        r = discovery_lookup_run(lookup, &why);
    if (r < 0)
        mst_log_warn("scan", "no hints from DNS: %s", why.text);
    const uint32_t *found = lookup ? discovery_lookup_result(lookup, &count) : NULL;
    for (r = 0; r == 0 && found && count > 0; found++, count--)
        r = add_hint(gathered, choice, *found, err);
    discovery_lookup_free(lookup);
    return r;
}

/* What a greeting says of its host. */
static void judge(const struct discovery_greeting *greeting, struct discovery_host *host,
                  struct scan_finding *ret_finding)
{
    const char *note = "";
    if (greeting->code == -ECANCELED) /* nothing is known of its port: it is not called silent */
        note = "not asked: the time of --wait is over";
    else if (greeting->connected)
        host->port = DISCOVERY_PORT_OPEN;
    else
        host->port = greeting->code == -ECONNREFUSED ? DISCOVERY_PORT_CLOSED : DISCOVERY_PORT_SILENT;
    if (greeting->code == 0) {
        ret_finding->agent = true;
        ret_finding->identity = greeting->who;
        memcpy(host->slot, greeting->who.slot, sizeof host->slot);
    } else if (greeting->reason != DISCOVERY_REASON_NONE) {
        note = discovery_reason_text(greeting->reason);
    } else if (greeting->connected) {
        note = "accepts connections, and says nothing";
    }
    (void)snprintf(ret_finding->note, sizeof ret_finding->note, "%s", note);
    if (host->rtt_ns == 0)
        host->rtt_ns = greeting->connect_ns;
}

static int greet(const struct station *station, const struct agent_config *config, uint64_t deadline_ns,
                 struct gathered *gathered, struct scan_result *result, struct mst_error *err)
{
    struct discovery_sweep_result *swept = &gathered->swept;
    size_t asked = 0;
    result->findings = calloc(swept->count + 1, sizeof *result->findings);
    mst_cleanup(mst_freep) struct discovery_greeting *list = calloc(swept->count + 1, sizeof *list);
    if (!list || !result->findings)
        return mst_error_set(err, -ENOMEM, "scan: no memory");
    for (size_t h = 0; h < swept->count; h++)
        if (!swept->hosts[h].self)
            list[asked++] = (struct discovery_greeting){.ipv4 = swept->hosts[h].ipv4, .port = config->port};
    const int r = discovery_greet(&station->self, list, asked, deadline_ns, err);
    const struct discovery_greeting *next = list;
    for (size_t h = 0; r == 0 && h < swept->count; h++) {
        if (swept->hosts[h].self)
            continue;
        judge(next, &swept->hosts[h], &result->findings[h]);
        result->agents += next->code == 0;
        result->unasked += next->code == -ECANCELED;
        next++;
    }
    return r;
}

/* Hints that led to nobody are not shown: they are no hosts. */
static void drop_absent(struct scan_result *result)
{
    struct discovery_sweep_result *swept = &result->swept;
    const bool swept_none = swept->method == DISCOVERY_METHOD_FILE; /* whatever the file says */
    size_t kept = 0;
    for (size_t h = 0; h < swept->count; h++) {
        const struct discovery_host *host = &swept->hosts[h];
        const bool only_hint = !host->self && (swept_none || !host->has_mac) && host->attempts == 0;
        if (only_hint && host->port == DISCOVERY_PORT_SILENT)
            continue;
        result->findings[kept] = result->findings[h];
        swept->hosts[kept++] = *host;
    }
    swept->count = kept;
}

static int scan_network(const struct station *station, const struct station_network *network,
                        const struct agent_config *config, uint64_t deadline_ns, struct scan_result *result,
                        struct mst_error *err)
{
    struct gathered gathered = {0};
    result->choice = network->choice;
    int r = 0;
    if (station->hints) {
        r = gather_file(station, &network->choice, &gathered, err); /* which is the sweep */
    } else {
        r = sweep(network, config, deadline_ns, &gathered, err);
        if (r == 0)
            r = gather_hints(station, &network->choice, deadline_ns, &gathered, err);
    }
    if (r == 0 && gathered.swept.count > 0)
        qsort(gathered.swept.hosts, gathered.swept.count, sizeof *gathered.swept.hosts,
              discovery_host_compare);
    if (r == 0)
        r = greet(station, config, deadline_ns, &gathered, result, err);
    result->swept = gathered.swept;
    if (r == 0)
        drop_absent(result);
    return r;
}

static void result_release(struct scan_result *result)
{
    free(result->swept.hosts);
    free(result->findings);
    *result = (struct scan_result){0};
}

/* One network after another until agents of this cluster are found; else the first one's result stands. */
static int scan_all(const struct station *station, const struct agent_config *config, uint64_t deadline_ns,
                    struct scan_result *ret_result, struct mst_error *err)
{
    int r = 0;
    for (size_t n = 0; r == 0 && n < station->network_count && ret_result->agents == 0; n++) {
        struct scan_result result = {0};
        r = scan_network(station, &station->networks[n], config, deadline_ns, &result, err);
        if (n > 0)
            mst_log_info("scan", "no agent of this cluster on %s: tried %s, %zu agents",
                         ret_result->choice.interface.name, result.choice.reason, result.agents);
        if (r == 0 && (n == 0 || result.agents > 0)) {
            result_release(ret_result);
            *ret_result = result;
        } else {
            result_release(&result);
        }
    }
    return r;
}

static int write_xml(const struct agent_config *config, double start_s, const struct scan_result *result,
                     struct mst_error *err)
{
    const struct discovery_report report = {
        .program = "muster-agent scan",
        .version = MUSTER_VERSION,
        .start_s = start_s,
        .end_s = mst_wall_s(),
        .port = config->port,
        .result = &result->swept,
    };
    return discovery_ips_xml_write(config->xml, &report, err);
}

static int scan(struct station *station, const struct agent_config *config, struct mst_error *err)
{
    struct scan_result result = {0};
    const double start_s = mst_wall_s();
    int r = scan_all(station, config, mst_now_ns() + config->wait_ns, &result, err);
    if (r == 0)
        r = config->json ? scan_print_json(&result, err) : scan_print_table(&result, err);
    if (r == 0 && config->xml)
        r = write_xml(config, start_s, &result, err);
    if (r == 0)
        scan_print_summary(&result);
    if (r == 0 && (!result.swept.complete || result.unasked > 0))
        r = mst_error_set(err, -ETIMEDOUT, "the time of --wait was over before all were asked");
    result_release(&result);
    return r;
}

int agent_scan(const struct agent_config *config)
{
    struct mst_error err = MST_ERROR_INIT;
    struct station station;
    int r = station_open(&station, config, DISCOVERY_ROLE_PROBE, STATION_SWEEPS, &err);
    if (r < 0)
        return mst_fail(station_exit_status(r), &err);
    station.self.identity.ipv4 = 0; /* a probe listens nowhere */
    station.self.identity.port = 0;
    r = scan(&station, config, &err);
    station_close(&station);
    return r < 0 ? mst_fail(r == -ETIMEDOUT ? MST_EXIT_TIMEOUT : MST_EXIT_FAILED, &err) : MST_EXIT_DONE;
}
