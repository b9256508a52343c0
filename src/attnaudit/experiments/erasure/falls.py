"""Outputs with the best positions of a ranking removed, and with them alone, for every row of a trace, compiled; and their bounds.

With two classes and an identity tail the bounds over all choices of as many positions are exact. What keeping ``K`` gives is a ratio,
``Σ_{t∈K} alpha_t · r_t / Σ_{t∈K} alpha_t`` (the offset shifts it, the sigmoid keeps its order). A ratio λ can be beaten if and only if
``Σ_{t∈K} alpha_t (r_t − λ) > 0`` for some ``K``, and the best ``K`` for that are the ``m`` largest terms. Starting from any ``K``, taking
its own ratio for λ again and again ends at the largest ratio (Dinkelbach 1967), in a few steps of O(T) each.
"""

from __future__ import annotations

import math

import numpy as np

from attnaudit.core.kernels import for_kernel, kernel, over_rows, subroutine
from attnaudit.core.ragged import Ragged
from attnaudit.experiments.compiled_readout import kernel_rows, logits_into, predict_into, row_parts
from attnaudit.experiments.erasure.removal import (
    decision,
    left_after,
    own_sum,
    random_order,
    row_of,
    sum_left,
)
from attnaudit.stats.measures import ERASED_SHARES
from attnaudit.stats.ordering import descending, select
from attnaudit.trace.readout import Readout

SHARES = np.array(ERASED_SHARES)
MOST_STEPS = (
    100  # of Dinkelbach's; a handful suffice, but rounding could make two equal choices take turns
)


def falls(readout: Readout, alpha: Ragged, score: Ragged) -> np.ndarray:
    """How far the decided class's probability falls, ``(n, 2, 5)``: without the best tokens of each share of T, and with them alone.

    NaN where T is 1 and where a removal leaves no weight.
    """
    return _falls(readout, alpha, score.values, np.zeros(len(alpha), np.uint64), 0)


def falls_by_chance(
    readout: Readout, alpha: Ragged, streams: np.ndarray, orders: int
) -> np.ndarray:
    """`falls`, the mean over ``orders`` random orders."""
    return _falls(readout, alpha, alpha.values, streams, orders)


def _falls(
    readout: Readout, alpha: Ragged, score: np.ndarray, streams: np.ndarray, orders: int
) -> np.ndarray:
    """By ``score``, or the mean over random ``orders``: one kernel for both, as each would compile all that they share."""
    out = np.full((len(alpha), 2, len(SHARES)), np.nan)
    over_rows(
        _fall_rows,
        len(alpha),
        kernel_rows(readout, alpha),
        alpha.offsets,
        for_kernel(score),
        streams,
        orders,
        out,
    )
    return out


def bounds(readout: Readout, alpha: Ragged) -> np.ndarray:
    """The smallest and the largest fall that any choice of tokens gives, ``(n, 2, 5, 2)``, where one logit decides.

    That of a softmax over two classes is the difference of its logits.
    """
    value, offset = readout.contribution.values[:, -1], readout.offset[:, -1]
    if readout.activation == "softmax":
        value, offset = value - readout.contribution.values[:, 0], offset - readout.offset[:, 0]
    out = np.full((len(alpha), 2, len(SHARES), 2), np.nan)
    over_rows(
        _bound_rows,
        len(alpha),
        for_kernel(alpha.values),
        alpha.offsets,
        for_kernel(value),
        for_kernel(offset),
        out,
    )
    return out


@kernel
def _fall_rows(first, last, rows, offsets, score, streams, orders, out):
    for i in range(first, last):
        _fall_row(
            row_of(row_parts(rows, i)),
            score[offsets[i] : offsets[i + 1]],
            streams[i],
            orders,
            out[i],
        )


@kernel
def _bound_rows(first, last, alpha, offsets, value, offset, out):
    for i in range(first, last):
        start, stop = offsets[i], offsets[i + 1]
        _bound_row(alpha[start:stop], value[start:stop], offset[i], out[i])


@subroutine
def _fall_row(row, score, stream, orders, out):
    """The mean over random ``orders``; where there are none, by ``score``."""
    if len(score) < 2:
        return
    single, times = np.empty(out.shape), max(orders, 1)
    for number in range(times):
        _falls_in_order(
            row,
            random_order(len(score), stream, number) if orders > 0 else descending(score),
            single,
        )
        for way in range(2):
            for k in range(len(SHARES)):
                out[way, k] = single[way, k] / times + (out[way, k] if number > 0 else 0.0)


