/* SPDX-License-Identifier: Apache-2.0 */
#include "scan_print.h"

#include "muster/cleanup.h"
#include "muster/json.h"
#include "muster/net.h"
#include "muster/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static int print_agent(struct mst_table *table, const struct scan_finding *finding)
{
    const struct discovery_identity *who = &finding->identity;
    int r = mst_table_cell(table, "%s", who->slot);
    if (r == 0)
        r = mst_table_cell(table, "%s", discovery_role_text(who->role));
    if (r == 0)
        r = mst_table_cell(table, "%s", discovery_state_text(who->state));
    if (r == 0)
        r = mst_table_cell(table, "%" PRIu64, who->view);
    if (r == 0 && who->role == DISCOVERY_ROLE_WORKER)
        return mst_table_cell(table, "step %" PRIu64, who->step);
    return r < 0 ? r : mst_table_cell(table, "%s", "");
}

static int print_other(struct mst_table *table, const struct discovery_host *host,
                       const struct scan_finding *finding)
{
    char mac[DISCOVERY_MAC_TEXT_BYTES];
    int r = 0;
    for (int column = 0; r == 0 && column < 4; column++)
        r = mst_table_cell(table, "-");
    if (r == 0 && host->duplicate)
        return mst_table_cell(table, "%s%sanswers as %s, too", finding->note, finding->note[0] ? "; " : "",
                              discovery_mac_text(host->other_mac, mac));
    return r < 0 ? r : mst_table_cell(table, "%s", finding->note);
}

static const char *port_text(const struct discovery_host *host)
{
    return host->self ? "self" : discovery_port_state_text(host->port);
}

/* Nobody measures the way to this machine itself, nor to where nobody was asked. */
static bool has_rtt(const struct discovery_host *host)
{
    return !host->self && host->rtt_ns > 0;
}

static int print_row(struct mst_table *table, const struct discovery_host *host,
                     const struct scan_finding *finding)
{
    char address[MST_IPV4_TEXT_BYTES], mac[DISCOVERY_MAC_TEXT_BYTES];
    int r = mst_table_cell(table, "%s", mst_ipv4_text(host->ipv4, address));
    if (r == 0)
        r = mst_table_cell(table, "%s", host->has_mac ? discovery_mac_text(host->mac, mac) : "-");
    if (r == 0)
        r = mst_table_cell(table, "%s", port_text(host));
    if (r == 0 && !has_rtt(host))
        r = mst_table_cell(table, "-");
    else if (r == 0)
        r = mst_table_cell(table, "%.2f", (double)host->rtt_ns / 1e6);
    if (r < 0)
        return r;
    return finding->agent ? print_agent(table, finding) : print_other(table, host, finding);
}

int scan_print_table(const struct scan_result *result, struct mst_error *err)
{
    struct mst_table *table = NULL;
    int r = mst_table_new("ADDRESS|MAC|PORT|>RTT ms|SLOT|ROLE|STATE|>VIEW|NOTE", &table, err);
    if (r < 0)
        return r;
    for (size_t h = 0; r == 0 && h < result->swept.count; h++)
        r = print_row(table, &result->swept.hosts[h], &result->findings[h]);
    if (r == 0)
        r = mst_table_print(table, stdout);
    mst_table_free(table);
    return r < 0 ? mst_error_errno(err, r, "print the table") : 0;
}

static void add_agent(cJSON *item, const struct discovery_identity *who)
{
    cJSON_AddStringToObject(item, "role", discovery_role_text(who->role));
    cJSON_AddStringToObject(item, "slot", who->slot);
    cJSON_AddStringToObject(item, "state", discovery_state_text(who->state));
    cJSON_AddNumberToObject(item, "view", (double)who->view);
    cJSON_AddNumberToObject(item, "step", (double)who->step);
}

static cJSON *host_json(const struct discovery_host *host, const struct scan_finding *finding)
{
    char address[MST_IPV4_TEXT_BYTES], mac[DISCOVERY_MAC_TEXT_BYTES];
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "address", mst_ipv4_text(host->ipv4, address));
    if (host->has_mac)
        cJSON_AddStringToObject(item, "mac", discovery_mac_text(host->mac, mac));
    if (host->duplicate)
        cJSON_AddStringToObject(item, "other_mac", discovery_mac_text(host->other_mac, mac));
    cJSON_AddBoolToObject(item, "self", host->self);
    if (has_rtt(host))
        cJSON_AddNumberToObject(item, "rtt_ms", (double)host->rtt_ns / 1e6);
    cJSON_AddStringToObject(item, "port", port_text(host));
    if (finding->agent)
        add_agent(item, &finding->identity);
    else if (finding->note[0])
        cJSON_AddStringToObject(item, "note", finding->note);
    return item;
}

int scan_print_json(const struct scan_result *result, struct mst_error *err)
{
    char address[MST_IPV4_TEXT_BYTES], subnet[MST_IPV4_TEXT_BYTES + 4];
    const struct discovery_choice *choice = &result->choice;
    mst_cleanup(mst_json_deletep) cJSON *json = cJSON_CreateObject();
    (void)snprintf(subnet, sizeof subnet, "%s/%" PRIu32, mst_ipv4_text(choice->subnet.network, address),
                   choice->subnet.prefix);
    cJSON_AddStringToObject(json, "interface", choice->interface.name);
    cJSON_AddStringToObject(json, "subnet", subnet);
    cJSON_AddStringToObject(json, "reason", choice->reason);
    cJSON_AddStringToObject(json, "method", discovery_method_text(result->swept.method));
    if (result->swept.method != DISCOVERY_METHOD_FILE) {
        cJSON_AddNumberToObject(json, "addresses", result->swept.addresses);
        cJSON_AddNumberToObject(json, "answered", result->swept.answered);
        cJSON_AddNumberToObject(json, "ms", result->swept.ms);
    }
    cJSON_AddBoolToObject(json, "complete", result->swept.complete && result->unasked == 0);
    cJSON *hosts = cJSON_AddArrayToObject(json, "hosts");
    for (size_t h = 0; h < result->swept.count; h++)
        cJSON_AddItemToArray(hosts, host_json(&result->swept.hosts[h], &result->findings[h]));
    mst_cleanup(mst_freep) char *text = cJSON_Print(json);
    if (!text || printf("%s\n", text) < 0 || fflush(stdout) != 0)
        return mst_error_set(err, -EIO, "cannot print the result");
    return 0;
}

void scan_print_summary(const struct scan_result *result)
{
    const struct discovery_sweep_result *swept = &result->swept;
    const char *plural = result->agents == 1 ? "" : "s";
    if (swept->method == DISCOVERY_METHOD_FILE)
        (void)fprintf(stderr, "%s: hosts of the file, %zu agent%s\n", result->choice.reason, result->agents,
                      plural);
    else
        (void)fprintf(stderr,
                      "%s: %s sweep of %" PRIu32 " addresses, %" PRIu32 " answered, %zu agent%s, %.0f ms\n",
                      result->choice.reason, discovery_method_text(swept->method), swept->addresses,
                      swept->answered, result->agents, plural, swept->ms);
}
