"""Percentile bootstrap over instances (Efron 1979)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int64
from scipy.special import ndtr, stdtrit

from attnaudit.core.kernels import kernel, over_rows, subroutine
from attnaudit.core.random import draw_below, stream_keys


def bootstrap_means(
    values: Float[np.ndarray, "n m"], *, seed: int, resamples: int = 1000, level: float = 0.95
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """Percentile interval of the mean of every column, ``(low, high)``, each ``(m,)``.

    NaN is undefined and excluded from the means; a column of NaN has the interval (NaN, NaN). A resample draws the same rows for all
    columns. The interval depends neither on the order of the rows nor on the number of threads.
    """
    means = np.full((resamples, values.shape[1]), np.nan)
    if len(values):
        over_rows(
            _mean_rows, resamples, canonical_order(values), resample_keys(seed, resamples), means
        )
    return percentile_interval(means, level, (~np.isnan(values)).sum(axis=0))


def bootstrap_clusters(
    values: Float[np.ndarray, "n m"], cluster: Int64[np.ndarray, " n"], *, seed: int
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """`bootstrap_means` for rows that are not independent: a resample draws clusters, each with all its rows."""
    rank = np.unique(cluster, return_inverse=True)[1]
    ordered = canonical_order(
        np.hstack([values, rank[:, None]])
    )  # sums that do not depend on the order of the rows
    values, of = ordered[:, :-1], ordered[:, -1].astype(np.int64)
    known = ~np.isnan(values)
    total, count = np.zeros((2, rank.max(initial=-1) + 1, values.shape[1]))
    np.add.at(total, of, np.where(known, values, 0.0))
    np.add.at(count, of, known)
    return bootstrap_ratios(total, count, seed=seed)


def bootstrap_ratios(
    numerator: Float[np.ndarray, "n m"],
    denominator: Float[np.ndarray, "n m"],
    *,
    seed: int,
    resamples: int = 1000,
    level: float = 0.95,
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """Percentile interval of ``Σ numerator / Σ denominator`` of every column, rows drawn whole, for example clusters."""
    both = canonical_order(np.hstack([numerator, denominator]).astype(np.float64))
    means = np.full((resamples, both.shape[1]), np.nan)
    over_rows(_mean_rows, resamples, both, resample_keys(seed, resamples), means)
    top, bottom = np.hsplit(means, 2)
    ratios = np.divide(top, bottom, out=np.full_like(top, np.nan), where=bottom > 0)
    return percentile_interval(ratios, level, (denominator != 0).sum(axis=0))


def means_over_seeds(
    values: Float[np.ndarray, "M S n"], *, seed: int, resamples: int = 1000
) -> Float[np.ndarray, "M resamples"]:
    """Resampled means of M measures of n rows under S seeds; a resample draws rows, and seeds, alike for all measures.

    NaN is excluded; nothing left gives NaN. Rows must be in a canonical order where the draws are not to depend on theirs.
    """
    measures, seeds, n = values.shape
    known = ~np.isnan(values)
    filled, drawn, means = (
        np.where(known, values, 0.0),
        drawn_seeds(seed, resamples, seeds),
        np.full((measures, resamples), np.nan),
    )
    for b, key in enumerate(resample_keys(seed, resamples)):
        weight = resample(key, n).astype(np.float64)
        total, count = (part[:, drawn[b]] @ weight for part in (filled, known.astype(np.float64)))
        each = np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
        some = ~np.isnan(each).all(axis=1)
        means[some, b] = np.nanmean(each[some], axis=1)
    return means


def drawn_seeds(seed: int, resamples: int, seeds: int) -> Int64[np.ndarray, "resamples S"]:
    """Which seeds each resample draws, with replacement; a single one is what there is."""
    drawn = np.empty((resamples, seeds), np.int64)
    _draw_rows(stream_keys(seed, "bootstrap over seeds", np.arange(resamples)), drawn)
    return drawn


@kernel
def _draw_rows(keys, drawn):
    for b in range(len(keys)):
        for draw in range(drawn.shape[1]):
            drawn[b, draw] = draw_below(keys[b], draw, drawn.shape[1])


def percentile_interval(
    statistics: Float[np.ndarray, "resamples m"],
    level: float = 0.95,
    rows: Int64[np.ndarray, " m"] | None = None,
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """The middle ``level`` of every column's resampled statistics; NaN is excluded, nothing left gives NaN.

    ``rows`` is how many independent rows, or clusters, were drawn from for each column. Of few the percentiles are moved outwards, to
    Φ(±√(n/(n − 1)) · t) with t that of n − 1 degrees of freedom: resampling n rows underestimates the spread as much (Hesterberg 2015).
    """
    tail = (
        np.full(statistics.shape[1], 0.5 * (1.0 - level))
        if rows is None
        else expanded_tail(rows, level)
    )
    ends = np.full((2, statistics.shape[1]), np.nan)
    for k, column in enumerate(statistics.T):
        known = column[~np.isnan(column)]
        if len(known):
            ends[:, k] = np.percentile(known, [100.0 * tail[k], 100.0 * (1.0 - tail[k])])
    return ends[0], ends[1]


def expanded_tail(rows: Int64[np.ndarray, " m"], level: float = 0.95) -> Float[np.ndarray, " m"]:
    """The share of resamples below an interval of ``level`` that was drawn from so many independent rows."""
    n = np.maximum(rows, 2).astype(np.float64)
    return ndtr(-np.sqrt(n / (n - 1.0)) * stdtrit(n - 1.0, 0.5 * (1.0 + level)))


def resample_keys(seed: int, resamples: int) -> np.ndarray:
    """The random stream of every resample."""
    return stream_keys(seed, "bootstrap", np.arange(resamples))


def canonical_order(values: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
    """The rows in an order that depends on what they hold alone; equal rows are neighbours."""
    columns = (np.ascontiguousarray(column, dtype=np.float64).view(np.int64) for column in values.T)
    return np.ascontiguousarray(
        values[np.argsort(stream_keys(0, "order", *columns), kind="stable")]
    )


@kernel
def _mean_rows(first, last, values, keys, means):
    for b in range(first, last):
        _means(values, resample(keys[b], len(values)), means[b])


@kernel
def resample(key, n):
    """How often each of ``n`` rows is drawn in ``n`` draws: drawn first and read afterwards, the rows are walked in order."""
    count = np.zeros(n, np.int32)
    for draw in range(n):
        count[draw_below(key, draw, n)] += 1
    return count


@subroutine
def _means(values, count, means):
    m = values.shape[1]
    total, known = np.zeros(m), np.zeros(m)
    for row in range(len(values)):
        if count[row] > 0:
            for k in range(m):
                if not np.isnan(values[row, k]):
                    total[k] += count[row] * values[row, k]
                    known[k] += count[row]
    for k in range(m):
        if known[k] > 0:
            means[k] = total[k] / known[k]
