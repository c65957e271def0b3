/* SPDX-License-Identifier: Apache-2.0 */
/* Control frames. Header, big-endian: payload length (4), type (2), zero (2), counter (8); then the payload
 * and a MAC over both, HMAC-SHA-256 cut to 16 bytes, under a key of this connection and direction. TCP keeps
 * order, so a counter that is not the next one is an attack or a fault, and ends the connection. */
#include "muster/big_endian.h"
#include "muster/hello.h"

#include <assert.h>
#include <string.h>

enum frame_offset { AT_LENGTH = 0, AT_TYPE = 4, AT_GAP = 6, AT_COUNTER = 8 };

static const char label_from_dialer[] = "muster frames from dialer v1";
static const char label_from_listener[] = "muster frames from listener v1";

int discovery_frames_init(struct discovery_frames *frames, const struct discovery_session *session,
                          struct mst_error *err)
{
    const char *mine = session->dialer ? label_from_dialer : label_from_listener;
    const char *theirs = session->dialer ? label_from_listener : label_from_dialer;
    *frames = (struct discovery_frames){
        .in = MST_BUF_INIT(DISCOVERY_FRAME_MAX_BYTES + DISCOVERY_FRAME_OVERHEAD_BYTES)};
    int r = mst_hmac_sha256(session->key, sizeof session->key, mine, strlen(mine), frames->send_key, err);
    if (r == 0)
        r = mst_hmac_sha256(session->key, sizeof session->key, theirs, strlen(theirs), frames->receive_key,
                            err);
    return r;
}

void discovery_frames_release(struct discovery_frames *frames)
{
    mst_buf_release(&frames->in);
    mst_forget(frames, sizeof *frames);
}

int discovery_frames_pack(struct discovery_frames *frames, uint16_t type, const void *payload, size_t count,
                          struct mst_buf *out, struct mst_error *err)
{
    uint8_t mac[MST_SHA256_BYTES];
    if (count > DISCOVERY_FRAME_MAX_BYTES)
        return mst_error_set(err, -EMSGSIZE, "a control frame of %zu bytes, where %d are the most", count,
                             DISCOVERY_FRAME_MAX_BYTES);
    int r = mst_buf_reserve(out, count + DISCOVERY_FRAME_OVERHEAD_BYTES);
    if (r < 0)
        return mst_error_errno(err, r, "queue a control frame of %zu bytes behind %zu", count, out->count);

    uint8_t *frame = (uint8_t *)out->bytes + out->count;
    mst_be_put_u32(frame + AT_LENGTH, (uint32_t)count);
    mst_be_put_u16(frame + AT_TYPE, type);
    mst_be_put_u16(frame + AT_GAP, 0);
    mst_be_put_u64(frame + AT_COUNTER, frames->send_counter);
    if (count > 0)
        memcpy(frame + DISCOVERY_FRAME_HEADER_BYTES, payload, count);
    const size_t signed_bytes = DISCOVERY_FRAME_HEADER_BYTES + count;
    r = mst_hmac_sha256(frames->send_key, sizeof frames->send_key, frame, signed_bytes, mac, err);
    if (r < 0)
        return r;
    memcpy(frame + signed_bytes, mac, DISCOVERY_FRAME_MAC_BYTES);
    frame[signed_bytes + DISCOVERY_FRAME_MAC_BYTES] = '\0'; /* as struct mst_buf promises */
    out->count += signed_bytes + DISCOVERY_FRAME_MAC_BYTES;
    frames->send_counter++;
    return 0;
}

size_t discovery_frames_waiting(const struct discovery_frames *frames)
{
    return frames->in.count - frames->in_done;
}

size_t discovery_frames_room(const struct discovery_frames *frames)
{
    return frames->in.max_bytes - discovery_frames_waiting(frames);
}

int discovery_frames_feed(struct discovery_frames *frames, const void *bytes, size_t count, size_t *ret_taken,
                          struct mst_error *err)
{
    mst_buf_consume(&frames->in, frames->in_done); /* once a feed, not once a frame: it moves what is left */
    frames->in_done = 0;
    const size_t room = discovery_frames_room(frames);
    const size_t taken = count < room ? count : room;
    const int r = mst_buf_append(&frames->in, bytes, taken);
    if (r < 0)
        return mst_error_errno(err, r, "take in %zu bytes of control frames", taken);
    *ret_taken = taken;
    return 0;
}

static int frames_break(struct discovery_frames *frames, struct mst_error *err, const char *why)
{
    frames->broken = true;
    return mst_error_set(err, -EBADMSG, "control frame %llu: %s", (unsigned long long)frames->receive_counter,
                         why);
}

int discovery_frames_next(struct discovery_frames *frames, uint16_t *ret_type, const uint8_t **ret_payload,
                          size_t *ret_count, struct mst_error *err)
{
    uint8_t mac[MST_SHA256_BYTES];
    if (frames->broken)
        return frames_break(frames, err, "the stream was broken before");
    const size_t waiting = frames->in.count - frames->in_done;
    if (waiting < DISCOVERY_FRAME_HEADER_BYTES)
        return 0;

    /* Length and counter are looked at before their MAC can be: both can only end the connection sooner. */
    const uint8_t *frame = (const uint8_t *)frames->in.bytes + frames->in_done;
    const size_t payload_bytes = mst_be_get_u32(frame + AT_LENGTH);
    if (payload_bytes > DISCOVERY_FRAME_MAX_BYTES)
        return frames_break(frames, err, "it is longer than allowed");
    if (mst_be_get_u64(frame + AT_COUNTER) != frames->receive_counter)
        return frames_break(frames, err, "its counter is not the next one");
    if (waiting < payload_bytes + DISCOVERY_FRAME_OVERHEAD_BYTES)
        return 0;

    const size_t signed_bytes = DISCOVERY_FRAME_HEADER_BYTES + payload_bytes;
    const int r =
        mst_hmac_sha256(frames->receive_key, sizeof frames->receive_key, frame, signed_bytes, mac, err);
    if (r < 0) {
        frames->broken = true;
        return r;
    }
    if (!mst_equal_constant_time(mac, frame + signed_bytes, DISCOVERY_FRAME_MAC_BYTES))
        return frames_break(frames, err, "its MAC is wrong");
    frames->receive_counter++;
    frames->in_done += signed_bytes + DISCOVERY_FRAME_MAC_BYTES;
    *ret_type = mst_be_get_u16(frame + AT_TYPE);
    *ret_payload = frame + DISCOVERY_FRAME_HEADER_BYTES;
    *ret_count = payload_bytes;
    return 1;
}
