"""The ranges of weights of one row of several outputs: by linear programs, between what an attention shows and what none exceeds.

- *Outer.* Every output within ε has its logits in the half-spaces of `outputs`. The largest weight of a token over all attentions with
  logits there, and the least, are beyond those of any attention within ε. What counts is the bound by the program's prices λ ≥ 0, which
  holds for any of them: a goal g never exceeds max over the tokens k of (g_k − λ·G_k) + λ·h. Nothing rests on the solver's tolerances.
- *Inner.* The same programs, their half-spaces drawn in towards the model's own logits (`INNER`), propose attentions, by slopes that hold
  near the own attention. Mixtures of two tokens, attention with the same attended sum, and what the adversary found, are far from it. Each
  is read out, and moved until its output is within ε: its weights are possible.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Float, Int64

from attnaudit.experiments.identifiability.null_space import RANGES, movement
from attnaudit.experiments.ranges.logits import RowLogits
from attnaudit.experiments.ranges.outputs import SUBSETS, HalfSpaces, outputs_within

INNER = (0.9, 0.6)  # the second where most attentions of the first are not within ε
ROUNDS = 2
PARTNERS, LOOKS, FOLLOWED = (
    16,
    12,
    2,
)  # tokens that each is mixed with, cells of a mixture, and mixtures followed within one
NUMBERS = 1 << 20  # of the attended sums of mixtures that are held
HALVINGS, THIRDS = 24, 10
WITHIN = 1e-9  # room for rounding: ε and this is what both sides are about
ROUNDING = 1e-12


class Bounds(NamedTuple):
    """For every token (T,): no weight below ``necessary_lower`` or above ``possible_upper``; both others are those of some attention."""

    possible: Float[np.ndarray, " T"]
    necessary: Float[np.ndarray, " T"]
    possible_upper: Float[np.ndarray, " T"]
    necessary_lower: Float[np.ndarray, " T"]


class _Constraints(NamedTuple):
    """``matrix @ attention ≤ limit``."""

    matrix: Float[np.ndarray, "m T"]
    limit: Float[np.ndarray, " m"]


def bounds_of_row(row: RowLogits, epsilon: float, other: Float[np.ndarray, " T"]) -> Bounds:
    """The ranges of the weights of one row; an ``other`` attention, found elsewhere, is possible if it is within ε."""
    length, outputs = len(row.alpha), _outputs(row, epsilon + WITHIN)
    outer, inner = _outer(row, outputs), _Constraints(row.tangent(outputs.direction), outputs.bound)
    most, least = _found(row, inner, epsilon, other)
    upper, lower, each = np.ones(length), np.zeros(length), np.eye(length)
    open_above = np.flatnonzero((outer.matrix > outer.limit[:, None]).any(axis=0) & (most < 1.0))
    upper[open_above] = _solve(outer, each[open_above]).bound
    open_below = np.flatnonzero(least > 0.0)
    lower[open_below] = -_solve(outer, -each[open_below]).bound
    return Bounds(most, least, np.clip(upper, most, 1.0), np.clip(lower, 0.0, least))


def _outputs(row: RowLogits, epsilon: float) -> HalfSpaces:
    """The half-spaces of the outputs; of many classes also those of the sets that the programs' attentions break, found in `ROUNDS`."""
    outputs, p, known = outputs_within(row.log_p, epsilon), np.exp(row.log_p), set[bytes]()
    for _ in range(ROUNDS if len(p) > SUBSETS else 0):
        gained = row.prediction(_solve(_outer(row, outputs), np.eye(len(row.alpha))).attention) > p
        broken = {
            inside.tobytes(): inside
            for inside in gained
            if 0 < inside.sum() < len(p) and inside.tobytes() not in known
        }
        if not broken:
            break
        known |= broken.keys()
        more = outputs_within(row.log_p, epsilon, np.array(list(broken.values())))
        outputs = HalfSpaces(*(np.concatenate(parts) for parts in zip(outputs, more, strict=True)))
    return outputs


