"""The interval of a median."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.stats import binom


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
