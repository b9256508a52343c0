"""Attentions with the same attended sum: their dimension, the ranges of weights, their reach.

They are the polytope ``α' ≥ 0, Σ α'_t = 1, Σ α'_t r_t = Σ α_t r_t``. Its dimension is at most T − 1
minus the rank of the readouts around their mean.

The range of a weight is a linear program each way. The largest total variation distance is the
maximum of a convex function, so it is at a vertex. If the readouts lie on a line, a vertex has two
weights at most and the maximum is known in closed form. Else the largest distance found is that of
the ends of the ranges and of programs that maximise ``Σ s_t α'_t`` for signs s, and an upper bound
adds up how far each weight can fall.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int64

from attnaudit.core.ragged import Ragged
from attnaudit.experiments.programs import Constraints, maximise
from attnaudit.experiments.ranges.line import lowest, ranges_on_line

# Singular values up to this share of the norm of the readouts count as zero. Readouts are stored in
# float32, whose rounding, 6e-8 of each number, alone makes values of that order.
ZERO = 1e-6
LARGEST = 10_000  # T · rank of the rows whose programs are solved, a matter of seconds
RANGES = 4  # positions of most attention whose ranges are computed, by default


class Movement(NamedTuple):
    """How far the attention of one row can move; NaN where the programs are too large.

    Attributes:
        dimension: Dimension of the null space.
        reach: Largest TVD found.
        upper: TVD that no attention exceeds.
        least: Least weights of the tokens of most attention.
        most: Largest weights of the same tokens.
        ends: Attentions found with the same sum, the one at distance ``reach`` among them; the
            row's own if there is no other.
    """

    dimension: int
    reach: float
    upper: float
    least: Float[np.ndarray, " k"]
    most: Float[np.ndarray, " k"]
    ends: Float[np.ndarray, "e T"]


class Movements(NamedTuple):
    """`Movement` of every row, ``(n,)`` each; ``least`` and ``most`` have a number per range."""

    dimension: Int64[np.ndarray, " n"]
    reach: Float[np.ndarray, " n"]
    upper: Float[np.ndarray, " n"]
    least: Ragged
    most: Ragged


def movements(contribution: Ragged, alpha: Ragged, tokens: int) -> Movements:
    """Compute how far the attention of every row can move.

    Args:
        contribution: Readouts, ``(T, P)`` numbers per row.
        alpha: The model's own attention.
        tokens: Number of positions of most attention whose ranges are computed.
    """
    if contribution.values.shape[1] == 1:
        return _on_line(contribution.values[:, 0], alpha, tokens)[0]
    rows = [movement(r, a, tokens) for r, a in zip(contribution, alpha, strict=True)]
    dimension, reach, upper = (np.array([row[k] for row in rows]) for k in range(3))
    least, most = (Ragged.from_rows([row[k] for row in rows], np.float64) for k in (3, 4))
    return Movements(dimension, reach, upper, least, most)


def movement(
    contribution: Float[np.ndarray, "T P"], alpha: Float[np.ndarray, " T"], tokens: int
) -> Movement:
    """Compute how far the attention of one row can move, as `movements`."""
    spanned = directions(contribution)
    rank = spanned.shape[1]
    dimension = len(alpha) - 1 - rank
    if rank < 2:
        value = spanned[:, 0] if rank else np.zeros(len(alpha))
        moved, ends = _on_line(value, Ragged.from_rows([alpha]), tokens)
        _, (reach,), (upper,), least, most = moved
        return Movement(dimension, reach, upper, least.values, most.values, ends[None])
    top = np.argsort(-alpha, kind="stable")[:tokens]
    if dimension == 0:
        return Movement(0, 0.0, 0.0, alpha[top], alpha[top], alpha[None])
    if len(alpha) * rank > LARGEST:
        unknown = np.full(len(top), np.nan)
        return Movement(dimension, np.nan, np.nan, unknown, unknown, alpha[None])
    return _by_programs(spanned, alpha, top)


def directions(contribution: Float[np.ndarray, "T P"]) -> Float[np.ndarray, "T rank"]:
    """Express the readouts around their mean in the directions that they span, scaled to 1."""
    centred = contribution - contribution.mean(axis=0)
    scale = np.linalg.norm(contribution)
    if not scale > 0.0:
        return np.zeros((len(contribution), 0))
    left, size, _ = np.linalg.svd(centred / scale, full_matrices=False)
    spanned = (left * size)[:, size > ZERO]
    return spanned / np.abs(spanned).max(axis=0)


def _by_programs(
    spanned: Float[np.ndarray, "T rank"],
    alpha: Float[np.ndarray, " T"],
    top: Int64[np.ndarray, " k"],
) -> Movement:
    same_sum, each, own = (
        Constraints(spanned.T, alpha @ spanned, True),
        np.eye(len(alpha)),
        alpha[top],
    )
    signs = np.where(alpha > 1.0 / len(alpha), -1.0, 1.0)
    ends = maximise(np.vstack([-each[top], each[top], signs]), same_sum, alpha).attention
    lows, highs = ends[: len(top)], ends[len(top) : -1]
    least = np.minimum(lows[np.arange(len(top)), top], own)
    most = np.maximum(highs[np.arange(len(top)), top], own)
    # The signs of the farthest end lead to one at least as far (Frank & Wolfe 1956).
    farthest = ends[np.abs(ends - alpha).sum(axis=1).argmax()]
    further = maximise(np.where(farthest < alpha, -1.0, 1.0)[None], same_sum, alpha).attention
    ends = np.vstack([ends, further])
    reach = float(0.5 * np.abs(ends - alpha).sum(axis=1).max())
    # Weights can fall as far as their ranges allow, those of the other tokens to 0.
    upper = 1.0 - least.sum()
    if len(top) == len(alpha):
        upper = min(upper, (most - own).sum())
    dimension = len(alpha) - 1 - spanned.shape[1]
    return Movement(dimension, reach, max(float(upper), reach), least, most, ends)


def _on_line(
    readout: Float[np.ndarray, " N"], alpha: Ragged, tokens: int
) -> tuple[Movements, Float[np.ndarray, " N"]]:
    """Compute the movement of rows of one number per token, and the attentions farthest away."""
    rows, order = alpha.with_values(readout), np.lexsort((-alpha.values, alpha.row_of_value))
    centred = readout - alpha.spread(rows.sum() / alpha.lengths)
    size, norm = (np.sqrt(rows.with_values(part**2).sum()) for part in (centred, readout))
    differ = size > ZERO * norm
    # A sum that the heaviest token enters would lose weights close to 0.
    value = readout - alpha.spread(readout[order[alpha.offsets[:-1]]])
    value -= alpha.spread(rows.with_values(alpha.values * value).sum())
    value = rows.with_values(np.where(alpha.spread(differ), value, 0.0))
    dimension = alpha.lengths - 1 - differ
    fixed, zero = alpha.spread(dimension == 0), np.zeros(len(alpha))
    ends, reach = _farthest(value, alpha)
    count = np.minimum(alpha.lengths, tokens)
    within = np.arange(len(order)) - alpha.spread(alpha.offsets[:-1])
    top = order[within < alpha.spread(count)]
    least, most = (
        Ragged.from_lengths(np.where(fixed, alpha.values, weights)[top], count)
        for weights in ranges_on_line(value, alpha, zero, zero)
    )
    reach = np.where(dimension == 0, 0.0, reach)
    ends = np.where(fixed, alpha.values, ends)
    return Movements(dimension, reach, reach, least, most), ends


def _farthest(
    value: Ragged, alpha: Ragged
) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " n"]]:
    """Find the farthest attention with mean 0 of every row, and its distance.

    It is on a token i of value ≤ 0, with weight v_j/(v_j − v_i), and a token j of value ≥ 0. Its
    distance is 1 − min(share, α_i) − min(1 − share, α_j). What is subtracted is the least of
    α_i + α_j, share + α_j, α_i + 1 − share and 1. For the first the lightest tokens of both sides
    are best, for the second the lowest i is best whatever j is, for the third the highest j.
    """
    v, weight = value.values, alpha.values

    def best(side: np.ndarray, cost: np.ndarray) -> np.ndarray:
        return lowest(value.with_values(np.where(side, cost, np.inf)))

    def share(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        gap = high - low
        return np.where(gap > 0.0, high, 1.0) / np.where(gap > 0.0, gap, 1.0)

    below, above = v <= 0.0, v >= 0.0
    lowest_value, highest_value = lowest(value), lowest(value.with_values(-v))
    share_of_lowest = share(alpha.spread(v[lowest_value]), v)
    share_of_highest = 1.0 - share(v, alpha.spread(v[highest_value]))
    low = np.stack([best(below, weight), lowest_value, best(below, weight + share_of_highest)])
    high = np.stack([best(above, weight), best(above, weight + share_of_lowest), highest_value])
    part = share(v[low], v[high])
    distance = 1.0 - np.minimum(part, weight[low]) - np.minimum(1.0 - part, weight[high])
    farthest = distance.argmax(axis=0), np.arange(len(alpha))
    ends = np.zeros(len(v))
    ends[low[farthest]] += part[farthest]
    ends[high[farthest]] += 1.0 - part[farthest]
    return ends, distance[farthest]
