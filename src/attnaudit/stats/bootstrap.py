"""The bootstrap, with resamples as weights of units, and its intervals.

A unit is a text with all its rows. A resample is a vector of weights, and every resampled statistic
is a function of such a vector. Weights count draws with replacement (Efron 1979); for means and
ratios they are exponential numbers (Rubin 1981).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr, stdtrit

from attnaudit.core.random import below, stream_keys, uniform
from attnaudit.core.shapes import Indices, RowInts, Values
from attnaudit.core.threads import on_threads
from attnaudit.core.tolerance import TOLERANCE

RESAMPLES = 1000
# Largest number of units; `Units` states the precision that it leaves.
GROUPS = 4096
# Resamples at a time. Their weights for `GROUPS` units are 0.8 MB, which fit into a core's cache.
BLOCK = 25
# Least effective number of units that differ from the mean, (Σ gap²)² / Σ gap⁴, if the range is
# unknown. Below it, simulated intervals of sparse means are too short.
FEWEST_CARRIERS = 3

Weights = Float[np.ndarray, "b u"]
Statistic = Callable[[Weights], np.ndarray]


class Units(NamedTuple):
    """Resampling units of the rows of a sample.

    Up to `GROUPS` texts are units themselves. More texts are divided into `GROUPS` random groups by
    a hash of their number, and the groups are the units (Wolter 2007, chapter 2). Each group is a
    random sample of the texts, so the spread between groups estimates the spread of the statistic.
    The relative error of the standard error is then 1/√(2 · `GROUPS`), 1.1 %, which is less than
    `RESAMPLES` resamples add.

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
    def of_texts(cls, names: RowInts) -> Units:
        """Assign rows to units by the number of each row's text."""
        # Strictly ascending numbers mean one row per text, which saves sorting a large table. int32
        # halves the memory of the result.
        if (names[1:] > names[:-1]).all():
            distinct, text = names, np.arange(len(names), dtype=np.int32)
        else:
            distinct, code = np.unique(names, return_inverse=True)
            text = code.astype(np.int32)
        if len(distinct) <= GROUPS:
            return cls(text, len(distinct), text, len(distinct))
        group = np.empty(len(distinct), np.int32)
        # In pieces, because hashing takes several times the memory of its result.
        for start in range(0, len(distinct), 1 << 16):
            part = slice(start, start + (1 << 16))
            group[part] = stream_keys(0, "random groups", distinct[part]) % np.uint64(GROUPS)
        return cls(group[text], GROUPS, text, len(distinct))


def counts(keys: np.ndarray, units: int) -> Weights:
    """Count how often each unit is drawn in ``units`` draws from each stream."""
    cells = below(keys[:, None], np.arange(units), units) + units * np.arange(len(keys))[:, None]
    return np.bincount(cells.ravel(), minlength=cells.size).reshape(cells.shape).astype(np.float64)


def exponentials(keys: np.ndarray, units: int) -> Weights:
    """Draw an exponential weight for each unit from each stream."""
    return -np.log(uniform(keys[:, None], np.arange(units)))


def resampled(
    statistic: Statistic,
    units: int,
    seed: int,
    resamples: int = RESAMPLES,
    weights: Callable[..., np.ndarray] = counts,
) -> np.ndarray:
    """Compute a statistic of every resample.

    Args:
        statistic: Function from the weights of ``b`` resamples, ``(b, units)``, to an array whose
            first axis has length ``b``.
        units: Number of units.
        seed: Seed of the draws, which otherwise depend on the number of units only.
        resamples: Number of resamples.
        weights: Function from the streams of ``b`` resamples and the number of units to weights.

    Returns:
        The statistics, ``(resamples, ...)``.
    """
    keys = stream_keys(seed, "bootstrap", np.arange(resamples))

    # Blocks hold the same resamples on any number of threads, because the last digit of a sum may
    # depend on the shape of the array.
    def block(start):
        return statistic(weights(keys[start : start + BLOCK], units))

    return np.concatenate(on_threads(block, range(0, resamples, BLOCK)))


def weighted_sums(weights: Weights, sums: Float[np.ndarray, "... u"]) -> Float[np.ndarray, "b ..."]:
    """Sum over units with the weights of each resample.

    Args:
        weights: Weights of the units in b resamples.
        sums: Sums of any quantities over the rows of each unit.
    """
    # Not `@`: the last digits of a matrix product depend on the number of threads.
    return np.einsum("bu,...u->b...", weights, sums)


