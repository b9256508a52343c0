"""In which order to remove: by chance, by attention, by the gradient of the decision by each weight, by the product of both.

The weights taken as free, ``∂p_max/∂alpha_t`` is the derivative of the decided class's probability along ``contribution_t``: it comes from
the readout alone. Any positive factor leaves the order as it is, so that the log-odds of the decided class against the others are
differentiated in place of its probability: where that is 1 to machine precision the order still stands.
"""

from __future__ import annotations

import math

import numpy as np

from attnaudit.core.kernels import kernel
from attnaudit.core.random import draw_below
from attnaudit.experiments.readout_pooled import pool, pooled_logits, pull_back
from attnaudit.stats.ordering import ascending

RANKINGS = ("random", "attention", "gradient", "gradient_attention")


@kernel
def descending(score):
    """Positions from the largest score to the smallest, equal ones as they stand."""
    return ascending(-score)


@kernel
def by_chance(size, stream, number):
    """Random order ``number`` of a row (Fisher & Yates)."""
    order = np.arange(size)
    for k in range(size - 1, 0, -1):
        other = draw_below(stream, number * size + k, k + 1)
        order[k], order[other] = order[other], order[k]
    return order


@kernel
def weight_gradient(row, decided):
    """``∂ log-odds of the decided class / ∂alpha_t`` at the model's own attention, ``(T,)``."""
    pooled, pull = np.empty_like(row.offset), np.empty_like(row.offset)
    logits, slopes = np.empty(len(row.head.allowed)), np.zeros(len(row.head.allowed))
    pool(row.weights, row.contribution, row.offset, pooled)
    pooled_logits(pooled, row.head, logits)
    if row.head.sigmoid:
        slopes[0] = 1.0 if decided == 1 else -1.0
    else:
        _against_the_others(logits, row.head.allowed, decided, slopes)
    pull_back(pooled, row.head, slopes, pull)
    return along(row.contribution, pull)


@kernel
def along(contribution, pull):
    """What every position contributes along ``pull``, ``(T,)``."""
    total = np.zeros(len(contribution))
    for t in range(len(contribution)):
        for p in range(len(pull)):
            total[t] += contribution[t, p] * pull[p]
    return total


@kernel
def _against_the_others(logits, allowed, decided, slopes):
    """``∂(z_y − log Σ_{c≠y} exp z_c)/∂z``: 1 for the decided class, less the softmax of the others among themselves."""
    highest = -math.inf
    for c in range(len(logits)):
        if allowed[c] and c != decided:
            highest = max(highest, logits[c])
    total = 0.0
    for c in range(len(logits)):
        if allowed[c] and c != decided:
            slopes[c] = -math.exp(logits[c] - highest)
            total -= slopes[c]
    if total > 0.0:
        slopes /= total
        slopes[decided] = 1.0
