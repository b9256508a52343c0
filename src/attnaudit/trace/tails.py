"""Tails: the part of a model between the weighted sum and the logits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import polars as pl
from jaxtyping import Float, Float32, Int64

from attnaudit.core import TraceError, require, sha256
from attnaudit.core.ragged import Ragged
from attnaudit.core.threads import on_threads
from attnaudit.trace import graphs

GRAPH_FILE = "tail.onnx"
ROWS = 256  # rows per call of a graph that accepts any number


Rows = Int64[np.ndarray, " m"]
Outputs = Float[np.ndarray, "m C"]
Sums = Float[np.ndarray, "m P"]


@runtime_checkable
class Tail(Protocol):
    """A function from pooled vectors, weighted sums plus offsets, to logits."""

    def __call__(self, pooled: Float[np.ndarray, "m Q"], rows: Rows) -> Outputs:
        """Return the logits of pooled vectors.

        Args:
            pooled: Weighted sums plus offsets.
            rows: Number of each vector's row in the trace; numbers may repeat. A tail that is the
                same for every row ignores them.
        """
        ...


@runtime_checkable
class JointTail(Tail, Protocol):
    """A tail that can replace the sums of several rows of one text at once."""

    def together(self, pooled: Float[np.ndarray, "M P"], rows: Ragged) -> Outputs:
        """Return the logits of groups of rows, each with the rows of one text and query.

        Args:
            pooled: Weighted sums of all rows, one group after another.
            rows: Numbers in the trace of the rows in each of m groups.
        """
        ...


@runtime_checkable
class LayersTail(JointTail, Protocol):
    """The tail of rows of several layers, where each layer computes the values of the next."""

    def logits_from_attention(self, alpha: Ragged, rows: Ragged) -> Outputs:
        """Return the logits of groups of rows with other attention weights.

        Unlike `together`, every layer computes its values from the attention below it.

        Args:
            alpha: Weights of all rows, one group after another.
            rows: Numbers in the trace of the rows in each of m groups.
        """
        ...


@runtime_checkable
class Network(Protocol):
    """A model that is run again from the weighted sum on, for traces that store no tail.

    Attributes:
        replays: Called with the number of outputs just computed, for progress.
    """

    replays: Callable[[int], None]

    @property
    def model(self) -> Any:
        """The model itself."""
        ...

    @property
    def fingerprint(self) -> str:
        """Digest of the model, computed on first use and then kept."""
        ...

    def current_fingerprint(self) -> str:
        """Compute the digest of the model as it is now."""
        ...

    def current_logits(self, table: pl.DataFrame) -> Float[np.ndarray, "n C"]:
        """Run the whole model as it is now on the texts of a trace's rows."""
        ...

    def of_rows(self, table: pl.DataFrame) -> JointTail:
        """Return the tail of a trace's rows."""
        ...


@dataclass(frozen=True)
class IdentityTail:
    """The tail of a classifier with one linear layer: the weighted sum is the logits."""

    def __call__(self, pooled: Sums, rows: Rows) -> Sums:
        """Return ``pooled``."""
        return pooled


@dataclass(frozen=True)
class LinearTail:
    """The output layer of a vocabulary, ``W · + b``, whose input is smaller than its logits.

    Attributes:
        weight: ``W``, shape ``(C, P)``.
        bias: ``b``, shape ``(C,)``.
    """

    weight: Float[np.ndarray, "C P"]
    bias: Float[np.ndarray, " C"]

    def __repr__(self) -> str:
        classes, width = self.weight.shape
        return f"{type(self).__name__}(P = {width}, C = {classes})"

    def inner(self, pooled: Sums, rows: Rows) -> Sums:
        """Return the input of the layer."""
        return pooled

    def __call__(self, pooled: Sums, rows: Rows) -> Outputs:
        """Return the logits of every row."""
        return self.inner(pooled, rows) @ self.weight.T + self.bias

    @property
    def output_layer(self) -> OutputLayer:
        """The layer, for a search that reads some of its classes."""
        weight, bias = self.weight.astype(np.float32), self.bias.astype(np.float32)
        return OutputLayer(self.inner, weight, bias)


class TanhTail(LinearTail):
    """The head of question answering and inference, ``W₂ tanh(·) + b₂``."""

    def inner(self, pooled: Sums, rows: Rows) -> Sums:
        """Return the input of the layer."""
        return np.tanh(pooled, order="C")

    def __call__(self, pooled: Sums, rows: Rows) -> Outputs:
        """Return the logits of every row."""
        # One product per row. A product of all rows at once would add in an order that depends on
        # their number, and results must not.
        hidden = self.inner(pooled, rows)[:, None]
        return np.add(np.matmul(hidden, self.weight.T)[:, 0], self.bias, order="F")


