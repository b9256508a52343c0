"""Tails that no kernel computes: those of the package in disguise, and a layer of a transformer with random weights."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from scipy.special import erf

from attnaudit.trace import Trace
from attnaudit.trace.tails import GRAPH_FILE, GraphTail, Tail, TanhTail
from tests.traces import make_trace, trace_of


@dataclass(frozen=True)
class Opaque:
    """Computes what ``tail`` does, and is none that kernels know."""

    tail: Tail

    def __call__(self, pooled, rows):
        return self.tail(pooled, rows)


def opaque(trace):
    """The same trace, its tail in disguise."""
    return Trace(trace.table, trace.metadata, Opaque(trace.readout.tail))


@dataclass(frozen=True)
class Layer:
    """What follows one head of attention: projection, residual, norm, feed-forward, norm, pooler and classifier, in float32.

    ``weights`` are the projection (P, H), residual (H,), both of the feed-forward (H, F) and (F, H), pooler (H, H), classifier (H, C).
    """

    weights: tuple[np.ndarray, ...]

    @classmethod
    def random(cls, width, outputs, seed, hidden=32, strength=1.0):
        rng = np.random.default_rng([seed, width, outputs])
        shapes = (
            (width, hidden),
            (hidden,),
            (hidden, 2 * hidden),
            (2 * hidden, hidden),
            (hidden, hidden),
            (hidden, outputs),
        )
        scales = (
            strength,
            1.0,
            *(1.5 / np.sqrt(shape[0]) for shape in shapes[2:-1]),
            4.0 / np.sqrt(hidden),
        )
        return cls(
            tuple(
                rng.normal(0, scale, shape).astype(np.float32)
                for scale, shape in zip(scales, shapes, strict=True)
            )
        )

    def __call__(self, pooled, rows=None):
        project, residual, up, down, pool, classify = self.weights
        x = _norm(pooled.astype(np.float32) @ project + residual)
        inner = x @ up
        x = _norm(x + (0.5 * inner * (1.0 + erf(inner / np.float32(np.sqrt(2.0))))) @ down)
        return (np.tanh(x @ pool) @ classify).astype(np.float64)


def graph_trace(folder, n=20, outputs=3, seed=0):
    """A random trace whose tail is an ONNX graph in ``folder``, which computes what a tanh tail does."""
    base = make_trace(n, (1, 12), outputs, seed, hidden=6)
    tail = base.tail
    assert isinstance(tail, TanhTail)
    weights = {"weight": tail.weight, "bias": tail.bias}
    nodes = [
        helper.make_node("Tanh", ["pooled"], ["x"]),
        helper.make_node("Gemm", ["x", "weight", "bias"], ["logits"], transB=1),
    ]
    sizes = {"pooled": tail.weight.shape[1], "logits": outputs}
    ends = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size])]
        for name, size in sizes.items()
    ]
    held = [
        numpy_helper.from_array(values.astype(np.float32), name) for name, values in weights.items()
    ]
    graph = helper.make_graph(nodes, "tail", ends[0], ends[1], held)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10),
        folder / GRAPH_FILE,
    )
    stored = GraphTail.of(folder / GRAPH_FILE)
    return Trace(
        base.table,
        {**base.metadata, "schema": 2, "tail": "onnx", "tail_sha256": stored.sha256},
        stored,
    )


def _norm(x):
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + np.float32(1e-5))


def layer_trace(n=30, lengths=(1, 20), outputs=1, seed=0, width=8, **options):
    """A random trace whose tail is a `Layer`."""
    base = make_trace(n, lengths, outputs, seed, hidden=width, loo=False)
    values = 0.3 * base.ragged("readout").values
    values = values + 0.1 * np.random.default_rng(seed).normal(size=values.shape)
    names = ("tokens", "label", "rationale", "split")
    columns: dict[str, Any] = {name: base.table[name].to_list() for name in names}
    columns |= {"gradient": base.ragged("gradient"), "class_names": base.class_names}
    tail = Layer.random(width, outputs, seed, **options)
    return trace_of(base.ragged("alpha"), values, base.readout.offset, tail, **columns)
