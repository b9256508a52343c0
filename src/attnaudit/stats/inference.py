"""Intervals of means, medians, shares and areas under the ROC curve, and a limit for many tests."""

import math
from statistics import NormalDist

import numpy as np
from numpy.polynomial import Polynomial
from scipy.special import bdtr, bdtrik, betaincinv, stdtrit

from attnaudit.core.shapes import PerRow, RowInts

Z = NormalDist().inv_cdf(0.975)  # all intervals are at 95 %
FEWEST = 20  # nothing is stated about a mean, or a difference, of fewer instances or pairs


def mean_interval(values: PerRow) -> tuple[float, float]:
    """Return the 95 % t interval of the mean of at least two values."""
    n, mean = len(values), float(values.mean())
    half = float(stdtrit(n - 1, 0.975)) * float(values.std(ddof=1)) / math.sqrt(n)
    return mean - half, mean + half


def interval_of_several(value: float, low: float, high: float, tests: int) -> tuple[float, float]:
    """Widen a 95 % interval so that those of several tests all hold with 95 % (Bonferroni).

    Args:
        value: The mean.
        low: Lower end of its interval.
        high: Upper end.
        tests: Number of means that are tested.
    """
    factor = NormalDist().inv_cdf(1.0 - 0.025 / tests) / Z
    return value - factor * (value - low), value + factor * (high - value)


def median_interval(values: PerRow) -> tuple[float | None, float | None]:
    """Return a distribution-free 95 % interval of the median.

    The number of values below the true median is Binomial(n, ½), so the k-th smallest and the k-th
    largest value enclose it with a probability of at least 95 %.

    Returns:
        Lower and upper end, both None for fewer than 6 values.
    """
    n = len(values)
    # The quantile of the binomial.
    k = math.ceil(bdtrik(0.025, n, 0.5)) if n else 0
    if k and bdtr(k - 1, n, 0.5) >= 0.025:  # rounded up from a whole number
        k -= 1
    if k < 1:
        return None, None
    ordered = np.sort(values)
    return float(ordered[k - 1]), float(ordered[n - k])


