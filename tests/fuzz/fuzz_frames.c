/* SPDX-License-Identifier: Apache-2.0 */
/* The control frame layer. The first byte of the input says whether it is the stream itself, is added to a
 * stream of good frames, or says in which order they come; the second how large the pieces are in which the
 * stream arrives. */
#include "muster/big_endian.h"
#include "muster/hello.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* As it is, or laid over good frames: byte by byte, the input is what is added to them. */
static void feed_frames(bool over_good_ones, const uint8_t *bytes, size_t count, size_t piece)
{
    struct discovery_session session = {.dialer = true};
    struct discovery_frames sender, receiver;
    struct mst_buf stream = MST_BUF_INIT(1 << 16);
    int r = discovery_frames_init(&sender, &session, NULL);
    session.dialer = false;
    if (r == 0)
        r = discovery_frames_init(&receiver, &session, NULL);
    for (uint16_t i = 0; r == 0 && over_good_ones && i < 4; i++)
        r = discovery_frames_pack(&sender, i, "0123456789", i * 3U, &stream, NULL);
    if (r == 0 && !over_good_ones)
        r = mst_buf_append(&stream, bytes, count);
    size_t altered_at = SIZE_MAX;
    for (size_t i = 0; over_good_ones && i < stream.count && i < count; i++) {
        stream.bytes[i] = (char)(stream.bytes[i] + (char)bytes[i]);
        if (bytes[i] && altered_at == SIZE_MAX)
            altered_at = i;
    }
    size_t at = 0, good_bytes = 0;
    while (r >= 0 && at < stream.count) {
        uint16_t type;
        const uint8_t *payload;
        size_t taken, payload_bytes;
        const size_t left = stream.count - at;
        r = discovery_frames_feed(&receiver, stream.bytes + at, left < piece ? left : piece, &taken, NULL);
        at += taken;
        while (r >= 0 && (r = discovery_frames_next(&receiver, &type, &payload, &payload_bytes, NULL)) == 1)
            good_bytes += payload_bytes + DISCOVERY_FRAME_OVERHEAD_BYTES;
        if (r == 0 && discovery_frames_waiting(&receiver) + discovery_frames_room(&receiver) !=
                          DISCOVERY_FRAME_MAX_BYTES + DISCOVERY_FRAME_OVERHEAD_BYTES)
            abort();
    }
    if (over_good_ones ? good_bytes > altered_at : good_bytes > 0)
        abort(); /* an altered frame was taken */
    if (!over_good_ones && count >= DISCOVERY_FRAME_HEADER_BYTES &&
        mst_be_get_u32(bytes) > DISCOVERY_FRAME_MAX_BYTES && r >= 0)
        abort(); /* a length beyond the limit was waited for */
    mst_buf_release(&stream);
    discovery_frames_release(&sender);
    discovery_frames_release(&receiver);
}

/* Good frames, one whole frame a byte of the input, in the order that it says: dropped, repeated, turned.
 * Only those that come in their own order are taken. */
static void feed_out_of_order(const uint8_t *bytes, size_t count)
{
    enum { FRAMES = 6 };
    struct discovery_session session = {.dialer = true};
    struct discovery_frames sender, receiver;
    struct mst_buf frames[FRAMES];
    int r = discovery_frames_init(&sender, &session, NULL);
    session.dialer = false;
    if (r < 0 || discovery_frames_init(&receiver, &session, NULL) < 0)
        abort();
    for (uint16_t f = 0; f < FRAMES; f++) {
        frames[f] = (struct mst_buf)MST_BUF_INIT(1024);
        if (discovery_frames_pack(&sender, f, "0123456789", f, &frames[f], NULL) < 0)
            abort();
    }
    uint16_t expected = 0;
    for (size_t i = 0; r == 0 && i < count; i++) {
        const uint16_t f = bytes[i] % FRAMES;
        uint16_t type = 99;
        const uint8_t *payload;
        size_t taken, payload_bytes;
        if (discovery_frames_feed(&receiver, frames[f].bytes, frames[f].count, &taken, NULL) < 0)
            abort();
        r = discovery_frames_next(&receiver, &type, &payload, &payload_bytes, NULL);
        if ((r == 1) != (f == expected) || (r == 1 && (type != f || payload_bytes != f)))
            abort();
        r = r == 1 ? 0 : r;
        expected++;
    }
    for (size_t f = 0; f < FRAMES; f++)
        mst_buf_release(&frames[f]);
    discovery_frames_release(&sender);
    discovery_frames_release(&receiver);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    if (count < 2)
        return 0;
    if (bytes[0] % 3 == 2)
        feed_out_of_order(bytes + 2, count - 2);
    else
        feed_frames(bytes[0] % 3 == 1, bytes + 2, count - 2, bytes[1] == 0 ? count : bytes[1]);
    return 0;
}
