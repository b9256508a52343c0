"""Where the model of the outputs along a segment comes within ε first: on a grid, then on a finer one within the cell found.

Along a segment the log-probabilities of the model are ``a + b t + c t (1 − t)``. On an equally spaced grid the exponential of such a
parabola takes two products from one point to the next.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from attnaudit.core.kernels import for_kernel, kernel, over_rows, subroutine

COARSE, FINE = (
    33,
    17,
)  # points of a segment at which the model is looked at, and between two of these
LEAST = 1e-12
LARGEST = 600.0  # exponent, beyond which a product may overflow


class Crossing(NamedTuple):
    """Where segments come within ε by the model: the first point and one inside; ``miss`` is 0 where they do."""

    first: Float[np.ndarray, " m"]
    inside: Float[np.ndarray, " m"]
    miss: Float[np.ndarray, " m"]


def crossing_of(
    a: Float[np.ndarray, "m c"],
    b: Float[np.ndarray, "m c"],
    c: Float[np.ndarray, "m c"],
    own: Float[np.ndarray, "m c"],
    limit: float,
) -> Crossing:
    """Where the model ``softmax(a + b t + c t (1 − t))`` comes within ``limit`` of the outputs ``own`` first, t from 0 to 1."""
    found = np.zeros((len(own), 3))
    over_rows(
        _cross_rows, len(own), *(for_kernel(values) for values in (a, b, c, own)), limit, found
    )
    return Crossing(*np.ascontiguousarray(found.T))


@kernel(fastmath={"reassoc"})
def _cross_rows(first, last, a, b, c, own, limit, found):
    """Of every row the cell of the coarse grid, and within it that of the fine one, in which the output may come within the limit.

    Between two points the output is taken to move straight: it comes within the limit only if both distances and the way allow it. Where
    no cell allows it, it is the one that misses by the least.
    """
    classes = own.shape[1]
    value, ratio, bend, p = (
        np.empty(classes),
        np.empty(classes),
        np.empty(classes),
        np.empty(classes),
    )
    for i in range(first, last):
        largest = 0.0
        for j in range(classes):
            largest = max(largest, abs(a[i, j]) + abs(b[i, j]) + 0.25 * abs(c[i, j]))
        start, step = 0.0, 1.0
        for points in (COARSE, FINE):
            step /= points - 1
            _begin(a[i], b[i], c[i], start, step, value, ratio, bend)
            cell, from_limit, speed, miss, before = 0, 0.0, LEAST, math.inf, 0.0
            for k in range(points):
                if not largest <= LARGEST:
                    _values_at(a[i], b[i], c[i], start + k * step, value)
                total, distance, way = 0.0, 0.0, 0.0
                for j in range(classes):
                    total += value[j]
                for j in range(classes):
                    share = value[j] / total
                    distance += 0.5 * abs(share - own[i, j])
                    way += 0.5 * abs(share - p[j])
                    p[j] = share
                    value[j] *= ratio[j]
                    ratio[j] *= bend[j]
                short = before + distance - way - 2.0 * limit
                if k > 0 and short < miss:
                    cell, from_limit, speed, miss = k - 1, before - limit, max(way, LEAST), short
                if k > 0 and short <= 0.0:
                    break
                before = distance
            start += cell * step
        found[i, 0] = start + step * min(max(from_limit / speed, 0.0), 1.0)
        found[i, 1] = min(found[i, 0] + step * min(max(limit / speed, 0.0), 2.0), 1.0)
        found[i, 2] = max(miss, 0.0)


@subroutine
def _begin(a, b, c, start, step, value, ratio, bend):
    """The exponentials at ``start``, by what they change to the next point, and by what that changes."""
    for j in range(len(a)):
        value[j] = math.exp(a[j] + start * b[j] + start * (1.0 - start) * c[j])
        ratio[j] = math.exp(step * (b[j] + c[j] * (1.0 - 2.0 * start - step)))
        bend[j] = math.exp(-2.0 * c[j] * step * step)


@subroutine
def _values_at(a, b, c, t, value):
    """The exponentials at t, of what is left where the largest exponent is taken off."""
    most = -math.inf
    for j in range(len(a)):
        value[j] = a[j] + t * b[j] + t * (1.0 - t) * c[j]
        most = max(most, value[j])
    for j in range(len(a)):
        value[j] = math.exp(value[j] - most)
