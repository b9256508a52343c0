"""The exact adversary for two classes: the attention furthest from the model's own that leaves its output within ε.

One logit decides, so |ŷ(α) − ŷ| ≤ ε holds iff ``low ≤ Σ_t α_t r_t ≤ high``. JSD to the model's attention â is convex in α and the
attentions allowed are a simplex cut by that slab, so the maximum is at a vertex, and a vertex has at most two non-zero weights: one
token with low ≤ r_i ≤ high, or a pair with r_i < c < r_j for c = low or high and weight (r_j − c)/(r_j − r_i) on i.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import expit, logit

from attnaudit.core.arrays import fill, largest_size, overwrite
from attnaudit.core.kernels import for_kernel, kernel, over_rows, subroutine
from attnaudit.core.ragged import Ragged
from attnaudit.stats.measures import LN2
from attnaudit.stats.ordering import ascending
from attnaudit.trace.readout import Readout
from attnaudit.trace.tails import IdentityTail


@dataclass(frozen=True)
class Slab:
    """``low ≤ Σ_t α_t relevance_t ≤ high``: the attentions whose output is within ε. ``relevance`` is flat, the bounds one per row."""

    relevance: Float[np.ndarray, " N"]
    low: Float[np.ndarray, " n"]
    high: Float[np.ndarray, " n"]


def one_logit_decides(readout: Readout) -> bool:
    """Whether the exact adversary applies: identity tail and one sigmoid output, or a softmax over two classes."""
    outputs = readout.offset.shape[1]
    return isinstance(readout.tail, IdentityTail) and outputs == (
        1 if readout.activation == "sigmoid" else 2
    )


def slab_within(readout: Readout, alpha: Ragged, epsilon: float) -> Slab:
    """The slab of attentions under which the probability of class 1 moves by ``epsilon`` at most.

    A softmax over two classes is a sigmoid of the difference of its logits. A row with a single allowed answer has no bounds. The
    slab always holds ``alpha`` itself, and every attention whose rounded probability is within ε, that of a saturated output too.
    """
    contribution, offset = readout.contribution.values, readout.offset
    binary = contribution.shape[1] == 2
    relevance = contribution[:, 1] - contribution[:, 0] if binary else contribution[:, 0]
    bias = offset[:, 1] - offset[:, 0] if binary else offset[:, 0]
    here = alpha.with_values(alpha.values * relevance).sum()
    probability = expit(bias + here)
    least, most = (
        np.nextafter(probability - epsilon, -1.0),
        np.nextafter(probability + epsilon, 2.0),
    )
    low = np.minimum(logit(np.maximum(least, 0.0)) - bias, here)
    high = np.maximum(logit(np.minimum(most, 1.0)) - bias, here)
    free = (
        np.zeros(len(alpha), bool)
        if readout.candidates is None
        else ~readout.candidates.all(axis=1)
    )
    return Slab(
        np.ascontiguousarray(relevance), np.where(free, -np.inf, low), np.where(free, np.inf, high)
    )


def furthest_attention(alpha: Ragged, slab: Slab) -> Ragged:
    """For every row the attention in the slab with the largest JSD to ``alpha``; ``alpha`` itself where there is no other."""
    furthest = np.empty(len(alpha.values))
    over_rows(
        _furthest_rows,
        len(alpha),
        for_kernel(alpha.values),
        alpha.offsets,
        slab.relevance,
        slab.low,
        slab.high,
        furthest,
    )
    return alpha.with_values(furthest)


def unconstrained_bound(alpha: Ragged) -> Float[np.ndarray, " n"]:
    """The largest JSD to ``alpha`` that any attention has, ½ ln 2 + max_i f(1, â_i), with no regard to the output."""
    lowest = -alpha.with_values(-alpha.values).max()
    gain = 0.5 * (
        np.log(2.0 / (1.0 + lowest)) + lowest * np.log(np.maximum(lowest, 1e-300) / (1.0 + lowest))
    )
    return np.maximum(0.5 * LN2 + gain, 0.0)


@kernel
def _furthest_rows(first, last, alpha, offsets, relevance, low, high, furthest):
    for row in range(first, last):
        start, stop = offsets[row], offsets[row + 1]
        furthest_row(
            alpha[start:stop], relevance[start:stop], low[row], high[row], furthest[start:stop]
        )


@subroutine
def furthest_row(alpha, relevance, low, high, furthest):
    """The best vertex of the slab, written into ``furthest``."""
    best = _best_single(alpha, relevance, low, high)
    order = ascending(alpha)
    for bound in (low, high):
        if math.isfinite(bound):
            best = _best_pair(alpha, relevance, order, bound, best)
    _, one, other, weight = best
    if one < 0:
        overwrite(furthest, alpha)
        return
    if one != other:
        weight = _inside(weight, relevance[one], relevance[other], low, high)
    fill(furthest, 0.0)
    furthest[one] += weight
    furthest[other] += 1.0 - weight


@subroutine
def gain(weight, old):
    """f(a, â) = ½ [a ln(2a/(a+â)) + â ln(2â/(a+â))] − ½ â ln 2: JSD is ½ ln 2 plus the gains of the non-zero weights."""
    if weight <= 0.0:
        return 0.0
    if old <= 0.0:
        return 0.5 * weight * LN2
    total = weight + old
    return 0.5 * (weight * math.log(2.0 * weight / total) + old * math.log(old / total))


@subroutine
def _best_single(alpha, relevance, low, high):
    """The best token that alone keeps the output: (JSD, token, token, 1), or token −1 for the attention as it is."""
    slack, value, token = 1e-13 * largest_size(relevance), 0.0, -1
    for t in range(len(alpha)):
        if low - slack <= relevance[t] <= high + slack:
            candidate = 0.5 * LN2 + gain(1.0, alpha[t])
            if candidate > value:
                value, token = candidate, t
    return value, token, token, 1.0


@subroutine
def _best_pair(alpha, relevance, order, c, best):
    """The best of ``best`` and all pairs with r_i < c < r_j, both sides taken in the order of their attention.

    f(λ, â) falls with â and is convex in λ, so with λ between λ₀ and λ₁ no pair (i, j) and none after it in the order exceeds
    ½ ln 2 + max over λ ∈ {λ₀, λ₁} of f(λ, â_i) + f(1 − λ, â_j): bisection finds how far down the order it is worth going.
    """
    below, above = _sides(relevance, order, c)
    if len(below) == 0 or len(above) == 0:
        return best
    (far_low, near_low), (near_high, far_high) = _ends(relevance, below), _ends(relevance, above)
    for i in below:
        best = _better(
            alpha, relevance, i, near_high, c, _better(alpha, relevance, i, far_high, c, best)
        )
    for j in above:
        best = _better(
            alpha, relevance, near_low, j, c, _better(alpha, relevance, far_low, j, c, best)
        )
    least, most = _share(relevance, far_low, near_high, c), _share(relevance, near_low, far_high, c)
    for i in below:
        if _bound(least, most, alpha[i], alpha[above[0]]) <= best[0]:
            break
        smallest, largest = _share(relevance, i, near_high, c), _share(relevance, i, far_high, c)
        for k in range(_worth_trying(alpha, i, above, smallest, largest, best[0])):
            best = _better(alpha, relevance, i, above[k], c, best)
    return best


@subroutine
def _sides(relevance, order, c):
    """The tokens of a relevance below c, and of one above, each in this order."""
    below, above, lower, higher = (
        np.empty(len(order), np.int64),
        np.empty(len(order), np.int64),
        0,
        0,
    )
    for token in order:
        if relevance[token] < c:
            below[lower] = token
            lower += 1
        elif relevance[token] > c:
            above[higher] = token
            higher += 1
    return below[:lower], above[:higher]


@subroutine
def _ends(relevance, tokens):
    """The tokens of the least and of the largest relevance, the first where several share it."""
    least, most = tokens[0], tokens[0]
    for token in tokens:
        if relevance[token] < relevance[least]:
            least = token
        if relevance[token] > relevance[most]:
            most = token
    return least, most


@subroutine
def _share(relevance, i, j, c):
    """The weight on i with which the pair (i, j) has relevance c."""
    return (relevance[j] - c) / (relevance[j] - relevance[i])


@subroutine
def _better(alpha, relevance, i, j, c, best):
    weight = _share(relevance, i, j, c)
    value = 0.5 * LN2 + gain(weight, alpha[i]) + gain(1.0 - weight, alpha[j])
    return (value, i, j, weight) if value > best[0] else best


@subroutine
def _bound(least, most, alpha_i, alpha_j):
    at_least = gain(least, alpha_i) + gain(1.0 - least, alpha_j)
    at_most = gain(most, alpha_i) + gain(1.0 - most, alpha_j)
    return 0.5 * LN2 + max(at_least, at_most)


@subroutine
def _worth_trying(alpha, i, partners, least, most, value):
    """How many of the first partners have a bound above ``value``."""
    start, stop = 0, len(partners)
    while start < stop:
        middle = (start + stop) // 2
        if _bound(least, most, alpha[i], alpha[partners[middle]]) > value:
            start = middle + 1
        else:
            stop = middle
    return start


@subroutine
def _inside(weight, r_i, r_j, low, high):
    """``weight`` moved by the few units in the last place that rounding may have put it outside the slab."""
    step = 2.0**-53
    for _ in range(8):
        relevance = weight * r_i + (1.0 - weight) * r_j
        if relevance < low:
            weight = max(weight - step, 0.0)
        elif relevance > high:
            weight = min(weight + step, 1.0)
        else:
            break
        step *= 2.0
    return weight
