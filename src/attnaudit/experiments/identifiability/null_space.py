"""The attentions with the same attended sum as the model's own: their dimension, the range of each weight, and how far they reach.

They are the polytope ``α' ≥ 0, Σ α'_t = 1, Σ α'_t r_t = Σ α_t r_t``. Its dimension is at most that of the null space of the readouts,
``{d: Σ d_t = 0, Σ d_t r_t = 0}``: T − 1 minus the rank of the readouts around their mean. Singular values up to `TOLERANCE` times the norm
of all readouts count as zero: readouts are stored in float32, and its rounding, 6e-8 of each number, alone makes values of that order.

The range of a weight is a linear program each way. The largest total variation distance is the maximum of a convex function: it is at a
vertex, and no linear program finds it. With rank 1 a vertex has two weights at most: `line.py` tries all. Else what is found is the best of
the ends of the ranges and of programs that maximise ``Σ s_t α'_t`` for signs s, taken from the best so far again and again; the bound
adds up how far each weight can fall.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Float, Int64

from attnaudit.core.ragged import Ragged
from attnaudit.experiments.identifiability.line import TOLERANCE, moves_on_line

LARGEST = 10_000  # T · rank of the rows whose programs are solved
RANGES = 4  # positions of most attention whose ranges are computed, by default
SIGNS = 1  # programs with the signs of the best so far


class Movement(NamedTuple):
    """How far the attention of a row can move: the dimension of the null space, the largest TVD found and its bound.

    ``least`` and ``most`` are the ends of the ranges of the weights of the tokens of most attention. NaN where the programs are too large.
    ``ends`` are the attentions found with the same sum, the one of `reach` among them; the row's own where there is no other.
    """

    dimension: int
    reach: float
    upper: float
    least: Float[np.ndarray, " k"]
    most: Float[np.ndarray, " k"]
    ends: Float[np.ndarray, "e T"]


class Movements(NamedTuple):
    """`Movement` of every row, ``(n,)`` each; ``least`` and ``most`` have as many numbers a row as it has ranges."""

    dimension: Int64[np.ndarray, " n"]
    reach: Float[np.ndarray, " n"]
    upper: Float[np.ndarray, " n"]
    least: Ragged
    most: Ragged


def movements(contribution: Ragged, alpha: Ragged, tokens: int) -> Movements:
    """The movement of every row; ranges are those of the ``tokens`` positions of most attention."""
    if contribution.values.shape[1] == 1:
        line = moves_on_line(contribution.values[:, 0], alpha, tokens)
        return Movements(line.dimension, line.reach, line.reach, line.least, line.most)
    rows = [movement(r, a, tokens) for r, a in zip(contribution, alpha, strict=True)]
    dimension, reach, upper = (np.array([row[k] for row in rows]) for k in range(3))
    least, most = ([row.least for row in rows], [row.most for row in rows])
    return Movements(
        dimension,
        reach,
        upper,
        Ragged.from_rows(least, np.float64),
        Ragged.from_rows(most, np.float64),
    )


def movement(
    contribution: Float[np.ndarray, "T P"], alpha: Float[np.ndarray, " T"], tokens: int
) -> Movement:
    """The movement of one row; ranges are those of the ``tokens`` positions of most attention."""
    spanned = directions(contribution)
    dimension, rank = len(alpha) - 1 - spanned.shape[1], spanned.shape[1]
    if rank < 2:
        line = moves_on_line(
            spanned[:, 0] if rank else np.zeros(len(alpha)), Ragged.from_rows([alpha]), tokens
        )
        return Movement(
            dimension,
            line.reach[0],
            line.reach[0],
            line.least.values,
            line.most.values,
            line.end(0, alpha)[None],
        )
    top = np.argsort(-alpha, kind="stable")[:tokens]
    if dimension == 0:
        return Movement(0, 0.0, 0.0, alpha[top], alpha[top], alpha[None])
    if len(alpha) * rank > LARGEST:
        unknown = np.full(len(top), np.nan)
        return Movement(dimension, np.nan, np.nan, unknown, unknown, alpha[None])
    return _by_programs(np.vstack([spanned.T, np.ones(len(alpha))]), alpha, top, dimension)


def directions(contribution: Float[np.ndarray, "T P"]) -> Float[np.ndarray, "T rank"]:
    """The readouts around their mean, in coordinates of the directions that they span; the largest number is 1."""
    centred = contribution - contribution.mean(axis=0)
    scale = np.linalg.norm(contribution)
    if not scale > 0.0:
        return np.zeros((len(contribution), 0))
    left, size, _ = np.linalg.svd(centred / scale, full_matrices=False)
    spanned = (left * size)[:, size > TOLERANCE]
    return spanned / np.abs(spanned).max(axis=0)


def _by_programs(
    rows: Float[np.ndarray, "m T"],
    alpha: Float[np.ndarray, " T"],
    top: Int64[np.ndarray, " k"],
    dimension: int,
) -> Movement:
    """By linear programs with the equations ``rows``."""
    each, own, at = np.eye(len(alpha))[top], alpha[top], range(len(top))
    signs = np.where(alpha > 1.0 / len(alpha), -1.0, 1.0)
    ends = list(_maximise(rows, alpha, np.vstack([-each, each, signs])))
    least = np.array([min(ends[k][top[k]], own[k]) for k in at])
    most = np.array([max(ends[len(top) + k][top[k]], own[k]) for k in at])
    for _ in range(SIGNS):
        best = max(ends, key=lambda end: _distance(end, alpha))
        ends.extend(_maximise(rows, alpha, np.where(best < alpha, -1.0, 1.0)[None]))
    best = max(ends, key=lambda end: _distance(end, alpha))
    reach = _distance(best, alpha)
    upper = (
        1.0 - own.sum() + (own - least).sum()
    )  # all weight that can be taken away; of the other tokens all
    upper = min(upper, (most - own).sum()) if len(top) == len(alpha) else upper
    return Movement(dimension, reach, max(float(upper), reach), least, most, np.array(ends))


def _maximise(
    rows: Float[np.ndarray, "m T"], alpha: Float[np.ndarray, " T"], goals: Float[np.ndarray, "g T"]
) -> Float[np.ndarray, "g T"]:
    """For each goal the attention with the same attended sum that maximises it; all programs are solved in one call."""
    together = scipy.sparse.block_diag([rows] * len(goals), format="csr")
    right, options = (
        np.tile(rows @ alpha, len(goals)),
        {"presolve": False},
    )  # which takes longer than it saves
    found = scipy.optimize.linprog(
        -goals.ravel(), A_eq=together, b_eq=right, bounds=(0, None), method="highs", options=options
    )
    if found.x is None:  # the model's own attention is one, so that only rounding can leave none
        return np.tile(alpha, (len(goals), 1))
    ends = np.maximum(found.x.reshape(goals.shape), 0.0)
    return ends / ends.sum(axis=1, keepdims=True)


def _distance(one: np.ndarray, other: np.ndarray) -> float:
    return 0.5 * float(np.abs(one - other).sum())
