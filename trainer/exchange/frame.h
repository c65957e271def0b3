/* SPDX-License-Identifier: Apache-2.0 */
/* The frame that goes in front of each segment on the wire, all fields little-endian:
 *
 *     0  magic    4 bytes "MSTF"
 *     4  view     u32
 *     8  job key  u64
 *    16  step     u64
 *    24  phase    u16   turn of the ring: 0 to 2 * world - 3
 *    26  segment  u16   number in the chunk of that turn
 *    28  bytes    u32   of payload that follow
 *
 * It says everything that both ends must agree on, so that bytes of another job, of an earlier membership or
 * of another step can never be added to this one. */
#ifndef TRAINER_EXCHANGE_FRAME_H
#define TRAINER_EXCHANGE_FRAME_H

#include "muster/error.h"

#include <stdint.h>

#define EXCHANGE_FRAME_BYTES 32

struct exchange_frame {
    uint64_t job_key, step;
    uint32_t view, bytes;
    uint16_t phase, segment;
};

void exchange_frame_write(const struct exchange_frame *frame, uint8_t ret_wire[static EXCHANGE_FRAME_BYTES]);

/* Read a frame and hold it against the `expected` one. 0: it is that; 1: it is of an older view, and
 * frame->bytes (at most max_bytes) of payload are to be dropped; -EPROTO or -ESTALE (newer view) with a text.
 */
int exchange_frame_read(const uint8_t wire[static EXCHANGE_FRAME_BYTES],
                        const struct exchange_frame *expected, uint32_t max_bytes,
                        struct exchange_frame *ret_frame, struct mst_error *err);

#endif
