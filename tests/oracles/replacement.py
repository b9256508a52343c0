"""The partial rank correlation of ContextCite's linear datamodeling score, as textbooks write it."""

import numpy as np
from scipy.stats import rankdata


def partial_spearman(lost, score, change):
    """From the three rank correlations of the loss, the change and the number of words."""
    loss = [sum(score[t] for t in copy) for copy in lost]
    number = [len(copy) for copy in lost]
    pairs = ((loss, change), (loss, number), (change, number))
    xy, xn, yn = (float(np.corrcoef(rankdata(a), rankdata(b))[0, 1]) for a, b in pairs)
    return float((xy - xn * yn) / np.sqrt((1 - xn**2) * (1 - yn**2)))


def log_odds(prediction, predicted):
    """Of a class against the most probable other one, of every copy."""
    two = prediction if prediction.shape[1] > 1 else np.hstack([1 - prediction, prediction])
    others = [max(p for k, p in enumerate(row) if k != predicted) for row in two]
    return np.log(two[:, predicted]) - np.log(others)


def naive_score(trace, row, score):
    """What the copies of a row give a score."""
    runs = np.array(trace.cell("replaced_prediction", row))
    change = matched_change(trace.prediction[row], runs, int(trace.predicted[row]))
    return partial_spearman(trace.cell("replaced", row), score, change)


def matched_change(own, runs, predicted):
    """Of the probability of a class against the next, with logits such that the text has 0.9."""
    scale = np.log(9.0) / log_odds(own[None], predicted)
    return np.round(np.abs(1 / (1 + np.exp(-scale * log_odds(runs, predicted))) - 0.9), 5)
