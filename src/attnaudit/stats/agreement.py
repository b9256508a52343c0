"""How well a ranking agrees with another (Snell et al. 2020) or finds the positions of a rationale, ties included, of many rows at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from jaxtyping import Float, Int64

from attnaudit.core.arrays import largest_of, sum_of
from attnaudit.core.errors import InputError
from attnaudit.core.kernels import for_kernel, kernel, over_rows, subroutine
from attnaudit.core.ragged import Ragged
from attnaudit.stats.ordering import ascending, descending

TOP = 5  # per cent of the positions, rounded up to a whole one


def agreement(u: Ragged, v: Ragged, percent: int = TOP) -> Float[np.ndarray, " n"]:
    """A(u, v) of every row: whether the position where ``u`` is largest is among the top ⌈``percent`` % · T⌉ of ``v``; 1 or 0.

    Where several positions share the largest ``u``, or the last ranks of the top of ``v``, nothing says which of them is meant: the
    number is then the probability when both ties are broken at random, each position as likely as the others. So a constant ``v`` gives
    `chance_agreement`, and no order of the positions is preferred. Both must have the same rows and lengths, without NaN; a row without
    positions gives NaN. Not symmetric. Source: Snell et al. 2020. Raises InputError for a share outside 1 to 100.
    """
    count = top_count(u.lengths, percent)
    found = np.full(len(u), np.nan)
    over_rows(
        _top_rows,
        len(u),
        for_kernel(u.values),
        for_kernel(v.values),
        for_kernel(u.offsets, np.int64),
        for_kernel(count, np.int64),
        found,
    )
    return found


def chance_agreement(
    lengths: Int64[np.ndarray, " n"], percent: int = TOP
) -> Float[np.ndarray, " n"]:
    """The mean of `agreement` over all orders of ``v``: ⌈``percent`` % · T⌉ / T, whatever is tied; NaN for a row without positions.

    Every position is in the top of as many orders as any other.
    """
    count = top_count(lengths, percent).astype(np.float64)
    return np.divide(count, lengths, out=np.full(len(lengths), np.nan), where=lengths > 0)


def top_count(lengths: Int64[np.ndarray, " n"], percent: int = TOP) -> Int64[np.ndarray, " n"]:
    """How many positions are the top of a row, in whole numbers: 7 % of 100 are 7, and 0.07 · 100 rounded up is 8."""
    if not 1 <= percent <= 100:
        raise InputError(
            "agreement",
            "share of the positions that counts as the top",
            f"{percent} %",
            "1 to 100 %",
        )
    return -(-lengths * percent // 100)


def top_overlaps(scores: Sequence[Ragged], percent: int) -> list[Float[np.ndarray, " n"]]:
    """For every two of ``scores``, in the order of `itertools.combinations`: the share that the tops of every row have in common.

    A top is the ⌈``percent`` % · T⌉ positions of the largest values; where values are tied at its end, the expected share if the ties of
    both are broken at random, so that a constant score has `chance_agreement`. Symmetric; NaN where T < 2. All must have the same rows
    and lengths, without NaN. Source: the feature agreement of Krishna et al. 2024. Raises InputError for a share outside 1 to 100.
    """
    tops = [_in_top(score, percent) for score in scores]
    found = []
    for one, other in combinations(tops, 2):
        common, lengths = one.with_values(one.values * other.values).sum(), one.lengths
        found.append(
            np.divide(
                common,
                top_count(lengths, percent),
                out=np.full(len(one), np.nan),
                where=lengths >= 2,
            )
        )
    return found


def _in_top(score: Ragged, percent: int) -> Ragged:
    """The probability of every position to be in the top of its row: 1 above the border, a share of the ranks left on it."""
    count, full = top_count(score.lengths, percent), score.lengths > 0
    ascending_in_row = score.values[np.lexsort((score.values, score.row_of_value))]
    border = np.zeros(len(score))
    border[full] = ascending_in_row[score.offsets[1:][full] - count[full]]
    border = score.spread(border)
    above, on = (
        score.with_values(found.astype(np.float64))
        for found in (score.values > border, score.values == border)
    )
    share = (count - above.sum()) / np.maximum(on.sum(), 1.0)
    return score.with_values(above.values + on.values * score.spread(share))


def rationale_agreement(score: Ragged, rationale: Ragged) -> tuple[np.ndarray, np.ndarray]:
    """Precision at the size of the rationale, and average precision, ``(n,)`` each.

    A rationale of length 0 is unknown. NaN where it is unknown, empty or the whole text.
    """
    out = np.full((2, len(score)), np.nan)
    over_rows(
        _rationale_rows,
        len(score),
        for_kernel(score.values),
        score.offsets,
        for_kernel(rationale.values, np.bool_),
        rationale.offsets,
        out,
    )
    return out[0], out[1]


def chance_rationale_agreement(
    rationale: Ragged, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """What rankings in random order reach on average, ``(n,)`` each, for texts of these lengths; NaN as above.

    With k of T tokens in the rationale the precision is k/T. Rank i holds one of them with probability k/T, and then on average
    (i − 1)(k − 1)/(T − 1) of those before it are some too, so that the average precision is (H_T + (k − 1)(T − H_T)/(T − 1))/T, where
    H_T = 1 + 1/2 + … + 1/T.
    """
    size, known = (
        lengths.astype(np.float64),
        rationale.with_values(rationale.values.astype(np.float64)).sum(),
    )
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, max(lengths, default=0) + 1))])[
        lengths
    ]
    defined = (rationale.lengths == lengths) & (known > 0) & (known < size)
    with np.errstate(invalid="ignore", divide="ignore"):
        average = (harmonic + (known - 1.0) * (size - harmonic) / (size - 1.0)) / size
        return np.where(defined, known / size, np.nan), np.where(defined, average, np.nan)


@kernel
def _top_rows(first, last, u, v, offsets, count, found):
    for row in range(first, last):
        start, stop = offsets[row], offsets[row + 1]
        if stop > start:
            found[row] = _top_row(u[start:stop], v[start:stop], count[row])


@subroutine
def _top_row(u, v, count):
    """Mean over the largest ``u`` of the probability to be in the top: 1 above its border, a share of the ranks left on it."""
    border, largest = v[ascending(v)[len(v) - count]], largest_of(u)
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


@kernel
def _rationale_rows(first, last, score, score_offsets, relevant, relevant_offsets, out):
    for row in range(first, last):
        size = score_offsets[row + 1] - score_offsets[row]
        chosen = relevant[relevant_offsets[row] : relevant_offsets[row + 1]]
        expected = sum_of(chosen)
        if len(chosen) == size and 0 < expected < size:
            out[0, row], out[1, row] = _rationale_row(
                score[score_offsets[row] : score_offsets[row + 1]], chosen, expected
            )


@subroutine
def _rationale_row(score, relevant, expected):
    """One walk down the groups of equal scores.

    Precision at ``expected`` takes, of the group that straddles the cut, the expected share under a random order. Average precision is
    Σ precision · Δrecall over groups, as scikit-learn defines it.
    """
    order = descending(score)
    found, seen = 0.0, 0.0
    at_cut, average = math.nan, 0.0
    start = 0
    while start < len(order):
        hits, stop = (
            1.0 * relevant[order[start]],
            start + 1,
        )  # a NaN, which equals nothing, is a group of its own
        while stop < len(order) and score[order[stop]] == score[order[start]]:
            hits += relevant[order[stop]]
            stop += 1
        group = stop - start
        if seen < expected <= seen + group:
            at_cut = (found + hits * (expected - seen) / group) / expected
        found += hits
        seen += group
        average += found / seen * hits / expected
        start = stop
    return at_cut, average
