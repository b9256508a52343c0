"""A tanh tail between two parallel planes, over a box of attentions: what a linear program can know of it.

Over the box every entry x_p of the attended sum stays in an interval [a, b]; there tanh x lies between k x + m⁻ and k x + m⁺, with k the
slope of the chord and m± the extremes of tanh x − k x, at the ends or where the slope of tanh is k. The logits are then linear in the
attention but for an error of at most Σ_p |W_p| (m⁺ − m⁻)/2, which shrinks with the box.
"""

from __future__ import annotations

import math

import numpy as np

from attnaudit.core.kernels import kernel
from attnaudit.experiments.readout_pooled import bent

ROUNDING = 1e-12


@kernel
def attended_range(contribution, offset, box, floor, ceiling):
    """Between what values every entry of the attended sum lies for attentions in the box."""
    rest = max(1.0 - box.low.sum(), 0.0)
    floor[:] = math.inf
    ceiling[:] = -math.inf
    for t in range(len(box.low)):
        if box.high[t] > box.low[t]:
            for p in range(len(floor)):
                floor[p] = min(floor[p], contribution[t, p])
                ceiling[p] = max(ceiling[p], contribution[t, p])
    fixed = offset.copy()
    for t in range(len(box.low)):
        if box.low[t] > 0.0:
            for p in range(len(floor)):
                fixed[p] += box.low[t] * contribution[t, p]
    for p in range(len(floor)):
        spread = math.isfinite(floor[p]) and rest > 0.0
        slack = ROUNDING * (1.0 + abs(fixed[p]))
        floor[p] = fixed[p] + (rest * floor[p] if spread else 0.0) - slack
        ceiling[p] = fixed[p] + (rest * ceiling[p] if spread else 0.0) + slack


@kernel
def between_planes(a, b):
    """(k, m⁻, m⁺) with k x + m⁻ ≤ tanh x ≤ k x + m⁺ for a ≤ x ≤ b."""
    at_a, at_b = bent(a), bent(b)
    k = (at_b - at_a) / (b - a) if b - a > 1e-6 else 1.0 - at_a * at_a
    k = min(max(k, 0.0), 1.0)
    least, most = min(at_a - k * a, at_b - k * b), max(at_a - k * a, at_b - k * b)
    level = math.sqrt(1.0 - k)
    if level < 1.0:
        turn = math.atanh(level)
        if a < turn < b:
            most = max(most, level - k * turn)
        if a < -turn < b:
            least = min(least, k * turn - level)
    return k, least - ROUNDING, most + ROUNDING


@kernel
def linearise(row, box, log_p, last, matrix, scale, error):
    """Write into ``matrix`` the logits of the classes kept less those of the last, less ln p, and their ``error`` each way."""
    width, kept = len(row.offset), row.kept
    floor, ceiling = np.empty(width), np.empty(width)
    attended_range(row.contribution, row.offset, box, floor, ceiling)
    slopes, middle, half = np.empty(width), np.empty(width), np.empty(width)
    for p in range(width):
        k, least, most = between_planes(floor[p], ceiling[p])
        slopes[p], middle[p], half[p] = k, 0.5 * (least + most), 0.5 * (most - least)
    weight, bias, along = row.head.weight, row.head.bias, np.empty(width)
    for c in range(len(kept)):
        if c == last:
            continue
        i = 2 + c - (c > last)
        constant, error[i] = bias[kept[c]] - bias[kept[last]] - log_p[c] + log_p[last], 0.0
        for p in range(width):
            difference = weight[p, kept[c]] - weight[p, kept[last]]
            along[p] = difference * slopes[p]
            constant += difference * middle[p] + along[p] * row.offset[p]
            error[i] += abs(difference) * half[p]
        matrix[i] = np.dot(row.contribution, along) + constant
        scale[i] = 1.0 / max(np.abs(matrix[i]).max(), 1e-9)
        matrix[i] *= scale[i]
