/* SPDX-License-Identifier: Apache-2.0 */
/* Steps are taken in blocks, of which b's part is copied into panels of one tile's width, so that it is read
 * in one go and stays in the first-level cache while all rows of a pass by (the scheme of Goto and van de
 * Geijn, ACM Trans. Math. Softw. 34, 2008, without the copy of a where its rows are whole). Sums go through c
 * between blocks, which rounds nothing: floats stay floats. */
#include "gemm.h"

#include "crew.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#ifdef __clang__
#define GEMM_UNROLL /* it does by itself */
#else
#define GEMM_UNROLL _Pragma("GCC unroll 16")
#endif

#define MAX_WIDTH   32  /* of a tile: two of the widest vectors */
#define BLOCK_STEPS 128 /* of b in a panel: 16 KiB */
#define LINE_FLOATS 16
#define A_ROWS      9      /* of a tile at most */
#define PART_STEPS  500000 /* multiply-adds: shorter work is done before another thread is awake */

struct tile {
    const float *a, *b;
    size_t a_row, a_step, b_step, steps;
    float *c;
    size_t c_stride;
    bool add; /* to what c holds */
};

/* AddressSanitizer looks at each of the innermost loop's loads, which makes whole trainings three times as
 * long. It does so in the test of this file, which is built with GEMM_CHECKED. */
#ifdef GEMM_CHECKED
#define GEMM_UNCHECKED
#else
#define GEMM_UNCHECKED __attribute__((no_sanitize("address")))
#endif

#define GEMM(name)  wide_##name
#define GEMM_TARGET GEMM_UNCHECKED __attribute__((target("avx512f")))
#define GEMM_VECTOR __m512
#define GEMM_LANES  16
#define GEMM_LOAD   _mm512_loadu_ps
#define GEMM_STORE  _mm512_storeu_ps
#define GEMM_ALL    _mm512_set1_ps
#define GEMM_FMA    _mm512_fmadd_ps
#define GEMM_ZERO   _mm512_setzero_ps
#define GEMM_ROWS   9
#include "gemm_kernel.h"

#define GEMM(name)  narrow_##name
#define GEMM_TARGET GEMM_UNCHECKED __attribute__((target("avx2,fma")))
#define GEMM_VECTOR __m256
#define GEMM_LANES  8
#define GEMM_LOAD   _mm256_loadu_ps
#define GEMM_STORE  _mm256_storeu_ps
#define GEMM_ALL    _mm256_set1_ps
#define GEMM_FMA    _mm256_fmadd_ps
#define GEMM_ZERO   _mm256_setzero_ps
#define GEMM_ROWS   6
#include "gemm_kernel.h"

struct machine {
    size_t width, rows; /* of a tile; rows: a good number of them, and at most */
    size_t most_rows;
    void (*run)(size_t rows, const struct tile *tile);
};
static const struct machine wide = {32, 8, 9, wide_run}, narrow = {16, 6, 6, narrow_run};

static bool has_wide(void)
{
    return __builtin_cpu_supports("avx512f");
}

bool gemm_available(void)
{
    /* 0: not looked yet. All threads find the same. */
    static atomic_int known;
    int found = atomic_load_explicit(&known, memory_order_relaxed);

    if (found == 0) {
        const bool can = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
        found = can && !getenv("OPENBLAS_CORETYPE") ? 1 : -1;
        atomic_store_explicit(&known, found, memory_order_relaxed);
    }
    return found > 0;
}

/* Columns [first, first + columns) of b, for some steps, after which so many are `left`, in a panel of
 * `width`; what is beyond the columns is zero. */
static void copy_panel(const struct gemm_factor *b, size_t first, size_t columns, size_t width, size_t step,
                       size_t steps, size_t left, float *panel)
{
    if (columns < width)
        memset(panel, 0, steps * width * sizeof *panel);
    if (b->row_stride == 1) {
        /* The next block's part is fetched meanwhile: the CPU does not see where these short runs lead. */
        const size_t ahead = left >= steps ? steps * b->step_stride : 0;
        for (size_t s = 0; s < steps; s++) {
            const float *from = b->values + first + (step + s) * b->step_stride;
            __builtin_prefetch(from + ahead, 0, 2);
            __builtin_prefetch(from + ahead + columns - 1, 0, 2);
            if (columns == MAX_WIDTH) /* no call: the length is known here */
                memcpy(panel + s * MAX_WIDTH, from, MAX_WIDTH * sizeof *panel);
            else
                memcpy(panel + s * width, from, columns * sizeof *panel);
        }
        return;
    }
    for (size_t j = 0; j < columns; j++) {
        const float *row = b->values + (first + j) * b->row_stride + step;
        for (size_t s = 0; s < steps; s++)
            panel[s * width + j] = row[s];
    }
}

