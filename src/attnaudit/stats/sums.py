"""Sums over random groups of instances: means, shares and ratios with intervals, in memory that does not grow with the rows.

Every instance belongs to one of `GROUPS` groups, by a hash of its id alone, so that neither the order of the rows nor their parting into
pieces matters, and sums of pieces are added. The instances of a group are a random sample, so that the spread between groups gives the
spread of the estimate (random groups: Wolter 2007, chapter 2): the bootstrap draws groups in place of instances. With G groups the
standard error is known to 1 in √(2 G), 1.6 %, less than 1,000 resamples add. Poisson weights for every instance would take 1,000
random numbers, and as many products for every measure, an instance. Of a measure that few instances have the values are `kept`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float, Int64

from attnaudit.core.random import stream_keys
from attnaudit.stats.bootstrap import percentile_interval
from attnaudit.stats.inference import wilson_between
from attnaudit.stats.kept import MOST, Kept, all_drawn, kept_intervals, kept_ratio
from attnaudit.stats.paired import resampled_ratios

GROUPS, RESAMPLES = 2048, 4000
SMALL_RESAMPLES = 1000  # as for small tables
METHOD, OF_INSTANCES = (
    f"bootstrap over {GROUPS:,} random groups of instances",
    "bootstrap over instances",
)
_UNSEEN = np.iinfo(np.int64).min
_OF_MEASURES = ("total", "count", "mean", "squares", "last", "texts")


def group_of(instance: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, " n"]:
    """The random group of each instance."""
    return (stream_keys(0, "random groups", instance) % np.uint64(GROUPS)).astype(np.int64)


@dataclass
class GroupedSums:
    """Of m measures: sums and counts of the defined values of each random group, their mean and squared distances from it.

    ``rows`` counts all rows, ``instances`` those that have them, and ``texts`` the instances with a defined value. Where instances have
    ``several`` rows each, those of one are neighbours; else every row is an instance. ``kept`` has the values where there are few.
    """

    total: Float[np.ndarray, "G m"]
    count: Float[np.ndarray, "G m"]
    mean: Float[np.ndarray, " m"]
    squares: Float[np.ndarray, " m"]
    last: Int64[np.ndarray, " m"]
    texts: Int64[np.ndarray, " m"]
    several: bool = False
    rows: int = 0
    instances: int = 0
    ends: int = _UNSEEN  # the last instance of all
    kept: list[Kept | None] = field(default_factory=list)

    @classmethod
    def of(cls, measures: int, several: bool = False) -> GroupedSums:
        """Sums of no rows."""
        cells, each = (GROUPS, measures), np.zeros(measures)
        texts, kept = np.zeros(measures, np.int64), list[Kept | None]([Kept()] * measures)
        return cls(
            np.zeros(cells),
            np.zeros(cells),
            each,
            each.copy(),
            np.full(measures, _UNSEEN),
            texts,
            several,
            kept=kept,
        )

    def take(self, *measures: int) -> GroupedSums:
        """The sums of some measures."""
        chosen = list(measures)
        parts = {name: getattr(self, name)[..., chosen] for name in _OF_MEASURES}
        return replace(self, **parts, kept=[self.kept[k] for k in chosen])

    def add(self, values: Float[np.ndarray, "n m"], instance: Int64[np.ndarray, " n"]) -> None:
        """Add rows; NaN is undefined."""
        of, number = (
            group_of(instance),
            instance if self.several else self.rows + np.arange(len(values)),
        )
        self.rows += len(values)
        self.instances += _new(number, self.ends)
        self.ends = int(number[-1]) if len(number) else self.ends
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
            ids = number if whole else number[known]
            self.texts[k] += _new(ids, self.last[k])
            self.last[k] = ids[-1]
            self._keep(k, Kept(ids, defined, np.ones(len(ids))))

    def _keep(self, k: int, more: Kept) -> None:
        before = self.kept[k]
        self.kept[k] = None if before is None or self.texts[k] > MOST else before.plus(more)

    def _spread(self, k: int, defined: np.ndarray) -> None:
        """Mean and squared distances of what was there and what comes (Chan, Golub & LeVeque 1983)."""
        before, here = self.count[:, k].sum(), len(defined)
        mean = float(defined.mean())
        gap = mean - self.mean[k]
        self.squares[k] += float(np.square(defined - mean).sum()) + gap * gap * before * here / (
            before + here
        )
        self.mean[k] += gap * here / (before + here)

    @property
    def n(self) -> Int64[np.ndarray, " m"]:
        """How many rows each measure is defined for."""
        return self.count.sum(axis=0).astype(np.int64)

    def value(self, k: int) -> float:
        """The mean of the defined values."""
        return math.fsum(self.total[:, k]) / self.n[k]

    def method(self, k: int) -> str:
        """How the interval of a mean is found."""
        return METHOD if self.kept[k] is None else OF_INSTANCES

    def intervals(self, seed: int) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """The 95 % percentile interval of every mean; where few instances have each of them it is that of small tables."""
        ends = np.full((2, len(self.kept)), np.nan)
        few = {k: one for k, one in enumerate(self.kept) if one is not None}
        many = [k for k in range(len(self.kept)) if k not in few]
        if many:
            ends[:, many] = _interval(self.total[:, many], self.count[:, many], seed)
        if few:
            resamples = RESAMPLES if many or not all_drawn(self.instances) else SMALL_RESAMPLES
            ends[:, list(few)] = kept_intervals(list(few.values()), self.instances, seed, resamples)
        return ends[0], ends[1]

    def share_interval(self, k: int) -> tuple[float, float]:
        """`attnaudit.stats.inference.share_interval` of a measure that is true or false."""
        n, texts, kept = int(self.n[k]), int(self.texts[k]), self.kept[k]
        share = min(max(self.value(k), 0.0), 1.0) if n else math.nan
        total, count = (
            (self.total[:, k], self.count[:, k]) if kept is None else (kept.total, kept.count)
        )
        between = (
            n * share * (1.0 - share)
            if n == texts
            else float(np.square(total - share * count).sum())
        )
        return wilson_between(share, n, texts, between)

    def ratio_interval(self, seed: int) -> tuple[float, float]:
        """The 95 % percentile interval of the sum of the first measure over that of the second, which the same rows have."""
        top, bottom = self.kept
        if top is not None and bottom is not None:
            return kept_ratio(top, bottom, seed)
        low, high = _interval(self.total[:, :1], self.total[:, 1:2], seed)
        return float(low[0]), float(high[0])


def _interval(
    top: Float[np.ndarray, "G m"], bottom: Float[np.ndarray, "G m"], seed: int
) -> tuple[np.ndarray, np.ndarray]:
    return percentile_interval(
        resampled_ratios(top, bottom, seed, RESAMPLES), rows=(bottom != 0).sum(axis=0)
    )


def _new(ids: Int64[np.ndarray, " n"], last: int | np.int64) -> int:
    """How many instances begin, after ``last``."""
    return int(ids[0] != last) + int((ids[1:] != ids[:-1]).sum()) if len(ids) else 0


def merged(one: GroupedSums, other: GroupedSums) -> GroupedSums:
    """The sums of both, of ``other`` the rows that follow; an instance must not have rows in both."""
    found = {
        name: getattr(one, name) + getattr(other, name)
        for name in (*_OF_MEASURES, "rows", "instances")
    }
    a, b = one.n, other.n
    both, gap, by = np.maximum(a + b, 1), other.mean - one.mean, 0 if one.several else one.rows
    found |= {
        "mean": one.mean + gap * b / both,
        "squares": found["squares"] + gap * gap * a * b / both,
    }
    found |= {
        "last": np.where(b > 0, other.last + by, one.last),
        "ends": other.ends + by if other.rows else one.ends,
    }
    sums = GroupedSums(**found, several=one.several, kept=list(one.kept))
    for k, more in enumerate(other.kept):
        sums.kept[k] = None
        before = one.kept[k]
        if before is not None and more is not None and sums.texts[k] <= MOST:
            sums.kept[k] = before.plus(more.moved(by))
    return sums
