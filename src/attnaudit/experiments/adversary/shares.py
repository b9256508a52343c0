"""Bounds behind a tanh tail: how much attention some tokens can have, and what follows for the JSD.

If a set of tokens has at least the share λ of the attention, the attended sum lies in
λ · hull(set) + (1 − λ) · hull(all). There every entry x of it stays in an interval, on which tanh
lies between two planes, k x + m⁻ and k x + m⁺, with k the slope of its chord. So each log-odds of
two classes lies between two sums linear in the attention, whose extremes are at single tokens.
Where they leave what TVD ≤ ε allows, the set cannot have that share.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int64

from attnaudit.core.tolerance import TOLERANCE
from attnaudit.experiments.adversary.exact import gains
from attnaudit.experiments.through_tail import Outputs, two_classes
from attnaudit.stats.measures import LN2

ALONE, PREFIXES = 24, 64  # tokens of least attention whose largest weight is bounded, and sets
CLASSES = 6  # the likeliest, whose pairs are considered
HALVINGS = 10  # of the interval that holds the largest share


def bound_by_shares(outputs: Outputs, row: int, epsilon: float) -> float:
    """Return a JSD that no attention of a row within ``epsilon`` exceeds."""
    alpha = outputs.alpha[row]
    order = np.argsort(alpha, kind="stable")
    old, size = alpha[order], len(alpha)
    single = np.arange(min(ALONE, size))
    prefix = np.unique(np.linspace(1, size - 1, min(PREFIXES, size - 1)).astype(np.int64))
    places = np.arange(size)
    sets = np.vstack([places == single[:, None], places < prefix[:, None]])
    share = _largest_shares(outputs, row, order, sets, epsilon)

    # No weight exceeds its limit, so some weight is at it, or all attention is there. The rest is
    # worth at most its best chord, since f is convex with f(0) = 0.
    high = np.ones(size)
    high[single] = share[: len(single)]
    rest = 1.0 - high
    most = np.minimum(high, rest[:, None])
    with np.errstate(divide="ignore", invalid="ignore"):
        chord = np.where(most > 0.0, gains(most, np.tile(old, (size, 1))) / most, 0.0)
    chord[places, places] = -np.inf
    alone = gains(high, old) + np.where(rest > 0.0, rest * chord.max(axis=1, initial=0.0), 0.0)

    # The tokens before k have at most their share, and both parts are worth at most what their
    # token of least attention is. The sum is convex in the share: it is largest at an end.
    together, after = share[len(single) :], old[prefix]
    split = gains(together, np.full(len(prefix), old[0])) + gains(1.0 - together, after)
    parts = np.maximum(split, gains(np.ones(len(prefix)), after))
    return 0.5 * LN2 + min(alone.max(), parts.min(initial=np.inf))


def _largest_shares(
    outputs: Outputs,
    row: int,
    order: Int64[np.ndarray, " T"],
    sets: Bool[np.ndarray, "m T"],
    epsilon: float,
) -> Float[np.ndarray, " m"]:
    """Return a share that each set of tokens cannot exceed, by bisection."""
    readout = outputs.readout
    contribution, offset = readout.contribution[row][order], readout.offset[row]
    weight, bias = readout.tail.weight, readout.tail.bias
    if readout.activation == "sigmoid":  # one output stands for two classes
        weight, bias = np.vstack([0.0 * weight, weight]), np.append(0.0, bias)
    p = two_classes(outputs.own[row : row + 1])[0]
    ranked = np.argsort(-p, kind="stable")[:CLASSES]
    if readout.candidates is not None:
        ranked = ranked[readout.candidates[row][ranked]]
    one, other = np.triu_indices(len(ranked), 1)
    y, z = ranked[one], ranked[other]
    with np.errstate(divide="ignore"):
        low = np.log(np.maximum(p[y] - epsilon, 0.0) / (p[z] + epsilon)) - bias[y] + bias[z]
        high = np.log((p[y] + epsilon) / np.maximum(p[z] - epsilon, 0.0)) - bias[y] + bias[z]
    difference = weight[y] - weight[z]
    inside = sets[:, :, None]
    least = np.where(inside, contribution, np.inf).min(axis=1)
    most = np.where(inside, contribution, -np.inf).max(axis=1)

    def may_have(share: Float[np.ndarray, "m 1"]) -> Bool[np.ndarray, " m"]:
        rest = 1.0 - share
        slope, below, above = _planes(
            offset + share * least + rest * contribution.min(axis=0),
            offset + share * most + rest * contribution.max(axis=0),
        )
        along = difference * slope[:, None]
        middle = along @ offset + 0.5 * (above + below) @ difference.T
        error = 0.5 * (above - below) @ np.abs(difference).T
        each = along @ contribution.T
        top = np.where(sets[:, None], each, -np.inf).max(axis=2)
        bottom = np.where(sets[:, None], each, np.inf).min(axis=2)
        top = middle + share * top + rest * each.max(axis=2) + error
        bottom = middle + share * bottom + rest * each.min(axis=2) - error
        slack = TOLERANCE.solver
        return ((top >= low - slack) & (bottom <= high + slack)).all(axis=1)

    lower, upper = np.zeros(len(sets)), np.ones(len(sets))
    free = may_have(upper[:, None])
    for _ in range(HALVINGS):
        share = 0.5 * (lower + upper)
        allowed = may_have(share[:, None])
        lower, upper = np.where(allowed, share, lower), np.where(allowed, upper, share)
    return np.where(free, 1.0, upper)


def _planes(start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return k, m⁻ and m⁺ of the planes between which tanh lies from ``start`` to ``end``."""
    at_start, at_end = np.tanh(start), np.tanh(end)
    # On shorter intervals the difference is mostly rounding, and the slope is the derivative.
    width = end - start
    chord = (at_end - at_start) / np.maximum(width, 1e-6)
    slope = np.clip(np.where(width > 1e-6, chord, 1.0 - at_start**2), 0.0, 1.0)
    # tanh x − k x has its extremes at the ends, and where the derivative of tanh is k.
    turn = np.arctanh(np.sqrt(1.0 - slope) * (1.0 - 1e-15))
    values = [at_start - slope * start, at_end - slope * end]
    for x in (turn, -turn):
        within = (x > start) & (x < end)
        values.append(np.where(within, np.tanh(x) - slope * x, values[0]))
    return (
        slope,
        np.min(values, axis=0) - TOLERANCE.rounding,
        np.max(values, axis=0) + TOLERANCE.rounding,
    )
