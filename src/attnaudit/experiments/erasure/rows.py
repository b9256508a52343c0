"""Every removal of the erasure study for every row of a trace, compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import prange

from attnaudit.core.kernels import kernel
from attnaudit.core.ragged import Ragged
from attnaudit.core.random import draw_below
from attnaudit.experiments.erasure.minimum import smallest_flip
from attnaudit.experiments.erasure.rankings import RANKINGS, by_chance, descending, weight_gradient
from attnaudit.experiments.erasure.walk import decision, fewest_kept, first_flip, row_of, without_one
from attnaudit.experiments.readout_pooled import Head, pool, pooled_arguments, pooled_logits, pooled_prediction
from attnaudit.stats.kernel_arrays import for_kernel
from attnaudit.trace.readout import Readout

ANY_OTHER, AS_RELEASED = 0, 1  # which other position the largest weight is compared with


class Erased(NamedTuple):
    """What came of the removals. A row of one position has NaN for everything.

    ``removed`` and ``mass``: positions and weight gone when the decision first flips, by ranking, the smallest set last, ``(n, 5)``; NaN
    where it never does. ``kept``: the fewest positions that keep the output, by ranking ``(n, 4)``. ``single``, ``(n, 5)``: divergence of
    the output without the largest weight, and without the other position; the difference of the two weights; 1 where each flips the
    decision. NaN where a removal leaves no weight. ``smallest`` marks the positions of the smallest set.
    """

    removed: np.ndarray
    mass: np.ndarray
    kept: np.ndarray
    single: np.ndarray
    smallest: Ragged


def erase(readout: Readout, alpha: Ragged, streams: np.ndarray, other: int, orders: int, epsilon: float) -> Erased:
    """All removals; ``orders`` random orders of a row are averaged over, ``epsilon`` is the TVD within which an output is kept."""
    rankings = len(RANKINGS)
    removed, mass = np.full((len(alpha), rankings + 1), np.nan), np.full((len(alpha), rankings + 1), np.nan)
    kept, single = np.full((len(alpha), rankings), np.nan), np.full((len(alpha), 5), np.nan)
    smallest = np.zeros(len(alpha.values), np.bool_)
    arguments = (for_kernel(alpha.values), alpha.offsets, *pooled_arguments(readout))
    _erase_rows(*arguments, streams, other, orders, epsilon, removed, mass, kept, single, smallest)
    return Erased(removed, mass, kept, single, alpha.with_values(smallest))


@kernel(parallel=True)
def _erase_rows(
    alpha, offsets, contribution, offset, allowed, sigmoid, weight, bias, tail, streams, other, orders, epsilon, removed, mass, kept,
    single, smallest,
):  # fmt: skip
    for i in prange(len(streams)):
        start, stop = offsets[i], offsets[i + 1]
        row = row_of(alpha[start:stop], contribution[start:stop], offset[i], Head(weight, bias, tail, allowed[i], sigmoid))
        _erase_row(row, streams[i], other, orders, epsilon, removed[i], mass[i], kept[i], single[i], smallest[start:stop])


@kernel
def _erase_row(row, stream, other, orders, epsilon, removed, mass, kept, single, smallest):
    size = len(row.weights)
    if size < 2:
        return
    pooled, target, logits = np.empty_like(row.offset), np.empty(len(row.head.allowed)), np.empty(len(row.head.allowed))
    pool(row.weights, row.contribution, row.offset, pooled)
    pooled_logits(pooled, row.head, logits)
    pooled_prediction(pooled, row.head, target)
    decided = decision(logits, row)
    _one_weight(row, decided, logits, target, _other_position(row.weights, stream, other), single)
    order, count = smallest_flip(row, decided)
    walked, flips = _random_orders(row, decided, target, stream, orders, epsilon, removed, mass, kept)
    order, count = _the_smaller(order, count, walked, flips)
    slope = weight_gradient(row, decided)
    for ranking, score in enumerate((row.weights, slope, slope * row.weights)):
        walked = descending(score)
        flips, gone = first_flip(walked, row, decided)
        kept[1 + ranking] = fewest_kept(walked, row, target, epsilon)
        if flips > 0:
            removed[1 + ranking], mass[1 + ranking] = flips, gone
        order, count = _the_smaller(order, count, walked, flips)
    if count > 0:
        removed[-1], mass[-1] = count, row.weights[order[:count]].sum()
        smallest[order[:count]] = True


@kernel
def _the_smaller(order, count, other, flips):
    """The smaller of two sets that flip the decision: behind a tail a ranking may find one; with an identity tail only by rounding."""
    return (other, flips) if flips > 0 and (count == 0 or flips < count) else (order, count)


@kernel
def _other_position(weights, stream, other):
    """Any but that of the largest weight; as the released code draws it, any but the first, the largest too.

    Drawn with the number 0 of the row's stream, which no random order uses (`by_chance`).
    """
    drawn = np.int64(draw_below(stream, 0, len(weights) - 1))
    return drawn + 1 if other == AS_RELEASED or drawn >= np.argmax(weights) else drawn


@kernel
def _one_weight(row, decided, before, target, other, single):
    prediction, logits = np.empty(len(target)), np.empty(len(target))
    largest = np.argmax(row.weights)
    single[2] = row.weights[largest] - row.weights[other]
    for k, gone in enumerate((largest, other)):
        if without_one(gone, row, prediction, logits):
            single[k] = output_divergence(prediction, target)
            if row.head.sigmoid:
                single[k] += _divergence_term(1.0 / (1.0 + np.exp(logits[0])), 1.0 / (1.0 + np.exp(before[0])))
            single[3 + k] = 1.0 if decision(logits, row) != decided else 0.0


@kernel
def output_divergence(p, q):
    """JSD of two predictions, in nats; of a single column the share of class 1, that of the other class is to be added."""
    total = 0.0
    for c in range(len(p)):
        total += _divergence_term(p[c], q[c])
    return total


@kernel
def _divergence_term(a, b):
    middle, term = 0.5 * (a + b), 0.0
    if a > 0.0:
        term += 0.5 * a * np.log(a / middle)
    if b > 0.0:
        term += 0.5 * b * np.log(b / middle)
    return term


@kernel
def _random_orders(row, decided, target, stream, orders, epsilon, removed, mass, kept):
    """Means over the random orders, for what they remove over those that flip the decision; and the order that flips it first."""
    flipped, positions, weight, keeps = 0, 0.0, 0.0, 0.0
    best, fewest = np.arange(len(row.weights)), 0
    for number in range(orders):
        order = by_chance(len(row.weights), stream, number)
        count, gone = first_flip(order, row, decided)
        best, fewest = _the_smaller(best, fewest, order, count)
        keeps += fewest_kept(order, row, target, epsilon)
        if count > 0:
            flipped += 1
            positions += count
            weight += gone
    kept[0] = keeps / orders
    if flipped > 0:
        removed[0], mass[0] = positions / flipped, weight / flipped
    return best, fewest