def _outer(row: RowLogits, outputs: HalfSpaces) -> _Constraints:
    values, constant = row.below(outputs.direction)
    return _Constraints(values, outputs.bound - constant)


def _found(
    row: RowLogits, inner: _Constraints, epsilon: float, other: Float[np.ndarray, " T"]
) -> tuple[Float[np.ndarray, " T"], Float[np.ndarray, " T"]]:
    """The most and the least weight of every token among attentions that are within ε."""
    each = np.eye(len(row.alpha))
    change = row.change(each)
    outside = change > epsilon + WITHIN
    best, least = (
        np.tile(row.alpha, (len(each), 1)),
        row.alpha.copy(),
    )  # for every token the attention with the most weight on it
    same_sum = (
        row.alpha[None]
        if row.weight is None
        else movement(row.contribution, row.alpha, RANGES).ends
    )  # else programs find it
    known = np.vstack([other, same_sum, each])
    _take(best, least, known[row.change(known) <= epsilon + WITHIN])
    _take(best, least, _by_programs(row, inner, each[outside], epsilon))
    if outside.any():
        partners = np.argsort(change, kind="stable")[:PARTNERS]
        _take(best, least, _mixed(row, np.flatnonzero(outside), partners, epsilon))
        _take(best, least, _first_within(row, each[outside], best[outside], epsilon))
    _take(best, least, _by_programs(row, inner, -each[least > 0.0], epsilon))
    return np.diag(best), least


def _take(
    best: Float[np.ndarray, "T T"], least: Float[np.ndarray, " T"], found: Float[np.ndarray, "g T"]
) -> None:
    """Attentions within ε, each of which replaces the best of the tokens that it has more weight on."""
    if len(found):
        largest = found.argmax(axis=0)
        better = np.flatnonzero(found.max(axis=0) > np.diag(best))
        best[better] = found[largest[better]]
        np.minimum(least, found.min(axis=0), out=least)


def _by_programs(
    row: RowLogits, inner: _Constraints, goals: Float[np.ndarray, "g T"], epsilon: float
) -> Float[np.ndarray, "n T"]:
    """What programs propose for the goals, moved towards the model's own attention until it is within ε."""
    found = [goals[:0]]
    for share in INNER if len(goals) else ():
        proposed = _solve(inner._replace(limit=share * inner.limit), goals).attention
        whole = row.change(proposed) <= epsilon + WITHIN
        found += proposed[whole], _first_within(row, proposed[~whole], row.alpha, epsilon)
        if whole.mean() > 0.5:
            break
    return np.concatenate(found)


