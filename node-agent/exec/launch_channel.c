/* SPDX-License-Identifier: Apache-2.0 */
#include "launch_channel.h"

#include "bytes.h"
#include "muster/cleanup.h"
#include "wire.h"

#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#define PLAIN_HEADER_BYTES 6 /* length, type */

void launch_channel_init(struct launch_channel *channel, int fd)
{
    *channel = (struct launch_channel){
        .fd = fd,
        .in = MST_BUF_INIT(LAUNCH_FRAME_BYTES + PLAIN_HEADER_BYTES + LAUNCH_PIECE_BYTES),
        .out = MST_BUF_INIT(LAUNCH_OUT_BYTES),
    };
}

int launch_channel_seal(struct launch_channel *channel, const struct discovery_session *session,
                        struct mst_error *err)
{
    channel->sealed = true;
    return discovery_frames_init(&channel->frames, session, err);
}

void launch_channel_release(struct launch_channel *channel)
{
    mst_closep(&channel->fd);
    if (channel->sealed)
        discovery_frames_release(&channel->frames);
    channel->sealed = false;
    mst_buf_release(&channel->in);
    mst_buf_release(&channel->out);
}

/* ---- sending ---- */

int launch_channel_send(struct launch_channel *channel, enum launch_frame type, const void *payload,
                        size_t count, struct mst_error *err)
{
    int r;
    if (channel->sealed) {
        r = discovery_frames_pack(&channel->frames, (uint16_t)type, payload, count, &channel->out, err);
    } else {
        r = mst_buf_reserve(&channel->out, PLAIN_HEADER_BYTES + count);
        if (r == 0)
            r = bytes_put(&channel->out, count, 4);
        if (r == 0)
            r = bytes_put(&channel->out, (uint64_t)type, 2);
        if (r == 0)
            r = mst_buf_append(&channel->out, payload, count);
    }
    if (r == -EFBIG)
        return mst_error_set(err, -ENOBUFS, "the other side does not take what is sent");
    return r < 0 ? mst_error_errno(err, r, "send a frame") : 0;
}

int launch_channel_send_data(struct launch_channel *channel, uint8_t stream, const void *bytes, size_t count,
                             struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf payload = MST_BUF_INIT(LAUNCH_PIECE_BYTES + 1);
    int r = bytes_put(&payload, stream, 1);
    if (r == 0)
        r = mst_buf_append(&payload, bytes, count);
    return r < 0 ? mst_error_errno(err, r, "send a frame")
                 : launch_channel_send(channel, LAUNCH_DATA, payload.bytes, payload.count, err);
}

int launch_channel_send_credit(struct launch_channel *channel, uint8_t stream, uint32_t bytes,
                               struct mst_error *err)
{
    mst_cleanup(mst_buf_release) struct mst_buf payload = MST_BUF_INIT(5);
    int r = bytes_put(&payload, stream, 1);
    if (r == 0)
        r = bytes_put(&payload, bytes, 4);
    return r < 0 ? mst_error_errno(err, r, "send a frame")
                 : launch_channel_send(channel, LAUNCH_CREDIT, payload.bytes, payload.count, err);
}

int launch_channel_send_byte(struct launch_channel *channel, enum launch_frame type, uint8_t byte,
                             struct mst_error *err)
{
    return launch_channel_send(channel, type, &byte, 1, err);
}

int launch_channel_flush(struct launch_channel *channel, struct mst_error *err)
{
    size_t done = 0;
    int r = 0;
    while (r == 0 && done < channel->out.count) {
        const ssize_t sent =
            send(channel->fd, channel->out.bytes + done, channel->out.count - done, MSG_NOSIGNAL);
        if (sent >= 0)
            done += (size_t)sent;
        else if (errno == EAGAIN)
            break;
        else if (errno == EPIPE || errno == ECONNRESET)
            done = channel->out.count; /* it is gone, but its last words may lie here: reading tells both */
        else if (errno != EINTR)
            r = mst_error_errno(err, -errno, "send");
    }
    mst_buf_consume(&channel->out, done);
    return r;
}

/* ---- receiving ---- */

