"""The attention of largest value whose output moves by ε at most to first order, as one linear program of scipy."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog


def naive_value(
    log_odds: np.ndarray,
    own: np.ndarray,
    slopes: np.ndarray,
    limit: float,
    low: np.ndarray,
    high: np.ndarray,
) -> float:
    """The largest ``slopes · w``, and NaN where no attention w is within; a gain of each class is a variable of its own."""
    tokens, classes = log_odds.shape
    jacobian = np.diag(own) - np.outer(own, own)  # of the softmax
    found = linprog(
        np.concatenate([-slopes, np.zeros(classes)]),
        A_ub=np.vstack(
            [
                np.hstack([jacobian @ log_odds.T, -np.eye(classes)]),
                np.repeat([0.0, 1.0], [tokens, classes]),
            ]
        ),
        b_ub=np.append(np.zeros(classes), limit),
        A_eq=np.repeat([1.0, 0.0], [tokens, classes])[None],
        b_eq=[1.0],
        bounds=[*zip(low, high, strict=True), *[(0.0, None)] * classes],
    )
    return -found.fun if found.success else float("nan")


def naive_distance(log_odds: np.ndarray, own: np.ndarray, weights: np.ndarray) -> float:
    """TVD moved by attention ``weights``, to first order."""
    return 0.5 * float(np.abs((np.diag(own) - np.outer(own, own)) @ (weights @ log_odds)).sum())
