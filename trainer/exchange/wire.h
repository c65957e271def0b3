/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of floats of a sum on the wire, when they are not sent as they are (TRAINER_WIRE_BF16). A
 * payload then holds those of them that must stay exact, followed by the others as bfloat16, little-endian.
 */
#ifndef TRAINER_EXCHANGE_WIRE_H
#define TRAINER_EXCHANGE_WIRE_H

#include "exchange.h"

/* Room for packed payloads, one each way and link; none is needed when all floats are sent as they are. */
int exchange_wire_init(struct trainer_exchange *exchange, struct mst_error *err);

/* A frame of the sum under way carries these places of the vector: set its bytes, and how many of its floats
 * are rounded. */
void exchange_wire_measure(const struct trainer_exchange *exchange, size_t offset, size_t count,
                           struct exchange_frame *frame);
/* Round these places, those that may be, as the wire would. `floats` are of place `offset`. */
void exchange_wire_round(const struct trainer_exchange *exchange, size_t offset, size_t count, float *floats);

/* The payload to send for these floats of a frame: them, or what they were packed into. */
const void *exchange_wire_pack(const struct trainer_exchange *exchange, size_t link,
                               const struct exchange_frame *frame, const void *floats);
/* Where the payload of an expected frame for `floats` goes, and, once it is there, the way back. */
void *exchange_wire_landing(const struct trainer_exchange *exchange, size_t link,
                            const struct exchange_frame *expected, void *floats);
void exchange_wire_unpack(const struct trainer_exchange *exchange, size_t link,
                          const struct exchange_frame *expected, void *floats);

#endif
