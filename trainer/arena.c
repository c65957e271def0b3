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
    memset(floats, 0, bytes);
    /* Only a wish, and after the zeros: small pages are at hand at once, and the kernel gathers them into
     * huge ones while the training is under way. Huge ones from the start cost a worker in a virtual machine
     * whose host takes back what is free ten times as long. */
    if (unit == HUGE_PAGE_BYTES)
        (void)madvise(floats, bytes, MADV_HUGEPAGE);
    return floats;
}