int launch_channel_read(struct launch_channel *channel, struct mst_error *err)
{
    uint8_t bytes[LAUNCH_PIECE_BYTES];
    size_t room = sizeof bytes, taken = 0;
    if (channel->sealed && discovery_frames_room(&channel->frames) < room)
        room = discovery_frames_room(&channel->frames);
    ssize_t got;
    do {
        got = recv(channel->fd, bytes, room, 0);
    } while (got < 0 && errno == EINTR);
    if (got == 0)
        return mst_error_set(err, -EPIPE, "the connection was closed");
    if (got < 0)
        return errno == EAGAIN ? 0 : mst_error_errno(err, -errno, "receive");
    int r;
    if (channel->sealed) {
        r = discovery_frames_feed(&channel->frames, bytes, (size_t)got, &taken, err);
    } else {
        mst_buf_consume(&channel->in, channel->in_done);
        channel->in_done = 0;
        r = mst_buf_append(&channel->in, bytes, (size_t)got);
        if (r < 0)
            (void)mst_error_set(err, -EBADMSG, "a frame that is too long");
    }
    return r < 0 ? r : 1;
}

static int next_plain(struct launch_channel *channel, uint16_t *ret_type, const uint8_t **ret_payload,
                      size_t *ret_count, struct mst_error *err)
{
    struct bytes_cursor cursor = {(const uint8_t *)channel->in.bytes + channel->in_done,
                                  channel->in.count - channel->in_done, false};
    const size_t count = (size_t)bytes_take(&cursor, 4);
    const uint16_t type = (uint16_t)bytes_take(&cursor, 2);
    if (!cursor.broken && count > LAUNCH_FRAME_BYTES)
        return mst_error_set(err, -EBADMSG, "a frame of %zu bytes", count);
    if (cursor.broken || cursor.left < count)
        return 0;
    *ret_type = type;
    *ret_payload = cursor.next;
    *ret_count = count;
    channel->in_done += PLAIN_HEADER_BYTES + count;
    return 1;
}

int launch_channel_next(struct launch_channel *channel, enum launch_frame *ret_type,
                        const uint8_t **ret_payload, size_t *ret_count, struct mst_error *err)
{
    uint16_t type = 0;
    const int r = channel->sealed
                      ? discovery_frames_next(&channel->frames, &type, ret_payload, ret_count, err)
                      : next_plain(channel, &type, ret_payload, ret_count, err);
    if (r == 1 && *ret_count > LAUNCH_FRAME_BYTES)
        return mst_error_set(err, -EBADMSG, "a frame of %zu bytes", *ret_count);
    *ret_type = (enum launch_frame)type;
    return r;
}

/* ---- what may be said ---- */

static bool is_open(const uint8_t *payload, size_t count)
{
    char host[LAUNCH_HOST_BYTES];
    struct bytes_cursor cursor = {payload, count, false};
    bytes_take_text(&cursor, host, sizeof host);
    return !cursor.broken && cursor.left > 0 && cursor.left < EXEC_COMMAND_MAX_BYTES &&
           !memchr(cursor.next, '\0', cursor.left);
}

bool launch_frame_is_fit(bool asks, enum launch_frame type, const uint8_t *payload, size_t count)
{
    const uint8_t stream = count > 0 ? payload[0] : UINT8_MAX;
    const bool sends = asks ? stream == 0 : stream == 1 || stream == 2; /* the bytes of this stream */
    const bool takes = asks ? stream == 1 || stream == 2 : stream == 0;
    switch (type) {
    case LAUNCH_OPEN:
        return asks && is_open(payload, count);
    case LAUNCH_DATA:
        return sends && count > 1 && count - 1 <= LAUNCH_PIECE_BYTES;
    case LAUNCH_EOF:
        return sends && count == 1;
    case LAUNCH_CREDIT:
        return takes && count == 5;
    case LAUNCH_SIGNAL:
        return asks && count == 1 && payload[0] > 0 && payload[0] < NSIG;
    case LAUNCH_EXIT:
        return !asks && count == 1;
    case LAUNCH_ERROR:
        return !asks && count < MST_ERROR_TEXT_BYTES;
    default:
        return false;
    }
}
