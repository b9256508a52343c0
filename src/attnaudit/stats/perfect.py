"""Lower ends of F1 and ROC-AUC of a sample in which they are 1: every resample of it has 1 too, and its bootstrap interval is a point.

F1 of a class is 2J/(1 + J), where J is the share predicted right of the rows that have the class or are predicted to have it, and has
Wilson's interval. ROC-AUC of a class has the score interval of Newcombe 2006 (method 5). The mean of K lower ends would take all classes to
be at their worst together: the mean score is below 1 by the root of the sum of squares of their gaps, over K (Zou & Donner 2008).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

_HALVINGS = 60


def perfect_ends(
    value: Float[np.ndarray, " 2"], low: Float[np.ndarray, " 2"], positives: Float[np.ndarray, " K"], negatives: Float[np.ndarray, " K"],
    z: float = 1.959963984540054,
) -> Float[np.ndarray, " 2"]:  # fmt: skip
    """``low``, the lower ends of F1 and ROC-AUC, with those of this module where ``value`` is 1.

    ``positives`` are the independent rows, or clusters of rows, that have each class of the mean, and ``negatives`` those of other classes.
    """
    some, both = positives > 0, (positives > 0) & (negatives > 0)
    f1 = 2.0 * positives[some] / (2.0 * positives[some] + z * z)
    ends = np.array([_mean_below_1(f1), _mean_below_1(_auc(positives[both], negatives[both], z))])
    return np.where(value == 1.0, ends, low)


def _mean_below_1(ends: Float[np.ndarray, " K"]) -> float:
    return max(1.0 - float(np.sqrt(np.square(1.0 - ends).sum())) / len(ends), 0.0) if len(ends) else np.nan


def _auc(positives: Float[np.ndarray, " K"], negatives: Float[np.ndarray, " K"], z: float) -> Float[np.ndarray, " K"]:
    """The smallest ROC-AUC that z standard errors of itself do not part from 1, by bisection; the standard error is Hanley & McNeil's."""
    low, high = np.zeros(len(positives)), np.ones(len(positives))
    for _ in range(_HALVINGS):
        auc = 0.5 * (low + high)
        more = 0.5 * (positives + negatives) - 1.0
        variance = auc * (1.0 - auc) * (1.0 + more * ((1.0 - auc) / (2.0 - auc) + auc / (1.0 + auc))) / (positives * negatives)
        refused = np.square(1.0 - auc) > z * z * variance
        low, high = np.where(refused, auc, low), np.where(refused, high, auc)
    return low
