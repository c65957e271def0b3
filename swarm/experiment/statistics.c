/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/statistics.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FRACTION_STEPS_MAX 10000
#define BISECTIONS         200 /* more than a double's exponent and digits can ask for */

static int ascending(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

double statistics_quantile(const double *sorted, size_t count, double p)
{
    const double place = p * (double)(count - 1);
    const size_t below = (size_t)place;

    return below + 1 < count ? sorted[below] + (place - (double)below) * (sorted[below + 1] - sorted[below])
                             : sorted[count - 1];
}

static double mean_of(const double *values, size_t count)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return count > 0 ? sum / (double)count : NAN;
}

void statistics_summarise(double *values, size_t count, struct statistics_summary *ret_summary)
{
    struct statistics_summary summary = {
        .count = count, .mean = NAN, .median = NAN, .sd = NAN, .min = NAN, .max = NAN};
    double squares = 0;

    if (count > 0) {
        qsort(values, count, sizeof *values, ascending);
        summary.mean = mean_of(values, count);
        summary.median = statistics_quantile(values, count, 0.5);
        summary.min = values[0];
        summary.max = values[count - 1];
        for (size_t i = 0; i < count; i++)
            squares += (values[i] - summary.mean) * (values[i] - summary.mean);
        if (count > 1)
            summary.sd = sqrt(squares / (double)(count - 1));
    }
    *ret_summary = summary;
}

/* ---- Student's t ---- */

/* The continued fraction of DLMF 8.17.22, which converges fast for x < (a + 1) / (a + b + 2). */
static double beta_fraction(double x, double a, double b)
{
    const double tiny = DBL_MIN / DBL_EPSILON;
    double c = 1, d = 1 - (a + b) * x / (a + 1), value;

    d = 1 / (fabs(d) < tiny ? tiny : d);
    value = d;
    for (int m = 1; m <= FRACTION_STEPS_MAX; m++) {
        const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        const double terms[] = {even, odd};
        double change = 1;
        for (size_t i = 0; i < 2; i++) {
            d = 1 + terms[i] * d;
            c = 1 + terms[i] / c;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = fabs(c) < tiny ? tiny : c;
            change = c * d;
            value *= change;
        }
        if (fabs(change - 1) < DBL_EPSILON)
            break;
    }
    return value;
}

static double beta_regularised(double x, double a, double b)
{
    double front;

    if (x <= 0 || x >= 1)
        return x <= 0 ? 0 : 1;
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    return x < (a + 1) / (a + b + 2) ? front * beta_fraction(x, a, b) / a
                                     : 1 - front * beta_fraction(1 - x, b, a) / b;
}

double statistics_t_cdf(double t, double df)
{
    const double tail = beta_regularised(df / (df + t * t), df / 2, 0.5) / 2;

    return t > 0 ? 1 - tail : tail;
}

double statistics_t_quantile(double p, double df)
{
    /* By the tail's symmetry for p below a half: 1 - p would lose digits. */
    const double tail = p < 0.5 ? p : 1 - p;
    double low = 0, high = 1;

    if (p == 0.5)
        return 0;
    while (statistics_t_cdf(-high, df) > tail && high < DBL_MAX / 4)
        high *= 2;
    for (int i = 0; i < BISECTIONS && high - low > DBL_EPSILON * high; i++) {
        const double middle = (low + high) / 2;
        if (statistics_t_cdf(-middle, df) > tail)
            low = middle;
        else
            high = middle;
    }
    return p < 0.5 ? -(low + high) / 2 : (low + high) / 2;
}

/* ---- pairs ---- */

/* Least squares of d = mu + drift * x, or of d = mu where x does not vary. */
static void fit(const double *d, const double *x, size_t count, struct statistics_interval *interval)
{
    const double n = (double)count, mean_d = mean_of(d, count), mean_x = x ? mean_of(x, count) : 0;
    double xx = 0, xd = 0, squares = 0;

    for (size_t i = 0; i < count && x; i++) {
        xx += (x[i] - mean_x) * (x[i] - mean_x);
        xd += (x[i] - mean_x) * (d[i] - mean_d);
    }
    interval->has_order = x && xx > 0 && count >= STATISTICS_ORDER_MIN;
    interval->drift = interval->has_order ? xd / xx : 0;
    interval->estimate = mean_d - interval->drift * (interval->has_order ? mean_x : 0);
    for (size_t i = 0; i < count; i++) {
        const double fitted = interval->estimate + (interval->has_order ? interval->drift * x[i] : 0);
        squares += (d[i] - fitted) * (d[i] - fitted);
    }
    interval->df = n - (interval->has_order ? 2 : 1);
    if (interval->df > 0)
        interval->se =
            sqrt(squares / interval->df * (1 / n + (interval->has_order ? mean_x * mean_x / xx : 0)));
}

void statistics_paired(const double *differences, const double *order, size_t count, double level,
                       struct statistics_interval *ret_interval)
{
    struct statistics_interval interval = {
        .count = count, .estimate = NAN, .low = NAN, .high = NAN, .se = NAN};

    if (count > 0)
        fit(differences, order, count, &interval);
    if (count > 1) {
        const double reach = statistics_t_quantile(1 - (1 - level) / 2, interval.df) * interval.se;
        interval.low = interval.estimate - reach;
        interval.high = interval.estimate + reach;
        interval.has_interval = true;
    }
    *ret_interval = interval;
}

void statistics_ratio(const double *a, const double *b, const double *order, size_t count, double level,
                      double *scratch, struct statistics_interval *ret_interval)
{
    for (size_t i = 0; i < count; i++)
        scratch[i] = log(b[i] / a[i]);
    statistics_paired(scratch, order, count, level, ret_interval);
    ret_interval->estimate = exp(ret_interval->estimate);
    ret_interval->low = exp(ret_interval->low);
    ret_interval->high = exp(ret_interval->high);
}

bool statistics_excludes(const struct statistics_interval *interval, double value)
{
    return interval->has_interval && (interval->low > value || interval->high < value);
}

size_t statistics_outliers(const double *values, size_t count, double *scratch, bool *ret_marks)
{
    double median, mad, spread;
    size_t marked = 0;

    memset(ret_marks, 0, count * sizeof *ret_marks);
    if (count < 4)
        return 0;
    memcpy(scratch, values, count * sizeof *scratch);
    qsort(scratch, count, sizeof *scratch, ascending);
    median = statistics_quantile(scratch, count, 0.5);
    for (size_t i = 0; i < count; i++)
        scratch[i] = fabs(values[i] - median);
    qsort(scratch, count, sizeof *scratch, ascending);
    mad = statistics_quantile(scratch, count, 0.5);
    spread = mad > 0 ? mad / 0.6745 : 1.2533 * mean_of(scratch, count);
    for (size_t i = 0; i < count && spread > 0; i++) {
        ret_marks[i] = fabs(values[i] - median) > 3.5 * spread;
        marked += ret_marks[i];
    }
    return marked;
}
