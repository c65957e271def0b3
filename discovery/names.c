/* SPDX-License-Identifier: Apache-2.0 */
/* Names to addresses without waiting: a query that the caller's loop drives, over c-ares, which asks the
 * servers of /etc/resolv.conf (Docker's own in a container) and looks into /etc/hosts. */
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/discovery.h"

#include <ares.h>
#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/time.h>

#define TRY_MS      500 /* of a server, then the next one is asked or the same again */
#define TRIES       2
#define EVENTS      8
#define POLL_CAP_MS 1000

struct discovery_lookup {
    ares_channel channel;
    int epoll_fd;
    uint64_t deadline_ns;
    bool done;
    char name[DISCOVERY_NAME_BYTES];
    struct mst_error fault; /* code 0: none */
    uint32_t ipv4[DISCOVERY_LOOKUP_MAX];
    size_t count;
};

static pthread_once_t library_once = PTHREAD_ONCE_INIT;
static int library_status;

static void library_init(void)
{
    library_status = ares_library_init(ARES_LIB_INIT_ALL);
}

/* The library's sockets go into one epoll set, so that the caller has one descriptor to wait on. */
static void socket_changed(void *context, ares_socket_t fd, int readable, int writable)
{
    struct discovery_lookup *lookup = context;
    struct epoll_event event = {
        .events = (readable ? EPOLLIN : 0U) | (writable ? EPOLLOUT : 0U),
        .data.fd = fd,
    };
    if (!readable && !writable)
        (void)epoll_ctl(lookup->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    else if (epoll_ctl(lookup->epoll_fd, EPOLL_CTL_MOD, fd, &event) < 0)
        (void)epoll_ctl(lookup->epoll_fd, EPOLL_CTL_ADD, fd, &event); /* failing, the deadline ends it */
}

static void add_address(struct discovery_lookup *lookup, uint32_t ipv4)
{
    for (size_t i = 0; i < lookup->count; i++)
        if (lookup->ipv4[i] == ipv4)
            return;
    if (lookup->count < DISCOVERY_LOOKUP_MAX && ipv4 != 0)
        lookup->ipv4[lookup->count++] = ipv4;
}

static void answered(void *context, int status, int timeouts, struct ares_addrinfo *result)
{
    struct discovery_lookup *lookup = context;
    (void)timeouts;
    if (status == ARES_EDESTRUCTION)
        return; /* by us */
    lookup->done = true;
    if (status != ARES_SUCCESS)
        (void)mst_error_set(&lookup->fault, status == ARES_ENOTFOUND ? -ENOENT : -EHOSTUNREACH,
                            "look up '%s': %s", lookup->name, ares_strerror(status));
    for (const struct ares_addrinfo_node *node = result ? result->nodes : NULL; node; node = node->ai_next) {
        struct sockaddr_in address;
        if (node->ai_family != AF_INET || (size_t)node->ai_addrlen < sizeof address)
            continue;
        memcpy(&address, node->ai_addr, sizeof address);
        add_address(lookup, ntohl(address.sin_addr.s_addr));
    }
    if (result)
        ares_freeaddrinfo(result);
}

int discovery_lookup_new(const char *name, uint64_t deadline_ns, struct discovery_lookup **ret_lookup,
                         struct mst_error *err)
{
    const struct ares_addrinfo_hints hints = {.ai_family = AF_INET, .ai_flags = ARES_AI_NOSORT};
    if (strlen(name) >= DISCOVERY_NAME_BYTES)
        return mst_error_set(err, -EINVAL, "look up '%.64s...': a name of more than %d bytes", name,
                             DISCOVERY_NAME_BYTES - 1);
    (void)pthread_once(&library_once, library_init);
    if (library_status != ARES_SUCCESS)
        return mst_error_set(err, -ENOMEM, "look up '%s': %s", name, ares_strerror(library_status));
    struct discovery_lookup *lookup = calloc(1, sizeof *lookup);
    if (!lookup)
        return mst_error_set(err, -ENOMEM, "look up '%s': no memory", name);
    memcpy(lookup->name, name, strlen(name) + 1);
    lookup->deadline_ns = deadline_ns;
    lookup->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct ares_options options = {
        .timeout = TRY_MS, .tries = TRIES, .sock_state_cb = socket_changed, .sock_state_cb_data = lookup};
    const int status = lookup->epoll_fd < 0
                           ? ARES_ENOMEM
                           : ares_init_options(&lookup->channel, &options,
                                               ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB);
    if (status != ARES_SUCCESS) {
        lookup->channel = NULL;
        discovery_lookup_free(lookup);
        return mst_error_set(err, -ENOMEM, "look up '%s': %s", name, ares_strerror(status));
    }
    ares_getaddrinfo(lookup->channel, lookup->name, NULL, &hints, answered, lookup);
    *ret_lookup = lookup;
    return 0;
}

int discovery_lookup_fd(const struct discovery_lookup *lookup)
{
    return lookup->epoll_fd;
}

uint64_t discovery_lookup_wake_ns(const struct discovery_lookup *lookup)
{
    struct timeval wait;
    if (lookup->done)
        return 0;
    const struct timeval *next = ares_timeout(lookup->channel, NULL, &wait);
    if (!next)
        return lookup->deadline_ns;
    const uint64_t next_ns = mst_now_ns() + (uint64_t)next->tv_sec * MST_NS_PER_S +
                             (uint64_t)next->tv_usec * (MST_NS_PER_MS / 1000);
    return next_ns < lookup->deadline_ns ? next_ns : lookup->deadline_ns;
}

int discovery_lookup_process(struct discovery_lookup *lookup, struct mst_error *err)
{
    struct epoll_event events[EVENTS];
    const int ready = lookup->done ? 0 : epoll_wait(lookup->epoll_fd, events, EVENTS, 0);
    for (int e = 0; e < ready; e++)
        ares_process_fd(lookup->channel,
                        events[e].events & (EPOLLIN | EPOLLERR | EPOLLHUP) ? events[e].data.fd
                                                                           : ARES_SOCKET_BAD,
                        events[e].events & EPOLLOUT ? events[e].data.fd : ARES_SOCKET_BAD);
    if (!lookup->done)
        ares_process_fd(lookup->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD); /* time-outs */
    if (!lookup->done && mst_now_ns() >= lookup->deadline_ns) {
        lookup->done = true;
        (void)mst_error_set(&lookup->fault, -ETIMEDOUT, "look up '%s': no answer in time", lookup->name);
    }
    if (!lookup->done)
        return 0;
    if (lookup->fault.code != 0)
        return mst_error_set(err, lookup->fault.code, "%s", lookup->fault.text);
    return 1;
}

int discovery_lookup_run(struct discovery_lookup *lookup, struct mst_error *err)
{
    for (;;) {
        const int r = discovery_lookup_process(lookup, err);
        if (r != 0)
            return r < 0 ? r : 0;
        struct pollfd poll_fd = {.fd = lookup->epoll_fd, .events = POLLIN};
        (void)poll(&poll_fd, 1, mst_ms_until(discovery_lookup_wake_ns(lookup), POLL_CAP_MS));
    }
}

const uint32_t *discovery_lookup_result(const struct discovery_lookup *lookup, size_t *ret_count)
{
    *ret_count = lookup->count;
    return lookup->ipv4;
}

void discovery_lookup_free(struct discovery_lookup *lookup)
{
    if (!lookup)
        return;
    if (lookup->channel)
        ares_destroy(lookup->channel); /* closes its sockets; answered() hears of it */
    mst_closep(&lookup->epoll_fd);
    free(lookup);
}
