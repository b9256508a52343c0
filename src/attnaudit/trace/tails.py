"""Tails: what a model computes between the weighted sum and its logits."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import polars as pl
from jaxtyping import Float, Float32, Int64

from attnaudit.core.errors import TraceError
from attnaudit.core.extras import require
from attnaudit.core.files import sha256
from attnaudit.core.ragged import Ragged
from attnaudit.core.threads import cores

GRAPH_FILE = "tail.onnx"
ROWS = 256  # of a call, for a graph that takes any number of rows
_EXPECTED = "a graph from pooled, float32 (n, Q), to logits, float32 (n, C)"


@runtime_checkable
class Tail(Protocol):
    """Logits ``(m, C)`` of weighted sums with their offsets, ``pooled (m, Q)``.

    ``rows`` ``(m,)`` are numbers of rows of the trace, which may repeat. Tails that are the same
    for every row ignore them.
    """

    def __call__(
        self, pooled: Float[np.ndarray, "m Q"], rows: Int64[np.ndarray, " m"]
    ) -> Float[np.ndarray, "m C"]:
        """Return the logits of every row."""
        ...


@runtime_checkable
class JointTail(Tail, Protocol):
    """A tail that also replaces the sums of several rows of one text at once."""

    def together(self, pooled: Float[np.ndarray, "M P"], rows: Ragged) -> Float[np.ndarray, "m C"]:
        """Return the logits of m groups of rows, each of one text and query."""
        ...


@runtime_checkable
class LayersTail(JointTail, Protocol):
    """The tail of rows of several layers, each of which makes the values of those above."""

    def logits_from_attention(self, alpha: Ragged, rows: Ragged) -> Float[np.ndarray, "m C"]:
        """`together` with attention weights in place of sums; each pass computes its own values."""
        ...


@runtime_checkable
class Network(Protocol):
    """A model at hand, for traces that store no tail: it is run again from the weighted sum on."""

    @property
    def model(self) -> Any:
        """The model itself."""
        ...

    @property
    def fingerprint(self) -> str:
        """Name of the model as it was when it was first asked for."""
        ...

    def current_fingerprint(self) -> str:
        """Name the model as it is now."""
        ...

    def current_logits(self, table: pl.DataFrame) -> Float[np.ndarray, "n C"]:
        """Run the whole model, as it is now, on the texts of a trace's rows."""
        ...

    def of_rows(self, table: pl.DataFrame) -> JointTail:
        """Return the tail of a trace's rows."""
        ...


@dataclass(frozen=True)
class IdentityTail:
    """The weighted sum already is the logits (classification with one linear layer)."""

    def __call__(
        self, pooled: Float[np.ndarray, "m P"], rows: Int64[np.ndarray, " m"]
    ) -> Float[np.ndarray, "m P"]:
        """Return ``pooled``."""
        return pooled


@dataclass(frozen=True)
class TanhTail:
    """``W₂ tanh(·) + b₂``, the head of question answering and inference.

    Attributes:
        weight: ``W₂``, shape ``(C, P)``.
        bias: ``b₂``, shape ``(C,)``.
    """

    weight: Float[np.ndarray, "C P"]
    bias: Float[np.ndarray, " C"]

    def __repr__(self) -> str:
        classes, width = self.weight.shape
        return f"TanhTail(P = {width}, C = {classes})"

    def __call__(
        self, pooled: Float[np.ndarray, "m P"], rows: Int64[np.ndarray, " m"]
    ) -> Float[np.ndarray, "m C"]:
        """Return the logits of every row."""
        # One product per row: a product of all rows adds up in an order that depends on how many
        # there are, and results must not.
        return np.matmul(np.tanh(pooled)[:, None], self.weight.T)[:, 0] + self.bias


