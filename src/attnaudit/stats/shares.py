"""The interval of a share."""

from __future__ import annotations

import math
from statistics import NormalDist


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
