"""Which logits a softmax model may have when its probabilities move by ε at most, the support function of that set; and a tanh tail
between two planes. This is what a linear program knows of the output.

p are the model's probabilities, p′ those allowed: TVD(p′, p) ≤ ε and ``low`` ≤ p′ ≤ ``high`` (0 and 1 until a search divides the set). For
weights μ over the classes with Σ μ = 0, h(μ) = max of Σ_c μ_c (ln p′_c − ln p_c) falls in two. What classes with μ_c > 0 gain, ε together,
they share as water fills a vessel: in proportion to μ_c where that is more than they had. What classes with μ_c < 0 lose goes whole to one
of them, −ln being convex, unless its ``low`` prevents that; then chords bound h. A class that can lose all it has makes h infinite.
{z : μ·(z − ln p) ≤ h(μ) for all μ} holds all logits allowed; it is their convex hull where h is exact.

Over a box of attentions every entry x_p of the attended sum stays in an interval [a, b]; there tanh x lies between k x + m⁻ and
k x + m⁺, with k the slope of the chord and m± the extremes of tanh x − k x, at the ends or where the slope of tanh is k. The logits are
then linear in the attention but for an error of at most Σ_p |W_p| (m⁺ − m⁻)/2, which shrinks with the box.
"""

from __future__ import annotations

import math

import numpy as np

from attnaudit.core.arrays import fill, largest_of, sum_of
from attnaudit.core.kernels import subroutine
from attnaudit.experiments.compiled_readout import fast_tanh, pool

ROUNDING = 1e-12


@subroutine
def furthest_logits(slope, p, epsilon, low, high, moved):
    """A bound on h(``slope``), infinite where there is none; ``moved`` becomes the p′ of an allowed output that is furthest, or nearly."""
    (gained, lost), forced = margins(p, epsilon, low, high), 0.0
    for c in range(len(p)):
        moved[c] = min(max(p[c], low[c]), high[c])
        if moved[c] != p[c]:
            forced += slope[c] * math.log(moved[c] / p[c])
    return forced + _gain(slope, gained, high, moved) + _lose(slope, lost, low, moved)


@subroutine
def margins(p, epsilon, low, high):
    """What may still be gained, and lost, beyond what ``low`` and ``high`` force; negative where nothing is allowed."""
    gained, lost = epsilon, epsilon
    for c in range(len(p)):
        gained -= max(low[c] - p[c], 0.0)
        lost -= max(p[c] - high[c], 0.0)
    return gained, lost


@subroutine
def vanishes(c, p, epsilon, low, high):
    """Whether class ``c`` may lose all it has."""
    _, lost = margins(p, epsilon, low, high)
    return low[c] <= 0.0 and min(p[c], high[c]) <= lost


@subroutine
def _gain(slope, budget, high, moved):
    """max of Σ μ_c ln((p_c + u_c)/p_c) over 0 ≤ u_c ≤ high_c − p_c with Σ u = budget, over the classes with μ_c > 0.

    The level of the water is found by raising it from class to class that it wets, or that is full, until all is poured.
    """
    level, poured = 0.0, 0.0
    while True:
        rate, upcoming = 0.0, math.inf
        for c in range(len(slope)):
            if slope[c] > 0.0 and moved[c] < high[c]:
                wet, full = moved[c] / slope[c], high[c] / slope[c]
                if wet > level:
                    upcoming = min(upcoming, wet)
                elif full > level:
                    rate += slope[c]
                    upcoming = min(upcoming, full)
        if rate * (upcoming - level) >= budget - poured:
            level = level + (budget - poured) / rate if rate > 0.0 else level
            break
        if not math.isfinite(upcoming):
            break
        poured, level = poured + (rate * (upcoming - level) if rate > 0.0 else 0.0), upcoming
    value, level = 0.0, level * (1.0 + 1e-12)
    for c in range(len(slope)):
        if slope[c] > 0.0 and moved[c] < high[c] and level * slope[c] > moved[c]:
            filled = min(level * slope[c], high[c])
            value += slope[c] * math.log(filled / moved[c])
            moved[c] = filled
    return value


