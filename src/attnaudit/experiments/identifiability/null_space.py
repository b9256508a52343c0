"""The attentions with the same attended sum as the model's own: their dimension, the range of each weight, and how far they reach.

They are the polytope ``α' ≥ 0, Σ α'_t = 1, Σ α'_t r_t = Σ α_t r_t``. Its dimension is at most that of the null space of the readouts,
``{d: Σ d_t = 0, Σ d_t r_t = 0}``: T − 1 minus the rank of the readouts around their mean. Singular values up to `TOLERANCE` times the norm
of all readouts count as zero: readouts are stored in float32, and its rounding, 6e-8 of each number, alone makes values of that order.

The range of a weight is a linear program each way. The largest total variation distance is the maximum of a convex function: it is at a
vertex, and no linear program finds it. With rank 1 a vertex has two weights at most, and all are tried. Else what is found is the best of
the ends of the ranges and of programs that maximise ``Σ s_t α'_t`` for signs s, taken from the best so far again and again; the bound
adds up how far each weight can fall.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Float, Int64

TOLERANCE = 1e-6
LARGEST = 10_000  # T · rank of the rows whose programs are solved
RANGES = 4  # positions of most attention whose ranges are computed, by default
SIGNS = 1  # programs with the signs of the best so far
PAIRS = 1 << 20


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


def movement(contribution: Float[np.ndarray, "T P"], alpha: Float[np.ndarray, " T"], tokens: int) -> Movement:
    """The movement of one row; ranges are those of the ``tokens`` positions of most attention."""
    top = np.argsort(-alpha, kind="stable")[:tokens]
    spanned = directions(contribution)
    dimension, rank = len(alpha) - 1 - spanned.shape[1], spanned.shape[1]
    if dimension == 0:
        return Movement(0, 0.0, 0.0, alpha[top], alpha[top], alpha[None])
    if rank == 0:
        reach = 1.0 - float(alpha.min())
        least_attended = np.eye(len(alpha))[[int(np.argmin(alpha))]]
        return Movement(dimension, reach, reach, np.zeros(len(top)), np.ones(len(top)), least_attended)
    if rank == 1:
        return _of_line(spanned[:, 0] - alpha @ spanned[:, 0], alpha, top)
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


def _of_line(value: Float[np.ndarray, " T"], alpha: Float[np.ndarray, " T"], top: Int64[np.ndarray, " k"]) -> Movement:
    """Of readouts on a line, ``value`` from the attended sum: every vertex is a token with value 0, or one on each side of it."""
    below, above = np.flatnonzero(value <= 0.0), np.flatnonzero(value >= 0.0)
    reach, end = 0.0, alpha
    for part in np.array_split(below, len(below) * len(above) // PAIRS + 1):
        gap = value[above] - value[part, None]
        share = np.where(gap > 0.0, value[above] / np.where(gap > 0.0, gap, 1.0), 1.0)  # of the token below
        kept = np.minimum(share, alpha[part, None]) + np.minimum(1.0 - share, alpha[above])
        if kept.size and 1.0 - kept.min() > reach:
            low, high = np.unravel_index(kept.argmin(), kept.shape)
            reach, end = float(1.0 - kept[low, high]), np.zeros_like(alpha)
            end[part[low]] += share[low, high]
            end[above[high]] += 1.0 - share[low, high]
    ranges = np.array([_range_on_line(value, t) for t in top.tolist()])
    return Movement(len(alpha) - 2, reach, reach, np.minimum(ranges[:, 0], alpha[top]), np.maximum(ranges[:, 1], alpha[top]), end[None])


def _range_on_line(value: Float[np.ndarray, " T"], t: int) -> tuple[float, float]:
    """The least and the largest weight of token ``t``, with the others as near to the other side as they are, and as far."""
    mine, others = abs(value[t]), -np.delete(value, t) * (1.0 if value[t] >= 0.0 else -1.0)
    nearest, farthest = float(others.min()), float(others.max())  # on the other side
    if mine == 0.0:
        return (0.0 if nearest <= 0.0 <= farthest else 1.0), 1.0
    return (nearest / (nearest + mine) if nearest > 0.0 else 0.0), (farthest / (farthest + mine) if farthest > 0.0 else 0.0)


def _by_programs(rows: Float[np.ndarray, "m T"], alpha: Float[np.ndarray, " T"], top: Int64[np.ndarray, " k"], dimension: int) -> Movement:
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
    upper = 1.0 - own.sum() + (own - least).sum()  # all weight that can be taken away; of the other tokens all
    upper = min(upper, (most - own).sum()) if len(top) == len(alpha) else upper
    return Movement(dimension, reach, max(float(upper), reach), least, most, np.array(ends))


def _maximise(rows: Float[np.ndarray, "m T"], alpha: Float[np.ndarray, " T"], goals: Float[np.ndarray, "g T"]) -> Float[np.ndarray, "g T"]:
    """For each goal the attention with the same attended sum that maximises it; all programs are solved in one call."""
    together = scipy.sparse.block_diag([rows] * len(goals), format="csr")
    right, options = np.tile(rows @ alpha, len(goals)), {"presolve": False}  # which takes longer than it saves
    found = scipy.optimize.linprog(-goals.ravel(), A_eq=together, b_eq=right, bounds=(0, None), method="highs", options=options)
    if found.x is None:  # the model's own attention is one, so that only rounding can leave none
        return np.tile(alpha, (len(goals), 1))
    ends = np.maximum(found.x.reshape(goals.shape), 0.0)
    return ends / ends.sum(axis=1, keepdims=True)


def _distance(one: np.ndarray, other: np.ndarray) -> float:
    return 0.5 * float(np.abs(one - other).sum())
