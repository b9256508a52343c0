"""Linear programs with few rows and many bounded columns, in one dense tableau: maximise cost·x with A x = b and 0 ≤ x ≤ upper.

The first ``m`` columns are artificial, one per row, at a cost of −``BARRED``: the tableau always starts, and holds the inverse of the basis
there, so that columns can be added to a solved program. The last row holds the reduced costs. Nothing rests on the solution being exact:
the bounds drawn from its prices hold for any prices.
"""

from __future__ import annotations

import math

from attnaudit.core.kernels import kernel

BARRED = 1e3
TINY = 1e-9


@kernel
def start(matrix, right, cost, tableau, values, basis, signs, at_upper):
    """The tableau of ``matrix`` (m, n) with all columns at zero and the artificial ones taking up ``right``."""
    m, n = matrix.shape
    tableau[:, : m + n] = 0.0
    at_upper[:] = False
    for i in range(m):
        signs[i] = -1.0 if right[i] < 0.0 else 1.0
        values[i] = abs(right[i])
        basis[i] = i
        tableau[i, i] = 1.0
        for j in range(n):
            tableau[i, m + j] = signs[i] * matrix[i, j]
            tableau[m, m + j] += BARRED * tableau[i, m + j]
    for j in range(n):
        tableau[m, m + j] += cost[j]


@kernel
def add_column(column, cost, tableau, signs, place):
    """One more column, at zero, of a program under way."""
    m = len(column)
    tableau[:m, place] = 0.0
    for k in range(m):
        if column[k] != 0.0:
            for i in range(m):
                tableau[i, place] += column[k] * signs[k] * tableau[i, k]
    tableau[m, place] = cost
    for k in range(m):
        tableau[m, place] -= price(tableau, signs, k) * column[k]


@kernel
def price(tableau, signs, k):
    """The price of row ``k``: what one more unit on its right side is worth."""
    return signs[k] * (-BARRED - tableau[len(signs), k])


@kernel
def solve(tableau, values, basis, at_upper, upper, columns, steps):
    """Primal simplex with bounds from where the tableau stands, ``steps`` steps at most."""
    for _ in range(steps):
        enter = _entering(tableau, at_upper, upper, columns)
        if enter < 0:
            return
        _step(tableau, values, basis, at_upper, upper, columns, enter)


@kernel
def _entering(tableau, at_upper, upper, columns):
    """The column whose move away from its bound pays best per unit."""
    m = len(tableau) - 1
    best, enter = TINY, -1
    for j in range(m, columns):
        worth = -tableau[m, j] if at_upper[j] else tableau[m, j]
        if worth > best and upper[j] > 0.0:
            best, enter = worth, j
    return enter


@kernel
def _step(tableau, values, basis, at_upper, upper, columns, enter):
    """Move ``enter`` until it meets its other bound or a basic column meets one, which then leaves."""
    m = len(values)
    sign = -1.0 if at_upper[enter] else 1.0
    length, leave, steepest = upper[enter], -1, 0.0
    for i in range(m):
        rate = sign * tableau[i, enter]
        if abs(rate) <= TINY:
            continue
        room = max(values[i] / rate if rate > 0.0 else (upper[basis[i]] - values[i]) / -rate, 0.0)
        if room < length - 1e-12 or (room <= length + 1e-12 and leave >= 0 and abs(rate) > steepest):
            length, leave, steepest = min(room, length), i, abs(rate)
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


@kernel
def _pivot(tableau, leave, enter, columns):
    scale = 1.0 / tableau[leave, enter]
    for j in range(columns):
        tableau[leave, j] *= scale
    for i in range(len(tableau)):
        factor = tableau[i, enter]
        if i != leave and factor != 0.0:
            for j in range(columns):
                tableau[i, j] -= factor * tableau[leave, j]


@kernel
def solution(values, basis, at_upper, upper, x):
    """The value of every column, written into ``x``."""
    for j in range(len(x)):
        x[j] = upper[j] if at_upper[j] else 0.0
    for i in range(len(values)):
        x[basis[i]] = values[i]
