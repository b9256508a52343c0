"""What is left of the attention after removals in given orders, for outputs through a tail that no kernel computes; many at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int64, UInt64

from attnaudit.core.ragged import Ragged
from attnaudit.core.random import shuffled
from attnaudit.experiments.through_tail import Outputs

SIZES = (
    128  # numbers of removals that are tried along an order before those between two of them are
)
CHUNK = 4
KEPT = 16  # classes of predictions that are kept while further removals are tried
Left = Callable[
    [Int64[np.ndarray, " c"]], Ragged
]  # what remains of the rows of the chosen requests, as it is
Measure = Callable[[Float[np.ndarray, "b C"], Int64[np.ndarray, " b"]], np.ndarray]


class Read:
    """Outputs that were read: sets of positions that are left of a row, as sums of a random number of each, and the predictions."""

    def __init__(self, outputs: Outputs) -> None:
        self.outputs = outputs
        self.numbers = np.random.default_rng(0).integers(
            1 << 63, size=len(outputs.alpha.values), dtype=np.uint64
        )
        self._sets, self._predictions = np.zeros(0, np.uint64), outputs.own[:0]

    def measured(
        self, rows: Int64[np.ndarray, " m"], left: Left, measure: Measure
    ) -> Float[np.ndarray, " m"]:
        """A measure of the outputs of ``left(chosen)`` of each row, rescaled; NaN where no weight is left.

        What is left of a row in several ways, now or in a later call, is read out once.
        """
        found = np.full(len(rows), np.nan)
        sets, some = self._identified(rows, left)
        rows, sets, some = rows[some], sets[some], np.flatnonzero(some)
        once, first, again = np.unique(sets, return_index=True, return_inverse=True)

        def attention(chosen: np.ndarray) -> Ragged:
            return rescaled(left(some[chosen]))

        if self.outputs.own.shape[1] > KEPT:
            found[some] = self._read(rows, first, attention, measure)[again]
            return found
        places = np.searchsorted(self._sets, once)
        first = first[np.append(self._sets, np.uint64(0))[places] != once]
        predictions = np.concatenate(
            [
                self._predictions,
                self._read(rows, first, attention, lambda prediction, of: prediction),
            ]
        )
        known = np.concatenate([self._sets, sets[first]])
        order = np.argsort(known)
        self._sets, self._predictions = known[order], predictions[order]
        found[some] = measure(self._predictions[np.searchsorted(self._sets, sets)], rows)
        return found

    def _read(
        self, rows: np.ndarray, first: np.ndarray, attention: Callable, measure: Measure
    ) -> np.ndarray:
        """Of some of the requests."""
        return self.outputs.under(
            rows[first], lambda chosen: attention(first[chosen]), measure
        ).astype(np.float64)

    def _identified(
        self, rows: np.ndarray, left: Left
    ) -> tuple[UInt64[np.ndarray, " m"], Bool[np.ndarray, " m"]]:
        """The set of every request, and whether it has any weight."""
        alpha = self.outputs.alpha
        sets, some = [np.zeros(0, np.uint64)], [np.zeros(0, bool)]
        for piece in pieces(alpha, rows):
            remaining = left(piece)
            number = np.where(
                remaining.values > 0.0, self.numbers[alpha.positions(rows[piece])], np.uint64(0)
            )
            sets.append(remaining.with_values(number).sum())
            some.append(remaining.sum() > 0.0)
        return np.concatenate(sets), np.concatenate(some)


@dataclass(frozen=True)
class Removals:
    """Removals along the orders ``ranks`` (orders, N), the place of every position in each; every request is one alternative of m."""

    read: Read
    ranks: Int64[np.ndarray, "orders N"]

    def measured(
        self,
        rows: Int64[np.ndarray, " m"],
        order: Int64[np.ndarray, " m"],
        count: Int64[np.ndarray, " m"],
        keep: Bool[np.ndarray, " m"],
        measure: Measure,
    ) -> Float[np.ndarray, " m"]:
        """A measure of the outputs without the first ``count`` of an order, or with them alone where ``keep``.

        NaN where no weight is left.
        """
        return self.read.measured(
            rows, lambda one: self._left(rows[one], order[one], count[one], keep[one])[0], measure
        )

    def mass(
        self, rows: np.ndarray, order: np.ndarray, count: np.ndarray, keep: np.ndarray
    ) -> Float[np.ndarray, " m"]:
        """The weight that is left."""
        parts = [
            self._left(rows[one], order[one], count[one], keep[one])[1]
            for one in pieces(self.read.outputs.alpha, rows)
        ]
        return np.concatenate([np.zeros(0), *parts])

    def _left(
        self, rows: np.ndarray, order: np.ndarray, count: np.ndarray, keep: np.ndarray
    ) -> tuple[Ragged, Float[np.ndarray, " m"]]:
        taken = self.read.outputs.alpha.take(rows)
        among_first = self.ranks[
            taken.spread(order), self.read.outputs.alpha.positions(rows)
        ] < taken.spread(count)
        left = taken.with_values(np.where(among_first == taken.spread(keep), taken.values, 0.0))
        return left, left.sum()

    def first(
        self,
        rows: np.ndarray,
        order: np.ndarray,
        keep: bool,
        happens: Callable[[np.ndarray, np.ndarray], np.ndarray],
    ) -> np.ndarray:
        """After how many removals, or with how many kept, ``happens(predictions, rows)`` is first true; 0 where it never is.

        Of a row of more than `SIZES` + 1 positions so many sizes, evenly spaced, are tried, and those between the last that is not and the
        first that is.
        """
        lengths = self.read.outputs.alpha.lengths[rows]
        sizes, found = np.minimum(lengths - 1, SIZES), np.zeros(len(rows), np.int64)
        start, chunk = 0, 1 if keep else CHUNK  # few positions alone may well be enough
        while True:
            pending = np.flatnonzero((found == 0) & (sizes > start))
            if len(pending) == 0:
                break
            steps = np.arange(start, start + chunk)
            counts = np.where(
                steps < sizes[pending, None],
                _size(steps, sizes[pending, None], lengths[pending, None]),
                0,
            )
            found[pending] = self._first_of(rows[pending], order[pending], counts, keep, happens)
            start, chunk = start + chunk, 2 * chunk
        return self._between(rows, order, keep, happens, found)

    def _between(
        self, rows: np.ndarray, order: np.ndarray, keep: bool, happens: Callable, found: np.ndarray
    ) -> np.ndarray:
        lengths = self.read.outputs.alpha.lengths[rows]
        longer = np.flatnonzero((lengths - 1 > SIZES) & (found > 1))
        if len(longer) == 0:
            return found
        span = 2 + int(lengths.max()) // SIZES
        counts = found[longer, None] - np.arange(span, 0, -1)
        step = np.arange(SIZES)
        tried = _size(step, np.full((len(longer), 1), SIZES), lengths[longer, None])
        before = np.where(tried < found[longer, None], tried, 0).max(axis=1)
        earlier = self._first_of(
            rows[longer],
            order[longer],
            np.where(counts > before[:, None], counts, 0),
            keep,
            happens,
        )
        found[longer] = np.where(earlier > 0, earlier, found[longer])
        return found

    def _first_of(
        self,
        rows: np.ndarray,
        order: np.ndarray,
        counts: Int64[np.ndarray, "m k"],
        keep: bool,
        happens: Callable,
    ) -> np.ndarray:
        """The first of each row's ``counts`` at which it happens, 0 where at none; counts of 0 are not tried."""
        which, column = np.nonzero(counts)
        count = counts[which, column]
        true = np.zeros(counts.shape, bool)
        true[which, column] = (
            self.measured(rows[which], order[which], count, np.full(len(which), keep), happens)
            == 1.0
        )
        return np.where(true.any(axis=1), counts[np.arange(len(rows)), true.argmax(axis=1)], 0)


