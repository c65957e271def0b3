/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products for CPUs with fused multiply-add; large ones are shared by the crew (crew.h).
 *
 * Every element of c is one chain, c = fma(a[i][0], b[0][j], c), then a[i][1] and so on, whatever the sizes
 * of vectors, tiles and caches and the number of threads: all CPUs of that kind give the same bits, which
 * OpenBLAS's kernels do not. And on the shapes of a dense layer, thousands of inputs by some hundred units by
 * one batch, they are faster, since OpenBLAS copies both factors before it multiplies them. */
#ifndef TRAINER_GEMM_H
#define TRAINER_GEMM_H

#include <stdbool.h>
#include <stddef.h>

/* Whether this CPU can, and nobody has asked for another kernel (OPENBLAS_CORETYPE). */
bool gemm_available(void);

/* A factor: element (row, step) lies at values[row * row_stride + step * step_stride], step being the index
 * that is summed over. */
struct gemm_factor {
    const float *values;
    size_t row_stride, step_stride;
};

/* c (m, n) = beta c + sum over k steps of a[i][step] * b[j][step]. One stride of each factor must be 1. c's
 * rows are c_stride floats apart; beta 0 sets c, whatever it held, else adds to it. */
void gemm_multiply(size_t m, size_t n, size_t k, struct gemm_factor a, struct gemm_factor b, float beta,
                   float *c, size_t c_stride);

#endif
