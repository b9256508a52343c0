"""Agreement of a ranking of positions with another ranking, or with a rationale.

Every number is the mean over all orders of tied positions, as if ties were broken at random. No
order of the positions is preferred this way.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from attnaudit.core import InputError
from attnaudit.core.ragged import Ragged
from attnaudit.core.shapes import PerRow, RowInts
from attnaudit.stats.bootstrap import ratio

TOP = 5  # per cent of the positions, rounded up to a whole number


def agreement(u: Ragged, v: Ragged, percent: int = TOP) -> PerRow:
    """Compute A(u, v): is the position where ``u`` is largest among the top of ``v``?

    The value is 1 or 0, or between them with ties. A constant ``v`` gives `chance_agreement`. The
    measure is not symmetric. Source: Snell et al. 2020.

    Args:
        u: Scores ``(T,)`` per row, without NaN.
        v: Scores of the same rows and lengths.
        percent: Share of the positions in the top, 1 to 100, rounded up to a whole number.

    Returns:
        One number per row; NaN for a row without positions.

    Raises:
        InputError: If ``percent`` is outside 1 to 100.
    """
    largest = u.with_values((u.values == u.spread(u.max())).astype(np.float64))
    inside = u.with_values(largest.values * _in_top(v, percent).values)
    return ratio(inside.sum(), largest.sum())


def chance_agreement(lengths: RowInts, percent: int = TOP) -> PerRow:
    """Compute the mean of `agreement` over all orders of ``v``, which is ⌈``percent`` % · T⌉ / T.

    All positions are in the top of equally many orders.

    Args:
        lengths: Number of positions T of each row.
        percent: Share of the positions in the top, 1 to 100, rounded up to a whole number.

    Returns:
        One number per row; NaN if T = 0.

    Raises:
        InputError: If ``percent`` is outside 1 to 100.
    """
    return ratio(top_count(lengths, percent), lengths)


def top_count(lengths: RowInts, percent: int = TOP) -> RowInts:
    """Count the positions in the top of each row.

    Args:
        lengths: Number of positions T of each row.
        percent: Share of the positions in the top, 1 to 100, rounded up to a whole number.

    Raises:
        InputError: If ``percent`` is outside 1 to 100.
    """
    if not 1 <= percent <= 100:
        raise InputError(
            "agreement",
            "share of the positions that counts as the top",
            f"{percent} %",
            "1 to 100 %",
        )
    # In integers, because floats round up too far: 7 % of 100 is 7, but ceil(0.07 * 100) is 8.
    return -(-lengths * percent // 100)


def top_overlaps(scores: Sequence[Ragged], percent: int) -> list[PerRow]:
    """Compute the overlap of the tops of every two scores, as a share of the top.

    A constant score has `chance_agreement` with any other. Source: the feature agreement of
    Krishna et al. 2024.

    Args:
        scores: Scores ``(T,)`` per row, of the same rows and lengths, without NaN.
        percent: Share of the positions in the top, 1 to 100, rounded up to a whole number.

    Returns:
        One array per pair, in the order of `itertools.combinations`; NaN if T < 2.

    Raises:
        InputError: If ``percent`` is outside 1 to 100.
    """
    overlaps = []
    for one, other in combinations([_in_top(score, percent) for score in scores], 2):
        # Ties of both scores are broken independently, so a position is in both tops with the
        # product of its probabilities.
        common = one.with_values(one.values * other.values).sum()
        count = np.where(one.lengths < 2, 0, top_count(one.lengths, percent))
        overlaps.append(ratio(common, count))
    return overlaps


class RationaleAgreement(NamedTuple):
    """Precision at the size of the rationale, and average precision, of every row."""

    precision: PerRow
    average_precision: PerRow


def rationale_agreement(score: Ragged, marks: Ragged) -> RationaleAgreement:
    """Score a ranking by the positions of a rationale.

    Average precision is Σ precision · Δrecall over groups of equal scores, as in scikit-learn.

    Args:
        score: Scores ``(T,)`` per row.
        marks: 1 at the positions that matter and 0 at others, for the same rows.

    Returns:
        Both measures per row; NaN if no position is marked, or all are.
    """
    order = score.descending()
    values, hits = score.values[order], np.append(0.0, np.cumsum(marks.values[order]))
    first = np.append(True, values[1:] != values[:-1])  # NaN is a group of its own
    first[score.offsets[:-1][score.lengths > 0]] = True
    starts, count = np.flatnonzero(first), score.with_values(first.astype(np.int64)).sum()
    ends = np.append(starts[1:], len(values))

    groups = Ragged.from_lengths(hits[ends] - hits[starts], count)
    start_of_row = groups.spread(score.offsets[:-1])
    expected = groups.spread(_count_if_some(marks))
    # If tied positions lie on both sides of the cut, a random order puts this share before it.
    before_cut = np.clip((expected - (starts - start_of_row)) / (ends - starts), 0.0, 1.0)
    precision = (hits[ends] - hits[start_of_row]) / (ends - start_of_row)
    recall = groups.values / expected
    return RationaleAgreement(
        groups.with_values(recall * before_cut).sum(), groups.with_values(recall * precision).sum()
    )


def chance_rationale_agreement(marks: Ragged) -> RationaleAgreement:
    """Compute the mean of `rationale_agreement` over all orders of the positions.

    With k of T positions marked, the expected precision is k/T. Rank i is marked with probability
    k/T, and then (i − 1)(k − 1)/(T − 1) of the ranks before it are marked on average. The expected
    average precision is therefore (H_T + (k − 1)(T − H_T)/(T − 1))/T, with the harmonic number
    H_T = 1 + 1/2 + … + 1/T.
    """
    size, marked = marks.lengths.astype(np.float64), _count_if_some(marks)
    harmonic = np.append(0.0, np.cumsum(1.0 / np.arange(1, max(marks.lengths, default=0) + 1)))
    # The lower limits of 1 only avoid divisions by 0 in rows with fewer than two positions, where
    # `marked` is NaN anyway.
    sum_to_size, others = harmonic[marks.lengths], np.maximum(size - 1.0, 1.0)
    average = (sum_to_size + (marked - 1.0) * (size - sum_to_size) / others) / np.maximum(size, 1.0)
    return RationaleAgreement(marked / np.maximum(size, 1.0), average)


def _count_if_some(marks: Ragged) -> PerRow:
    """Count the marked positions of every row; NaN if none or all are marked."""
    count = marks.with_values(marks.values.astype(np.float64)).sum()
    return np.where((count > 0.0) & (count < marks.lengths), count, np.nan)


def _in_top(score: Ragged, percent: int) -> Ragged:
    """Compute each position's probability of being in the top of its row.

    Positions above the lowest score of the top are certain. Those tied with it share the places
    that remain.
    """
    count, full = top_count(score.lengths, percent), score.lengths > 0
    border = np.zeros(len(score))
    last_places = score.offsets[1:][full] - count[full]
    border[full] = score.values[score.argsort()[last_places]]
    border = score.spread(border)
    above = score.with_values((score.values > border).astype(np.float64))
    on = score.with_values((score.values == border).astype(np.float64))
    share = (count - above.sum()) / np.maximum(on.sum(), 1.0)
    return score.with_values(above.values + on.values * score.spread(share))
