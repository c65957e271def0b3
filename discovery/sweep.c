/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "sweep_base.h"

#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define SWEEP_POLL_CAP_MS 1000
#define HOSTS_FIRST       16

/* ARP: a /24 leaves in 13 ms at this rate, which bridges and vswitches take without dropping. TCP: each
 * silent address costs the kernel ARP requests of its own and a place in the neighbour table, hence slower.
 * In both it is the other host's kernel that answers, whatever its processes do: the wait has to cover the
 * network only. */
static const struct method_defaults {
    uint32_t resends, reply_timeout_ms, probes_per_s, min_prefix;
} method_defaults[] = {
    [DISCOVERY_METHOD_ARP] = {1, 40, 20000, DISCOVERY_ARP_MIN_PREFIX},
    [DISCOVERY_METHOD_TCP] = {1, 150, 5000, DISCOVERY_TCP_MIN_PREFIX},
};
/* What may leave in one call, so that answers are taken in between; and how much may be made up for after the
 * caller was away for longer than the pace allows. */
#define PROBES_AT_ONCE 32U
#define PROBES_BEHIND  256U

static void fill_defaults(struct discovery_sweep_options *options, const struct method_defaults *defaults)
{
    if (options->no_resend)
        options->resends = 0;
    else if (options->resends == 0)
        options->resends = defaults->resends;
    if (options->reply_timeout_ms == 0)
        options->reply_timeout_ms = defaults->reply_timeout_ms;
    if (options->probes_per_s == 0)
        options->probes_per_s = defaults->probes_per_s;
    if (options->port == 0)
        options->port = DISCOVERY_PORT;
    if (options->deadline_ns == 0)
        options->deadline_ns = SWEEP_NEVER_NS;
}

/* The range to probe. The network's and broadcast's addresses are those of the interface's own subnet: a part
 * of it that --subnet named may begin and end with real hosts. */
static int set_range(struct discovery_sweep *sweep, uint32_t min_prefix, struct mst_error *err)
{
    char text[MST_IPV4_TEXT_BYTES];
    const struct mst_cidr subnet = sweep->options.choice.subnet;
    const struct discovery_interface *interface = &sweep->options.choice.interface;
    if (subnet.prefix < min_prefix || subnet.prefix > DISCOVERY_MAX_PREFIX)
        return mst_error_set(err, -EINVAL, "sweep %s/%u by %s: from /%u to /%d is possible",
                             mst_ipv4_text(subnet.network, text), subnet.prefix,
                             discovery_method_text(sweep->result.method), min_prefix, DISCOVERY_MAX_PREFIX);
    if (interface->prefix > subnet.prefix || !mst_cidr_contains(subnet, interface->ipv4))
        return mst_error_set(err, -EINVAL, "sweep %s/%u: %s is not attached to the whole of it",
                             mst_ipv4_text(subnet.network, text), subnet.prefix, interface->name);

    const uint32_t own_mask = UINT32_MAX >> interface->prefix; /* prefix is at most 30, and at least 0 */
    const uint32_t own_first = interface->ipv4 & ~own_mask, own_last = interface->ipv4 | own_mask;
    sweep->first_ipv4 = subnet.network;
    sweep->last_ipv4 = subnet.network | UINT32_MAX >> subnet.prefix;
    sweep->first_ipv4 += sweep->first_ipv4 == own_first;
    sweep->last_ipv4 -= sweep->last_ipv4 == own_last;
    sweep->target_count = sweep->last_ipv4 - sweep->first_ipv4 + 1;
    return 0;
}

static int hosts_append(struct discovery_sweep *sweep, const struct discovery_host *host,
                        struct mst_error *err)
{
    struct discovery_sweep_result *result = &sweep->result;
    if (result->count == sweep->host_capacity) {
        const size_t capacity = sweep->host_capacity ? 2 * sweep->host_capacity : HOSTS_FIRST;
        struct discovery_host *hosts = reallocarray(result->hosts, capacity, sizeof *hosts);
        if (!hosts)
            return mst_error_set(err, -ENOMEM, "no memory for %zu hosts", capacity);
        result->hosts = hosts;
        sweep->host_capacity = capacity;
    }
    result->hosts[result->count++] = *host;
    sweep->sorted = false;
    return 0;
}

