/* SPDX-License-Identifier: Apache-2.0 */
/* Any frame as an ARP reply. */
#include "arp_packet.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static const uint8_t mac[DISCOVERY_MAC_BYTES] = {2, 0, 0, 0, 0, 0x64};
    const struct arp_reply untouched = {.sender_ipv4 = 7};
    struct arp_reply reply = untouched;
    if (!arp_reply_get(bytes, count, mac, 0x0a090064, &reply)) {
        if (memcmp(&reply, &untouched, sizeof reply) != 0)
            abort();
    } else if (count < ARP_FRAME_BYTES || reply.sender_mac[0] & 1 || memcmp(bytes, mac, sizeof mac) != 0) {
        abort();
    }
    return 0;
}
