"""What would the model predict under this attention? The one question that every counterfactual asks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Float32, Int64

from attnaudit.core.ragged import Ragged
from attnaudit.stats.measures import Activation, activate
from attnaudit.trace.graph import GraphTail
from attnaudit.trace.schema import array_column, candidates_column, ragged_column
from attnaudit.trace.some_classes import SomeClasses

if TYPE_CHECKING:
    from attnaudit.trace.head_graph import HeadGraph


@runtime_checkable
class Tail(Protocol):
    """What the model does between the weighted sum and its logits: ``(n, Q) -> (n, C)``."""

    def __call__(self, pooled: Float[np.ndarray, "n Q"]) -> Float[np.ndarray, "n C"]: ...


@runtime_checkable
class Network(Protocol):
    """A model at hand, whose tail is not stored: it is run again from the weighted sum of a row on.

    ``fingerprint`` names the ``model`` as it was when it was first asked for, ``current_fingerprint`` as it is now; ``of_rows`` gives the
    tail of the rows of a table: of weighted sums, and of the row of each. ``current_logits`` are those of the model's own attention, by
    passes of the whole model as it is now.
    """

    @property
    def model(self) -> Any: ...

    @property
    def fingerprint(self) -> str: ...

    def current_fingerprint(self) -> str: ...

    def current_logits(self, table: pa.Table) -> Float[np.ndarray, "n C"]: ...

    def of_rows(self, table: pa.Table) -> RowTail: ...


@runtime_checkable
class RowTail(Protocol):
    """The tail of a `Network`: ``(n, P)`` weighted sums, each of one of its rows, ``(n,)``, to ``(n, C)``."""

    def __call__(
        self, pooled: Float[np.ndarray, "n P"], rows: Int64[np.ndarray, " n"]
    ) -> Float[np.ndarray, "n C"]: ...

    def together(self, pooled: Float[np.ndarray, "M P"], rows: Ragged) -> Float[np.ndarray, "m C"]:
        """Of m groups of rows, each of one text and query: the logits with the sums of all rows of a group replaced at once."""
        ...


@runtime_checkable
class LayersTail(RowTail, Protocol):
    """The tail of a network whose rows are of several layers, each of which makes the values of those above."""

    def logits_from_attention(self, alpha: Ragged, rows: Ragged) -> Float[np.ndarray, "m C"]:
        """`together` with the attention weights of all M rows in place of their sums; values are those that the pass computes."""
        ...


@dataclass(frozen=True)
class IdentityTail:
    """The weighted sum already is the logits (classification with one linear layer)."""

    def __call__(self, pooled: Float[np.ndarray, "n P"]) -> Float[np.ndarray, "n P"]:
        return pooled


@dataclass(frozen=True)
class TanhTail:
    """``W₂ tanh(·) + b₂``, the head of question answering and inference; ``weight`` is ``(C, P)``, ``bias`` ``(C,)``."""

    weight: Float[np.ndarray, "C P"]
    bias: Float[np.ndarray, " C"]

    def __repr__(self) -> str:
        classes, width = self.weight.shape
        return f"TanhTail(P = {width}, C = {classes})"

    def __call__(self, pooled: Float[np.ndarray, "n P"]) -> Float[np.ndarray, "n C"]:
        """A product for each row by itself: one of all rows adds up in an order that depends on how many there are."""
        return np.matmul(np.tanh(pooled)[:, None], self.weight.T)[:, 0] + self.bias


_OF_ROWS = ("candidates", "start", "rows")


@dataclass(frozen=True)
class Readout:
    """``prediction = activation(tail(offset + Σ_t alpha_t · contribution_t))`` for every row of a trace.

    ``contribution`` holds ``(T, P)`` numbers per row, ``offset`` is ``(n, Q)``, ``candidates`` ``(n, C)`` or None for all. Where the
    offset is wider than the contributions, those of a row are added to its numbers from ``start`` on, ``(n,)``: a head's are one part of
    what the tail takes. ``rows`` are the rows' numbers in the trace, for a tail that is a `RowTail`. Arithmetic is in float64, but for
    that of the tail.
    """

    contribution: Ragged
    offset: Float[np.ndarray, "n Q"]
    activation: Activation
    tail: Any = IdentityTail()  # a Tail; a RowTail where there are rows
    candidates: Bool[np.ndarray, "n C"] | None = None
    start: Int64[np.ndarray, " n"] | None = None
    rows: Int64[np.ndarray, " n"] | None = None

    def __repr__(self) -> str:
        rows, width = self.offset.shape
        return f"Readout({rows:,} rows, {len(self.contribution.values):,} positions, P = {width}, {self.activation}, {self.tail!r})"

    def take(self, rows: Int64[np.ndarray, " m"]) -> Readout:
        """The readout of the chosen rows, in the order given."""
        of_rows = {
            name: values if values is None else values[rows]
            for name in _OF_ROWS
            for values in (getattr(self, name),)
        }
        return replace(
            self, contribution=self.contribution.take(rows), offset=self.offset[rows], **of_rows
        )

    def __call__(self, alpha: Ragged) -> Float[np.ndarray, "n C"]:
        """Predictions under ``alpha`` (same rows and lengths), shape ``(n, C)``."""
        return activate(self.logits(alpha), self.activation, self.candidates)

    def logits(self, alpha: Ragged) -> Float[np.ndarray, "n C"]:
        """What goes into the activation, shape ``(n, C)``."""
        weighted = alpha.with_values(
            alpha.values[:, None].astype(np.float64) * self.contribution.values
        )
        pooled = self._added(weighted.sum(), np.arange(len(self.offset)))
        return self.tail(pooled) if self.rows is None else self.tail(pooled, self.rows)

    def of_part(self, alpha: Ragged, part: Bool[np.ndarray, " N"]) -> tuple[Readout, Ragged]:
        """The readout of some positions alone and their attention; what the others give under ``alpha`` is in its offset."""
        others = alpha.with_values(
            (alpha.values * ~part)[:, None].astype(np.float64) * self.contribution.values
        ).sum()
        offset = self._added(others, np.arange(len(self.offset)))
        return replace(
            self, contribution=self.contribution.where(part), offset=offset
        ), alpha.where(part)

    def of_sums(
        self, sums: Float[np.ndarray, "m P"], rows: Int64[np.ndarray, " m"]
    ) -> Float[np.ndarray, "m C"]:
        """Predictions of the ``rows``, which may repeat, with these weighted sums."""
        if self.by_head is not None:
            assert self.start is not None
            logits = self.by_head.logits(sums, self.start[rows], self._bases, rows)
        else:
            pooled = self._added(sums, rows)
            logits = self.tail(pooled) if self.rows is None else self.tail(pooled, self.rows[rows])
        return activate(
            logits, self.activation, None if self.candidates is None else self.candidates[rows]
        )

    def of_classes(
        self, classes: Int64[np.ndarray, "n K"], more: Float[np.ndarray, "n K"]
    ) -> Readout | None:
        """The readout of some classes of every row, with ``more`` added to their logits; None where the tail ends in no linear layer."""
        layer = getattr(self.tail, "output_layer", None)
        if layer is None or self.rows is None or self.candidates is not None:
            return None
        return replace(
            self, tail=SomeClasses(layer, self.rows, classes, more), rows=np.arange(len(self.rows))
        )

    @property
    def by_head(self) -> HeadGraph | None:
        """The graph behind one head of several; None where there is none, and the whole tail is computed."""
        return (
            self.tail.by_head
            if isinstance(self.tail, GraphTail) and self.start is not None
            else None
        )

    @cached_property
    def _bases(self) -> Float32[np.ndarray, "n K"]:
        assert self.by_head is not None
        return self.by_head.bases(self.offset)

    def _added(
        self, weighted: Float[np.ndarray, "m P"], rows: Int64[np.ndarray, " m"]
    ) -> Float[np.ndarray, "m Q"]:
        if self.start is None:
            return self.offset[rows] + weighted
        pooled = self.offset[rows]
        part = self.start[rows, None] + np.arange(weighted.shape[1])
        np.put_along_axis(pooled, part, np.take_along_axis(pooled, part, axis=1) + weighted, axis=1)
        return pooled


def rescaled_alpha(table: pa.Table) -> Ragged:
    """Attention in float64, every row rescaled to sum to 1 exactly."""
    alpha = ragged_column(table, "alpha")
    values = alpha.values.astype(np.float64)
    total = alpha.with_values(values).sum()
    return alpha.with_values(values / alpha.spread(total))


def readout_of(table: pa.Table, activation: Activation, tail: Tail | Network) -> Readout:
    """The readout of the rows of a conformed table."""
    contribution = ragged_column(table, "readout")
    contribution = contribution.with_values(contribution.values.astype(np.float64))
    offset, width = array_column(table, "offset").astype(np.float64), contribution.values.shape[1]
    found = Readout(contribution, offset, activation, candidates=candidates_column(table))
    if isinstance(tail, Network):
        return replace(found, tail=tail.of_rows(table), rows=np.arange(len(offset)))
    start = (
        None
        if offset.shape[1] == width
        else width * np.maximum(array_column(table, "head").astype(np.int64), 0)
    )
    return replace(found, tail=tail, start=start)
