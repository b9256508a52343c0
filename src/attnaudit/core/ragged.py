"""Rows of different lengths as one flat array plus offsets; all offset arithmetic is here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int64, Shaped


@dataclass(frozen=True)
class Ragged:
    """``n`` rows; row ``i`` is ``values[offsets[i]:offsets[i + 1]]``.

    >>> Ragged.from_rows([[1, 2], [3]]).sum()
    array([3, 3])

    Attributes:
        values: Shape ``(N, ...)``.
        offsets: Shape ``(n + 1,)``, from 0 to N.
    """

    values: Shaped[np.ndarray, "N ..."]
    offsets: Int64[np.ndarray, " n1"]

    @classmethod
    def from_lengths(cls, values: np.ndarray, lengths: Iterable[int] | np.ndarray) -> Ragged:
        """Split flat values into rows of these lengths."""
        counts = np.fromiter(lengths, dtype=np.int64)
        return cls(values, np.append(0, np.cumsum(counts)))

    @classmethod
    def from_rows(
        cls, rows: Iterable[np.ndarray | list], dtype: np.dtype | type | None = None
    ) -> Ragged:
        """Join rows, in the order given."""
        arrays = [np.asarray(row, dtype=dtype) for row in rows]
        values = np.concatenate(arrays) if arrays else np.zeros(0, dtype or np.float64)
        return cls.from_lengths(values, (len(a) for a in arrays))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[row] for row in range(len(self)))

    @property
    def lengths(self) -> Int64[np.ndarray, " n"]:
        """Number of values in every row."""
        return np.diff(self.offsets)

    @property
    def row_of_value(self) -> Int64[np.ndarray, " N"]:
        """Row of every flat value."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @property
    def places(self) -> Int64[np.ndarray, " N"]:
        """Position of every flat value within its row."""
        return np.arange(len(self.values)) - self.spread(self.offsets[:-1])

    def with_values(self, values: np.ndarray) -> Ragged:
        """Return rows of the same lengths with other values, ``(N, ...)``."""
        return Ragged(values, self.offsets)

    def reduce(self, ufunc: np.ufunc) -> np.ndarray:
        """Reduce every row with ``ufunc``, shape ``(n, ...)``.

        An empty row gives the identity of ``ufunc``, or 0 if there is none, as for a maximum.
        """
        # `reduceat` would give an empty row the first value of the next one.
        width = self.values.shape[1:]
        full = self.lengths > 0
        identity = 0 if ufunc.identity is None else ufunc.identity
        out = np.full((len(self), *width), identity, dtype=self.values.dtype)
        if full.any():
            out[full] = ufunc.reduceat(self.values, self.offsets[:-1][full], axis=0)
        return out

    def sum(self) -> np.ndarray:
        """Return the sum of every row, 0 if it is empty."""
        return self.reduce(np.add)

    def max(self) -> np.ndarray:
        """Return the maximum of every row, 0 if it is empty."""
        return self.reduce(np.maximum)

    def spread(self, per_row: np.ndarray) -> np.ndarray:
        """Repeat one value per row for each of the row's positions: ``(n, ...) -> (N, ...)``."""
        return np.repeat(per_row, self.lengths, axis=0)

    def positions(self, rows: Int64[np.ndarray, " m"]) -> Int64[np.ndarray, " M"]:
        """Return the indices of the chosen rows' values, row after row."""
        lengths = self.lengths[rows]
        ends = np.cumsum(lengths)
        within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths)
        return np.repeat(self.offsets[rows], lengths) + within

    def argsort(self) -> Int64[np.ndarray, " N"]:
        """Return the flat positions that put every row in ascending order.

        Values must be numbers, one per position. The sort is stable, and NaN comes last.
        """
        order, lengths = np.empty(len(self.values), np.int64), self.lengths
        # Rows are padded and sorted with others of less than twice their length. One lexsort over
        # rows and values would take eight times as long.
        exponent = np.frexp(lengths)[1]
        for chosen in (np.flatnonzero(exponent == e) for e in np.unique(exponent)):
            start = self.offsets[chosen, None]
            places = start + np.arange(lengths[chosen].max())
            own = places < start + lengths[chosen, None]
            # NaN sorts to the end, and a stable sort keeps the padding behind a row's own NaN.
            padded = np.where(own, self.values.take(places, mode="clip"), np.nan)
            order[places[own]] = (np.argsort(padded, axis=1, kind="stable") + start)[own]
        return order

    def descending(self) -> Int64[np.ndarray, " N"]:
        """Return flat positions that sort every row in descending order, like `argsort`."""
        return self.with_values(-self.values).argsort()

    def ranks(self) -> Ragged:
        """Rank the numbers of each row from 1. Equal numbers share their mean rank."""
        order = self.argsort()
        ordered = self.values[order]
        is_new = np.append(True, ordered[1:] != ordered[:-1])[: len(order)]
        is_new[self.offsets[:-1][self.lengths > 0]] = True
        first = np.flatnonzero(is_new)
        last = np.append(first[1:], len(order)) - 1
        mean, ranks = 0.5 * (first + last), np.empty(len(order))
        ranks[order] = mean[np.cumsum(is_new) - 1]
        return self.with_values(ranks - self.spread(self.offsets[:-1]) + 1.0)

    def take(self, rows: Int64[np.ndarray, " m"]) -> Ragged:
        """Return the chosen rows, in the order given."""
        return Ragged.from_lengths(self.values[self.positions(rows)], self.lengths[rows])

    def where(self, marked: Bool[np.ndarray, " N"]) -> Ragged:
        """Return all rows with only their marked values."""
        lengths = self.with_values(marked.astype(np.int64)).sum()
        return Ragged.from_lengths(self.values[marked], lengths)

    def blocks(self, positions: int) -> Iterator[Int64[np.ndarray, " m"]]:
        """Split the rows into runs, to bound the memory of work on them.

        Args:
            positions: Largest number of values in a run. A longer row is a run of its own.

        Yields:
            Numbers of consecutive rows.
        """
        start = 0
        while start < len(self):
            most = self.offsets[start] + positions
            stop = int(np.searchsorted(self.offsets, most, side="right")) - 1
            yield np.arange(start, max(stop, start + 1))
            start = max(stop, start + 1)


def concatenate(parts: list[Ragged]) -> Ragged:
    """Return all rows of ``parts``, in order."""
    values = np.concatenate([part.values for part in parts])
    return Ragged.from_lengths(values, np.concatenate([part.lengths for part in parts]))
