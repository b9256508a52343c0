"""The values of a measure that is defined for few instances: they are kept, for the bootstrap of small tables.

A bootstrap over random groups of instances needs many instances in most groups, or the number of them that is drawn varies much more than
it may. So up to `MOST` instances with a value have the bootstrap of small tables, which draws instances.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Int64

from attnaudit.stats.bootstrap import bootstrap_means, bootstrap_ratios

MOST = 2048  # instances
_PADDED = 4 * MOST  # instances that are drawn from: more without a value change no interval


@dataclass(frozen=True)
class Kept:
    """Of each instance that has a value: its number, the sum of its values and their count."""

    id: Int64[np.ndarray, " n"] = field(default_factory=lambda: np.zeros(0, np.int64))
    total: Float[np.ndarray, " n"] = field(default_factory=lambda: np.zeros(0))
    count: Float[np.ndarray, " n"] = field(default_factory=lambda: np.zeros(0))

    def plus(self, other: Kept) -> Kept:
        """Both, the rows of ``other`` following; what both have of an instance is added."""
        each = (
            np.concatenate(pair)
            for pair in ((self.id, other.id), (self.total, other.total), (self.count, other.count))
        )
        ids, total, count = each
        distinct, of = np.unique(ids, return_inverse=True)
        if len(distinct) == len(ids):
            return Kept(ids, total, count)
        return Kept(distinct, np.bincount(of, total), np.bincount(of, count))

    def moved(self, by: int) -> Kept:
        """The same of instances whose numbers are greater ``by`` so much."""
        return Kept(self.id + by, self.total, self.count)


def kept_intervals(
    measures: Sequence[Kept], instances: int, seed: int, resamples: int
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """The interval of every mean, of instances that are drawn from so many, those without a value among them."""
    total, count = _aligned(measures, instances)
    if (count <= 1).all():
        return bootstrap_means(np.where(count > 0, total, np.nan), seed=seed, resamples=resamples)
    return bootstrap_ratios(total, count, seed=seed, resamples=resamples)


def all_drawn(instances: int) -> bool:
    """Whether `kept_intervals` draws from all of so many instances."""
    return instances <= _PADDED


def kept_ratio(top: Kept, bottom: Kept, seed: int) -> tuple[float, float]:
    """The interval of the sum of the first over that of the second, of the same instances."""
    low, high = bootstrap_ratios(top.total[:, None], bottom.total[:, None], seed=seed)
    return float(low[0]), float(high[0])


def _aligned(
    measures: Sequence[Kept], instances: int
) -> tuple[Float[np.ndarray, "n m"], Float[np.ndarray, "n m"]]:
    """Totals and counts of the instances that have any, and of as many without one as are needed."""
    ids = np.unique(np.concatenate([one.id for one in measures]))
    total, count = np.zeros((2, max(len(ids), min(instances, _PADDED)), len(measures)))
    for k, one in enumerate(measures):
        where = np.searchsorted(ids, one.id)
        total[where, k], count[where, k] = one.total, one.count
    return total, count
