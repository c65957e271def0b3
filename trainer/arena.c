/* SPDX-License-Identifier: Apache-2.0 */
#include "arena.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE_BYTES ((size_t)2097152)
#define LINE_BYTES      ((size_t)64)

float *trainer_floats_new(size_t count)
{
    const size_t wanted = (count > 0 ? count : 1) * sizeof(float);
    const size_t unit = wanted >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : LINE_BYTES;
    const size_t bytes = (wanted + unit - 1) / unit * unit;
    float *floats = aligned_alloc(unit, bytes);

    if (!floats)
        return NULL;
    if (unit == HUGE_PAGE_BYTES)
        (void)madvise(floats, bytes, MADV_HUGEPAGE); /* only a wish */
    memset(floats, 0, bytes);
    return floats;
}