static int add_self(struct discovery_sweep *sweep, const struct discovery_interface *interface,
                    struct mst_error *err)
{
    struct discovery_host self = {.ipv4 = interface->ipv4,
                                  .self = true,
                                  .has_mac = interface->ethernet,
                                  .port = DISCOVERY_PORT_UNKNOWN};
    memcpy(self.mac, interface->mac, sizeof self.mac);
    const int r = hosts_append(sweep, &self, err);
    if (r == 0)
        sweep->targets[interface->ipv4 - sweep->first_ipv4].host = (uint32_t)sweep->result.count;
    return r;
}

/* All addresses that this machine has in the range: a second interface on the subnet, or a service's virtual
 * address, would answer like a host of its own. */
static int add_selves(struct discovery_sweep *sweep, struct mst_error *err)
{
    size_t count = 0;
    mst_cleanup(mst_freep) struct discovery_interface *list = calloc(DISCOVERY_INTERFACES_MAX, sizeof *list);
    if (!list)
        return mst_error_set(err, -ENOMEM, "no memory for a sweep");
    int r = add_self(sweep, &sweep->options.choice.interface, err);
    if (r == 0)
        r = discovery_interfaces_list(list, DISCOVERY_INTERFACES_MAX, &count, err);
    for (size_t i = 0; r == 0 && i < count; i++)
        if (sweep_in_range(sweep, list[i].ipv4) && sweep->targets[list[i].ipv4 - sweep->first_ipv4].host == 0)
            r = add_self(sweep, &list[i], err);
    return r;
}

int sweep_base_init(struct discovery_sweep *sweep, const struct sweep_operations *operations,
                    enum discovery_method method, const struct discovery_sweep_options *options,
                    struct mst_error *err)
{
    *sweep = (struct discovery_sweep){.operations = operations, .options = *options, .result.method = method};
    fill_defaults(&sweep->options, &method_defaults[method]);
    int r = set_range(sweep, method_defaults[method].min_prefix, err);
    if (r < 0)
        return r;
    if (!sweep_in_range(sweep, options->choice.interface.ipv4))
        return mst_error_set(err, -EINVAL, "sweep from %s: its address is its subnet's first or last",
                             options->choice.interface.name);
    sweep->targets = calloc(sweep->target_count, sizeof *sweep->targets);
    if (!sweep->targets)
        return mst_error_set(err, -ENOMEM, "no memory to sweep %u addresses", sweep->target_count);
    r = add_selves(sweep, err);
    if (r < 0) {
        sweep_base_release(sweep);
        return r;
    }
    sweep->silent = sweep->result.addresses = sweep->target_count - (uint32_t)sweep->result.count;
    return 0;
}

void sweep_base_release(struct discovery_sweep *sweep)
{
    free(sweep->targets);
    free(sweep->result.hosts);
    sweep->targets = NULL;
    sweep->result.hosts = NULL;
}

bool sweep_in_range(const struct discovery_sweep *sweep, uint32_t ipv4)
{
    return ipv4 >= sweep->first_ipv4 && ipv4 <= sweep->last_ipv4;
}

struct sweep_target *sweep_next(struct discovery_sweep *sweep, uint32_t *ret_ipv4)
{
    while (sweep->cursor < sweep->target_count && sweep->targets[sweep->cursor].host != 0)
        sweep->cursor++; /* answered already, or our own */
    if (sweep->cursor == sweep->target_count)
        return NULL;
    *ret_ipv4 = sweep->first_ipv4 + sweep->cursor;
    return &sweep->targets[sweep->cursor];
}

void sweep_probed(struct discovery_sweep *sweep, struct sweep_target *target, uint64_t now_ns)
{
    target->sent_ns = now_ns;
    target->attempts++;
    sweep->cursor++;
    sweep->burst_probes++;
    sweep->result.probes++;
}

bool sweep_next_burst(struct discovery_sweep *sweep, uint64_t now_ns)
{
    if (sweep->burst >= sweep->options.resends || sweep->silent == 0)
        return false;
    sweep->burst++;
    sweep->result.resends++;
    sweep->cursor = 0;
    sweep->burst_probes = 0;
    sweep->pace_start_ns = now_ns;
    return true;
}

static uint64_t probe_interval_ns(const struct discovery_sweep *sweep)
{
    return MST_NS_PER_S / sweep->options.probes_per_s + 1;
}

uint32_t sweep_allowance(struct discovery_sweep *sweep, uint64_t now_ns)
{
    const uint64_t interval_ns = probe_interval_ns(sweep);
    const uint64_t due = 1 + (now_ns - sweep->pace_start_ns) / interval_ns;
    if (due <= sweep->burst_probes)
        return 0;
    const uint64_t behind = due - sweep->burst_probes;
    if (behind > PROBES_BEHIND)
        sweep->pace_start_ns += (behind - PROBES_BEHIND) * interval_ns;
    return behind < PROBES_AT_ONCE ? (uint32_t)behind : PROBES_AT_ONCE;
}

