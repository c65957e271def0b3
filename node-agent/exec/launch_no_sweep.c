/* SPDX-License-Identifier: Apache-2.0 */
/* muster/sweep.h without libpcap and libxml2, for muster-launch: no capture can be opened, so that the
 * callers search by TCP, and no XML is written. */
#include "muster/sweep.h"

int discovery_arp_open(const struct discovery_interface *interface, struct discovery_arp **ret_arp,
                       struct mst_error *err)
{
    (void)interface, (void)ret_arp;
    return mst_error_set(err, -ENOTSUP, "this program does not capture packets");
}

void discovery_arp_free(struct discovery_arp *arp)
{
    (void)arp; /* there is none */
}

void discovery_arp_freep(struct discovery_arp **arp)
{
    *arp = NULL;
}

int discovery_arp_sweep_new(struct discovery_arp *arp, const struct discovery_sweep_options *options,
                            struct discovery_sweep **ret_sweep, struct mst_error *err)
{
    (void)arp, (void)options, (void)ret_sweep;
    return mst_error_set(err, -ENOTSUP, "this program does not capture packets");
}

int discovery_ips_xml_write(const char *path, const struct discovery_report *report, struct mst_error *err)
{
    (void)report;
    return mst_error_set(err, -ENOTSUP, "write '%s': muster-agent does that", path);
}

int discovery_ips_xml_read(const char *path, uint16_t port, struct discovery_host **ret_hosts,
                           size_t *ret_count, struct mst_error *err)
{
    (void)port, (void)ret_hosts, (void)ret_count;
    return mst_error_set(err, -ENOTSUP, "read '%s': muster-agent does that", path);
}
