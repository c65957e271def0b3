/* SPDX-License-Identifier: Apache-2.0 */
/* The innermost loop of gemm.c, once for each width of vectors: included with
 *     GEMM(name)     the name for this width
 *     GEMM_TARGET    the attribute that lets the compiler use its instructions
 *     GEMM_VECTOR, GEMM_LANES, GEMM_LOAD, GEMM_STORE, GEMM_ALL, GEMM_FMA, GEMM_ZERO
 *     GEMM_ROWS      rows of a tile at most: as many as registers allow
 * A tile is `rows` x two vectors, all of it in registers. */

/* `rows` is a constant wherever this is expanded. */
GEMM_TARGET static inline __attribute__((always_inline)) void GEMM(tile)(const size_t rows,
                                                                         const struct tile *tile)
{
    GEMM_VECTOR sums[GEMM_ROWS][2];
    const float *a = tile->a, *b = tile->b;

    GEMM_UNROLL
    for (size_t r = 0; r < rows; r++) {
        sums[r][0] = tile->add ? GEMM_LOAD(tile->c + r * tile->c_stride) : GEMM_ZERO();
        sums[r][1] = tile->add ? GEMM_LOAD(tile->c + r * tile->c_stride + GEMM_LANES) : GEMM_ZERO();
    }
    for (size_t step = 0; step < tile->steps; step++, a += tile->a_step, b += tile->b_step) {
        const GEMM_VECTOR left = GEMM_LOAD(b), right = GEMM_LOAD(b + GEMM_LANES);
        GEMM_UNROLL
        for (size_t r = 0; r < rows; r++) {
            const GEMM_VECTOR factor = GEMM_ALL(a[r * tile->a_row]);
            sums[r][0] = GEMM_FMA(factor, left, sums[r][0]);
            sums[r][1] = GEMM_FMA(factor, right, sums[r][1]);
        }
    }
    GEMM_UNROLL
    for (size_t r = 0; r < rows; r++) {
        GEMM_STORE(tile->c + r * tile->c_stride, sums[r][0]);
        GEMM_STORE(tile->c + r * tile->c_stride + GEMM_LANES, sums[r][1]);
    }
}

GEMM_TARGET static void GEMM(run)(size_t rows, const struct tile *tile)
{
    switch (rows) {
    case 1:
        GEMM(tile)(1, tile);
        return;
    case 2:
        GEMM(tile)(2, tile);
        return;
    case 3:
        GEMM(tile)(3, tile);
        return;
    case 4:
        GEMM(tile)(4, tile);
        return;
    case 5:
        GEMM(tile)(5, tile);
        return;
    case 6:
        GEMM(tile)(6, tile);
        return;
#if GEMM_ROWS > 6
    case 7:
        GEMM(tile)(7, tile);
        return;
    case 8:
        GEMM(tile)(8, tile);
        return;
    case 9:
        GEMM(tile)(9, tile);
        return;
#endif
    default:
        assert(!"no such tile");
    }
}

#undef GEMM
#undef GEMM_TARGET
#undef GEMM_VECTOR
#undef GEMM_LANES
#undef GEMM_LOAD
#undef GEMM_STORE
#undef GEMM_ALL
#undef GEMM_FMA
#undef GEMM_ZERO
#undef GEMM_ROWS