uint64_t sweep_next_send_ns(const struct discovery_sweep *sweep)
{
    return sweep->pace_start_ns + sweep->burst_probes * probe_interval_ns(sweep);
}

int sweep_record(struct discovery_sweep *sweep, uint32_t ipv4, const uint8_t *mac,
                 enum discovery_port_state port, uint64_t now_ns, struct mst_error *err)
{
    assert(sweep_in_range(sweep, ipv4));
    struct sweep_target *target = &sweep->targets[ipv4 - sweep->first_ipv4];
    if (target->host != 0) {
        struct discovery_host *known = &sweep->result.hosts[target->host - 1];
        if (mac && known->has_mac && !known->duplicate && memcmp(known->mac, mac, sizeof known->mac) != 0) {
            known->duplicate = true;
            memcpy(known->other_mac, mac, sizeof known->other_mac);
        }
        return 0;
    }
    struct discovery_host host = {.ipv4 = ipv4, .port = port, .attempts = target->attempts};
    if (target->attempts > 0)
        host.rtt_ns = now_ns - target->sent_ns;
    if (mac) {
        host.has_mac = true;
        memcpy(host.mac, mac, sizeof host.mac);
    }
    const int r = hosts_append(sweep, &host, err);
    if (r < 0)
        return r;
    target->host = (uint32_t)sweep->result.count;
    sweep->silent--;
    sweep->result.answered++;
    if (sweep->options.on_host)
        sweep->options.on_host(sweep->options.context, &host);
    return 0;
}

int discovery_sweep_fd(const struct discovery_sweep *sweep)
{
    return sweep->operations->fd(sweep);
}

uint64_t discovery_sweep_wake_ns(const struct discovery_sweep *sweep)
{
    if (!sweep->started || sweep->finished)
        return 0;
    const uint64_t wake_ns = sweep->operations->wake_ns(sweep);
    return wake_ns < sweep->options.deadline_ns ? wake_ns : sweep->options.deadline_ns;
}

static int sweep_finish(struct discovery_sweep *sweep, bool complete)
{
    sweep->finished = true;
    sweep->result.complete = complete;
    sweep->result.ms = mst_ms_since(sweep->start_ns);
    return 1;
}

int discovery_sweep_process(struct discovery_sweep *sweep, struct mst_error *err)
{
    if (sweep->finished)
        return 1;
    if (!sweep->started) {
        sweep->started = true;
        sweep->start_ns = sweep->pace_start_ns = mst_now_ns();
    }
    const uint32_t answered = sweep->result.answered;
    const int r = sweep->operations->process(sweep, err);
    if (r < 0)
        return sweep_finish(sweep, false), r;
    if (r > 0 || sweep->silent == 0)
        return sweep_finish(sweep, true);
    if (sweep->options.enough && sweep->result.answered != answered &&
        sweep->options.enough(sweep->options.context))
        return sweep_finish(sweep, false);
    if (mst_now_ns() >= sweep->options.deadline_ns)
        return sweep_finish(sweep, false);
    return 0;
}

int discovery_sweep_run(struct discovery_sweep *sweep, struct mst_error *err)
{
    for (;;) {
        const int r = discovery_sweep_process(sweep, err);
        if (r != 0)
            return r < 0 ? r : 0;
        struct pollfd poll_fd = {.fd = discovery_sweep_fd(sweep), .events = POLLIN};
        if (poll(&poll_fd, 1, mst_ms_until(discovery_sweep_wake_ns(sweep), SWEEP_POLL_CAP_MS)) < 0 &&
            errno != EINTR)
            return mst_error_errno(err, -errno, "wait for answers");
    }
}

const struct discovery_sweep_result *discovery_sweep_result(struct discovery_sweep *sweep)
{
    struct discovery_sweep_result *result = &sweep->result;
    if (!sweep->sorted) {
        qsort(result->hosts, result->count, sizeof *result->hosts, discovery_host_compare);
        for (size_t i = 0; i < result->count; i++)
            sweep->targets[result->hosts[i].ipv4 - sweep->first_ipv4].host = (uint32_t)i + 1;
        sweep->sorted = true;
    }
    return result;
}

void discovery_sweep_free(struct discovery_sweep *sweep)
{
    if (!sweep)
        return;
    sweep->operations->release(sweep);
    sweep_base_release(sweep);
    free(sweep);
}
