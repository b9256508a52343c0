"""The share of rows whose prediction has flipped, by the fraction of tokens removed.

Each row has a ``time`` from 0 to 1 and an ``event``. The row flips at that time, or it is observed
until then without a flip (right-censored). If no row is lost before 1, the curve is the plain share
of rows, and its area is the mean of 1 − time. Otherwise the curve assumes that lost rows would have
flipped as often as the rows still observed (Kaplan & Meier 1958).

The contribution of a row is the estimate plus n times its derivative by the row's weight, the
infinitesimal jackknife (Andersen, Klein & Rosthøj 2003). Contributions average to the estimate, and
the interval of their mean is the interval of the estimate. They are therefore paired, clustered and
compared like the values of any measure.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int64

from attnaudit.stats.inference import share_interval


class EventCurve(NamedTuple):
    """Share of rows with an event up to each fraction, with its pointwise 95 % band."""

    share: Float[np.ndarray, " m"]
    low: Float[np.ndarray, " m"]
    high: Float[np.ndarray, " m"]


class EventSteps(NamedTuple):
    """Steps of a sample's curve, from which each row's contribution follows.

    Attributes:
        at: Distinct times of events, ``(k,)``.
        seen: Number of rows still observed at each time.
        flips: Number of rows that flip at each time.
        left: Estimated share of rows without an event after each time.
        rows: Number of rows.
        lost: True if a row is lost before 1.
    """

    at: Float[np.ndarray, " k"]
    seen: Float[np.ndarray, " k"]
    flips: Float[np.ndarray, " k"]
    left: Float[np.ndarray, " k"]
    rows: float
    lost: bool

    @classmethod
    def of_rows(
        cls,
        time: Float[np.ndarray, " n"],
        event: Bool[np.ndarray, " n"],
        count: Float[np.ndarray, " n"] | None = None,
    ) -> EventSteps:
        """Estimate the curve.

        Args:
            time: Fraction removed at the flip, or when the row was last observed.
            event: True if the row flips.
            count: Number of times that each row occurs, by default once.
        """
        weight = np.ones(len(time)) if count is None else count
        at, step = np.unique(time[event], return_inverse=True)
        flips, order = np.bincount(step, weight[event], len(at)), np.argsort(time, kind="stable")
        before = np.concatenate([[0.0], np.cumsum(weight[order])])
        seen = before[-1] - before[np.searchsorted(time[order], at, side="left")]
        left = np.cumprod(1.0 - flips / seen)
        return cls(at, seen, flips, left, float(before[-1]), bool((~event & (time < 1.0)).any()))

    def area(self) -> float:
        """Return the area under the curve from 0 to 1: 0 if no row flips, NaN without rows."""
        if self.rows == 0:
            return float("nan")
        inside = self.at < 1.0
        return float(((1.0 - self.left[inside]) * np.diff([*self.at[inside], 1.0])).sum())

    def area_contributions(
        self, time: Float[np.ndarray, " n"], event: Bool[np.ndarray, " n"]
    ) -> Float[np.ndarray, " n"]:
        """Return the contributions of rows of the sample to the area under its curve.

        Args:
            time: Fraction removed at the flip, or when the row was last observed.
            event: True if the row flips.
        """
        # Without lost rows the area is the mean of these values, and no derivative is needed.
        if not self.lost:
            return np.where(event, 1.0 - time, 0.0)
        after = np.diff([*self.at, 1.0]) * self.left
        return self.area() - self._derivatives(time, event, np.cumsum(after[::-1])[::-1])

    def share_contributions(
        self, time: Float[np.ndarray, " n"], event: Bool[np.ndarray, " n"], until: float
    ) -> Float[np.ndarray, " n"]:
        """Return the contributions of rows of the sample to the share with an event.

        Args:
            time: Fraction removed at the flip, or when the row was last observed.
            event: True if the row flips.
            until: Largest fraction at which an event counts.
        """
        passed = self.at <= until
        left = self.left[passed][-1] if passed.any() else 1.0
        return 1.0 - left - self._derivatives(time, event, np.where(passed, left, 0.0))

    def _derivatives(
        self,
        time: Float[np.ndarray, " n"],
        event: Bool[np.ndarray, " n"],
        weight: Float[np.ndarray, " k"],
    ) -> Float[np.ndarray, " n"]:
        """Return n times the derivative of the weighted sum of ``left`` by each row's weight."""
        stay = self.seen - self.flips
        # If all rows flip in a step, the curve stays at 1 whatever a row's weight.
        each = np.divide(weight, stay, out=np.zeros(len(weight)), where=stay > 0)
        passed = np.concatenate([[0.0], np.cumsum(each * self.flips / self.seen)])
        steps = np.searchsorted(self.at, time, side="right")
        own = np.zeros(len(time))
        own[event] = each[steps[event] - 1]
        return self.rows * (passed[steps] - own)


def event_curve(
    time: Float[np.ndarray, " n"],
    event: Bool[np.ndarray, " n"],
    text: Int64[np.ndarray, " n"],
    until: Float[np.ndarray, " m"],
) -> EventCurve:
    """Estimate the curve at given fractions, with the band of `share_interval`.

    Args:
        time: Fraction removed at the flip, or when the row was last observed.
        event: True if the row flips.
        text: Number of each row's text.
        until: Fractions from 0 to 1.
    """
    steps = EventSteps.of_rows(time, event)
    rows = [steps.share_contributions(time, event, fraction) for fraction in until.tolist()]
    ends = np.array([share_interval(values, text) for values in rows]).reshape(-1, 2)
    return EventCurve(np.array([values.mean() for values in rows]), ends[:, 0], ends[:, 1])
