"""The partial rank correlation of ContextCite's linear datamodeling score, as textbooks write it."""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata


def partial_spearman(lost: list[list[int]], score: np.ndarray, change: np.ndarray) -> float:
    """From the three rank correlations of the loss, the change and the number of words."""
    loss = [sum(score[t] for t in copy) for copy in lost]
    number = [len(copy) for copy in lost]
    pairs = ((loss, change), (loss, number), (change, number))
    xy, xn, yn = (float(np.corrcoef(rankdata(a), rankdata(b))[0, 1]) for a, b in pairs)
    return float((xy - xn * yn) / np.sqrt((1 - xn**2) * (1 - yn**2)))


def log_odds(prediction: np.ndarray, predicted: int) -> np.ndarray:
    """Of a class against the others, of every copy."""
    ours = prediction[:, predicted] if prediction.shape[1] > 1 else prediction[:, 0]
    ours = 1.0 - ours if prediction.shape[1] == 1 and predicted == 0 else ours
    return np.log(ours) - np.log(1.0 - ours)
