"""The readout from the attended sum onwards, for compiled kernels: with an identity tail, or through ``W₂ tanh(·) + b₂``."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from attnaudit.core.kernels import kernel
from attnaudit.experiments.readout_identity import compiled_arguments
from attnaudit.stats.kernel_arrays import for_kernel
from attnaudit.trace.readout import Readout, TanhTail


class Head(NamedTuple):
    """What turns an attended sum into a prediction: ``weight`` (P, C) and ``bias`` (C,) where ``tail``; the answers ``allowed`` (C,)."""

    weight: np.ndarray
    bias: np.ndarray
    tail: bool
    allowed: np.ndarray
    sigmoid: bool


def pooled_arguments(readout: Readout) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool, np.ndarray, np.ndarray, bool]:
    """Contributions ``(N, P)``, offsets ``(n, P)``, allowed answers ``(n, C)``, sigmoid or not, weights ``(P, C)`` and bias of the tail.

    One sigmoid output behind a tail is given as two classes, the logit of the first 0.
    """
    tail = readout.tail
    if not isinstance(tail, TanhTail):
        outputs = readout.offset.shape[1]
        return *compiled_arguments(readout), np.zeros((0, outputs)), np.zeros(outputs), False
    weight, bias = np.asarray(tail.weight, np.float64).T, np.asarray(tail.bias, np.float64)
    if readout.activation == "sigmoid":
        weight, bias = np.hstack([np.zeros_like(weight), weight]), np.concatenate([np.zeros_like(bias), bias])
    shape = len(readout.offset), len(bias)
    allowed = np.ones(shape, np.bool_) if readout.candidates is None else for_kernel(readout.candidates, np.bool_)
    return for_kernel(readout.contribution.values), for_kernel(readout.offset), allowed, False, for_kernel(weight), for_kernel(bias), True


@kernel
def pool(weights, contribution, offset, pooled):
    """``offset + Σ_t weights_t · contribution_t``, written into ``pooled``."""
    pooled[:] = offset
    for t in range(len(weights)):
        if weights[t] != 0.0:
            for p in range(len(pooled)):
                pooled[p] += weights[t] * contribution[t, p]


@kernel
def bent(x):
    """tanh x to 4e-16, in half the time of the library's."""
    return 1.0 - 2.0 / (math.exp(2.0 * x) + 1.0)


@kernel
def pooled_logits(pooled, head, logits):
    """What goes into the activation."""
    if not head.tail:
        logits[:] = pooled
        return
    logits[:] = head.bias
    for p in range(len(pooled)):
        value = bent(pooled[p])
        for c in range(len(logits)):
            logits[c] += value * head.weight[p, c]


@kernel
def pooled_prediction(pooled, head, prediction):
    """The prediction for an attended sum, written into ``prediction``."""
    pooled_logits(pooled, head, prediction)
    if head.sigmoid:
        for c in range(len(prediction)):
            prediction[c] = 1.0 / (1.0 + math.exp(-prediction[c]))
        return
    highest = -math.inf
    for c in range(len(prediction)):
        if head.allowed[c]:
            highest = max(highest, prediction[c])
    total = 0.0
    for c in range(len(prediction)):
        prediction[c] = math.exp(prediction[c] - highest) if head.allowed[c] else 0.0
        total += prediction[c]
    for c in range(len(prediction)):
        prediction[c] /= total


@kernel
def tangent(pooled, head, bend):
    """The slope of every tanh at an attended sum; 1 without a tail."""
    for p in range(len(pooled)):
        bend[p] = 1.0 - bent(pooled[p]) ** 2 if head.tail else 1.0


@kernel
def logit_slopes(bend, head, direction, classes, slopes):
    """How the logits of ``classes`` move when the attended sum moves along ``direction``, at the point whose tangent is ``bend``."""
    for k in range(len(classes)):
        slopes[k] = 0.0 if head.tail else direction[classes[k]]
    if head.tail:
        for p in range(len(bend)):
            along = bend[p] * direction[p]
            for k in range(len(classes)):
                slopes[k] += along * head.weight[p, classes[k]]


@kernel
def pull_back(pooled, head, slopes, pull):
    """``slopes`` by the logits as slopes by the attended sum, written into ``pull``: ∂tanh(x) = 1 − tanh²(x)."""
    if not head.tail:
        pull[:] = slopes
        return
    for p in range(len(pooled)):
        pull[p] = 0.0
        for c in range(len(slopes)):
            pull[p] += slopes[c] * head.weight[p, c]
        pull[p] *= 1.0 - bent(pooled[p]) ** 2
