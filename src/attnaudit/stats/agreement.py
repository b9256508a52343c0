"""Does the position that one score puts first stand high in another? The agreement of Snell et al. 2020, of many rows at once."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int64
from numba import prange

from attnaudit.core.errors import InputError
from attnaudit.core.kernels import kernel
from attnaudit.core.ragged import Ragged
from attnaudit.stats.kernel_arrays import for_kernel
from attnaudit.stats.ordering import ascending

TOP = 5  # per cent of the positions, rounded up to a whole one


def agreement(u: Ragged, v: Ragged, percent: int = TOP) -> Float[np.ndarray, " n"]:
    """A(u, v) of every row: whether the position where ``u`` is largest is among the top ⌈``percent`` % · T⌉ of ``v``; 1 or 0.

    Where several positions share the largest ``u``, or the last places of the top of ``v``, nothing says which of them is meant: the
    number is then the probability when both ties are broken at random, each position as likely as the others. So a constant ``v`` gives
    `chance_agreement`, and no order of the positions is preferred. Both must have the same rows and lengths, without NaN; a row without
    positions gives NaN. Not symmetric. Source: Snell et al. 2020. Raises InputError for a share outside 1 to 100.
    """
    count = top_count(u.lengths, percent)
    found = np.full(len(u), np.nan)
    _agreements(for_kernel(u.values), for_kernel(v.values), for_kernel(u.offsets, np.int64), for_kernel(count, np.int64), found)
    return found


def chance_agreement(lengths: Int64[np.ndarray, " n"], percent: int = TOP) -> Float[np.ndarray, " n"]:
    """The mean of `agreement` over all orders of ``v``: ⌈``percent`` % · T⌉ / T, whatever is tied; NaN for a row without positions.

    Every position is in the top of as many orders as any other.
    """
    count = top_count(lengths, percent).astype(np.float64)
    return np.divide(count, lengths, out=np.full(len(lengths), np.nan), where=lengths > 0)


def top_count(lengths: Int64[np.ndarray, " n"], percent: int = TOP) -> Int64[np.ndarray, " n"]:
    """How many positions are the top of a row, in whole numbers: 7 % of 100 are 7, and 0.07 · 100 rounded up is 8."""
    if not 1 <= percent <= 100:
        raise InputError("agreement", "share of the positions that counts as the top", f"{percent} %", "1 to 100 %")
    return -(-lengths * percent // 100)


@kernel(parallel=True)
def _agreements(u, v, offsets, count, found):
    for row in prange(len(offsets) - 1):
        start, stop = offsets[row], offsets[row + 1]
        if stop > start:
            found[row] = _agreement_row(u[start:stop], v[start:stop], count[row])


@kernel
def _agreement_row(u, v, count):
    """Mean over the largest ``u`` of the probability to be in the top: 1 above its border, a share of the places left on it."""
    border, largest = v[ascending(v)[len(v) - count]], u.max()
    above, on = 0, 0
    for value in v:
        above += value > border
        on += value == border
    share = (count - above) / on
    inside, first = 0.0, 0
    for k in range(len(u)):
        if u[k] == largest:
            first += 1
            inside += 1.0 if v[k] > border else share if v[k] == border else 0.0
    return inside / first
