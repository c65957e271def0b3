/* SPDX-License-Identifier: Apache-2.0 */
/* The ARP sweep: a paced burst of requests while the capture is read, a wait, and again for those that were
 * silent. */
#include "arp.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "sweep_base.h"

#include <stdlib.h>
#include <string.h>

#define QUEUE_FULL_WAIT_NS MST_NS_PER_MS

struct arp_sweep {
    struct discovery_sweep base;
    struct discovery_arp *arp; /* borrowed */
    uint64_t burst_end_ns;     /* waiting for answers until then; 0: still sending */
    uint64_t queue_full_until_ns;
    struct mst_error *err; /* of the process call that is running */
};

static struct arp_sweep *arp_of(struct discovery_sweep *sweep)
{
    return (struct arp_sweep *)sweep; /* the base is the first member */
}

static int arp_sweep_fd(const struct discovery_sweep *sweep)
{
    return ((const struct arp_sweep *)sweep)->arp->fd;
}

/* Answers to earlier bursts' requests are as good as to this one's. */
static int arp_take_reply(void *context, const struct arp_reply *reply)
{
    struct arp_sweep *arp = context;
    struct discovery_sweep *sweep = &arp->base;
    if (!sweep_in_range(sweep, reply->sender_ipv4))
        return 0;
    return sweep_record(sweep, reply->sender_ipv4, reply->sender_mac, DISCOVERY_PORT_UNKNOWN, mst_now_ns(),
                        arp->err);
}

static int arp_sweep_send(struct arp_sweep *arp, uint64_t now_ns, struct mst_error *err)
{
    struct discovery_sweep *sweep = &arp->base;
    if (now_ns < arp->queue_full_until_ns)
        return 0;
    for (uint32_t allowed = sweep_allowance(sweep, now_ns); allowed > 0; allowed--) {
        uint32_t ipv4;
        struct sweep_target *target = sweep_next(sweep, &ipv4);
        if (!target)
            return 0;
        /* Before it is sent: where both ends are on one machine, the answer is there when the call returns.
         */
        const uint64_t sent_ns = mst_now_ns();
        const int r = arp_send(arp->arp, ipv4, err);
        if (r == -EAGAIN) {
            arp->queue_full_until_ns = now_ns + QUEUE_FULL_WAIT_NS;
            return 0;
        }
        if (r < 0)
            return r;
        sweep_probed(sweep, target, sent_ns);
    }
    return 0;
}

static int arp_sweep_process(struct discovery_sweep *sweep, struct mst_error *err)
{
    struct arp_sweep *arp = arp_of(sweep);
    uint32_t next_ipv4;
    arp->err = err;
    int r = arp_receive(arp->arp, arp_take_reply, arp, err);
    if (r < 0)
        return r;
    const uint64_t now_ns = mst_now_ns();
    if (arp->burst_end_ns == 0) {
        r = arp_sweep_send(arp, now_ns, err);
        if (r < 0)
            return r;
        if (!sweep_next(sweep, &next_ipv4))
            arp->burst_end_ns = now_ns + sweep->options.reply_timeout_ms * MST_NS_PER_MS;
        return 0;
    }
    if (now_ns < arp->burst_end_ns)
        return 0;
    arp->burst_end_ns = 0;
    return sweep_next_burst(sweep, now_ns) ? 0 : 1;
}

static uint64_t arp_sweep_wake_ns(const struct discovery_sweep *sweep)
{
    const struct arp_sweep *arp = (const struct arp_sweep *)sweep;
    if (arp->burst_end_ns != 0)
        return arp->burst_end_ns;
    const uint64_t send_ns = sweep_next_send_ns(sweep);
    return send_ns > arp->queue_full_until_ns ? send_ns : arp->queue_full_until_ns;
}

static void arp_sweep_release(struct discovery_sweep *sweep)
{
    (void)sweep; /* the capture is the caller's */
}

int discovery_arp_sweep_new(struct discovery_arp *arp, const struct discovery_sweep_options *options,
                            struct discovery_sweep **ret_sweep, struct mst_error *err)
{
    static const struct sweep_operations operations = {.fd = arp_sweep_fd,
                                                       .wake_ns = arp_sweep_wake_ns,
                                                       .process = arp_sweep_process,
                                                       .release = arp_sweep_release};
    const struct discovery_interface *interface = &options->choice.interface;
    if (interface->index != arp->interface.index || interface->ipv4 != arp->interface.ipv4)
        return mst_error_set(err, -EINVAL, "sweep '%s' with a capture of '%s'", interface->name,
                             arp->interface.name);
    mst_cleanup(mst_freep) struct arp_sweep *sweep = calloc(1, sizeof *sweep);
    if (!sweep)
        return mst_error_set(err, -ENOMEM, "no memory for a sweep");
    int r = sweep_base_init(&sweep->base, &operations, DISCOVERY_METHOD_ARP, options, err);
    if (r < 0)
        return r;
    sweep->arp = arp;
    /* What the capture kept from long ago says nothing of today. */
    r = arp_drain(arp, err);
    if (r < 0) {
        sweep_base_release(&sweep->base);
        return r;
    }
    *ret_sweep = &sweep->base;
    sweep = NULL;
    return 0;
}
