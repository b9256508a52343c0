"""A classifier that knows co-occurrence only: the second proxy of Snell et al. 2021."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from jaxtyping import Bool, Int64

from attnaudit.core.ragged import Ragged
from attnaudit.trace import Trace

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

# Values of scikit-learn's C, the inverse of the penalty, from which dev selects.
STRENGTHS = (1.0, 10.0, 100.0, 1000.0, 10000.0)


@dataclass(frozen=True)
class CountModel:
    """Logistic regression on ``count of the word / T``, which ignores word order.

    Attributes:
        number: Column of each word of the train split.
        fitted: The regression.
    """

    number: dict[str, int]
    fitted: LogisticRegression

    @classmethod
    def fit(cls, texts: Trace) -> CountModel:
        """Fit the train split of a trace of all splits.

        The penalty has the highest accuracy on dev; of equal ones, the strongest is taken.
        """
        from sklearn.linear_model import LogisticRegression

        split = texts.array("split")
        train, dev = (texts.take(np.flatnonzero(split == name)) for name in ("train", "dev"))
        words = dict.fromkeys(word for row in train.table["tokens"].to_list() for word in row)
        number = {word: k for k, word in enumerate(words)}
        shares, label = _shares(train, number), train.array("label").astype(np.int64)
        models = [
            cls(number, LogisticRegression(C=strength, max_iter=5000).fit(shares, label))
            for strength in STRENGTHS
        ]
        return max(models, key=lambda model: model.correct(dev).mean())

    def relevance(self, trace: Trace) -> Ragged:
        """Return what the word of each position contributes to the gold class.

        Words that train lacks contribute 0.
        """
        place = _places(trace, self.number)
        gold = trace.alpha.spread(trace.array("label").astype(np.int64))
        weight = self.fitted.coef_
        values = weight[0, place] * (2 * gold - 1) if len(weight) == 1 else weight[gold, place]
        return trace.alpha.with_values(np.where(place >= 0, values, 0.0))

    def correct(self, trace: Trace) -> Bool[np.ndarray, " n"]:
        """Return whether the model decides for the gold class of every row."""
        decided = np.asarray(self.fitted.predict(_shares(trace, self.number)))
        return np.equal(decided, trace.array("label"))


def _places(trace: Trace, number: dict[str, int]) -> Int64[np.ndarray, " N"]:
    """Return the number of the word of every position, -1 if it has none."""
    tokens = trace.table["tokens"].explode()
    return tokens.replace_strict(number, default=-1, return_dtype=pl.Int64).to_numpy()


def _shares(trace: Trace, number: dict[str, int]) -> Any:
    """Return a sparse row per text: the share of its positions that each known word has."""
    from scipy.sparse import csr_matrix

    place, alpha = _places(trace, number), trace.alpha
    known = place >= 0
    shares = alpha.spread(1.0 / alpha.lengths)[known]
    cells = alpha.row_of_value[known], place[known]
    return csr_matrix((shares, cells), shape=(len(alpha), len(number)))
