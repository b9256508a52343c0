"""Median change of the output under shuffled attention, and its Monte Carlo error.

The standard error of a median of K draws is that of its rank, √K/2, times the distance between
neighbouring values near the median. It is read off the values 3 standard errors of the rank below
and above the median. For short rows all orders are taken, so the median has no error.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from math import factorial, sqrt
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int64, UInt64
from numba import njit

from attnaudit.core.ragged import Ragged
from attnaudit.core.threads import over_rows
from attnaudit.experiments.through_tail import has_compiled_tail
from attnaudit.stats.measures import tvd
from attnaudit.trace.readout import Readout
from attnaudit.trace.tails import IdentityTail

# Shuffles of a row when an error is asked for: doubled from the first to the last as needed.
COUNTS = (200, 400, 800, 1600, 3200, 6400, 12_800)
BEHIND_A_TAIL = 100  # as in the paper, because each shuffle is a pass through the tail
ENUMERATED = 6  # longest row, in tokens, whose orders are all taken: 720
BLOCK = 1 << 19  # numbers that one call of the readout holds at first; a row may need 64 times more
_REACH = 3.0  # standard errors of the rank


class Shuffled(NamedTuple):
    """Median TVD of every row, its standard error over draws, and the number of draws.

    The error is 0 when all orders are taken, and NaN for a single draw.
    """

    median: Float[np.ndarray, " n"]
    error: Float[np.ndarray, " n"]
    draws: Float[np.ndarray, " n"]


_Measure = Callable[[Readout, Ragged, np.ndarray], Shuffled]  # rows, their attention and streams


def median_delta_y(
    readout: Readout,
    alpha: Ragged,
    streams: UInt64[np.ndarray, " n"],
    count: int | None,
    error: float = 0.0,
) -> Shuffled:
    """Compute the median TVD between the output and the output under shuffled attention.

    A row's shuffles depend on its stream and its own values only.

    Args:
        readout: Predictions of ``n`` rows under any attention.
        alpha: Attention of these rows.
        streams: Random stream of every row.
        count: Shuffles per row. None takes as many as ``error`` needs when the weighted sums are
            the logits, else `BEHIND_A_TAIL`.
        error: Standard error of the median to reach.
    """
    as_needed = count is None and isinstance(readout.tail, IdentityTail)
    counts = COUNTS if as_needed else (count or BEHIND_A_TAIL,)
    result, first = np.zeros((3, len(alpha))), np.arange(min(len(alpha), 1))
    outputs = readout.take(first)(alpha.take(first)).shape[1]

    def in_blocks(measure: _Measure, rows: Int64[np.ndarray, " m"], orders: int) -> None:
        width = readout.contribution.values.shape[1] + readout.offset.shape[1] + outputs
        step = max(BLOCK // (orders * width), 1)

        def chunk(first: int, last: int) -> None:
            for start in range(first, last, step):
                block = rows[start : min(start + step, last)]
                result[:, block] = measure(readout.take(block), alpha.take(block), streams[block])

        if has_compiled_tail(readout):
            over_rows(chunk, len(rows))
        else:  # a network has threads of its own
            chunk(0, len(rows))

    def draw(block: Readout, weights: Ragged, keys: np.ndarray) -> Shuffled:
        return _draw(block, weights, keys, counts, error)

    if not as_needed:
        in_blocks(draw, np.arange(len(alpha)), counts[0])
        return Shuffled(*result)
    for length in range(1, ENUMERATED + 1):
        in_blocks(_take_all_orders, np.flatnonzero(alpha.lengths == length), factorial(length))
    in_blocks(draw, np.flatnonzero(alpha.lengths > ENUMERATED), counts[0])
    return Shuffled(*result)


def _take_all_orders(readout: Readout, alpha: Ragged, _: np.ndarray) -> Shuffled:
    """Measure rows of one length under all orders of their weights, the first their own."""
    rows, length = len(alpha), alpha.lengths[0]
    orders = np.array(list(permutations(range(length))))
    weights = alpha.values.reshape(rows, length)
    parts = readout.contribution.values.reshape(rows, length, 1, -1)
    sums = sum(weights[:, orders[:, t], None] * parts[:, t] for t in range(length))
    predicted = _predict(readout, np.asarray(sums), np.arange(rows))
    change = tvd(predicted, np.broadcast_to(predicted[:, :1], predicted.shape))
    return median_and_error(np.sort(change, axis=1))._replace(error=np.zeros(rows))


def _draw(
    readout: Readout,
    alpha: Ragged,
    streams: UInt64[np.ndarray, " n"],
    counts: tuple[int, ...],
    error: float,
) -> Shuffled:
    """Measure rows under as few of ``counts`` shuffles as keep the median's error small enough."""
    width = readout.contribution.values.shape[1]
    # One type and layout, so that the kernel is compiled once; tables may lend read-only arrays.
    contribution = np.require(readout.contribution.values, np.float64, ["C", "W"])
    rows, weights = np.arange(len(alpha)), alpha.values.astype(np.float64)

    def predict(numbers: range) -> Float[np.ndarray, "m k C"]:
        sums = np.empty((len(rows), len(numbers), width))
        _sum_shuffles(rows, weights, alpha.offsets, contribution, streams, numbers.start, sums)
        return _predict(readout, sums, rows)

    own = predict(range(-1, 0))
    result, change = np.empty((3, len(rows))), np.empty((len(rows), 0))
    for fewer, count in zip((0, *counts), counts, strict=False):
        predicted = predict(range(fewer, count))
        fresh = tvd(predicted, np.broadcast_to(own[rows], predicted.shape))
        change = np.sort(np.concatenate([change, fresh], axis=1), axis=1)
        result[:, rows] = median_and_error(change)
        inexact = result[1, rows] > error
        rows, change = rows[inexact], change[inexact]
        if not len(rows):
            break
    return Shuffled(*result)


