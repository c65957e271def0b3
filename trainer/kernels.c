/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels.h"

#include "clones.h"

#include <string.h>

TRAINER_CLONES void kernel_scale_bytes(size_t count, const uint8_t *restrict x, float *restrict y)
{
    for (size_t i = 0; i < count; i++)
        y[i] = (float)x[i] / 255.0f;
}

TRAINER_CLONES void kernel_bias_relu(size_t rows, size_t columns, const float *restrict bias,
                                     float *restrict y)
{
    for (size_t r = 0; r < rows; r++, y += columns) {
        for (size_t c = 0; c < columns; c++) {
            const float sum = y[c] + bias[c];
            y[c] = sum < 0.0f ? 0.0f : sum;
        }
    }
}

TRAINER_CLONES void kernel_bias(size_t rows, size_t columns, const float *restrict bias, float *restrict y)
{
    for (size_t r = 0; r < rows; r++, y += columns) {
        for (size_t c = 0; c < columns; c++)
            y[c] += bias[c];
    }
}

TRAINER_CLONES void kernel_relu(size_t count, const float *restrict x, float *restrict y)
{
    for (size_t i = 0; i < count; i++)
        y[i] = x[i] < 0.0f ? 0.0f : x[i];
}

TRAINER_CLONES void kernel_relu_mask(size_t count, const float *restrict y, float *restrict dy)
{
    for (size_t i = 0; i < count; i++)
        dy[i] = y[i] > 0.0f ? dy[i] : 0.0f;
}

TRAINER_CLONES void kernel_add_columns(size_t rows, size_t columns, const float *restrict x,
                                       float *restrict sums)
{
    for (size_t r = 0; r < rows; r++, x += columns) {
        for (size_t c = 0; c < columns; c++)
            sums[c] += x[c];
    }
}

TRAINER_CLONES void kernel_add_to_zero(size_t count, const float *restrict x, float *restrict y)
{
    for (size_t i = 0; i < count; i++)
        y[i] = 0.0f + x[i];
}

TRAINER_CLONES void kernel_sum(size_t count, const float *restrict a, const float *restrict b,
                               float *restrict y)
{
    for (size_t i = 0; i < count; i++)
        y[i] = a[i] + b[i];
}

TRAINER_CLONES void kernel_add(size_t count, const float *restrict x, float *restrict y)
{
    for (size_t i = 0; i < count; i++)
        y[i] += x[i];
}

/* By the bits: that they are all ones in an exponent can be asked of whole vectors, in any order. */
TRAINER_CLONES bool kernel_all_finite(size_t count, const float *x)
{
    const uint32_t exponent = 0x7f800000;
    uint32_t found = 0;

    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        found |= (bits & exponent) == exponent;
    }
    return found == 0;
}

TRAINER_CLONES void kernel_sgd(size_t count, float lr, const float *restrict w, const float *restrict g,
                               float *restrict next)
{
    for (size_t i = 0; i < count; i++)
        next[i] = w[i] - lr * g[i];
}

TRAINER_CLONES void kernel_sgd_momentum(size_t count, float lr, float momentum, const float *restrict w,
                                        const float *restrict g, const float *restrict v,
                                        float *restrict v_next, float *restrict next)
{
    for (size_t i = 0; i < count; i++) {
        const float velocity = momentum * v[i] + g[i];
        v_next[i] = velocity;
        next[i] = w[i] - lr * velocity;
    }
}
