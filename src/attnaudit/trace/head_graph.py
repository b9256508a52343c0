"""A graph of a tail where one head is replaced: what is linear in its attended sum is added up, not computed again for every attention.

Up to the first normalisation a tail is linear in the attended sums, and the normalisation followed by a product with fixed weights ``M`` is

    LN(u) M = (g ∘ (u − mean u)) M / √(var u + ε) + β M

which is linear but for one number. So ``u`` and ``(g ∘ (u − mean u)) M`` of a row with one head replaced are those of the row with nothing
in the place of this head plus D products for each of their numbers, where D is the width of the head. A transformer's tail computes half as
much this way: neither the output projection of the attention nor the first layer of the feed-forward network is done again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from jaxtyping import Float, Float32, Int64
from onnx import TensorProto, helper, numpy_helper

from attnaudit.trace.graph import calls, in_calls, session_of

GROUP = 32  # rows of one head, padded with zeros; a fixed number at a time, so that no result depends on how many there are
SCALE = 1024.0  # of the numbers by which slopes are found: constants of the graph round off little of them
LINEAR = (
    "Slice",
    "Reshape",
    "Unsqueeze",
    "Squeeze",
    "Transpose",
    "Identity",
    "Split",
    "Concat",
    "MatMul",
    "Gemm",
    "Add",
    "Sub",
)


@dataclass(frozen=True)
class HeadGraph:
    """``before``: pooled (R, Q) to the K numbers that are linear in it; ``after``: from these to logits, R rows at a time.

    ``slopes`` (Q, K) are those of the K numbers.
    """

    before: Any
    after: Any
    rows: int
    slopes: Float32[np.ndarray, "Q K"]

    @classmethod
    def of(cls, model: onnx.ModelProto, rows: int) -> HeadGraph | None:
        """The two graphs of one from pooled (R, Q) to logits; None where it does not begin as above, or R is no multiple of `GROUP`."""
        cut = _Cut.of(model)
        if cut is None or rows % GROUP:
            return None
        before, after = (
            session_of(part.SerializeToString()) for part in (cut.before(), cut.after(rows))
        )
        width = before.get_inputs()[0].shape[1]
        at_zero, *at_each = _bases(before, rows, SCALE * np.eye(width + 1, width, -1))
        return cls(before, after, rows, (np.stack(at_each) - at_zero) / np.float32(SCALE))

    def bases(self, pooled: Float[np.ndarray, "n Q"]) -> Float32[np.ndarray, "n K"]:
        """The K numbers of every row."""
        return _bases(self.before, self.rows, pooled)

    def logits(
        self,
        sums: Float[np.ndarray, "m P"],
        start: Int64[np.ndarray, " m"],
        base: Float32[np.ndarray, "n K"],
        rows: Int64[np.ndarray, " m"],
    ) -> Float[np.ndarray, "m C"]:
        """The logits of ``rows``, which may repeat, of those of ``base``, with ``sums`` added to what is pooled from ``start`` on."""
        if len(rows) == 0:
            return np.zeros((0, self.after.get_outputs()[0].shape[1]))
        slots, starts = _grouped(start, rows, self.rows)
        found = np.concatenate(
            calls(lambda k: self._run(sums, base, rows, slots[k], starts[k]), len(slots))
        )
        logits = np.empty((len(rows), found.shape[1]))
        logits[slots[slots >= 0]] = found[slots.ravel() >= 0]
        return logits

    def _run(
        self,
        sums: np.ndarray,
        base: np.ndarray,
        rows: np.ndarray,
        slots: np.ndarray,
        starts: np.ndarray,
    ) -> np.ndarray:
        width, some = sums.shape[1], slots >= 0
        own = np.zeros((self.rows, width), np.float32)
        own[some] = sums[slots[some]]
        given = {"base": base[rows[np.maximum(slots, 0)]]}
        for number, start in enumerate(starts):
            given[f"sums_{number}"] = own[number * GROUP : (number + 1) * GROUP]
            given[f"slopes_{number}"] = self.slopes[start : start + width]
        return self.after.run(None, given)[0]


def _bases(before: Any, rows: int, pooled: Float[np.ndarray, "n Q"]) -> Float32[np.ndarray, "n K"]:
    (given,) = before.get_inputs()
    return in_calls(lambda part: before.run(None, {given.name: part})[0], rows, pooled)


def _grouped(
    start: Int64[np.ndarray, " m"], rows: Int64[np.ndarray, " m"], size: int
) -> tuple[Int64[np.ndarray, "c R"], np.ndarray]:
    """Which of m rows, or −1, is in which place of which call of ``size`` rows, and where each group of a call starts."""
    order = np.lexsort((rows, start))
    heads, count = np.unique(start, return_counts=True)
    groups = -(-count // GROUP)
    of_group = np.repeat(heads, groups)
    of_group = np.append(of_group, np.full(-len(of_group) % (size // GROUP), heads[0]))
    slots = np.full(len(of_group) * GROUP, -1)
    ahead = np.cumsum(groups * GROUP - count) - (groups * GROUP - count)
    slots[np.arange(len(order)) + np.repeat(ahead, count)] = order
    return slots.reshape(-1, size), of_group.reshape(-1, size // GROUP)


@dataclass(frozen=True)
class _Cut:
    """Where a graph is cut: before a normalisation of something linear, and behind the product of what is normalised with fixed weights."""

    model: onnx.ModelProto
    constants: dict[str, np.ndarray]
    normalised: onnx.NodeProto
    product: onnx.NodeProto

    @classmethod
    def of(cls, model: onnx.ModelProto) -> _Cut | None:
        constants = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
        linear, varying = {model.graph.input[0].name}, {model.graph.input[0].name}
        for node in model.graph.node:
            if not varying & set(node.input):
                continue
            varying |= set(node.output)
            if _is_linear(node, linear, varying, constants):
                linear |= set(node.output)
        for node in model.graph.node:
            if (
                node.op_type == "LayerNormalization"
                and node.input[0] in linear
                and set(node.input[1:]) <= constants.keys()
            ):
                users = [
                    one
                    for one in model.graph.node
                    if one.op_type == "MatMul" and one.input[0] == node.output[0]
                ]
                users = [
                    one
                    for one in users
                    if one.input[1] in constants and constants[one.input[1]].ndim == 2
                ]
                if (
                    len(users) == 1
                    and _axis(node) == -1
                    and constants[node.input[1]].ndim == 1
                    and len(node.output) == 1
                ):
                    cut = cls(model, constants, node, users[0])
                    return cut if cut._is_whole() else None
        return None

    @property
    def widths(self) -> tuple[int, int]:
        """Numbers of what is normalised, and of its product with the weights."""
        inner, outer = self.constants[self.product.input[1]].shape
        return inner, outer

    def before(self) -> onnx.ModelProto:
        """From what is pooled to what is normalised, and the product but for the scale and the shift of the normalisation."""
        linear = self.normalised.input[0]
        weights = self.constants[self.product.input[1]]
        scaled = self.constants[self.normalised.input[1]][:, None].astype(np.float64) * weights
        centred = (scaled - scaled.mean(axis=0)).astype(
            np.float32
        )  # (u − mean u) A = u (A − its mean over rows)
        inner, outer = self.widths
        nodes = [
            *self._needed([linear], ()),
            helper.make_node("Reshape", [linear, "_flat"], ["_u"]),
            helper.make_node("MatMul", ["_u", "_centred"], ["_z"]),
            helper.make_node("Concat", ["_u", "_z"], ["_base"], axis=1),
        ]
        more = {"_flat": np.array([-1, inner]), "_centred": centred}
        return self._made(
            nodes, more, [self.model.graph.input[0]], _float("_base", [None, inner + outer])
        )

    def after(self, rows: int) -> onnx.ModelProto:
        """From the numbers of `before` without one head's part, and this part in groups of one head each, to the output."""
        linear, output = self.normalised.input[0], self.model.graph.output[0]
        inner, outer = self.widths
        shift = (
            self.constants[self.normalised.input[2]].astype(np.float64)
            if len(self.normalised.input) > 2
            else np.zeros(inner)
        )
        numbers = range(rows // GROUP)
        normalised = onnx.NodeProto()
        normalised.CopyFrom(self.normalised)
        del normalised.output[:]
        normalised.output.extend([self.normalised.output[0], "_mean", "_scale"])
        nodes = [
            *(
                helper.make_node("MatMul", [f"sums_{k}", f"slopes_{k}"], [f"_part_{k}"])
                for k in numbers
            ),
            helper.make_node("Concat", [f"_part_{k}" for k in numbers], ["_change"], axis=0),
            helper.make_node("Add", ["base", "_change"], ["_both"]),
            helper.make_node("Split", ["_both", "_sizes"], ["_u", "_z"], axis=1),
            helper.make_node("Reshape", ["_u", "_shape_u"], [linear]),
            normalised,
            helper.make_node("Reshape", ["_z", "_shape_z"], ["_deep"]),
            helper.make_node("Mul", ["_deep", "_scale"], ["_scaled"]),
            helper.make_node("Add", ["_scaled", "_shift"], [self.product.output[0]]),
            *self._needed(
                [output.name], (linear, self.normalised.output[0], self.product.output[0])
            ),
        ]
        shape = self._shape(linear)
        more = {
            "_sizes": np.array([inner, outer]),
            "_shape_u": np.array(shape),
            "_shape_z": np.array([*shape[:-1], outer]),
            "_shift": (shift @ self.constants[self.product.input[1]]).astype(np.float32),
        }
        inputs = [_float("base", [rows, inner + outer])]
        inputs += [_float(f"sums_{k}", [GROUP, None]) for k in numbers] + [
            _float(f"slopes_{k}", [None, inner + outer]) for k in numbers
        ]
        return self._made(nodes, more, inputs, output)

    def _shape(self, name: str) -> list[int]:
        """The shape of a tensor, which the exporter notes."""
        found = next(one for one in self.model.graph.value_info if one.name == name)
        return [one.dim_value for one in found.type.tensor_type.shape.dim]

    def _is_whole(self) -> bool:
        """Whether nothing behind the cut needs anything before it but what is normalised and its product, in a shape that is known."""
        kept = (self.normalised.input[0], self.normalised.output[0], self.product.output[0])
        needed = self._needed([self.model.graph.output[0].name], kept)
        known = {one.name for one in self.model.graph.value_info}
        pooled = self.model.graph.input[0].name
        return (
            kept[0] in known
            and all(self._shape(kept[0]))
            and all(pooled not in node.input for node in needed)
        )

    def _needed(self, wanted: list[str], given: tuple[str, ...]) -> list[onnx.NodeProto]:
        """The nodes that make what is ``wanted`` where what is ``given`` is there."""
        open_names, nodes = set(wanted) - set(given), []
        for node in reversed(self.model.graph.node):
            if open_names & set(node.output) and not set(node.output) & set(given):
                nodes.append(node)
                open_names |= set(node.input) - set(given)
        return nodes[::-1]

    def _made(
        self, nodes: list[onnx.NodeProto], more: dict[str, np.ndarray], inputs: list, output: Any
    ) -> onnx.ModelProto:
        used = {name for node in nodes for name in node.input}
        weights = [one for one in self.model.graph.initializer if one.name in used]
        weights += [numpy_helper.from_array(values, name) for name, values in more.items()]
        graph = helper.make_graph(nodes, "part", inputs, [output], weights)
        return helper.make_model(
            graph, opset_imports=self.model.opset_import, ir_version=self.model.ir_version
        )


def _is_linear(
    node: onnx.NodeProto, linear: set[str], varying: set[str], constants: dict[str, np.ndarray]
) -> bool:
    """Whether the node's outputs are linear, plus a constant, in what is pooled."""
    if node.op_type not in LINEAR or not varying & set(node.input) <= linear:
        return False
    if node.op_type in ("MatMul", "Gemm"):
        return node.input[1] in constants and (len(node.input) < 3 or node.input[2] in constants)
    return True


def _axis(node: onnx.NodeProto) -> int:
    return next((one.i for one in node.attribute if one.name == "axis"), -1)


def _float(name: str, shape: list[int | None]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
