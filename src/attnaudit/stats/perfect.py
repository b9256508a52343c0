"""Lower ends of F1 and ROC-AUC of a sample in which they are 1: every resample of it has 1 too, and its bootstrap interval is a point.

F1 of a class is 2J/(1 + J), where J is the share predicted right of the rows that have the class or are predicted to have it, and has
Wilson's interval. ROC-AUC of a class has `newcombe_interval`. The mean of K lower ends would take all classes to be at their worst
together: the mean score is below 1 by the root of the sum of squares of their gaps, over K (Zou & Donner 2008).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from attnaudit.stats.inference import Z, newcombe_interval


def perfect_ends(
    value: Float[np.ndarray, " 2"],
    low: Float[np.ndarray, " 2"],
    positives: Float[np.ndarray, " K"],
    negatives: Float[np.ndarray, " K"],
    z: float = Z,
) -> Float[np.ndarray, " 2"]:
    """``low``, the lower ends of F1 and ROC-AUC, with those of this module where ``value`` is 1.

    ``positives`` are the independent rows, or clusters of rows, that have each class of the mean, and ``negatives`` those of other classes.
    """
    some, both = positives > 0, (positives > 0) & (negatives > 0)
    ends = low.copy()
    if value[0] == 1.0:
        ends[0] = _mean_below_1(2.0 * positives[some] / (2.0 * positives[some] + z * z))
    if value[1] == 1.0:
        sides = zip(positives[both], negatives[both], strict=True)
        ends[1] = _mean_below_1(
            np.array([newcombe_interval(1.0, *numbers, z)[0] for numbers in sides])
        )
    return ends


def _mean_below_1(ends: Float[np.ndarray, " K"]) -> float:
    return (
        max(1.0 - float(np.sqrt(np.square(1.0 - ends).sum())) / len(ends), 0.0)
        if len(ends)
        else np.nan
    )
