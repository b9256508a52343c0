"""The relaxed adversary of Jain & Wallace 2019, Algorithm 3: gradient search for k attentions far from â and from each other.

It minimises −Σ_i JSD(α⁽ⁱ⁾, â) − 1/(k(k−1)) Σ_{i<j} JSD(α⁽ⁱ⁾, α⁽ʲ⁾) + λ/k Σ_i max(0, TVD(ŷ⁽ⁱ⁾, ŷ) − ε) over α⁽ⁱ⁾ = softmax(u⁽ⁱ⁾).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, UInt64

from attnaudit.core.arrays import divide, largest_of
from attnaudit.core.kernels import kernel, over_rows, subroutine
from attnaudit.core.ragged import Ragged
from attnaudit.core.random import draw_normal
from attnaudit.experiments.compiled_readout import (
    kernel_rows,
    pool,
    pooled_prediction,
    pull_back,
    row_parts,
    tvd_row,
)
from attnaudit.trace.readout import Readout


@dataclass(frozen=True)
class Search:
    """Settings of the search; the paper's values are the defaults."""

    epsilon: float = 0.01
    k: int = 5
    steps: int = 500
    learning_rate: float = 0.01
    penalty: float = 500.0


def search_attentions(
    readout: Readout, alpha: Ragged, streams: UInt64[np.ndarray, " n"], search: Search
) -> Float[np.ndarray, "N k"]:
    """The k attentions of every row that the search ends with, side by side; some may be out of ε."""
    found = np.empty((search.k, len(alpha.values)))
    over_rows(
        _search_rows,
        len(alpha),
        kernel_rows(readout, alpha),
        alpha.offsets,
        streams,
        search_limits(search),
        found,
    )
    return np.ascontiguousarray(found.T)


def search_limits(search: Search) -> tuple[float, float, int, float]:
    """What `search_row` takes of the settings."""
    return float(search.epsilon), float(search.penalty), search.steps, float(search.learning_rate)


@kernel
def _search_rows(first, last, rows, offsets, streams, limits, found):
    for i in range(first, last):
        start, stop = offsets[i], offsets[i + 1]
        found[:, start:stop] = search_row(
            starting_scores(streams[i], len(found), stop - start), row_parts(rows, i), limits
        )


@subroutine
def starting_scores(stream, k, length):
    """Where the search starts, (k, T): log-uniform attention plus 3 · N(0, 1) in every score."""
    scores = np.empty((k, length))
    for i in range(k):
        for t in range(length):
            scores[i, t] = 3.0 * draw_normal(stream, i * length + t) - math.log(length)
    return scores


@subroutine
def search_row(scores, parts, limits):
    """Adam with AMSGrad (Reddi et al. 2018) on ``scores``, in place; returns the attentions they end with."""
    epsilon, penalty, steps, learning_rate = limits
    alpha, contribution, offset, head = parts
    target = pooled_prediction(pool(alpha, contribution, offset), head)
    mean, square, largest = np.zeros(scores.shape), np.zeros(scores.shape), np.zeros(scores.shape)
    for step in range(1, steps + 1):
        slope = loss_slope(scores, parts, target, epsilon, penalty)
        rate, correction = learning_rate / (1.0 - 0.9**step), math.sqrt(1.0 - 0.999**step)
        for i in range(scores.shape[0]):
            for t in range(scores.shape[1]):
                mean[i, t] += 0.1 * (slope[i, t] - mean[i, t])
                square[i, t] += 0.001 * (slope[i, t] * slope[i, t] - square[i, t])
                largest[i, t] = max(largest[i, t], square[i, t])
                scores[i, t] -= rate * mean[i, t] / (math.sqrt(largest[i, t]) / correction + 1e-8)
    return _softmax_rows(scores)


@subroutine
def _softmax_rows(scores):
    weights = np.empty(scores.shape)
    for i in range(scores.shape[0]):
        largest, total = largest_of(scores[i]), 0.0
        for t in range(scores.shape[1]):
            weights[i, t] = math.exp(scores[i, t] - largest)
            total += weights[i, t]
        divide(weights[i], total)
    return weights


@subroutine
def loss_slope(scores, parts, target, epsilon, penalty):
    """∂loss/∂scores, derived manually: ∂JSD(p, q)/∂p = ½ ln(2p/(p+q)), and through a softmax g becomes p (g − Σ p g)."""
    alpha, contribution, offset, head = parts
    k, length = scores.shape
    weights, slope = _softmax_rows(scores), np.empty(scores.shape)
    for i in range(k):
        pooled = pool(weights[i], contribution, offset)
        prediction = pooled_prediction(pooled, head)
        outside = tvd_row(prediction, target) > epsilon
        pull = (
            pull_back(pooled, head, _logit_slopes(prediction, target, head.sigmoid))
            if outside
            else offset
        )
        mean = 0.0
        for t in range(length):
            slope[i, t] = -_divergence_slope(weights, i, t, alpha[t])
            if outside:
                for p in range(len(pull)):
                    slope[i, t] += penalty / k * pull[p] * contribution[t, p]
            mean += weights[i, t] * slope[i, t]
        for t in range(length):
            slope[i, t] = weights[i, t] * (slope[i, t] - mean)
    return slope


@subroutine
def _divergence_slope(weights, i, t, old):
    """How the divergences grow with weight t of attention i."""
    k, weight = len(weights), max(weights[i, t], 1e-300)
    among = 0.0
    for j in range(k):
        if j != i:
            among += 0.5 * math.log(2.0 * weight / (weight + weights[j, t]))
    return 0.5 * math.log(2.0 * weight / (weight + old)) + (
        among / (k * (k - 1.0)) if k > 1 else 0.0
    )


@subroutine
def _logit_slopes(prediction, target, sigmoid):
    """∂TVD/∂logits, of one sigmoid output or of a softmax."""
    sign, slopes, mean = np.empty(len(prediction)), np.empty(len(prediction)), 0.0
    for c in range(len(prediction)):
        sign[c] = 1.0 if prediction[c] > target[c] else -1.0 if prediction[c] < target[c] else 0.0
        mean += 0.5 * sign[c] * prediction[c]
    for c in range(len(prediction)):
        slopes[c] = (
            sign[c] * prediction[c] * (1.0 - prediction[c])
            if sigmoid
            else prediction[c] * (0.5 * sign[c] - mean)
        )
    return slopes