def _mixed(
    row: RowLogits,
    tokens: Int64[np.ndarray, " m"],
    partners: Int64[np.ndarray, " k"],
    epsilon: float,
) -> Float[np.ndarray, "n T"]:
    """Attentions within ε on one of the ``tokens`` and one of the ``partners``: of each token those that need least of a partner."""
    each, numbers = np.eye(len(row.alpha)), len(partners) * (LOOKS + 1) * row.contribution.shape[1]
    pieces = np.array_split(tokens, np.clip(len(tokens) * numbers // NUMBERS, 1, len(tokens)))
    cell = np.concatenate([_first_cells(row, piece, partners, epsilon) for piece in pieces])
    chosen = np.argsort(cell, axis=1, kind="stable")[:, :FOLLOWED]
    token, rank = np.nonzero(np.take_along_axis(cell, chosen, axis=1) < LOOKS)
    partner = chosen[token, rank]
    step = (each[partners[partner]] - each[tokens[token]]) / LOOKS
    before = each[tokens[token]] + cell[token, partner, None] * step
    nearest = _nearest(row, before, before + step)
    within = row.change(nearest) <= epsilon
    return _first_within(row, before[within], nearest[within], epsilon)


def _first_cells(
    row: RowLogits,
    tokens: Int64[np.ndarray, " m"],
    partners: Int64[np.ndarray, " k"],
    epsilon: float,
) -> Int64[np.ndarray, "m k"]:
    """Of each mixture, from all attention on the token, the first of `LOOKS` cells where the output may come within ε; `LOOKS` for none.

    It may between two looks if both distances and the way allow it, taken to be straight.
    """
    share, each = np.linspace(0.0, 1.0, LOOKS + 1)[:, None], row.offset + row.contribution
    pooled = (1.0 - share) * each[tokens, None, None] + share * each[partners, None]
    output = row.output(pooled.reshape(-1, pooled.shape[3])).reshape(*pooled.shape[:3], -1)
    distance = 0.5 * np.abs(output - np.exp(row.log_p)).sum(axis=3)
    way = 0.5 * np.abs(np.diff(output, axis=2)).sum(axis=3)
    possible = distance[:, :, :-1] + distance[:, :, 1:] - way <= 2.0 * epsilon
    return np.where(possible.any(axis=2), possible.argmax(axis=2), LOOKS)


def _nearest(
    row: RowLogits, start: Float[np.ndarray, "g T"], end: Float[np.ndarray, "g T"]
) -> Float[np.ndarray, "g T"]:
    """The attentions on short segments whose outputs are nearest to the model's: of two points inside the nearer one, again and again."""
    for _ in range(THIRDS):
        step = (end - start) / 3.0
        left, right = row.change(start + step), row.change(end - step)
        start, end = (
            np.where((left > right)[:, None], start + step, start),
            np.where((left > right)[:, None], end, end - step),
        )
    return 0.5 * (start + end)


def _first_within(
    row: RowLogits, outside: Float[np.ndarray, "g T"], inside: np.ndarray, epsilon: float
) -> Float[np.ndarray, "g T"]:
    """Attentions within ε on the way from some that are not to others, or to one, by halving."""
    near, far = np.zeros(len(outside)), np.ones(len(outside))
    for _ in range(HALVINGS):
        middle = 0.5 * (near + far)
        fits = row.change(inside + middle[:, None] * (outside - inside)) <= epsilon
        near, far = np.where(fits, middle, near), np.where(fits, far, middle)
    return inside + near[:, None] * (outside - inside)


class _Solved(NamedTuple):
    """For every goal an attention of the program, and what the goal does not exceed."""

    attention: Float[np.ndarray, "g T"]
    bound: Float[np.ndarray, " g"]


def _solve(constraints: _Constraints, goals: Float[np.ndarray, "g T"]) -> _Solved:
    """For each goal the attention that maximises it within the constraints; all programs are solved in one call."""
    matrix, limit = constraints
    count, length = goals.shape
    if not count or not len(limit):
        return _Solved(np.eye(length)[goals.argmax(axis=1)], goals.max(axis=1))
    together, sums = _repeated(matrix, count), _repeated(np.ones((1, length)), count)
    found = scipy.optimize.linprog(
        -goals.ravel(),
        A_ub=together,
        b_ub=np.tile(limit, count),
        A_eq=sums,
        b_eq=np.ones(count),
        bounds=(0, None),
        method="highs",
        options={"presolve": False},
    )
    if found.x is None:  # rounding alone can leave none: the model's own attention is one
        return _Solved(np.full(goals.shape, 1.0 / length), goals.max(axis=1))
    prices = np.maximum(-found.ineqlin.marginals.reshape(count, -1), 0.0)
    bound = (goals - prices @ matrix).max(axis=1) + prices @ limit
    attention = np.maximum(found.x.reshape(goals.shape), 0.0)
    return _Solved(
        attention / attention.sum(axis=1, keepdims=True),
        np.minimum(bound + ROUNDING, goals.max(axis=1)),
    )


def _repeated(matrix: Float[np.ndarray, "m T"], count: int) -> scipy.sparse.csr_array:
    """``matrix`` ``count`` times along the diagonal."""
    rows, columns = matrix.shape
    places = np.broadcast_to(
        np.arange(columns) + columns * np.arange(count)[:, None, None], (count, rows, columns)
    )
    ends = columns * np.arange(count * rows + 1)
    return scipy.sparse.csr_array(
        (np.tile(matrix.ravel(), count), places.ravel(), ends),
        shape=(count * rows, count * columns),
    )
