"""Kendall's tau-b of many rows at once."""

from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.special import erfc

from attnaudit.core.ragged import Ragged
from attnaudit.core.shapes import PerRow
from attnaudit.core.threads import over_rows


class Kendall(NamedTuple):
    """Kendall's tau-b and its two-sided asymptotic p-value, per row."""

    tau: PerRow
    p_value: PerRow


def kendall_tau(x: Ragged, y: Ragged) -> Kendall:
    """Compute Kendall's tau-b and its p-value for every row.

    The numbers agree with ``scipy.stats.kendalltau(method="asymptotic")``. The asymptotic p-value
    is rough for short rows: tau ±1 at T = 2 has p ≈ 0.317. Source: Kendall 1945.

    Args:
        x: Scores ``(T,)`` per row, without NaN.
        y: Scores of the same rows and lengths.

    Returns:
        Tau and p-value, both NaN if an argument is constant or T < 2.
    """
    # numba compiles a kernel for each type, layout and writability, and tables lend read-only
    # arrays. One kind of array means one compilation.
    flat_x, flat_y = (np.require(scores.values, np.float64, ["C", "W"]) for scores in (x, y))
    counts = np.empty((3, len(flat_x)), np.int64)
    over_rows(_compare_pairs, x.offsets, flat_x, flat_y, counts)
    balance = x.with_values(counts[0]).sum().astype(np.float64)
    ties_x, ties_y = (_sum_ties(x.with_values(earlier)) for earlier in counts[1:])

    size = x.lengths.astype(np.float64)
    twice = size * (size - 1.0)  # twice the number of pairs
    untied_x, untied_y = 0.5 * twice - ties_x.pairs, 0.5 * twice - ties_y.pairs
    defined = (untied_x > 0.0) & (untied_y > 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        # Variance of the balance of two unrelated orders with these ties (Kendall 1970, ch. 4).
        variance = (twice * (2.0 * size + 5.0) - ties_x.spread - ties_y.spread) / 18.0
        variance += 2.0 * ties_x.pairs * ties_y.pairs / twice
        # The term needs three positions; its denominator is 0 for two.
        third = ties_x.triples * ties_y.triples / (9.0 * twice * (size - 2.0))
        variance += np.where(size > 2.0, third, 0.0)
        # Divided one after the other, as in scipy, and clipped because rounding may exceed 1.
        tau = np.clip(balance / np.sqrt(untied_x) / np.sqrt(untied_y), -1.0, 1.0)
        p_value = erfc(np.abs(balance) / np.sqrt(2.0 * variance))
    return Kendall(np.where(defined, tau, np.nan), np.where(defined, p_value, np.nan))


class _Ties(NamedTuple):
    """Sums over a row's groups of c equal values: c(c−1)/2, c(c−1)(c−2) and c(c−1)(2c+5)."""

    pairs: PerRow
    triples: PerRow
    spread: PerRow


def _sum_ties(earlier: Ragged) -> _Ties:
    """Sum functions of the tie groups, given the number of equal values before each position."""
    # In a group of c equal values these numbers are 0, …, c − 1. A function f with f(0) = 0 is
    # therefore the sum of f(k + 1) − f(k) over the group, and the groups need not be found.
    k = earlier.values.astype(np.float64)
    differences = (k, 3.0 * k * (k - 1.0), 6.0 * k * (k + 2.0))
    return _Ties(*(earlier.with_values(values).sum() for values in differences))


@njit(cache=True, nogil=True)
def _compare_pairs(first, last, offsets, x, y, counts):
    """Compare every position with those before it: order, ties in ``x`` and ties in ``y``."""
    # A loop over all T(T − 1)/2 pairs in place of a merge sort: processors compare eight pairs at
    # once, which is faster up to about 1,000 tokens.
    for row in range(first, last):
        start, stop = offsets[row], offsets[row + 1]
        row_x, row_y = x[start:stop], y[start:stop]
        for i in range(stop - start):
            order, tied_x, tied_y = 0, 0, 0
            for j in range(i):
                sign_x = np.int64(row_x[i] > row_x[j]) - np.int64(row_x[i] < row_x[j])
                sign_y = np.int64(row_y[i] > row_y[j]) - np.int64(row_y[i] < row_y[j])
                order += sign_x * sign_y
                tied_x += sign_x == 0
                tied_y += sign_y == 0
            counts[0, start + i] = order
            counts[1, start + i] = tied_x
            counts[2, start + i] = tied_y
