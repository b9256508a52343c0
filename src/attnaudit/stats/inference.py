"""Intervals of a median, of a share and of an area under the ROC curve, and many tests at once."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import scipy  # its parts are imported on use: they take as long as all else that an audit imports
from jaxtyping import Float, Int64
from scipy.special import stdtrit

Z = NormalDist().inv_cdf(0.975)  # all intervals are at 95 %
FEWEST = 20  # fewer instances, or pairs, allow no statement about a mean or a difference


def median_interval(values: Float[np.ndarray, " n"]) -> tuple[float | None, float | None]:
    """Return a distribution-free 95 % interval of the median, between two of the sorted values.

    The number of values below the true median is Binomial(n, ½), so the k-th smallest and the k-th
    largest value enclose it with at least 95 % probability. Fewer than 6 values have no interval.
    """
    n = len(values)
    k = int(scipy.stats.binom.ppf(0.025, n, 0.5)) if n else 0
    if k < 1:
        return None, None
    ordered = np.sort(values)
    return float(ordered[k - 1]), float(ordered[n - k])


def wilson_interval(successes: int, n: int) -> tuple[float, float]:
    """Return the shares that a score test of ``successes`` in ``n`` does not refuse (Wilson 1927).

    No trials give (0, 1).

    Raises:
        ValueError: If there are more successes than trials.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}")
    return _wilson(successes / n, n, Z) if n else (0.0, 1.0)


def unseen_interval(
    value: float, n: int, least: float = 0.0, most: float = 1.0
) -> tuple[float, float]:
    """Return the interval of a mean of ``n`` rows that all have the same value.

    The bootstrap would give a point. Other rows are at most a share of Wilson's upper end of 0 in
    ``n``; the ends are the means if all of these were ``least``, or ``most``.
    """
    share = wilson_interval(0, n)[1]
    return (1.0 - share) * value + share * least, (1.0 - share) * value + share * most


def share_interval(
    values: Float[np.ndarray, " n"], text: Int64[np.ndarray, " n"]
) -> tuple[float, float]:
    """Return Wilson's interval of a share whose rows belong to texts.

    Args:
        values: 0 or 1, or contributions to an estimated share (`survival`); NaN is excluded.
        text: Number of each row's text.

    Returns:
        `clustered_wilson`; (NaN, NaN) without values.
    """
    known = ~np.isnan(values)
    values, (_, row) = values[known], np.unique(text[known], return_inverse=True)
    if len(values) == 0:
        return math.nan, math.nan
    share = min(max(float(values.mean()), 0.0), 1.0)
    total = np.bincount(row, values - share)
    return clustered_wilson(share, len(values), len(total), float(np.square(total).sum()))


def clustered_wilson(share: float, n: int, texts: int, squares: float) -> tuple[float, float]:
    """Return Wilson's interval at the number of independent rows that are as precise as the texts.

    The variance between texts over that of as many independent rows, at least 1, divides their
    number (Kish's design effect), and t with ``texts - 1`` degrees of freedom replaces the normal
    quantile (Korn & Graubard 1998). With a row a text this is `wilson_interval`.

    Args:
        share: Mean of the rows.
        n: Number of rows, at least 1.
        texts: Number of texts that they are of.
        squares: Sum over texts of the squared sum of ``value - share``.
    """
    if texts == 1 < n:
        return 0.0, 1.0
    z, variance = cluster_quantile(texts, n), share * (1.0 - share)
    if variance <= 1e-12:  # rounding: all rows are alike
        return _wilson(round(share), texts, z)
    between = squares / n * (texts / max(texts - 1, 1)) * (n - 1) / n if n > 1 else variance
    return _wilson(share, n / max(between / variance, 1.0), z)


def cluster_quantile(texts: int, n: int) -> float:
    """Return the quantile of a score test of ``n`` rows: normal, or Student's t over their texts.

    It is infinite for a single text of several rows, which refuses nothing.
    """
    if texts == 1 < n:
        return math.inf
    return Z if texts == n else float(stdtrit(texts - 1, 0.975))


def _wilson(share: float, n: float, z: float) -> tuple[float, float]:
    z2 = z * z
    middle = share + z2 / (2 * n)
    spread = math.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n)))
    low, high = (middle - spread) / (1 + z2 / n), (middle + spread) / (1 + z2 / n)
    return (0.0 if share == 0 else low), (1.0 if share == 1 else high)


def newcombe_interval(
    auc: float, positives: float, negatives: float, z: float = Z
) -> tuple[float, float]:
    """Return the areas under the ROC curve that a score test of ``auc`` does not refuse.

    This is method 5 of Newcombe (2006) with the variance of Hanley & McNeil (1982) of the area
    asked about, so an ``auc`` of 0 or 1 has an interval too. It is conservative if a row is the
    mean of several.

    Args:
        auc: Area that was measured.
        positives: Number of positive rows; 0 gives (0, 1).
        negatives: Number of negative rows; 0 gives (0, 1).
        z: Quantile of the test; infinity gives (0, 1).
    """
    if not positives or not negatives or math.isinf(z):
        return 0.0, 1.0
    others = (positives + negatives) / 2 - 1

    def beyond(area: float) -> float:
        """Return a positive number if ``auc`` is farther from ``area`` than chance takes it."""
        shape = 1 + others * ((1 - area) / (2 - area) + area / (1 + area))
        variance = area * (1 - area) * shape / (positives * negatives)
        return abs(auc - area) - z * math.sqrt(variance)

    near = 1e-9  # the root is not at ``auc``, where the distance is 0
    low = scipy.optimize.brentq(beyond, 0.0, auc - near) if auc > near else 0.0
    high = scipy.optimize.brentq(beyond, auc + near, 1.0) if auc < 1.0 - near else 1.0
    return low, high


def benjamini_hochberg(p_values: Float[np.ndarray, " n"], level: float) -> float:
    """Return the largest p-value that stays significant if all tests are made at once.

    At most a share ``level`` of the tests that have this p-value or a smaller one are expected to
    be false (Benjamini & Hochberg 1995).

    Args:
        p_values: p-values; NaN is no test.
        level: False discovery rate.

    Returns:
        The limit; below 0 if no test is significant.
    """
    tests = np.count_nonzero(~np.isnan(p_values))
    ordered = np.sort(p_values[p_values <= level])  # a larger one is never significant
    adjusted = ordered * tests / np.arange(1, len(ordered) + 1)
    significant = np.flatnonzero(adjusted <= level)
    return float(ordered[significant[-1]]) if len(significant) else -1.0
