/* SPDX-License-Identifier: Apache-2.0 */
/* Against numbers of numpy and scipy (make_reference.py), and over simulated experiments in which both modes
 * are the same: how often the interval covers zero. */
#include "../common/test.h"
#include "muster/statistics.h"

#include <math.h>

#define VALUES_MAX 128

/* ---- stored numbers ---- */

static void assert_near(double value, double expected, double relative, const char *what)
{
    if (isnan(expected) ? !isnan(value) : !(fabs(value - expected) <= relative * fmax(1e-12, fabs(expected))))
        fail_msg("%s: %.17g, expected %.17g", what, value, expected);
}

static void check_summary(double *values, size_t count)
{
    static const double places[] = {0, 0.1, 0.5, 0.9, 1};
    double *const expected = values + count;
    struct statistics_summary summary;

    statistics_summarise(values, count, &summary);
    assert_int_equal(summary.count, count);
    assert_near(summary.mean, expected[0], 1e-13, "mean");
    assert_near(summary.median, expected[1], 1e-13, "median");
    assert_near(summary.sd, expected[2], 1e-12, "sd");
    for (size_t i = 0; i < MST_ARRAY_COUNT(places); i++)
        assert_near(statistics_quantile(values, count, places[i]), expected[3 + i], 1e-13, "quantile");
    assert_true(summary.min == values[0] && summary.max == values[count - 1]);
}

static void check_paired(const double *values, size_t n)
{
    const double *a = values, *b = values + n, *order = values + 2 * n, *expected = values + 3 * n;
    double differences[VALUES_MAX], scratch[VALUES_MAX];
    struct statistics_interval interval;

    for (size_t i = 0; i < n; i++)
        differences[i] = b[i] - a[i];
    statistics_paired(differences, order, n, 0.95, &interval);
    assert_true(interval.has_interval);
    assert_near(interval.estimate, expected[0], 1e-10, "difference");
    assert_near(interval.low, expected[1], 1e-9, "its low end");
    assert_near(interval.high, expected[2], 1e-9, "its high end");
    assert_near(interval.drift, expected[3], 1e-9, "drift");
    statistics_ratio(a, b, order, n, 0.95, scratch, &interval);
    assert_near(interval.estimate, expected[4], 1e-10, "ratio");
    assert_near(interval.low, expected[5], 1e-10, "its low end");
    assert_near(interval.high, expected[6], 1e-10, "its high end");
}

static void numbers_are_those_of_scipy(void **state)
{
    FILE *const file = fopen(MUSTER_TEST_DATA "/statistics.txt", "re");
    char line[8192], kind[16];
    size_t checked = 0;

    (void)state;
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        double values[VALUES_MAX];
        size_t count = 0;
        int used, more;
        assert_int_equal(sscanf(line, "%15s%n", kind, &used), 1);
        for (const char *at = line + used; sscanf(at, "%lf%n", &values[count], &more) == 1; at += more)
            assert_true(++count < VALUES_MAX);
        if (strcmp(kind, "cdf") == 0)
            assert_near(statistics_t_cdf(values[1], values[0]), values[2], 1e-11, line);
        else if (strcmp(kind, "quantile") == 0)
            assert_near(statistics_t_quantile(values[1], values[0]), values[2], 1e-10, line);
        else if (strcmp(kind, "summary") == 0)
            check_summary(values + 1, (size_t)values[0]);
        else if (strcmp(kind, "paired") == 0)
            check_paired(values + 1, (size_t)values[0]);
        else
            fail_msg("a line of another kind: %s", kind);
        checked++;
    }
    assert_int_equal(fclose(file), 0);
    assert_int_equal(checked, 12 * 17 + 7 + 8);
}

static void one_pair_has_an_estimate_and_no_interval(void **state)
{
    const double a = 50, b = 55, order = 1;
    struct statistics_interval interval;
    double scratch;

    (void)state;
    statistics_ratio(&a, &b, &order, 1, 0.95, &scratch, &interval);
    assert_near(interval.estimate, 1.1, 1e-12, "ratio");
    assert_false(interval.has_interval);
    assert_true(isnan(interval.low) && isnan(interval.high));
    assert_false(statistics_excludes(&interval, 1));
    statistics_ratio(&a, &b, &order, 0, 0.95, &scratch, &interval);
    assert_true(isnan(interval.estimate));
    assert_false(interval.has_interval);
}

