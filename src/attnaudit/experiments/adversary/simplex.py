"""LinearProgram programs with few rows and many bounded columns, in one dense tableau: maximise cost·x with A x = b and 0 ≤ x ≤ upper.

The first ``m`` columns are artificial, one per row, at a cost of −``BARRED``: the tableau always starts, and holds the inverse of the basis
there, so that columns can be added to a solved program. The last row holds the reduced costs. Nothing rests on the solution being exact:
the bounds drawn from its prices hold for any prices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from attnaudit.core.arrays import fill
from attnaudit.core.kernels import subroutine
from attnaudit.core.references import by_reference

BARRED = 1e3
TINY = 1e-9


@by_reference
@dataclass(frozen=True)
class LinearProgram:
    """A program under way: its tableau, the values of the basic columns, which these are, the signs of the rows, which of the other
    columns are at their upper bound, and these bounds."""

    tableau: np.ndarray
    values: np.ndarray
    basis: np.ndarray
    signs: np.ndarray
    at_upper: np.ndarray
    upper: np.ndarray


@subroutine
def memory(m, width):
    """A program of ``m`` rows and ``width`` columns, without any bounds, before its `start`."""
    upper = np.empty(width)
    fill(upper, np.inf)
    return LinearProgram(
        np.empty((m + 1, width)),
        np.empty(m),
        np.empty(m, np.int64),
        np.empty(m),
        np.empty(width, np.bool_),
        upper,
    )


@subroutine
def start(linear, matrix, right, cost):
    """The tableau of ``matrix`` (m, n) with all columns at zero and the artificial ones taking up ``right``."""
    (m, n), tableau = matrix.shape, linear.tableau
    tableau[:, : m + n] = 0.0
    linear.at_upper[:] = False
    for i in range(m):
        linear.signs[i] = -1.0 if right[i] < 0.0 else 1.0
        linear.values[i] = abs(right[i])
        linear.basis[i] = i
        tableau[i, i] = 1.0
        for j in range(n):
            tableau[i, m + j] = linear.signs[i] * matrix[i, j]
            tableau[m, m + j] += BARRED * tableau[i, m + j]
    for j in range(n):
        tableau[m, m + j] += cost[j]


@subroutine
def add_column(linear, column, j):
    """One more column, number ``j``, at zero and without cost, of a program under way."""
    m, tableau = len(column), linear.tableau
    for i in range(m + 1):
        tableau[i, j] = 0.0
    for k in range(m):
        if column[k] != 0.0:
            for i in range(m):
                tableau[i, j] += column[k] * linear.signs[k] * tableau[i, k]
    for k in range(m):
        tableau[m, j] -= price(linear, k) * column[k]


@subroutine
def price(linear, k):
    """The price of row ``k``: what one more unit on its right side is worth."""
    return linear.signs[k] * (-BARRED - linear.tableau[-1, k])


@subroutine
def solve(linear, columns, steps):
    """Primal simplex with bounds on the first ``columns``, from the tableau as it is, ``steps`` steps at most."""
    for _ in range(steps):
        enter = _entering(linear, columns)
        if enter < 0:
            return
        _step(linear, columns, enter)


@subroutine
def _entering(linear, columns):
    """The column whose move away from its bound pays best per unit."""
    m, best, enter = len(linear.values), TINY, -1
    for j in range(m, columns):
        worth = -linear.tableau[m, j] if linear.at_upper[j] else linear.tableau[m, j]
        if worth > best and linear.upper[j] > 0.0:
            best, enter = worth, j
    return enter


@subroutine
def _step(linear, columns, enter):
    """Move ``enter`` until it meets its other bound or a basic column meets one, which then leaves."""
    tableau, values, basis, at_upper, upper = (
        linear.tableau,
        linear.values,
        linear.basis,
        linear.at_upper,
        linear.upper,
    )
    m = len(values)
    sign = -1.0 if at_upper[enter] else 1.0
    length, leave, steepest = upper[enter], -1, 0.0
    for i in range(m):
        rate = sign * tableau[i, enter]
        if abs(rate) <= TINY:
            continue
        reach = max(values[i] / rate if rate > 0.0 else (upper[basis[i]] - values[i]) / -rate, 0.0)
        if reach < length - 1e-12 or (
            reach <= length + 1e-12 and leave >= 0 and abs(rate) > steepest
        ):
            length, leave, steepest = min(reach, length), i, abs(rate)
    if not math.isfinite(length):
        return
    for i in range(m):
        values[i] -= length * sign * tableau[i, enter]
    if leave < 0:
        at_upper[enter] = not at_upper[enter]
        return
    at_upper[basis[leave]] = sign * tableau[leave, enter] < 0.0
    values[leave] = upper[enter] - length if at_upper[enter] else length
    at_upper[enter] = False
    basis[leave] = enter
    _pivot(tableau, leave, enter, columns)


@subroutine
def _pivot(tableau, leave, enter, columns):
    scale = 1.0 / tableau[leave, enter]
    for j in range(columns):
        tableau[leave, j] *= scale
    for i in range(len(tableau)):
        factor = tableau[i, enter]
        if i != leave and factor != 0.0:
            for j in range(columns):
                tableau[i, j] -= factor * tableau[leave, j]


@subroutine
def solution(linear, columns):
    """The values of the first ``columns``."""
    x = np.zeros(columns)
    for j in range(columns):
        if linear.at_upper[j]:
            x[j] = linear.upper[j]
    for i in range(len(linear.values)):
        x[linear.basis[i]] = linear.values[i]
    return x
