"""Intervals of means, as a summary gets them."""

from __future__ import annotations

import numpy as np

from attnaudit.stats.bootstrap import RESAMPLES, Units, ratio_intervals
from attnaudit.stats.sums import UnitSums


def mean_intervals(
    values: np.ndarray,
    seed: int,
    texts: np.ndarray | None = None,
    resamples: int = RESAMPLES,
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the intervals of the means of columns ``(n, m)``; without texts each row is one."""
    names = np.arange(len(values)) if texts is None else texts
    sums = UnitSums(Units.of_texts(names), values.shape[1])
    sums.add(values)
    return ratio_intervals(sums.total, sums.count, seed, resamples)
