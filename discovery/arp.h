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

/* Hand every waiting reply to `take` (its result <0 ends it and is returned). 0, or a negative errno. */
int arp_receive(struct discovery_arp *arp, int (*take)(void *context, const struct arp_reply *reply),
                void *context, struct mst_error *err);
/* Send one request: 0, -EAGAIN when the queue is full, or another negative errno. */
int arp_send(struct discovery_arp *arp, uint32_t target_ipv4, struct mst_error *err);
/* Throw away what came in before. */
int arp_drain(struct discovery_arp *arp, struct mst_error *err);

#endif
