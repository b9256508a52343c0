"""The exact adversary by brute force: every token, and every pair of tokens walked from end to end."""

from itertools import combinations

import numpy as np

from tests.oracles.readout import naive_jsd, naive_readout, naive_tvd


def brute_force_adversary(trace, row, epsilon, slack=1e-12):
    """The largest JSD, and its attention, over α itself, single tokens and the ends of the feasible parts of all pairs."""
    alpha = trace.alpha[row]
    predict = naive_readout(trace, row)
    before = predict(alpha)
    best, furthest = 0.0, alpha
    for candidate in _candidates(trace, row, epsilon):
        distance = naive_tvd(predict(candidate), before)
        if distance <= epsilon + slack and naive_jsd(candidate, alpha) > best:
            best, furthest = naive_jsd(candidate, alpha), candidate
    return best, furthest


def _candidates(trace, row, epsilon):
    unit = np.eye(len(trace.alpha[row]))
    predict = naive_readout(trace, row)
    before = predict(trace.alpha[row])[-1]
    yield from unit
    for i, j in combinations(range(len(unit)), 2):
        for target in (before - epsilon, before + epsilon):
            weight = _crossing(
                lambda w, i=i, j=j: predict(w * unit[i] + (1 - w) * unit[j])[-1], target
            )
            if weight is not None:
                yield weight * unit[i] + (1 - weight) * unit[j]


def _crossing(probability, target):
    """Where the probability, monotone in the weight, meets the target."""
    if not (probability(0.0) - target) * (probability(1.0) - target) < 0:
        return None
    low, high, rising = 0.0, 1.0, probability(1.0) > target
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if (probability(middle) > target) == rising else (middle, high)
    return (low + high) / 2
