"""Sums of measures over resampling units, accumulated piece by piece.

They give means and shares with intervals. Memory grows with the number of units, which is bounded,
and by a few bytes per row for its unit.
"""

import math

import numpy as np
from jaxtyping import Float

from attnaudit.stats.bootstrap import Units
from attnaudit.stats.inference import clustered_wilson


class UnitSums:
    """Sums and counts of the defined values of m measures in each unit.

    Attributes:
        units: Units of all rows that will be added.
        rows: Number of rows added so far.
        total: Sums of values, ``(m, u)``.
        count: Numbers of defined values, ``(m, u)``.
    """

    def __init__(self, units: Units, measures: int) -> None:
        """Start without rows.

        Args:
            units: Units of all rows that will be added.
            measures: Number of measures m.
        """
        self.units, self.rows = units, 0
        self.total, self.count, self._squares = np.zeros((3, measures, units.number))
        self._first = np.full(measures, np.nan)
        # A text counts if any of its rows has a value, so it is marked when one is seen. With one
        # row per text, `n` counts the texts already.
        several = units.texts < len(units.row)
        self._seen = np.zeros((measures, units.texts), bool) if several else None

    def add(self, values: Float[np.ndarray, "n m"]) -> None:
        """Add the next n rows; NaN marks undefined values."""
        rows = slice(self.rows, self.rows + len(values))
        unit, self.rows = self.units.row[rows], rows.stop
        for k, column in enumerate(values.T):
            known = ~np.isnan(column)
            defined, where = column[known], unit[known]
            if len(defined) == 0:
                continue
            if math.isnan(self._first[k]):
                self._first[k] = defined[0]
            # `np.add.at` adds one value after another, so no sum depends on the size of the pieces.
            np.add.at(self.total[k], where, defined)
            np.add.at(self.count[k], where, 1.0)
            # Squares of the values themselves would lose the spread to cancellation if the mean is
            # large; the first value is a rough mean.
            np.add.at(self._squares[k], where, np.square(defined - self._first[k]))
            if self._seen is not None:
                self._seen[k, self.units.text[rows][known]] = True

    def n(self, k: int) -> int:
        """Return the number of rows with a value."""
        return int(self.count[k].sum())

    def texts(self, k: int) -> int:
        """Return the number of texts with a value."""
        return self.n(k) if self._seen is None else int(self._seen[k].sum())

    def mean(self, k: int) -> float:
        """Return the mean of the defined values; there must be at least one."""
        return float(self.total[k].sum()) / self.n(k)

    def std(self, k: int) -> float:
        """Return the standard deviation of the defined values."""
        square = float(self._squares[k].sum()) / self.n(k)
        return math.sqrt(max(square - (self.mean(k) - self._first[k]) ** 2, 0.0))

    def share_interval(self, k: int) -> tuple[float, float]:
        """Return the interval of a measure with values 0 and 1, by `clustered_wilson`."""
        n, texts = self.n(k), self.texts(k)
        if n == 0:
            return math.nan, math.nan
        share = self.mean(k)
        squares = float(np.square(self.total[k] - share * self.count[k]).sum())
        return clustered_wilson(share, n, texts, n * share * (1 - share) if n == texts else squares)
