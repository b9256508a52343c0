"""Accuracy, F1 and ROC-AUC with bootstrap intervals."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from attnaudit.core import InputError
from attnaudit.core.shapes import PerClass, PerRow, RowMask
from attnaudit.stats.bootstrap import (
    RESAMPLES,
    Units,
    Weights,
    percentile_interval,
    ratio,
    resampled,
    resampled_over_seeds,
    weighted_sums,
)
from attnaudit.stats.inference import cluster_quantile, newcombe_interval

Labels = Int[np.ndarray, " n"]
ScoreOf = Callable[[int], PerRow]


class Scores(NamedTuple):
    """Scores of a classifier; NaN if undefined."""

    accuracy: float
    f1: float
    roc_auc: float
    f1_macro: float


class ScoreIntervals(NamedTuple):
    """Scores of a classifier with the ends of their 95 % intervals."""

    value: Scores
    low: Scores
    high: Scores


def classification_scores(
    label: Labels,
    predicted: Labels,
    score: PerClass,
) -> Scores:
    """Compute accuracy, F1 and ROC-AUC.

    Args:
        label: Class of each row, from 0.
        predicted: Predicted class of each row.
        score: Score of each class, or a single column for class 1 of two.

    Returns:
        The scores. With two classes, F1 and ROC-AUC are for class 1. With more, F1 is the mean over
        the classes that occur or are predicted, and ROC-AUC the mean over the classes that some
        rows have and some lack, each against the rest. Macro F1 is always the first mean.

    Raises:
        InputError: If a score is not finite.
    """
    units = Units.of_texts(np.arange(len(label)))
    return ScoreSums(label, predicted, columns_of(score), score.shape[1], units).value


def columns_of(score: PerClass) -> ScoreOf:
    """Return a function from a class to its scores; a single column holds those of class 1."""
    return lambda k: score[:, min(k, score.shape[1] - 1)]


class ScoreSums:
    """Sums over resampling units, from which the scores of any resample follow.

    Accuracy and F1 of a resample are exact. Its ROC-AUC is a linear approximation: each row has a
    placement, the share of the rows of the other side that it is correctly ordered with (DeLong,
    DeLong & Clarke-Pearson 1988). A resample changes the mean placement of the positives and of the
    negatives; the product of the two changes is neglected.

    Attributes:
        units: Units of the rows.
        value: Scores of all rows.
    """

    def __init__(
        self,
        label: Labels,
        predicted: Labels,
        score: ScoreOf,
        outputs: int,
        units: Units,
    ) -> None:
        """Sum over all rows, one class at a time, so only one class has its scores in memory.

        Args:
            label: Class of each row, from 0.
            predicted: Predicted class of each row.
            score: Function from a class to its scores ``(n,)``.
            outputs: Number of scores per row; two classes may have one or two.
            units: Units of the rows.

        Raises:
            InputError: If a score is not finite.
        """

        def summed(rows: np.ndarray, values: np.ndarray | None = None) -> Float[np.ndarray, " u"]:
            return np.bincount(units.row[rows], values, units.number).astype(np.float64)

        self.units, hit = units, label == predicted
        self._right, self._rows = summed(hit), summed(np.ones(len(label), bool))
        hits, occurs, side, won, texts = [], [], [], [], []
        # Of two classes only class 1 is scored, which is the convention for F1 and ROC-AUC.
        self._scored = slice(1, None) if outputs <= 2 else slice(None)
        for k in range(max(outputs, 2)):
            positive = label == k
            sides = positive, ~positive
            hits.append(summed(positive & hit))
            occurs.append(summed(positive) + summed(predicted == k))
            if k < (self._scored.start or 0):
                continue
            own = score(k)
            if bad := int((~np.isfinite(own)).sum()):
                where, got = f"{bad} of {len(own)} rows", "scores that are not finite"
                raise InputError("classification scores", where, got, "finite scores")
            beaten = _beaten(own, positive)
            won.append([summed(rows, beaten[rows]) for rows in sides])
            side.append([summed(rows) for rows in sides])
            texts.append([np.count_nonzero(np.bincount(units.text[rows])) for rows in sides])
        self._hits, self._occurs = np.array(hits), np.array(occurs)
        self._won, self._side = np.array(won), np.array(side)
        self._texts = np.array(texts, np.float64)
        self._f1 = ratio(2.0 * self._hits.sum(axis=1), self._occurs.sum(axis=1))
        # Ties count half, and sums of half integers are exact in float64.
        self._areas = ratio(self._won[:, 0].sum(axis=1), self._side.sum(axis=2).prod(axis=1))
        accuracy = ratio(self._right.sum(), self._rows.sum())
        each = (self._f1[self._scored], self._areas, self._f1)
        means = (_mean_over_classes(one[None], one)[0] for one in each)
        self.value = Scores(*(float(score) for score in (accuracy, *means)))

    def scores(self, weights: Weights) -> Float[np.ndarray, "b 4"]:
        """Return accuracy, F1, ROC-AUC and macro F1 of resamples.

        A class that is undefined in a resample takes its value from the whole sample. A mean over
        the other classes only would be a different score.
        """
        right, rows = (weighted_sums(weights, sums) for sums in (self._right, self._rows))
        hits, occurs = (weighted_sums(weights, sums) for sums in (self._hits, self._occurs))
        # Mean placements of positives among all negatives, and of negatives among all positives.
        others = self._side.sum(axis=2)[:, ::-1]
        beaten = ratio(weighted_sums(weights, self._won), weighted_sums(weights, self._side))
        placements = ratio(beaten, np.broadcast_to(others, beaten.shape))
        # In the whole sample both mean placements are the AUC, so their sum counts it twice.
        areas = np.clip(placements.sum(axis=2) - self._areas, 0.0, 1.0)
        f1, scored = ratio(2.0 * hits, occurs), self._scored
        of_f1 = _mean_over_classes(f1[:, scored], self._f1[scored])
        of_areas, macro = (
            _mean_over_classes(*pair) for pair in ((areas, self._areas), (f1, self._f1))
        )
        return np.stack([ratio(right, rows), of_f1, of_areas, macro], axis=1)

    def intervals(self, seed: int, resamples: int = RESAMPLES) -> ScoreIntervals:
        """Return the scores with their 95 % percentile intervals.

        Args:
            seed: Seed of the draws.
            resamples: Number of resamples.
        """
        low, high = percentile_interval(resampled(self.scores, self.units.number, seed, resamples))
        z = cluster_quantile(self.units.texts, len(self.units.row))
        positives = self._texts[:, 0]
        # If F1 or ROC-AUC is 1, every resample gives 1 too, so the lower end is Wilson's or
        # Newcombe's. F1 of a class is 2J/(1 + J), with J the share of correct predictions among the
        # rows that have the class or are predicted to. Wilson's lower end of J = 1 is n/(n + z²).
        if self.value.f1 == 1.0:
            some = positives[positives > 0]
            low[[1, 3]] = _mean_below_1(2.0 * some / (2.0 * some + z * z))
        if self.value.roc_auc == 1.0:
            both = self._texts[(self._texts > 0).all(axis=1)].tolist()
            ends = [newcombe_interval(1.0, positive, others, z)[0] for positive, others in both]
            low[2] = _mean_below_1(np.array(ends))
        return ScoreIntervals(self.value, Scores(*low.tolist()), Scores(*high.tolist()))


def scores_over_seeds(
    label: Labels,
    predicted: Int[np.ndarray, "M S n"],
    score: Float[np.ndarray, "M S n K"],
    seed: int,
    resamples: int = RESAMPLES,
) -> tuple[Float[np.ndarray, "M S 4"], Float[np.ndarray, "resamples M 4"]]:
    """Score several models, and resample rows and seeds.

    All models share their resamples, so the differences of two models are paired. Sort the rows if
    the draws must not depend on their order.

    Args:
        label: Class of each row, from 0.
        predicted: Predicted classes by model and seed.
        score: Scores of each class, or a single column for class 1 of two.
        seed: Seed of the draws.
        resamples: Number of resamples.

    Returns:
        Scores of each training in the order of `Scores`, and means over seeds in every resample.

    Raises:
        InputError: If a score is not finite.
    """
    models, seeds, rows, outputs = score.shape
    units = Units.of_texts(np.arange(rows))
    sums = [
        [
            ScoreSums(label, predicted[m, s], columns_of(score[m, s]), outputs, units)
            for m in range(models)
        ]
        for s in range(seeds)
    ]

    def scores(weights: Weights) -> Float[np.ndarray, "b S M 4"]:
        return np.stack(
            [np.stack([one.scores(weights) for one in row], axis=1) for row in sums], axis=1
        )

    values = np.array([[one.value for one in row] for row in sums])
    drawn = resampled_over_seeds(scores, units.number, seeds, seed, resamples)
    return np.moveaxis(values, 0, 1), drawn


def _beaten(score: PerRow, positive: RowMask) -> PerRow:
    """Count the rows below each positive and above each negative, of the other side; ties half."""
    beaten = np.empty(len(score))
    for rows, sign in ((positive, 1.0), (~positive, -1.0)):
        others, own = np.sort(sign * score[~rows]), sign * score[rows]
        beaten[rows] = 0.5 * (np.searchsorted(others, own) + np.searchsorted(others, own, "right"))
    return beaten


def _mean_over_classes(
    values: Float[np.ndarray, "b K"], whole: Float[np.ndarray, " K"]
) -> Float[np.ndarray, " b"]:
    """Average over the classes that are defined in the whole sample; NaN if there are none."""
    known = ~np.isnan(whole)
    filled = np.where(np.isnan(values), whole, values)[:, known]
    return sum(filled.T, np.zeros(len(values))) / known.sum() if known.any() else values.sum(axis=1)


def _mean_below_1(ends: Float[np.ndarray, " K"]) -> float:
    """Combine the lower ends of K perfect classes (Zou & Donner 2008)."""
    if len(ends) == 0:
        return np.nan
    # Distances from 1 add in squares. Their mean would assume that all classes are at their worst
    # together.
    return max(1.0 - float(np.sqrt(np.square(1.0 - ends).sum())) / len(ends), 0.0)
