"""Differences between two sets of paired values, with bootstrap intervals over the pairs (Efron 1979)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int64

from attnaudit.stats.bootstrap import percentile_interval, resample, resample_keys
from attnaudit.stats.inference import FEWEST

RESAMPLES = 1000
_TOGETHER = 50  # resamples drawn at a time


class PairedMeans(NamedTuple):
    """Of m measures: the means over the pairs where both are defined, the interval of their difference, and the number of pairs.

    What is not defined, such as the interval of fewer than `FEWEST` pairs, is NaN.
    """

    first: Float[np.ndarray, " m"]
    second: Float[np.ndarray, " m"]
    low: Float[np.ndarray, " m"]
    high: Float[np.ndarray, " m"]
    n: Int64[np.ndarray, " m"]


def paired_means(
    first: Float[np.ndarray, "n m"],
    second: Float[np.ndarray, "n m"],
    cluster: Int64[np.ndarray, " n"],
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> PairedMeans:
    """Means of both, and the 95 % percentile interval of the mean of ``second − first``; row i of one is paired with row i of the other.

    NaN is undefined and excludes the pair. A resample draws clusters, each with all its rows, the same for all measures and whatever the
    values, so that exchanging ``first`` and ``second`` negates every interval. Rows of a cluster must come in an order of their own.
    """
    gap = second - first
    known = ~np.isnan(gap)
    ids, of = np.unique(cluster, return_inverse=True)
    total, count = np.zeros((2, len(ids), gap.shape[1]))
    np.add.at(total, of, np.where(known, gap, 0.0))
    np.add.at(count, of, known)
    drawn = (count > 0).sum(axis=0)
    low, high = percentile_interval(resampled_ratios(total, count, seed, resamples), rows=drawn)
    few = drawn < FEWEST
    n = known.sum(axis=0)
    means = [_mean(np.where(known, values, 0.0).sum(axis=0), n) for values in (first, second)]
    return PairedMeans(
        means[0], means[1], np.where(few, np.nan, low), np.where(few, np.nan, high), n
    )


def resampled_ratios(
    total: Float[np.ndarray, "c m"], count: Float[np.ndarray, "c m"], seed: int, resamples: int
) -> Float[np.ndarray, "resamples m"]:
    """Of every resample Σ ``total`` / Σ ``count`` over the rows that it draws, whose order is theirs."""
    keys, means = resample_keys(seed, resamples), []
    for start in range(0, resamples, _TOGETHER):
        drawn = np.array(
            [resample(key, len(total)) for key in keys[start : start + _TOGETHER]], np.float64
        )
        # no product of matrices: the sums of one differ with the number of threads
        means.append(
            _mean(np.einsum("bc,cm->bm", drawn, total), np.einsum("bc,cm->bm", drawn, count))
        )
    return np.concatenate(means)


def _mean(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