@subroutine
def _lose(slope, budget, low, moved):
    """A bound on max of Σ |μ_c| ln(p_c/(p_c − d_c)) over 0 ≤ d_c ≤ p_c − low_c with Σ d ≤ budget, over the classes with μ_c < 0.

    Each class's loss lies below its chord, and the best mix of chords is taken by their slopes, steepest first.
    """
    value, taken = 0.0, np.zeros(len(slope), np.bool_)
    whole = budget
    while budget > 0.0:
        steepest, best, most = 0.0, -1, 0.0
        for c in range(len(slope)):
            if slope[c] >= 0.0 or taken[c] or moved[c] <= low[c]:
                continue
            loss = min(moved[c] - low[c], whole)
            if loss >= moved[c]:
                return math.inf
            chord = slope[c] * math.log1p(-loss / moved[c]) / loss
            if chord > steepest:
                steepest, best, most = chord, c, loss
        if best < 0:
            break
        loss = min(most, budget)
        value += steepest * loss
        moved[best] -= loss
        taken[best], budget = True, budget - loss
    return value


@subroutine
def log_probabilities(logits):
    """ln softmax, never below what still has an exponential."""
    highest, total, found = largest_of(logits), 0.0, np.empty(len(logits))
    for c in range(len(logits)):
        total += math.exp(logits[c] - highest)
    for c in range(len(logits)):
        found[c] = max(logits[c] - highest - math.log(total), -690.0)
    return found


@subroutine
def _attended_range(contribution, offset, box):
    """Between what values every entry of the attended sum lies for attentions in the box."""
    rest = max(1.0 - sum_of(box.low), 0.0)
    floor, ceiling = np.empty(len(offset)), np.empty(len(offset))
    fill(floor, math.inf)
    fill(ceiling, -math.inf)
    for t in range(len(box.low)):
        if box.high[t] > box.low[t]:
            for p in range(len(floor)):
                floor[p] = min(floor[p], contribution[t, p])
                ceiling[p] = max(ceiling[p], contribution[t, p])
    fixed = pool(box.low, contribution, offset)
    for p in range(len(floor)):
        spread = math.isfinite(floor[p]) and rest > 0.0
        slack = ROUNDING * (1.0 + abs(fixed[p]))
        floor[p] = fixed[p] + (rest * floor[p] if spread else 0.0) - slack
        ceiling[p] = fixed[p] + (rest * ceiling[p] if spread else 0.0) + slack
    return floor, ceiling


@subroutine
def between_planes(a, b):
    """(k, m⁻, m⁺) with k x + m⁻ ≤ tanh x ≤ k x + m⁺ for a ≤ x ≤ b."""
    at_a, at_b = fast_tanh(a), fast_tanh(b)
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


@subroutine
def linearise(row, box, log_p, last, matrix, scale, error):
    """Write into ``matrix`` the logits of the classes kept minus those of the last, minus ln p, and their ``error`` each way."""
    width, kept = len(row.offset), row.kept
    floor, ceiling = _attended_range(row.contribution, row.offset, box)
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
        for t in range(len(row.contribution)):
            matrix[i, t] = constant
            for p in range(width):
                matrix[i, t] += row.contribution[t, p] * along[p]
        rescale_row(matrix, scale, i)


@subroutine
def rescale_row(matrix, scale, i):
    """Bring row ``i`` to the largest entry 1, in place; ``scale`` keeps by what it was multiplied."""
    largest = 1e-9
    for t in range(matrix.shape[1]):
        largest = max(largest, abs(matrix[i, t]))
    scale[i] = 1.0 / largest
    for t in range(matrix.shape[1]):
        matrix[i, t] *= scale[i]
