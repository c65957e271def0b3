/* SPDX-License-Identifier: Apache-2.0 */
/* Throw-away networks for tests: the test program moves into a network namespace of its own, and its peers
 * are child processes with one each, on a bridge that exists only there. Nothing of it can reach another
 * machine, and all of it goes away with the processes. Links are made with ip(8).
 *
 *     test program's namespace                         a peer's namespace
 *     eth0 10.9.0.100/24 -- veth -- fabric (bridge) -- veth -- eth0 10.9.0.x/24 */
#ifndef TESTS_NETNS_H
#define TESTS_NETNS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define NETNS_SUBNET "10.9.0.0/24"
#define NETNS_IPV4   0x0a090064U /* eth0 here: 10.9.0.100 */
#define NETNS_OF(x)  (0x0a090000U + (uint32_t)(x))

/* Enter a fresh namespace with lo, eth0 and the bridge in it. True when done; false when there are no rights,
 * which the caller turns into a skip, or into a failure where CI is set: netns_must_work(). */
bool netns_enter(void);
bool netns_must_work(void);

/* Run `ip <arguments>`; 0 when it went well. */
int netns_ip(const char *format, ...) __attribute__((format(printf, 1, 2)));

struct netns_peer {
    pid_t pid;
    int go; /* closing it ends the peer */
};

/* Start a peer with the given addresses ("10.9.0.1/24"; `second` may be NULL). In it, once the network is up,
 * `body` runs (NULL: nothing, the kernel alone answers): it calls netns_peer_ready(ready) when its sockets
 * are there and returns when `stop` becomes readable. The call returns when the peer is ready. Asserts on
 * failure. */
struct netns_peer netns_peer_start(const char *address, const char *second,
                                   void (*body)(int ready, int stop, void *context), void *context);
/* For a body: say that the preparations are done. */
void netns_peer_ready(int ready);
void netns_peer_stop(struct netns_peer *peer);

#endif
