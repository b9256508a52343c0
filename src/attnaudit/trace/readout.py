"""What would the model predict under this attention? The one question that every counterfactual asks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int64

from attnaudit.core.ragged import Ragged
from attnaudit.stats.measures import Activation, activate
from attnaudit.trace.schema import array_column, candidates_column, ragged_column


@runtime_checkable
class Tail(Protocol):
    """What the model does between the weighted sum and its logits: ``(n, P) -> (n, C)``."""

    def __call__(self, pooled: Float[np.ndarray, "n P"]) -> Float[np.ndarray, "n C"]: ...


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


@dataclass(frozen=True)
class Readout:
    """``prediction = activation(tail(offset + Σ_t alpha_t · contribution_t))`` for every row of a trace.

    ``contribution`` holds ``(T, P)`` numbers per row, ``offset`` is ``(n, P)``, ``candidates`` ``(n, C)`` or None for all.
    All arithmetic is in float64.
    """

    contribution: Ragged
    offset: Float[np.ndarray, "n P"]
    activation: Activation
    tail: Tail = IdentityTail()
    candidates: Bool[np.ndarray, "n C"] | None = None

    def __repr__(self) -> str:
        rows, width = self.offset.shape
        return f"Readout({rows:,} rows, {len(self.contribution.values):,} positions, P = {width}, {self.activation}, {self.tail!r})"

    def take(self, rows: Int64[np.ndarray, " m"]) -> Readout:
        """The readout of the chosen rows, in the order given."""
        candidates = None if self.candidates is None else self.candidates[rows]
        return replace(self, contribution=self.contribution.take(rows), offset=self.offset[rows], candidates=candidates)

    def __call__(self, alpha: Ragged) -> Float[np.ndarray, "n C"]:
        """Predictions under ``alpha`` (same rows and lengths), shape ``(n, C)``."""
        return activate(self.logits(alpha), self.activation, self.candidates)

    def logits(self, alpha: Ragged) -> Float[np.ndarray, "n C"]:
        """What goes into the activation, shape ``(n, C)``."""
        weighted = alpha.with_values(alpha.values[:, None].astype(np.float64) * self.contribution.values)
        return self.tail(self.offset + weighted.sum())


def rescaled_alpha(table: pa.Table) -> Ragged:
    """Attention in float64, every row rescaled to sum to 1 exactly."""
    alpha = ragged_column(table, "alpha")
    values = alpha.values.astype(np.float64)
    total = alpha.with_values(values).sum()
    return alpha.with_values(values / alpha.spread(total))


def readout_of(table: pa.Table, activation: Activation, tail: Tail) -> Readout:
    """The readout of the rows of a conformed table."""
    contribution = ragged_column(table, "readout")
    offset = array_column(table, "offset").astype(np.float64)
    return Readout(contribution.with_values(contribution.values.astype(np.float64)), offset, activation, tail, candidates_column(table))