/* What the next tile reads of a, where rows lie side by side, and what it writes. */
static void fetch_tile(const struct tile *tile, size_t rows, size_t a_ahead)
{
    if (tile->a_row == 1) {
        for (size_t s = 0; s < tile->steps; s++)
            __builtin_prefetch(tile->a + a_ahead + s * tile->a_step, 0, 3);
    }
    for (size_t r = rows; r < 2 * rows; r++) {
        __builtin_prefetch(tile->c + r * tile->c_stride, 1, 3);
        __builtin_prefetch(tile->c + r * tile->c_stride + LINE_FLOATS, 1, 3);
    }
}

/* All rows of a by one panel. */
static void multiply_panel(const struct machine *machine, size_t m, const struct gemm_factor *a,
                           struct tile tile, size_t step, size_t columns, float *c)
{
    float edge[A_ROWS * MAX_WIDTH];
    const size_t c_stride = tile.c_stride;

    for (size_t i = 0, rows; i < m; i += rows) {
        rows = m - i <= machine->most_rows ? m - i : machine->rows;
        tile.a = a->values + i * a->row_stride + step * a->step_stride;
        if (columns == machine->width) {
            tile.c = c + i * c_stride;
            if (m - i >= 2 * rows)
                fetch_tile(&tile, rows, rows * a->row_stride);
            machine->run(rows, &tile);
            continue;
        }
        for (size_t r = 0; tile.add && r < rows; r++)
            memcpy(edge + r * machine->width, c + (i + r) * c_stride, columns * sizeof *c);
        tile.c = edge;
        tile.c_stride = machine->width;
        machine->run(rows, &tile);
        for (size_t r = 0; r < rows; r++)
            memcpy(c + (i + r) * c_stride, edge + r * machine->width, columns * sizeof *c);
    }
}

/* b's columns are c's: what a tile has side by side lies side by side in c. */
static void multiply(const struct machine *machine, size_t m, size_t n, size_t k, const struct gemm_factor *a,
                     const struct gemm_factor *b, bool add, float *c, size_t c_stride)
{
    _Alignas(64) float panel[BLOCK_STEPS * MAX_WIDTH];

    for (size_t step = 0; step < k; step += BLOCK_STEPS) {
        const size_t steps = k - step < BLOCK_STEPS ? k - step : BLOCK_STEPS;
        for (size_t j = 0; j < n; j += machine->width) {
            const size_t columns = n - j < machine->width ? n - j : machine->width;
            struct tile tile = {.a_row = a->row_stride,
                                .a_step = a->step_stride,
                                .b = panel,
                                .b_step = machine->width,
                                .steps = steps,
                                .c_stride = c_stride,
                                .add = add || step > 0};
            copy_panel(b, j, columns, machine->width, step, steps, k - step - steps, panel);
            multiply_panel(machine, m, a, tile, step, columns, c + j);
        }
    }
}

