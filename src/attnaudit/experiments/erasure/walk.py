"""Weights removed, the rest rescaled to sum to 1, and the decision read out again: one row, one order, compiled.

What is left of the attention after the removal of ``S`` gives ``offset + Σ_{t∉S} alpha_t · contribution_t / Σ_{t∉S} alpha_t``: no encoder
runs again. Sums are taken over what is left, from the last position to go towards the first, so that nothing cancels. A removal that
leaves no weight leaves no attention, and counts as none.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from attnaudit.core.kernels import kernel
from attnaudit.experiments.readout_identity import tvd_row
from attnaudit.experiments.readout_pooled import Head, pooled_logits, pooled_prediction

SLACK = 1e-13  # of the size of what is added up


class Row(NamedTuple):
    """One row of a trace: its attention ``weights`` (T,), what each position contributes (T, P), the offset (P,), the head.

    Logits no farther apart than ``slack`` count as equal: far more than rounding makes of equal ones, far less than matters.
    """

    weights: np.ndarray
    contribution: np.ndarray
    offset: np.ndarray
    head: Head
    slack: float


@kernel
def row_of(weights, contribution, offset, head):
    reach, gain = np.abs(offset).max() + np.abs(contribution).max() if len(weights) > 0 else 0.0, 1.0
    if head.tail:
        reach, gain = np.abs(head.bias).max() + 1.0, max(np.abs(head.weight).sum(), 1.0)
    return Row(weights, contribution, offset, head, SLACK * reach * gain)


@kernel
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


@kernel
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


@kernel
def first_flip(order, row, decided):
    """After how many removals in this order the decision is another one, and the weight that went; 0 where it never is."""
    mass, moment = left_after(order, row.weights, row.contribution)
    logits = np.empty(len(row.head.allowed))
    for k in range(1, len(order)):
        if mass[k] > 0.0:
            pooled_logits(row.offset + moment[k] / mass[k], row.head, logits)
            if decision(logits, row) != decided:
                return k, mass[0] - mass[k]
    return 0, 0.0


@kernel
def fewest_kept(order, row, target, epsilon):
    """How many of the first in this order must be kept, and all others removed, for an output within TVD ``epsilon`` of ``target``."""
    mass, moment, prediction = 0.0, np.zeros(len(row.offset)), np.empty(len(target))
    for k in range(len(order) - 1):
        weight = row.weights[order[k]]
        mass += weight
        moment += weight * row.contribution[order[k]]
        if mass > 0.0:
            pooled_prediction(row.offset + moment / mass, row.head, prediction)
            if tvd_row(prediction, target) <= epsilon:
                return k + 1
    return len(order)


@kernel
def without_one(gone, row, prediction, logits):
    """Logits and prediction without the position ``gone``; false where that leaves no weight."""
    mass, moment = 0.0, np.zeros(len(row.offset))
    for t in range(len(row.weights)):
        if t != gone:
            mass += row.weights[t]
            moment += row.weights[t] * row.contribution[t]
    if mass > 0.0:
        pooled_logits(row.offset + moment / mass, row.head, logits)
        pooled_prediction(row.offset + moment / mass, row.head, prediction)
    return mass > 0.0
