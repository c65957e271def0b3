/* SPDX-License-Identifier: Apache-2.0 */
#include "helpers.h"
#include "loss.h"

#include <math.h>

static void agrees_with_the_definition(void **state)
{
    (void)state;
    const float logits[] = {1, 2, 3, -1, 0, 5};
    const uint32_t labels[] = {2, 0};
    float gradient[6];
    double expected = 0;

    const struct trainer_loss loss = trainer_loss_softmax(2, 3, logits, labels, 0.5f, gradient);
    for (int n = 0; n < 2; n++) {
        double sum = 0;
        for (int c = 0; c < 3; c++)
            sum += exp((double)logits[3 * n + c]);
        expected -= log(exp((double)logits[3 * n + (int)labels[n]]) / sum);
        for (int c = 0; c < 3; c++) {
            const double p = exp((double)logits[3 * n + c]) / sum;
            assert_true(fabs((double)gradient[3 * n + c] - 0.5 * (p - ((uint32_t)c == labels[n]))) < 1e-6);
        }
    }
    assert_true(fabs(loss.sum - expected) < 1e-6);
    assert_int_equal(loss.correct, 1);
}

static void stays_finite_with_logits_that_overflow_exp(void **state)
{
    (void)state;
    const float logits[] = {1000, -1000, 0};
    const uint32_t label = 0;
    float gradient[3];

    const struct trainer_loss loss = trainer_loss_softmax(1, 3, logits, &label, 1.0f, gradient);
    assert_true(loss.sum == 0.0);
    assert_int_equal(loss.correct, 1);
    for (int c = 0; c < 3; c++)
        assert_true(gradient[c] == 0.0f);
}

static void shows_logits_that_are_no_numbers(void **state)
{
    (void)state;
    static const float bad[] = {NAN, INFINITY};
    const uint32_t label = 1;

    for (size_t i = 0; i < 2; i++) {
        const float rows[3][3] = {{bad[i], 0, 0}, {0, bad[i], 0}, {0, 0, bad[i]}};
        for (size_t at = 0; at < 3; at++) {
            const bool finite = isfinite(trainer_loss_softmax(1, 3, rows[at], &label, 1.0f, NULL).sum);
            assert_false(finite);
        }
    }
}

static void counts_the_first_of_equal_logits(void **state)
{
    (void)state;
    const float logits[] = {1, 1, 1, 1};
    const uint32_t labels[] = {0, 1};

    assert_int_equal(trainer_loss_softmax(2, 2, logits, labels, 1.0f, NULL).correct, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_definition),
        cmocka_unit_test(stays_finite_with_logits_that_overflow_exp),
        cmocka_unit_test(shows_logits_that_are_no_numbers),
        cmocka_unit_test(counts_the_first_of_equal_logits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
