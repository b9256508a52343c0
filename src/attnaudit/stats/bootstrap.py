"""The bootstrap (Efron 1979): statistics of resampling weights, and percentile intervals.

A resample draws units, texts with all their rows, as often as there are units. So it is a vector of
weights, and whatever is resampled is a function of such weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int64
from scipy.special import ndtr, stdtrit

from attnaudit.core.random import below, stream_keys
from attnaudit.core.threads import over_rows

RESAMPLES = 1000
GROUPS = 4096
BLOCK = 50  # resamples at a time: their weights of `GROUPS` units fit into a processor's cache

Statistic = Callable[[Float[np.ndarray, "b u"]], np.ndarray]


class Units(NamedTuple):
    """What a resample draws, for the rows of a sample.

    Up to `GROUPS` texts are units themselves. More are put into `GROUPS` random groups by a hash of
    their number, and the groups are drawn (Wolter 2007, chapter 2): each is a random sample of the
    texts, so the spread between groups gives that of the estimate. The standard error is then known
    to 1 in √(2 · `GROUPS`), 1.1 %, less than `RESAMPLES` resamples add.

    Attributes:
        row: Unit of each row, ``(n,)``.
        number: Number of units.
        text: Text of each row, ``(n,)``, counted from 0.
        texts: Number of texts.
    """

    row: np.ndarray
    number: int
    text: np.ndarray
    texts: int

    @classmethod
    def of_texts(cls, names: Int64[np.ndarray, " n"]) -> Units:
        """Find the units of rows from the number of the text that each is of."""
        if (names[1:] > names[:-1]).all():  # of one row each: nothing need be sorted
            distinct, text = names, np.arange(len(names), dtype=np.int32)
        else:
            distinct, code = np.unique(names, return_inverse=True)
            text = code.astype(np.int32)
        if len(distinct) <= GROUPS:
            return cls(text, len(distinct), text, len(distinct))
        group = np.empty(len(distinct), np.int32)
        for start in range(0, len(distinct), 1 << 16):  # hashes take several times the memory
            part = slice(start, start + (1 << 16))
            group[part] = stream_keys(0, "random groups", distinct[part]) % np.uint64(GROUPS)
        return cls(group[text], GROUPS, text, len(distinct))


def resampled(
    statistic: Statistic, units: int, seed: int, resamples: int = RESAMPLES
) -> np.ndarray:
    """Compute a statistic of every resample.

    Args:
        statistic: Takes the weights of ``b`` resamples, ``(b, units)``, and returns an array whose
            first axis has length ``b``.
        units: Number of units; a resample draws as many, with replacement.
        seed: Seed of the draws. They depend on nothing else but the number of units.
        resamples: Number of resamples.

    Returns:
        The statistics, ``(resamples, ...)``.
    """
    keys = resample_keys(seed, resamples)

    # Blocks have the same resamples on any number of threads: the last digit of a sum may depend
    # on the shape of the array.
    def blocks(first: int, last: int) -> list[np.ndarray]:
        starts = range(BLOCK * first, BLOCK * last, BLOCK)
        return [statistic(_weights(keys[start : start + BLOCK], units)) for start in starts]

    parts = over_rows(blocks, -(-resamples // BLOCK))
    return np.concatenate([values for part in parts for values in part])


def resample_keys(seed: int, resamples: int) -> np.ndarray:
    """Return the random stream of every resample, uint64 ``(resamples,)``."""
    return stream_keys(seed, "bootstrap", np.arange(resamples))


def _weights(keys: np.ndarray, units: int) -> Float[np.ndarray, "b u"]:
    """Count how often each unit is drawn in ``units`` draws from each stream."""
    drawn = below(keys[:, None], np.arange(units), units)
    cells = drawn + units * np.arange(len(keys))[:, None]
    counts = np.bincount(cells.ravel(), minlength=cells.size)
    return counts.reshape(cells.shape).astype(np.float64)


def weighted_sums(
    weights: Float[np.ndarray, "b u"], sums: Float[np.ndarray, "... u"]
) -> Float[np.ndarray, "b ..."]:
    """Sum over units with the weights of each resample."""
    # Not a matrix product: the last digits of one depend on the number of threads.
    return np.einsum("bu,...u->b...", weights, sums)


def ratio(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    """Divide where ``bottom`` is positive; NaN elsewhere."""
    return np.divide(top, bottom, out=np.full(np.shape(top), np.nan), where=bottom > 0)


def ratio_intervals(
    top: Float[np.ndarray, "m u"],
    bottom: Float[np.ndarray, "m u"],
    seed: int,
    resamples: int = RESAMPLES,
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """Return 95 % percentile intervals of ``Σ top / Σ bottom``, a mean if ``bottom`` counts rows.

    All measures share their resamples, so that a difference of two is resampled in pairs.

    Args:
        top: Sums of the numerators of m measures over each unit.
        bottom: Sums of the denominators.
        seed: Seed of the draws.
        resamples: Number of resamples.
    """

    def ratios(weights: Float[np.ndarray, "b u"]) -> Float[np.ndarray, "b m"]:
        return ratio(weighted_sums(weights, top), weighted_sums(weights, bottom))

    drawn = resampled(ratios, top.shape[1], seed, resamples)
    return percentile_interval(drawn, (bottom != 0).sum(axis=1))


def percentile_interval(
    statistics: Float[np.ndarray, "resamples m"], units: Int64[np.ndarray, " m"] | None = None
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """Return the middle 95 % of the resampled statistics of every column, ``(low, high)``.

    NaN is excluded; a column of NaN has the interval (NaN, NaN).

    Args:
        statistics: A row per resample.
        units: Number of units with a value in each column. With few the percentiles are moved
            outwards (`expanded_tail`); without this argument they stay.
    """
    tails = np.full(statistics.shape[1], 0.025) if units is None else expanded_tail(units)
    ends = np.full((2, statistics.shape[1]), np.nan)
    for k, (column, tail) in enumerate(zip(statistics.T, tails, strict=True)):
        known = column[~np.isnan(column)]
        if len(known):
            ends[:, k] = np.quantile(known, [tail, 1.0 - tail])
    return ends[0], ends[1]


def expanded_tail(units: Int64[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
    """Return the share of resamples below a 95 % interval of a mean of few units.

    Resampling n units underestimates the spread by √((n − 1)/n) and ignores that it is estimated,
    so the tail is Φ(−√(n/(n − 1)) · t) with t of n − 1 degrees of freedom (Hesterberg 2015).
    """
    n = np.maximum(units, 2).astype(np.float64)
    return ndtr(-np.sqrt(n / (n - 1.0)) * stdtrit(n - 1.0, 0.975))


def resampled_over_seeds(
    statistic: Statistic, units: int, seeds: int, seed: int, resamples: int = RESAMPLES
) -> np.ndarray:
    """Resample units and trained models together: means of a statistic over drawn seeds.

    Args:
        statistic: Takes weights ``(b, units)`` and returns ``(b, seeds, ...)``, NaN if undefined.
        units: Number of units.
        seeds: Number of models that were trained with different seeds; a resample draws as many.
        seed: Seed of the draws, which are alike for all that ``statistic`` returns.
        resamples: Number of resamples.

    Returns:
        Means over the seeds drawn for which the statistic is defined, ``(resamples, ...)``.
    """
    each = resampled(statistic, units, seed, resamples)
    keys = stream_keys(seed, "bootstrap over seeds", np.arange(resamples))
    chosen = below(keys[:, None], np.arange(seeds), seeds)
    drawn = each[np.arange(resamples)[:, None], chosen]
    known = ~np.isnan(drawn)
    return ratio(np.where(known, drawn, 0.0).sum(axis=1), known.sum(axis=1))


def means_over_seeds(
    values: Float[np.ndarray, "M S n"], seed: int, resamples: int = RESAMPLES
) -> Float[np.ndarray, "resamples M"]:
    """Resample the means of M measures of the same n rows of models trained with S seeds.

    NaN is excluded. Sort the rows if the draws must not depend on their order.
    """
    known = ~np.isnan(values)
    total, count = (np.moveaxis(part, 0, 1) for part in (np.where(known, values, 0.0), known))

    def means(weights: Float[np.ndarray, "b n"]) -> Float[np.ndarray, "b S M"]:
        sums = weighted_sums(weights, total)
        return ratio(sums, weighted_sums(weights, count.astype(np.float64)))

    _, seeds, rows = values.shape
    return resampled_over_seeds(means, rows, seeds, seed, resamples)
