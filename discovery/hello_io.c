/* SPDX-License-Identifier: Apache-2.0 */
/* The hello over sockets: a step for poll loops, and the blocking forms on top of it. */
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/hello.h"
#include "muster/net.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>

/* Send what waits: 0 when all is out, 1 when the socket is full, or a negative errno. */
static int io_send(struct discovery_hello *hello, int fd)
{
    for (;;) {
        size_t count;
        const void *bytes = discovery_hello_output(hello, &count);
        if (count == 0)
            return 0;
        const ssize_t sent = send(fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0)
            discovery_hello_sent(hello, (size_t)sent);
        else if (errno == EAGAIN)
            return 1;
        else if (errno != EINTR)
            return -errno;
    }
}

/* A socket that is closed with unread bytes resets the connection, and the reset may overtake the refusal:
 * take in what is there first. */
static void io_farewell(struct discovery_hello *hello, int fd)
{
    char scrap[DISCOVERY_HELLO_MESSAGE_BYTES];
    (void)io_send(hello, fd);
    (void)shutdown(fd, SHUT_WR);
    (void)recv(fd, scrap, sizeof scrap, MSG_DONTWAIT);
}

/* Read what the hello wants and not a byte more: 0 to go on, 1 when nothing is there, or a negative errno. */
static int io_receive(struct discovery_hello *hello, int fd, struct mst_error *err)
{
    char bytes[DISCOVERY_HELLO_MESSAGE_BYTES];
    size_t taken;
    const ssize_t received = recv(fd, bytes, discovery_hello_wanted(hello), MSG_DONTWAIT);
    if (received > 0) {
        const int r = discovery_hello_feed(hello, bytes, (size_t)received, &taken, err);
        return r < 0 ? r : 0;
    }
    if (received < 0 && errno == EAGAIN)
        return 1;
    if (received < 0 && errno == EINTR)
        return 0;
    const int r = discovery_hello_closed(hello, err); /* a reset says no more than a close */
    return r < 0 ? r : 0;
}

void discovery_hello_turn_away(int fd, enum discovery_reason reason)
{
    const uint8_t byte = (uint8_t)reason;
    char scrap[DISCOVERY_HELLO_MESSAGE_BYTES];
    /* To read first is right for a second reason, too: see io_farewell(). */
    if (recv(fd, scrap, sizeof scrap, MSG_DONTWAIT) <= 0)
        return;
    (void)send(fd, &byte, sizeof byte, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)shutdown(fd, SHUT_WR);
}

int discovery_hello_io(struct discovery_hello *hello, int fd, struct mst_error *err)
{
    for (;;) {
        const int full = io_send(hello, fd);
        if (full < 0 || hello->status == DISCOVERY_HELLO_FAILED)
            return discovery_hello_closed(hello, err);
        if (hello->status == DISCOVERY_HELLO_DONE)
            return full ? DISCOVERY_HELLO_GOING : DISCOVERY_HELLO_DONE;
        const int r = io_receive(hello, fd, err);
        if (r < 0) {
            io_farewell(hello, fd);
            return r;
        }
        if (r > 0)
            return DISCOVERY_HELLO_GOING;
    }
}

short discovery_hello_events(const struct discovery_hello *hello)
{
    size_t count;
    short events = 0;
    (void)discovery_hello_output(hello, &count);
    if (count > 0)
        events |= POLLOUT;
    if (discovery_hello_wanted(hello) > 0)
        events |= POLLIN;
    return events;
}

int discovery_hello_run(struct discovery_hello *hello, int fd, uint64_t deadline_ns, struct mst_error *err)
{
    char address[MST_IPV4_TEXT_BYTES];
    const uint64_t start_ns = mst_now_ns();
    for (;;) {
        const int status = discovery_hello_io(hello, fd, err);
        if (status != DISCOVERY_HELLO_GOING)
            return status < 0 ? status : 0;
        const int r = mst_wait_fd(fd, discovery_hello_events(hello), deadline_ns);
        if (r == -ETIMEDOUT)
            return mst_error_set(
                err, r, "hello %s %s:%u: no answer in %.0f ms", hello->session.dialer ? "to" : "from",
                mst_ipv4_text(hello->peer_ipv4, address), (unsigned)hello->peer_port, mst_ms_since(start_ns));
        if (r < 0)
            return mst_error_errno(err, r, "hello with %s:%u", mst_ipv4_text(hello->peer_ipv4, address),
                                   (unsigned)hello->peer_port);
    }
}

/* One try with one key. */
static int dial_with(uint32_t ipv4, uint16_t port, const struct discovery_self *self, size_t key_index,
                     enum discovery_purpose purpose, uint64_t deadline_ns, int *ret_fd,
                     struct discovery_session *ret_session, enum discovery_reason *ret_reason,
                     struct mst_error *err)
{
    mst_cleanup(discovery_hello_release) struct discovery_hello hello = {0};
    mst_cleanup(mst_closep) int fd = -1;
    int r = discovery_hello_dialer_with(&hello, self, key_index, purpose, ipv4, port, err);
    if (r == 0)
        r = mst_tcp_connect_within(ipv4, port, self->segment_bytes, deadline_ns, &fd, err);
    if (r == 0)
        r = mst_tcp_tune(fd, 0, err);
    if (r == 0)
        r = discovery_hello_run(&hello, fd, deadline_ns, err);
    *ret_reason = hello.reason;
    if (r < 0)
        return r;
    *ret_session = hello.session;
    *ret_fd = fd;
    fd = -1;
    return 0;
}

int discovery_hello_dial(uint32_t ipv4, uint16_t port, const struct discovery_self *self,
                         enum discovery_purpose purpose, uint64_t deadline_ns, int *ret_fd,
                         struct discovery_session *ret_session, enum discovery_reason *ret_reason,
                         struct mst_error *err)
{
    enum discovery_reason reason = DISCOVERY_REASON_NONE;
    int r = -EINVAL;
    for (size_t key = 0; key < self->key_count; key++) {
        r = dial_with(ipv4, port, self, key, purpose, deadline_ns, ret_fd, ret_session, &reason, err);
        if (reason != DISCOVERY_REASON_KEY)
            break;
    }
    if (ret_reason)
        *ret_reason = reason;
    return r;
}
