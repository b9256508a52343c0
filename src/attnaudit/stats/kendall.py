"""Kendall's tau-b of many rows at once."""

from __future__ import annotations

import math

import numpy as np

from attnaudit.core.arrays import taken
from attnaudit.core.kernels import for_kernel, kernel, over_rows, subroutine
from attnaudit.core.ragged import Ragged
from attnaudit.stats.ordering import ascending


def kendall_tau(x: Ragged, y: Ragged) -> tuple[np.ndarray, np.ndarray]:
    """Tau-b of every row of ``x`` and ``y`` and its two-sided asymptotic p-value, float64 ``(n,)`` each.

    Both must have the same rows and lengths, without NaN. Undefined where an argument is constant or T < 2: NaN. The numbers are those
    of ``scipy.stats.kendalltau(method="asymptotic")``, and tau ±1 has p ≈ 0.317 at T = 2. Source: Kendall 1945.
    """
    tau, p_value = np.empty(len(x)), np.empty(len(x))
    over_rows(
        _kendall_rows,
        len(x),
        for_kernel(x.values),
        for_kernel(y.values),
        for_kernel(x.offsets, np.int64),
        tau,
        p_value,
    )
    return tau, p_value


@kernel
def _kendall_rows(first, last, x, y, offsets, tau, p_value):
    for row in range(first, last):
        start, stop = offsets[row], offsets[row + 1]
        tau[row], p_value[row] = kendall_tau_row(x[start:stop], y[start:stop])


@subroutine
def kendall_tau_row(x, y):
    """Knight's algorithm, O(T log T): discordant pairs are the exchanges of a merge sort of ``y`` taken in the order of ``x``.

    With all pairs n₀ = T(T−1)/2, ties n₁ in x, n₂ in y and n₃ in both: concordant − discordant = n₀ − n₁ − n₂ + n₃ − 2 · discordant,
    and tau-b is that over √((n₀ − n₁)(n₀ − n₂)). Returns tau and p.
    """
    size = len(x)
    if size < 2:
        return math.nan, math.nan
    by_y = ascending(y)
    x_by_y, y_by_y = taken(x, by_y), taken(y, by_y)
    then_by_x = ascending(x_by_y)
    sorted_x, sorted_y = taken(x_by_y, then_by_x), taken(y_by_y, then_by_x)
    pairs = 0.5 * size * (size - 1.0)
    tied_x, triple_x, spread_x = _ties(sorted_x)
    tied_y, triple_y, spread_y = _ties(y_by_y)
    if tied_x == pairs or tied_y == pairs:
        return math.nan, math.nan
    balance = pairs - tied_x - tied_y + _joint_ties(sorted_x, sorted_y) - 2.0 * _exchanges(sorted_y)
    tau = balance / math.sqrt(pairs - tied_x) / math.sqrt(pairs - tied_y)
    m = size * (size - 1.0)
    variance = (m * (2 * size + 5) - spread_x - spread_y) / 18.0 + 2.0 * tied_x * tied_y / m
    if size > 2:
        variance += triple_x * triple_y / (9.0 * m * (size - 2))
    return min(1.0, max(-1.0, tau)), math.erfc(abs(balance) / math.sqrt(2.0 * variance))


@subroutine
def _ties(values):
    """Over the groups of c equal neighbours: Σ c(c−1)/2, Σ c(c−1)(c−2) and Σ c(c−1)(2c+5)."""
    pairs, triples, spread = 0.0, 0.0, 0.0
    start = 0
    for k in range(1, len(values) + 1):
        if k == len(values) or values[k] != values[start]:
            c = float(k - start)
            pairs += 0.5 * c * (c - 1.0)
            triples += c * (c - 1.0) * (c - 2.0)
            spread += c * (c - 1.0) * (2.0 * c + 5.0)
            start = k
    return pairs, triples, spread


@subroutine
def _joint_ties(x, y):
    """Pairs of neighbours equal in both."""
    pairs = 0.0
    start = 0
    for k in range(1, len(x) + 1):
        if k == len(x) or x[k] != x[start] or y[k] != y[start]:
            pairs += 0.5 * float(k - start) * float(k - start - 1)
            start = k
    return pairs


@subroutine
def _exchanges(values):
    """Pairs out of order, counted while merging runs of 1, 2, 4, … values."""
    source, target = values.copy(), np.empty(len(values))
    size, width, count = len(values), 1, 0
    while width < size:
        for start in range(0, size, 2 * width):
            middle, stop = min(start + width, size), min(start + 2 * width, size)
            left, right = start, middle
            for k in range(start, stop):
                if left < middle and (right >= stop or source[left] <= source[right]):
                    target[k] = source[left]
                    left += 1
                else:
                    target[k] = source[right]
                    count += middle - left
                    right += 1
        source, target = target, source
        width *= 2
    return float(count)
