"""Segments between two attentions, what they are worth, and a model of the outputs along them, for `through_tail`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int64
from scipy.special import rel_entr

from attnaudit.experiments.adversary.crossing import LEAST

TINY = 1e-9


class Segments(NamedTuple):
    """Segments from one attention to another of the same row: at t the weights on ``tokens`` (m, k) are ``(1 − t) · start + t · end``.

    The end also has the share ``best`` (m,) of the best attention that is known of the row.
    """

    rows: Int64[np.ndarray, " m"]
    tokens: Int64[np.ndarray, "m k"]
    start: Float[np.ndarray, "m k"]
    end: Float[np.ndarray, "m k"]
    best: Float[np.ndarray, " m"]

    def take(self, chosen: np.ndarray) -> Segments:
        return Segments(*(part[chosen] for part in self))

    def weights(self, t: Float[np.ndarray, " m"]) -> Float[np.ndarray, "m k"]:
        return (1.0 - t)[:, None] * self.start + t[:, None] * self.end


class Curves(NamedTuple):
    """A model of the log-probabilities along segments, ``a + b t + c t (1 − t)``, each part (m, classes)."""

    a: np.ndarray
    b: np.ndarray
    c: np.ndarray

    @classmethod
    def between(cls, start: np.ndarray, end: np.ndarray) -> Curves:
        return cls(start, end - start, np.zeros_like(start))

    def take(self, chosen: np.ndarray) -> Curves:
        return Curves(*(part[chosen] for part in self))

    def with_rows(self, rows: np.ndarray, other: Curves) -> Curves:
        """The curves with those of ``rows`` replaced."""
        parts = Curves(*(part.copy() for part in self))
        for part, new in zip(parts, other, strict=True):
            part[rows] = new
        return parts

    def bent(self, t: Float[np.ndarray, " m"], log_p: np.ndarray) -> Curves:
        """The curves that also pass through ``log_p`` at t."""
        t = t[:, None].astype(self.a.dtype)
        missing = log_p - self.a - t * self.b - t * (1.0 - t) * self.c
        return self._replace(c=self.c + missing / np.maximum(t * (1.0 - t), 1e-4))


@dataclass
class Walk:
    """What is known of m segments: ``low`` is ``above`` beyond the limit, ``high``, NaN so far, is within it by ``-below``.

    ``log_p`` are the log-probabilities at ``high``; ``tried`` holds the points read out before there was one.
    """

    low: np.ndarray
    above: np.ndarray
    high: np.ndarray
    below: np.ndarray
    log_p: np.ndarray
    tried: list[tuple[np.ndarray, np.ndarray, np.ndarray]]

    @classmethod
    def of(cls, above: Float[np.ndarray, " m"], log_p: Float[np.ndarray, "m c"]) -> Walk:
        return cls(
            np.zeros(len(above)),
            above.copy(),
            np.full(len(above), np.nan),
            np.zeros(len(above)),
            log_p.copy(),
            [],
        )

    def note(self, rows: np.ndarray, t: np.ndarray, beyond: np.ndarray, log_p: np.ndarray) -> None:
        """Take in that the segments ``rows`` are ``beyond`` the limit at t: regula falsi, the Illinois way."""
        within, first = beyond <= 0.0, np.isnan(self.high[rows])
        self.tried.append((rows[first & ~within], t[first & ~within], beyond[first & ~within]))
        inside, outside = rows[within], rows[~within & ~first]
        self.high[inside], self.below[inside], self.log_p[inside] = (
            t[within],
            beyond[within],
            log_p[within],
        )
        self.above[inside[~first[within]]] *= 0.5
        self.low[outside], self.above[outside] = t[~within & ~first], beyond[~within & ~first]
        self.below[outside] *= 0.5

    def end_at(self, known: Bool[np.ndarray, " m"]) -> None:
        """Where no point within the limit was found, the end is one if it is ``known`` to be, by how much is not."""
        rows = known & np.isnan(self.high)
        self.high[rows], self.below[rows] = 1.0, -self.above[rows]

    def start_before_high(self) -> None:
        """The last point tried before the first that is within the limit, where there is one, becomes ``low``."""
        for rows, t, beyond in self.tried:
            nearer = (t < self.high[rows]) & (t > self.low[rows])
            self.low[rows[nearer]], self.above[rows[nearer]] = t[nearer], beyond[nearer]

    def aim(self, rows: np.ndarray, expected: np.ndarray | None) -> np.ndarray:
        """The next point of the segments ``rows``, between ``low`` and ``high``: where it is ``expected``, or by regula falsi."""
        width = self.high[rows] - self.low[rows]
        t = self.high[rows] - self.below[rows] * width / np.minimum(
            self.below[rows] - self.above[rows], -LEAST
        )
        if expected is not None:
            near = expected[rows] + 0.02 * width
            t = np.where((near > self.low[rows]) & (near < self.high[rows]), near, t)
        return np.clip(t, self.low[rows] + 0.02 * width, self.high[rows] - 0.02 * width)


def pairs_of(rows: np.ndarray, start: np.ndarray, end: np.ndarray) -> Segments:
    """The segments from all attention on one token to all attention on another."""
    m = len(rows)
    first = np.tile([1.0, 0.0], (m, 1))
    return Segments(rows, np.column_stack([start, end]), first, 1.0 - first, np.zeros(m))


def gains(weight: np.ndarray, old: np.ndarray) -> np.ndarray:
    """f of `exact.gain` of every weight: JSD is ½ ln 2 plus the gains of all weights."""
    return 0.5 * (rel_entr(weight, 0.5 * (weight + old)) + rel_entr(old, weight + old))


def chords(weight: np.ndarray, old: np.ndarray) -> np.ndarray:
    """The mean slope of the gain from 0 to a weight, to 1 where there is none: the convex gain lies below."""
    some = weight > TINY
    return np.where(
        some, gains(weight, old) / np.where(some, weight, 1.0), gains(np.ones_like(old), old)
    )
