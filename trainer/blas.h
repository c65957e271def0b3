/* SPDX-License-Identifier: Apache-2.0 */
/* The products that layers need, over row-order matrices without gaps unless said. `beta` 0 sets c (whatever
 * it held, NaN too), 1 adds to it. On a CPU with fused multiply-add they are gemm.h's, else OpenBLAS's. */
#ifndef TRAINER_BLAS_H
#define TRAINER_BLAS_H

#include "gemm.h"

#include <cblas.h>
#include <stddef.h>

/* Whether products are gemm.h's. */
static inline bool blas_is_own(void)
{
    return gemm_available();
}

/* c (m, n) = a (m, k) b (k, n) + beta c */
static inline void blas_multiply(size_t m, size_t n, size_t k, const float *a, const float *b, float beta,
                                 float *c)
{
    if (blas_is_own())
        gemm_multiply(m, n, k, (struct gemm_factor){a, k, 1}, (struct gemm_factor){b, 1, n}, beta, c, n);
    else
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)m, (blasint)n, (blasint)k, 1.0f, a,
                    (blasint)k, b, (blasint)n, beta, c, (blasint)n);
}

/* c (m, n) = a^T b + beta c, a (k, m) with rows of a_stride floats, b (k, n) */
static inline void blas_multiply_at(size_t m, size_t n, size_t k, const float *a, size_t a_stride,
                                    const float *b, float beta, float *c)
{
    if (blas_is_own())
        gemm_multiply(m, n, k, (struct gemm_factor){a, 1, a_stride}, (struct gemm_factor){b, 1, n}, beta, c,
                      n);
    else
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (blasint)m, (blasint)n, (blasint)k, 1.0f, a,
                    (blasint)a_stride, b, (blasint)n, beta, c, (blasint)n);
}

/* c (m, n) = a b^T, a (m, k), b (n, k), c with rows of c_stride floats */
static inline void blas_multiply_bt_into(size_t m, size_t n, size_t k, const float *a, const float *b,
                                         size_t c_stride, float *c)
{
    if (blas_is_own())
        gemm_multiply(m, n, k, (struct gemm_factor){a, k, 1}, (struct gemm_factor){b, k, 1}, 0.0f, c,
                      c_stride);
    else
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)m, (blasint)n, (blasint)k, 1.0f, a,
                    (blasint)k, b, (blasint)k, 0.0f, c, (blasint)c_stride);
}

/* c (m, n) = a b^T + beta c, a (m, k), b (n, k) */
static inline void blas_multiply_bt(size_t m, size_t n, size_t k, const float *a, const float *b, float beta,
                                    float *c)
{
    if (blas_is_own())
        gemm_multiply(m, n, k, (struct gemm_factor){a, k, 1}, (struct gemm_factor){b, k, 1}, beta, c, n);
    else
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)m, (blasint)n, (blasint)k, 1.0f, a,
                    (blasint)k, b, (blasint)k, beta, c, (blasint)n);
}

#endif
