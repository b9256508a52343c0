"""Which logits a softmax model may have when its probabilities move by ε at most: the support function of that set.

p are the model's probabilities, p′ those allowed: TVD(p′, p) ≤ ε and ``low`` ≤ p′ ≤ ``high`` (0 and 1 until a search divides the set). For
weights μ over the classes with Σ μ = 0, h(μ) = max of Σ_c μ_c (ln p′_c − ln p_c) falls in two. What classes with μ_c > 0 gain, ε together,
they share as water fills a vessel: in proportion to μ_c where that is more than they had. What classes with μ_c < 0 lose goes whole to one
of them, −ln being convex, unless its ``low`` stands in the way; then chords bound h. A class that can lose all it has makes h infinite.
{z : μ·(z − ln p) ≤ h(μ) for all μ} holds all logits allowed; it is their convex hull where h is exact.
"""

from __future__ import annotations

import math

import numpy as np

from attnaudit.core.kernels import kernel


@kernel
def furthest_logits(slope, p, epsilon, low, high, moved):
    """A bound on h(``slope``), infinite where there is none; ``moved`` becomes the p′ of an allowed output that is furthest, or nearly."""
    gained, lost = room(p, epsilon, low, high)
    for c in range(len(p)):
        moved[c] = min(max(p[c], low[c]), high[c])
    return _shift(slope, p, moved) + _gain(slope, gained, high, moved) + _lose(slope, lost, low, moved)


@kernel
def room(p, epsilon, low, high):
    """What may still be gained, and lost, beyond what ``low`` and ``high`` force; negative where nothing is allowed."""
    gained, lost = epsilon, epsilon
    for c in range(len(p)):
        gained -= max(low[c] - p[c], 0.0)
        lost -= max(p[c] - high[c], 0.0)
    return gained, lost


@kernel
def vanishes(c, p, epsilon, low, high):
    """Whether class ``c`` may lose all it has."""
    _, lost = room(p, epsilon, low, high)
    return low[c] <= 0.0 and min(p[c], high[c]) <= lost


@kernel
def _shift(slope, p, moved):
    """What is forced."""
    value = 0.0
    for c in range(len(p)):
        if moved[c] != p[c]:
            value += slope[c] * math.log(moved[c] / p[c])
    return value


@kernel
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


@kernel
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


@kernel
def log_probabilities(logits, allowed):
    """ln softmax over the allowed classes, never below what still has an exponential."""
    highest, total = -math.inf, 0.0
    for c in range(len(logits)):
        if allowed[c]:
            highest = max(highest, logits[c])
    for c in range(len(logits)):
        if allowed[c]:
            total += math.exp(logits[c] - highest)
    return np.maximum(logits - highest - math.log(total), -690.0)
