/* SPDX-License-Identifier: Apache-2.0 */
/* ARP over Ethernet (RFC 826): frames to and from memory. */
#ifndef DISCOVERY_ARP_PACKET_H
#define DISCOVERY_ARP_PACKET_H

#include "muster/discovery.h"

#define ARP_FRAME_BYTES                                                                                      \
    42 /* Ethernet header and ARP packet; drivers pad it to 60 where the medium needs that */

struct arp_reply {
    uint8_t sender_mac[DISCOVERY_MAC_BYTES];
    uint32_t sender_ipv4;
};

/* "Who has `target`? Tell `ipv4`", to everybody. */
void arp_request_put(uint8_t frame[static ARP_FRAME_BYTES], const uint8_t mac[static DISCOVERY_MAC_BYTES],
                     uint32_t ipv4, uint32_t target);

/* True for a well-formed reply to the machine that has `mac` and `ipv4`, from a possible host address and a
 * MAC that can be one machine's. Bytes after the packet are padding. */
bool arp_reply_get(const uint8_t *frame, size_t count, const uint8_t mac[static DISCOVERY_MAC_BYTES],
                   uint32_t ipv4, struct arp_reply *ret_reply);

#endif
