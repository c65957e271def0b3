/* SPDX-License-Identifier: Apache-2.0 */
/* One block of floats from which buffers are cut while the plan is made; it is allocated once, when all are
 * known. */
#ifndef TRAINER_ARENA_H
#define TRAINER_ARENA_H

#include "muster/error.h"

#include <stddef.h>

/* Zeroed, on a cache line's start; large blocks ask the kernel for huge pages, which saves the products of
 * large matrices some waiting on page tables. NULL without memory. free() releases it. */
float *trainer_floats_new(size_t count);
/* The same with whatever was there before: memory that is never written is never taken. No huge pages are
 * asked for until trainer_floats_gather(), which is best called when those that will be used have been. */
float *trainer_floats_blank(size_t count);
void trainer_floats_gather(float *floats, size_t count);
/* Huge pages now, where memory is at hand, of whichever of the two above it came: takes a millisecond for
 * each megabyte and pays over some hundred steps. NULL is fine. */
void trainer_floats_settle(float *floats, size_t count);

/* Buffers start on cache lines: counts are rounded up to 16 floats. */
static inline size_t trainer_floats_round(size_t count)
{
    return (count + 15) & ~(size_t)15;
}

#endif
