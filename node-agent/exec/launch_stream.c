/* SPDX-License-Identifier: Apache-2.0 */
#include "launch_stream.h"

#include "muster/cleanup.h"

#include <unistd.h>

#define CHANNEL_FULL_BYTES                                                                                   \
    ((size_t)1 << 20) /* of what is queued: no more is read until some of it is gone                         \
                       */

void launch_source_init(struct launch_source *source, int fd, uint8_t stream)
{
    *source = (struct launch_source){.fd = fd, .stream = stream, .credit = LAUNCH_WINDOW_BYTES};
}

void launch_sink_init(struct launch_sink *sink, int fd, uint8_t stream)
{
    *sink = (struct launch_sink){.fd = fd, .stream = stream, .waiting = MST_BUF_INIT(LAUNCH_WINDOW_BYTES)};
}

static void let_go(int *fd, bool borrowed)
{
    if (borrowed)
        *fd = -1;
    else
        mst_closep(fd);
}

void launch_source_release(struct launch_source *source)
{
    let_go(&source->fd, source->borrowed);
}

void launch_sink_release(struct launch_sink *sink)
{
    let_go(&sink->fd, sink->borrowed);
    mst_buf_release(&sink->waiting);
}

bool launch_source_wants(const struct launch_source *source, const struct launch_channel *channel)
{
    return source->fd >= 0 && source->credit > 0 && channel->out.count < CHANNEL_FULL_BYTES;
}

int launch_source_pump(struct launch_source *source, struct launch_channel *channel, struct mst_error *err)
{
    char bytes[LAUNCH_PIECE_BYTES];
    const size_t room = source->credit < sizeof bytes ? source->credit : sizeof bytes;
    const ssize_t got = read(source->fd, bytes, room);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (got <= 0) { /* its end; an input that cannot be read (a terminal in the background) ends, too */
        let_go(&source->fd, source->borrowed);
        return launch_channel_send_byte(channel, LAUNCH_EOF, source->stream, err);
    }
    source->credit -= (uint32_t)got;
    return launch_channel_send_data(channel, source->stream, bytes, (size_t)got, err);
}

int launch_source_credit(struct launch_source *source, uint32_t bytes, struct mst_error *err)
{
    if (bytes > LAUNCH_WINDOW_BYTES - source->credit)
        return mst_error_set(err, -EBADMSG, "credit of %u bytes that were not sent", (unsigned)bytes);
    source->credit += bytes;
    return 0;
}

bool launch_sink_wants(const struct launch_sink *sink)
{
    return sink->fd >= 0 && sink->waiting.count > 0;
}

int launch_sink_take(struct launch_sink *sink, const void *bytes, size_t count, struct mst_error *err)
{
    if (sink->ended || count > LAUNCH_WINDOW_BYTES - sink->waiting.count - sink->owed)
        return mst_error_set(err, -EBADMSG, "%zu bytes of stream %u that it may not send", count,
                             (unsigned)sink->stream);
    if (sink->fd < 0) {
        sink->owed += (uint32_t)count; /* nobody reads it: the writer is not held up */
        return 0;
    }
    const int r = mst_buf_append(&sink->waiting, bytes, count);
    return r < 0 ? mst_error_errno(err, r, "take a stream") : 0;
}

int launch_sink_pump(struct launch_sink *sink, struct launch_channel *channel, size_t most,
                     struct mst_error *err)
{
    if (launch_sink_wants(sink)) {
        const size_t count = sink->waiting.count < most ? sink->waiting.count : most;
        const ssize_t written = write(sink->fd, sink->waiting.bytes, count);
        if (written > 0) {
            mst_buf_consume(&sink->waiting, (size_t)written);
            sink->owed += (uint32_t)written;
        } else if (written < 0 && errno != EAGAIN && errno != EINTR) {
            sink->owed += (uint32_t)sink->waiting.count;
            mst_buf_clear(&sink->waiting);
            let_go(&sink->fd, sink->borrowed);
        }
    }
    if (sink->ended && sink->waiting.count == 0)
        let_go(&sink->fd, sink->borrowed);
    /* In larger portions than single writes, but before the other side runs dry. */
    if (sink->ended || sink->owed == 0 || (sink->owed < LAUNCH_WINDOW_BYTES / 4 && sink->waiting.count > 0))
        return 0;
    const uint32_t owed = sink->owed;
    sink->owed = 0;
    return launch_channel_send_credit(channel, sink->stream, owed, err);
}

bool launch_sink_done(const struct launch_sink *sink)
{
    return sink->ended && sink->waiting.count == 0;
}
