"""Intervals of a median, of a share and of an area under the ROC curve, and many tests at once."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import scipy  # its parts are imported where they are used: that takes as long as all else that an audit imports
from jaxtyping import Float, Int64
from scipy.special import stdtrit

Z = NormalDist().inv_cdf(0.975)
FEWEST = 20  # instances, or pairs, of whose mean, or difference, something is said


def median_interval(
    values: Float[np.ndarray, " n"], level: float = 0.95
) -> tuple[float | None, float | None]:
    """Distribution-free interval of the median, between two of the ``n`` sorted values.

    The number of values below the true median is Binomial(n, ½), so that the k-th smallest and the k-th largest value enclose it
    with at least ``level`` probability. Too few values for that (n < 6 at 95 %) give ``(None, None)``.
    """
    n = len(values)
    k = int(scipy.stats.binom.ppf((1 - level) / 2, n, 0.5)) if n else 0
    if k < 1:
        return None, None
    ordered = np.sort(values)
    return float(ordered[k - 1]), float(ordered[n - k])


def wilson_interval(successes: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """The shares under which ``successes`` of ``n`` would be no surprise (Wilson 1927): those not refused by the score test.

    Of few or of no trials it is as wide as it must be; (0, 1) of none. Raises ValueError where there are more successes than trials.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}")
    return _wilson(successes / n, n, NormalDist().inv_cdf(0.5 + level / 2)) if n else (0.0, 1.0)


def unseen_interval(
    value: float, n: int, least: float = 0.0, most: float = 1.0
) -> tuple[float, float]:
    """Interval of the mean of ``n`` rows that are all ``value``, where a row can be anything from ``least`` to ``most``.

    Resamples of such rows do not differ, so that the bootstrap gives a point. Rows unlike these are a share of at most Wilson's upper end
    of 0 in ``n``; the ends are the means if all of them were ``least``, or ``most``.
    """
    share = wilson_interval(0, n)[1]
    return (1.0 - share) * value + share * least, (1.0 - share) * value + share * most


def share_interval(
    values: Float[np.ndarray, " n"], cluster: Int64[np.ndarray, " n"], level: float = 0.95
) -> tuple[float, float]:
    """Interval of a share, the mean of ``values``: Wilson's, at the number of independent rows that would be as precise as the clusters.

    Values are 0 or 1, or contributions to an estimated share (`survival`); NaN is excluded. The variance between clusters over that of as
    many independent rows, at least 1, divides their number (Kish's design effect), and t with one degree of freedom less than clusters
    replaces the normal quantile (Korn & Graubard 1998). With one row a cluster it is `wilson_interval`. (NaN, NaN) of no values.
    """
    known = ~np.isnan(values)
    values, (_, of) = values[known], np.unique(cluster[known], return_inverse=True)
    n, clusters = len(values), int(of.max(initial=-1)) + 1
    share = min(max(float(values.mean()), 0.0), 1.0) if n else math.nan
    total = np.bincount(of, values - share)
    return wilson_between(share, n, clusters, float(np.square(total).sum()), level)


def wilson_between(
    share: float, n: int, clusters: int, squares: float, level: float = 0.95
) -> tuple[float, float]:
    """`share_interval` of ``n`` rows in ``clusters``; ``squares`` sums, over clusters, the squared sum of the values less their share."""
    if n == 0:
        return math.nan, math.nan
    variance = share * (1.0 - share)
    if clusters == 1 and n > 1:
        return 0.0, 1.0
    if variance <= 1e-12:
        return _wilson(round(share), clusters, z_of_clusters(clusters, n, level))
    between = squares / n * (clusters / max(clusters - 1, 1)) * (n - 1) / n if n > 1 else variance
    return _wilson(share, n / max(between / variance, 1.0), z_of_clusters(clusters, n, level))


def z_of_clusters(clusters: int, n: int, level: float = 0.95) -> float:
    """The quantile of a score test of ``n`` rows: of t with one degree of freedom less than clusters, normal where every row is one.

    Infinite for a single cluster of several rows, which refuses nothing.
    """
    if clusters == 1 < n:
        return math.inf
    return (
        NormalDist().inv_cdf(0.5 + level / 2)
        if clusters == n
        else float(stdtrit(clusters - 1, 0.5 + level / 2))
    )


def _wilson(share: float, n: float, z: float) -> tuple[float, float]:
    z2 = z * z
    middle, spread = (
        share + z2 / (2 * n),
        math.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n))),
    )
    low, high = (middle - spread) / (1 + z2 / n), (middle + spread) / (1 + z2 / n)
    return (0.0 if share == 0 else low), (1.0 if share == 1 else high)


def newcombe_interval(
    auc: float, positives: float, negatives: float, z: float = Z
) -> tuple[float, float]:
    """The areas under the ROC curve under which ``auc``, of ``positives`` × ``negatives`` rows, would be no surprise.

    Newcombe 2006, method 5. The variance is that of Hanley and McNeil (1982), of the area that is asked about and not of the one found, so
    that an area of 0 or 1 has an interval too. Conservative where a row stands for the mean of several. (0, 1) where a side has no rows, or
    ``z``, the quantile of the score test, refuses nothing.
    """
    if not positives or not negatives or math.isinf(z):
        return 0.0, 1.0
    others = (positives + negatives) / 2 - 1

    def beyond(area: float) -> float:
        """Above 0 where ``auc`` is farther from ``area`` than chance takes it."""
        spread = (
            area
            * (1 - area)
            * (1 + others * ((1 - area) / (2 - area) + area / (1 + area)))
            / (positives * negatives)
        )
        return abs(auc - area) - z * math.sqrt(spread)

    near = 1e-9  # from ``auc``, and from 0 and 1, where the spread is 0
    low = scipy.optimize.brentq(beyond, 0.0, auc - near) if auc > near else 0.0
    high = scipy.optimize.brentq(beyond, auc + near, 1.0) if auc < 1.0 - near else 1.0
    return low, high


def benjamini_hochberg(p_values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """p-values adjusted for the false discovery rate (Benjamini & Hochberg 1995); NaN is no test and stays NaN."""
    adjusted = np.full(len(p_values), np.nan)
    known = ~np.isnan(p_values)
    if known.any():
        adjusted[known] = scipy.stats.false_discovery_control(p_values[known], method="bh")
    return adjusted


def benjamini_hochberg_counted(
    p_values: Float[np.ndarray, " k"], tests: Float[np.ndarray, " k"]
) -> Float[np.ndarray, " k"]:
    """`benjamini_hochberg` of distinct ``p_values`` that so many tests have each."""
    order = np.argsort(p_values)
    rank = np.cumsum(tests[order])
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(
        np.minimum.accumulate((p_values[order] * rank[-1] / rank)[::-1])[::-1], 1.0
    )
    return adjusted
