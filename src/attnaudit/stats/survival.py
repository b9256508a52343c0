"""Shares that have flipped by a fraction removed, where some rows never flip: Kaplan & Meier 1958, and what each row contributes.

A row has a ``time``, from 0 to 1, and an ``event``: it flips at that time, or is seen until then without a flip (right-censored). Where no
row is lost before 1 the curve is the plain share of rows, and its area the mean of 1 − time. Where some are, the curve assumes that they
would later have flipped as often as the rows still observed do.

The contribution of a row is the infinitesimal jackknife's: the estimate plus n times its derivative by the row's weight. Contributions
average to the estimate exactly, are 1 − time where none is lost, and a mean of them has the interval of the estimate, so that whatever
is done with the values of rows, in pairs, clusters or between two runs, can be done with areas.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Bool, Float, Int64

from attnaudit.stats.inference import share_interval


class EventCurve(NamedTuple):
    """The share of rows with an event up to each fraction, and its pointwise 95 % band, ``(m,)`` each."""

    share: Float[np.ndarray, " m"]
    low: Float[np.ndarray, " m"]
    high: Float[np.ndarray, " m"]


def event_area(time: Float[np.ndarray, " n"], event: Bool[np.ndarray, " n"]) -> float:
    """The area under the curve of events from 0 to 1: 1 where all flip at once, 0 where none ever does; NaN of no rows."""
    if len(time) == 0:
        return float("nan")
    if not event.any():
        return 0.0
    left = scipy.stats.ecdf(scipy.stats.CensoredData(uncensored=time[event], right=time[~event])).sf
    inside = left.quantiles < 1.0
    steps, remaining = left.quantiles[inside], left.probabilities[inside]
    return float(((1.0 - remaining) * np.diff([*steps, 1.0])).sum())


def area_contributions(
    time: Float[np.ndarray, " n"],
    event: Bool[np.ndarray, " n"],
    times: Float[np.ndarray, " n"] | None = None,
) -> Float[np.ndarray, " n"]:
    """What every row contributes to `event_area`; their mean is that area. ``times`` is how often each row is there, by default once."""
    if (event | (time >= 1.0)).all():
        return np.where(event, 1.0 - time, 0.0)
    curve = _Steps.of(time, event, times)
    after = np.diff([*curve.at, 1.0]) * curve.left
    area = event_area(time, event) if times is None else curve.area()
    return area - curve.derivatives(time, event, np.cumsum(after[::-1])[::-1])


def share_contributions(
    time: Float[np.ndarray, " n"], event: Bool[np.ndarray, " n"], until: float
) -> Float[np.ndarray, " n"]:
    """What every row contributes to the share with an event up to ``until``."""
    happened = event & (time <= until)
    if (event | (time > until)).all():
        return happened.astype(np.float64)
    curve = _Steps.of(time, event)
    last = np.searchsorted(curve.at, until, side="right") - 1
    left = curve.left[last] if last >= 0 else 1.0
    passed = np.arange(len(curve.at)) <= last
    return 1.0 - left - curve.derivatives(time, event, np.where(passed, left, 0.0))


def event_curve(
    time: Float[np.ndarray, " n"],
    event: Bool[np.ndarray, " n"],
    cluster: Int64[np.ndarray, " n"],
    until: Float[np.ndarray, " m"],
) -> EventCurve:
    """The curve at the fractions ``until``; its band is Wilson's at the number of independent rows that weigh as much as the clusters."""
    rows = [share_contributions(time, event, fraction) for fraction in until.tolist()]
    ends = np.array([share_interval(values, cluster) for values in rows]).reshape(-1, 2)
    return EventCurve(np.array([values.mean() for values in rows]), ends[:, 0], ends[:, 1])


class _Steps(NamedTuple):
    """The distinct times of events ``at``; the rows still seen then, and those of them that flip; the share left after; ``rows`` in all."""

    at: Float[np.ndarray, " k"]
    seen: Float[np.ndarray, " k"]
    flip: Float[np.ndarray, " k"]
    left: Float[np.ndarray, " k"]
    rows: float

    @classmethod
    def of(
        cls,
        time: Float[np.ndarray, " n"],
        event: Bool[np.ndarray, " n"],
        times: Float[np.ndarray, " n"] | None = None,
    ) -> _Steps:
        weight = np.ones(len(time)) if times is None else times
        at, which = np.unique(time[event], return_inverse=True)
        flip, order = np.bincount(which, weight[event], len(at)), np.argsort(time, kind="stable")
        before = np.concatenate([[0.0], np.cumsum(weight[order])])
        seen = before[-1] - before[np.searchsorted(time[order], at, side="left")]
        return cls(at, seen, flip, np.cumprod(1.0 - flip / seen), float(before[-1]))

    def area(self) -> float:
        """`event_area` of these rows."""
        inside = self.at < 1.0
        return float(((1.0 - self.left[inside]) * np.diff([*self.at[inside], 1.0])).sum())

    def derivatives(
        self, time: np.ndarray, event: np.ndarray, weight: Float[np.ndarray, " k"]
    ) -> Float[np.ndarray, " n"]:
        """n times the derivative, by every row's weight, of the share left, summed with what depends on each step as ``weight``."""
        stay = self.seen - self.flip
        each = np.divide(
            weight, stay, out=np.zeros(len(weight)), where=stay > 0
        )  # where all flip, nothing is left to change
        seen = np.concatenate([[0.0], np.cumsum(each * self.flip / self.seen)])
        steps = np.searchsorted(self.at, time, side="right")
        own = np.zeros(len(time))
        own[event] = each[steps[event] - 1]
        return self.rows * (seen[steps] - own)
