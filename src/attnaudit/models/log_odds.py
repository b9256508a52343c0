"""Log-odds of words: the attention of the released code of Jain & Wallace 2019.

A logistic regression with an L1 penalty (C = 1) and balanced classes learns from normalised bags of
words (`LR.py`, `LogOddsAttention`). A word's log-odds are its coefficient, and attention is the
softmax of the size of the coefficients of a text's words. With more than two classes, the sizes are
averaged over the classes.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from attnaudit.core.ragged import Ragged
from attnaudit.corpora.prepare.vocabulary import SPECIAL

# Score of a word that train lacks: it has no weight in a text with other words, and weights are
# uniform in a text that has no other.
UNKNOWN = -1e4


def word_log_odds(
    ids: Ragged, label: Int[np.ndarray, " n"], words: int, classes: int
) -> Float[np.ndarray, " V"]:
    """Return the size of the log-odds of every word.

    Args:
        ids: Numbers of the words of training texts.
        label: Their classes.
        words: Size of the vocabulary.
        classes: Number of classes.

    Returns:
        A size for each word, `UNKNOWN` for words without one; deterministic.
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
    size = np.mean(sizes, axis=0) if sizes else np.zeros(words)
    known = np.bincount(ids.values, minlength=words) > 0
    known[: len(SPECIAL)] = False
    return np.where(known, size, UNKNOWN).astype(np.float32)


def bags_of_words(ids: Ragged, words: int):
    """Return a sparse row for each text: its words, as a vector of Euclidean norm 1."""
    from scipy.sparse import csr_matrix
    from sklearn.preprocessing import normalize

    known = ids.values >= len(SPECIAL)
    rows, columns = ids.row_of_value[known], ids.values[known]
    bags = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(ids), words))
    bags.data[:] = 1.0  # repeated words were summed
    return normalize(bags)
