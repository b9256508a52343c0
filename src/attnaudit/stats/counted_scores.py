"""Accuracy, F1 and ROC-AUC of rows that are read twice: counted first, then what each row contributes to the figures.

A contribution is that of the infinitesimal jackknife, the figure plus n times its derivative by the row's weight (as in `survival`), so
that contributions average to the figure, and the interval of their mean is its interval. Scores are counted in bins of their log-odds, and
those of one bin are ties: of `BINS` bins between odds of e^±40 each is 0.0012 wide.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

BINS, FEWEST_BINS = 1 << 16, 1 << 9
_REACH = 40.0


@dataclass
class CountedScores:
    """Rows by label and predicted class, and of every column of scores by bin, those of the class and the others.

    ``score`` has a column per class that is distinguished from the rest, or a single one for class 1 of two, as in `classification`.
    """

    confusion: Float[np.ndarray, "K K"]
    bins: Float[np.ndarray, "2 columns bins"]

    @classmethod
    def of(cls, columns: int) -> CountedScores:
        """Counts of no rows."""
        columns = 1 if columns == 2 else columns
        classes = max(columns, 2)
        return cls(np.zeros((classes, classes)), np.zeros((2, columns, max(BINS // columns, FEWEST_BINS))))

    def add(self, label: Int[np.ndarray, " n"], predicted: Int[np.ndarray, " n"], score: Float[np.ndarray, "n K"]) -> None:
        """Count rows."""
        classes = len(self.confusion)
        self.confusion += np.bincount(label * classes + predicted, minlength=classes**2).reshape(classes, classes)
        code, bins = self._codes(score), self.bins.shape[2]
        for k in range(self.bins.shape[1]):
            positive = label == self._class(k)
            for side, rows in enumerate((positive, ~positive)):
                self.bins[side, k] += np.bincount(code[rows, k], minlength=bins)

    def _class(self, column: int) -> int:
        return 1 if self.bins.shape[1] == 1 else column

    def _codes(self, score: np.ndarray) -> Int[np.ndarray, "n columns"]:
        score = score[:, 1:] if score.shape[1] == 2 else score
        with np.errstate(divide="ignore"):
            odds = np.log(score) - np.log1p(-np.minimum(score, 1.0))
        reach = np.clip((odds + _REACH) / (2.0 * _REACH), 0.0, 1.0)
        return np.rint(reach * (self.bins.shape[2] - 1)).astype(np.int64)

    @property
    def f1(self) -> Float[np.ndarray, " classes"]:
        """That of class 1 where there is a single column, else of every class; NaN of one that neither occurs nor is predicted."""
        return np.divide(2.0 * np.diag(self.confusion), self._occurs, out=np.full(len(self.confusion), np.nan), where=self._occurs > 0)[
            self._averaged
        ]

    @property
    def _averaged(self) -> slice:
        return slice(1, 2) if self.bins.shape[1] == 1 else slice(None)

    @property
    def _occurs(self) -> np.ndarray:
        return self.confusion.sum(axis=0) + self.confusion.sum(axis=1)

    def f1_contributions(self, label: Int[np.ndarray, " n"], predicted: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """What each row contributes to F1, the mean over the classes that have one; NaN where none has."""
        averaged, rows, occurs = np.arange(len(self.confusion))[self._averaged], self.confusion.sum(), self._occurs
        defined = averaged[~np.isnan(self.f1)]
        if len(defined) == 0:
            return np.full(len(label), np.nan)
        each = np.zeros(len(occurs))
        each[averaged] = np.nan_to_num(self.f1)
        factor = np.zeros(len(occurs))
        factor[defined] = rows / occurs[defined] / len(defined)
        right = label == predicted
        moved = np.where(
            right, 2.0 * factor[label] * (1.0 - each[label]), -factor[label] * each[label] - factor[predicted] * each[predicted]
        )
        return float(each[defined].mean()) + moved

    def auc_contributions(self, label: Int[np.ndarray, " n"], score: Float[np.ndarray, "n K"]) -> Float[np.ndarray, " n"]:
        """What each row contributes to the ROC-AUC, the mean over the columns whose class some rows have and some lack; NaN where none."""
        code, found = self._codes(score), []
        for k, (positives, negatives) in enumerate(zip(*self.bins, strict=True)):
            p, q = positives.sum(), negatives.sum()
            if p == 0 or q == 0:
                continue
            below, above = _mid_ranks(negatives) / q, 1.0 - _mid_ranks(positives) / p
            auc = float((positives * below).sum() / p)
            positive = label == self._class(k)
            found.append(auc + (p + q) * np.where(positive, (below[code[:, k]] - auc) / p, (above[code[:, k]] - auc) / q))
        return np.mean(found, axis=0) if found else np.full(len(label), np.nan)


def _mid_ranks(counts: Float[np.ndarray, " bins"]) -> Float[np.ndarray, " bins"]:
    """How many are below each bin, and half of those in it."""
    return np.cumsum(counts) - 0.5 * counts
