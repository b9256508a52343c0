"""Moves between attentions that keep the output: to the far end of what is allowed along a line, and onto the allowed set again.

JSD is convex, so that along any line its largest allowed value is at an end; all moves here are to ends.
"""

from __future__ import annotations

import math

import numpy as np

from attnaudit.core.arrays import divide, fill, overwrite, plus, sum_of, where_positive
from attnaudit.core.kernels import subroutine
from attnaudit.experiments.adversary.exact import gain
from attnaudit.experiments.adversary.row import affordable, attended_sum, beyond, is_allowed, worth
from attnaudit.experiments.compiled_readout import (
    logit_slopes,
    pooled_logits,
    pooled_prediction,
    tanh_slopes,
    tvd_row,
)

CLOSE = 1e-7
EXCHANGES = 4000000
SWEEPS = 4
TURNS = 3
NEARER = (0.99, 0.6, 0.0)


@subroutine
def reach(row, pooled, direction, limit):
    """How far one may go from an allowed attended sum along ``direction``: ``limit``, or a crossing before it, to the allowed side."""
    at_limit = beyond(row, plus(pooled, limit, direction))
    if at_limit <= 0.0:
        return limit
    near, far = 0.0, limit
    at_near = beyond(row, pooled)
    if at_near > 0.0:  # by rounding: there is no allowed side to come from
        return 0.0
    for turn in range(40):
        share = at_near / (at_near - at_limit) if turn % 3 else 0.5
        middle = near + min(max(share, 0.02), 0.98) * (far - near)
        here = beyond(row, plus(pooled, middle, direction))
        if here <= 0.0:
            near, at_near = middle, here
        else:
            far, at_limit = middle, here
        if far - near < CLOSE * limit:
            break
    return near


@subroutine
def exchange(row, weights, takers):
    """Move weight from any token to one of ``takers`` as far as allowed, always the best such move, until none gains; in place.

    Behind a large tail only so many moves are tried.
    """
    value, tries = worth(row, weights), affordable(row, EXCHANGES)
    for _ in range(SWEEPS):
        pooled = attended_sum(row, weights)
        best, giver, taker, amount = value + 1e-9, -1, -1, 0.0
        for j in where_positive(weights):
            for i in takers:
                if i == j or tries == 0 or value + _shifted(row, weights, i, j, weights[j]) <= best:
                    continue
                tries -= 1
                length = reach(
                    row, pooled, plus(row.contribution[i], -1.0, row.contribution[j]), weights[j]
                )
                candidate = value + _shifted(row, weights, i, j, length)
                if candidate > best:
                    best, giver, taker, amount = candidate, j, i, length
        if giver < 0:
            break
        weights[taker] += amount
        weights[giver] = weights[giver] - amount if amount < weights[giver] else 0.0
        value = worth(row, weights)


@subroutine
def _shifted(row, weights, i, j, amount):
    """What moving ``amount`` from token j to token i adds to the divergence."""
    before = gain(weights[i], row.alpha[i]) + gain(weights[j], row.alpha[j])
    return (
        gain(weights[i] + amount, row.alpha[i]) + gain(weights[j] - amount, row.alpha[j]) - before
    )


@subroutine
def draw_in(row, weights):
    """Bring ``weights`` onto the allowed set, in place: towards their own output as far as ε goes, then nearer to the model's."""
    prediction = pooled_prediction(attended_sum(row, weights), row.head)
    distance = tvd_row(prediction, row.target)
    if distance <= row.epsilon:
        return True
    start, aim = weights.copy(), np.zeros(len(row.kept))
    for share in NEARER:
        for k in range(len(aim)):
            old, new = row.target[row.kept[k]], prediction[row.kept[k]]
            aim[k] = math.log(max(old + share * row.epsilon / distance * (new - old), 1e-300))
        overwrite(weights, start)
        if settle(row, weights, aim):
            return True
    return False


@subroutine
def rescale(weights):
    """Remove weights that are nearly 0, and make the others sum to 1, in place."""
    for t in range(len(weights)):
        if weights[t] < 1e-9:
            weights[t] = 0.0
    divide(weights, sum_of(weights))


@subroutine
def settle(row, weights, aim):
    """Change the non-zero weights so that the logits of the classes kept come near ``aim``: damped Gauss-Newton, in place.

    A weight moves in proportion to its size; those that would turn negative become 0. True as soon as the result is allowed.
    """
    for _ in range(TURNS):
        _newton(row, weights, aim)
        total = 0.0
        for t in range(len(weights)):
            weights[t] = max(weights[t], 0.0)
            total += weights[t]
        if not total > 0.0:
            return False
        divide(weights, total)
        if is_allowed(row, weights):
            return True
    return False


@subroutine
def _newton(row, weights, aim):
    """The smallest step, each weight measured by itself, that brings the linear part of the logits to ``aim`` and keeps the sum."""
    members, classes = where_positive(weights), len(row.kept)
    pooled = attended_sum(row, weights)
    logits, bend = pooled_logits(pooled, row.head), tanh_slopes(pooled, row.head)
    slopes, short = np.empty((len(members), classes + 1)), np.zeros(classes + 1)
    for k in range(len(members)):
        slopes[k, classes] = 1.0  # the sum of all weights
        overwrite(
            slopes[k, :classes],
            logit_slopes(bend, row.head, row.contribution[members[k]], row.kept),
        )
        _centre(row, slopes[k])
    for c in range(classes):
        short[c] = aim[c] - logits[row.kept[c]]
    _centre(row, short)
    system = np.zeros((classes + 1, classes + 1))
    for k in range(len(members)):
        for a in range(classes + 1):
            for b in range(a + 1):
                system[a, b] += weights[members[k]] * slopes[k, a] * slopes[k, b]
    for a in range(classes + 1):
        system[a, a] += 1e-9
        for b in range(a):
            system[b, a] = system[a, b]
    eliminate(system, short)
    for k in range(len(members)):
        moved = 0.0
        for a in range(len(short)):
            moved += slopes[k, a] * short[a]
        weights[members[k]] *= 1.0 + moved


@subroutine
def _centre(row, logits):
    """Logits as the change in probability that they make: minus their mean, times what the class counts for."""
    mean, total = 0.0, 0.0
    for c in range(len(row.kept)):
        mean += row.target[row.kept[c]] * logits[c]
        total += row.target[row.kept[c]]
    for c in range(len(row.kept)):
        logits[c] = max(row.target[row.kept[c]], row.epsilon) * (logits[c] - mean / total)


@subroutine
def eliminate(system, right):
    """Solve a small linear system in place, by elimination with row pivots; ``right`` becomes the solution."""
    size = len(right)
    for k in range(size):
        pivot = k
        for r in range(k + 1, size):
            if abs(system[r, k]) > abs(system[pivot, k]):
                pivot = r
        if abs(system[pivot, k]) < 1e-300:
            fill(right, 0.0)
            return
        for c in range(size):
            system[k, c], system[pivot, c] = system[pivot, c], system[k, c]
        right[k], right[pivot] = right[pivot], right[k]
        for r in range(k + 1, size):
            factor = system[r, k] / system[k, k]
            for c in range(k, size):
                system[r, c] -= factor * system[k, c]
            right[r] -= factor * right[k]
    for k in range(size - 1, -1, -1):
        for c in range(k + 1, size):
            right[k] -= system[k, c] * right[c]
        right[k] /= system[k, k]
