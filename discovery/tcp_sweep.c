/* SPDX-License-Identifier: Apache-2.0 */
/* The sweep that needs no rights: a connection to the agent's port of each address. An answer of either kind
 * (open or refused) shows that somebody is there. An address without a host costs the kernel a place in its
 * neighbour table, which all containers of a machine share, for some seconds: hence the limits on subnet,
 * attempts in flight and addresses without an answer. */
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "sweep_base.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define EVENTS_AT_ONCE 64
/* How long to wait for a free descriptor or port when the process or machine has none left. */
#define SHORTAGE_WAIT_NS (5 * MST_NS_PER_MS)

/* The kernel asks three times for an address, a second apart, whether or not anybody still waits for it. */
#define KERNEL_ASKS_NS (3 * MST_NS_PER_S)

struct tcp_attempt {
    int fd; /* -1: free */
    uint32_t ipv4;
    uint64_t deadline_ns;
};

struct tcp_sweep {
    struct discovery_sweep base;
    int epoll_fd;
    size_t in_flight;
    uint64_t shortage_until_ns; /* do not try to connect before */
    /* Targets that were probed, oldest first, in a ring; those that answered are dropped as they come up. */
    struct tcp_probe {
        uint32_t target;
        uint64_t sent_ns;
    } unresolved[DISCOVERY_TCP_UNRESOLVED];
    size_t unresolved_first, unresolved_count;
    struct tcp_attempt attempts[DISCOVERY_TCP_IN_FLIGHT];
};

/* The base is the first member. */
static struct tcp_sweep *tcp_of(struct discovery_sweep *sweep)
{
    return (struct tcp_sweep *)sweep;
}

static int tcp_fd(const struct discovery_sweep *sweep)
{
    return ((const struct tcp_sweep *)sweep)->epoll_fd;
}

static void attempt_end(struct tcp_sweep *tcp, struct tcp_attempt *attempt)
{
    mst_closep(&attempt->fd); /* leaves the epoll set as well */
    tcp->in_flight--;
}

/* From our address of the chosen interface, so that a second interface on the same subnet is not used
 * instead. */
static int connect_from(uint32_t from_ipv4, uint32_t to_ipv4, uint16_t port, int *ret_fd)
{
    const int on = 1;
    const struct linger reset = {.l_onoff = 1, .l_linger = 0}; /* no TIME_WAIT for thousands of probes */
    const struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(from_ipv4)};
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(to_ipv4)};
    mst_cleanup(mst_closep) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset) < 0 ||
        bind(fd, (const struct sockaddr *)&from, sizeof from) < 0 ||
        (connect(fd, (const struct sockaddr *)&to, sizeof to) < 0 && errno != EINPROGRESS))
        return -errno;
    *ret_fd = fd;
    fd = -1;
    return 0;
}

static bool is_shortage(int code)
{
    return code == -EMFILE || code == -ENFILE || code == -ENOBUFS || code == -ENOMEM || code == -EAGAIN ||
           code == -EADDRNOTAVAIL;
}

/* What a finished or failed connect says of the host. Unreachable means that nobody answered ARP. */
static int attempt_judge(struct tcp_sweep *tcp, uint32_t ipv4, int result, uint64_t now_ns,
                         struct mst_error *err)
{
    if (result == 0)
        return sweep_record(&tcp->base, ipv4, NULL, DISCOVERY_PORT_OPEN, now_ns, err);
    if (result == -ECONNREFUSED || result == -ECONNRESET)
        return sweep_record(&tcp->base, ipv4, NULL, DISCOVERY_PORT_CLOSED, now_ns, err);
    return 0;
}

