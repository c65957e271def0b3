/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as what another node's monitor says: the text format, and what the autoscaler and the table of all
 * nodes make of it; and as a place where a monitor is. */
#include "../../monitoring/nodes.h" /* swarm/ has one of this name, too */
#include "autoscale/policy.h"
#include "autoscale/usage.h"
#include "muster/cleanup.h"
#include "muster/json.h"
#include "muster/peers.h"

#include <stdlib.h>
#include <string.h>

#define ID "1111111111111111111111111111111111111111111111111111111111111111"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static const char services[] =
    "[{\"ID\":\"s1\",\"Spec\":{\"Name\":\"st_web\",\"Labels\":{\"muster.autoscale.max\":\"9\"},"
    "\"Mode\":{\"Replicated\":{\"Replicas\":1}}}},"
    "{\"ID\":\"s2\",\"Spec\":{\"Name\":\"st_q\",\"Labels\":{\"muster.autoscale.max\":\"9\","
    "\"muster.autoscale.metric\":\"gauge:q\",\"muster.autoscale.target\":\"2\"},"
    "\"Mode\":{\"Replicated\":{\"Replicas\":1}}}}]";
static const char tasks[] =
    "[{\"ID\":\"t1\",\"ServiceID\":\"s1\",\"DesiredState\":\"running\",\"Status\":{\"State\":\"running\","
    "\"ContainerStatus\":{\"ContainerID\":\"" ID "\"}}},{\"ID\":\"t2\",\"ServiceID\":\"s2\",\"DesiredState\":"
    "\"running\",\"Status\":{\"State\":\"running\",\"ContainerStatus\":{\"ContainerID\":\"x\"}}}]";

static void scale(const char *text)
{
    mst_cleanup(mst_json_deletep) cJSON *service_list = cJSON_Parse(services),
                                        *task_list = cJSON_Parse(tasks);
    mst_cleanup(autoscale_view_release) struct autoscale_view view = {0};
    mst_cleanup(autoscale_usage_release) struct autoscale_usage usage = {0};

    if (autoscale_view_make(service_list, task_list, "st", &view, NULL) < 0)
        return;
    for (uint64_t round = 1; round <= 3; round++) {
        if (autoscale_usage_begin(&usage, &view, NULL) < 0)
            return;
        (void)autoscale_usage_take(&usage, text, round * 1000000000, NULL);
        for (size_t i = 0; i < view.count; i++) {
            struct autoscale_memory memory = {.since_ns = 0};
            struct autoscale_input input = {.now_ns = round * 1000000000, .replicas = 1, .running = 1};
            struct autoscale_decision decision;
            char missing[200] = "";
            if (!autoscale_usage_value(&usage, &view, &view.items[i], input.now_ns, &input.value, missing))
                input.missing = missing;
            autoscale_decide(&view.items[i].policy, &input, &memory, &decision);
            if (decision.to > 9 || decision.to < 1)
                abort(); /* beyond what the labels allow, whatever a monitor says */
        }
    }
    if (usage.gauge_count > 1 || usage.container_count > 1)
        abort(); /* what nobody asked for is kept */
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    char *text = malloc(count + 1);
    struct nodes_page page = {.count = 0};

    if (!text)
        return 0;
    if (count > 0)
        memcpy(text, bytes, count);
    text[count] = '\0';
    if (nodes_page_read(text, &page, NULL) == 0) {
        for (size_t i = 1; i < page.count; i++) {
            if (strcmp(page.items[i - 1].id, page.items[i].id) >= 0)
                abort(); /* a look-up would miss some */
        }
        nodes_page_release(&page);
    }
    scale(text);
    (void)peers_check(text, NULL);
    free(text);
    return 0;
}
