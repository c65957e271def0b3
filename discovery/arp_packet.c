/* SPDX-License-Identifier: Apache-2.0 */
#include "arp_packet.h"

#include "muster/big_endian.h"

#include <string.h>

enum arp_offset {
    AT_TO = 0, /* Ethernet */
    AT_FROM = 6,
    AT_ETHERTYPE = 12,
    AT_HARDWARE = 14, /* ARP */
    AT_PROTOCOL = 16,
    AT_SIZES = 18, /* of a MAC and of an IPv4 address */
    AT_OPERATION = 20,
    AT_SENDER_MAC = 22,
    AT_SENDER_IPV4 = 28,
    AT_TARGET_MAC = 32,
    AT_TARGET_IPV4 = 38,
};
#define ETHERTYPE_ARP     0x0806
#define ETHERTYPE_IPV4    0x0800
#define HARDWARE_ETHERNET 1
#define SIZES             0x0604
#define OPERATION_REQUEST 1
#define OPERATION_REPLY   2

void arp_request_put(uint8_t frame[static ARP_FRAME_BYTES], const uint8_t mac[static DISCOVERY_MAC_BYTES],
                     uint32_t ipv4, uint32_t target)
{
    memset(frame + AT_TO, 0xff, DISCOVERY_MAC_BYTES);
    memcpy(frame + AT_FROM, mac, DISCOVERY_MAC_BYTES);
    mst_be_put_u16(frame + AT_ETHERTYPE, ETHERTYPE_ARP);
    mst_be_put_u16(frame + AT_HARDWARE, HARDWARE_ETHERNET);
    mst_be_put_u16(frame + AT_PROTOCOL, ETHERTYPE_IPV4);
    mst_be_put_u16(frame + AT_SIZES, SIZES);
    mst_be_put_u16(frame + AT_OPERATION, OPERATION_REQUEST);
    memcpy(frame + AT_SENDER_MAC, mac, DISCOVERY_MAC_BYTES);
    mst_be_put_u32(frame + AT_SENDER_IPV4, ipv4);
    memset(frame + AT_TARGET_MAC, 0, DISCOVERY_MAC_BYTES);
    mst_be_put_u32(frame + AT_TARGET_IPV4, target);
}

static bool mac_is_one_machines(const uint8_t *mac)
{
    static const uint8_t zero[DISCOVERY_MAC_BYTES];
    return (mac[0] & 1) == 0 && memcmp(mac, zero, sizeof zero) != 0; /* bit 0: a group, or everybody */
}

bool arp_reply_get(const uint8_t *frame, size_t count, const uint8_t mac[static DISCOVERY_MAC_BYTES],
                   uint32_t ipv4, struct arp_reply *ret_reply)
{
    if (count < ARP_FRAME_BYTES)
        return false;
    const bool well_formed = mst_be_get_u16(frame + AT_ETHERTYPE) == ETHERTYPE_ARP &&
                             mst_be_get_u16(frame + AT_HARDWARE) == HARDWARE_ETHERNET &&
                             mst_be_get_u16(frame + AT_PROTOCOL) == ETHERTYPE_IPV4 &&
                             mst_be_get_u16(frame + AT_SIZES) == SIZES &&
                             mst_be_get_u16(frame + AT_OPERATION) == OPERATION_REPLY;
    /* The sender's MAC may differ from the frame's: a bridge or VXLAN end that answers for its hosts. */
    const bool to_us = memcmp(frame + AT_TO, mac, DISCOVERY_MAC_BYTES) == 0 &&
                       memcmp(frame + AT_TARGET_MAC, mac, DISCOVERY_MAC_BYTES) == 0 &&
                       mst_be_get_u32(frame + AT_TARGET_IPV4) == ipv4;
    if (!well_formed || !to_us || !mac_is_one_machines(frame + AT_SENDER_MAC))
        return false;
    memcpy(ret_reply->sender_mac, frame + AT_SENDER_MAC, DISCOVERY_MAC_BYTES);
    ret_reply->sender_ipv4 = mst_be_get_u32(frame + AT_SENDER_IPV4);
    return true;
}
