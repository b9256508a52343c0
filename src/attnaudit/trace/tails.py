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

GRAPH_FILE = "tail.onnx"
ROWS = 256  # rows per call of a graph that accepts any number
_EXPECTED = "a graph from pooled, float32 (n, Q), to logits, float32 (n, C)"


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
    float32, uses only operators of ONNX itself, and contains its weights.

    Attributes:
        path: The file.
        sha256: Digest of the file. The first call raises TraceError if the file has another digest,
            or if onnxruntime refuses it.
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
        (given,) = self._session.get_inputs()
        size = given.shape[0] if isinstance(given.shape[0], int) else ROWS
        # All calls have the same size, the last one padded with zeros: the last digits of a product
        # depend on the number of rows, and results must not.
        calls = max(-(-len(pooled) // size), 1)
        padded = np.zeros((calls * size, pooled.shape[1]), np.float32)
        padded[: len(pooled)] = pooled
        parts = list(padded.reshape(-1, size, pooled.shape[1]))
        run = self._session.run
        logits = on_threads(lambda part: run(None, {given.name: part})[0], parts)
        return np.concatenate(logits)[: len(pooled)].astype(np.float64)

    @cached_property
    def _session(self) -> Any:
        require("onnx", f"read trace: {self.path}")
        if sha256(self.path) != self.sha256:
            expected = f"sha256 {self.sha256[:12]}…, as the trace says"
            raise self._error("a file that was changed", expected, "write the trace again")
        content = self.path.read_bytes()
        self._check_operators(content)
        try:
            session = _session_of(content)
        except Exception as error:  # onnxruntime has no common base class for its errors
            raise self._error(" ".join(str(error).split()), _EXPECTED) from error
        ends = (*session.get_inputs(), *session.get_outputs())
        if [one.type for one in ends] != ["tensor(float)"] * 2 or any(
            len(one.shape) != 2 for one in ends
        ):
            got = ", ".join(f"{one.name} {one.type} {one.shape}" for one in ends)
            raise self._error(got, _EXPECTED)
        return session

    def _check_operators(self, content: bytes) -> None:
        """Refuse weights in another file, and operators that are not ONNX's own."""
        # A trace may come from anyone: its graph must not open other files or load other libraries.
        import onnx

        try:
            model = onnx.load_from_string(content)
        except Exception as error:  # an error class of protobuf, which is no direct dependency
            raise self._error(" ".join(str(error).split()), _EXPECTED) from error
        for weights in model.graph.initializer:
            if weights.data_location == onnx.TensorProto.EXTERNAL:
                got = f"weights {weights.name} in another file"
                raise self._error(got, "all weights within the graph")
        foreign = {node.domain for node in model.graph.node} - {"", "ai.onnx"}
        if foreign or model.functions:
            got = (
                f"operators of {', '.join(sorted(foreign))}" if foreign else "functions of its own"
            )
            raise self._error(got, "operators of ONNX itself")

    def _error(self, got: str, expected: str, do: str = "") -> TraceError:
        return TraceError("read trace", str(self.path), got, expected, do)


def _session_of(content: bytes) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # One thread per call, because calls run in parallel. Severity 4 logs fatal errors only; others
    # are raised.
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = 1, 1, 4
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


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