@dataclass(frozen=True)
class GraphTail:
    """A stored ONNX graph, run by onnxruntime: an audit needs neither torch nor the model.

    The graph has one input and one output of float32, only operators of ONNX itself, and contains
    its weights.

    Attributes:
        path: The file.
        sha256: Digest of the file. Any other file is refused with a TraceError when the graph is
            first run, and so is one that onnxruntime refuses.
    """

    path: Path = field(compare=False)
    sha256: str

    def __repr__(self) -> str:
        return f"GraphTail({self.path.name}, sha256 {self.sha256[:12]}…)"

    @classmethod
    def of(cls, path: Path) -> GraphTail:
        """Return the tail in a file, by the digest that the file has now."""
        return cls(path, sha256(path))

    def __call__(
        self, pooled: Float[np.ndarray, "m Q"], rows: Int64[np.ndarray, " m"]
    ) -> Float[np.ndarray, "m C"]:
        """Return the logits of every row."""
        (given,) = self._session.get_inputs()
        size = given.shape[0] if isinstance(given.shape[0], int) else ROWS
        # A fixed size, with zeros in the last call, makes results independent of how many rows
        # are computed together.
        calls = max(-(-len(pooled) // size), 1)
        padded = np.zeros((calls * size, pooled.shape[1]), np.float32)
        padded[: len(pooled)] = pooled
        parts = padded.reshape(-1, size, pooled.shape[1])
        with ThreadPoolExecutor(cores()) as pool:
            run = self._session.run
            logits = list(pool.map(lambda part: run(None, {given.name: part})[0], parts))
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
        except Exception as error:  # onnxruntime has a class of its own for every status
            raise self._error(" ".join(str(error).split()), _EXPECTED) from error
        ends = (*session.get_inputs(), *session.get_outputs())
        if [one.type for one in ends] != ["tensor(float)"] * 2 or any(
            len(one.shape) != 2 for one in ends
        ):
            got = ", ".join(f"{one.name} {one.type} {one.shape}" for one in ends)
            raise self._error(got, _EXPECTED)
        return session

    def _check_operators(self, content: bytes) -> None:
        """Refuse weights in another file, and operators of anything but ONNX itself."""
        import onnx

        try:
            model = onnx.load_from_string(content)
        except Exception as error:  # a class of protobuf's own
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
    # One thread a call: calls are made side by side.
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = 1, 1, 4
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


class OutputLayer(NamedTuple):
    """The last layer of a tail: ``logits = inner · weightᵀ + bias``, with ``inner`` (n, H)."""

    inner: Tail
    weight: Float32[np.ndarray, "C H"]
    bias: Float32[np.ndarray, " C"]


@dataclass(frozen=True)
class SomeClasses:
    """A tail read for some of its classes: its last layer computes only what these need.

    Attributes:
        layer: The last layer of the tail.
        classes: Classes of every row.
        added: Numbers added to the logits of these classes.
        rows: Numbers by which the inner tail knows these rows.
    """

    layer: OutputLayer
    classes: Int64[np.ndarray, "n K"]
    added: Float[np.ndarray, "n K"]
    rows: Int64[np.ndarray, " n"]

    @cached_property
    def _same(self) -> Int64[np.ndarray, " n"]:
        """For every row the first one with the same classes."""
        first: dict[bytes, int] = {}
        rows = [first.setdefault(own.tobytes(), row) for row, own in enumerate(self.classes)]
        return np.array(rows, np.int64)

    @cached_property
    def _weights(self) -> dict[int, Float32[np.ndarray, "H K"]]:
        rows = np.unique(self._same).tolist()
        weight = self.layer.weight
        return {row: np.ascontiguousarray(weight[self.classes[row]].T) for row in rows}

    @cached_property
    def _constant(self) -> Float[np.ndarray, "n K"]:
        return self.layer.bias[self.classes] + self.added

    def __call__(
        self, pooled: Float[np.ndarray, "m P"], rows: Int64[np.ndarray, " m"]
    ) -> Float[np.ndarray, "m K"]:
        """Return the logits of each row's classes."""
        hidden = np.asarray(self.layer.inner(pooled, self.rows[rows]), np.float32)
        logits, same = self._constant[rows], self._same[rows]
        for start, end in pairwise([*np.flatnonzero(np.diff(same, prepend=-1)), len(rows)]):
            logits[start:end] += hidden[start:end] @ self._weights[same[start]]
        return logits
