"""Every removal of the erasure experiment for every row of a trace, and the smallest set of positions that flips the decision; compiled.

With an identity tail the smallest set is found exactly, which Serrano & Smith 2019 call out of reach. A class ``y'`` overtakes the decided
``y`` once the logits left, ``offset + Σ_{t∉S} alpha_t · contribution_t / Σ_{t∉S} alpha_t``, differ the other way. The weight left is
positive, and multiplying by it leaves the sign: what must turn negative is ``Σ_{t∉S} m_t`` with ``m_t = alpha_t · (contribution_ty −
contribution_ty' + offset_y − offset_y')``. Of all sets of one size the one with the largest ``m_t`` leaves the least, so that a sort finds
the smallest set against ``y'``, and the least over rivals ``y'`` is the smallest of all: O(C · T log T). Through another tail positions are
removed greedily, and the set is small, not proven smallest.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from attnaudit.core.arrays import numbers_below, where_highest
from attnaudit.core.kernels import kernel, over_rows, subroutine
from attnaudit.core.ragged import Ragged
from attnaudit.core.random import draw_below
from attnaudit.experiments.compiled_readout import (
    kernel_rows,
    pooled_logits,
    pooled_prediction,
    pull_back,
    row_parts,
)
from attnaudit.experiments.erasure.removal import (
    RANKINGS,
    along,
    decision,
    fewest_kept,
    first_flip,
    left_without,
    own_sum,
    random_order,
    row_of,
    sum_left,
    weight_gradient,
)
from attnaudit.stats.ordering import descending
from attnaudit.trace.readout import Readout

ANY_OTHER, AS_RELEASED = 0, 1  # which other position the largest weight is compared with


class Erased(NamedTuple):
    """The outcome of the removals. A row of one position has NaN for everything.

    ``removed`` and ``mass``: positions and weight removed when the decision first flips, by ranking, the smallest set last, ``(n, 5)``; NaN
    where it never does. ``observed``: positions removed at the first flip, or where there is none when no weight is left, of every random
    order and then of the other rankings, ``(n, orders + 3)``; ``flips`` says which. ``kept``: the fewest positions that keep the output, by
    ranking ``(n, 4)``. ``single``, ``(n, 5)``: divergence of the output without the largest weight, and without the other position; the
    difference of the two weights; 1 where each flips the decision. NaN where a removal leaves no weight. ``smallest`` marks the positions
    of the smallest set.
    """

    removed: np.ndarray
    mass: np.ndarray
    observed: np.ndarray
    flips: np.ndarray
    kept: np.ndarray
    single: np.ndarray
    smallest: Ragged


def erase(
    readout: Readout, alpha: Ragged, streams: np.ndarray, other: int, orders: int, epsilon: float
) -> Erased:
    """All removals; ``orders`` random orders of a row are averaged over, ``epsilon`` is the TVD within which an output is kept."""
    rankings = len(RANKINGS)
    removed, mass = (
        np.full((len(alpha), rankings + 1), np.nan),
        np.full((len(alpha), rankings + 1), np.nan),
    )
    walks = len(alpha), orders + rankings - 1
    observed, flips = np.full(walks, np.nan), np.zeros(walks, np.bool_)
    kept, single = np.full((len(alpha), rankings), np.nan), np.full((len(alpha), 5), np.nan)
    smallest = np.zeros(len(alpha.values), np.bool_)
    chosen, out = (other, orders, epsilon), (removed, mass, observed, flips, kept, single, smallest)
    over_rows(
        erase_rows, len(alpha), kernel_rows(readout, alpha), alpha.offsets, streams, *chosen, *out
    )
    return Erased(removed, mass, observed, flips, kept, single, alpha.with_values(smallest))


@kernel
def erase_rows(
    first,
    last,
    rows,
    offsets,
    streams,
    other,
    orders,
    epsilon,
    removed,
    mass,
    observed,
    flips,
    kept,
    single,
    smallest,
):
    for i in range(first, last):
        out = (
            removed[i],
            mass[i],
            observed[i],
            flips[i],
            kept[i],
            single[i],
            smallest[offsets[i] : offsets[i + 1]],
        )
        _erase_row(row_of(row_parts(rows, i)), streams[i], other, orders, epsilon, out)


@subroutine
def _erase_row(row, stream, other, orders, epsilon, out):
    if len(row.weights) < 2:
        return
    removed, mass, observed, flipped, kept, single, smallest = out
    pooled = own_sum(row)
    logits, target = pooled_logits(pooled, row.head), pooled_prediction(pooled, row.head)
    decided = decision(logits, row)
    _one_weight(row, decided, logits, target, other_position(row.weights, stream, other), single)
    order, count = _smallest_flip(row, decided)
    order, count = _random_orders(row, decided, target, stream, orders, epsilon, out, order, count)
    slope = weight_gradient(row, decided)
    product = np.empty(len(slope))
    for t in range(len(slope)):
        product[t] = slope[t] * row.weights[t]
    for ranking, score in enumerate((row.weights, slope, product)):
        walked = descending(score)
        flips, weight, observed[orders + ranking] = first_flip(walked, row, decided)
        flipped[orders + ranking] = flips > 0
        kept[1 + ranking] = fewest_kept(walked, row, target, epsilon)
        if flips > 0:
            removed[1 + ranking], mass[1 + ranking] = flips, weight
        order, count = _the_smaller(order, count, walked, flips)
    if count > 0:
        removed[-1], mass[-1] = count, 0.0
        for k in range(count):
            mass[-1] += row.weights[order[k]]
            smallest[order[k]] = True


@subroutine
def _the_smaller(order, count, other, flips):
    """The smaller of two sets that flip the decision: behind a tail a ranking may find one; with an identity tail only by rounding."""
    return (other, flips) if flips > 0 and (count == 0 or flips < count) else (order, count)


@subroutine
def other_position(weights, stream, other):
    """Any but that of the largest weight; as the released code draws it, any but the first, the largest too.

    Drawn with the number 0 of the row's stream, which no random order uses (`random_order`).
    """
    drawn = np.int64(draw_below(stream, 0, len(weights) - 1))
    return drawn + 1 if other == AS_RELEASED or drawn >= where_highest(weights) else drawn


@subroutine
def _one_weight(row, decided, before, target, other, single):
    largest, removed = where_highest(row.weights), np.zeros(len(row.weights), np.bool_)
    single[2] = row.weights[largest] - row.weights[other]
    for k, position in enumerate((largest, other)):
        removed[position] = True
        mass, moment = left_without(removed, row)
        removed[position] = False
        if mass > 0.0:
            pooled = sum_left(row, mass, moment)
            logits = pooled_logits(pooled, row.head)
            single[k] = _output_divergence(pooled_prediction(pooled, row.head), target)
            if row.head.sigmoid:
                single[k] += _divergence_term(
                    1.0 / (1.0 + np.exp(logits[0])), 1.0 / (1.0 + np.exp(before[0]))
                )
            single[3 + k] = 1.0 if decision(logits, row) != decided else 0.0


@subroutine
def _output_divergence(p, q):
    """JSD of two predictions, in nats; of a single column the share of class 1, that of the other class is to be added."""
    total = 0.0
    for c in range(len(p)):
        total += _divergence_term(p[c], q[c])
    return total


@subroutine
def _divergence_term(a, b):
    middle, term = 0.5 * (a + b), 0.0
    if a > 0.0:
        term += 0.5 * a * np.log(a / middle)
    if b > 0.0:
        term += 0.5 * b * np.log(b / middle)
    return term


@subroutine
def _random_orders(row, decided, target, stream, orders, epsilon, out, best, fewest):
    """Means over the random orders, for what they remove over those that flip the decision; and the smallest set, ``best`` so far."""
    removed, mass, observed, flips, kept, _, _ = out
    flipped, positions, weight, keeps = 0, 0.0, 0.0, 0.0
    for number in range(orders):
        order = random_order(len(row.weights), stream, number)
        count, mass_removed, observed[number] = first_flip(order, row, decided)
        flips[number] = count > 0
        best, fewest = _the_smaller(best, fewest, order, count)
        keeps += fewest_kept(order, row, target, epsilon)
        if count > 0:
            flipped += 1
            positions += count
            weight += mass_removed
    kept[0] = keeps / orders
    if flipped > 0:
        removed[0], mass[0] = positions / flipped, weight / flipped
    return best, fewest


@subroutine
def _smallest_flip(row, decided):
    """The first positions of an order, and how many of them, that flip the decision when removed; 0 where no removal does."""
    if row.head.tail:
        return _greedy_flip(row, decided)
    if row.head.sigmoid:
        return _fewest_against(row, decided, 1 - decided, decided == 0)
    best, fewest = np.empty(0, np.int64), 0
    for rival in range(len(row.offset)):
        if row.head.allowed[rival] and rival != decided:
            order, count = _fewest_against(row, decided, rival, rival < decided)
            best, fewest = _the_smaller(best, fewest, order, count)
    return best, fewest


@subroutine
def _fewest_against(row, decided, rival, wins_ties):
    """How many of the largest margins must be removed for the sum of those left to be negative, or 0 where the rival ``wins_ties``.

    A lead, which is that sum over the weight left, of at most the row's slack is 0.
    """
    margin = np.empty(len(row.weights))
    for t in range(len(margin)):
        if row.head.sigmoid:
            lead = (decided - rival) * (row.contribution[t, 0] + row.offset[0])
        else:
            lead = (
                row.contribution[t, decided]
                - row.contribution[t, rival]
                + (row.offset[decided] - row.offset[rival])
            )
        margin[t] = row.weights[t] * lead
    order = descending(margin)
    left, mass, fewest = 0.0, 0.0, 0
    for k in range(len(order) - 1, 0, -1):
        left += margin[order[k]]
        mass += row.weights[order[k]]
        if left < -row.slack * mass or (wins_ties and left <= row.slack * mass and mass > 0.0):
            fewest = k
    return order, fewest


@subroutine
def _greedy_flip(row, decided):
    """One position, where one is enough; else remove, one after another, that whose removal lowers the lead over the nearest rival most,
    the tail taken as its tangent."""
    size = len(row.weights)
    order, removed = numbers_below(size), np.zeros(size, np.bool_)
    for position in range(size):
        removed[position] = True
        mass, moment = left_without(removed, row)
        removed[position] = False
        if (
            mass > 0.0
            and decision(pooled_logits(sum_left(row, mass, moment), row.head), row) != decided
        ):
            order[0], order[position] = position, 0
            return order, 1
    for count in range(size):
        mass, moment = left_without(removed, row)
        pooled = sum_left(row, mass, moment)
        logits = pooled_logits(pooled, row.head)
        if decision(logits, row) != decided:
            return order, count
        position = _steepest(
            row, removed, mass, moment, _slope_of_lead(pooled, row, logits, decided)
        )
        if position < 0:
            break
        removed[position], place = True, count
        while order[place] != position:
            place += 1
        order[place], order[count] = order[count], position
    return order, 0


@subroutine
def _slope_of_lead(pooled, row, logits, decided):
    """How the lead over the nearest rival moves with the attended sum."""
    rival, slopes = -1, np.zeros(len(logits))
    for c in range(len(logits)):
        if row.head.allowed[c] and c != decided and (rival < 0 or logits[c] > logits[rival]):
            rival = c
    slopes[decided] = 1.0
    if rival >= 0:
        slopes[rival] = -1.0
    return pull_back(pooled, row.head, slopes)


@subroutine
def _steepest(row, removed, mass, moment, pull):
    """The position to remove next; −1 where no removal would leave weight."""
    best, least, whole, single = -1, math.inf, 0.0, along(row.contribution, pull)
    for p in range(len(pull)):
        whole += moment[p] * pull[p]
    for t in range(len(removed)):
        rest = mass - row.weights[t]
        if not removed[t] and rest > 0.0:
            value = (whole - row.weights[t] * single[t]) / rest
            if value < least:
                best, least = t, value
    return best