def wilson_interval(successes: int, n: int) -> tuple[float, float]:
    """Return the 95 % score interval of a share (Wilson 1927); (0, 1) without trials.

    Args:
        successes: Number of successes.
        n: Number of trials.

    Raises:
        ValueError: If ``successes`` is negative or above ``n``.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}")
    return _wilson(successes / n, n, Z) if n else (0.0, 1.0)


def exact_interval(successes: int, n: int) -> tuple[float, float]:
    """Return the exact 95 % interval of a share (Clopper & Pearson 1934).

    It holds the share in 95 % of draws or more for any ``n``, as Wilson's does not.

    Args:
        successes: Number of successes.
        n: Number of trials, 1 or more.
    """
    tail = 0.025
    low = betaincinv(successes, n - successes + 1, tail) if successes else 0.0
    high = betaincinv(successes + 1, n - successes, 1.0 - tail) if successes < n else 1.0
    return float(low), float(high)


def unseen_interval(value: float, n: int, least: float = 0.0) -> tuple[float, float]:
    """Return the interval of a mean if all rows have the same value.

    Args:
        value: Value of all rows.
        n: Number of rows.
        least: Smallest possible value; the largest is 1.
    """
    # The bootstrap would give a point. The share of rows with other values may be as large as the
    # upper end of Wilson's interval of 0 in n, and these may all be at either limit.
    share = wilson_interval(0, n)[1]
    return (1.0 - share) * value + share * least, (1.0 - share) * value + share


def share_interval(values: PerRow, text: RowInts) -> tuple[float, float]:
    """Return Wilson's interval of a share, with rows clustered in texts.

    Args:
        values: 0 or 1; NaN is excluded.
        text: Number of each row's text.

    Returns:
        The interval of `clustered_wilson`; (NaN, NaN) without values.
    """
    known = ~np.isnan(values)
    values, (_, row) = values[known], np.unique(text[known], return_inverse=True)
    if len(values) == 0:
        return math.nan, math.nan
    share = float(values.mean())
    total = np.bincount(row, values - share)
    return clustered_wilson(share, len(values), len(total), float(np.square(total).sum()))


def clustered_wilson(share: float, n: int, texts: int, squares: float) -> tuple[float, float]:
    """Return Wilson's interval of a share for the effective number of rows.

    Rows of one text depend on each other. The effective number is ``n`` divided by the design
    effect (Kish): the variance of the share over its variance with independent rows, at least 1.
    Student's t with ``texts - 1`` degrees of freedom replaces the normal quantile (Korn & Graubard
    1998). With one row per text this is `wilson_interval`.

    Args:
        share: Mean of the rows.
        n: Number of rows, at least 1.
        texts: Number of texts that the rows belong to.
        squares: Sum over texts of the squared sum of ``value - share``.
    """
    if texts == 1 < n:
        return 0.0, 1.0
    z, variance = cluster_quantile(texts, n), share * (1.0 - share)
    # Only rounding leaves such a variance: all rows are alike, so the texts are the sample.
    if variance <= 1e-12:
        return _wilson(round(share), texts, z)
    # The corrections for few texts and few rows cancel if each row is a text.
    between = squares / n * (texts / max(texts - 1, 1)) * (n - 1) / n if n > 1 else variance
    return _wilson(share, n / max(between / variance, 1.0), z)


def cluster_quantile(texts: int, n: int) -> float:
    """Return the 97.5 % quantile for the mean of clustered rows.

    Args:
        texts: Number of texts.
        n: Number of rows.

    Returns:
        The normal quantile with one row per text, else Student's t over the texts. A single text
        with several rows says nothing about the spread of texts, so its quantile is infinite.
    """
    if texts == 1 < n:
        return math.inf
    return Z if texts == n else float(stdtrit(texts - 1, 0.975))


def _wilson(share: float, n: float, z: float) -> tuple[float, float]:
    z2 = z * z
    middle = share + z2 / (2 * n)
    spread = math.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n)))
    low, high = (middle - spread) / (1 + z2 / n), (middle + spread) / (1 + z2 / n)
    # Exactly 0 and 1 by the formula; rounding would leave ends of the order of 1e-17.
    return (0.0 if share == 0 else low), (1.0 if share == 1 else high)


def newcombe_interval(
    auc: float, positives: float, negatives: float, z: float = Z
) -> tuple[float, float]:
    """Return the score interval of an area under the ROC curve.

    This is method 5 of Newcombe (2006). The variance (Hanley & McNeil 1982) is that of the tested
    area, so an ``auc`` of 0 or 1 has an interval too. The interval is conservative if each row is a
    mean of several.

    Args:
        auc: Measured area.
        positives: Number of positive rows.
        negatives: Number of negative rows.
        z: Quantile of the test.

    Returns:
        Lower and upper end; (0, 1) if a side has no rows or ``z`` is infinite.
    """
    if not positives or not negatives or math.isinf(z):
        return 0.0, 1.0
    others, area = (positives + negatives) / 2 - 1, Polynomial([0.0, 1.0])
    both = (2 - area) * (1 + area)
    shape = both + others * ((1 - area) * (1 + area) + area * (2 - area))
    distance, variance = positives * negatives * (auc - area) ** 2 * both, area * (1 - area) * shape
    roots = (distance - z**2 * variance).roots()
    ends = roots.real[(np.abs(roots.imag) < 1e-9) & (np.abs(roots.real - 0.5) < 0.5)]
    # Without variance, at 0 and 1, the `auc` itself ends its interval.
    return min(auc, *ends), max(auc, *ends)


def benjamini_hochberg(p_values: PerRow, level: float) -> float:
    """Return the largest p-value that is significant at a false discovery rate.

    Of the tests with this p-value or a smaller one, at most a share ``level`` is expected to be
    falsely significant (Benjamini & Hochberg 1995).

    Args:
        p_values: p-values of all tests; NaN is no test.
        level: False discovery rate.

    Returns:
        The limit; -1 if no test is significant.
    """
    tests = np.count_nonzero(~np.isnan(p_values))
    # A p-value above the level is never significant, so it need not be sorted; NaN drops out too.
    ordered = np.sort(p_values[p_values <= level])
    adjusted = ordered * tests / np.arange(1, len(ordered) + 1)
    significant = np.flatnonzero(adjusted <= level)
    return float(ordered[significant[-1]]) if len(significant) else -1.0
