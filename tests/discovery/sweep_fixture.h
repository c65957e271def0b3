/* SPDX-License-Identifier: Apache-2.0 */
/* What the two sweeps' tests share: the network of tests/netns.h with a gateway and listeners of several
 * kinds. */
#ifndef TESTS_SWEEP_FIXTURE_H
#define TESTS_SWEEP_FIXTURE_H

#include "../netns.h"
#include "hello_fixture.h"
#include "muster/clock.h"
#include "muster/discovery.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

static inline int enter_or_skip(void **state)
{
    (void)state;
    if (netns_enter())
        return 0;
    if (netns_must_work())
        fail_msg("no rights to make a network namespace, and CI is set");
    (void)fprintf(stderr, "skipped: no rights to make a network namespace\n");
    _exit(77);
}

static inline struct discovery_choice choose(const char *subnet)
{
    struct mst_cidr cidr;
    struct discovery_choice choice;
    struct mst_error err = MST_ERROR_INIT;
    assert_int_equal(mst_parse_cidr(subnet, &cidr, NULL), 0);
    if (discovery_interface_find(&cidr, &choice, &err) < 0)
        fail_msg("%s", err.text);
    return choice;
}

/* What a peer's listener on the agent's port does to those who connect. */
enum manners { WORKER, GARBAGE, CLOSER, MUTE };
struct listener_plan {
    enum manners manners;
    uint32_t ipv4;
    struct discovery_self self; /* a worker's */
};

static inline void serve_one(int fd, struct listener_plan *plan, uint32_t ipv4, uint16_t port)
{
    struct discovery_hello hello;
    static const char garbage[] = "220 welcome to somebody else's server\r\n";
    switch (plan->manners) {
    case WORKER:
        if (discovery_hello_listener(&hello, &plan->self, NULL, NULL, ipv4, port, NULL) == 0)
            (void)discovery_hello_run(&hello, fd, mst_now_ns() + MST_NS_PER_S, NULL);
        (void)close(fd);
        break;
    case GARBAGE:
        (void)send(fd, garbage, sizeof garbage, MSG_NOSIGNAL);
        (void)close(fd);
        break;
    case CLOSER:
        (void)close(fd);
        break;
    case MUTE:
        break; /* accepted and then forgotten: the process's end closes it */
    }
}

static inline void listener_body(int ready, int stop, void *context)
{
    struct listener_plan *plan = context;
    int listen_fd;
    if (mst_tcp_listen(plan->ipv4, DISCOVERY_PORT, 16, &listen_fd, NULL, NULL) < 0)
        _exit(1);
    netns_peer_ready(ready);
    for (;;) {
        struct pollfd fds[] = {{.fd = listen_fd, .events = POLLIN}, {.fd = stop, .events = POLLIN}};
        uint32_t ipv4 = 0;
        uint16_t port = 0;
        (void)poll(fds, 2, -1);
        if (fds[1].revents)
            return;
        const int fd = mst_tcp_accept(listen_fd, &ipv4, &port);
        if (fd >= 0)
            serve_one(fd, plan, ipv4, port);
    }
}

/* A link that was made a moment ago may not carry yet. */
static inline void wait_until_reachable(uint32_t ipv4)
{
    const uint64_t until_ns = mst_now_ns() + 10 * MST_NS_PER_S;
    int fd = -1, r;
    do
        r = mst_tcp_connect(ipv4, 9, mst_now_ns() + 100 * MST_NS_PER_MS, &fd, NULL);
    while (r != -ECONNREFUSED && mst_now_ns() < until_ns);
    assert_int_equal(r, -ECONNREFUSED);
}

static inline const struct discovery_host *host_at(const struct discovery_sweep_result *result, uint32_t ipv4)
{
    for (size_t i = 0; i < result->count; i++)
        if (result->hosts[i].ipv4 == ipv4)
            return &result->hosts[i];
    return NULL;
}

#endif
