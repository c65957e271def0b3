/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of discovery that need libpcap and libxml2: the ARP sweep, and ips.xml in nmap's vocabulary. A
 * library of its own (muster_sweep), so that a small program can do without both.
 *
 * The capture is opened apart from the sweep: an agent opens it as root, gives root up for good, and only
 * then reads the first byte that came from the network. */
#ifndef MUSTER_SWEEP_H
#define MUSTER_SWEEP_H

#include "muster/discovery.h"

/* An open capture on one interface, filtered to ARP replies to this machine's address of the link. */
struct discovery_arp;
/* -EPERM without CAP_NET_RAW (the caller may go on with the TCP sweep), -ENODEV, -EINVAL for a link without
 * ARP. */
int discovery_arp_open(const struct discovery_interface *interface, struct discovery_arp **ret_arp,
                       struct mst_error *err);
void discovery_arp_free(
    struct discovery_arp *arp); /* NULL is fine; usable with mst_cleanup() through _freep */
void discovery_arp_freep(struct discovery_arp **arp);

/* A sweep over options->choice.subnet, which must be of the interface that was opened. `arp` is borrowed
 * until the sweep is freed and serves one sweep at a time; answers to an earlier sweep's probes count in the
 * next. -EINVAL for a subnet larger than /16 or beyond /30. */
int discovery_arp_sweep_new(struct discovery_arp *arp, const struct discovery_sweep_options *options,
                            struct discovery_sweep **ret_sweep, struct mst_error *err);

/* What a scan found, as a file. */
#define DISCOVERY_XML_MAX_BYTES 67108864 /* 64 MiB: nmap writes about 1 KiB a host */
#define DISCOVERY_XML_MAX_HOSTS 65536

struct discovery_report {
    const char *program; /* "muster-agent scan --subnet 10.10.0.0/24", for the reader of the file */
    const char *version;
    double start_s, end_s;                       /* wall clock */
    uint16_t port;                               /* the agent's */
    const struct discovery_sweep_result *result; /* hosts with a slot are workers */
};

/* Write every host that answered, atomically. */
int discovery_ips_xml_write(const char *path, const struct discovery_report *report, struct mst_error *err);

/* Read ips.xml or a file that nmap -oX wrote: hosts that are up and have an IPv4 address, sorted by it, each
 * once. `slot` is the first hostname (empty: none), `port` the state of TCP `port`. No entity or external
 * file is ever loaded. The caller frees *ret_hosts with free(). -EBADMSG names file and line. */
int discovery_ips_xml_read(const char *path, uint16_t port, struct discovery_host **ret_hosts,
                           size_t *ret_count, struct mst_error *err);

#endif
