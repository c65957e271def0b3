/* SPDX-License-Identifier: Apache-2.0 */
#include "shift.h"

#include "rng.h"

#include <string.h>

/* One row, in floats, by `by` of them. */
static void shift_row(float *row, size_t floats, ptrdiff_t by)
{
    const size_t gap = by < 0 ? (size_t)-by : (size_t)by;

    if (gap >= floats) {
        memset(row, 0, floats * sizeof *row);
    } else if (by > 0) {
        memmove(row + gap, row, (floats - gap) * sizeof *row);
        memset(row, 0, gap * sizeof *row);
    } else if (by < 0) {
        memmove(row, row + gap, (floats - gap) * sizeof *row);
        memset(row + floats - gap, 0, gap * sizeof *row);
    }
}

void trainer_shift_images(const struct trainer_shape *shape, uint32_t most, size_t count,
                          const uint64_t *keys, float *images)
{
    const size_t row_floats = shape->dims[1] * shape->dims[2];
    const uint64_t places = 2 * (uint64_t)most + 1;

    for (size_t n = 0; n < count; n++, images += shape->dims[0] * row_floats) {
        struct trainer_rng rng;
        trainer_rng_init(&rng, keys[n], TRAINER_RNG_SHIFT, 0);
        const ptrdiff_t down = (ptrdiff_t)trainer_rng_below(&rng, places) - (ptrdiff_t)most;
        const ptrdiff_t right = (ptrdiff_t)trainer_rng_below(&rng, places) - (ptrdiff_t)most;
        /* All rows at once are one long row. */
        shift_row(images, shape->dims[0] * row_floats, down * (ptrdiff_t)row_floats);
        for (size_t r = 0; r < shape->dims[0]; r++)
            shift_row(images + r * row_floats, row_floats, right * (ptrdiff_t)shape->dims[2]);
    }
}
