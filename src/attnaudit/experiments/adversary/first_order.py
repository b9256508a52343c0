"""The attention that is worth most while the output, to first order, stays within ε: a small linear program for each of many rows.

Maximise ``slopes · w`` over attentions w within a box, with ``Σ_c max(g_c · w, 0) ≤ limit``: the classes all gain 0, so that what some gain
is the TVD moved. Written out, the distance is a condition for every set of classes. The classes are dealt into a few groups, whose gains
share the limit. Of each group the conditions are met one after another: where the attention so far gains more in a group than the
conditions known of it allow, the set of its classes that gain is the next (Kelley 1960). The program solved is the dual, in which a
condition is one more column (`simplex`), and whose prices are the attention.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Int64

from attnaudit.core.kernels import for_kernel, kernel, over_rows, subroutine
from attnaudit.experiments.adversary.simplex import add_column, memory, price, solve, start

GROUPS = 8  # of classes; more make each step of the simplex dearer, fewer need more conditions
CLOSE = 1e-9  # to the limit
SOUND = 1e-6  # an attention with this much more or less than a weight of 1 is none


def linear_attention(
    log_odds: Float[np.ndarray, "n k c"],
    count: Int64[np.ndarray, " n"],
    own: Float[np.ndarray, "n c"],
    slopes: Float[np.ndarray, "n k"],
    limit: Float[np.ndarray, " n"],
    box: tuple[Float[np.ndarray, "n k"], Float[np.ndarray, "n k"]],
) -> Float[np.ndarray, "n k"]:
    """For every row the weights of largest ``slopes · weights`` that move the output by ``limit`` at most, to first order.

    Of the k tokens of a row the first ``count`` exist, the others get 0. ``log_odds`` are the log-probabilities of each token alone minus
    those of the output ``own``; the softmax is linearised there. Weights stay between the two ends of ``box``. A row is NaN where no
    attention does all that.
    """
    low, high = box
    weights = np.zeros(slopes.shape)
    given = [for_kernel(values) for values in (log_odds, own, slopes, limit, low, high)]
    over_rows(_solve_rows, len(count), for_kernel(count, np.int64), *given, weights)
    return weights


@kernel
def _solve_rows(first, last, count, log_odds, own, slopes, limit, low, high, weights):
    for i in range(first, last):
        k = count[i]
        _solve_row(
            _moves(log_odds[i, :k], own[i]),
            slopes[i, :k],
            limit[i],
            low[i, :k],
            high[i, :k],
            weights[i, :k],
        )


@subroutine
def _moves(log_odds, own):
    """What each class gains by each token, ``own_c (log_odds_tc − Σ own · log_odds_t)``: (c, k)."""
    size, classes = log_odds.shape
    moved = np.empty((classes, size))
    for t in range(size):
        mean = 0.0
        for c in range(classes):
            mean += own[c] * log_odds[t, c]
        for c in range(classes):
            moved[c, t] = own[c] * (log_odds[t, c] - mean)
    return moved


@subroutine
def _solve_row(moved, slopes, limit, low, high, weights):
    """Rows of the dual: one of each token, then one of each group. Its first column is −Σ w, the second Σ w, the third the limit."""
    classes, size = moved.shape
    groups = min(GROUPS, classes)
    rows, known = size + groups, 3 + 2 * size + groups
    width = rows + known + 8 * rows + 20 * GROUPS
    linear, column, gained = memory(rows, width), np.empty(rows), np.empty(classes)
    start(linear, *_dual(slopes, limit, low, high, groups))
    columns = rows + known
    while True:
        solve(linear, columns, 50 * rows)
        for t in range(size):
            weights[t] = low[t] - price(linear, t)
        if _gains(moved, weights, gained) <= limit + CLOSE or columns + groups > width:
            break
        before = columns
        for group in range(groups):
            allowed = -price(linear, size + group)
            gain, right = _condition(moved, gained, low, group, groups, column)
            if gain > allowed + CLOSE / groups:
                add_column(linear, column, columns)
                linear.tableau[rows, columns] -= right
                columns += 1
        if columns == before:
            break
    _settle(weights, _gains(moved, weights, gained) <= limit + SOUND, low, high)


@subroutine
def _dual(slopes, limit, low, high, groups):
    size = len(slopes)
    rows, columns = size + groups, 3 + 2 * size + groups
    matrix, right, cost = np.zeros((rows, columns)), np.zeros(rows), np.zeros(columns)
    cost[0], cost[1], cost[2] = -1.0, 1.0, -limit
    for t in range(size):
        right[t] = slopes[t]
        matrix[t, 0], matrix[t, 1] = 1.0, -1.0
        matrix[t, 3 + t], matrix[t, 3 + size + t] = 1.0, -1.0
        cost[3 + t] = low[t] - high[t]
        cost[0] += low[t]
        cost[1] -= low[t]
    for group in range(groups):
        matrix[size + group, 2], matrix[size + group, 3 + 2 * size + group] = -1.0, 1.0
    return matrix, right, cost


@subroutine
def _gains(moved, weights, gained):
    """What all classes that gain gain together; ``gained`` becomes what each does."""
    classes, size = moved.shape
    total = 0.0
    for c in range(classes):
        gained[c] = 0.0
        for t in range(size):
            gained[c] += moved[c, t] * weights[t]
        total += max(gained[c], 0.0)
    return total


@subroutine
def _condition(moved, gained, low, group, groups, column):
    """What the classes of a group that gain do together, and what the least weights leave of it; ``column`` becomes their condition."""
    (classes, size), gain, right = moved.shape, 0.0, 0.0
    for k in range(len(column)):
        column[k] = 0.0
    column[size + group] = 1.0
    for c in range(group, classes, groups):
        if gained[c] > 0.0:
            gain += gained[c]
            for t in range(size):
                column[t] += moved[c, t]
    for t in range(size):
        right -= column[t] * low[t]
    return gain, right


@subroutine
def _settle(weights, within, low, high):
    """Rounding taken out: no weight below 0, and a sum of 1. NaN where they are no attention in the box or not ``within`` the limit."""
    total = 0.0
    for t in range(len(weights)):
        if not low[t] - SOUND <= weights[t] <= high[t] + SOUND:
            within = False
        weights[t] = max(weights[t], 0.0)
        total += weights[t]
    if not abs(total - 1.0) <= SOUND:
        within = False
    for t in range(len(weights)):
        weights[t] = weights[t] / total if within else math.nan
