/* SPDX-License-Identifier: Apache-2.0 */
/* The frame that goes in front of each segment on the wire, all fields little-endian:
 *
 *     0  magic    4 bytes "MSTF"
 *     4  view     u32
 *     8  job key  u64
 *    16  step     u64   with its purpose in the two highest bits
 *    24  phase    u16   ring: its turn, 0 to 2 * world - 3; direct: the number of the shard; or as below
 *    26  segment  u16   number in the chunk of that phase
 *    28  bytes    u32   of payload that follow
 *
 * It says everything that both ends must agree on, so that bytes of another job, of an earlier membership or
 * of another step can never be added to this one. */
#ifndef TRAINER_EXCHANGE_FRAME_H
#define TRAINER_EXCHANGE_FRAME_H

#include "muster/error.h"

#include <stdint.h>

#define EXCHANGE_FRAME_BYTES  32
#define EXCHANGE_PAYLOAD_MAX  262144 /* bytes: what is added stays in the second-level cache */
#define EXCHANGE_PHASE_GATHER 0x8000 /* + 1024 * the gather's number in the step + shard */
#define EXCHANGE_GATHERS      31
#define EXCHANGE_PHASE_SUM    0xfffe /* direct: the sum itself */
#define EXCHANGE_PHASE_SPREAD 0xffff /* a part of a state, on its way to those behind */

/* The step number that an exchange sees carries what the sum is for, so that workers that disagree are told
 * apart. */
#define EXCHANGE_FOR_GRADIENTS  UINT64_C(0)
#define EXCHANGE_FOR_EVALUATION (UINT64_C(1) << 62)
#define EXCHANGE_FOR_COMPARISON (UINT64_C(2) << 62)
#define EXCHANGE_FOR_STATE      (UINT64_C(3) << 62)
#define EXCHANGE_STEP_MAX       ((UINT64_C(1) << 62) - 1)

struct exchange_frame {
    uint64_t job_key, step;
    uint32_t view, bytes;
    uint16_t phase, segment;
    uint32_t rounded; /* not on the wire, both ends know: floats of the payload that are packed, see wire.h */
};

void exchange_frame_write(const struct exchange_frame *frame, uint8_t ret_wire[static EXCHANGE_FRAME_BYTES]);

/* Read a frame and hold its job and view against those of `own`. 0: it may be meant for us; 1: it is of an
 * older view, and the payload of frame->bytes is to be dropped; -EPROTO (no frame, another job, more than
 * EXCHANGE_PAYLOAD_MAX) or -ESTALE (a newer view). Texts of errors go behind the sender's name. */
int exchange_frame_read(const uint8_t wire[static EXCHANGE_FRAME_BYTES], const struct exchange_frame *own,
                        struct exchange_frame *ret_frame, struct mst_error *err);

/* 0 when step, phase, segment and bytes are the expected ones, else -EPROTO. */
int exchange_frame_match(const struct exchange_frame *frame, const struct exchange_frame *expected,
                         struct mst_error *err);

/* "step 7", "evaluation after step 7" */
#define EXCHANGE_STEP_TEXT_BYTES 64
const char *exchange_step_text(uint64_t step, char text[static EXCHANGE_STEP_TEXT_BYTES]);

#endif