@subroutine
def _falls_in_order(row, order, out):
    """Output without the first of ``order``, and with them alone, against the output of all; NaN where no weight is left."""
    size = len(order)
    pooled, prediction = own_sum(row), np.empty(len(row.head.bias))
    logits_into(prediction, pooled, row.head)
    decided = decision(prediction, row)
    before = _probability(prediction, pooled, row.head, decided)
    backwards = np.empty(size, np.int64)
    for k in range(size):
        backwards[k] = order[size - 1 - k]
    for way in range(2):
        mass, moment = left_after(order if way == 0 else backwards, row.weights, row.contribution)
        for k in range(len(SHARES)):
            count = _top_size(SHARES[k], size)
            removed = count if way == 0 else size - count
            out[way, k] = math.nan
            if mass[removed] > 0.0:
                out[way, k] = before - _probability(
                    prediction, sum_left(row, mass[removed], moment[removed]), row.head, decided
                )


@subroutine
def _top_size(share, size):
    """How many tokens a share of T is: one at least."""
    return max(math.ceil(share * size - 1e-9), 1)


@subroutine
def _probability(prediction, pooled, head, decided):
    predict_into(prediction, pooled, head)
    return (
        1.0 - prediction[0]
        if head.sigmoid and decided == 0
        else prediction[0 if head.sigmoid else decided]
    )


@subroutine
def _bound_row(weights, value, offset, out):
    size = len(weights)
    if size < 2:
        return
    logit = offset
    for t in range(size):
        logit += weights[t] * value[t]
    sign = 1.0 if logit >= 0.0 else -1.0
    before = 1.0 / (1.0 + math.exp(-sign * logit))
    scratch = np.empty((2, size))
    for k in range(len(SHARES)):
        count = _top_size(SHARES[k], size)
        if k > 0 and count == _top_size(SHARES[k - 1], size):
            for way in range(2):
                out[way, k, 0], out[way, k, 1] = out[way, k - 1, 0], out[way, k - 1, 1]
            continue
        for way, kept in enumerate((size - count, count)):
            lowest, highest = extreme_means(weights, value, kept, scratch)
            if sign < 0.0:
                lowest, highest = -highest, -lowest
            out[way, k, 0] = before - 1.0 / (1.0 + math.exp(-(highest + sign * offset)))
            out[way, k, 1] = before - 1.0 / (1.0 + math.exp(-(lowest + sign * offset)))


@subroutine
def extreme_means(weights, value, kept, scratch):
    """The smallest and the largest weighted mean of ``kept`` of the values; all of them NaN where the weights are 0.

    ``scratch`` has shape ``(2, T)``.
    """
    least, mean = 0.0, 0.0
    for sign in (-1.0, 1.0):  # in a loop, which compiles what it calls once
        least, mean = -mean, _largest_mean(weights, value, sign, kept, scratch)
    return least, mean


@subroutine
def _largest_mean(weights, value, sign, kept, scratch):
    """Of ``sign`` times the values, taken from that of the heaviest position kept: a weight close to 1 would hide those that are many times
    smaller. Begins with the heaviest positions.
    """
    size, heaviest, reached = len(weights), 0, -math.inf
    gain, mine = scratch[0], scratch[1]
    for t in range(size):
        gain[t] = weights[t]
    for step in range(MOST_STEPS):
        if not _keep_largest(gain, weights, kept, mine) > 0.0 and step > 0:
            break
        former, heaviest = heaviest, 0
        for t in range(1, size):
            heaviest = t if mine[t] > mine[heaviest] else heaviest
        mass, moment = 0.0, 0.0
        for t in range(size):
            mass += mine[t]
            moment += mine[t] * (sign * (value[t] - value[heaviest]))
        if not mass > 0.0:
            return np.nan
        if (
            heaviest == former and moment / mass <= reached
        ):  # the same choice again, whose gains rounding may leave above 0
            break
        reached = moment / mass
        for t in range(size):
            gain[t] = weights[t] * (sign * (value[t] - value[heaviest]) - reached)
    return sign * value[heaviest] + reached


@subroutine
def _keep_largest(gain, weights, kept, mine):
    """The weights of the ``kept`` positions of largest gain, else 0, into ``mine``; returns the sum of their gains."""
    size = len(gain)
    for t in range(size):
        mine[t] = gain[t]
    least, ties = select(mine, 0, size, size - kept), kept
    for t in range(size):
        ties -= gain[t] > least
    total = 0.0
    for t in range(size):
        inside = gain[t] > least or (gain[t] == least and ties > 0)
        ties -= gain[t] == least
        total += gain[t] if inside else 0.0
        mine[t] = weights[t] if inside else 0.0
    return total