static void parts_sum_to_their_whole(void **state)
{
    const double one[] = {1, 2.5, -1, 4, 3.25}, other[] = {0.5, 0.25, 7, -2, 1}, order[] = {1, -1, 1, -1, 2};
    double sum[5];
    struct statistics_interval a, b, whole;

    (void)state;
    for (size_t i = 0; i < 5; i++)
        sum[i] = one[i] + other[i];
    statistics_paired(one, order, 5, 0.95, &a);
    statistics_paired(other, order, 5, 0.95, &b);
    statistics_paired(sum, order, 5, 0.95, &whole);
    assert_near(a.estimate + b.estimate, whole.estimate, 1e-13, "sum");
}

static void outliers_are_marked(void **state)
{
    const double far[] = {10, 10.2, 9.9, 10.1, 14, 10}, same[] = {5, 5, 5, 5, 5}, one[] = {5, 5, 5, 5, 9},
                 few[] = {1, 1, 9};
    double scratch[8];
    bool marks[8];

    (void)state;
    assert_int_equal(statistics_outliers(far, 6, scratch, marks), 1);
    assert_true(marks[4] && !marks[0]);
    assert_int_equal(statistics_outliers(same, 5, scratch, marks), 0);
    assert_int_equal(statistics_outliers(one, 5, scratch, marks), 1);
    assert_true(marks[4]);
    assert_int_equal(statistics_outliers(few, 3, scratch, marks), 0);
    assert_false(marks[2]);
}

/* ---- simulated experiments ---- */

static uint64_t next(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double uniform(uint64_t *state)
{
    return ((double)(next(state) >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(uint64_t *state) /* Box and Muller */
{
    const double radius = sqrt(-2 * log(uniform(state)));

    return radius * cos(2 * 3.14159265358979323846 * uniform(state));
}

/* A run of a machine that is as noisy as a shared host: steps are log-normal, a run as a whole has its own
 * luck, one in fifty meets a neighbour that costs it 5 to 25 %, and the session drifts by a few per cent from
 * its begin to its end. */
#define STEPS         40
#define STEP_SIGMA    0.12
#define RUN_SIGMA     0.015
#define DRIFT_SIGMA   0.05
#define OUTLIER_SHARE 0.02

static double simulated_run(uint64_t *state, double drifted)
{
    const double luck = RUN_SIGMA * normal(state) + drifted +
                        (uniform(state) < OUTLIER_SHARE ? 0.05 + 0.2 * uniform(state) : 0);
    double sum = 0;

    for (size_t i = 0; i < STEPS; i++)
        sum += 40 * exp(luck + STEP_SIGMA * normal(state));
    return sum / STEPS;
}

/* A B B A A B B A ...: is no difference found where none is? */
static bool simulated_experiment(uint64_t *state, size_t repeats)
{
    const double drift = DRIFT_SIGMA * normal(state);
    double a[VALUES_MAX], b[VALUES_MAX], order[VALUES_MAX], scratch[VALUES_MAX];
    struct statistics_interval interval;

    for (size_t i = 0; i < repeats; i++) {
        const bool is_a_first = i % 2 == 0;
        double *const first = is_a_first ? &a[i] : &b[i], *const second = is_a_first ? &b[i] : &a[i];
        *first = simulated_run(state, drift * (double)(2 * i) / (double)(2 * repeats));
        *second = simulated_run(state, drift * (double)(2 * i + 1) / (double)(2 * repeats));
        order[i] = is_a_first ? 1 : -1;
    }
    statistics_ratio(a, b, order, repeats, 0.95, scratch, &interval);
    return !statistics_excludes(&interval, 1);
}

static void equal_modes_are_found_equal_as_often_as_promised(void **state)
{
    static const size_t repeats[] = {5, 10, 20};
    enum { EXPERIMENTS = 2000 };
    uint64_t seed = 20261128;

    (void)state;
    for (size_t i = 0; i < MST_ARRAY_COUNT(repeats); i++) {
        size_t covered = 0;
        for (size_t k = 0; k < EXPERIMENTS; k++)
            covered += simulated_experiment(&seed, repeats[i]);
        print_message("%zu repeats: the interval covers zero in %.1f %% of %d\n", repeats[i],
                      100.0 * (double)covered / EXPERIMENTS, EXPERIMENTS);
        assert_in_range(covered, EXPERIMENTS * 93 / 100, EXPERIMENTS * 97 / 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_of_scipy),
        cmocka_unit_test(one_pair_has_an_estimate_and_no_interval),
        cmocka_unit_test(parts_sum_to_their_whole),
        cmocka_unit_test(outliers_are_marked),
        cmocka_unit_test(equal_modes_are_found_equal_as_often_as_promised),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
