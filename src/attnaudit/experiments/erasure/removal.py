"""Weights removed in the order of a ranking, the rest rescaled to sum to 1, and the decision read out again: one row, compiled.

What is left of the attention after the removal of ``S`` gives ``offset + Σ_{t∉S} alpha_t · contribution_t / Σ_{t∉S} alpha_t``: no encoder
runs again. Sums are taken over what is left, from the last position removed towards the first, so that nothing cancels. A removal that
leaves no weight leaves no attention, and counts as none.

Rankings are random, by attention, by the gradient of the decision by each weight, and by the product of the two. The weights taken as
free, ``∂p_max/∂alpha_t`` is the derivative of the decided class's probability along ``contribution_t``: it comes from the readout alone.
Any positive factor leaves the order as it is, so that the log-odds of the decided class against the others are differentiated in place of
its probability: where that is 1 to machine precision the order is still defined.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from attnaudit.core.arrays import divide, largest_size, numbers_below
from attnaudit.core.kernels import subroutine
from attnaudit.core.random import shuffle
from attnaudit.core.references import by_reference
from attnaudit.experiments.compiled_readout import (
    Head,
    logits_into,
    pool,
    pooled_logits,
    predict_into,
    pull_back,
    tvd_row,
)

RANKINGS = ("random", "attention", "gradient", "gradient_attention")
SLACK = 1e-13  # of the size of what is added up


@by_reference
@dataclass(frozen=True)
class Row:
    """One row of a trace: its attention ``weights`` (T,), what each position contributes (T, P), the offset (P,), the head.

    Logits no farther apart than ``slack`` count as equal: far more than rounding makes of equal ones, far less than matters.
    """

    weights: np.ndarray
    contribution: np.ndarray
    offset: np.ndarray
    head: Head
    slack: float


@subroutine
def row_of(parts):
    """A row from its `row_parts`."""
    weights, contribution, offset, head = parts
    return Row(weights, contribution, offset, head, _slack(contribution, offset, head))


@subroutine
def _slack(contribution, offset, head):
    largest, total = 0.0, 0.0
    if head.tail:
        for p in range(len(offset)):
            for c in range(len(head.bias)):
                total += abs(head.weight[p, c])
        return SLACK * (largest_size(head.bias) + 1.0) * max(total, 1.0)
    for t in range(len(contribution)):
        largest = max(largest, largest_size(contribution[t]))
    return SLACK * (largest_size(offset) + largest)


@subroutine
def own_sum(row):
    """The attended sum under the model's own attention."""
    return pool(row.weights, row.contribution, row.offset)


@subroutine
def decision(logits, row):
    """The class decided for: of one sigmoid output class 1 from 0 upwards, else the first of the largest that are allowed."""
    if row.head.sigmoid:
        return 1 if logits[0] >= -row.slack else 0
    highest = -math.inf
    for c in range(len(logits)):
        if row.head.allowed[c]:
            highest = max(highest, logits[c])
    for c in range(len(logits)):
        if row.head.allowed[c] and logits[c] >= highest - row.slack:
            return c
    return -1


@subroutine
def random_order(size, stream, number):
    """Random order ``number`` of a row."""
    order = numbers_below(size)
    shuffle(order, stream, number)
    return order


@subroutine
def weight_gradient(row, decided):
    """``∂ log-odds of the decided class / ∂alpha_t`` at the model's own attention, ``(T,)``."""
    pooled = own_sum(row)
    slopes = np.zeros(len(row.head.allowed))
    if row.head.sigmoid:
        slopes[0] = 1.0 if decided == 1 else -1.0
    else:
        _against_the_others(pooled_logits(pooled, row.head), row.head.allowed, decided, slopes)
    return along(row.contribution, pull_back(pooled, row.head, slopes))


@subroutine
def along(contribution, pull):
    """What every position contributes along ``pull``, ``(T,)``."""
    total = np.zeros(len(contribution))
    for t in range(len(contribution)):
        for p in range(len(pull)):
            total[t] += contribution[t, p] * pull[p]
    return total


@subroutine
def _against_the_others(logits, allowed, decided, slopes):
    """``∂(z_y − log Σ_{c≠y} exp z_c)/∂z``: 1 for the decided class, minus the softmax of the others among themselves."""
    highest, total = -math.inf, 0.0
    for c in range(len(logits)):
        if allowed[c] and c != decided:
            highest = max(highest, logits[c])
    for c in range(len(logits)):
        if allowed[c] and c != decided:
            slopes[c] = -math.exp(logits[c] - highest)
            total -= slopes[c]
    if total > 0.0:
        divide(slopes, total)
        slopes[decided] = 1.0


@subroutine
def left_after(order, weights, contribution):
    """For every number of removals, 0 to T, the weight that is left ``(T + 1,)`` and its contributions ``(T + 1, P)``."""
    size, width = contribution.shape
    mass, moment = np.zeros(size + 1), np.zeros((size + 1, width))
    for k in range(size - 1, -1, -1):
        t = order[k]
        mass[k] = mass[k + 1] + weights[t]
        for p in range(width):
            moment[k, p] = moment[k + 1, p] + weights[t] * contribution[t, p]
    return mass, moment


@subroutine
def left_without(removed, row):
    """The weight that is left without the positions marked in ``removed``, and its contributions ``(P,)``."""
    mass, moment = 0.0, np.zeros(len(row.offset))
    for t in range(len(removed)):
        if not removed[t]:
            mass += row.weights[t]
            for p in range(len(moment)):
                moment[p] += row.weights[t] * row.contribution[t, p]
    return mass, moment


@subroutine
def sum_left(row, mass, moment):
    """The attended sum of what is left, its weights divided by their sum."""
    pooled = np.empty(len(moment))
    for p in range(len(moment)):
        pooled[p] = row.offset[p] + moment[p] / mass
    return pooled


@subroutine
def first_flip(order, row, decided):
    """After how many removals in this order the decision is another one, and the weight removed; 0 where it never is.

    And how many removals were observed: those until that flip, else until no weight is left, which is all unless some weights are 0.
    """
    mass, moment = left_after(order, row.weights, row.contribution)
    pooled, logits = np.empty(len(row.offset)), np.empty(len(row.head.bias))
    for k in range(1, len(order)):
        if mass[k] > 0.0:
            for p in range(len(pooled)):
                pooled[p] = row.offset[p] + moment[k, p] / mass[k]
            logits_into(logits, pooled, row.head)
            if decision(logits, row) != decided:
                return k, mass[0] - mass[k], k
    last = len(order)
    while mass[last - 1] == 0.0:
        last -= 1
    return 0, 0.0, last


@subroutine
def fewest_kept(order, row, target, epsilon):
    """How many of the first in this order must be kept, and all others removed, for an output within TVD ``epsilon`` of ``target``."""
    mass, moment = 0.0, np.zeros(len(row.offset))
    pooled, prediction = np.empty(len(row.offset)), np.empty(len(target))
    for k in range(len(order) - 1):
        weight = row.weights[order[k]]
        mass += weight
        for p in range(len(pooled)):
            moment[p] += weight * row.contribution[order[k], p]
            pooled[p] = row.offset[p] + moment[p] / mass if mass > 0.0 else 0.0
        if mass > 0.0:
            predict_into(prediction, pooled, row.head)
            if tvd_row(prediction, target) <= epsilon:
                return k + 1
    return len(order)