@dataclass(frozen=True)
class GraphTail:
    """A stored ONNX graph, run by onnxruntime.

    With it an audit needs neither torch nor the model. The graph has one input and one output of
    float32, and passes the checks of `attnaudit.trace.graphs` before it runs.

    Attributes:
        path: The file.
        sha256: Digest of the file. The first call raises TraceError if the file has another digest,
            or if the graph is refused.
    """

    path: Path = field(compare=False)
    sha256: str

    def __repr__(self) -> str:
        return f"GraphTail({self.path.name}, sha256 {self.sha256[:12]}…)"

    @classmethod
    def of(cls, path: Path) -> GraphTail:
        """Return the tail in a file, with the file's current digest."""
        return cls(path, sha256(path))

    def __call__(self, pooled: Float[np.ndarray, "m Q"], rows: Rows) -> Outputs:
        """Return the logits of every row."""
        width = pooled.shape[1]
        try:
            session, size = self._sessions.get(width) or self._start(width)
            # All calls have the same size, the last one padded with zeros: the last digits of a
            # product depend on the number of rows, and results must not.
            calls = max(-(-len(pooled) // size), 1)
            padded = np.zeros((calls * size, width), np.float32)
            padded[: len(pooled)] = pooled
            parts = list(padded.reshape(-1, size, width))
            logits = on_threads(lambda part: graphs.run(session, part), parts)
        except graphs.Refused as error:
            raise self._error(error.got, error.expected) from error
        return np.concatenate(logits)[: len(pooled)].astype(np.float64)

    @cached_property
    def _sessions(self) -> dict[int, tuple[Any, int]]:
        """Session and rows of a call, by the width of a row."""
        return {}

    def _start(self, width: int) -> tuple[Any, int]:
        require("onnx", f"read trace: {self.path}")
        if sha256(self.path) != self.sha256:
            expected = f"sha256 {self.sha256[:12]}…, as the trace says"
            raise self._error("a file that was changed", expected, "write the trace again")
        model = graphs.read_graph(self.path.read_bytes())
        size = graphs.rows_of(model, ROWS)
        graphs.check_sizes(model, size, width)
        session = graphs.session_of(model)
        graphs.check_rows(session, size, width)
        self._sessions[width] = session, size
        return session, size

    def _error(self, got: str, expected: str, do: str = "") -> TraceError:
        return TraceError("read trace", str(self.path), got, expected, do)


class OutputLayer(NamedTuple):
    """The last layer of a tail, ``logits = inner · weightᵀ + bias`` with ``inner`` ``(n, H)``."""

    inner: Tail
    weight: Float32[np.ndarray, "C H"]
    bias: Float32[np.ndarray, " C"]


@dataclass(frozen=True)
class SomeClasses:
    """A tail restricted to some classes per row, which saves most of a large last layer.

    Attributes:
        layer: The last layer of the tail.
        classes: Classes of every row.
        added: Numbers added to the logits of these classes.
        rows: Numbers of these rows for the inner tail.
    """

    layer: OutputLayer
    classes: Int64[np.ndarray, "n K"]
    added: Float[np.ndarray, "n K"]
    rows: Int64[np.ndarray, " n"]

    @cached_property
    def _same(self) -> Int64[np.ndarray, " n"]:
        """First row with the same classes, for every row."""
        first: dict[bytes, int] = {}
        rows = [first.setdefault(own.tobytes(), row) for row, own in enumerate(self.classes)]
        return np.array(rows, np.int64)

    @cached_property
    def _weights(self) -> dict[int, Float32[np.ndarray, "H K"]]:
        # One copy of the weights for all rows with the same classes.
        rows = np.unique(self._same).tolist()
        weight = self.layer.weight
        return {row: np.ascontiguousarray(weight[self.classes[row]].T) for row in rows}

    @cached_property
    def _constant(self) -> Float[np.ndarray, "n K"]:
        return self.layer.bias[self.classes] + self.added

    def __call__(self, pooled: Sums, rows: Rows) -> Float[np.ndarray, "m K"]:
        """Return the logits of each row's classes."""
        # float32 like the stored weights: copies in float64 would take twice the memory.
        hidden = np.asarray(self.layer.inner(pooled, self.rows[rows]), np.float32)
        logits, same = self._constant[rows], self._same[rows]
        # One product per run of rows that share their classes.
        for start, end in pairwise([*np.flatnonzero(np.diff(same, prepend=-1)), len(rows)]):
            logits[start:end] += hidden[start:end] @ self._weights[same[start]]
        return logits


def tail_metadata(tail: Tail | Network) -> dict[str, Any]:
    """Return what the metadata of a trace say of its tail."""
    if isinstance(tail, GraphTail):
        return {"tail": "onnx", "tail_sha256": tail.sha256}
    if isinstance(tail, LinearTail):
        return {"tail": "tanh_mlp" if isinstance(tail, TanhTail) else "linear"}
    return {"tail": "identity" if isinstance(tail, IdentityTail) else "replay"}
