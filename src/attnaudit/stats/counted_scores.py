"""F1 and ROC-AUC of rows that are read twice: counted first, then ranked, each with the sums of random groups for a bootstrap.

A resample of groups (`sums`) has a table of labels and predicted classes, and so an F1, of its own. Its ROC-AUC is the mean rank of the
positives that it draws among all negatives, plus that of its negatives among all positives, less the ROC-AUC of all, and no further than
0 or 1; it lacks the product of the two changes. Scores are counted in bins of their log-odds, and those of one bin are ties: of `BINS`
bins between odds of e^±40 each is 0.0012 wide.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, Int64

from attnaudit.stats.bootstrap import percentile_interval, resample, resample_keys
from attnaudit.stats.classification import mean_over_classes
from attnaudit.stats.perfect import perfect_ends
from attnaudit.stats.sums import GROUPS, RESAMPLES, group_of

BINS, FEWEST_BINS = 1 << 16, 1 << 9
_REACH = 40.0
_TOGETHER = 50  # resamples drawn at a time


@dataclass
class CountedScores:
    """Rows by label and predicted class, and by bin of every column of scores, those of the class and the others.

    ``score`` has a column per class that is distinguished from the rest, or a single one for class 1 of two, as in `classification`.
    """

    right: Float[
        np.ndarray, "G classes"
    ]  # rows of each random group, by class, that are predicted right
    occurs: Float[np.ndarray, "G classes"]  # rows with the label, and rows with the prediction
    bins: Float[np.ndarray, "2 columns bins"]
    rank: Float[
        np.ndarray, "2 G columns"
    ]  # sums over the positives, and over the negatives, of each random group
    ranked: Float[np.ndarray, "2 G columns"]  # of so many

    @classmethod
    def of(cls, columns: int) -> CountedScores:
        """Counts of no rows."""
        columns = 1 if columns == 2 else columns
        right, occurs = np.zeros((2, GROUPS, max(columns, 2)))
        bins, (rank, ranked) = (
            np.zeros((2, columns, max(BINS // columns, FEWEST_BINS))),
            np.zeros((2, 2, GROUPS, columns)),
        )
        return cls(right, occurs, bins, rank, ranked)

    def add(
        self,
        label: Int[np.ndarray, " n"],
        predicted: Int[np.ndarray, " n"],
        score: Float[np.ndarray, "n K"],
        instance: Int64[np.ndarray, " n"],
    ) -> None:
        """Count rows."""
        of, hit = group_of(instance), label == predicted
        np.add.at(self.right, (of[hit], label[hit]), 1.0)
        for classes in (label, predicted):
            np.add.at(self.occurs, (of, classes), 1.0)
        code, bins = self._codes(score), self.bins.shape[2]
        for k in range(self.bins.shape[1]):
            positive = label == self._class(k)
            for side, rows in enumerate((positive, ~positive)):
                self.bins[side, k] += np.bincount(code[rows, k], minlength=bins)

    def add_ranks(
        self,
        label: Int[np.ndarray, " n"],
        score: Float[np.ndarray, "n K"],
        instance: Int64[np.ndarray, " n"],
    ) -> None:
        """The rank of each row among those of the other side, once all are counted."""
        of, code = group_of(instance), self._codes(score)
        for k, (positives, negatives) in enumerate(zip(*self.bins, strict=True)):
            p, q = positives.sum(), negatives.sum()
            if p == 0 or q == 0:
                continue
            positive = label == self._class(k)
            for side, (rows, ranks) in enumerate(
                (
                    (positive, _mid_ranks(negatives) / q),
                    (~positive, 1.0 - _mid_ranks(positives) / p),
                )
            ):
                self.rank[side, :, k] += np.bincount(of[rows], ranks[code[rows, k]], GROUPS)
                self.ranked[side, :, k] += np.bincount(of[rows], minlength=GROUPS)

    def _class(self, column: int) -> int:
        return 1 if self.bins.shape[1] == 1 else column

    def _codes(self, score: np.ndarray) -> Int[np.ndarray, "n columns"]:
        score = score[:, 1:] if score.shape[1] == 2 else score
        with np.errstate(divide="ignore"):
            odds = np.log(score) - np.log1p(-np.minimum(score, 1.0))
        reach = np.clip((odds + _REACH) / (2.0 * _REACH), 0.0, 1.0)
        return np.rint(reach * (self.bins.shape[2] - 1)).astype(np.int64)

    @property
    def f1(self) -> float:
        """That of class 1 where there is a single column, else the mean over the classes that occur or are predicted; NaN without any."""
        return float(self._f1(np.ones((1, GROUPS)))[0])

    @property
    def roc_auc(self) -> float:
        """The mean over the columns whose class some rows have and some lack; NaN where there is none."""
        return float(mean_over_classes(self._aucs[None], self._aucs)[0])

    def intervals(self, seed: int) -> tuple[Float[np.ndarray, " 2"], Float[np.ndarray, " 2"]]:
        """The 95 % percentile intervals of F1 and ROC-AUC; where a score is 1 the lower end is that of `attnaudit.stats.perfect`."""
        found = [
            np.stack([self._f1(drawn), self._roc_auc(drawn)], axis=1) for drawn in _draws(seed)
        ]
        low, high = percentile_interval(np.concatenate(found))
        positives, negatives = self.bins.sum(axis=2)
        return perfect_ends(np.array([self.f1, self.roc_auc]), low, positives, negatives), high

    def _f1(self, drawn: Float[np.ndarray, "b G"]) -> Float[np.ndarray, " b"]:
        averaged = slice(1, 2) if self.bins.shape[1] == 1 else slice(None)
        right, occurs = (
            self.right[:, averaged],
            self.occurs[:, averaged],
        )  # whole numbers: sums are exact in any order
        return mean_over_classes(
            _ratio(2.0 * (drawn @ right), drawn @ occurs),
            _ratio(2.0 * right.sum(axis=0), occurs.sum(axis=0)),
        )

    def _roc_auc(self, drawn: Float[np.ndarray, "b G"]) -> Float[np.ndarray, " b"]:
        # no product of matrices: the sums of one differ with the number of threads
        sides = [
            _ratio(np.einsum("bg,gk->bk", drawn, rank), drawn @ ranked)
            for rank, ranked in zip(self.rank, self.ranked, strict=True)
        ]
        return mean_over_classes(np.clip(sides[0] + sides[1] - self._aucs, 0.0, 1.0), self._aucs)

    @property
    def _aucs(self) -> Float[np.ndarray, " columns"]:
        positives, negatives = self.bins
        below = np.cumsum(negatives, axis=1) - 0.5 * negatives
        return _ratio(
            (positives * below).sum(axis=1), positives.sum(axis=1) * negatives.sum(axis=1)
        )


def _draws(seed: int) -> Iterator[Float[np.ndarray, "b G"]]:
    """How often each resample draws each random group."""
    keys = resample_keys(seed, RESAMPLES)
    for start in range(0, RESAMPLES, _TOGETHER):
        yield np.array(
            [resample(key, GROUPS) for key in keys[start : start + _TOGETHER]], np.float64
        )


def _ratio(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    return np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom > 0)


def _mid_ranks(counts: Float[np.ndarray, " bins"]) -> Float[np.ndarray, " bins"]:
    """How many are below each bin, and half of those in it."""
    return np.cumsum(counts) - 0.5 * counts
