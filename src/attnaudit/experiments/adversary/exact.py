"""The exact adversary for two classes: the furthest attention that keeps the output within ε.

One logit decides, so |ŷ(α) − ŷ| ≤ ε holds iff ``low ≤ Σ_t α_t r_t ≤ high``. JSD to the model's
attention â is convex in α, and the attentions allowed are a simplex cut by that slab, so the
maximum is at a vertex. A vertex has at most two non-zero weights: one token with low ≤ r_i ≤ high,
or a pair with r_i < c < r_j for c = low or high and weight (r_j − c)/(r_j − r_i) on i.
"""

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from scipy.special import expit, logit, rel_entr

from attnaudit.core.ragged import Ragged
from attnaudit.core.shapes import PerPosition, PerRow
from attnaudit.core.threads import over_rows
from attnaudit.core.tolerance import TOLERANCE
from attnaudit.stats.measures import LN2, jsd_terms
from attnaudit.trace import IdentityTail, Readout


@dataclass(frozen=True)
class Slab:
    """Attentions with ``low ≤ Σ_t α_t relevance_t ≤ high`` in each of n rows.

    Attributes:
        relevance: One number for each position, flat.
        low: Lower limit of each row, −∞ for none.
        high: Upper limit of each row, ∞ for none.
    """

    relevance: PerPosition
    low: PerRow
    high: PerRow


def one_logit_decides(readout: Readout) -> bool:
    """Return whether the exact adversary applies.

    It needs an identity tail and one sigmoid output, or a softmax over two classes.
    """
    outputs = readout.offset.shape[1]
    return isinstance(readout.tail, IdentityTail) and outputs == (
        1 if readout.activation == "sigmoid" else 2
    )


def slab_within(readout: Readout, alpha: Ragged, epsilon: float) -> Slab:
    """Return the attentions under which the probability of class 1 moves by at most ``epsilon``.

    A softmax over two classes is a sigmoid of the difference of its logits. A row with one allowed
    answer has no limits. The slab holds ``alpha`` itself and every attention whose rounded
    probability is within ε, also where the output is saturated.
    """
    relevance, bias = (
        (np.diff(part) if part.shape[1] == 2 else part)[:, 0]
        for part in (readout.contribution.values, readout.offset)
    )
    own = alpha.with_values(alpha.values * relevance).sum()
    probability = expit(bias + own)
    # One unit in the last place more: probabilities that round to p ± ε are within ε.
    least = np.nextafter(probability - epsilon, -1.0)
    most = np.nextafter(probability + epsilon, 2.0)
    low = np.minimum(logit(np.maximum(least, 0.0)) - bias, own)
    high = np.maximum(logit(np.minimum(most, 1.0)) - bias, own)
    free = np.zeros(len(alpha), bool)
    if readout.candidates is not None:
        free = ~readout.candidates.all(axis=1)
    relevance = np.ascontiguousarray(relevance)
    return Slab(relevance, np.where(free, -np.inf, low), np.where(free, np.inf, high))


def furthest_attention(alpha: Ragged, slab: Slab) -> Ragged:
    """Return the attention in the slab with the largest JSD to ``alpha``, for every row.

    It is ``alpha`` itself where the slab holds no other.
    """
    order = alpha.argsort()
    old, relevance = alpha.values[order].astype(np.float64), slab.relevance[order]
    n = len(alpha)
    tokens, weight = np.empty((n, 2), np.int64), np.empty(n)
    size = np.maximum(alpha.with_values(np.abs(slab.relevance)).max(), 0.0)
    # What one token contributes is read as within the slab although its sum was rounded.
    limits = np.column_stack([slab.low, slab.high, 0.1 * TOLERANCE.rounding * size])
    over_rows(_best_vertices, alpha.offsets, old, relevance, limits, tokens, weight)
    known = np.flatnonzero(tokens[:, 0] >= 0)
    one, other = tokens[known].T
    weight, r_i, r_j = weight[known], relevance[one], relevance[other]
    low, high, _ = limits[known].T
    pair = r_i != r_j  # one token alone stands where it is
    # Rounding put weights outside the slab by a few units in the last place.
    for step in 2.0 ** np.arange(-53, -45):
        sums = weight * r_i + (1.0 - weight) * r_j
        # The kernel puts the lower relevance first, so more weight means less relevance.
        toward = np.where(sums < low, -step, np.where(sums > high, step, 0.0))
        weight = np.where(pair, np.clip(weight + toward, 0.0, 1.0), weight)
    furthest = alpha.values.astype(np.float64)
    furthest[alpha.positions(known)] = 0.0
    furthest[order[one]] += weight
    furthest[order[other]] += 1.0 - weight
    return alpha.with_values(furthest)


def unconstrained_bound(alpha: Ragged) -> PerRow:
    """Return the largest JSD to ``alpha`` of any attention, whatever the output is.

    It is reached by all attention on the token of least attention: ½ ln 2 + max_i f(1, â_i).
    """
    return _all_on_one(alpha.reduce(np.minimum))


