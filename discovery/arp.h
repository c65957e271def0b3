/* SPDX-License-Identifier: Apache-2.0 */
/* The open capture, as the ARP sweep sees it. */
#ifndef DISCOVERY_ARP_H
#define DISCOVERY_ARP_H

#include "arp_packet.h"
#include "muster/sweep.h"

#include <pcap/pcap.h>

struct discovery_arp {
    pcap_t *pcap;                         /* owned; non-blocking */
    struct discovery_interface interface; /* as it was when opened */
    int fd;                               /* pcap's own, for poll */
};

/* What the kernel lets through to the capture: ARP replies to the interface's MAC, in pcap-filter(7)'s words.
 */
#define ARP_FILTER_BYTES 96
void arp_filter_text(const struct discovery_interface *interface, char text[static ARP_FILTER_BYTES]);

/* Hand every waiting reply to `take` (its result <0 ends it and is returned). 0, or a negative errno. */
int arp_receive(struct discovery_arp *arp, int (*take)(void *context, const struct arp_reply *reply),
                void *context, struct mst_error *err);
/* Send one request: 0, -EAGAIN when the queue is full, or another negative errno. */
int arp_send(struct discovery_arp *arp, uint32_t target_ipv4, struct mst_error *err);
/* Throw away what came in before. */
int arp_drain(struct discovery_arp *arp, struct mst_error *err);

#endif
