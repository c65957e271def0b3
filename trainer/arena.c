/* SPDX-License-Identifier: Apache-2.0 */
#include "arena.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE_BYTES ((size_t)2097152)
#define LINE_BYTES      ((size_t)64)

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* of Linux, which the C library's header may be too old for */
#endif

static size_t unit_of(size_t count)
{
    return count * sizeof(float) >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : LINE_BYTES;
}

/* Of the whole block. */
static size_t bytes_of(size_t count)
{
    const size_t unit = unit_of(count), wanted = (count > 0 ? count : 1) * sizeof(float);
    return (wanted + unit - 1) / unit * unit;
}

float *trainer_floats_blank(size_t count)
{
    return aligned_alloc(unit_of(count), bytes_of(count));
}

/* Only a wish, and after the memory was used: small pages are at hand at once, and the kernel gathers them
 * into huge ones while the training is under way. Huge ones from the start cost a worker in a virtual machine
 * whose host takes back what is free ten times as long. */
void trainer_floats_gather(float *floats, size_t count)
{
    if (unit_of(count) == HUGE_PAGE_BYTES)
        (void)madvise(floats, bytes_of(count), MADV_HUGEPAGE);
}

/* Only a wish, too; kernels before 6.1 do not know it. */
void trainer_floats_settle(float *floats, size_t count)
{
    if (floats && unit_of(count) == HUGE_PAGE_BYTES)
        (void)madvise(floats, bytes_of(count), MADV_COLLAPSE);
}

float *trainer_floats_new(size_t count)
{
    float *floats = trainer_floats_blank(count);

    if (!floats)
        return NULL;
    memset(floats, 0, bytes_of(count));
    trainer_floats_gather(floats, count);
    return floats;
}