/* Rows of 8 become columns. */
__attribute__((target("avx2"))) static void transpose_8(const float *from, size_t from_stride, float *to,
                                                        size_t to_stride)
{
    __m256 r[8], t[8];

    GEMM_UNROLL
    for (int i = 0; i < 8; i++)
        r[i] = _mm256_loadu_ps(from + (size_t)i * from_stride);
    GEMM_UNROLL
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    GEMM_UNROLL
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    GEMM_UNROLL
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(to + (size_t)i * to_stride, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_storeu_ps(to + (size_t)(i + 4) * to_stride, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
}

static void transpose(size_t rows, size_t columns, const float *from, size_t from_stride, float *to,
                      size_t to_stride)
{
    for (size_t i = 0; i < rows; i += 8) {
        for (size_t j = 0; j < columns; j += 8) {
            if (rows - i >= 8 && columns - j >= 8) {
                transpose_8(from + i * from_stride + j, from_stride, to + j * to_stride + i, to_stride);
                continue;
            }
            for (size_t r = i; r < rows && r < i + 8; r++) {
                for (size_t s = j; s < columns && s < j + 8; s++)
                    to[s * to_stride + r] = from[r * from_stride + s];
            }
        }
    }
}

#define STRIP_ROWS 16

/* What the next strip reads of b, and writes. */
static void fetch_strip(const struct gemm_factor *next, size_t k, size_t columns, float *c, size_t c_stride)
{
    for (size_t r = 0; r < STRIP_ROWS; r++) {
        for (size_t s = 0; s < k; s += LINE_FLOATS)
            __builtin_prefetch(next->values + r * next->row_stride + s, 0, 2);
    }
    for (size_t i = 0; i < columns; i++)
        __builtin_prefetch(c + i * c_stride, 1, 3);
}

/* c^T = b a^T, where b has many rows, whole ones, and a few: b is read as it lies, and c is turned round on
 * its way out, strip by strip. */
static void multiply_turned(const struct machine *machine, size_t m, size_t n, size_t k,
                            const struct gemm_factor *a, const struct gemm_factor *b, float *c,
                            size_t c_stride)
{
    _Alignas(64) float strip[STRIP_ROWS * MAX_WIDTH];

    for (size_t i = 0; i < m; i += machine->width) {
        const size_t columns = m - i < machine->width ? m - i : machine->width;
        const struct gemm_factor some = {a->values + i * a->row_stride, a->row_stride, a->step_stride};
        _Alignas(64) float panel[BLOCK_STEPS * MAX_WIDTH];
        if (k <= BLOCK_STEPS)
            copy_panel(&some, 0, columns, machine->width, 0, k, 0, panel);
        for (size_t j = 0; j < n; j += STRIP_ROWS) {
            const size_t rows = n - j < STRIP_ROWS ? n - j : STRIP_ROWS;
            const struct gemm_factor part = {b->values + j * b->row_stride, b->row_stride, b->step_stride};
            const struct gemm_factor next = {part.values + STRIP_ROWS * b->row_stride, b->row_stride, 1};
            if (n - j >= 2 * STRIP_ROWS)
                fetch_strip(&next, i == 0 ? k : 0, columns, c + i * c_stride + j + STRIP_ROWS, c_stride);
            if (k <= BLOCK_STEPS) {
                const struct tile tile = {.a_row = b->row_stride,
                                          .a_step = b->step_stride,
                                          .b = panel,
                                          .b_step = machine->width,
                                          .steps = k,
                                          .c_stride = machine->width};
                multiply_panel(machine, rows, &part, tile, 0, machine->width, strip);
            } else {
                multiply(machine, rows, columns, k, &part, &some, false, strip, machine->width);
            }
            transpose(rows, columns, strip, machine->width, c + i * c_stride + j, c_stride);
        }
    }
}

/* A product and how the crew shares it: each part has so many rows of c, or columns. */
struct product {
    const struct machine *machine;
    size_t m, n, k;
    struct gemm_factor a, b;
    bool add, turned;
    float *c;
    size_t c_stride;
    size_t part_rows, part_columns; /* one of them is all */
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void multiply_part(void *context, uint32_t part)
{
    const struct product *p = context;
    const size_t row = p->part_rows < p->m ? part * p->part_rows : 0;
    const size_t column = p->part_columns < p->n ? part * p->part_columns : 0;
    const size_t rows = smaller(p->part_rows, p->m - row);
    const size_t columns = smaller(p->part_columns, p->n - column);
    const struct gemm_factor a = {p->a.values + row * p->a.row_stride, p->a.row_stride, p->a.step_stride};
    const struct gemm_factor b = {p->b.values + column * p->b.row_stride, p->b.row_stride, p->b.step_stride};
    float *c = p->c + row * p->c_stride + column;

    if (p->turned)
        multiply_turned(p->machine, rows, columns, p->k, &a, &b, c, p->c_stride);
    else
        multiply(p->machine, rows, columns, p->k, &a, &b, p->add, c, p->c_stride);
}

/* The longer side of c is cut, into whole tiles. */
static uint32_t cut(struct product *p)
{
    const size_t work = p->m * p->n * p->k / PART_STEPS, most = crew_size();
    const size_t wanted = work < 1 ? 1 : smaller(work, most);
    const bool by_rows = p->m > p->n;
    const size_t length = by_rows ? p->m : p->n;
    const size_t unit = by_rows ? p->machine->rows : p->turned ? STRIP_ROWS : p->machine->width;
    const size_t units = (length + unit - 1) / unit;
    const size_t part = (units + wanted - 1) / wanted * unit;

    p->part_rows = by_rows ? smaller(part, p->m) : p->m;
    p->part_columns = by_rows ? p->n : smaller(part, p->n);
    return length > 0 ? (uint32_t)((length + part - 1) / part) : 0;
}

void gemm_multiply(size_t m, size_t n, size_t k, struct gemm_factor a, struct gemm_factor b, float beta,
                   float *c, size_t c_stride)
{
    struct product product = {.machine = has_wide() ? &wide : &narrow,
                              .m = m,
                              .n = n,
                              .k = k,
                              .a = a,
                              .b = b,
                              .add = beta != 0,
                              .c = c,
                              .c_stride = c_stride};

    assert((a.row_stride == 1 || a.step_stride == 1) && (b.row_stride == 1 || b.step_stride == 1));
    product.turned = !product.add && b.row_stride != 1 && n >= 4 * m;
    crew_share(cut(&product), multiply_part, &product);
}

#else

bool gemm_available(void)
{
    return false;
}

void gemm_multiply(size_t m, size_t n, size_t k, struct gemm_factor a, struct gemm_factor b, float beta,
                   float *c, size_t c_stride)
{
    (void)m, (void)n, (void)k, (void)a, (void)b, (void)beta, (void)c, (void)c_stride;
    assert(!"not available");
}

#endif
