"""Sums over random groups of instances: means, shares and ratios with intervals, in memory that does not grow with the rows.

Every instance belongs to one of `GROUPS` groups, by a hash of its id alone, so that neither the order of the rows nor their parting into
pieces matters, and sums of pieces are added. The instances of a group are a random sample, so that the spread between groups gives the
spread of the estimate (random groups: Wolter 2007, chapter 2): the bootstrap draws groups in place of instances. With G groups the
standard error is known to 1 in √(2 G), 1.6 %, less than 1,000 resamples add. Poisson weights for every instance would take 1,000
random numbers, and as many products for every measure, an instance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Float, Int64

from attnaudit.core.random import stream_keys
from attnaudit.stats.bootstrap import percentile_interval
from attnaudit.stats.inference import wilson_between
from attnaudit.stats.paired import resampled_ratios

GROUPS, RESAMPLES = 2048, 4000
METHOD = f"bootstrap over {GROUPS:,} random groups of instances"


def group_of(instance: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, " n"]:
    """The random group of each instance."""
    return (stream_keys(0, "random groups", instance) % np.uint64(GROUPS)).astype(np.int64)


@dataclass
class GroupedSums:
    """Of m measures: sums and counts of the defined values of each random group, their mean and squared distances from it.

    ``rows`` counts all rows; ``texts`` the instances with a defined value, where the rows of each instance are neighbours.
    """

    total: Float[np.ndarray, "G m"]
    count: Float[np.ndarray, "G m"]
    mean: Float[np.ndarray, " m"]
    squares: Float[np.ndarray, " m"]
    last: Int64[np.ndarray, " m"]
    texts: Int64[np.ndarray, " m"]
    rows: int = 0

    @classmethod
    def of(cls, measures: int) -> GroupedSums:
        """Sums of no rows."""
        cells, each = (GROUPS, measures), np.zeros(measures)
        unseen = np.full(measures, np.iinfo(np.int64).min)
        return cls(np.zeros(cells), np.zeros(cells), each, each.copy(), unseen, np.zeros(measures, np.int64))

    def take(self, *measures: int) -> GroupedSums:
        """The sums of some measures."""
        chosen = list(measures)
        parts = {part.name: getattr(self, part.name)[..., chosen] for part in fields(self) if part.name != "rows"}
        return GroupedSums(**parts, rows=self.rows)

    def add(self, values: Float[np.ndarray, "n m"], instance: Int64[np.ndarray, " n"]) -> None:
        """Add rows; NaN is undefined."""
        of = group_of(instance)
        self.rows += len(values)
        everything = np.bincount(of, minlength=GROUPS)
        for k, column in enumerate(values.T):
            known = ~np.isnan(column)
            whole = bool(known.all())
            defined, where = (column, of) if whole else (column[known], of[known])
            if len(defined) == 0:
                continue
            self.total[:, k] += np.bincount(where, defined, GROUPS)
            self._spread(k, defined)
            self.count[:, k] += everything if whole else np.bincount(where, minlength=GROUPS)
            ids = instance if whole else instance[known]
            self.texts[k] += int(ids[0] != self.last[k]) + int((ids[1:] != ids[:-1]).sum())
            self.last[k] = ids[-1]

    def _spread(self, k: int, defined: np.ndarray) -> None:
        """Mean and squared distances of what was there and what comes (Chan, Golub & LeVeque 1983)."""
        before, here = self.count[:, k].sum(), len(defined)
        mean = float(defined.mean())
        gap = mean - self.mean[k]
        self.squares[k] += float(np.square(defined - mean).sum()) + gap * gap * before * here / (before + here)
        self.mean[k] += gap * here / (before + here)

    @property
    def n(self) -> Int64[np.ndarray, " m"]:
        """How many rows each measure is defined for."""
        return self.count.sum(axis=0).astype(np.int64)

    def value(self, k: int) -> float:
        """The mean of the defined values."""
        return math.fsum(self.total[:, k]) / self.n[k]

    def intervals(self, seed: int) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """The 95 % percentile interval of every mean."""
        return _interval(self.total, self.count, seed)

    def share_interval(self, k: int) -> tuple[float, float]:
        """`attnaudit.stats.inference.share_interval` of a measure that is true or false."""
        n, texts = int(self.n[k]), int(self.texts[k])
        share = min(max(self.value(k), 0.0), 1.0) if n else math.nan
        between = n * share * (1.0 - share) if n == texts else float(np.square(self.total[:, k] - share * self.count[:, k]).sum())
        return wilson_between(share, n, texts, between)

    def ratio_interval(self, seed: int) -> tuple[float, float]:
        """The 95 % percentile interval of the sum of the first measure over that of the second."""
        low, high = _interval(self.total[:, :1], self.total[:, 1:2], seed)
        return float(low[0]), float(high[0])


def _interval(top: Float[np.ndarray, "G m"], bottom: Float[np.ndarray, "G m"], seed: int) -> tuple[np.ndarray, np.ndarray]:
    return percentile_interval(resampled_ratios(top, bottom, seed, RESAMPLES), rows=(bottom != 0).sum(axis=0))


def merged(one: GroupedSums, other: GroupedSums) -> GroupedSums:
    """The sums of both, of ``other`` the rows that follow; an instance must not have rows in both."""
    found = {part.name: getattr(one, part.name) + getattr(other, part.name) for part in fields(GroupedSums)}
    a, b = one.n, other.n
    both, gap = np.maximum(a + b, 1), other.mean - one.mean
    found |= {"mean": one.mean + gap * b / both, "squares": found["squares"] + gap * gap * a * b / both, "last": other.last}
    return GroupedSums(**found)
