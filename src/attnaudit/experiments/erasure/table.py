"""Every removal of the erasure experiment, for every row of a trace."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int64, UInt64

from attnaudit.core.ragged import Ragged
from attnaudit.core.random import below
from attnaudit.experiments.erasure.removal import (
    RANKINGS,
    Rows,
    Walks,
    in_blocks,
    in_chunks,
    order_by,
    without_each,
)
from attnaudit.experiments.erasure.smallest_set import NONE, SmallestSet
from attnaudit.experiments.through_tail import two_classes
from attnaudit.stats.measures import jsd
from attnaudit.trace.readout import Readout


class Choices(NamedTuple):
    """Settings of the removals.

    Attributes:
        as_released: Whether the position that the largest weight is compared with is drawn from all
            but the first, as in the released code, instead of from all but the largest.
        orders: Number of random orders, averaged over.
        epsilon: TVD within which an output is kept.
    """

    as_released: bool
    orders: int
    epsilon: float


class Erased(NamedTuple):
    """Outcomes of the removals; a row of one position has NaN for everything.

    Attributes:
        removed: Positions removed when the decision first flips, by ranking, and in the smallest
            set, ``(n, 5)``; NaN where it never does.
        mass: Weight of these positions.
        observed: Positions removed at the first flip or, where there is none, when no weight is
            left, of every random order and then of the other rankings, ``(n, orders + 3)``.
        flips: Whether these orders flip the decision.
        kept: Fewest positions of each ranking that keep the output, ``(n, 4)``.
        single: JSD of the output without the largest weight and without another one, difference of
            the two weights, and 1 where each flips the decision, ``(n, 5)``; NaN where a removal
            leaves no weight.
        proven: Whether no set is smaller than the smallest found.
        smallest: Positions of the smallest set, ``(N,)``.
    """

    removed: Float[np.ndarray, "n 5"]
    mass: Float[np.ndarray, "n 5"]
    observed: Float[np.ndarray, "n walks"]
    flips: Bool[np.ndarray, "n walks"]
    kept: Float[np.ndarray, "n 4"]
    single: Float[np.ndarray, "n 5"]
    proven: Bool[np.ndarray, " n"]
    smallest: Bool[np.ndarray, " N"]

    @classmethod
    def unknown(cls, rows: int, positions: int, orders: int) -> Erased:
        """Give every row NaN, no flip and no set."""
        walks, rankings = orders + len(RANKINGS) - 1, len(RANKINGS)
        widths = rankings + 1, rankings + 1, walks, walks, rankings, 5
        values = [np.full((rows, width), np.nan) for width in widths]
        values[3] = np.zeros((rows, walks), bool)
        return cls(*values, np.zeros(rows, bool), np.zeros(positions, bool))


def erase(
    readout: Readout,
    alpha: Ragged,
    streams: UInt64[np.ndarray, " n"],
    choices: Choices,
    gradient: Ragged | None,
) -> Erased:
    """Remove weights in all the ways of Serrano & Smith 2019, and find the smallest flipping sets.

    Args:
        readout: Readout of the rows.
        alpha: Their attention.
        streams: Random streams of the rows.
        choices: Settings.
        gradient: ``∂p_max/∂alpha``, read only where the tail is neither identity nor tanh. Without
            it the two rankings that need it are unknown there.
    """
    erased = Erased.unknown(len(alpha), len(alpha.values), choices.orders)

    def compute(rows: Rows, numbers: Int64[np.ndarray, " m"]) -> Erased:
        given = None if gradient is None else gradient.take(numbers).values
        slope = rows.gradient() if rows.exact else given
        return _erase(rows, streams[numbers], choices, slope)

    for numbers, part in in_blocks(compute, readout, alpha):
        for whole, some in zip(erased[:-1], part[:-1], strict=True):
            whole[numbers] = some
        erased.smallest[alpha.positions(numbers)] = part.smallest
    return erased


def _erase(
    rows: Rows,
    streams: UInt64[np.ndarray, " n"],
    choices: Choices,
    slope: Float[np.ndarray, " N"] | None,
) -> Erased:
    alpha, n = rows.alpha, len(rows.alpha)
    erased = Erased.unknown(n, len(alpha.values), choices.orders)
    scores = [alpha.values] if slope is None else [alpha.values, slope, slope * alpha.values]
    ranked = np.stack([order_by(alpha.with_values(score)) for score in scores])
    smallest, walks = SmallestSet(rows), choices.orders + len(ranked)
    removed, mass, kept = (np.full((walks, n), np.nan) for _ in range(3))
    chunks = list(in_chunks(choices.orders))
    for chunk in [*chunks, range(choices.orders, walks)]:
        random = chunk.stop <= choices.orders
        orders = rows.random_orders(streams, chunk) if random else ranked
        walk = Walks(rows, orders, keep=False)
        size = walk.first(rows.flips)
        flips = size > 0
        observed = np.where(flips, size, walk.last()).reshape(-1, n)
        removed[chunk] = np.where(flips, size, np.nan).reshape(-1, n)
        mass[chunk] = np.where(flips, walk.mass(0 * size) - walk.mass(size), np.nan).reshape(-1, n)
        erased.observed[:, chunk], erased.flips[:, chunk] = observed.T, flips.reshape(-1, n).T
        smallest.offer(size.reshape(-1, n), orders)
        walk = Walks(rows, orders, keep=True)
        size = walk.first(
            lambda prediction, of: rows.outputs.distance(prediction, of) <= choices.epsilon
        )
        kept[chunk] = np.where(size > 0, size, walk.lengths).reshape(-1, n)
    known = 1 + len(ranked)
    for values, out in ((removed, erased.removed), (mass, erased.mass), (kept, erased.kept)):
        out[:, 0] = _mean_of_known(values[: choices.orders])
        out[:, 1:known] = values[choices.orders :].T
    erased.single[:] = _single_removals(rows, streams, ranked[0], choices.as_released)
    erased.proven[:] = smallest.complete()
    erased.smallest[:] = smallest.marked
    found = smallest.size < NONE
    weight = alpha.with_values(np.where(smallest.marked, alpha.values, 0.0)).sum()
    erased.removed[:, -1] = np.where(found, smallest.size, np.nan)
    erased.mass[:, -1] = np.where(found, weight, np.nan)
    return erased


def _mean_of_known(values: Float[np.ndarray, "k n"]) -> Float[np.ndarray, " n"]:
    known = ~np.isnan(values)
    total = np.where(known, values, 0.0).sum(axis=0)
    return np.where(known.any(axis=0), total / np.maximum(known.sum(axis=0), 1), np.nan)


def _single_removals(
    rows: Rows,
    streams: UInt64[np.ndarray, " n"],
    by_attention: Int64[np.ndarray, " N"],
    as_released: bool,
) -> Float[np.ndarray, "n 5"]:
    """Remove the largest weight, or another one, as in `Erased.single`."""
    alpha, every = rows.alpha, np.arange(len(rows.alpha))
    start = alpha.offsets[:-1]
    largest = by_attention[start]
    # Draw 0 of the stream belongs to no random order: their first position is never exchanged.
    other = start + below(streams, 0, alpha.lengths - 1)
    other += True if as_released else other >= largest
    left = without_each(alpha, rows.terms)

    def divergence(prediction: np.ndarray, of: np.ndarray) -> Float[np.ndarray, " m"]:
        return jsd(two_classes(prediction), two_classes(rows.outputs.own[of]))

    positions = largest, other
    divergence = [rows.measure(left[one], every, divergence) for one in positions]
    flips = [rows.measure(left[one], every, rows.flips) for one in positions]
    gap = alpha.values[largest] - alpha.values[other]
    return np.column_stack([*divergence, gap, *flips])