def exchange_bound(alpha: Ragged) -> PerRow:
    """Return the largest JSD from ``alpha`` to one of its attended tokens, for every row.

    Words that are equally good reasons share the weight, and any of them could have it all. Under
    uniform attention it is as large as for any attention, so diffuse attention is never far from
    the words that it marks.
    """
    average = 1.0 / alpha.spread(alpha.lengths)
    # Weights are float32, which puts some of equal weights below the average.
    attended = alpha.values >= (1.0 - TOLERANCE.network) * average
    attended = alpha.with_values(np.where(attended, alpha.values, 1.0))
    return _all_on_one(attended.reduce(np.minimum))


def _all_on_one(old: PerRow) -> PerRow:
    """Return the JSD to all weight on a token whose weight is ``old``."""
    return np.maximum(0.5 * LN2 + gains(np.ones(len(old)), old), 0.0)


def divergence(one: Ragged, other: Ragged) -> PerRow:
    """Return the JSD of every row of ``one`` to the same row of ``other``, in nats."""
    return np.maximum(one.with_values(jsd_terms(one.values, other.values)).sum(), 0.0)


def gains(weight: np.ndarray, old: np.ndarray) -> np.ndarray:
    """Return f(a, â) = ½ [a ln(2a/(a+â)) + â ln(2â/(a+â))] − ½ â ln 2 of every weight.

    JSD is ½ ln 2 plus the gains of all non-zero weights; f is convex in a, with f(0, â) = 0.
    """
    return 0.5 * (rel_entr(weight, 0.5 * (weight + old)) + rel_entr(old, weight + old))


@njit(cache=True, nogil=True)
def _gain(weight, old):
    """Return `gains` of one weight."""
    if weight <= 0.0:
        return 0.0
    total = weight + old
    gain = 0.5 * weight * math.log(2.0 * weight / total)
    return gain + 0.5 * old * math.log(old / total) if old > 0.0 else gain


@njit(cache=True, nogil=True)
def _best_vertices(first, last, offsets, alpha, relevance, limits, tokens, weight):
    """Write the two tokens of the best vertex, and the weight of the first, for every row.

    Tokens of a row are sorted by attention. f falls with â and is convex in its weight λ, so while
    λ stays between λ₀ and λ₁, neither the pair (i, j) nor one further in the order exceeds
    ½ ln 2 + max over λ ∈ {λ₀, λ₁} of f(λ, â_i) + f(1 − λ, â_j). Bisection by this bound finds how
    far down the order it is worth going.
    """
    for row in range(first, last):
        start, stop = offsets[row], offsets[row + 1]
        low, high, slack = limits[row, 0], limits[row, 1], limits[row, 2]
        # The gain of no vertex: pairs must exceed a JSD of 0.
        best, best_i, best_j, share = -0.5 * math.log(2.0), -1, -1, 1.0
        for t in range(start, stop):
            if low - slack <= relevance[t] <= high + slack:
                if _gain(1.0, alpha[t]) > best:
                    best, best_i, best_j = _gain(1.0, alpha[t]), t, t
                break  # further tokens have more attention
        below, above = np.empty(stop - start, np.int64), np.empty(stop - start, np.int64)
        for c in (low, high):
            lower, higher = 0, 0
            if not math.isfinite(c):
                continue
            least, nearest_low, nearest_high, most = c, -math.inf, math.inf, c
            for t in range(start, stop):
                r = relevance[t]
                if r < c:
                    below[lower] = t
                    lower += 1
                    least, nearest_low = min(least, r), max(nearest_low, r)
                elif r > c:
                    above[higher] = t
                    higher += 1
                    nearest_high, most = min(nearest_high, r), max(most, r)
            if lower == 0 or higher == 0:
                continue
            # λ of any pair lies between these two.
            low_share = (nearest_high - c) / (nearest_high - least)
            high_share = (most - c) / (most - nearest_low)
            for k in range(lower):
                i = below[k]
                old_i, r_i = alpha[i], relevance[i]
                old_j = alpha[above[0]]
                at_low = _gain(low_share, old_i) + _gain(1.0 - low_share, old_j)
                if max(at_low, _gain(high_share, old_i) + _gain(1.0 - high_share, old_j)) <= best:
                    break
                smallest = (nearest_high - c) / (nearest_high - r_i)
                largest = (most - c) / (most - r_i)
                gain_small, gain_large = _gain(smallest, old_i), _gain(largest, old_i)
                begin, end = 0, higher
                while begin < end:
                    middle = (begin + end) // 2
                    old_j = alpha[above[middle]]
                    bound = gain_small + _gain(1.0 - smallest, old_j)
                    if max(bound, gain_large + _gain(1.0 - largest, old_j)) > best:
                        begin = middle + 1
                    else:
                        end = middle
                for k in range(begin):
                    j = above[k]
                    a = (relevance[j] - c) / (relevance[j] - r_i)
                    value = _gain(a, old_i) + _gain(1.0 - a, alpha[j])
                    if value > best:
                        best, best_i, best_j, share = value, i, j, a
        tokens[row, 0], tokens[row, 1], weight[row] = best_i, best_j, share
