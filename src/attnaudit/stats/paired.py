"""Differences between two sets of paired values, with bootstrap intervals over the pairs."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from attnaudit.core.shapes import Indices, RowInts
from attnaudit.stats.bootstrap import ratio, ratio_intervals
from attnaudit.stats.inference import FEWEST

PerMeasure = Float[np.ndarray, " m"]


class PairedMeans(NamedTuple):
    """Means of m measures over the pairs in which both sides are defined.

    Attributes:
        first: Means of the first side, NaN without pairs.
        second: Means of the second side.
        low: Lower end of the 95 % interval of ``second - first``; NaN if fewer than `FEWEST` texts
            have a pair.
        high: Upper end.
        n: Number of pairs.
    """

    first: PerMeasure
    second: PerMeasure
    low: PerMeasure
    high: PerMeasure
    n: Indices


def paired_means(
    first: Float[np.ndarray, "n m"],
    second: Float[np.ndarray, "n m"],
    text: RowInts,
    seed: int = 0,
) -> PairedMeans:
    """Compare the means of two sides, whose rows are paired by position.

    Intervals are those of `ratio_intervals` for differences between -1 and 1.

    Args:
        first: Values of m measures; NaN if undefined.
        second: Values of the other side.
        text: Number of each row's text. The order of the rows of one text must be reproducible,
            because sums depend on it in their last digit.
        seed: Seed of the draws.
    """
    gap = (second - first).T
    known = ~np.isnan(gap)
    names, of_row = np.unique(text, return_inverse=True)
    total, count = np.zeros((2, len(gap), len(names)))
    for k, rows in enumerate(known):
        np.add.at(total[k], of_row[rows], gap[k, rows])
        np.add.at(count[k], of_row[rows], 1.0)
    ends = np.array(ratio_intervals(total, count, seed, np.array([[-1.0, 1.0]])))
    ends[:, (count > 0).sum(axis=1) < FEWEST] = np.nan
    n = known.sum(axis=1)
    means = [ratio(np.where(known, side.T, 0.0).sum(axis=1), n) for side in (first, second)]
    return PairedMeans(means[0], means[1], ends[0], ends[1], n)
