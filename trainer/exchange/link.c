/* SPDX-License-Identifier: Apache-2.0 */
#include "link.h"

#include <inttypes.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define DROP_BYTES 16384 /* at a time */

static int failure(const struct exchange_link *link, int code, const char *what, struct mst_error *err)
{
    if (code == -EPIPE || code == -ECONNRESET)
        return mst_error_set(err, -EPIPE, "%s rank %" PRIu32 ": it closed the connection", what, link->peer);
    return mst_error_errno(err, code, "%s rank %" PRIu32, what, link->peer);
}

void exchange_link_load(struct exchange_link *link, const struct exchange_frame *frame, const void *payload)
{
    exchange_frame_write(frame, link->out.wire);
    link->out.payload = payload;
    link->out.payload_bytes = frame->bytes;
    link->out.done = 0;
    link->out.busy = true;
}

int exchange_link_send(struct exchange_link *link, uint64_t *bytes, struct mst_error *err)
{
    const size_t done = link->out.done;
    const size_t payload_done = done > EXCHANGE_FRAME_BYTES ? done - EXCHANGE_FRAME_BYTES : 0;
    /* sendmsg() only reads what an iovec points to, but its type cannot say so. */
    union {
        const void *given;
        uint8_t *taken;
    } payload = {.given = link->out.payload};
    struct iovec parts[2];
    size_t part_count = 0;

    if (done < EXCHANGE_FRAME_BYTES)
        parts[part_count++] = (struct iovec){link->out.wire + done, EXCHANGE_FRAME_BYTES - done};
    parts[part_count++] =
        (struct iovec){payload.taken + payload_done, link->out.payload_bytes - payload_done};
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = part_count};
    const ssize_t n = sendmsg(link->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) {
        link->writable = false;
        return EXCHANGE_LINK_BLOCKED;
    }
    if (n < 0 && errno == EINTR)
        return EXCHANGE_LINK_MOVED;
    if (n < 0)
        return failure(link, -errno, "send to", err);
    link->out.done += (size_t)n;
    *bytes += (uint64_t)n;
    if (link->out.done < EXCHANGE_FRAME_BYTES + link->out.payload_bytes)
        return EXCHANGE_LINK_MOVED;
    link->out.busy = false;
    return EXCHANGE_LINK_WHOLE;
}

/* recv() with the words for what can go wrong: bytes, or 0 when there are none, which `readable` tells. */
static ssize_t receive_some(struct exchange_link *link, void *to, size_t count, uint64_t *bytes,
                            struct mst_error *err)
{
    const ssize_t n = recv(link->fd, to, count, MSG_DONTWAIT);

    if (n < 0 && errno == EAGAIN)
        link->readable = false;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return failure(link, n == 0 ? -EPIPE : -errno, "receive from", err);
    *bytes += (uint64_t)n;
    return n;
}

static int take_frame(struct exchange_link *link, const struct exchange_frame *own, struct mst_error *err)
{
    const int r = exchange_frame_read(link->in.wire, own, &link->in.frame, err);

    if (r < 0)
        return mst_error_wrap(err, r, "rank %" PRIu32, link->peer);
    if (r == 0)
        return EXCHANGE_LINK_FRAME;
    link->in.drop_bytes = link->in.frame.bytes;
    link->in.done = 0;
    return EXCHANGE_LINK_MOVED;
}

int exchange_link_receive(struct exchange_link *link, const struct exchange_frame *own, uint64_t *bytes,
                          struct mst_error *err)
{
    uint8_t dropped[DROP_BYTES];
    const size_t done = link->in.done, payload_bytes = link->in.frame.bytes;
    const bool dropping = link->in.drop_bytes > 0, heading = !dropping && done < EXCHANGE_FRAME_BYTES;
    uint8_t *to = dropped;
    size_t wanted = link->in.drop_bytes < sizeof dropped ? link->in.drop_bytes : sizeof dropped;

    if (heading) {
        to = link->in.wire + done;
        wanted = EXCHANGE_FRAME_BYTES - done;
    } else if (!dropping) {
        to = (uint8_t *)link->in.payload + (done - EXCHANGE_FRAME_BYTES);
        wanted = EXCHANGE_FRAME_BYTES + payload_bytes - done;
    }
    const ssize_t n = receive_some(link, to, wanted, bytes, err);
    if (n < 0)
        return (int)n;
    if (n == 0)
        return EXCHANGE_LINK_BLOCKED;
    if (dropping) {
        link->in.drop_bytes -= (size_t)n;
        return EXCHANGE_LINK_MOVED;
    }
    link->in.done += (size_t)n;
    if ((size_t)n < wanted)
        return EXCHANGE_LINK_MOVED;
    if (heading)
        return take_frame(link, own, err);
    link->in.done = 0;
    return EXCHANGE_LINK_WHOLE;
}
