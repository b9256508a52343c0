"""Log-odds of words: an attention in the released code of Jain & Wallace 2019.

A logistic regression with an L1 penalty (C = 1) and balanced classes is fitted to normalised bags
of words (`LR.py`, `LogOddsAttention`). A word's log-odds are its coefficient. Attention is the
softmax over a text's words of the absolute coefficients. With more than two classes, these are
averaged over one-against-the-rest regressions.
"""

import numpy as np
from jaxtyping import Float, Int

from attnaudit.core.ragged import Ragged
from attnaudit.corpora.prepare.vocabulary import SPECIAL

# Score of a word that is not in train. Its weight underflows to 0 next to any known word. The score
# is finite so that a text of such words only gets uniform weights instead of NaN.
UNKNOWN = -1e4


def word_log_odds(
    ids: Ragged, label: Int[np.ndarray, " n"], words: int, classes: int
) -> Float[np.ndarray, " V"]:
    """Return the absolute log-odds of every word.

    Args:
        ids: Word ids of the training texts.
        label: Class of each text.
        words: Size of the vocabulary.
        classes: Number of classes.

    Returns:
        One value per word of the vocabulary, `UNKNOWN` for words that no training text has. The
        result is deterministic.
    """
    from scipy.sparse import csr_matrix
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import normalize

    known = ids.values >= len(SPECIAL)
    rows, columns = ids.row_of_value[known], ids.values[known]
    bags = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(ids), words))
    # The constructor sums repeated words, but a bag only marks which words occur.
    bags.data[:] = 1.0
    bags = normalize(bags)
    sizes = []
    # With two classes the coefficients of the second regression only differ in sign.
    for of_class in [1] if classes == 2 else range(classes):
        is_class = label == of_class
        # A regression needs both outcomes, and a small train split may lack a class.
        if is_class.any() and not is_class.all():
            fitted = LogisticRegression(
                l1_ratio=1.0,
                C=1.0,
                # The released code uses liblinear too; it penalises the intercept as well.
                solver="liblinear",
                class_weight="balanced",
                # liblinear visits coordinates in random order.
                random_state=0,
                max_iter=1000,
            )
            sizes.append(np.abs(fitted.fit(bags, is_class).coef_[0]))
    size = np.mean(sizes, axis=0) if sizes else np.zeros(words)
    occurs = np.bincount(columns, minlength=words) > 0
    return np.where(occurs, size, UNKNOWN).astype(np.float32)
