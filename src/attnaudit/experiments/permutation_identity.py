"""Shuffled attention, compiled: T·P numbers per instance are all that a shuffle has to touch."""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange

from attnaudit.ragged import Ragged
from attnaudit.readout import Readout
from attnaudit.stats.keyed_random import draw_below


def median_change(readout: Readout, alpha: Ragged, streams: np.ndarray, permutations: int) -> np.ndarray:
    """Median over shuffles of ``alpha`` of TVD(readout(shuffled), readout(alpha)), for an identity tail, ``(n,)``."""
    classes = readout.offset.shape[1]
    allowed = np.ones((len(alpha), classes), np.bool_) if readout.candidates is None else np.ascontiguousarray(readout.candidates)
    median = np.empty(len(alpha))
    contribution = np.require(readout.contribution.values, np.float64, "CW")
    offset = np.require(readout.offset, np.float64, "CW")
    weights = np.require(alpha.values, np.float64, "CW")
    _median_rows(weights, alpha.offsets, contribution, offset, allowed, readout.activation == "sigmoid", streams, permutations, median)
    return median


@njit(cache=True, parallel=True)
def _median_rows(alpha, offsets, contribution, offset, allowed, sigmoid, streams, permutations, median):
    """After the encoder the logits are ``offset + Σ_t alpha_t · contribution_t``: a shuffle costs T additions, not a model run."""
    classes = contribution.shape[1]
    for row in prange(len(streams)):
        start, stop = offsets[row], offsets[row + 1]
        weights, rows = alpha[start:stop].copy(), contribution[start:stop]
        baseline, shuffled = np.empty(classes), np.empty(classes)
        change = np.empty(permutations)
        _predict(weights, rows, offset[row], allowed[row], sigmoid, baseline)
        for k in range(permutations):
            shuffle(weights, streams[row], k)
            _predict(weights, rows, offset[row], allowed[row], sigmoid, shuffled)
            distance = 0.0
            for c in range(classes):
                distance += abs(shuffled[c] - baseline[c])
            change[k] = distance if classes == 1 else 0.5 * distance
        median[row] = np.median(change)


@njit(cache=True)
def _predict(weights, rows, offset, allowed, sigmoid, prediction):
    prediction[:] = offset
    for t in range(len(weights)):
        for c in range(len(prediction)):
            prediction[c] += weights[t] * rows[t, c]
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


@njit(cache=True)
def shuffle(weights, stream, k):
    """Shuffle number ``k`` of a row, in place (Fisher & Yates); a shuffle of a shuffle is as random as one of the original."""
    size = len(weights)
    for t in range(size - 1, 0, -1):
        other = draw_below(stream, k * size + t, t + 1)
        weights[t], weights[other] = weights[other], weights[t]


@njit(cache=True, parallel=True)
def shuffle_rows(values, offsets, streams, k):
    """Shuffle number ``k`` of every row of flat ``values``, in place."""
    for row in prange(len(streams)):
        shuffle(values[offsets[row] : offsets[row + 1]], streams[row], k)
