"""Attentions with the same attended sum: dimension, ranges of weights, largest distance.

They form the polytope ``α' ≥ 0, Σ α'_t = 1, Σ α'_t r_t = Σ α_t r_t``. Its dimension is at most
T − 1 minus the rank of the readouts around their mean.

The range of a weight takes two linear programs. The largest total variation distance is the maximum
of a convex function, so it is at a vertex. If the readouts lie on a line, a vertex has at most two
weights, and the maximum has a closed form. Otherwise the search tries the ends of the ranges, and
programs that maximise ``Σ s_t α'_t`` for signs s. An upper bound adds up how far each weight can
fall.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Float

from attnaudit.core.ragged import Ragged
from attnaudit.core.shapes import PerPosition, PerRow, PerToken, RowInts
from attnaudit.experiments.ranges.line import lowest, ranges_on_line

# Singular values up to this share of the norm of the readouts count as zero. Readouts are stored in
# float32: rounding by 6e-8 of each number leaves singular values of about that size.
ZERO = 1e-6
# Largest T · rank of a row whose programs are solved. They take seconds at this size.
LARGEST = 10_000
# Number of most attended positions whose ranges are computed.
RANGES = 4


class Movements(NamedTuple):
    """Freedom of the attention of each row; NaN if its programs are too large.

    Attributes:
        dimension: Dimension of the null space, ``(n,)``.
        reach: Largest TVD found, ``(n,)``.
        upper: TVD that no attention with the same sum exceeds, ``(n,)``.
        least: Least weights of the most attended tokens.
        most: Largest weights of the same tokens.
        ends: Attentions found with the same sum, ``(e, T)`` per row, including one at distance
            ``reach``; the row's own if there is no other.
    """

    dimension: RowInts
    reach: PerRow
    upper: PerRow
    least: Ragged
    most: Ragged
    ends: list[Float[np.ndarray, "_ T"]]


def movements(contribution: Ragged, alpha: Ragged) -> Movements:
    """Compute how far the attention of each row can move without a change of its attended sum.

    Args:
        contribution: Readouts, ``(T, P)`` numbers per row.
        alpha: The model's own attention.
    """
    if contribution.values.shape[1] == 1:
        return _on_line(contribution.values[:, 0], alpha)
    spanned = [directions(readout) for readout in contribution]
    # Rows that span more than one direction are replaced below.
    line = np.concatenate([part[:, 0] if part.size else np.zeros(len(part)) for part in spanned])
    moved = _on_line(line, alpha)
    for row, part in enumerate(spanned):
        if part.shape[1] > 1:
            _replace(moved, row, part, alpha[row])
    return moved


def directions(contribution: Float[np.ndarray, "T P"]) -> Float[np.ndarray, "T rank"]:
    """Express the centred readouts in the directions that they span, each scaled to 1.

    Only weights that sum to 1 are compared, so the mean of the readouts changes nothing.
    """
    centred = contribution - contribution.mean(axis=0)
    scale = np.linalg.norm(contribution)
    if not scale > 0.0:
        return np.zeros((len(contribution), 0))
    left, size, _ = np.linalg.svd(centred / scale, full_matrices=False)
    # The solver's tolerances are absolute, so directions of small spread must not stay small.
    spanned = (left * size)[:, size > ZERO]
    return spanned / np.abs(spanned).max(axis=0)


def _replace(
    moved: Movements, row: int, spanned: Float[np.ndarray, "T rank"], alpha: PerToken
) -> None:
    """Overwrite ``moved`` for a row whose readouts span two or more directions."""
    least, most, length = moved.least[row], moved.most[row], len(alpha)
    top = np.argsort(-alpha, kind="stable")[: len(least)]
    moved.dimension[row] = length - 1 - spanned.shape[1]
    moved.reach[row], moved.upper[row], moved.ends[row] = 0.0, 0.0, alpha[None]
    least[:], most[:] = alpha[top], alpha[top]
    if moved.dimension[row] == 0:
        return
    if spanned.size > LARGEST:
        least[:] = most[:] = moved.reach[row] = moved.upper[row] = np.nan
        return
    # The first signs ask for attention that leaves the tokens above the average weight.
    each = np.eye(length)[top]
    signs = np.where(alpha > 1.0 / length, -1.0, 1.0)
    ends = _maximise(np.vstack([-each, each, signs]), spanned, alpha)
    np.minimum(least, ends[np.arange(len(top)), top], out=least)
    np.maximum(most, ends[len(top) + np.arange(len(top)), top], out=most)
    # The distance is convex. So maximising its slope at the farthest end gives an attention at
    # least as far (Frank & Wolfe 1956).
    farthest = ends[np.abs(ends - alpha).sum(axis=1).argmax()]
    further = _maximise(np.where(farthest < alpha, -1.0, 1.0)[None], spanned, alpha)
    moved.ends[row] = np.vstack([ends, further])
    moved.reach[row] = 0.5 * np.abs(moved.ends[row] - alpha).sum(axis=1).max()
    # TVD is what the weights lose in all: those with known ranges can fall to their least value,
    # the others to 0.
    upper = 1.0 - least.sum()
    if len(top) == length:
        upper = min(upper, (most - alpha[top]).sum())
    moved.upper[row] = max(upper, moved.reach[row])


def _maximise(
    goals: Float[np.ndarray, "g T"],
    spanned: Float[np.ndarray, "T rank"],
    own: PerToken,
) -> Float[np.ndarray, "g T"]:
    """Maximise each of ``goals @ attention`` over the attentions with the sum of ``own``."""
    exact = np.vstack([spanned.T, np.ones_like(own)])
    # All programs are one block-diagonal program: scipy spends milliseconds on each call.
    solved = scipy.optimize.linprog(
        -goals.ravel(),
        A_eq=scipy.sparse.kron(scipy.sparse.eye_array(len(goals)), exact, format="csr"),
        b_eq=np.tile(np.append(own @ spanned, 1.0), len(goals)),
        bounds=(0, None),
        method="highs",
        # Presolve takes longer than it saves on programs this small.
        options={"presolve": False},
    )
    if solved.x is None:  # rounding leaves the solver no other
        return np.tile(own, (len(goals), 1))
    # Weights are ≥ 0 and sum to 1 only to the solver's tolerance.
    attention = np.maximum(solved.x.reshape(goals.shape), 0.0)
    return attention / attention.sum(axis=1, keepdims=True)


def _on_line(readout: PerPosition, alpha: Ragged) -> Movements:
    """Compute the movements of rows whose readouts are one number per token."""
    rows, order = alpha.with_values(readout), alpha.descending()
    centred = readout - alpha.spread(rows.sum() / alpha.lengths)
    size, norm = (np.sqrt(rows.with_values(part**2).sum()) for part in (centred, readout))
    differ = size > ZERO * norm
    # Measured from the heaviest token, that token adds nothing to the sum. Its large term would
    # round away what weights close to 0 add.
    value = readout - alpha.spread(readout[order[alpha.offsets[:-1]]])
    value -= alpha.spread(rows.with_values(alpha.values * value).sum())
    value = rows.with_values(np.where(alpha.spread(differ), value, 0.0))
    dimension = alpha.lengths - 1 - differ
    fixed, zero = alpha.spread(dimension == 0), np.zeros(len(alpha))
    ends, reach = _farthest(value, alpha)
    reach = np.where(dimension == 0, 0.0, reach)
    ends = alpha.with_values(np.where(fixed, alpha.values, ends))
    count = np.minimum(alpha.lengths, RANGES)
    top = order[alpha.places < alpha.spread(count)]
    least, most = (
        Ragged.from_lengths(np.where(fixed, alpha.values, weights)[top], count)
        for weights in ranges_on_line(value, alpha, zero, zero)
    )
    each = [ends.values[None, first:last] for first, last in pairwise(alpha.offsets.tolist())]
    return Movements(dimension, reach, reach.copy(), least, most, each)


def _farthest(value: Ragged, alpha: Ragged) -> tuple[PerPosition, PerRow]:
    """Find the farthest attention with mean 0 in each row, and its distance.

    It attends to a token i of value ≤ 0, with the share v_j/(v_j − v_i), and to a token j of
    value ≥ 0. Its distance is 1 − min(share, α_i) − min(1 − share, α_j). The subtracted sum is the
    least of α_i + α_j, share + α_j, α_i + 1 − share and 1. For the first, the lightest tokens of
    both sides are best. For the second the lowest i is best whatever j is, and for the third the
    highest j whatever i is. So three pairs are enough, out of up to T²/4.
    """
    v, weight = value.values, alpha.values

    def best(side, cost):
        return lowest(value.with_values(np.where(side, cost, np.inf)))

    def share(low, high):
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