def _size(step: np.ndarray, sizes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Number of removals ``step`` of ``sizes``, evenly spaced from 1 to T − 1."""
    return 1 + np.round(step * (lengths - 2) / np.maximum(sizes - 1, 1)).astype(np.int64)


def ranks_of(score: Ragged) -> Int64[np.ndarray, " N"]:
    """The place of every position, the largest score of its row first, equal ones as they stand."""
    order = np.lexsort((-score.values, score.row_of_value))
    ranks = np.empty(len(order), np.int64)
    ranks[order] = _within(score)
    return ranks


def random_ranks(
    alpha: Ragged, streams: UInt64[np.ndarray, " n"], number: int
) -> Int64[np.ndarray, " N"]:
    """The place of every position in random order ``number`` of its row, that of `removal.random_order`."""
    order = shuffled(alpha.with_values(_within(alpha)), streams, number).values
    ranks = np.empty(len(order), np.int64)
    ranks[alpha.spread(alpha.offsets[:-1]) + order] = _within(alpha)
    return ranks


def rescaled(weights: Ragged) -> Ragged:
    """Every row summing to 1."""
    return weights.with_values(weights.values / weights.spread(weights.sum()))


def pieces(alpha: Ragged, rows: Int64[np.ndarray, " m"]) -> Iterator[Int64[np.ndarray, " c"]]:
    """The requests about ``rows``, as many at a time as memory allows."""
    return Ragged.from_lengths(np.zeros(0), alpha.lengths[rows]).blocks(1 << 20)


def _within(rows: Ragged) -> Int64[np.ndarray, " N"]:
    """The number of every value in its row."""
    return np.arange(int(rows.offsets[-1])) - rows.spread(rows.offsets[:-1])
