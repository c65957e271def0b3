/* SPDX-License-Identifier: Apache-2.0 */
/* The frames by which a program is launched on another worker, and one connection that carries them: between
 * agents with counters and MACs (muster/hello.h), between `rsh` and its own agent as they are, since a Unix
 * socket says who is at its other end. */
#ifndef EXEC_LAUNCH_CHANNEL_H
#define EXEC_LAUNCH_CHANNEL_H

#include "muster/buf.h"
#include "muster/error.h"
#include "muster/hello.h"

#include <stdbool.h>
#include <stdint.h>

enum launch_frame {
    LAUNCH_OPEN = 1,   /* host (1 byte length, text; empty between agents), command */
    LAUNCH_DATA = 2,   /* stream, bytes */
    LAUNCH_EOF = 3,    /* stream */
    LAUNCH_CREDIT = 4, /* stream, 4 bytes: so many more may be sent */
    LAUNCH_SIGNAL = 5, /* number in one byte */
    LAUNCH_EXIT = 6,   /* status in one byte: the program and its output have ended */
    LAUNCH_ERROR = 7,  /* text: it was not launched, or is lost */
};

/* Streams are 0 input, 1 output, 2 errors. Of each so many bytes may be on their way without credit. */
#define LAUNCH_WINDOW_BYTES 262144U
#define LAUNCH_PIECE_BYTES  ((size_t)16384)   /* of a stream in one frame */
#define LAUNCH_HOST_BYTES   128               /* with the NUL: a slot, or an address */
#define LAUNCH_FRAME_BYTES  ((size_t)66000)   /* of payload: a command of EXEC_COMMAND_MAX_BYTES and a host */
#define LAUNCH_OUT_BYTES    ((size_t)2 << 20) /* more than all windows: only a liar needs it */

struct launch_channel {
    int fd; /* owned, non-blocking; -1: closed */
    bool sealed;
    struct discovery_frames frames; /* where sealed */
    struct mst_buf in;              /* where not */
    size_t in_done;
    struct mst_buf out;
};

/* Take `fd` over. */
void launch_channel_init(struct launch_channel *channel, int fd);
/* As a hello has left it. */
int launch_channel_seal(struct launch_channel *channel, const struct discovery_session *session,
                        struct mst_error *err);
void launch_channel_release(struct launch_channel *channel);

/* Queue one frame. -ENOBUFS when the other side does not take what is queued. */
int launch_channel_send(struct launch_channel *channel, enum launch_frame type, const void *payload,
                        size_t count, struct mst_error *err);
int launch_channel_send_data(struct launch_channel *channel, uint8_t stream, const void *bytes, size_t count,
                             struct mst_error *err);
int launch_channel_send_credit(struct launch_channel *channel, uint8_t stream, uint32_t bytes,
                               struct mst_error *err);
int launch_channel_send_byte(struct launch_channel *channel, enum launch_frame type, uint8_t byte,
                             struct mst_error *err);
/* Write what the socket takes. To one whose other side is gone all is written: reading finds that out. */
int launch_channel_flush(struct launch_channel *channel, struct mst_error *err);
/* Read some: 1, 0 when nothing is there, -EPIPE when the other side closed. */
int launch_channel_read(struct launch_channel *channel, struct mst_error *err);
/* The next whole frame: 1 (the payload is good until the next call here or of read), 0, or -EBADMSG. */
int launch_channel_next(struct launch_channel *channel, enum launch_frame *ret_type,
                        const uint8_t **ret_payload, size_t *ret_count, struct mst_error *err);

/* Which side of a launch may say what: `asks` is the side of `rsh`. Checks lengths and streams too. */
bool launch_frame_is_fit(bool asks, enum launch_frame type, const uint8_t *payload, size_t count);

#endif
