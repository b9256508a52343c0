"""Median change of the output under shuffled attention, and its Monte Carlo error.

The median of K draws has a rank with standard error √K/2. Its own standard error is that number
times the distance between neighbouring values near the median, which is estimated from the values 3
standard errors of the rank below and above. Short rows take all orders, so their median has no
error.
"""

from collections.abc import Callable
from functools import partial
from itertools import permutations
from math import factorial, sqrt
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numba import njit

from attnaudit.core.ragged import Ragged
from attnaudit.core.shapes import Indices, PerRow, Streams
from attnaudit.core.threads import on_threads
from attnaudit.experiments.through_tail import NUMBERS, has_compiled_tail, predict_several
from attnaudit.stats.measures import tvd
from attnaudit.trace import IdentityTail, Readout
from attnaudit.trace.tails import JointTail

# Numbers of shuffles of a row with a target error: doubled until the error is reached.
COUNTS = (200, 400, 800, 1600, 3200, 6400, 12_800)
# As in the paper. It is not raised, because each shuffle is a pass through the tail.
BEHIND_A_TAIL = 100
# The same where a model is run again: each shuffle is a pass through its layers.
OF_MODEL = (25, 50, BEHIND_A_TAIL)
# Longest row, in tokens, that takes all of its orders: 6! = 720.
ENUMERATED = 6
# Numbers in one call of a formula at 200 shuffles a row. With 12,800 a row has 64 times as many.
BLOCK = 1 << 18
# Standard errors of the rank on each side of the median.
_REACH = 3.0


class Shuffled(NamedTuple):
    """Median TVD of each row, its standard error over draws, and the number of draws.

    The error is 0 if all orders are taken, and NaN for a single draw.
    """

    median: PerRow
    error: PerRow
    draws: PerRow


def median_delta_y(
    readout: Readout,
    alpha: Ragged,
    streams: Streams,
    count: int | None,
    error: float = 0.0,
) -> Shuffled:
    """Compute the median TVD between the output and the output under shuffled attention.

    The shuffles of a row depend only on its stream and its own values.

    Args:
        readout: Predictions of ``n`` rows under any attention.
        alpha: Attention of these rows.
        streams: Random stream of each row.
        count: Shuffles per row. None draws as many as ``error`` needs if the weighted sums are the
            logits or a model is run again, and `BEHIND_A_TAIL` otherwise.
        error: Standard error of the median to reach.

    Returns:
        The medians, their errors, and the number of shuffles of each row.
    """
    as_needed = count is None and isinstance(readout.tail, IdentityTail)
    usual = OF_MODEL if isinstance(readout.tail, JointTail) else (BEHIND_A_TAIL,)
    counts = COUNTS if as_needed else (count,) if count else usual
    result, first = np.zeros((3, len(alpha))), np.arange(min(len(alpha), 1))
    outputs = readout.take(first)(alpha.take(first)).shape[1]

    def in_blocks(measure: Callable[..., Shuffled], rows: Indices, orders: int) -> None:
        width = readout.contribution.values.shape[1] + readout.offset.shape[1] + outputs
        # A stored graph pads each call to a fixed size, so that small ones are wasted.
        numbers = BLOCK if has_compiled_tail(readout) else NUMBERS
        step = max(numbers // (orders * width), 1)

        def compute(start):
            block = rows[start : start + step]
            result[:, block] = measure(readout.take(block), alpha.take(block), streams[block])

        # A network has threads of its own.
        at_once = on_threads if has_compiled_tail(readout) else map
        list(at_once(compute, range(0, len(rows), step)))

    draw = partial(_draw, counts=counts, error=error)
    if not as_needed:
        in_blocks(draw, np.arange(len(alpha)), counts[-1])
        return Shuffled(*result)
    for length in range(1, ENUMERATED + 1):
        in_blocks(_take_all_orders, np.flatnonzero(alpha.lengths == length), factorial(length))
    in_blocks(draw, np.flatnonzero(alpha.lengths > ENUMERATED), counts[0])
    return Shuffled(*result)


def _take_all_orders(readout: Readout, alpha: Ragged, _: np.ndarray) -> Shuffled:
    """Measure rows of one length under all orders of their weights, their own order first."""
    rows, length = len(alpha), alpha.lengths[0]
    orders = np.array(list(permutations(range(length))))
    weights = alpha.values.reshape(rows, length)
    parts = readout.contribution.values.reshape(rows, length, 1, -1)
    sums = sum(weights[:, orders[:, t], None] * parts[:, t] for t in range(length))
    predicted = predict_several(readout, np.asarray(sums), np.arange(rows))
    change = tvd(predicted, np.broadcast_to(predicted[:, :1], predicted.shape))
    return median_and_error(np.sort(change, axis=1))._replace(error=np.zeros(rows))


def _draw(
    readout: Readout,
    alpha: Ragged,
    streams: Streams,
    counts: tuple[int, ...],
    error: float,
) -> Shuffled:
    """Measure each row with the fewest of ``counts`` shuffles that reach the target error."""
    width = readout.contribution.values.shape[1]
    # One dtype and layout, so that the kernel is compiled once. Arrays of tables may be read-only,
    # which is another type to numba.
    contribution = np.require(readout.contribution.values, np.float64, ["C", "W"])
    rows, weights = np.arange(len(alpha)), alpha.values.astype(np.float64)

    def predict(numbers: range) -> Float[np.ndarray, "m k C"]:
        sums = np.empty((len(rows), len(numbers), width))
        _sum_shuffles(rows, weights, alpha.offsets, contribution, streams, numbers.start, sums)
        return predict_several(readout, sums, rows)

    own = predict(range(-1, 0))
    result, change = np.empty((3, len(rows))), np.empty((len(rows), 0))
    for fewer, count in zip((0, *counts), counts, strict=False):
        # Earlier shuffles are reused: doubling costs only the second half.
        predicted = predict(range(fewer, count))
        fresh = tvd(predicted, np.broadcast_to(own[rows], predicted.shape))
        change = np.sort(np.concatenate([change, fresh], axis=1), axis=1)
        result[:, rows] = median_and_error(change)
        inexact = result[1, rows] > error
        rows, change = rows[inexact], change[inexact]
        if not len(rows):
            break
    return Shuffled(*result)


def median_and_error(ascending: Float[np.ndarray, "n K"]) -> Shuffled:
    """Compute the median of each row of sorted draws, and its standard error."""
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
    """Compute ``Σ_t weights_t · contribution_t`` after each shuffle, from number ``first`` on.

    ``weights`` is shuffled in place: a shuffle of shuffled weights is as random. Number −1 leaves
    them as they are.
    """
    other = np.empty(len(weights), np.int64)
    for i, row in enumerate(rows):
        start, size = offsets[row], offsets[row + 1] - offsets[row]
        own, parts = weights[start : start + size], contribution[start : start + size]
        for k in range(sums.shape[1]):
            if first + k >= 0:
                # The draws of `core.random.shuffled`. In a loop of their own, LLVM computes eight
                # at a time.
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
