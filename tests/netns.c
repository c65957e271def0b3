/* SPDX-License-Identifier: Apache-2.0 */
#include "netns.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#undef NDEBUG /* a test's checks stay in a release build */
#include <assert.h>

static unsigned peer_count;

int netns_ip(const char *format, ...)
{
    char command[512] = "ip ";
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(command + 3, sizeof command - 3, format, arguments);
    va_end(arguments);
    assert(length > 0 && (size_t)length < sizeof command - 3);
    return system(command); /* fixed texts of the tests only */
}

bool netns_must_work(void)
{
    const char *ci = getenv("CI");
    return ci && ci[0] && strcmp(ci, "false") != 0;
}

bool netns_enter(void)
{
    if (unshare(CLONE_NEWNET) < 0)
        return false;
    return netns_ip("link set lo up") == 0 && netns_ip("link add fabric type bridge") == 0 &&
           netns_ip("link set fabric up") == 0 && netns_ip("link add eth0 type veth peer name eth0p") == 0 &&
           netns_ip("link set eth0p master fabric up") == 0 &&
           netns_ip("addr add 10.9.0.100/24 dev eth0") == 0 && netns_ip("link set eth0 up") == 0;
}

static void wait_for_byte(int fd)
{
    char byte;
    ssize_t got;
    while ((got = read(fd, &byte, 1)) < 0 && errno == EINTR)
        ;
    assert(got == 1);
}

void netns_peer_ready(int ready)
{
    const ssize_t sent = write(ready, "r", 1);
    assert(sent == 1);
}

/* In the child: its namespace, its addresses, its body; ends when the parent closes or dies. */
static void peer_run(const char *address, const char *second, void (*body)(int, int, void *), void *context,
                     int ready, int go)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    assert(unshare(CLONE_NEWNET) == 0);
    netns_peer_ready(ready);
    wait_for_byte(go); /* the link is here now */
    assert(netns_ip("link set lo up") == 0 && netns_ip("addr add %s dev eth0", address) == 0);
    assert(!second || netns_ip("addr add %s dev eth0", second) == 0);
    assert(netns_ip("link set eth0 up") == 0);
    if (body) {
        body(ready, go, context);
    } else {
        struct pollfd stop = {.fd = go, .events = POLLIN};
        netns_peer_ready(ready);
        while (poll(&stop, 1, -1) < 0 && errno == EINTR)
            ;
    }
    _exit(0);
}

struct netns_peer netns_peer_start(const char *address, const char *second,
                                   void (*body)(int ready, int stop, void *context), void *context)
{
    int ready[2], go[2];
    assert(pipe2(ready, O_CLOEXEC) == 0 && pipe2(go, O_CLOEXEC) == 0);
    (void)fflush(NULL);
    const pid_t pid = fork();
    assert(pid >= 0);
    if (pid == 0) {
        (void)close(ready[0]);
        (void)close(go[1]);
        peer_run(address, second, body, context, ready[1], go[0]);
    }
    (void)close(ready[1]);
    (void)close(go[0]);
    wait_for_byte(ready[0]);
    const unsigned number = peer_count++;
    assert(netns_ip("link add p%u type veth peer name eth0 netns %d", number, (int)pid) == 0);
    assert(netns_ip("link set p%u master fabric up", number) == 0);
    assert(write(go[1], "g", 1) == 1);
    wait_for_byte(ready[0]);
    (void)close(ready[0]);
    return (struct netns_peer){.pid = pid, .go = go[1]};
}

void netns_peer_stop(struct netns_peer *peer)
{
    if (peer->pid <= 0)
        return;
    (void)close(peer->go);
    (void)kill(peer->pid, SIGKILL);
    while (waitpid(peer->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    peer->pid = 0;
}
