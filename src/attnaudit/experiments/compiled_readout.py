"""The readout of one row, for compiled kernels: with an identity tail, or from the attended sum through ``W₂ tanh(·) + b₂``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnaudit.core.arrays import divide, taken
from attnaudit.core.kernels import for_kernel, subroutine
from attnaudit.core.ragged import Ragged
from attnaudit.core.references import by_reference
from attnaudit.trace.readout import Readout
from attnaudit.trace.tails import TanhTail


@by_reference
@dataclass(frozen=True)
class Head:
    """What turns an attended sum into a prediction: ``weight`` (P, C) and ``bias`` (C,) where ``tail``; the answers ``allowed`` (C,)."""

    weight: np.ndarray
    bias: np.ndarray
    tail: bool
    allowed: np.ndarray
    sigmoid: bool


def kernel_rows(readout: Readout, alpha: Ragged) -> tuple[Any, ...]:
    """All rows as `row_parts` takes them apart.

    One sigmoid output behind a tail is given as two classes, the logit of the first 0.
    """
    outputs, sigmoid = readout.offset.shape[1], readout.activation == "sigmoid"
    weight, bias = np.zeros((0, outputs)), np.zeros(outputs)
    tail = isinstance(readout.tail, TanhTail)
    if isinstance(readout.tail, TanhTail):
        weight, bias = (
            np.asarray(readout.tail.weight, np.float64).T,
            np.asarray(readout.tail.bias, np.float64),
        )
        if sigmoid:
            weight, bias = (
                np.hstack([np.zeros_like(weight), weight]),
                np.concatenate([np.zeros_like(bias), bias]),
            )
    allowed = (
        np.ones((len(alpha), len(bias)), np.bool_)
        if readout.candidates is None
        else for_kernel(readout.candidates, np.bool_)
    )
    contribution, offset = for_kernel(readout.contribution.values), for_kernel(readout.offset)
    head = for_kernel(weight), for_kernel(bias), tail, allowed, sigmoid and not tail
    return for_kernel(alpha.values), alpha.offsets, contribution, offset, *head


@subroutine
def row_parts(rows, i):
    """Row ``i`` of `kernel_rows`: attention (T,), contributions (T, P), offset (P,) and head."""
    alpha, offsets, contribution, offset, weight, bias, tail, allowed, sigmoid = rows
    start, stop = offsets[i], offsets[i + 1]
    return (
        alpha[start:stop],
        contribution[start:stop],
        offset[i],
        Head(weight, bias, tail, allowed[i], sigmoid),
    )


@subroutine
def pool(weights, contribution, offset):
    """The attended sum, ``offset + Σ_t weights_t · contribution_t``."""
    pooled = offset.copy()
    for t in range(len(weights)):
        if weights[t] != 0.0:
            for p in range(len(pooled)):
                pooled[p] += weights[t] * contribution[t, p]
    return pooled


@subroutine
def fast_tanh(x):
    """tanh x to 4e-16, in half the time of the library's."""
    return 1.0 - 2.0 / (math.exp(2.0 * x) + 1.0)


@subroutine
def pooled_logits(pooled, head):
    """The logits for an attended sum."""
    logits = np.empty(len(head.bias))
    logits_into(logits, pooled, head)
    return logits


@subroutine
def logits_into(logits, pooled, head):
    """`pooled_logits`, written into ``logits``: an array for each call would take as long as a short row."""
    for c in range(len(logits)):
        logits[c] = head.bias[c] if head.tail else pooled[c]
    if head.tail:
        for p in range(len(pooled)):
            value = fast_tanh(pooled[p])
            for c in range(len(logits)):
                logits[c] += value * head.weight[p, c]


@subroutine
def pooled_prediction(pooled, head):
    """The prediction for an attended sum."""
    prediction = np.empty(len(head.bias))
    predict_into(prediction, pooled, head)
    return prediction


@subroutine
def predict_into(prediction, pooled, head):
    """`pooled_prediction`, written into ``prediction``."""
    logits_into(prediction, pooled, head)
    activate_into(prediction, head.allowed, head.sigmoid)


@subroutine
def activate_into(prediction, allowed, sigmoid):
    """Logits replaced by their probabilities; in a loop over many of one row, `Head` costs more than the exponential."""
    if sigmoid:
        prediction[0] = 1.0 / (1.0 + math.exp(-prediction[0]))
        return
    highest, total = -math.inf, 0.0
    for c in range(len(prediction)):
        if allowed[c]:
            highest = max(highest, prediction[c])
    for c in range(len(prediction)):
        prediction[c] = math.exp(prediction[c] - highest) if allowed[c] else 0.0
        total += prediction[c]
    divide(prediction, total)


@subroutine
def tanh_slopes(pooled, head):
    """The slope of every tanh at an attended sum; 1 without a tail."""
    slopes = np.empty(len(pooled))
    for p in range(len(pooled)):
        slopes[p] = 1.0 - fast_tanh(pooled[p]) ** 2 if head.tail else 1.0
    return slopes


@subroutine
def logit_slopes(bend, head, direction, classes):
    """How the logits of ``classes`` move when the attended sum moves along ``direction``, where ``bend`` is `tanh_slopes`."""
    if not head.tail:
        return taken(direction, classes)
    slopes = np.zeros(len(classes))
    for p in range(len(bend)):
        along = bend[p] * direction[p]
        for k in range(len(classes)):
            slopes[k] += along * head.weight[p, classes[k]]
    return slopes


@subroutine
def pull_back(pooled, head, slopes):
    """``slopes`` by the logits as slopes by the attended sum: ∂tanh(x) = 1 − tanh²(x)."""
    if not head.tail:
        return slopes
    pull, bend = np.zeros(len(pooled)), tanh_slopes(pooled, head)
    for p in range(len(pooled)):
        for c in range(len(slopes)):
            pull[p] += slopes[c] * head.weight[p, c]
        pull[p] *= bend[p]
    return pull


@subroutine
def tvd_row(p, q):
    """Total variation distance of two predictions; a single column is the probability of class 1."""
    distance = 0.0
    for c in range(len(p)):
        distance += abs(p[c] - q[c])
    return distance if len(p) == 1 else 0.5 * distance
