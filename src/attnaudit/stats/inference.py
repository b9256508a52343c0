"""Intervals of a median and of a share, and many tests at once."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from jaxtyping import Float
from scipy.stats import binom, false_discovery_control


def median_interval(values: Float[np.ndarray, " n"], level: float = 0.95) -> tuple[float | None, float | None]:
    """Distribution-free interval of the median, between two of the ``n`` sorted values.

    The number of values below the true median is Binomial(n, ½), so that the k-th smallest and the k-th largest value enclose it
    with at least ``level`` probability. Too few values for that (n < 6 at 95 %) give ``(None, None)``.
    """
    n = len(values)
    k = int(binom.ppf((1 - level) / 2, n, 0.5)) if n else 0
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
    if n == 0:
        return 0.0, 1.0
    z2, share = NormalDist().inv_cdf(0.5 + level / 2) ** 2, successes / n
    middle, spread = share + z2 / (2 * n), math.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n)))
    low, high = (middle - spread) / (1 + z2 / n), (middle + spread) / (1 + z2 / n)
    return (0.0 if successes == 0 else low), (1.0 if successes == n else high)


def benjamini_hochberg(p_values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """p-values adjusted for the false discovery rate (Benjamini & Hochberg 1995); NaN is no test and stays NaN."""
    adjusted = np.full(len(p_values), np.nan)
    known = ~np.isnan(p_values)
    if known.any():
        adjusted[known] = false_discovery_control(p_values[known], method="bh")
    return adjusted
