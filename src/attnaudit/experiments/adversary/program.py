"""A rigorous bound on the JSD over a box of attentions and outputs: f replaced by its chords, the outputs allowed by their convex hull.

On l ≤ α_t ≤ u the convex f(·, â_t) lies below its chord, so the linear program over α in the box and Σ_t α_t z_t in the hull of the logits
allowed bounds the JSD. The hull is known by its support function h; its points become columns as the prices ask for them. The bound that
is returned is the Lagrangian one, h(μ) + max over α of Σ_t (chord_t(α_t) − α_t μ·z_t), which holds for every μ, solved to the end or not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from attnaudit.core.arrays import fill, overwrite, sum_of, taken, where_highest
from attnaudit.core.kernels import subroutine
from attnaudit.core.references import by_reference
from attnaudit.experiments.adversary.envelopes import (
    furthest_logits,
    linearise,
    log_probabilities,
    margins,
    rescale_row,
    vanishes,
)
from attnaudit.experiments.adversary.exact import gain
from attnaudit.experiments.adversary.row import Row
from attnaudit.experiments.adversary.simplex import (
    LinearProgram,
    add_column,
    memory,
    price,
    solution,
    solve,
    start,
)
from attnaudit.stats.measures import LN2

POINTS = 64
ROUNDS = 20
ROUNDING = 1e-10
CLOSE = 1e-4
SLACK = 1e-9


@by_reference
@dataclass(frozen=True)
class Box:
    """A part of the problem: weights between ``low`` and ``high`` (T,), probabilities between ``low_p`` and ``high_p`` (k,)."""

    low: np.ndarray
    high: np.ndarray
    low_p: np.ndarray
    high_p: np.ndarray


@by_reference
@dataclass(frozen=True)
class Program:
    """One row's problem, the outputs found so far that became columns (``outputs``, ``count`` of them), and the linear program."""

    row: Row
    p: np.ndarray
    log_p: np.ndarray
    epsilon: float
    last: int
    matrix: np.ndarray
    scale: np.ndarray
    error: np.ndarray
    outputs: np.ndarray
    count: np.ndarray
    column: np.ndarray
    linear: LinearProgram
    cost: np.ndarray
    slope: np.ndarray
    moved: np.ndarray


@subroutine
def tightened(low, high):
    """No weight can be above what the least of the others leave; false where the box is empty."""
    least = sum_of(low)
    for t in range(len(low)):
        high[t] = min(high[t], max(1.0 - (least - low[t]), low[t]))
    return least <= 1.0 + 1e-12 and sum_of(high) >= 1.0 - 1e-12


@subroutine
def program(row, logits):
    """The program of a row over the classes kept; ``logits`` are those of its own attention."""
    length, kept, classes = len(row.alpha), row.kept, len(row.kept)
    rows, last = classes + 1, where_highest(taken(row.target, kept))
    log_p, p = taken(log_probabilities(logits), kept), np.empty(classes)
    for c in range(classes):
        p[c] = math.exp(log_p[c])
    matrix, scale, error = np.zeros((rows, length)), np.empty(rows), np.zeros(rows)
    fill(matrix[0], 1.0)
    fill(scale, 1.0)
    outputs, count = np.empty((POINTS, classes)), np.empty(1, np.int64)
    overwrite(outputs[0], p)
    count[0] = 1
    width = rows + length + rows + POINTS + 2 * classes
    built = Program(
        row,
        p,
        log_p,
        row.epsilon + SLACK,
        last,
        matrix,
        scale,
        error,
        outputs,
        count,
        np.empty(rows),
        memory(rows, width),
        np.empty(length),
        np.empty(classes),
        np.empty(classes),
    )
    if not row.head.tail:
        for c in range(classes):
            if c != last:
                i = 2 + c - (c > last)
                ours, theirs = kept[c], kept[last]
                constant = row.offset[ours] - row.offset[theirs] - log_p[c] + log_p[last]
                for t in range(length):
                    matrix[i, t] = (
                        row.contribution[t, ours] - row.contribution[t, theirs] + constant
                    )
                rescale_row(matrix, scale, i)
    return built


@subroutine
def bound_box(built, box, weights):
    """What the JSD cannot exceed in the box, −1 where the box is empty; ``weights`` becomes the attention that the program ends with."""
    gained, lost = margins(built.p, built.epsilon, box.low_p, box.high_p)
    if min(gained, lost) < 0.0:
        return -1.0
    columns, best, rows, length = _begin(built, box), math.inf, len(built.column), len(weights)
    for turn in range(ROUNDS):
        solve(built.linear, columns, 20 * rows + length)
        bound, short = _lagrangian(built, box)
        best = min(best, bound)
        if short <= CLOSE or columns == len(built.linear.upper) or turn == ROUNDS - 1:
            break
        overwrite(built.outputs[built.count[0] % POINTS], built.moved)
        built.count[0] += 1
        columns = _add_output(built, built.moved, columns)
    values = solution(built.linear, columns)
    for t in range(length):
        weights[t] = box.low[t] + max(values[rows + t], 0.0)
    return best


