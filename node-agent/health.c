/* SPDX-License-Identifier: Apache-2.0 */
#include "health.h"

#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/log.h"
#include "muster/net.h"

#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define HEALTH_BACKLOG 8
#define ACCEPTS_A_TURN 4
#define HEALTH_ASK_MS  2000

struct health {
    struct loop *loop;
    int fd;
    health_describe *describe;
    void *context;
};

static socklen_t health_address(uint16_t port, struct sockaddr_un *ret_address)
{
    *ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    /* A leading NUL makes it abstract; the name is not NUL-terminated. */
    const int length = snprintf(ret_address->sun_path + 1, sizeof ret_address->sun_path - 1,
                                "muster-agent/%u", (unsigned)port);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static void answer(void *context, uint32_t events)
{
    struct health *health = context;
    (void)events;
    /* Anybody in this network namespace can ask: what is left makes the listener readable in the next turn.
     */
    for (int accepted = 0; accepted < ACCEPTS_A_TURN; accepted++) {
        mst_cleanup(mst_closep) int fd = accept4(health->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (fd < 0) {
            if (errno == EAGAIN)
                return;
            mst_log_warn("health", "cannot accept a question: %s", strerrordesc_np(errno));
            loop_rest(health->loop, health->fd, LOOP_REST_NS);
            return;
        }
        struct ucred asker;
        socklen_t asker_bytes = sizeof asker;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &asker, &asker_bytes) < 0 ||
            (asker.uid != 0 && asker.uid != geteuid()))
            continue;
        char text[HEALTH_TEXT_BYTES];
        health->describe(health->context, text);
        /* A new socket's buffer takes so little at once; whoever does not read it loses it. */
        if (send(fd, text, strlen(text), MSG_NOSIGNAL) < 0)
            mst_log_debug("health", "answer not taken: %s", strerrordesc_np(errno));
    }
}

int health_new(struct loop *loop, uint16_t port, health_describe *describe, void *context,
               struct health **ret_health, struct mst_error *err)
{
    struct health *health = calloc(1, sizeof *health);
    if (!health)
        return mst_error_set(err, -ENOMEM, "answer health checks: no memory");
    *health = (struct health){.loop = loop, .describe = describe, .context = context};
    struct sockaddr_un address;
    const socklen_t address_bytes = health_address(port, &address);
    health->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (health->fd < 0 || bind(health->fd, (const struct sockaddr *)&address, address_bytes) < 0 ||
        listen(health->fd, HEALTH_BACKLOG) < 0) {
        const int code = -errno;
        health_free(health);
        return mst_error_errno(err, code, "answer health checks of port %u", (unsigned)port);
    }
    const int r = loop_add(loop, health->fd, EPOLLIN, answer, health, err);
    if (r < 0) {
        health_free(health);
        return r;
    }
    *ret_health = health;
    return 0;
}

void health_free(struct health *health)
{
    if (!health)
        return;
    loop_remove(health->loop, health->fd);
    mst_closep(&health->fd);
    free(health);
}

int health_ask(uint16_t port, char ret_text[static HEALTH_TEXT_BYTES], struct mst_error *err)
{
    struct sockaddr_un address;
    const socklen_t address_bytes = health_address(port, &address);
    mst_cleanup(mst_closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, address_bytes) < 0)
        return mst_error_errno(err, -errno, "no agent of port %u answers here", (unsigned)port);

    const uint64_t deadline_ns = mst_now_ns() + HEALTH_ASK_MS * MST_NS_PER_MS;
    size_t count = 0;
    for (;;) {
        const int r = mst_wait_fd(fd, POLLIN, deadline_ns);
        if (r < 0)
            return mst_error_errno(err, r, "the agent of port %u does not answer", (unsigned)port);
        const ssize_t got = recv(fd, ret_text + count, HEALTH_TEXT_BYTES - 1 - count, 0);
        if (got < 0)
            return mst_error_errno(err, -errno, "ask the agent of port %u", (unsigned)port);
        if (got == 0)
            break;
        count += (size_t)got;
    }
    ret_text[count] = '\0';
    return count > 0 ? 0
                     : mst_error_set(err, -EACCES, "the agent of port %u refused to answer this user",
                                     (unsigned)port);
}
