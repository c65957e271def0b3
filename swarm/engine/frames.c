/* SPDX-License-Identifier: Apache-2.0 */
/* The multiplexed log format (Docker Engine API, "Attach to a container": stream format). A frame is copied
 * together before it is handed on: callers then see whole messages, and a message is small. */
#include "muster/engine.h"

#include <string.h>

#define STREAM_MAX 3

static int begin_frame(struct engine_frames *frames, struct mst_error *err)
{
    const uint8_t *h = frames->header;
    const size_t count = (size_t)h[4] << 24 | (size_t)h[5] << 16 | (size_t)h[6] << 8 | h[7];

    if (h[0] > STREAM_MAX || h[1] != 0 || h[2] != 0 || h[3] != 0)
        return mst_error_set(err, -EPROTO, "log stream: %02x %02x %02x %02x is not the start of a frame",
                             h[0], h[1], h[2], h[3]);
    if (count > frames->frame.max_bytes)
        return mst_error_set(err, -EFBIG, "log stream: a frame of %zu bytes, at most %zu are taken", count,
                             frames->frame.max_bytes);
    frames->missing = count;
    mst_buf_clear(&frames->frame);
    return 0;
}

int engine_frames_feed(struct engine_frames *frames, const void *bytes, size_t count,
                       engine_frame_fn *on_frame, void *context, struct mst_error *err)
{
    const uint8_t *at = bytes;
    int r;

    while (count > 0) {
        size_t taken;

        if (frames->header_count < sizeof frames->header) {
            taken = sizeof frames->header - frames->header_count;
            taken = taken < count ? taken : count;
            memcpy(frames->header + frames->header_count, at, taken);
            frames->header_count += taken;
            if (frames->header_count == sizeof frames->header) {
                r = begin_frame(frames, err);
                if (r < 0)
                    return r;
            }
        } else {
            taken = frames->missing < count ? frames->missing : count;
            r = mst_buf_append(&frames->frame, at, taken);
            if (r < 0)
                return mst_error_set(err, r, "log stream: no memory for a frame");
            frames->missing -= taken;
        }
        at += taken;
        count -= taken;
        if (frames->header_count == sizeof frames->header && frames->missing == 0) {
            frames->header_count = 0;
            r = on_frame(context, frames->header[0], mst_buf_text(&frames->frame), frames->frame.count, err);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

void engine_frames_release(struct engine_frames *frames)
{
    mst_buf_release(&frames->frame);
}
