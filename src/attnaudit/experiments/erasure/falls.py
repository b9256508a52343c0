"""Falls of the predicted probability without the best positions of a ranking, and with them alone.

With two classes and an identity tail the smallest and the largest fall that any choice of as many
positions gives are exact. Keeping ``K`` gives a ratio, ``Σ_{t∈K} alpha_t · r_t / Σ_{t∈K} alpha_t``,
which the offset shifts and whose order the sigmoid keeps. A ratio λ can be beaten if and only if
``Σ_{t∈K} alpha_t (r_t − λ) > 0`` for some ``K``, and the best ``K`` for that are the largest terms.
Starting from any ``K``, taking its own ratio for λ again and again ends at the largest ratio
(Dinkelbach 1967), in a few steps of O(T) each.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int64, UInt64
from numba import njit
from scipy.special import expit

from attnaudit.core.ragged import Ragged
from attnaudit.core.threads import over_rows
from attnaudit.experiments.erasure.removal import Rows, Walks, in_blocks, in_chunks
from attnaudit.stats.measures import ERASED_SHARES
from attnaudit.trace.readout import Readout

MOST_STEPS = 100  # of Dinkelbach's; a handful suffice, but rounding may make two choices alternate


def falls(
    readout: Readout,
    alpha: Ragged,
    scores: dict[str, Ragged],
    streams: UInt64[np.ndarray, " n"],
    orders: int,
) -> dict[str, Float[np.ndarray, "n 2 S"]]:
    """Measure how far the predicted class's probability falls by each share of T removed, or kept.

    Args:
        readout: Readout of the rows.
        alpha: Their attention.
        scores: Scores of the positions by name.
        streams: Random streams of the rows.
        orders: Number of random orders.

    Returns:
        Falls without the best positions of each share, and with them alone, for every score and
        ``random``, the mean over random orders; NaN where T is 1 or a removal leaves no weight.
    """

    def compute(
        rows: Rows, numbers: Int64[np.ndarray, " m"]
    ) -> dict[str, Float[np.ndarray, "m 2 S"]]:
        ranked = [score.take(numbers).descending() for score in scores.values()]
        total = np.zeros((len(numbers), 2, len(ERASED_SHARES)))
        for chunk in in_chunks(orders):
            total += _falls(rows, rows.random_orders(streams[numbers], chunk)).sum(axis=0)
        each = [_falls(rows, np.stack(ranked[c.start : c.stop])) for c in in_chunks(len(ranked))]
        return dict(zip(scores, np.concatenate(each), strict=True)) | {"random": total / orders}

    return in_blocks(compute, readout, alpha)


def _falls(rows: Rows, orders: Int64[np.ndarray, "k N"]) -> Float[np.ndarray, "k m 2 S"]:
    alpha, every = rows.alpha, np.arange(len(rows.alpha))
    counts = np.stack([top_size(share, alpha.lengths) for share in ERASED_SHARES], axis=1)
    before = rows.outputs.probability(rows.outputs.own, every)
    walk = np.repeat(np.arange(len(orders) * len(counts)), counts.shape[1])
    count = np.tile(counts.reshape(-1), len(orders))
    after = [
        Walks(rows, orders, keep).measure(walk, count, rows.outputs.probability)
        for keep in (False, True)
    ]
    shape = 2, len(orders), *counts.shape
    return before[:, None, None] - np.moveaxis(np.reshape(after, shape), 0, 2)


def top_size(share: float, lengths: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, " n"]:
    """Count the tokens of a share of T: one at least."""
    return np.maximum(np.ceil(share * lengths - 1e-9), 1).astype(np.int64)


def bounds(readout: Readout, alpha: Ragged) -> Float[np.ndarray, "n 2 S 2"]:
    """Bound the falls that any choice of as many tokens gives, where one logit decides.

    Returns:
        The smallest and the largest fall, without the tokens and with them alone, at each share;
        NaN where T is 1.
    """
    value, offset = readout.contribution.values[:, -1], readout.offset[:, -1]
    if readout.activation == "softmax":
        value, offset = value - readout.contribution.values[:, 0], offset - readout.offset[:, 0]
    logit = offset + alpha.with_values(alpha.values * value).sum()
    sign = np.where(logit >= 0.0, 1.0, -1.0)  # so that it is the predicted class whose logit it is
    removed = np.stack([top_size(share, alpha.lengths) for share in ERASED_SHARES], axis=1)
    kept = np.hstack([alpha.lengths[:, None] - removed, removed])
    means = np.full((*kept.shape, 2), np.nan)
    value = alpha.spread(sign) * value
    over_rows(extreme_means, alpha.offsets, alpha.values, value, kept, means)
    after = expit(means[:, :, ::-1] + (sign * offset)[:, None, None])
    return (expit(sign * logit)[:, None, None] - after).reshape(len(alpha), 2, -1, 2)


@njit(cache=True, nogil=True)
def extreme_means(first, last, offsets, weights, values, kept, means):
    """Find the smallest and the largest weighted mean of ``kept`` of the values of each row.

    Values are taken from that of the heaviest position kept: a weight close to 1 would hide those
    that are many times smaller.

    Args:
        first: First row.
        last: Row to stop before.
        offsets: Begin of every row, ``(n + 1,)``.
        weights: Weights of the positions, ``(N,)``.
        values: Their values, ``(N,)``.
        kept: Numbers of positions, ``(n, K)``, each up to T.
        means: The smallest and the largest, ``(n, K, 2)``, are written into it where ``kept`` is
            not 0 and the positions have weight.
    """
    for row in range(first, last):
        start, size = offsets[row], offsets[row + 1] - offsets[row]
        gain, sorting = np.empty(size), np.empty(size)
        for k in range(kept.shape[1]):
            if k > 0 and kept[row, k] == kept[row, k - 1]:
                # By loops: numba compiles an error message for assigning arrays, in 2 seconds.
                for side in range(2):
                    means[row, k, side] = means[row, k - 1, side]
                continue
            for side in range(2):
                sign, heaviest, ratio = 2.0 * side - 1.0, -1, -np.inf
                for t in range(size):
                    gain[t] = weights[start + t]
                for step in range(MOST_STEPS if kept[row, k] > 0 else 0):
                    # The least gain kept, by Hoare's quickselect.
                    for t in range(size):
                        sorting[t] = gain[t]
                    rank, low, high = size - kept[row, k], 0, size - 1
                    while low < high:
                        pivot, left, right = sorting[(low + high) // 2], low, high
                        while left <= right:
                            while sorting[left] < pivot:
                                left += 1
                            while sorting[right] > pivot:
                                right -= 1
                            if left <= right:
                                sorting[left], sorting[right] = sorting[right], sorting[left]
                                left, right = left + 1, right - 1
                        if rank <= right:
                            high = right
                        elif rank >= left:
                            low = left
                        else:
                            break
                    least, ties = sorting[rank], kept[row, k]
                    for t in range(size):
                        ties -= gain[t] > least
                    former, heaviest, total = heaviest, -1, 0.0
                    for t in range(size):
                        if gain[t] > least or (gain[t] == least and ties > 0):
                            ties -= gain[t] == least
                            total += gain[t]
                            sorting[t] = 1.0
                            if heaviest < 0 or weights[start + t] > weights[start + heaviest]:
                                heaviest = t
                        else:
                            sorting[t] = 0.0
                    if step > 0 and not total > 0.0:
                        break
                    base, mass, moment = sign * values[start + heaviest], 0.0, 0.0
                    for t in range(size):
                        mass += sorting[t] * weights[start + t]
                        moment += (
                            sorting[t] * weights[start + t] * (sign * values[start + t] - base)
                        )
                    # The same choice again has gains of 0, or what rounding makes of them.
                    if not mass > 0.0 or (heaviest == former and moment / mass <= ratio):
                        break
                    ratio = moment / mass
                    means[row, k, side] = sign * (base + ratio)
                    for t in range(size):
                        gain[t] = weights[start + t] * (sign * values[start + t] - base - ratio)
