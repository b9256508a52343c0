"""Evidence for classes from nothing but predictions: one position at a time, by loops."""

import math

import numpy as np

from tests.oracles.readout import naive_readout


def naive_evidence(trace, row, of_class):
    """Of each position: what it adds to the class under this attention, and what its removal takes.

    The first is on the scale ln p less the mean ln p of the other classes, by which a linear model
    adds: a position with all of the attention has its own number. The second is in log-odds.
    """
    predict, alpha = naive_readout(trace, row), trace.alpha[row]

    def numbers(weights):
        found = predict(weights)
        both = [1 - found[0], found[0]] if len(found) == 1 else found
        others = [p for c, p in enumerate(both) if c != of_class and p > 0]
        logs = [math.log(p) for p in others]
        own = math.log(both[of_class])
        return own - sum(logs) / len(logs), own - math.log(sum(others))

    each = [numbers(weights)[0] for weights in np.eye(len(alpha))]
    evidence = [w * (one - sum(each) / len(each)) for w, one in zip(alpha, each, strict=True)]
    falls = []
    for t in range(len(alpha)):
        left = np.array([0.0 if s == t else w for s, w in enumerate(alpha)])
        falls.append(numbers(alpha)[1] - numbers(left / left.sum())[1])
    return evidence, falls


def naive_share(weights, score):
    """Of the weights on positions with a negative score."""
    return sum(w for w, s in zip(weights, score, strict=True) if s < 0) / sum(weights)
