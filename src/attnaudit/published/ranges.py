"""What a measure can be at all, for intervals that are reckoned without knowing it."""

from __future__ import annotations

import math

# By the first letters of a measure's name: least and largest value of its means, shares and medians. What is not named here is a share,
# a probability, a score, or a distance of two predictions (TVD), and lies in [0, 1]. A difference of two τ comes before τ itself.
RANGES = {
    "tau_gradient_loo_minus_": (-2.0, 2.0),
    "tau_": (-1.0, 1.0),
    "emax_jsd": (0.0, math.log(2)),
}
WIDEST_TELLING = 0.5  # part of a measure's range


def possible(measure: str, statistic: str = "mean") -> tuple[float, float]:
    """Least and largest value that a number can have; a standard deviation is at most half of its measure's range."""
    low, high = next((bounds for start, bounds in RANGES.items() if measure.startswith(start)), (0.0, 1.0))
    return (0.0, (high - low) / 2) if statistic == "std" else (low, high)


def is_telling(low: float | None, high: float | None, bounds: tuple[float, float]) -> bool:
    """Whether an interval is narrow enough, half of the range at most, for a value within it to count as agreement."""
    return low is not None and high is not None and high - low <= WIDEST_TELLING * (bounds[1] - bounds[0])
