/* SPDX-License-Identifier: Apache-2.0 */
#include "helpers.h"
#include "kernels.h"

#include <float.h>
#include <math.h>

/* Lengths around every vector width: what is left over at the end must be right too. */
static const size_t lengths[] = {0, 1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 67};
#define LONGEST 67

static void fill(size_t count, float *x, float factor)
{
    for (size_t i = 0; i < count; i++)
        x[i] = factor * (float)((int)(i * 7 % 13) - 6);
}

static void scales_bytes_as_a_division_by_255(void **state)
{
    (void)state;
    uint8_t x[256];
    float y[256];

    for (int i = 0; i < 256; i++)
        x[i] = (uint8_t)i;
    kernel_scale_bytes(256, x, y);
    for (int i = 0; i < 256; i++)
        assert_true(y[i] == (float)i / 255.0f);
}

static void relu_keeps_what_is_positive_and_lets_nan_through(void **state)
{
    (void)state;
    float x[LONGEST], y[LONGEST + 1];

    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
        fill(LONGEST, x, 1.0f);
        y[lengths[l]] = 99.0f;
        kernel_relu(lengths[l], x, y);
        for (size_t i = 0; i < lengths[l]; i++)
            assert_true(y[i] == fmaxf(0.0f, x[i]));
        assert_true(y[lengths[l]] == 99.0f);
    }
    x[5] = NAN;
    kernel_relu(LONGEST, x, y);
    assert_true(isnan(y[5]));
}

static void mask_stops_the_gradient_where_relu_gave_zero(void **state)
{
    (void)state;
    float y[LONGEST], dy[LONGEST];

    fill(LONGEST, y, 1.0f);
    for (size_t i = 0; i < LONGEST; i++)
        dy[i] = (float)i + 1.0f;
    kernel_relu_mask(LONGEST, y, dy);
    for (size_t i = 0; i < LONGEST; i++)
        assert_true(dy[i] == (y[i] > 0 ? (float)i + 1.0f : 0.0f));
}

static void bias_goes_to_every_row_and_column_sums_come_back(void **state)
{
    (void)state;
    enum { ROWS = 5, COLUMNS = 19 };
    float x[ROWS * COLUMNS], with_relu[ROWS * COLUMNS], plain[ROWS * COLUMNS], bias[COLUMNS], sums[COLUMNS];

    fill(ROWS * COLUMNS, x, 0.5f);
    fill(COLUMNS, bias, 0.25f);
    fill(COLUMNS, sums, 2.0f);
    memcpy(with_relu, x, sizeof x);
    memcpy(plain, x, sizeof x);
    kernel_bias_relu(ROWS, COLUMNS, bias, with_relu);
    kernel_bias(ROWS, COLUMNS, bias, plain);
    kernel_add_columns(ROWS, COLUMNS, x, sums);
    for (int c = 0; c < COLUMNS; c++) {
        float sum = 2.0f * (float)(c * 7 % 13 - 6);
        for (int r = 0; r < ROWS; r++) {
            const int i = r * COLUMNS + c;
            assert_true(plain[i] == x[i] + bias[c]);
            assert_true(with_relu[i] == fmaxf(0.0f, x[i] + bias[c]));
            sum += x[i];
        }
        assert_true(sums[c] == sum);
    }
}

static void updates_follow_their_formulas(void **state)
{
    (void)state;
    float w[LONGEST], g[LONGEST], v[LONGEST], v_next[LONGEST], next[LONGEST];

    fill(LONGEST, w, 1.0f);
    fill(LONGEST, g, 0.125f);
    fill(LONGEST, v, 0.5f);
    kernel_sgd(LONGEST, 0.5f, w, g, next);
    for (int i = 0; i < LONGEST; i++)
        assert_true(next[i] == w[i] - 0.5f * g[i]);
    kernel_sgd_momentum(LONGEST, 0.5f, 0.25f, w, g, v, v_next, next);
    for (int i = 0; i < LONGEST; i++) {
        assert_true(v_next[i] == 0.25f * v[i] + g[i]);
        assert_true(next[i] == w[i] - 0.5f * v_next[i]);
    }
    kernel_sum(LONGEST, w, g, next);
    for (int i = 0; i < LONGEST; i++)
        assert_true(next[i] == w[i] + g[i]);
    kernel_add(LONGEST, w, g);
    for (int i = 0; i < LONGEST; i++)
        assert_true(g[i] == w[i] * 1.125f);
}

static void adding_to_zero_leaves_no_negative_zero(void **state)
{
    (void)state;
    float x[LONGEST], y[LONGEST];

    fill(LONGEST, x, 0.5f);
    for (int i = 0; i < LONGEST; i += 3)
        x[i] = -0.0f;
    kernel_add_to_zero(LONGEST, x, y);
    for (int i = 0; i < LONGEST; i++)
        assert_true(y[i] == x[i] && (y[i] != 0 || !signbit(y[i])));
}

static void what_is_not_finite_is_found_wherever_it_is(void **state)
{
    (void)state;
    static const float odd[] = {INFINITY, -INFINITY, NAN, -NAN};
    float x[LONGEST];

    fill(LONGEST, x, 1.0f);
    x[1] = FLT_MAX;
    x[2] = -FLT_MAX;
    x[3] = FLT_MIN / 2;
    assert_true(kernel_all_finite(LONGEST, x));
    assert_true(kernel_all_finite(0, NULL));
    for (int i = 0; i < LONGEST; i++) {
        for (size_t k = 0; k < sizeof odd / sizeof odd[0]; k++) {
            const float kept = x[i];
            x[i] = odd[k];
            assert_false(kernel_all_finite(LONGEST, x));
            assert_true(kernel_all_finite((size_t)i, x));
            x[i] = kept;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scales_bytes_as_a_division_by_255),
        cmocka_unit_test(relu_keeps_what_is_positive_and_lets_nan_through),
        cmocka_unit_test(mask_stops_the_gradient_where_relu_gave_zero),
        cmocka_unit_test(bias_goes_to_every_row_and_column_sums_come_back),
        cmocka_unit_test(updates_follow_their_formulas),
        cmocka_unit_test(what_is_not_finite_is_found_wherever_it_is),
        cmocka_unit_test(adding_to_zero_leaves_no_negative_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
