/* SPDX-License-Identifier: Apache-2.0 */
#include "scan.h"

#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/json.h"
#include "muster/log.h"
#include "muster/table.h"
#include "station.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef MUSTER_VERSION
#define MUSTER_VERSION "unknown"
#endif

/* What a hello brought out about a host of the result, by the same index. */
struct finding {
    bool agent;
    struct discovery_identity identity;
    char note[MST_ERROR_TEXT_BYTES];
};

static const char *role_text(enum discovery_role role)
{
    switch (role) {
    case DISCOVERY_ROLE_WORKER:
        return "worker";
    case DISCOVERY_ROLE_COLLECTOR:
        return "collector";
    case DISCOVERY_ROLE_LAUNCH:
        return "launch";
    default:
        return "probe";
    }
}

/* Say hello to one host; whatever comes of it is a finding, never an error. */
static void greet(struct station *station, uint16_t port, uint64_t deadline_ns, struct discovery_host *host,
                  struct finding *ret_finding)
{
    struct mst_error err = MST_ERROR_INIT;
    struct discovery_session session;
    enum discovery_reason reason = DISCOVERY_REASON_NONE;
    mst_cleanup(mst_closep) int fd = -1;
    const uint64_t now_ns = mst_now_ns();
    if (now_ns >= deadline_ns) { /* nothing is known of its port: it is not called silent */
        (void)snprintf(ret_finding->note, sizeof ret_finding->note, "not asked: the time of --wait is over");
        return;
    }
    uint64_t hello_ns = now_ns + DISCOVERY_HELLO_MS * MST_NS_PER_MS;
    if (hello_ns > deadline_ns)
        hello_ns = deadline_ns;
    const int r = discovery_hello_dial(host->ipv4, port, &station->self, DISCOVERY_PURPOSE_HELLO, hello_ns,
                                       &fd, &session, &reason, &err);
    if (r == 0) {
        ret_finding->agent = true;
        ret_finding->identity = session.peer;
        host->port = DISCOVERY_PORT_OPEN;
        memcpy(host->slot, session.peer.slot, sizeof host->slot);
        mst_forget(&session, sizeof session);
        return;
    }
    if (reason != DISCOVERY_REASON_NONE) {
        host->port = DISCOVERY_PORT_OPEN;
        (void)snprintf(ret_finding->note, sizeof ret_finding->note, "%s", discovery_reason_text(reason));
    } else {
        host->port = r == -ECONNREFUSED ? DISCOVERY_PORT_CLOSED : DISCOVERY_PORT_SILENT;
    }
}

static int print_table(const struct discovery_sweep_result *result, const struct finding *findings,
                       struct mst_error *err)
{
    struct mst_table *table = NULL;
    int r = mst_table_new("ADDRESS|MAC|>RTT ms|PORT|ROLE|SLOT|STATE", &table, err);
    if (r < 0)
        return r;
    for (size_t h = 0; r == 0 && h < result->count; h++) {
        const struct discovery_host *host = &result->hosts[h];
        const struct finding *finding = &findings[h];
        char address[MST_IPV4_TEXT_BYTES], mac[DISCOVERY_MAC_TEXT_BYTES];
        r = mst_table_cell(table, "%s", mst_ipv4_text(host->ipv4, address));
        if (r == 0)
            r = mst_table_cell(table, "%s", host->has_mac ? discovery_mac_text(host->mac, mac) : "-");
        if (r == 0 && host->self)
            r = mst_table_cell(table, "-");
        else if (r == 0)
            r = mst_table_cell(table, "%.2f", (double)host->rtt_ns / 1e6);
        if (r == 0)
            r = mst_table_cell(table, "%s", host->self ? "self" : discovery_port_state_text(host->port));
        if (r == 0)
            r = mst_table_cell(table, "%s", finding->agent ? role_text(finding->identity.role) : "-");
        if (r == 0)
            r = mst_table_cell(table, "%s", finding->agent ? finding->identity.slot : "-");
        if (r == 0 && finding->agent)
            r = mst_table_cell(table, "view %" PRIu64 ", step %" PRIu64, finding->identity.view,
                               finding->identity.step);
        else if (r == 0)
            r = mst_table_cell(table, "%s", finding->note);
    }
    if (r == 0)
        r = mst_table_print(table, stdout);
    mst_table_free(table);
    return r < 0 ? mst_error_errno(err, r, "print the table") : 0;
}

