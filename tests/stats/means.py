"""Intervals of means and scores, as a summary gets them."""

import numpy as np

from attnaudit.stats.bootstrap import RESAMPLES, Units, ratio_intervals
from attnaudit.stats.classification import ScoreSums, columns_of
from attnaudit.stats.sums import UnitSums


def mean_intervals(values, seed, texts=None, resamples=RESAMPLES, ranges=None):
    """Ends of the intervals of the means of columns ``(n, m)``; without texts each row is one."""
    names = np.arange(len(values)) if texts is None else texts
    sums = UnitSums(Units.of_texts(names), values.shape[1])
    sums.add(values)
    counts = np.array([sums.texts(k) for k in range(values.shape[1])], np.int64)
    return ratio_intervals(sums.total, sums.count, seed, ranges, counts, resamples)


def score_intervals(label, predicted, score, seed=0, resamples=RESAMPLES, text=None):
    """Intervals of accuracy, F1 and area; without texts each row is one."""
    units = Units.of_texts(np.arange(len(label)) if text is None else text)
    sums = ScoreSums(label, predicted, columns_of(score), score.shape[1], units)
    return sums.intervals(seed, resamples)
