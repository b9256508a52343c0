"""A tail read for some of its classes: as far as its last linear layer, and of this layer what the classes need."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Int64


class OutputLayer(NamedTuple):
    """What a tail ends in: ``logits = inner · weightᵀ + bias``, weight (C, H) and bias (C,). ``inner``, a `RowTail`, gives (n, H)."""

    inner: Any
    weight: Float32[np.ndarray, "C H"]
    bias: Float32[np.ndarray, " C"]


@dataclass(frozen=True)
class SomeClasses:
    """A `RowTail`: of each of n rows the logits of its ``classes``, with ``more`` added to them.

    ``rows`` are the numbers that the inner tail knows these rows by.
    """

    layer: OutputLayer
    rows: Int64[np.ndarray, " n"]
    classes: Int64[np.ndarray, "n K"]
    more: Float[np.ndarray, "n K"]

    @cached_property
    def alike(self) -> Int64[np.ndarray, " n"]:
        """The first row with the same classes, of every row."""
        first: dict[bytes, int] = {}
        return np.array(
            [first.setdefault(own.tobytes(), row) for row, own in enumerate(self.classes)], np.int64
        )

    @cached_property
    def weights(self) -> dict[int, Float32[np.ndarray, "H K"]]:
        """The weight of each of `alike`."""
        return {
            row: np.ascontiguousarray(self.layer.weight[self.classes[row]].T)
            for row in np.unique(self.alike).tolist()
        }

    @cached_property
    def added(self) -> Float[np.ndarray, "n K"]:
        """What is added to the products of every row."""
        return self.layer.bias[self.classes] + self.more

    def __call__(
        self, pooled: Float[np.ndarray, "m P"], rows: Int64[np.ndarray, " m"]
    ) -> Float[np.ndarray, "m K"]:
        hidden = np.asarray(self.layer.inner(pooled, self.rows[rows]), np.float32)
        logits, alike = self.added[rows], self.alike[rows]
        for start, end in pairwise([*np.flatnonzero(np.diff(alike, prepend=-1)), len(rows)]):
            logits[start:end] += hidden[start:end] @ self.weights[alike[start]]
        return logits
