"""The attentions with the same attended sum, of readouts that are a number for each position; every row of a trace, compiled.

With values ``v_t`` from the attended sum they are the weights with mean 0. A vertex is all weight on a token with value 0, or weights on
one token ``i`` of each side, ``v_j / (v_j − v_i)`` on the lower and the rest on ``j``: the largest total variation distance is that of the
best of at most T²/4 pairs. The most weight that ``t`` can have is with all other weight as far on the other side as it can be, the least
with it as near; both are 0 where there is nothing on that side.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int64

from attnaudit.core.arrays import where_lowest
from attnaudit.core.kernels import for_kernel, kernel, over_rows, subroutine
from attnaudit.core.ragged import Ragged

TOLERANCE = 1e-6  # singular values up to this share of the norm of the readouts count as zero


class LineMoves(NamedTuple):
    """Of every row the dimension of the changes, the largest TVD, and the ends of the ranges of the weights of most attention.

    The attention at that distance has the weight ``share`` on the first token of ``pair`` and the rest on the second, ``(n,)`` and
    ``(n, 2)``; −1 is the row's own.
    """

    dimension: Int64[np.ndarray, " n"]
    reach: Float[np.ndarray, " n"]
    share: Float[np.ndarray, " n"]
    pair: Int64[np.ndarray, "n 2"]
    least: Ragged
    most: Ragged

    def end(self, row: int, alpha: Float[np.ndarray, " T"]) -> Float[np.ndarray, " T"]:
        """The attention of ``row`` at the largest distance; its own, ``alpha``, where there is no other."""
        low, high = self.pair[row]
        if low < 0:
            return alpha
        end = np.zeros_like(alpha)
        end[low] += self.share[row]
        end[high] += 1.0 - self.share[row]
        return end


def moves_on_line(readout: Float[np.ndarray, " N"], alpha: Ragged, tokens: int) -> LineMoves:
    """How far the attention of every row can move; ranges are those of its ``tokens`` positions of most attention."""
    n, ranges = len(alpha), Ragged.from_lengths(np.zeros(0), np.minimum(alpha.lengths, tokens))
    dimension, reach, share, pair = (
        np.empty(n, np.int64),
        np.zeros(n),
        np.ones(n),
        np.full((n, 2), -1),
    )
    least, most = np.empty((2, int(ranges.offsets[-1])))
    given = for_kernel(readout), for_kernel(alpha.values), alpha.offsets, ranges.offsets
    over_rows(_line_rows, n, *given, dimension, reach, share, pair, least, most)
    return LineMoves(
        dimension, reach, share, pair, ranges.with_values(least), ranges.with_values(most)
    )


@kernel
def _line_rows(
    first, last, readout, alpha, offsets, at, dimension, reach, share, pair, least, most
):
    for i in range(first, last):
        value, weights = (
            readout[offsets[i] : offsets[i + 1]].copy(),
            alpha[offsets[i] : offsets[i + 1]],
        )
        top = _heaviest(weights, at[i + 1] - at[i])
        spread = _centre(value, weights, top[0])
        dimension[i] = len(value) - (2 if spread else 1)
        if dimension[i] > 0 and spread:
            reach[i], share[i], pair[i, 0], pair[i, 1] = _farthest_pair(value, weights)
        elif dimension[i] > 0:
            lightest = where_lowest(weights)
            reach[i], pair[i, 0], pair[i, 1] = 1.0 - weights[lightest], lightest, lightest
        for k in range(len(top)):
            own = weights[top[k]]
            low, high = own, own
            if dimension[i] > 0:
                low, high = _range(value, top[k]) if spread else (0.0, 1.0)
            least[at[i] + k], most[at[i] + k] = min(low, own), max(high, own)


@subroutine
def _heaviest(weights, count):
    """The positions of the ``count`` largest weights in their order, equal ones as they stand."""
    left, top = weights.copy(), np.empty(count, np.int64)
    for k in range(count):
        top[k] = 0
        for t in range(1, len(left)):
            top[k] = t if left[t] > left[top[k]] else top[k]
        left[top[k]] = -1.0
    return top


@subroutine
def _centre(value, weights, heaviest):
    """Take the attended sum from ``value``, in place; returns whether the values differ by more than rounding.

    Weights close to 0 would be lost in a sum that the weight of the heaviest enters.
    """
    size, norm, mean = 0.0, 0.0, 0.0
    for t in range(len(value)):
        norm += value[t] ** 2
        mean += value[t] / len(value)
    for t in range(len(value)):
        size += (value[t] - mean) ** 2
    shift, centre = 0.0, value[heaviest]
    for t in range(len(value)):
        value[t] -= centre
        shift += weights[t] * value[t]
    for t in range(len(value)):
        value[t] -= shift
    return math.sqrt(size) > TOLERANCE * math.sqrt(norm)


@subroutine
def _farthest_pair(value, weights):
    """The largest distance of a pair, the weight of its token below, and the two."""
    reach, share, below, above = 0.0, 1.0, -1, -1
    for i in range(len(value)):
        if value[i] > 0.0:
            continue
        for j in range(len(value)):
            if value[j] >= 0.0:
                gap = value[j] - value[i]
                part = value[j] / gap if gap > 0.0 else 1.0
                distance = 1.0 - (min(part, weights[i]) + min(1.0 - part, weights[j]))
                if distance > reach:
                    reach, share, below, above = distance, part, i, j
    return reach, share, below, above


@subroutine
def _range(value, token):
    """The least and the largest weight of ``token``, with the others as near to the other side as they are, and as far."""
    side = -1.0 if value[token] >= 0.0 else 1.0
    mine, nearest, farthest = abs(value[token]), math.inf, -math.inf
    for t in range(len(value)):
        if t != token:
            nearest, farthest = min(nearest, side * value[t]), max(farthest, side * value[t])
    if mine == 0.0:
        return (0.0 if nearest <= 0.0 <= farthest else 1.0), 1.0
    return (nearest / (nearest + mine) if nearest > 0.0 else 0.0), (
        farthest / (farthest + mine) if farthest > 0.0 else 0.0
    )
