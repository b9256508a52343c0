"""The readout with an identity tail, one row at a time, for compiled kernels."""

from __future__ import annotations

import math

import numpy as np

from attnaudit.core.kernels import kernel
from attnaudit.stats.kernel_arrays import for_kernel
from attnaudit.trace.readout import Readout


def compiled_arguments(readout: Readout) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool]:
    """Contributions ``(N, C)``, offsets ``(n, C)``, allowed answers ``(n, C)`` and whether the activation is a sigmoid."""
    contribution = for_kernel(readout.contribution.values)
    offset = for_kernel(readout.offset)
    allowed = np.ones(offset.shape, np.bool_) if readout.candidates is None else for_kernel(readout.candidates, np.bool_)
    return contribution, offset, allowed, readout.activation == "sigmoid"


@kernel
def predict_row(weights, contribution, offset, allowed, sigmoid, prediction):
    """``prediction = activation(offset + Σ_t weights_t · contribution_t)``, written into ``prediction``: T·C additions, no model."""
    prediction[:] = offset
    for t in range(len(weights)):
        for c in range(len(prediction)):
            prediction[c] += weights[t] * contribution[t, c]
    if sigmoid:
        for c in range(len(prediction)):
            prediction[c] = 1.0 / (1.0 + math.exp(-prediction[c]))
        return
    highest = -math.inf
    for c in range(len(prediction)):
        if allowed[c]:
            highest = max(highest, prediction[c])
    total = 0.0
    for c in range(len(prediction)):
        prediction[c] = math.exp(prediction[c] - highest) if allowed[c] else 0.0
        total += prediction[c]
    for c in range(len(prediction)):
        prediction[c] /= total


@kernel
def tvd_row(p, q):
    """Total variation distance of two predictions; a single column is the probability of class 1."""
    distance = 0.0
    for c in range(len(p)):
        distance += abs(p[c] - q[c])
    return distance if len(p) == 1 else 0.5 * distance
