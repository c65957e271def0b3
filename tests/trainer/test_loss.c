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

static void cross_entropy_takes_probabilities_and_survives_a_zero(void **state)
{
    (void)state;
    const float y[] = {0.25f, 0.75f, 1.0f, 0.0f};
    const uint32_t labels[] = {1, 1};
    const struct trainer_answers answers = {.labels = labels};
    float gradient[4];

    const struct trainer_loss loss =
        trainer_loss_of(TRAINER_CROSS_ENTROPY, 2, 2, y, &answers, 0.5f, gradient);
    assert_true(isfinite(loss.sum) && loss.sum > 80);
    assert_true(gradient[0] == 0 && fabsf(gradient[1] + 0.5f / 0.75f) < 1e-6f && gradient[2] == 0);
    assert_int_equal(loss.correct, 1);
    const float none[] = {NAN, 0.5f};
    assert_true(isnan(trainer_loss_of(TRAINER_CROSS_ENTROPY, 1, 2, none,
                                      &(struct trainer_answers){.labels = (const uint32_t[]){0}}, 1, NULL)
                          .sum));
}

static void mse_goes_by_labels_or_by_targets(void **state)
{
    (void)state;
    const float y[] = {0.5f, 1.0f, 0.0f, 2.0f}, targets[] = {0, 1, 0, 1};
    const uint32_t labels[] = {1, 1};
    const struct trainer_answers by_labels = {.labels = labels}, by_targets = {.targets = targets};
    float gradient[4];

    struct trainer_loss loss = trainer_loss_of(TRAINER_MSE, 2, 2, y, &by_labels, 1, gradient);
    assert_true(fabs(loss.sum - (0.25 / 2 + 1.0 / 2)) < 1e-12);
    assert_true(gradient[0] == 0.5f && gradient[1] == 0 && gradient[2] == 0 && gradient[3] == 1);
    assert_int_equal(loss.correct, 2);
    loss = trainer_loss_of(TRAINER_MSE, 2, 2, y, &by_targets, 1, NULL);
    assert_true(fabs(loss.sum - (0.25 / 2 + 1.0 / 2)) < 1e-12);
    assert_int_equal(loss.correct, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_definition),
        cmocka_unit_test(stays_finite_with_logits_that_overflow_exp),
        cmocka_unit_test(cross_entropy_takes_probabilities_and_survives_a_zero),
        cmocka_unit_test(mse_goes_by_labels_or_by_targets),
        cmocka_unit_test(shows_logits_that_are_no_numbers),
        cmocka_unit_test(counts_the_first_of_equal_logits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