def ratio(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    """Divide if ``bottom`` is positive, else return NaN."""
    return np.divide(top, bottom, out=np.full(np.shape(top), np.nan), where=bottom > 0)


def ratio_intervals(
    top: Float[np.ndarray, "m u"],
    bottom: Float[np.ndarray, "m u"],
    seed: int,
    ranges: Float[np.ndarray, "#m 2"] | None = None,
    texts: Indices | None = None,
    resamples: int = RESAMPLES,
) -> tuple[Values, Values]:
    """Return 95 % intervals of ``Σ top / Σ bottom``, a mean if ``bottom`` counts rows.

    Every resample has one more text, to allow for texts that the sample lacks. It is at the lower
    limit of the range for the lower end, and at the upper limit for the upper end (Gaffke 2005).
    For shares this gives Clopper & Pearson's interval. All measures share their resamples, so
    exchanging the sides of a difference negates its interval.

    Args:
        top: Sums of the numerators of m measures over each unit.
        bottom: Sums of the denominators.
        seed: Seed of the draws.
        ranges: Least and largest possible ratio of each measure, or of all; NaN if unknown. A
            range that a unit exceeds is unknown too. The added text is then the most extreme unit.
        texts: Number of texts with a value; by default each unit is a text.
        resamples: Number of resamples.

    Returns:
        Lower and upper ends; NaN if the range is unknown and too few units differ from the
        mean (`FEWEST_CARRIERS`).
    """
    number = (bottom != 0).sum(axis=1) if texts is None else texts
    whole = bottom.sum(axis=1)
    value, size = ratio(top.sum(axis=1), whole)[:, None], ratio(whole, number)[:, None]
    gaps = top - value * bottom
    gaps[abs(gaps) <= TOLERANCE.rounding * abs(top)] = 0.0
    extremes = np.stack([end(gaps, axis=1, initial=0.0) for end in (np.min, np.max)], axis=1)
    few = (gaps**2).sum(axis=1) ** 2 <= FEWEST_CARRIERS * (gaps**4).sum(axis=1)
    extremes[few] = np.nan
    if ranges is not None:
        outside = abs(top - np.clip(top, *(ranges.T[:, :, None] * bottom)))
        inside = (outside <= TOLERANCE.network * abs(bottom)).all(axis=1)
        extremes[inside] = ((ranges - value) * size)[inside]

    def ratios(weights: Weights) -> Float[np.ndarray, "b m 2"]:
        own, added = weights[:, :-1], weights[:, -1, None, None]
        tops = weighted_sums(own, gaps)[..., None] + added * extremes
        return value + ratio(tops, weighted_sums(own, bottom)[..., None] + added * size)

    drawn = resampled(ratios, top.shape[1] + 1, seed, resamples, exponentials)
    return percentile_interval(drawn[..., 0])[0], percentile_interval(drawn[..., 1])[1]


def percentile_interval(
    statistics: Float[np.ndarray, "resamples m"], tail: float = 0.025
) -> tuple[Values, Values]:
    """Return the middle 95 % of the resampled statistics in every column.

    Args:
        statistics: A row per resample; NaN is excluded.
        tail: Share of the resamples below the interval, and above it.

    Returns:
        Lower and upper ends; both are NaN for a column of NaN.
    """
    ends = np.full((2, statistics.shape[1]), np.nan)
    for k, column in enumerate(statistics.T):
        known = column[~np.isnan(column)]
        if len(known):
            ends[:, k] = np.quantile(known, [tail, 1.0 - tail])
    return ends[0], ends[1]


def expanded_tail(units: int) -> float:
    """Return the share of resamples below the 95 % interval of a score over ``units`` units.

    Resampling n units underestimates the spread by √((n − 1)/n), and it ignores that the spread is
    estimated. The tail is therefore Φ(−√(n/(n − 1)) · t), with the quantile t of n − 1 degrees of
    freedom (Hesterberg 2015).
    """
    n = max(units, 2)
    return float(ndtr(-math.sqrt(n / (n - 1)) * stdtrit(n - 1, 0.975)))


def resampled_over_seeds(
    statistic: Statistic, units: int, seeds: int, seed: int, resamples: int = RESAMPLES
) -> np.ndarray:
    """Resample units and trained models together.

    Args:
        statistic: Function from weights ``(b, units)`` to values ``(b, seeds, ...)``, NaN if
            undefined.
        units: Number of units.
        seeds: Number of models, trained with different seeds; a resample draws as many.
        seed: Seed of the draws, which all values of ``statistic`` share.
        resamples: Number of resamples.

    Returns:
        Mean of the defined values of the models drawn, ``(resamples, ...)``.
    """
    each = resampled(statistic, units, seed, resamples)
    keys = stream_keys(seed, "bootstrap over seeds", np.arange(resamples))
    drawn = each[np.arange(resamples)[:, None], below(keys[:, None], np.arange(seeds), seeds)]
    known = ~np.isnan(drawn)
    return ratio(np.where(known, drawn, 0.0).sum(axis=1), known.sum(axis=1))


def means_over_seeds(
    values: Float[np.ndarray, "M S n"], seed: int, resamples: int = RESAMPLES
) -> Float[np.ndarray, "resamples M"]:
    """Resample the means of M measures over n rows and over models trained with S seeds.

    Args:
        values: Measures of the same rows by every model; NaN is excluded. Sort the rows if the
            draws must not depend on their order.
        seed: Seed of the draws.
        resamples: Number of resamples.
    """
    known = ~np.isnan(values)
    total, count = (np.moveaxis(part, 0, 1) for part in (np.where(known, values, 0.0), known))

    def means(weights: Weights) -> Float[np.ndarray, "b S M"]:
        sums = weighted_sums(weights, total)
        return ratio(sums, weighted_sums(weights, count.astype(np.float64)))

    _, seeds, rows = values.shape
    return resampled_over_seeds(means, rows, seeds, seed, resamples)
