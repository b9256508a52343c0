"""A model of the outputs along segments, and where it comes within ε.

From t = 0 to 1 the log-probabilities of the model are ``a + b t + c t (1 − t)``, normalised.
Behind an identity tail this is exact with c = 0. Else c makes the curve pass through an output in
between.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import softmax

COARSE, FINE = 33, 17  # points of a segment, and then of the piece between two of these
BLOCK = 1 << 20  # numbers held at a time
LEAST = 1e-12  # of a probability whose logarithm is taken, and of a speed


class Curves(NamedTuple):
    """Curves of m segments; each part is ``(m, classes)``."""

    a: np.ndarray
    b: np.ndarray
    c: np.ndarray

    @classmethod
    def between(cls, start: np.ndarray, end: np.ndarray) -> Curves:
        """Return the curves that are straight between the log-probabilities at both ends."""
        return cls(start, end - start, np.zeros_like(start))

    def take(self, chosen: np.ndarray) -> Curves:
        """Return those of the chosen segments."""
        return Curves(*(part[chosen] for part in self))

    def through(self, t: Float[np.ndarray, " m"], log_p: np.ndarray) -> Curves:
        """Return the curves bent to pass through ``log_p`` at ``t``."""
        at = t[:, None]
        # Near the ends any bend fits; 1e-4 keeps it from being huge.
        missing = log_p - self.a - at * self.b
        return self._replace(c=missing / np.maximum(at * (1.0 - at), 1e-4))


class Crossing(NamedTuple):
    """First point of each curve within ε, and one inside; ``miss`` is above 0 without any."""

    first: Float[np.ndarray, " m"]
    inside: Float[np.ndarray, " m"]
    miss: Float[np.ndarray, " m"]


def crossing_of(curves: Curves, own: Float[np.ndarray, "m classes"], limit: float) -> Crossing:
    """Find where curves come within TVD ``limit`` of the outputs ``own`` first."""
    per_piece = max(BLOCK // (COARSE * max(own.shape[1], 1)), 1)
    parts = [np.zeros((0, 3))]
    for start in range(0, len(own), per_piece):
        piece = np.arange(start, min(start + per_piece, len(own)))
        parts.append(_cross(curves.take(piece), own[piece], limit))
    return Crossing(*np.concatenate(parts).T)


def _cross(curves: Curves, own: np.ndarray, limit: float) -> Float[np.ndarray, "m 3"]:
    """Return first, inside and miss of each curve.

    Between two points the output is taken to move straight: it comes within the limit only if both
    distances and the way allow it. If no piece allows it, the one that misses by the least is it.
    """
    m = np.arange(len(own))
    start, width = np.zeros(len(own)), 1.0
    for points in (COARSE, FINE):
        t = start[:, None] + np.linspace(0.0, width, points)
        width /= points - 1
        at = t[:, :, None]
        a, b, c = (part[:, None] for part in curves)
        p = softmax(a + at * b + at * (1.0 - at) * c, axis=2)
        distance = 0.5 * np.abs(p - own[:, None]).sum(axis=2)
        way = 0.5 * np.abs(np.diff(p, axis=1)).sum(axis=2)
        short = distance[:, :-1] + distance[:, 1:] - way - 2.0 * limit
        cell = np.where((short <= 0.0).any(axis=1), (short <= 0.0).argmax(axis=1), short.argmin(1))
        start = t[m, cell]
    speed = np.maximum(way[m, cell], LEAST)
    first = start + width * np.clip((distance[m, cell] - limit) / speed, 0.0, 1.0)
    inside = np.minimum(first + width * np.clip(limit / speed, 0.0, 2.0), 1.0)
    return np.column_stack([first, inside, np.maximum(short[m, cell], 0.0)])
