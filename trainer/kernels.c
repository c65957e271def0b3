/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels.h"

/* The build is for the plainest x86-64; the loader then picks the widest version that the CPU has. Sanitizers
 * do not get on with the resolver functions, which run before they are set up. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&     \
    !defined(__SANITIZE_THREAD__) && defined(__OPTIMIZE__)
#define KERNEL_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define KERNEL_CLONES
#endif

KERNEL_CLONES void kernel_scale_bytes(size_t count, const uint8_t *restrict x, float *restrict y)
{
    for (size_t i = 0; i < count; i++)
        y[i] = (float)x[i] / 255.0f;
}

KERNEL_CLONES void kernel_bias_relu(size_t rows, size_t columns, const float *restrict bias,
                                    float *restrict y)
{
    for (size_t r = 0; r < rows; r++, y += columns) {
        for (size_t c = 0; c < columns; c++) {
            const float sum = y[c] + bias[c];
            y[c] = sum < 0.0f ? 0.0f : sum;
        }
    }
}

KERNEL_CLONES void kernel_bias(size_t rows, size_t columns, const float *restrict bias, float *restrict y)
{
    for (size_t r = 0; r < rows; r++, y += columns) {
        for (size_t c = 0; c < columns; c++)
            y[c] += bias[c];
    }
}

KERNEL_CLONES void kernel_relu(size_t count, const float *restrict x, float *restrict y)
{
    for (size_t i = 0; i < count; i++)
        y[i] = x[i] < 0.0f ? 0.0f : x[i];
}

KERNEL_CLONES void kernel_relu_mask(size_t count, const float *restrict y, float *restrict dy)
{
    for (size_t i = 0; i < count; i++)
        dy[i] = y[i] > 0.0f ? dy[i] : 0.0f;
}

KERNEL_CLONES void kernel_add_columns(size_t rows, size_t columns, const float *restrict x,
                                      float *restrict sums)
{
    for (size_t r = 0; r < rows; r++, x += columns) {
        for (size_t c = 0; c < columns; c++)
            sums[c] += x[c];
    }
}

KERNEL_CLONES void kernel_add_to_zero(size_t count, const float *restrict x, float *restrict y)
{
    for (size_t i = 0; i < count; i++)
        y[i] = 0.0f + x[i];
}

KERNEL_CLONES void kernel_sum(size_t count, const float *restrict a, const float *restrict b,
                              float *restrict y)
{
    for (size_t i = 0; i < count; i++)
        y[i] = a[i] + b[i];
}

KERNEL_CLONES void kernel_add(size_t count, const float *restrict x, float *restrict y)
{
    for (size_t i = 0; i < count; i++)
        y[i] += x[i];
}

KERNEL_CLONES void kernel_sgd(size_t count, float lr, const float *restrict w, const float *restrict g,
                              float *restrict next)
{
    for (size_t i = 0; i < count; i++)
        next[i] = w[i] - lr * g[i];
}

KERNEL_CLONES void kernel_sgd_momentum(size_t count, float lr, float momentum, const float *restrict w,
                                       const float *restrict g, const float *restrict v,
                                       float *restrict v_next, float *restrict next)
{
    for (size_t i = 0; i < count; i++) {
        const float velocity = momentum * v[i] + g[i];
        v_next[i] = velocity;
        next[i] = w[i] - lr * velocity;
    }
}
