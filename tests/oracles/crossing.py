"""Where a model of outputs along a segment comes within ε first, point by point: no recurrence, no early end."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.special import softmax


def naive_crossing(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, own: np.ndarray, limit: float
) -> tuple[float, float, float]:
    """The first point within ``limit``, one inside and by how much the model misses it, of one segment; all arrays (classes,)."""
    start, width, found = 0.0, 1.0, (0.0, 0.0, 0.0)
    for points in (33, 17):
        t = np.linspace(start, start + width, points)
        p = [softmax(a + point * b + point * (1 - point) * c) for point in t]
        distance = [np.abs(there - own).sum() / 2 for there in p]
        ways = [np.abs(after - there).sum() / 2 for there, after in pairwise(p)]
        short = [distance[k] + distance[k + 1] - ways[k] - 2 * limit for k in range(points - 1)]
        possible = [k for k, gap in enumerate(short) if gap <= 0]
        cell = possible[0] if possible else int(np.argmin(short))
        step, way = t[cell + 1] - t[cell], max(ways[cell], 1e-12)
        first = t[cell] + step * min(max((distance[cell] - limit) / way, 0.0), 1.0)
        found = first, min(first + step * min(limit / way, 2.0), 1.0), max(short[cell], 0.0)
        start, width = t[cell], step
    return found
