/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

#include "bytes.h"
#include "muster/cleanup.h"
#include "muster/clock.h"
#include "muster/net.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#define HEADER_BYTES 16

int exec_wire_pair(int ret_fds[static 2], struct mst_error *err)
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ret_fds) < 0)
        return mst_error_errno(err, -errno, "connect to the network part");
    /* The largest message must fit; where it may not be set, a thousand workers do not. */
    const int size = (int)(2 * EXEC_WIRE_MAX_BYTES);
    for (int i = 0; i < 2; i++)
        (void)setsockopt(ret_fds[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    return 0;
}

static int pack(struct mst_buf *packet, const struct exec_wire_message *message)
{
    int r = bytes_put(packet, (uint64_t)message->type, 4);
    if (r == 0)
        r = bytes_put(packet, message->id, 4);
    if (r == 0)
        r = bytes_put(packet, message->number, 4);
    if (r == 0)
        r = bytes_put(packet, message->status, 4);
    if (r == 0 && message->type == EXEC_WIRE_SPAWN)
        r = mst_buf_append(packet, message->text, strlen(message->text) + 1);
    if (r == 0 && message->type == EXEC_WIRE_FACTS)
        r = mst_buf_append(packet, message->facts, message->facts_bytes);
    return r;
}

int exec_wire_send(int fd, const struct exec_wire_message *message, struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf packet = MST_BUF_INIT(EXEC_WIRE_MAX_BYTES);
    int r = pack(&packet, message);
    if (r < 0)
        return mst_error_errno(err, r, "make a message of type %d", (int)message->type);
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof message->fds)];
    } control = {0};
    struct iovec bytes = {packet.bytes, packet.count};
    struct msghdr header = {.msg_iov = &bytes, .msg_iovlen = 1};
    if (message->type == EXEC_WIRE_SPAWN) {
        header.msg_control = control.bytes;
        header.msg_controllen = sizeof control.bytes;
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof message->fds);
        memcpy(CMSG_DATA(rights), message->fds, sizeof message->fds);
    }
    const uint64_t deadline_ns = mst_now_ns() + EXEC_WIRE_SEND_MS * MST_NS_PER_MS;
    for (;;) {
        if (sendmsg(fd, &header, MSG_NOSIGNAL) >= 0)
            return 0;
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN)
            return mst_error_errno(err, -errno, "send a message of type %d", (int)message->type);
        r = mst_wait_fd(fd, POLLOUT, deadline_ns);
        if (r < 0)
            return mst_error_errno(err, r, "send a message of type %d", (int)message->type);
    }
}

/* Descriptors that came along; those beyond what is expected are closed. */
static size_t take_fds(struct msghdr *header, int ret_fds[static EXEC_WIRE_FDS])
{
    size_t count = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        const size_t came = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < came; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (count < EXEC_WIRE_FDS)
                ret_fds[count++] = fd;
            else
                mst_closep(&fd);
        }
    }
    return count;
}

static bool is_fit(const struct exec_wire_message *message, size_t rest, size_t fds)
{
    switch (message->type) {
    case EXEC_WIRE_SPAWN:
        return message->id > 0 && fds == EXEC_WIRE_FDS && message->text[0] != '\0' &&
               strlen(message->text) + 1 == rest && rest <= EXEC_COMMAND_MAX_BYTES;
    case EXEC_WIRE_SIGNAL:
        return message->id > 0 && message->number > 0 && message->number < NSIG && rest == 0 && fds == 0;
    case EXEC_WIRE_FACTS:
        return rest > 0 && fds == 0;
    case EXEC_WIRE_START:
    case EXEC_WIRE_STOP:
    case EXEC_WIRE_END:
    case EXEC_WIRE_STARTED:
    case EXEC_WIRE_EXITED:
    case EXEC_WIRE_STOPPED:
    case EXEC_WIRE_SPAWN_EXITED:
        return message->status <= 255 && rest == 0 && fds == 0;
    default:
        return false;
    }
}

static int unpack(const struct mst_buf *packet, size_t fds, struct exec_wire_message *message,
                  struct mst_error *err)
{
    struct bytes_cursor cursor = {(const uint8_t *)packet->bytes, packet->count, false};
    message->type = (enum exec_wire_type)bytes_take(&cursor, 4);
    message->id = (uint32_t)bytes_take(&cursor, 4);
    message->number = (uint32_t)bytes_take(&cursor, 4);
    message->status = (uint32_t)bytes_take(&cursor, 4);
    message->text = (const char *)cursor.next; /* the buffer has a NUL behind its last byte */
    if (cursor.broken || !is_fit(message, cursor.left, fds))
        return mst_error_set(err, -EBADMSG, "a message of type %d, %zu bytes and %zu descriptors",
                             (int)message->type, packet->count, fds);
    message->facts = cursor.next;
    message->facts_bytes = cursor.left;
    return 1;
}

int exec_wire_receive(int fd, struct mst_buf *buffer, struct exec_wire_message *ret_message,
                      struct mst_error *err)
{
    struct exec_wire_message message = {.fds = {-1, -1, -1}};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof message.fds)];
    } control;
    mst_buf_clear(buffer);
    int r = mst_buf_reserve(buffer, EXEC_WIRE_MAX_BYTES);
    if (r < 0)
        return mst_error_errno(err, r, "read a message");
    struct iovec bytes = {buffer->bytes, EXEC_WIRE_MAX_BYTES};
    struct msghdr header = {.msg_iov = &bytes,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof control.bytes};
    ssize_t got;
    do {
        got = recvmsg(fd, &header, MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return errno == EAGAIN ? 0 : mst_error_errno(err, -errno, "read a message");
    const size_t fds = take_fds(&header, message.fds);
    if (got == 0)
        r = mst_error_set(err, -EPIPE, "the other part is gone");
    else if (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
        r = mst_error_set(err, -EBADMSG, "a message that is too long, or has too many descriptors");
    if (r == 0) {
        buffer->count = (size_t)got;
        buffer->bytes[buffer->count] = '\0';
        r = unpack(buffer, fds, &message, err);
    }
    if (r < 0) {
        for (size_t f = 0; f < EXEC_WIRE_FDS; f++)
            mst_closep(&message.fds[f]);
        return r;
    }
    *ret_message = message;
    return 1;
}
