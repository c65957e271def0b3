/* SPDX-License-Identifier: Apache-2.0 */
/* Do packets of a size come back from an address? One ICMP echo, which must not be taken into pieces on its
 * way (don't fragment), tried a few times. */
#ifndef SWARM_PROBE_H
#define SWARM_PROBE_H

#include "muster/error.h"

#include <stddef.h>
#include <stdint.h>

enum probe_answer {
    PROBE_ANSWERED,
    PROBE_SILENT,     /* lost, there or back, or nobody answers echoes there */
    PROBE_TOO_LARGE,  /* this machine's link, or a router on the way, said so */
    PROBE_NOT_ALLOWED /* this process may send no ICMP: it needs CAP_NET_RAW, or a group in ping_group_range
                       */
};

/* packet_bytes: the whole IP packet, from PROBE_LEAST_BYTES to PROBE_MOST_BYTES. `host` is in host byte
 * order. cancel_fd: readable means stop (-ECANCELED); -1: none. Takes 1 s when nobody answers. */
#define PROBE_LEAST_BYTES 64
#define PROBE_MOST_BYTES  65535
int probe_echo(uint32_t host, size_t packet_bytes, int cancel_fd, enum probe_answer *ret_answer,
               struct mst_error *err);

#endif
