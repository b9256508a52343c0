"""How well a ranking of tokens finds those of a rationale, ties included."""

from __future__ import annotations

import math

import numpy as np
from numba import prange

from attnaudit.core.kernels import kernel
from attnaudit.core.ragged import Ragged
from attnaudit.stats.kernel_arrays import for_kernel
from attnaudit.stats.ordering import ascending


def rationale_agreement(score: Ragged, rationale: Ragged) -> tuple[np.ndarray, np.ndarray]:
    """Precision at the size of the rationale, and average precision, ``(n,)`` each.

    A rationale of length 0 is unknown. NaN where it is unknown, empty or the whole text.
    """
    out = np.full((2, len(score)), np.nan)
    values = for_kernel(score.values)
    relevant = for_kernel(rationale.values, np.bool_)
    _agreement_rows(values, score.offsets, relevant, rationale.offsets, out)
    return out[0], out[1]


def agreement_by_chance(rationale: Ragged, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What rankings in random order reach on average, ``(n,)`` each, for texts of these lengths; NaN as above.

    With k of T tokens in the rationale the precision is k/T. Rank i holds one of them with probability k/T, and then on average
    (i − 1)(k − 1)/(T − 1) of those before it are some too, so that the average precision is (H_T + (k − 1)(T − H_T)/(T − 1))/T, where
    H_T = 1 + 1/2 + … + 1/T.
    """
    size, known = lengths.astype(np.float64), rationale.with_values(rationale.values.astype(np.float64)).sum()
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, max(lengths, default=0) + 1))])[lengths]
    told = (rationale.lengths == lengths) & (known > 0) & (known < size)
    with np.errstate(invalid="ignore", divide="ignore"):
        average = (harmonic + (known - 1.0) * (size - harmonic) / (size - 1.0)) / size
        return np.where(told, known / size, np.nan), np.where(told, average, np.nan)


@kernel(parallel=True)
def _agreement_rows(score, score_offsets, relevant, relevant_offsets, out):
    for row in prange(len(score_offsets) - 1):
        size = score_offsets[row + 1] - score_offsets[row]
        chosen = relevant[relevant_offsets[row] : relevant_offsets[row + 1]]
        expected = chosen.sum()
        if len(chosen) == size and 0 < expected < size:
            out[0, row], out[1, row] = agreement_row(score[score_offsets[row] : score_offsets[row + 1]], chosen, expected)


@kernel
def agreement_row(score, relevant, expected):
    """One walk down the groups of equal scores.

    Precision at ``expected`` takes, of the group that straddles the cut, the expected share under a random order. Average precision is
    Σ precision · Δrecall over groups, as scikit-learn defines it.
    """
    order = ascending(-score)
    found, seen = 0.0, 0.0
    at_cut, average = math.nan, 0.0
    start = 0
    while start < len(order):
        hits, stop = 0.0, start
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
