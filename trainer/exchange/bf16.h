/* SPDX-License-Identifier: Apache-2.0 */
/* bfloat16: the upper half of an IEEE 754 binary32, so that it has its range and 8 bits of its precision.
 * Rounding is to the nearest, to the even one of two. What is beyond the largest bfloat16 becomes infinite,
 * infinities stay, and a NaN stays one. Arrays do not overlap unless said. */
#ifndef TRAINER_EXCHANGE_BF16_H
#define TRAINER_EXCHANGE_BF16_H

#include <stddef.h>
#include <stdint.h>

void bf16_pack(size_t count, const float *x, uint16_t *y);
void bf16_unpack(size_t count, const uint16_t *x, float *y);
/* In place: each float becomes the one that pack and unpack would make of it. */
void bf16_round(size_t count, float *x);

#endif
