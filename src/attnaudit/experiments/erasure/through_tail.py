"""The removals of `rows` through a tail that no kernel computes, by calls of many rows at once; and a small set that flips the decision.

Every single position is tried, then the positions in the order of what their single removal does, then a greedy search, which removes the
best of the next few of this order. Where one position suffices, or none does and two do, no smaller set flips the decision.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, UInt64

from attnaudit.core.kernels import kernel, over_rows
from attnaudit.core.ragged import Ragged
from attnaudit.experiments.erasure.left import Read, Removals, random_ranks, ranks_of
from attnaudit.experiments.erasure.removal import RANKINGS
from attnaudit.experiments.erasure.rows import Erased, other_position
from attnaudit.experiments.through_tail import Outputs, is_flip, row_blocks, two_classes
from attnaudit.stats.measures import jsd
from attnaudit.trace.readout import Readout

TRIED, GREEDY = 4, 8  # of the positions next in order, and positions removed, by the greedy search


class Choices(NamedTuple):
    """How erasure is done: which other position is compared, how many random orders, within which TVD an output is kept."""

    other: int
    orders: int
    epsilon: float


def erase_through_tail(
    readout: Readout,
    alpha: Ragged,
    streams: UInt64[np.ndarray, " n"],
    choices: Choices,
    gradient: Ragged | None,
) -> tuple[Erased, Bool[np.ndarray, " n"]]:
    """All removals, and of which rows the smallest set is proven smallest.

    ``gradient`` is ∂p_max/∂alpha; where it is not known, all of the two rankings that need it is NaN.
    """
    n, rankings = len(alpha), len(RANKINGS)
    removed, mass = np.full((n, rankings + 1), np.nan), np.full((n, rankings + 1), np.nan)
    observed, flips = (
        np.full((n, choices.orders + rankings - 1), np.nan),
        np.zeros((n, choices.orders + rankings - 1), bool),
    )
    kept, single, proven = (
        np.full((n, rankings), np.nan),
        np.full((n, 5), np.nan),
        np.zeros(n, bool),
    )
    smallest = np.zeros(len(alpha.values), np.bool_)
    longer = np.flatnonzero(alpha.lengths > 1)
    for block in row_blocks(alpha.take(longer)):
        rows = longer[block]
        slopes = None if gradient is None else gradient.take(rows)
        part = _Rows(readout.take(rows), alpha.take(rows), streams[rows], choices, slopes)
        removed[rows, :-1], mass[rows, :-1], kept[rows] = part.rankings()
        walked = len(part.removals.ranks)
        observed[rows, :walked], flips[rows, :walked] = part.walks()
        single[rows] = part.single()
        removed[rows, -1], chosen, proven[rows] = part.smallest()
        mass[rows, -1] = np.where(
            removed[rows, -1] > 0,
            chosen.with_values(np.where(chosen.values, part.alpha.values, 0.0)).sum(),
            np.nan,
        )
        smallest[alpha.positions(rows)] = chosen.values
    removed[removed == 0] = np.nan
    return Erased(removed, mass, observed, flips, kept, single, alpha.with_values(smallest)), proven


class _Rows:
    """Some rows of two positions or more, whose outputs are read together."""

    def __init__(
        self,
        readout: Readout,
        alpha: Ragged,
        streams: np.ndarray,
        choices: Choices,
        gradient: Ragged | None,
    ) -> None:
        self.alpha, self.streams, self.choices = alpha, streams, choices
        self.outputs = Outputs.of(readout, alpha)
        ranks = [random_ranks(alpha, streams, number) for number in range(choices.orders)]
        scores = (
            [alpha]
            if gradient is None
            else [alpha, gradient, gradient.with_values(gradient.values * alpha.values)]
        )
        self.read = Read(self.outputs)
        self.removals = Removals(self.read, np.stack([*ranks, *map(ranks_of, scores)]))
        n, orders = len(alpha), len(self.removals.ranks)
        self.rows, self.order = np.tile(np.arange(n), orders), np.repeat(np.arange(orders), n)

    def rankings(
        self,
    ) -> tuple[Float[np.ndarray, "n 4"], Float[np.ndarray, "n 4"], Float[np.ndarray, "n 4"]]:
        """Positions and weight removed at the first flip, and positions that keep the output, by ranking; NaN where unknown."""
        epsilon, rows, order = self.choices.epsilon, self.rows, self.order
        self.flips = self.removals.first(rows, order, False, self.outputs.flips)
        kept = self.removals.first(
            rows,
            order,
            True,
            lambda prediction, of: self.outputs.distance(prediction, of) <= epsilon,
        )
        kept = np.where(kept > 0, kept, self.alpha.lengths[rows]).astype(np.float64)
        weight = 1.0 - self.removals.mass(rows, order, self.flips, np.zeros(len(rows), bool))
        count, weight = (np.where(self.flips > 0, value, np.nan) for value in (self.flips, weight))
        return self._by_ranking(count), self._by_ranking(weight), self._by_ranking(kept)

    def walks(self) -> tuple[Float[np.ndarray, "n orders"], Bool[np.ndarray, "n orders"]]:
        """As `Erased.observed` and `Erased.flips`, of the orders that are known. After `rankings`."""
        flips, ranks = self.flips.reshape(-1, len(self.alpha)).T, self.removals.ranks
        last = np.maximum.reduceat(
            np.where(self.alpha.values > 0, ranks + 1, 0), self.alpha.offsets[:-1], axis=1
        ).T
        return np.where(flips > 0, flips, last).astype(np.float64), flips > 0

    def _by_ranking(self, values: Float[np.ndarray, " m"]) -> Float[np.ndarray, "n 4"]:
        """The mean of the random orders that have a value, and the other orders."""
        each = values.reshape(-1, len(self.alpha)).T
        chance, others = each[:, : self.choices.orders], each[:, self.choices.orders :]
        known = ~np.isnan(chance)
        mean = np.divide(
            np.where(known, chance, 0.0).sum(axis=1),
            known.sum(axis=1),
            out=np.full(len(each), np.nan),
            where=known.any(axis=1),
        )
        unknown = np.full((len(each), len(RANKINGS) - 1 - others.shape[1]), np.nan)
        return np.column_stack([mean, others, unknown])

    def single(self) -> Float[np.ndarray, "n 5"]:
        """As `Erased.single`: the largest weight and another one, each removed alone."""
        n = len(self.alpha)
        other = np.empty(n, np.int64)
        over_rows(
            _other_rows,
            n,
            self.alpha.values,
            self.alpha.offsets,
            self.streams,
            self.choices.other,
            other,
        )
        largest = np.array([np.argmax(weights) for weights in self.alpha], np.int64)
        position, rows = np.concatenate([largest, other]), np.tile(np.arange(n), 2)
        divergence = self._without(rows, position, self._divergence).reshape(2, n)
        flips = self._without(rows, position, self.outputs.flips).reshape(2, n)
        weight = self.alpha.values[self.alpha.offsets[:-1] + np.stack([largest, other])]
        return np.column_stack([*divergence, weight[0] - weight[1], *flips])

    def _divergence(self, prediction: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return jsd(two_classes(prediction), two_classes(self.outputs.own[rows]))

    def _without(self, rows: np.ndarray, position: np.ndarray, measure) -> np.ndarray:
        """A measure of the outputs of rows each without one position."""
        return self._without_all(rows, np.zeros(len(self.alpha.values), bool), position, measure)

    def _without_all(
        self, rows: np.ndarray, erased: Bool[np.ndarray, " N"], position: np.ndarray, measure
    ) -> np.ndarray:
        """A measure of the outputs without what is ``erased`` of each row and one position more; NaN where no weight remains."""
        alpha = self.alpha

        def left(chosen: np.ndarray) -> Ragged:
            taken = alpha.take(rows[chosen])
            values = np.where(erased[alpha.positions(rows[chosen])], 0.0, taken.values)
            values[taken.offsets[:-1] + position[chosen]] = 0.0
            return taken.with_values(values)

        return self.read.measured(rows, left, measure)

    def smallest(self) -> tuple[Float[np.ndarray, " n"], Ragged, Bool[np.ndarray, " n"]]:
        """Size and positions of the smallest set found, 0 for none, and whether it is proven smallest. After `rankings`."""
        alpha, n = self.alpha, len(self.alpha)
        within = np.arange(len(alpha.values)) - alpha.spread(alpha.offsets[:-1])
        lead = np.nan_to_num(
            self._without(alpha.row_of_value, within, self.outputs.lead), nan=np.inf
        )
        ranks = np.vstack([self.removals.ranks, ranks_of(alpha.with_values(-lead))])
        last = np.full(n, len(ranks) - 1)
        every = self.flips.reshape(-1, n)
        mine = Removals(self.read, ranks).first(np.arange(n), last, False, self.outputs.flips)
        flips = np.vstack([every, mine])
        sizes = np.where(flips > 0, flips, np.iinfo(np.int64).max)
        order = sizes[::-1].argmin(axis=0)
        order = len(sizes) - 1 - order
        size = sizes[order, np.arange(n)]
        chosen = ranks[alpha.spread(order), np.arange(len(within))] < alpha.spread(
            np.where(size <= alpha.lengths, size, 0)
        )
        size, chosen = self._greedy(ranks[-1], size, chosen)
        known = size <= alpha.lengths
        return (
            np.where(known, size, 0).astype(np.float64),
            alpha.with_values(chosen),
            known & (size <= 2),
        )

    def _greedy(
        self, ranks: np.ndarray, size: np.ndarray, chosen: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sets smaller than those of ``size``, where removing the best of the next few positions again and again finds any."""
        alpha, erased = self.alpha, np.zeros(len(self.alpha.values), bool)
        for count in range(1, GREEDY + 1):
            rows = np.flatnonzero((size > max(count, 2)) & (alpha.lengths > count))
            if len(rows) == 0:
                break
            row, position = self._next(rows, erased, ranks)
            lead = np.nan_to_num(
                self._without_all(row, erased, position, self.outputs.lead), nan=np.inf
            )
            order = np.lexsort((lead, row))
            first = order[np.unique(row[order], return_index=True)[1]]
            erased[alpha.offsets[row[first]] + position[first]] = True
            flipped = row[first][is_flip(lead[first])]
            size[flipped] = count
            places = alpha.positions(flipped)
            chosen[places] = erased[places]
        return size, chosen

    def _next(
        self, rows: np.ndarray, erased: np.ndarray, ranks: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Row and position of the next few in order that are not erased."""
        alpha = self.alpha
        places = alpha.positions(rows)
        of, rank = (
            np.repeat(rows, alpha.lengths[rows]),
            np.where(erased[places], np.iinfo(np.int64).max, ranks[places]),
        )
        order = np.lexsort((rank, of))
        number = np.arange(len(order)) - np.searchsorted(of, of)
        kept = order[(number < TRIED) & ~erased[places[order]]]
        return of[kept], places[kept] - alpha.offsets[of[kept]]


@kernel
def _other_rows(first, last, alpha, offsets, streams, other, position):
    for i in range(first, last):
        position[i] = other_position(alpha[offsets[i] : offsets[i + 1]], streams[i], other)
