"""The ranges of weights of one row of several outputs: by linear programs, between what an attention shows and what none exceeds.

- *Outer.* Every output within ε has its logits in the half-spaces of `outputs`. The largest weight of a token over all attentions with
  logits there, and the least, are beyond those of any attention within ε. What counts is the bound by the program's prices λ ≥ 0, which
  holds for any of them: a goal g never exceeds max over the tokens k of (g_k − λ·G_k) + λ·h. Nothing rests on the solver's tolerances.
- *Inner.* The same programs, their half-spaces drawn in towards the model's own logits (`INNER`), propose attentions. Each is read out,
  and moved towards the model's own until its output is within ε: its weights are possible.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Float

from attnaudit.experiments.ranges.logits import RowLogits
from attnaudit.experiments.ranges.outputs import SUBSETS, HalfSpaces, outputs_within

INNER = (0.9, 0.6)  # the second where most attentions of the first are not within ε
ROUNDS = 2
HALVINGS = 30
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


def bounds_of_row(row: RowLogits, epsilon: float) -> Bounds:
    """The ranges of the weights of one row."""
    length, outputs = len(row.alpha), _outputs(row, epsilon + WITHIN)
    outer, inner = _outer(row, outputs), _Constraints(row.tangent(outputs.direction), outputs.bound)
    most, least = _found(row, inner, epsilon)
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
        broken = {inside.tobytes(): inside for inside in gained if 0 < inside.sum() < len(p) and inside.tobytes() not in known}
        if not broken:
            break
        known |= broken.keys()
        more = outputs_within(row.log_p, epsilon, np.array(list(broken.values())))
        outputs = HalfSpaces(*(np.concatenate(parts) for parts in zip(outputs, more, strict=True)))
    return outputs


def _outer(row: RowLogits, outputs: HalfSpaces) -> _Constraints:
    values, constant = row.below(outputs.direction)
    return _Constraints(values, outputs.bound - constant)


def _found(row: RowLogits, inner: _Constraints, epsilon: float) -> tuple[Float[np.ndarray, " T"], Float[np.ndarray, " T"]]:
    """The most and the least weight of every token among attentions that are within ε."""
    length = len(row.alpha)
    each = np.eye(length)
    alone = row.change(each) <= epsilon + WITHIN
    most, least = np.where(alone, 1.0, row.alpha), row.alpha.copy()
    if alone.any():
        least = np.minimum(least, each[alone].min(axis=0))

    def take(goals: Float[np.ndarray, "g T"]) -> None:
        nonlocal most, least
        for share in INNER:
            if not len(goals):
                return
            proposed = _solve(inner._replace(limit=share * inner.limit), goals).attention
            moved, whole = _within(row, proposed, epsilon)
            most, least = np.maximum(most, moved.max(axis=0)), np.minimum(least, moved.min(axis=0))
            if whole.mean() > 0.5:
                return

    take(each[~alone])
    take(-each[least > 0.0])
    return most, least


def _within(row: RowLogits, proposed: Float[np.ndarray, "g T"], epsilon: float) -> tuple[Float[np.ndarray, "g T"], np.ndarray]:
    """The attentions, moved towards the model's own until they are within ε; and which of them were as they are."""
    whole = row.change(proposed) <= epsilon + WITHIN
    step = proposed[~whole] - row.alpha
    near, far = np.zeros(len(step)), np.ones(len(step))
    for _ in range(HALVINGS):
        middle = 0.5 * (near + far)
        fits = row.change(row.alpha + middle[:, None] * step) <= epsilon
        near, far = np.where(fits, middle, near), np.where(fits, far, middle)
    moved = proposed.copy()
    moved[~whole] = row.alpha + near[:, None] * step
    return moved, whole


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
        -goals.ravel(), A_ub=together, b_ub=np.tile(limit, count), A_eq=sums, b_eq=np.ones(count), bounds=(0, None), method="highs",
        options={"presolve": False},
    )  # fmt: skip
    if found.x is None:  # rounding alone can leave none: the model's own attention is one
        return _Solved(np.full(goals.shape, 1.0 / length), goals.max(axis=1))
    prices = np.maximum(-found.ineqlin.marginals.reshape(count, -1), 0.0)
    bound = (goals - prices @ matrix).max(axis=1) + prices @ limit
    attention = np.maximum(found.x.reshape(goals.shape), 0.0)
    return _Solved(attention / attention.sum(axis=1, keepdims=True), np.minimum(bound + ROUNDING, goals.max(axis=1)))


def _repeated(matrix: Float[np.ndarray, "m T"], count: int) -> scipy.sparse.csr_array:
    """``matrix`` ``count`` times along the diagonal."""
    rows, columns = matrix.shape
    places = np.broadcast_to(np.arange(columns) + columns * np.arange(count)[:, None, None], (count, rows, columns))
    ends = columns * np.arange(count * rows + 1)
    return scipy.sparse.csr_array((np.tile(matrix.ravel(), count), places.ravel(), ends), shape=(count * rows, count * columns))
