"""The median change of the output under shuffled attention, and its Monte Carlo error, from as many shuffles as an error asked for needs.

The standard error of a median of K draws is that of its rank, √K/2, times how far apart the values near the median lie: it is read off the
distance between the values 3 standard errors of the rank below the median and as many above. Of short rows all orders are taken.
"""

from __future__ import annotations

from math import factorial, sqrt
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int64, UInt64

from attnaudit.core.arrays import numbers_below
from attnaudit.core.kernels import kernel, over_rows, subroutine
from attnaudit.core.ragged import Ragged
from attnaudit.core.random import apply_shuffle, draw_shuffle, shuffle
from attnaudit.experiments.compiled_readout import (
    activate_into,
    kernel_rows,
    pool,
    pooled_prediction,
    row_parts,
    tvd_row,
)
from attnaudit.experiments.through_tail import Outputs, has_compiled_tail
from attnaudit.stats.measures import tvd
from attnaudit.stats.ordering import select
from attnaudit.trace.readout import IdentityTail, Readout

FEWEST, MOST = (
    200,
    12_800,
)  # shuffles of a row where an error is wanted: doubled from the one until the error is small enough or the other
BEHIND_A_TAIL = 100  # shuffles then, as in the paper: each is a pass through the tail
ENUMERATED = 6  # positions of a row of which all orders are taken then: at most 720
BLOCK = 1 << 21  # contributions, or shuffled weights, that the general way holds at a time
_REACH = 3.0  # standard errors of the rank


class Shuffled(NamedTuple):
    """Of every row the median change (TVD), its standard error over draws, and the number of draws, ``(n,)`` each.

    The error is 0 where all orders were taken, and NaN of a single draw.
    """

    median: Float[np.ndarray, " n"]
    error: Float[np.ndarray, " n"]
    draws: Float[np.ndarray, " n"]


