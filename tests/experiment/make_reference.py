#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes data/statistics.txt: numbers of numpy and scipy for test_statistics.c. Needed only to make them anew."""
import pathlib

import numpy
import scipy.stats

LEVEL = 0.95


def quantile(p, df):
    """scipy's, which is right to nine digits only, and then Newton's steps with its distribution function."""
    t = scipy.stats.t.ppf(p, df)
    for _ in range(4):
        t -= (scipy.stats.t.cdf(t, df) - p) / scipy.stats.t.pdf(t, df)
    return t


def interval(d, x):
    """Least squares of d = mu + drift * x, mu's Student interval."""
    design = numpy.column_stack([numpy.ones(len(d))] + ([x] if x is not None else []))
    beta, residual, _, _ = numpy.linalg.lstsq(design, d, rcond=None)
    df = len(d) - design.shape[1]
    variance = numpy.sum((d - design @ beta) ** 2) / df
    se = numpy.sqrt(variance * numpy.linalg.inv(design.T @ design)[0, 0])
    reach = quantile((1 + LEVEL) / 2, df) * se
    return beta[0], beta[0] - reach, beta[0] + reach, beta[1] if x is not None else 0.0


def main():
    rng = numpy.random.default_rng(20261128)
    lines = []
    for df in (1, 2, 3, 4, 5, 8, 9, 18, 19, 38, 100, 1000.5):
        for t in (-40, -3.5, -1, -0.1, 0, 0.25, 2, 12):
            lines.append(("cdf", df, t, scipy.stats.t.cdf(t, df)))
        for p in (1e-6, 0.005, 0.025, 0.1, 0.4, 0.9, 0.975, 0.995, 0.99999):
            lines.append(("quantile", df, p, quantile(p, df)))
    for n in (1, 2, 3, 4, 5, 10, 20):
        values = numpy.round(rng.lognormal(3.5, 0.2, n), 6)
        summary = [numpy.mean(values), numpy.median(values), numpy.std(values, ddof=1) if n > 1 else float("nan")]
        quantiles = [numpy.quantile(values, p) for p in (0.0, 0.1, 0.5, 0.9, 1.0)]
        lines.append(("summary", n, *values, *summary, *quantiles))
    for n in (2, 3, 4, 5, 6, 10, 20):
        a = numpy.round(rng.lognormal(3.5, 0.05, n), 6)
        b = numpy.round(a * rng.lognormal(0.05, 0.05, n), 6)
        order = numpy.array([1 if i % 2 == 0 else -1 for i in range(n)], dtype=float)
        used = order if n >= 4 else None
        lines.append(
            ("paired", n, *a, *b, *order, *interval(b - a, used), *numpy.exp(interval(numpy.log(b / a), used)[:3]))
        )
        if n == 10:  # scipy's own paired t, where all pairs have one order
            d = b - a
            own = scipy.stats.t.interval(LEVEL, n - 1, numpy.mean(d), scipy.stats.sem(d))
            lines.append(
                (
                    "paired",
                    n,
                    *a,
                    *b,
                    *numpy.ones(n),
                    numpy.mean(d),
                    own[0],
                    own[1],
                    0.0,
                    *numpy.exp(interval(numpy.log(b / a), None)[:3]),
                )
            )
    text = "".join(
        " ".join(field if isinstance(field, str) else f"{field:.17g}" for field in line) + "\n" for line in lines
    )
    pathlib.Path(__file__).with_name("data").joinpath("statistics.txt").write_text(text)


main()
