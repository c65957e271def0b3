/* SPDX-License-Identifier: Apache-2.0 */
/* What repeated runs say about a difference, with its uncertainty. Pure functions over arrays; no I/O.
 *
 * The unit is always a run, never a step: steps of one run share that run's luck (placement, neighbours,
 * clock rate), so as samples they are not independent. A run is summarised by one number first, then:
 *
 *     pair i       the runs of repeat i in the two modes, next to each other in the order A B | B A | A B ...
 *     d_i          log(B_i / A_i) for a ratio, B_i - A_i for a difference
 *     x_i          position of B_i less position of A_i in that order
 *     model        d_i = mu + drift * x_i + e_i, by least squares; mu is the answer
 *     interval     mu +- t(1 - (1 - level) / 2, df) * se(mu)
 *
 * The order's term takes a drift of the machine that is linear over a session out of both the estimate and
 * its variance: for pairs that alternate it is the analysis of a two-period cross-over (Hills and Armitage,
 * Br. J. Clin. Pharmacol. 8, 1979), written as a regression. It costs one degree of freedom. With fewer than
 * STATISTICS_ORDER_MIN pairs, or when all pairs have the same order, it cannot be told from mu or would cost
 * too much; then the model is d_i = mu + e_i, Student's paired t. */
#ifndef MUSTER_STATISTICS_H
#define MUSTER_STATISTICS_H

#include <stdbool.h>
#include <stddef.h>

#define STATISTICS_ORDER_MIN 4

struct statistics_summary {
    size_t count;
    double mean, median, sd, min, max; /* sd with count - 1; NAN where count does not allow it */
};

/* `values` is sorted in place. NAN in all numbers when count is 0. */
void statistics_summarise(double *values, size_t count, struct statistics_summary *ret_summary);
/* Of ascending values, linear between them: Hyndman and Fan's type 7 (Am. Stat. 50, 1996), numpy's default.
 * count >= 1, 0 <= p <= 1. */
double statistics_quantile(const double *sorted, size_t count, double p);

/* Student's t with df > 0 degrees of freedom: P(T <= t), and the t for 0 < p < 1. By the regularised
 * incomplete beta function, I_x(df/2, 1/2) with x = df / (df + t^2) (Abramowitz and Stegun 26.7.1), as a
 * continued fraction (DLMF 8.17.22) evaluated by Lentz's method; the quantile by bisection, to the last bits.
 */
double statistics_t_cdf(double t, double df);
double statistics_t_quantile(double p, double df);

struct statistics_interval {
    size_t count;               /* pairs */
    double estimate, low, high; /* low and high are NAN when has_interval is false: fewer than two pairs */
    double se, df, drift; /* of the model's own scale (logs for a ratio); drift per place in the order */
    bool has_interval, has_order;
};

/* mu and its interval from differences; `order` may be NULL (no order known). 0 < level < 1. */
void statistics_paired(const double *differences, const double *order, size_t count, double level,
                       struct statistics_interval *ret_interval);
/* The ratio of `b` to `a`: exp() of the above over d_i = log(b_i / a_i). All values must be positive.
 * `scratch` has room for `count` numbers. */
void statistics_ratio(const double *a, const double *b, const double *order, size_t count, double level,
                      double *scratch, struct statistics_interval *ret_interval);
/* False also when there is no interval. */
bool statistics_excludes(const struct statistics_interval *interval, double value);

/* Marks values that are far from the others: a modified z-score 0.6745 * |x - median| / MAD above 3.5
 * (Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993), and when MAD is 0, |x - median| / (1.2533
 * * mean absolute deviation) above 3.5. With fewer than 4 values none is marked. Marked values are still
 * counted: this is for the eye. `scratch` has room for `count` numbers. Returns how many were marked. */
size_t statistics_outliers(const double *values, size_t count, double *scratch, bool *ret_marks);

#endif