def median_delta_y(
    readout: Readout,
    alpha: Ragged,
    streams: UInt64[np.ndarray, " n"],
    permutations: int | None,
    error: float = 0.0,
) -> Shuffled:
    """Median TVD under ``permutations`` shuffles; None for as many as ``error`` needs, or `BEHIND_A_TAIL`.

    The same shuffles whichever way they are read out, and the same number whatever other rows there are.
    """
    if isinstance(readout.tail, IdentityTail):
        ends = (
            (FEWEST, MOST, factorial(ENUMERATED))
            if permutations is None
            else (permutations, permutations, 0)
        )
        out = np.empty((3, len(alpha)))
        over_rows(
            _median_rows, len(alpha), kernel_rows(readout, alpha), streams, *ends, error, *out
        )
        return Shuffled(*out)
    count = permutations or BEHIND_A_TAIL
    through, numbers = (
        (_through_tail, _numbers(readout, alpha))
        if has_compiled_tail(readout)
        else (_of_many, count)
    )
    blocks = alpha.blocks(max(BLOCK // numbers, 1))
    change = np.concatenate(
        [through(readout.take(b), alpha.take(b), streams[b], count) for b in blocks], axis=1
    )
    median, errors = np.empty((2, len(alpha)))
    over_rows(_rows_of_changes, len(alpha), np.ascontiguousarray(change.T), median, errors)
    return Shuffled(median, errors, np.full(len(alpha), float(count)))


def _numbers(readout: Readout, alpha: Ragged) -> int:
    """How many numbers a position takes in the general way: what it contributes, and its share of the outputs of its row."""
    first = np.zeros(1, np.int64)
    outputs = readout.take(first)(alpha.take(first)).shape[1]
    return readout.contribution.values.shape[1] + outputs * len(alpha) // len(alpha.values)


def _through_tail(
    readout: Readout, alpha: Ragged, streams: UInt64[np.ndarray, " n"], permutations: int
) -> Float[np.ndarray, "k n"]:
    baseline = readout(alpha)
    shuffled = alpha.with_values(alpha.values.copy())
    change = np.empty((permutations, len(alpha)))
    for k in range(permutations):
        over_rows(shuffle_rows, len(streams), shuffled.values, shuffled.offsets, streams, k)
        change[k] = tvd(readout(shuffled), baseline)
    return change


def _of_many(
    readout: Readout, alpha: Ragged, streams: UInt64[np.ndarray, " n"], permutations: int
) -> Float[np.ndarray, "k n"]:
    """All shuffles of some rows, row after row: a model that is run again takes those of one text together."""
    outputs, shuffled = Outputs.of(readout, alpha), alpha.with_values(alpha.values.copy())
    drawn = np.empty((permutations, len(alpha.values)))
    for k in range(permutations):
        over_rows(shuffle_rows, len(streams), shuffled.values, shuffled.offsets, streams, k)
        drawn[k] = shuffled.values
    rows = np.repeat(np.arange(len(alpha)), permutations)

    def attention(chosen: Int64[np.ndarray, " b"]) -> Ragged:
        lengths = alpha.lengths[rows[chosen]]
        return Ragged.from_lengths(
            drawn[np.repeat(chosen % permutations, lengths), alpha.positions(rows[chosen])], lengths
        )

    return outputs.under(rows, attention, outputs.distance).reshape(len(alpha), permutations).T


@kernel
def shuffle_rows(first, last, values, offsets, streams, k):
    """Shuffle ``k`` of every row's stream, of the row's values in place."""
    for row in range(first, last):
        shuffle(values[offsets[row] : offsets[row + 1]], streams[row], k)


@kernel
def _rows_of_changes(first, last, change, median, errors):
    for row in range(first, last):
        median[row], errors[row] = _median_and_error(change[row], change.shape[1])


@kernel
def _median_rows(
    first, last, rows, streams, fewest, most, enumerated, error, median, errors, draws
):
    for i in range(first, last):
        median[i], errors[i], draws[i] = _median_row(
            row_parts(rows, i), streams[i], fewest, most, enumerated, error
        )


@subroutine
def _median_row(parts, stream, fewest, most, enumerated, error):
    """After the encoder the logits are ``offset + Σ_t alpha_t · contribution_t``: a shuffle costs T·C additions, not a model run."""
    alpha, contribution, offset, head = parts
    baseline, prediction = (
        pooled_prediction(pool(alpha, contribution, offset), head),
        np.empty(len(offset)),
    )
    allowed, sigmoid = head.allowed, head.sigmoid
    orders = _orders(len(alpha), enumerated)
    changes, weights, count, wanted, every = (
        np.empty(max(most, enumerated)),
        alpha.copy(),
        0,
        fewest,
        orders <= enumerated,
    )
    if every:
        wanted = orders
    order, drawn = numbers_below(len(alpha)), np.empty(len(alpha), np.uint64)
    while True:
        for k in range(count, wanted):
            if every:
                for t in range(len(weights)):
                    weights[t] = alpha[order[t]]
                _next_order(order)
            else:
                draw_shuffle(drawn, stream, k)
                apply_shuffle(weights, drawn)
            for c in range(len(prediction)):
                total = offset[c]
                for t in range(len(weights)):
                    total += weights[t] * contribution[t, c]
                prediction[c] = total
            activate_into(prediction, allowed, sigmoid)
            changes[k] = tvd_row(prediction, baseline)
        count = wanted
        median, error_reached = _median_and_error(changes, count)
        if every:
            return median, 0.0, count
        if error_reached <= error or 2 * count > most:
            return median, error_reached, count
        wanted = 2 * count


@subroutine
def _median_and_error(values, count):
    """The median of the first ``count`` values, and its standard error; their order changes."""
    low = max(int((count - 1) / 2 - 0.5 * _REACH * sqrt(count)), 0)
    high = count - 1 - low
    half, found = count // 2, np.empty(4)
    for k, (start, stop, rank) in enumerate(
        ((0, count, low), (low, count, high), (low, high + 1, half), (low, half, half - 1))
    ):
        if k < 3 or count % 2 == 0:
            found[k] = select(values, start, stop, rank)
    median = found[2] if count % 2 else 0.5 * (found[3] + found[2])
    return median, 0.5 * sqrt(count) * (found[1] - found[0]) / (
        high - low
    ) if high > low else np.nan


@subroutine
def _orders(size, most):
    """``size!``, or more than ``most``."""
    orders = 1
    for k in range(2, size + 1):
        orders *= k
        if orders > most:
            break
    return orders


@subroutine
def _next_order(order):
    """The next order in the dictionary's sense, in place; after the last one the first."""
    last = len(order) - 2
    while last >= 0 and order[last] > order[last + 1]:
        last -= 1
    if last >= 0:
        other = len(order) - 1
        while order[other] < order[last]:
            other -= 1
        order[last], order[other] = order[other], order[last]
    left, right = last + 1, len(order) - 1
    while left < right:
        order[left], order[right] = order[right], order[left]
        left, right = left + 1, right - 1