@subroutine
def _begin(built, box):
    """The tableau with the tokens, the outputs known that lie in the box, and the classes that may vanish there."""
    rows, length = len(built.column), len(box.low)
    if built.row.head.tail:
        linearise(built.row, box, built.log_p, built.last, built.matrix, built.scale, built.error)
    for t in range(length):
        width = box.high[t] - box.low[t]
        rise = gain(box.high[t], built.row.alpha[t]) - gain(box.low[t], built.row.alpha[t])
        built.cost[t] = rise / width if width > 1e-12 else 0.0
        built.linear.upper[rows + t] = width
    right = np.empty(rows)
    for i in range(rows):
        right[i] = built.scale[i] * built.error[i]
        for t in range(length):
            right[i] -= built.matrix[i, t] * box.low[t]
    right[0], right[1] = 1.0 - sum_of(box.low), 1.0
    start(built.linear, built.matrix, right, built.cost)
    columns = rows + length
    if built.row.head.tail:
        columns = _add_errors(built, columns)
    for k in range(min(built.count[0], POINTS)):
        known = built.outputs[k]
        if _lies_in(box, known):
            columns = _add_output(built, known, columns)
    for c in range(len(built.p)):
        if vanishes(c, built.p, built.epsilon, box.low_p, box.high_p):
            columns = _add_ray(built, c, columns)
    return columns


@subroutine
def _lies_in(box, output):
    outside = 0
    for c in range(len(output)):
        outside += output[c] < box.low_p[c] - 1e-12 or output[c] > box.high_p[c] + 1e-12
    return outside == 0


@subroutine
def _add_errors(built, columns):
    """By how much the logits may differ from the linear ones."""
    for i in range(2, len(built.column)):
        fill(built.column, 0.0)
        built.column[i] = built.scale[i]
        built.linear.upper[columns] = 2.0 * built.error[i]
        add_column(built.linear, built.column, columns)
        columns += 1
    return columns


@subroutine
def _add_output(built, output, columns):
    """One of the outputs of whose logits those of an attention are a mean."""
    if columns == len(built.linear.upper):
        return columns
    column, last = built.column, built.last
    column[0], column[1] = 0.0, 1.0
    for c in range(len(output)):
        if c != last:
            row = 2 + c - (c > last)
            column[row] = -built.scale[row] * (
                math.log(output[c]) - built.log_p[c] - math.log(output[last]) + built.log_p[last]
            )
    add_column(built.linear, column, columns)
    return columns + 1


@subroutine
def _add_ray(built, vanishing, columns):
    """A class that may vanish: its logit may fall as far as it likes."""
    if columns == len(built.linear.upper):
        return columns
    fill(built.column, 0.0)
    if vanishing == built.last:
        fill(built.column[2:], -1.0)
    else:
        built.column[2 + vanishing - (vanishing > built.last)] = 1.0
    add_column(built.linear, built.column, columns)
    return columns + 1


@subroutine
def _lagrangian(built, box):
    """The bound by the prices of the tableau, and by how much h exceeds what the known outputs say of it."""
    _read_slope(built, box)
    spread = furthest_logits(
        built.slope, built.p, built.epsilon, box.low_p, box.high_p, built.moved
    )
    if not math.isfinite(spread):
        fill(built.slope, 0.0)
        spread = 0.0
    common = price(built.linear, 0)
    bound = 0.5 * LN2 + spread + common
    for t in range(len(box.low)):
        pull = 0.0
        for c in range(len(built.slope)):
            if c != built.last:
                row = 2 + c - (c > built.last)
                pull += built.slope[c] * built.matrix[row, t] / built.scale[row]
        worth = built.cost[t] - pull - common
        bound += gain(box.low[t], built.row.alpha[t]) - built.cost[t] * box.low[t]
        bound += worth * (box.high[t] if worth > 0.0 else box.low[t])
    for c in range(len(built.slope)):
        if c != built.last:
            bound += abs(built.slope[c]) * built.error[2 + c - (c > built.last)]
    return bound + ROUNDING, spread - price(built.linear, 1)


@subroutine
def _read_slope(built, box):
    """The prices of the classes, summing to 0, none below 0 for a class that may vanish."""
    total, last = 0.0, built.last
    for c in range(len(built.slope)):
        if c != last:
            row = 2 + c - (c > last)
            weight = price(built.linear, row) * built.scale[row]
            if weight < 0.0 and vanishes(c, built.p, built.epsilon, box.low_p, box.high_p):
                weight = 0.0
            built.slope[c] = weight
            total += weight
    built.slope[last] = -total
    if total > 0.0 and vanishes(last, built.p, built.epsilon, box.low_p, box.high_p):
        fill(built.slope, 0.0)
