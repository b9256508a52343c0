"""Compute all removals of the erasure experiment for the rows of a trace."""

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
        as_released: Whether the position compared with the largest weight is drawn from all but the
            first, as in the released code; otherwise it is drawn from all but the largest.
        orders: Number of random orders.
        epsilon: Largest TVD at which the output counts as kept.
    """

    as_released: bool
    orders: int
    epsilon: float


class Erased(NamedTuple):
    """Outcomes of the removals; a row of one position has NaN for everything.

    Attributes:
        removed: Number of positions removed when the decision first flips, for the four rankings
            and the smallest set, ``(n, 5)``; NaN if it never flips.
        mass: Weight of these positions, ``(n, 5)``.
        observed: Number of positions removed at the first flip or, without one, when no weight is
            left, for each random order and then the other rankings, ``(n, orders + 3)``.
        flips: Whether each of these orders flips the decision, ``(n, orders + 3)``.
        kept: Fewest positions of each ranking that keep the output, ``(n, 4)``.
        single: JSD of the output without the largest weight, and without another one; difference
            of the two weights; 1 if each removal flips the decision, else 0, ``(n, 5)``. NaN if a
            removal leaves no weight.
        proven: Whether no set can be smaller than the smallest found, ``(n,)``.
        smallest: Whether each position is in the smallest set, ``(N,)``.
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
        """Create outcomes in which each row has NaN, no flip and no set."""
        rankings = len(RANKINGS)
        walks = orders + rankings - 1
        removed, mass = np.full((2, rows, rankings + 1), np.nan)
        return cls(
            removed=removed,
            mass=mass,
            observed=np.full((rows, walks), np.nan),
            flips=np.zeros((rows, walks), bool),
            kept=np.full((rows, rankings), np.nan),
            single=np.full((rows, 5), np.nan),
            proven=np.zeros(rows, bool),
            smallest=np.zeros(positions, bool),
        )


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
        gradient: ``∂p_max/∂alpha``, read only behind a network. Without it the two rankings that
            need it are unknown there.
    """
    erased = Erased.unknown(len(alpha), len(alpha.values), choices.orders)

    def compute(rows: Rows, numbers: Int64[np.ndarray, " m"]) -> Erased:
        given = None if gradient is None else gradient.take(numbers).values
        # Behind a formula the gradient of the log-odds is exact; the trace's may underflow.
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
    alpha, n, random = rows.alpha, len(rows.alpha), choices.orders
    erased = Erased.unknown(n, len(alpha.values), random)
    scores = [alpha.values] if slope is None else [alpha.values, slope, slope * alpha.values]
    ranked = np.stack([order_by(alpha.with_values(score)) for score in scores])
    smallest, walks = SmallestSet(rows), random + len(ranked)
    removed, mass, kept = np.full((3, walks, n), np.nan)

    def keeps(prediction: np.ndarray, row: np.ndarray) -> Bool[np.ndarray, " m"]:
        return rows.outputs.distance(prediction, row) <= choices.epsilon

    for chunk in [*in_chunks(random), range(random, walks)]:
        orders = rows.random_orders(streams, chunk) if chunk.start < random else ranked
        walk = Walks(rows, orders, keep=False)
        size, shape = walk.first(rows.flips), (len(chunk), n)
        flips, gone = size > 0, walk.mass(0 * size) - walk.mass(size)
        removed[chunk] = np.where(flips, size, np.nan).reshape(shape)
        mass[chunk] = np.where(flips, gone, np.nan).reshape(shape)
        erased.observed[:, chunk] = np.where(flips, size, walk.last()).reshape(shape).T
        erased.flips[:, chunk] = flips.reshape(shape).T
        smallest.offer(size.reshape(shape), orders)
        walk = Walks(rows, orders, keep=True)
        size = walk.first(keeps)
        kept[chunk] = np.where(size > 0, size, walk.lengths).reshape(shape)
    for values, columns in ((removed, erased.removed), (mass, erased.mass), (kept, erased.kept)):
        columns[:, 0] = _mean_of_known(values[:random])
        columns[:, 1 : 1 + len(ranked)] = values[random:].T
    erased.single[:] = _remove_one(rows, streams, ranked[0], choices.as_released)
    erased.proven[:] = smallest.complete()
    erased.smallest[:] = smallest.marked
    found, weight = smallest.size < NONE, np.where(smallest.marked, alpha.values, 0.0)
    erased.removed[:, -1] = np.where(found, smallest.size, np.nan)
    erased.mass[:, -1] = np.where(found, alpha.with_values(weight).sum(), np.nan)
    return erased


def _mean_of_known(values: Float[np.ndarray, "k n"]) -> Float[np.ndarray, " n"]:
    known = ~np.isnan(values)
    total = np.where(known, values, 0.0).sum(axis=0)
    return np.where(known.any(axis=0), total / np.maximum(known.sum(axis=0), 1), np.nan)


def _remove_one(
    rows: Rows,
    streams: UInt64[np.ndarray, " n"],
    by_attention: Int64[np.ndarray, " N"],
    as_released: bool,
) -> Float[np.ndarray, "n 5"]:
    """Remove the largest weight, or another one, as in `Erased.single`."""
    alpha, every = rows.alpha, np.arange(len(rows.alpha))
    start = alpha.offsets[:-1]
    largest = by_attention[start]
    # No random order uses draw 0 of the stream, because the first position of a shuffle has nothing
    # to change places with.
    other = start + below(streams, 0, alpha.lengths - 1)
    other += 1 if as_released else other >= largest
    left = without_each(alpha, rows.terms)

    def divergence(prediction: np.ndarray, row: np.ndarray) -> Float[np.ndarray, " m"]:
        return jsd(two_classes(prediction), two_classes(rows.outputs.own[row]))

    changes = [rows.measure(left[one], every, divergence) for one in (largest, other)]
    flips = [rows.measure(left[one], every, rows.flips) for one in (largest, other)]
    gap = alpha.values[largest] - alpha.values[other]
    return np.column_stack([*changes, gap, *flips])
