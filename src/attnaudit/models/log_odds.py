"""The log-odds of every word: what a linear classifier of bags of words learns from the training texts.

The released code of Jain & Wallace 2019 takes attention from them (`LR.py`, `LogOddsAttention`): a logistic regression with an L1 penalty
(C = 1) and balanced classes on normalised bags of words. A word's log-odds are its coefficient, and attention is the softmax of the size of
the coefficients of a text's words. The sizes are averaged over the classes where there are more than two.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from attnaudit.core.ragged import Ragged
from attnaudit.corpora.prepare.vocabulary import SPECIAL

UNKNOWN = -1e4
"""The score of a word that train lacks: no weight in a text with other words, and uniform weights where a text has no other."""


def word_log_odds(
    ids: Ragged, label: Int[np.ndarray, " n"], words: int, classes: int
) -> Float[np.ndarray, " V"]:
    """The size of the log-odds of each of ``words`` numbers of a vocabulary, from training texts; `UNKNOWN` where there are none.

    A bag of words says which words a text has, as a vector of Euclidean norm 1. Deterministic.
    """
    from sklearn.linear_model import LogisticRegression

    bags = bags_of_words(ids, words)
    sizes = []
    for of_class in [1] if classes == 2 else range(classes):
        is_class = label == of_class
        if is_class.any() and not is_class.all():
            fitted = LogisticRegression(
                l1_ratio=1.0,
                C=1.0,
                solver="liblinear",
                class_weight="balanced",
                random_state=0,
                max_iter=1000,
            )
            sizes.append(np.abs(fitted.fit(bags, is_class).coef_[0]))
    found = np.mean(sizes, axis=0) if sizes else np.zeros(words)
    known = np.bincount(ids.values, minlength=words) > 0
    known[: len(SPECIAL)] = False
    return np.where(known, found, UNKNOWN).astype(np.float32)


def bags_of_words(ids: Ragged, words: int):
    """A sparse row for each text."""
    from scipy.sparse import csr_matrix
    from sklearn.preprocessing import normalize

    known = ids.values >= len(SPECIAL)
    rows, columns = ids.row_of_value[known], ids.values[known]
    bags = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(ids), words))
    bags.data[:] = 1.0  # repeated words were summed
    return normalize(bags)
