"""Weights that a token can have with nearly the same output: found by search, and bounded.

- *Outer.* Linear programs bound each weight over conditions that all attentions within ε meet.
- *Inner.* The same programs, with half-spaces drawn in towards the model's own logits, propose
  attentions near the model's. Other proposals are far from it: mixtures of two tokens, attentions
  with the same attended sum, and the adversary's. Each proposal is read out, and moved until its
  output is within ε. Its weights are then possible.
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

Attention = Float[np.ndarray, " T"]

# Shares of the half-spaces' limits. Drawn in by 10 %, six classes had a mean weight of 0.366 in
# place of 0.346. The second share is used if most proposals of the first miss ε.
INNER = (0.9, 0.6)
# Rounds in which sets of classes are added. With ten classes one, two and five rounds brought
# the bound on the mean weight from 0.371 to 0.318, 0.301 and 0.294.
ROUNDS = 2
# Tokens that each token is mixed with, those of least change.
PARTNERS = 16
# Cells of equal length along a mixture.
LOOKS = 12
# Mixtures of a token that are followed within a cell.
FOLLOWED = 2
# Tokens whose mixtures are held at a time, which bounds memory.
TOKENS = 32
# Bisection reaches 6e-8 of a segment, ternary search 2 % of a cell: the first sets the weights, the
# second only has to come within ε.
HALVINGS, THIRDS = 24, 10


Attentions = Float[np.ndarray, "_ T"]


class Bounds(NamedTuple):
    """Extreme weights of each token among attentions found, and bounds on all within ε."""

    possible: Attention
    necessary: Attention
    possible_upper: Attention
    necessary_lower: Attention


def weight_bounds(row: RowLogits, epsilon: float, other: Attention) -> Bounds:
    """Search and bound the weights of one row.

    Args:
        row: The row's logits.
        epsilon: Largest change of the output, in TVD.
        other: An attention found elsewhere, which counts if it is within ε.
    """
    outer, inner = conditions(row, epsilon + TOLERANCE.solver)
    within = attentions_within(row, inner, epsilon, other)
    most, least, each = within.max(axis=0), within.min(axis=0), np.eye(len(row.alpha))
    # No program is needed for a token that all conditions allow to have all weight, or if the
    # attentions found already reach 1, or 0.
    upper, lower = np.ones_like(most), np.zeros_like(least)
    above = (outer.matrix > outer.limit[:, None]).any(axis=0) & (most < 1.0)
    upper[above] = maximise(each[above], outer, row.alpha).bound
    below = least > 0.0
    lower[below] = -maximise(-each[below], outer, row.alpha).bound
    return Bounds(most, least, np.clip(upper, most, 1.0), np.clip(lower, 0.0, least))


def conditions(row: RowLogits, epsilon: float) -> tuple[Constraints, Constraints]:
    """Return conditions that all attentions within ε meet, and those linearised at the row's own.

    With many classes, sets are added that gain probability under the attentions proposed so far:
    their conditions are violated most.

    Args:
        row: The row's logits.
        epsilon: Largest change of the output, in TVD.

    Returns:
        Outer conditions, which bound weights, and inner ones, which propose attentions.
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
    row: RowLogits, inner: Constraints, epsilon: float, other: Attention
) -> Attentions:
    """Search for attentions within ε with extreme weights.

    Args:
        row: The row's logits.
        inner: Conditions for the programs that propose attentions.
        epsilon: Largest change of the output, in TVD.
        other: An attention found elsewhere, which counts if it is within ε.

    Returns:
        The attentions found, including the row's own.
    """
    each, limit = np.eye(len(row.alpha)), epsilon + TOLERANCE.solver
    change = row.change(each)
    outside = each[change > limit]
    known = np.vstack([row.alpha, other, each])
    # Without a tanh the programs find attention with the same sum themselves.
    if row.layer.tanh:
        single, alpha = Ragged.from_rows([row.single]), Ragged.from_rows([row.alpha])
        known = np.vstack([known, *movements(single, alpha, RANGES).ends])
    found = known[row.change(known) <= limit]
    # Every attention found counts for all tokens, not only for the one it was made for.
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
    """Solve programs for the goals, and move the proposals to the row's own until within ε."""
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

    A mixture starts with all attention on the token, and is read out at the ends of equal cells.
    The output may come within ε inside a cell only if the distances at its two ends, and the
    distance between them, allow it. This takes the output's path through a cell as straight.
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
    # Ternary search for the least change in each cell.
    for _ in range(THIRDS):
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
    """Bisect from attentions inside ε towards those outside, up to the last one within ε."""
    near, far = np.zeros(len(outside)), np.ones(len(outside))
    for _ in range(HALVINGS):
        middle = 0.5 * (near + far)
        fits = row.change(inside + middle[:, None] * (outside - inside)) <= epsilon
        near, far = np.where(fits, middle, near), np.where(fits, far, middle)
    return inside + near[:, None] * (outside - inside)
