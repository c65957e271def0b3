/* SPDX-License-Identifier: Apache-2.0 */
/* The loops that BLAS does not have, written so that compilers turn them into vector code. Each adds and
 * multiplies in an order that does not depend on the vector width, and no multiply-add is contracted, so that
 * all CPUs of one architecture give the same bits. Arrays do not overlap unless said. */
#ifndef TRAINER_KERNELS_H
#define TRAINER_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* y[i] = x[i] / 255 */
void kernel_scale_bytes(size_t count, const uint8_t *x, float *y);
/* y[r][c] = max(0, y[r][c] + bias[c]); rows x columns. A NaN stays one, here and in kernel_relu(): the loss
 * must show it. */
void kernel_bias_relu(size_t rows, size_t columns, const float *bias, float *y);
/* y[r][c] += bias[c] */
void kernel_bias(size_t rows, size_t columns, const float *bias, float *y);
/* y[i] = max(0, x[i]) */
void kernel_relu(size_t count, const float *x, float *y);
/* dy[i] = y[i] > 0 ? dy[i] : 0, where y is what a relu gave */
void kernel_relu_mask(size_t count, const float *y, float *dy);
/* sums[c] += sum over r of x[r][c], in the order of rows */
void kernel_add_columns(size_t rows, size_t columns, const float *x, float *sums);
/* y[i] = 0 + x[i], which is x[i] but for -0 */
void kernel_add_to_zero(size_t count, const float *x, float *y);
/* y[i] = a[i] + b[i] */
void kernel_sum(size_t count, const float *a, const float *b, float *y);
/* y[i] += x[i] */
void kernel_add(size_t count, const float *x, float *y);
/* Whether none of x is infinite or a NaN. */
bool kernel_all_finite(size_t count, const float *x);
/* next[i] = w[i] - lr * g[i] */
void kernel_sgd(size_t count, float lr, const float *w, const float *g, float *next);
/* v_next[i] = momentum * v[i] + g[i]; next[i] = w[i] - lr * v_next[i] */
void kernel_sgd_momentum(size_t count, float lr, float momentum, const float *w, const float *g,
                         const float *v, float *v_next, float *next);

#endif
