"""What words tell of the label by how often they occur with it: logistic regression on counts, the second proxy of Snell et al. 2020."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int64

from attnaudit.core.ragged import Ragged
from attnaudit.trace import Trace

STRENGTHS = (1.0, 10.0, 100.0, 1000.0, 10000.0)  # C of scikit-learn, the inverse of the penalty: the best on dev is taken


@dataclass(frozen=True)
class CountModel:
    """Logistic regression on ``count of the word / T``, which knows words and nothing of their order.

    ``weight`` is ``(V, C)``, one column for two classes; ``number`` gives the row of each word of train.
    """

    number: dict[str, int]
    weight: Float[np.ndarray, "V C"]
    offset: Float[np.ndarray, " C"]

    @classmethod
    def fit(cls, texts: Trace) -> CountModel:
        """The model of the train split of a trace of all splits, its penalty chosen by accuracy on dev, of equal ones the strongest."""
        split, label = texts.array("split"), texts.array("label").astype(np.int64)
        tokens = texts.table.column("tokens").to_pylist()
        parts = {name: np.flatnonzero(split == name) for name in ("train", "dev")}
        number = {word: k for k, word in enumerate(dict.fromkeys(word for row in parts["train"] for word in tokens[row]))}
        counts = {name: _shares([tokens[row] for row in rows], number) for name, rows in parts.items()}
        tried = [_fitted(counts["train"], label[parts["train"]], number, strength) for strength in STRENGTHS]
        right = [float((model._decide(counts["dev"]) == label[parts["dev"]]).mean()) for model in tried]
        return tried[int(np.argmax(right))]

    def relevance(self, trace: Trace) -> Ragged:
        """What the word of each position says for the gold class; words that train has not say nothing. As `relevance` of a trace."""
        rows = trace.alpha
        place = np.array([self.number.get(word, -1) for row in trace.table.column("tokens").to_pylist() for word in row], dtype=np.int64)
        gold = rows.spread(trace.array("label").astype(np.int64))
        said = self.weight[place, 0] * (2 * gold - 1) if self.weight.shape[1] == 1 else self.weight[place, gold]
        return rows.with_values(np.where(place >= 0, said, 0.0))

    def correct(self, trace: Trace) -> Bool[np.ndarray, " n"]:
        """Whether it decides for the gold class."""
        return self._decide(_shares(trace.table.column("tokens").to_pylist(), self.number)) == trace.array("label")

    def _decide(self, counts: Any) -> Int64[np.ndarray, " n"]:
        logits = counts @ self.weight + self.offset
        return (logits[:, 0] >= 0).astype(np.int64) if logits.shape[1] == 1 else logits.argmax(axis=1)


def _fitted(counts: Any, label: Int64[np.ndarray, " n"], number: dict[str, int], strength: float) -> CountModel:
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(C=strength, max_iter=5000).fit(counts, label)
    return CountModel(number, np.ascontiguousarray(fitted.coef_.T), fitted.intercept_)


def _shares(texts: Sequence[Sequence[str]], number: dict[str, int]) -> Any:
    """A sparse row for each text: the share of its positions that each known word has."""
    from scipy.sparse import csr_matrix

    known = [(row, number[word], 1.0 / len(words)) for row, words in enumerate(texts) for word in words if word in number]
    rows, columns, shares = zip(*known, strict=True) if known else ((), (), ())
    return csr_matrix((shares, (rows, columns)), shape=(len(texts), len(number)))
