/* SPDX-License-Identifier: Apache-2.0 */
/* Words for what a sweep found, and its order. */
#include "muster/cleanup.h"
#include "muster/discovery.h"

#include <stdio.h>

const char *discovery_method_text(enum discovery_method method)
{
    static const char *const texts[] = {
        [DISCOVERY_METHOD_ARP] = "arp",
        [DISCOVERY_METHOD_TCP] = "tcp",
        [DISCOVERY_METHOD_FILE] = "file",
    };
    return (size_t)method < MST_ARRAY_COUNT(texts) ? texts[method] : "unknown";
}

const char *discovery_port_state_text(enum discovery_port_state state)
{
    static const char *const texts[] = {
        [DISCOVERY_PORT_UNKNOWN] = "unknown",
        [DISCOVERY_PORT_OPEN] = "open",
        [DISCOVERY_PORT_CLOSED] = "closed",
        [DISCOVERY_PORT_SILENT] = "silent",
    };
    return (size_t)state < MST_ARRAY_COUNT(texts) ? texts[state] : "unknown";
}

const char *discovery_mac_text(const uint8_t mac[static DISCOVERY_MAC_BYTES],
                               char text[static DISCOVERY_MAC_TEXT_BYTES])
{
    (void)snprintf(text, DISCOVERY_MAC_TEXT_BYTES, "%02x:%02x:%02x:%02x:%02x:%02x", (unsigned)mac[0],
                   (unsigned)mac[1], (unsigned)mac[2], (unsigned)mac[3], (unsigned)mac[4], (unsigned)mac[5]);
    return text;
}

int discovery_host_compare(const void *left, const void *right)
{
    const struct discovery_host *a = left, *b = right;
    return (a->ipv4 > b->ipv4) - (a->ipv4 < b->ipv4);
}
