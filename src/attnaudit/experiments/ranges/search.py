"""Weights that a token can have with nearly the same output: some attentions' and a bound on all.

- *Outer.* Linear programs over conditions that every attention within ε meets bound each weight.
- *Inner.* The same programs, their half-spaces drawn in towards the model's own logits, propose
  attentions near the own one. Mixtures of two tokens, attention with the same attended sum and what
  the adversary found are far from it. Each is read out, and moved until its output is within ε: its
  weights are possible.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int64

from attnaudit.core.ragged import Ragged
from attnaudit.core.tolerance import TOLERANCE
from attnaudit.experiments.identifiability.null_space import RANGES, movements
from attnaudit.experiments.programs import Constraints, maximise
from attnaudit.experiments.ranges.half_spaces import (
    SUBSETS,
    RowLogits,
    first_sets,
    outputs_within,
)
from attnaudit.stats.measures import tvd

INNER = (0.9, 0.6)  # the second if most attentions of the first are not within ε
ROUNDS = 2  # of sets of classes added to the first ones
PARTNERS = 16  # tokens that each one is mixed with
LOOKS = 12  # cells of a mixture
FOLLOWED = 2  # mixtures of a token that are followed within a cell
TOKENS = 32  # whose mixtures are held at a time
HALVINGS, THIRDS = 24, 10


Attentions = Float[np.ndarray, "_ T"]


class Bounds(NamedTuple):
    """Weights of every token (T,): extremes among attentions found, and bounds on all within ε."""

    possible: Float[np.ndarray, " T"]
    necessary: Float[np.ndarray, " T"]
    possible_upper: Float[np.ndarray, " T"]
    necessary_lower: Float[np.ndarray, " T"]


def weight_bounds(row: RowLogits, epsilon: float, other: Float[np.ndarray, " T"]) -> Bounds:
    """Bound the weights of one row.

    Args:
        row: The row's logits.
        epsilon: Largest change of the output, in TVD.
        other: An attention found elsewhere, possible if it is within ε.
    """
    outer, inner = conditions(row, epsilon + TOLERANCE.solver)
    within = attentions_within(row, inner, epsilon, other)
    most, least, each = within.max(axis=0), within.min(axis=0), np.eye(len(row.alpha))
    upper, lower = np.ones_like(most), np.zeros_like(least)
    above = (outer.matrix > outer.limit[:, None]).any(axis=0) & (most < 1.0)
    upper[above] = maximise(each[above], outer, row.alpha).bound
    below = least > 0.0
    lower[below] = -maximise(-each[below], outer, row.alpha).bound
    return Bounds(most, least, np.clip(upper, most, 1.0), np.clip(lower, 0.0, least))


def conditions(row: RowLogits, epsilon: float) -> tuple[Constraints, Constraints]:
    """Return conditions that all attentions within ε meet, and those with the row's own slopes.

    With many classes the sets are added that gain under the attentions of the programs so far: the
    conditions of these sets are broken most.
    """
    p, sets = np.exp(row.log_p), first_sets(len(row.log_p))
    spaces = outputs_within(row.log_p, epsilon, sets)
    for _ in range(ROUNDS if len(p) > SUBSETS else 0):
        proposed = maximise(np.eye(len(row.alpha)), row.relaxed(spaces), row.alpha).attention
        gained = row.output(proposed @ row.single) > p
        gained = gained[gained.any(axis=1) & ~gained.all(axis=1)]
        sets = np.unique(np.vstack([sets, gained]), axis=0)
        spaces = outputs_within(row.log_p, epsilon, sets)
    return row.relaxed(spaces), row.tangent(spaces)


def attentions_within(
    row: RowLogits, inner: Constraints, epsilon: float, other: Float[np.ndarray, " T"]
) -> Attentions:
    """Search attentions within ε with extreme weights; the row's own is among them."""
    each, limit = np.eye(len(row.alpha)), epsilon + TOLERANCE.solver
    change = row.change(each)
    outside = each[change > limit]
    known = np.vstack([row.alpha, other, each])
    if row.layer.tanh:  # else the programs find attention with the same sum
        single, alpha = Ragged.from_rows([row.single]), Ragged.from_rows([row.alpha])
        known = np.vstack([known, *movements(single, alpha, RANGES).ends])
    found = known[row.change(known) <= limit]
    found = np.vstack([found, _proposals(row, inner, outside, epsilon)])
    if len(outside):
        tokens = np.flatnonzero(change > limit)
        partners = np.argsort(change, kind="stable")[:PARTNERS]
        pieces = np.array_split(tokens, -(-len(tokens) // TOKENS))
        mixed = [_mixtures(row, piece, partners, epsilon) for piece in pieces]
        found = np.vstack([found, *mixed])
        best = found[found.argmax(axis=0)[tokens]]
        found = np.vstack([found, _first_within(row, outside, best, epsilon)])
    needed = each[found.min(axis=0) > 0.0]
    return np.vstack([found, _proposals(row, inner, -needed, epsilon)])


def _proposals(row: RowLogits, inner: Constraints, goals: Attentions, epsilon: float) -> Attentions:
    """Move what programs propose for the goals towards the row's own attention, until within ε."""
    found = [goals[:0]]
    for share in INNER if len(goals) else ():
        drawn_in = inner._replace(limit=share * inner.limit)
        proposed = maximise(goals, drawn_in, row.alpha).attention
        whole = row.change(proposed) <= epsilon + TOLERANCE.solver
        found += proposed[whole], _first_within(row, proposed[~whole], row.alpha[None], epsilon)
        if whole.mean() > 0.5:
            break
    return np.vstack(found)


def _mixtures(
    row: RowLogits,
    tokens: Int64[np.ndarray, " m"],
    partners: Int64[np.ndarray, " k"],
    epsilon: float,
) -> Attentions:
    """Mix each token with each partner, and follow the mixtures that need least of a partner.

    A mixture is read out at the ends of equal cells, from all attention on the token. The output
    may come within ε between two ends if their distances and the way between them allow it, if the
    way is straight.
    """
    share = np.linspace(0.0, 1.0, LOOKS + 1)[:, None]
    one, other = row.single[tokens, None, None], row.single[partners, None]
    output = row.output((1.0 - share) * one + share * other)
    distance = row.distance(output)
    way = tvd(output[:, :, 1:], output[:, :, :-1])
    near = distance[:, :, :-1] + distance[:, :, 1:] - way <= 2.0 * epsilon
    cell = np.where(near.any(axis=2), near.argmax(axis=2), LOOKS)
    chosen = np.argsort(cell, axis=1, kind="stable")[:, :FOLLOWED]
    token, rank = np.nonzero(np.take_along_axis(cell, chosen, axis=1) < LOOKS)
    partner, each = chosen[token, rank], np.eye(len(row.alpha))
    step = (each[partners[partner]] - each[tokens[token]]) / LOOKS
    before = each[tokens[token]] + cell[token, partner, None] * step
    start, end = before, before + step
    for _ in range(THIRDS):  # ternary search of the least change in a cell
        third = (end - start) / 3.0
        later = (row.change(start + third) > row.change(end - third))[:, None]
        start, end = np.where(later, start + third, start), np.where(later, end, end - third)
    nearest = 0.5 * (start + end)
    within = row.change(nearest) <= epsilon
    return _first_within(row, before[within], nearest[within], epsilon)


def _first_within(
    row: RowLogits,
    outside: Attentions,
    inside: Attentions,
    epsilon: float,
) -> Attentions:
    """Find the attentions within ε nearest to those outside, on the way to those inside."""
    near, far = np.zeros(len(outside)), np.ones(len(outside))
    for _ in range(HALVINGS):
        middle = 0.5 * (near + far)
        fits = row.change(inside + middle[:, None] * (outside - inside)) <= epsilon
        near, far = np.where(fits, middle, near), np.where(fits, far, middle)
    return inside + near[:, None] * (outside - inside)
