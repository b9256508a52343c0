"""A tail that is stored as an ONNX graph and run by onnxruntime: an audit needs neither torch nor the model."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Float32

from attnaudit.core.errors import TraceError
from attnaudit.core.extras import require
from attnaudit.core.files import sha256
from attnaudit.core.threads import cores

if TYPE_CHECKING:
    from attnaudit.trace.head_graph import HeadGraph

GRAPH_FILE = "tail.onnx"
ROWS = 256  # of a graph that takes any number; a fixed number at a time, so that no result depends on how many there are
_EXPECTED = "a graph from pooled, float32 (n, Q), to logits, float32 (n, C)"


@dataclass(frozen=True)
class GraphTail:
    """``pooled (n, Q) -> logits (n, C)`` by the ONNX graph at ``path``, whose file has the digest ``sha256``.

    The graph has one input and one output of float32, operators of ONNX itself alone, and all its weights within. Rows are computed a fixed
    number at a time, padded with zeros. Raises TraceError for another file, and where onnxruntime refuses it.
    """

    path: Path = field(compare=False)
    sha256: str

    def __repr__(self) -> str:
        return f"GraphTail({self.path.name}, sha256 {self.sha256[:12]}…)"

    @classmethod
    def of(cls, path: Path) -> GraphTail:
        """The tail in a file, by the digest that the file has now."""
        return cls(path, sha256(path))

    def __call__(self, pooled: Float[np.ndarray, "n Q"]) -> Float[np.ndarray, "n C"]:
        graph = self.loaded
        return in_calls(graph.run, graph.rows, pooled).astype(np.float64)

    @cached_property
    def loaded(self) -> _Graph:
        """The graph, checked and ready to run."""
        return _Graph.load(self.path, self.sha256)

    @cached_property
    def by_head(self) -> HeadGraph | None:
        """The same of rows with one head replaced, in less time; None where the graph does not allow it."""
        import onnx

        from attnaudit.trace.head_graph import HeadGraph

        return HeadGraph.of(onnx.load_from_string(self.path.read_bytes()), self.loaded.rows)


@dataclass(frozen=True)
class _Graph:
    session: Any
    rows: int
    name: str

    def run(self, pooled: Float[np.ndarray, "n Q"]) -> Float[np.ndarray, "n C"]:
        return self.session.run(None, {self.name: pooled})[0]

    @classmethod
    def load(cls, path: Path, digest: str) -> _Graph:
        require("onnx", f"read trace: {path}")
        content = path.read_bytes()
        if sha256(path) != digest:
            raise _refused(
                path,
                "a file that was changed",
                f"sha256 {digest[:12]}…, as the trace says",
                "write the trace again",
            )
        _check_operators(path, content)
        try:
            session = session_of(content)
        except Exception as error:  # onnxruntime has a class of its own for every status
            raise _refused(path, " ".join(str(error).split()), _EXPECTED) from error
        (inputs, outputs) = session.get_inputs(), session.get_outputs()
        if [one.type for one in (*inputs, *outputs)] != ["tensor(float)"] * 2 or any(
            len(one.shape) != 2 for one in (*inputs, *outputs)
        ):
            shapes = ", ".join(f"{one.name} {one.type} {one.shape}" for one in (*inputs, *outputs))
            raise _refused(path, shapes, _EXPECTED)
        rows = inputs[0].shape[0]
        return cls(session, rows if isinstance(rows, int) else ROWS, inputs[0].name)


def session_of(content: bytes) -> Any:
    """A graph ready to run, on one thread: calls are made side by side."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = 1, 1, 4
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def in_calls(
    run: Callable[[np.ndarray], np.ndarray], rows: int, pooled: Float[np.ndarray, "n Q"]
) -> Float32[np.ndarray, "n K"]:
    """What ``run`` makes of ``pooled``, so many rows a call, the last padded with zeros."""
    padded = np.zeros((-(-len(pooled) // rows) * rows, pooled.shape[1]), np.float32)
    padded[: len(pooled)] = pooled
    parts = padded.reshape(-1, rows, pooled.shape[1])
    return np.concatenate(calls(lambda k: run(parts[k]), len(parts)))[: len(pooled)]


def calls(run: Callable[[int], np.ndarray], number: int) -> list[np.ndarray]:
    """Calls ``0 … number − 1``, side by side on all cores."""
    if number < 2 or cores() < 2:
        return [run(k) for k in range(number)]
    with ThreadPoolExecutor(cores()) as pool:
        return list(pool.map(run, range(number)))


def _check_operators(path: Path, content: bytes) -> None:
    """Raise TraceError for a graph with weights in another file, or with operators of anything but ONNX itself."""
    import onnx

    try:
        model = onnx.load_from_string(content)
    except Exception as error:  # a class of protobuf's own
        raise _refused(path, " ".join(str(error).split()), _EXPECTED) from error
    outside = [
        one.name
        for one in model.graph.initializer
        if one.data_location == onnx.TensorProto.EXTERNAL
    ]
    if outside:
        raise _refused(
            path, f"weights {outside[0]} in another file", "all weights within the graph"
        )
    foreign = sorted(
        {node.domain for node in model.graph.node if node.domain not in ("", "ai.onnx")}
    )
    if foreign or model.functions:
        got = f"operators of {', '.join(foreign)}" if foreign else "functions of its own"
        raise _refused(path, got, "operators of ONNX itself")


def _refused(path: Path, got: str, expected: str, do: str = "") -> TraceError:
    return TraceError("read trace", str(path), got, expected, do)