static int tcp_take_answers(struct tcp_sweep *tcp, struct mst_error *err)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    int ready;
    do {
        ready = epoll_wait(tcp->epoll_fd, events, EVENTS_AT_ONCE, 0);
        if (ready < 0 && errno != EINTR)
            return mst_error_errno(err, -errno, "wait for connections");
        const uint64_t now_ns = mst_now_ns();
        for (int i = 0; i < ready; i++) {
            struct tcp_attempt *attempt = &tcp->attempts[events[i].data.u32];
            const uint32_t ipv4 = attempt->ipv4;
            const int result = mst_tcp_connect_result(attempt->fd);
            attempt_end(tcp, attempt); /* before the callback: it may want to connect, too */
            const int r = attempt_judge(tcp, ipv4, result, now_ns, err);
            if (r < 0)
                return r;
        }
    } while (ready == EVENTS_AT_ONCE);
    return 0;
}

static void tcp_drop_silent(struct tcp_sweep *tcp, uint64_t now_ns)
{
    for (size_t i = 0; i < DISCOVERY_TCP_IN_FLIGHT; i++)
        if (tcp->attempts[i].fd >= 0 && tcp->attempts[i].deadline_ns <= now_ns)
            attempt_end(tcp, &tcp->attempts[i]);
}

static int attempt_start(struct tcp_sweep *tcp, struct tcp_attempt *attempt, uint32_t ipv4, uint64_t now_ns)
{
    const struct discovery_sweep_options *options = &tcp->base.options;
    mst_cleanup(mst_closep) int fd = -1;
    const int r = connect_from(options->choice.interface.ipv4, ipv4, options->port, &fd);
    if (r < 0)
        return r;
    struct epoll_event event = {.events = EPOLLOUT, .data.u32 = (uint32_t)(attempt - tcp->attempts)};
    if (epoll_ctl(tcp->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        return -errno;
    *attempt = (struct tcp_attempt){
        .fd = fd, .ipv4 = ipv4, .deadline_ns = now_ns + options->reply_timeout_ms * MST_NS_PER_MS};
    fd = -1;
    tcp->in_flight++;
    return 0;
}

static struct tcp_attempt *free_attempt(struct tcp_sweep *tcp)
{
    for (size_t i = 0; i < DISCOVERY_TCP_IN_FLIGHT; i++)
        if (tcp->attempts[i].fd < 0)
            return &tcp->attempts[i];
    return NULL;
}

/* Drop what is settled from the ring's beginning. */
static void tcp_resolve(struct tcp_sweep *tcp, uint64_t now_ns)
{
    while (tcp->unresolved_count > 0) {
        const struct tcp_probe *oldest = &tcp->unresolved[tcp->unresolved_first];
        if (tcp->base.targets[oldest->target].host == 0 && now_ns < oldest->sent_ns + KERNEL_ASKS_NS)
            return;
        tcp->unresolved_first = (tcp->unresolved_first + 1) % DISCOVERY_TCP_UNRESOLVED;
        tcp->unresolved_count--;
    }
}

static void tcp_remember(struct tcp_sweep *tcp, uint32_t target, uint64_t now_ns)
{
    const size_t at = (tcp->unresolved_first + tcp->unresolved_count++) % DISCOVERY_TCP_UNRESOLVED;
    tcp->unresolved[at] = (struct tcp_probe){.target = target, .sent_ns = now_ns};
}

static int tcp_send(struct tcp_sweep *tcp, uint64_t now_ns, struct mst_error *err)
{
    tcp_resolve(tcp, now_ns);
    if (now_ns < tcp->shortage_until_ns)
        return 0;
    for (uint32_t allowed = sweep_allowance(&tcp->base, now_ns); allowed > 0; allowed--) {
        uint32_t ipv4;
        struct sweep_target *target = sweep_next(&tcp->base, &ipv4);
        struct tcp_attempt *attempt = free_attempt(tcp);
        if (!target || !attempt || tcp->unresolved_count == DISCOVERY_TCP_UNRESOLVED)
            return 0;
        int r = attempt_start(tcp, attempt, ipv4, now_ns);
        if (is_shortage(r)) {
            /* Go on with fewer at a time; the sweep's deadline ends it if that never gets better. */
            tcp->shortage_until_ns = now_ns + SHORTAGE_WAIT_NS;
            return 0;
        }
        sweep_probed(&tcp->base, target, now_ns);
        tcp_remember(tcp, ipv4 - tcp->base.first_ipv4, now_ns);
        if (r < 0 && (r = attempt_judge(tcp, ipv4, r, now_ns, err)) < 0)
            return r;
    }
    return 0;
}

static int tcp_process(struct discovery_sweep *sweep, struct mst_error *err)
{
    struct tcp_sweep *tcp = tcp_of(sweep);
    uint32_t next_ipv4;
    int r = tcp_take_answers(tcp, err);
    if (r < 0)
        return r;
    const uint64_t now_ns = mst_now_ns();
    tcp_drop_silent(tcp, now_ns);
    r = tcp_send(tcp, now_ns, err);
    if (r < 0)
        return r;
    if (tcp->in_flight > 0 || sweep_next(sweep, &next_ipv4))
        return 0;
    return sweep_next_burst(sweep, now_ns) ? 0 : 1;
}

static uint64_t tcp_wake_ns(const struct discovery_sweep *sweep)
{
    const struct tcp_sweep *tcp = (const struct tcp_sweep *)sweep;
    uint64_t wake_ns = SWEEP_NEVER_NS;
    for (size_t i = 0; i < DISCOVERY_TCP_IN_FLIGHT; i++)
        if (tcp->attempts[i].fd >= 0 && tcp->attempts[i].deadline_ns < wake_ns)
            wake_ns = tcp->attempts[i].deadline_ns;
    if (sweep->cursor < sweep->target_count && tcp->in_flight < DISCOVERY_TCP_IN_FLIGHT) {
        uint64_t send_ns = sweep_next_send_ns(sweep);
        if (send_ns < tcp->shortage_until_ns)
            send_ns = tcp->shortage_until_ns;
        const uint64_t resolved_ns = tcp->unresolved[tcp->unresolved_first].sent_ns + KERNEL_ASKS_NS;
        if (tcp->unresolved_count == DISCOVERY_TCP_UNRESOLVED && send_ns < resolved_ns)
            send_ns = resolved_ns;
        wake_ns = send_ns < wake_ns ? send_ns : wake_ns;
    }
    return wake_ns;
}

static void tcp_release(struct discovery_sweep *sweep)
{
    struct tcp_sweep *tcp = tcp_of(sweep);
    for (size_t i = 0; i < DISCOVERY_TCP_IN_FLIGHT; i++)
        mst_closep(&tcp->attempts[i].fd);
    mst_closep(&tcp->epoll_fd);
}

int discovery_tcp_sweep_new(const struct discovery_sweep_options *options, struct discovery_sweep **ret_sweep,
                            struct mst_error *err)
{
    static const struct sweep_operations operations = {
        .fd = tcp_fd, .wake_ns = tcp_wake_ns, .process = tcp_process, .release = tcp_release};
    mst_cleanup(mst_freep) struct tcp_sweep *tcp = malloc(sizeof *tcp);
    if (!tcp)
        return mst_error_set(err, -ENOMEM, "no memory for a sweep");
    const int r = sweep_base_init(&tcp->base, &operations, DISCOVERY_METHOD_TCP, options, err);
    if (r < 0)
        return r;
    tcp->in_flight = 0;
    tcp->shortage_until_ns = 0;
    tcp->unresolved_first = tcp->unresolved_count = 0;
    for (size_t i = 0; i < DISCOVERY_TCP_IN_FLIGHT; i++)
        tcp->attempts[i].fd = -1;
    tcp->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (tcp->epoll_fd < 0) {
        sweep_base_release(&tcp->base);
        return mst_error_errno(err, -errno, "prepare a TCP sweep");
    }
    *ret_sweep = &tcp->base;
    tcp = NULL;
    return 0;
}
