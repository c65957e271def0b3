/* SPDX-License-Identifier: Apache-2.0 */
#include "crew.h"
#include "gemm.h"
#include "helpers.h"
#include "rng.h"

#include <cblas.h>
#include <math.h>

#define MAX_ROUNDS 300

static float *random_floats(size_t count, uint32_t *state)
{
    float *floats = malloc(count * sizeof *floats); /* exactly as many: sanitizers see what is read beyond */

    assert_non_null(floats);
    for (size_t i = 0; i < count; i++) {
        *state = *state * 1664525u + 1013904223u;
        floats[i] = (float)(*state >> 8) / 8388608.0f - 1.0f;
    }
    return floats;
}

static size_t size_up_to(size_t most, uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return 1 + (*state >> 10) % most;
}

/* The chain that the header promises, one element after the other. */
static void multiply_plainly(size_t m, size_t n, size_t k, const struct gemm_factor *a,
                             const struct gemm_factor *b, bool add, float *c, size_t c_stride)
{
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            float sum = add ? c[i * c_stride + j] : 0.0f;
            for (size_t step = 0; step < k; step++)
                sum = fmaf(a->values[i * a->row_stride + step * a->step_stride],
                           b->values[j * b->row_stride + step * b->step_stride], sum);
            c[i * c_stride + j] = sum;
        }
    }
}

static void products_are_one_chain_of_multiply_adds_to_the_bit_for_all_sizes(void **state)
{
    uint32_t random = 1;

    (void)state;
    for (uint32_t round = 0; round < MAX_ROUNDS && gemm_available(); round++) {
        const size_t m = size_up_to(40, &random), k = size_up_to(300, &random);
        const size_t n = size_up_to(round % 4 == 0 ? 300 : 70, &random);
        const size_t gap = round % 3; /* between c's rows */
        const bool a_across = round & 1, b_across = round & 2, add = round & 4;
        float *a = random_floats(m * k, &random), *b = random_floats(n * k, &random);
        float *c = random_floats(m * (n + gap), &random),
              *expected = malloc(m * (n + gap) * sizeof *expected);
        const struct gemm_factor left =
            a_across ? (struct gemm_factor){a, 1, m} : (struct gemm_factor){a, k, 1};
        const struct gemm_factor right =
            b_across ? (struct gemm_factor){b, 1, n} : (struct gemm_factor){b, k, 1};
        assert_non_null(expected);
        if (!add && m * n > 0)
            c[0] = NAN; /* what is set does not depend on what was there */
        memcpy(expected, c, m * (n + gap) * sizeof *expected);
        multiply_plainly(m, n, k, &left, &right, add, expected, n + gap);
        gemm_multiply(m, n, k, left, right, add ? 1.0f : 0.0f, c, n + gap);
        if (memcmp(c, expected, m * (n + gap) * sizeof *c) != 0)
            fail_msg("round %u: %zu x %zu x %zu differs", round, m, n, k);
        free(a);
        free(b);
        free(c);
        free(expected);
    }
}

static void a_product_in_parts_is_the_whole_product(void **state)
{
    enum { M = 24, N = 1000, K = 200 };
    uint32_t random = 7;

    (void)state;
    if (!gemm_available())
        skip();
    float *a = random_floats(M * K, &random), *b = random_floats(N * K, &random);
    float *whole = random_floats(M * N, &random), *parts = random_floats(M * N, &random);
    const struct gemm_factor left = {a, K, 1};
    gemm_multiply(M, N, K, left, (struct gemm_factor){b, K, 1}, 0.0f, whole, N);
    for (size_t first = 0; first < N; first += 130) {
        const size_t count = N - first < 130 ? N - first : 130;
        gemm_multiply(M, count, K, left, (struct gemm_factor){b + first * K, K, 1}, 0.0f, parts + first, N);
    }
    assert_memory_equal(whole, parts, M * N * sizeof *whole);
    free(a);
    free(b);
    free(whole);
    free(parts);
}

/* Each of the ways in which c is cut, at sizes that do not come out even. */
static void a_crew_of_any_size_gives_the_same_bits(void **state)
{
    static const struct {
        size_t m, n, k;
        bool a_across, b_across, add;
    } cases[] = {
        {64, 128, 2000, false, true, false},  {1031, 130, 61, true, true, true},
        {61, 1031, 130, false, false, false}, {203, 50, 300, false, false, true},
        {40, 900, 70, false, true, false},
    };
    uint32_t random = 5;

    (void)state;
    if (!gemm_available())
        skip();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const size_t m = cases[i].m, n = cases[i].n, k = cases[i].k, floats = m * n;
        float *a = random_floats(m * k, &random), *b = random_floats(n * k, &random);
        float *before = random_floats(floats, &random), *alone = malloc(floats * sizeof *alone);
        const struct gemm_factor left =
            cases[i].a_across ? (struct gemm_factor){a, 1, m} : (struct gemm_factor){a, k, 1};
        const struct gemm_factor right =
            cases[i].b_across ? (struct gemm_factor){b, 1, n} : (struct gemm_factor){b, k, 1};
        for (uint32_t threads = 1; threads <= 5; threads++) {
            float *c = malloc(floats * sizeof *c);
            assert_true(alone && c);
            memcpy(c, before, floats * sizeof *c);
            assert_int_equal(crew_hire(threads, NULL), 0);
            gemm_multiply(m, n, k, left, right, cases[i].add ? 1.0f : 0.0f, c, n);
            crew_dismiss();
            if (threads == 1)
                memcpy(alone, c, floats * sizeof *c);
            assert_memory_equal(c, alone, floats * sizeof *c);
            free(c);
        }
        free(a);
        free(b);
        free(before);
        free(alone);
    }
}

static void products_are_openblas_s_to_rounding(void **state)
{
    enum { M = 64, N = 128, K = 2000 };
    uint32_t random = 3;

    (void)state;
    if (!gemm_available())
        skip();
    float *a = random_floats(M * K, &random), *b = random_floats(N * K, &random);
    float *own = random_floats(M * N, &random), *theirs = random_floats(M * N, &random);
    gemm_multiply(M, N, K, (struct gemm_factor){a, K, 1}, (struct gemm_factor){b, 1, N}, 0.0f, own, N);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, M, N, K, 1.0f, a, K, b, N, 0.0f, theirs, N);
    for (size_t i = 0; i < M * N; i++)
        assert_true(fabsf(own[i] - theirs[i]) < 1e-3f);
    free(a);
    free(b);
    free(own);
    free(theirs);
}

int main(void)
{
    (void)unsetenv("OPENBLAS_CORETYPE"); /* with it the products would be OpenBLAS's */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_one_chain_of_multiply_adds_to_the_bit_for_all_sizes),
        cmocka_unit_test(a_product_in_parts_is_the_whole_product),
        cmocka_unit_test(a_crew_of_any_size_gives_the_same_bits),
        cmocka_unit_test(products_are_openblas_s_to_rounding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
