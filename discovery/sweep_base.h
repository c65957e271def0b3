/* SPDX-License-Identifier: Apache-2.0 */
/* What the ARP and the TCP sweep share: the table of targets, the hosts found, early stop and deadline. Each
 * method embeds struct discovery_sweep as its first member and brings its own operations. */
#ifndef DISCOVERY_SWEEP_BASE_H
#define DISCOVERY_SWEEP_BASE_H

#include "muster/discovery.h"

#define SWEEP_NEVER_NS UINT64_MAX

/* One address of the subnet, by its distance from the first. */
struct sweep_target {
    uint64_t sent_ns; /* last probe */
    uint32_t host;    /* index in result.hosts + 1; 0: silent so far */
    uint32_t attempts;
};

struct sweep_operations {
    int (*fd)(const struct discovery_sweep *sweep);
    uint64_t (*wake_ns)(const struct discovery_sweep *sweep);
    /* Move on: 0, 1 when all bursts are over and waited for, or a negative errno. */
    int (*process)(struct discovery_sweep *sweep, struct mst_error *err);
    void (*release)(struct discovery_sweep *sweep);
};

struct discovery_sweep {
    const struct sweep_operations *operations;
    struct discovery_sweep_options options; /* defaults filled in */
    struct discovery_sweep_result result;
    struct sweep_target *targets; /* first_ipv4 to last_ipv4 */
    uint32_t first_ipv4, last_ipv4, target_count;
    uint32_t silent; /* targets without an answer, own address not counted */
    uint32_t burst;  /* 0: the first */
    uint32_t cursor; /* next target that this burst looks at */
    uint32_t burst_probes;
    uint64_t start_ns;
    uint64_t pace_start_ns; /* when this burst's first probe was due */
    size_t host_capacity;
    bool started, finished, sorted;
};

/* Check options, fill in defaults and make the table. On an error nothing is held. */
int sweep_base_init(struct discovery_sweep *sweep, const struct sweep_operations *operations,
                    enum discovery_method method, const struct discovery_sweep_options *options,
                    struct mst_error *err);
void sweep_base_release(struct discovery_sweep *sweep);

bool sweep_in_range(const struct discovery_sweep *sweep, uint32_t ipv4);

/* The next target to be probed in this burst, or NULL when the burst is over; *ret_ipv4 is its address. Does
 * not move on: sweep_probed() does. */
struct sweep_target *sweep_next(struct discovery_sweep *sweep, uint32_t *ret_ipv4);
void sweep_probed(struct discovery_sweep *sweep, struct sweep_target *target, uint64_t now_ns);
/* Begin another burst: false when none is left or nobody is silent. */
bool sweep_next_burst(struct discovery_sweep *sweep, uint64_t now_ns);
/* How many probes the rate allows now, and when the next is due. */
uint32_t sweep_allowance(struct discovery_sweep *sweep, uint64_t now_ns);
uint64_t sweep_next_send_ns(const struct discovery_sweep *sweep);

/* An answer: `mac` may be NULL. -ENOMEM is the only error. */
int sweep_record(struct discovery_sweep *sweep, uint32_t ipv4, const uint8_t *mac,
                 enum discovery_port_state port, uint64_t now_ns, struct mst_error *err);

#endif