def _predict(
    readout: Readout, sums: Float[np.ndarray, "m k P"], rows: Int64[np.ndarray, " m"]
) -> Float[np.ndarray, "m k C"]:
    """Predict each of the rows with k weighted sums."""
    count, orders, width = sums.shape
    predicted = readout.of_sums(sums.reshape(-1, width), np.repeat(rows, orders))
    return predicted.reshape(count, orders, -1)


def median_and_error(ascending: Float[np.ndarray, "n K"]) -> Shuffled:
    """Compute the median of every row of sorted draws and its standard error."""
    rows, count = ascending.shape
    low = max(int((count - 1) / 2 - 0.5 * _REACH * sqrt(count)), 0)
    high = count - 1 - low
    median = 0.5 * (ascending[:, (count - 1) // 2] + ascending[:, count // 2])
    error = np.full(rows, np.nan)
    if high > low:
        distance = (ascending[:, high] - ascending[:, low]) / (high - low)
        error = 0.5 * sqrt(count) * distance
    return Shuffled(median, error, np.full(rows, float(count)))


@njit(cache=True, nogil=True)
def _sum_shuffles(rows, weights, offsets, contribution, streams, first, sums):
    """Compute ``Σ_t weights_t · contribution_t`` after each shuffle from number ``first`` on.

    Weights stay shuffled, as a shuffle of shuffled weights is as random. Number −1 is no shuffle.
    """
    other = np.empty(len(weights), np.int64)
    for i, row in enumerate(rows):
        start, size = offsets[row], offsets[row + 1] - offsets[row]
        own, parts = weights[start : start + size], contribution[start : start + size]
        for k in range(sums.shape[1]):
            if first + k >= 0:
                # The draws of `core.random.shuffled`; alone in a loop, eight are computed at once.
                for t in range(size):
                    counter = np.uint64((first + k) * size + t + 1)
                    x = streams[row] + counter * np.uint64(0x9E3779B97F4A7C15)
                    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
                    x = x ^ (x >> np.uint64(31))
                    other[t] = ((x >> np.uint64(32)) * np.uint64(t + 1)) >> np.uint64(32)
                for t in range(size - 1, 0, -1):
                    own[t], own[other[t]] = own[other[t]], own[t]
            for p in range(sums.shape[2]):
                total = 0.0
                for t in range(size):
                    total += own[t] * parts[t, p]
                sums[i, k, p] = total
