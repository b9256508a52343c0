"""The prediction under any attention, which every counterfactual experiment asks for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int64

from attnaudit.core.ragged import Ragged
from attnaudit.stats.measures import Activation, activate
from attnaudit.trace.schema import array_column, ragged_column, width_of
from attnaudit.trace.tails import IdentityTail, Network, Outputs, Rows, SomeClasses, Sums, Tail


@dataclass(frozen=True)
class Readout:
    """The function ``prediction = activation(tail(offset + Σ_t alpha_t · contribution_t))``.

    Arithmetic is in float64, except within the tail.

    Attributes:
        contribution: Contributions of the positions, ``(T, P)`` per row.
        offset: Part of the pooled vector that does not depend on attention, ``(n, Q)``.
        activation: ``sigmoid`` or ``softmax``.
        tail: Function from pooled vectors and numbers of rows to logits.
        candidates: Allowed classes ``(n, C)``; None if all are.
        start: First column of the offset that a row's contributions are added to, ``(n,)``, if Q is
            larger than P. This is the case if the tail takes several heads side by side.
        rows: Numbers of the rows in the trace, for the tail; None stands for 0 to n − 1.
    """

    contribution: Ragged
    offset: Float[np.ndarray, "n Q"]
    activation: Activation
    tail: Tail = field(default_factory=IdentityTail)
    candidates: Bool[np.ndarray, "n C"] | None = None
    start: Int64[np.ndarray, " n"] | None = None
    rows: Int64[np.ndarray, " n"] | None = None

    def __repr__(self) -> str:
        rows, width = self.offset.shape
        positions = len(self.contribution.values)
        return (
            f"Readout({rows:,} rows, {positions:,} positions, P = {width}, {self.activation}, "
            f"{self.tail!r})"
        )

    def take(self, rows: Rows) -> Readout:
        """Return the readout of the chosen rows, in the order given."""
        return replace(
            self,
            contribution=self.contribution.take(rows),
            offset=self.offset[rows],
            candidates=None if self.candidates is None else self.candidates[rows],
            start=None if self.start is None else self.start[rows],
            rows=self.in_trace(rows),
        )

    def __call__(self, alpha: Ragged) -> Float[np.ndarray, "n C"]:
        """Return the predictions under ``alpha``, which has the same rows and lengths."""
        return self.of_sums(self.weighted_sums(alpha), np.arange(len(self.offset)))

    def of_sums(self, sums: Sums, rows: Rows) -> Outputs:
        """Return the predictions with other weighted sums.

        Args:
            sums: Sums ``Σ_t alpha_t · contribution_t``, one per entry of ``rows``.
            rows: Numbers of rows, which may repeat.
        """
        candidates = None if self.candidates is None else self.candidates[rows]
        return activate(self.logits(sums, rows), self.activation, candidates)

    def logits(self, sums: Sums, rows: Rows) -> Outputs:
        """Return the logits behind `of_sums`."""
        return self.tail(self._with_offset(sums, rows), self.in_trace(rows))

    def class_logits(self, sums: Sums, rows: Rows) -> Outputs:
        """Return a logit for each class: −∞ if it is not allowed, 0 beside that of a sigmoid."""
        logits = self.logits(sums, rows)
        if self.activation == "sigmoid":
            logits = np.hstack([np.zeros_like(logits), logits])
        return (
            logits if self.candidates is None else np.where(self.candidates[rows], logits, -np.inf)
        )

    def of_part(self, alpha: Ragged, part: Bool[np.ndarray, " N"]) -> tuple[Readout, Ragged]:
        """Return the readout of some positions, and their attention.

        Args:
            alpha: Attention of all positions. The other positions keep theirs: their weighted sums
                move into the offset.
            part: True for the positions that remain.
        """
        others = self.weighted_sums(alpha.with_values(alpha.values * ~part))
        offset = self._with_offset(others, np.arange(len(self.offset)))
        contribution = self.contribution.where(part)
        return replace(self, contribution=contribution, offset=offset), alpha.where(part)

    def of_classes(
        self, classes: Int64[np.ndarray, "n K"], added: Float[np.ndarray, "n K"]
    ) -> Readout | None:
        """Return the readout of some classes of every row.

        Args:
            classes: Classes of each row.
            added: Numbers to add to their logits.

        Returns:
            The readout; None if the tail does not end in a linear layer, or candidates are given.
        """
        layer = getattr(self.tail, "output_layer", None)
        if layer is None or self.candidates is not None:
            return None
        # `SomeClasses` counts the rows from 0 and maps them to the trace itself.
        rows = self.in_trace(np.arange(len(self.offset)))
        return replace(self, tail=SomeClasses(layer, classes, added, rows), rows=None)

    def in_trace(self, rows: Rows) -> Rows:
        """Return the numbers of these rows in the trace."""
        return rows if self.rows is None else self.rows[rows]

    def weighted_sums(self, alpha: Ragged) -> Float[np.ndarray, "n P"]:
        """Return the sum ``Σ_t alpha_t · contribution_t`` of each row."""
        weights = alpha.values[:, None].astype(np.float64)
        return alpha.with_values(weights * self.contribution.values).sum()

    def _with_offset(self, sums: Sums, rows: Rows) -> Float[np.ndarray, "m Q"]:
        if self.start is None:
            return sums + self.offset.T.take(rows, axis=1).T
        pooled = self.offset[rows]
        part = self.start[rows, None] + np.arange(sums.shape[1])
        np.put_along_axis(pooled, part, np.take_along_axis(pooled, part, axis=1) + sums, axis=1)
        return pooled


def rescaled_alpha(table: pl.DataFrame, name: str = "alpha") -> Ragged:
    """Return a column of weights in float64, with every row rescaled to sum to 1."""
    # Stored weights are float32, and their sum may be off by as much as `TOLERANCE.trace`.
    alpha = ragged_column(table[name])
    alpha = alpha.with_values(alpha.values.astype(np.float64))
    return alpha.with_values(alpha.values / alpha.spread(alpha.sum()))


def candidates_of(table: pl.DataFrame) -> Bool[np.ndarray, "n C"] | None:
    """Return the allowed answers of every row; None if all are allowed."""
    if "candidates" not in table.columns:
        return None
    every = [True] * width_of(table, "prediction")
    rows = [every if row is None else row for row in table["candidates"].to_list()]
    return np.array(rows, dtype=bool).reshape(-1, len(every))


def readout_of(table: pl.DataFrame, activation: Activation, tail: Tail | Network) -> Readout:
    """Return the readout of the rows of a conformed table.

    Args:
        table: Columns of `attnaudit.trace.schema`.
        activation: ``sigmoid`` or ``softmax``.
        tail: Tail of the trace, or the model that is run in its place.
    """
    contribution = ragged_column(table["readout"])
    contribution = contribution.with_values(contribution.values.astype(np.float64))
    offset, width = array_column(table["offset"]).astype(np.float64), contribution.values.shape[1]
    own_tail, start = tail.of_rows(table) if isinstance(tail, Network) else tail, None
    # A wider offset holds the parts of several heads, P numbers each.
    if offset.shape[1] != width:
        start = width * np.maximum(array_column(table["head"]).astype(np.int64), 0)
    return Readout(contribution, offset, activation, own_tail, candidates_of(table), start)