static int print_json(const struct discovery_sweep_result *result, const struct finding *findings,
                      struct mst_error *err)
{
    mst_cleanup(mst_json_deletep) cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "method", discovery_method_text(result->method));
    cJSON_AddNumberToObject(json, "addresses", result->addresses);
    cJSON_AddNumberToObject(json, "answered", result->answered);
    cJSON_AddNumberToObject(json, "ms", result->ms);
    cJSON *hosts = cJSON_AddArrayToObject(json, "hosts");
    for (size_t h = 0; h < result->count; h++) {
        const struct discovery_host *host = &result->hosts[h];
        char address[MST_IPV4_TEXT_BYTES], mac[DISCOVERY_MAC_TEXT_BYTES];
        cJSON *item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "address", mst_ipv4_text(host->ipv4, address));
        if (host->has_mac)
            cJSON_AddStringToObject(item, "mac", discovery_mac_text(host->mac, mac));
        cJSON_AddBoolToObject(item, "self", host->self);
        cJSON_AddNumberToObject(item, "rtt_ms", (double)host->rtt_ns / 1e6);
        cJSON_AddStringToObject(item, "port", discovery_port_state_text(host->port));
        if (findings[h].agent) {
            cJSON_AddStringToObject(item, "role", role_text(findings[h].identity.role));
            cJSON_AddStringToObject(item, "slot", findings[h].identity.slot);
            cJSON_AddNumberToObject(item, "view", (double)findings[h].identity.view);
        } else if (findings[h].note[0]) {
            cJSON_AddStringToObject(item, "note", findings[h].note);
        }
        cJSON_AddItemToArray(hosts, item);
    }
    mst_cleanup(mst_freep) char *text = cJSON_Print(json);
    if (!text || printf("%s\n", text) < 0 || fflush(stdout) != 0)
        return mst_error_set(err, -EIO, "cannot print the result");
    return 0;
}

static int sweep(struct station *station, const struct agent_config *config,
                 struct discovery_sweep **ret_sweep, struct mst_error *err)
{
    const struct discovery_sweep_options options = {
        .choice = station->choice,
        .port = config->port,
        .deadline_ns = mst_now_ns() + config->wait_ns,
    };
    struct discovery_sweep *sweep = NULL;
    int r = station->arp ? discovery_arp_sweep_new(station->arp, &options, &sweep, err)
                         : discovery_tcp_sweep_new(&options, &sweep, err);
    if (r == 0)
        r = discovery_sweep_run(sweep, err);
    if (r < 0) {
        discovery_sweep_free(sweep);
        return r;
    }
    *ret_sweep = sweep;
    return 0;
}

static int scan(struct station *station, const struct agent_config *config, struct mst_error *err)
{
    struct discovery_sweep *swept = NULL;
    const double start_s = mst_wall_s();
    const uint64_t deadline_ns = mst_now_ns() + config->wait_ns;
    int r = sweep(station, config, &swept, err);
    if (r < 0)
        return r;
    const struct discovery_sweep_result *result = discovery_sweep_result(swept);
    mst_cleanup(mst_freep) struct finding *findings = calloc(result->count + 1, sizeof *findings);
    if (!findings)
        r = mst_error_set(err, -ENOMEM, "scan: no memory");
    for (size_t h = 0; r == 0 && h < result->count; h++)
        if (!result->hosts[h].self)
            greet(station, config->port, deadline_ns, &result->hosts[h], &findings[h]);
    if (r == 0)
        r = config->json ? print_json(result, findings, err) : print_table(result, findings, err);
    if (r == 0 && config->xml) {
        const struct discovery_report report = {
            .program = "muster-agent scan",
            .version = MUSTER_VERSION,
            .start_s = start_s,
            .end_s = mst_wall_s(),
            .port = config->port,
            .result = result,
        };
        r = discovery_ips_xml_write(config->xml, &report, err);
    }
    if (r == 0)
        (void)fprintf(stderr, "%s: %s sweep of %" PRIu32 " addresses, %" PRIu32 " answered, %.0f ms\n",
                      station->choice.reason, discovery_method_text(result->method), result->addresses,
                      result->answered, result->ms);
    discovery_sweep_free(swept);
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
