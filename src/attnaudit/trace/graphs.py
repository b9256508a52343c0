"""Checks of stored graphs, which may come from anyone: operators, sizes, independent rows.

A graph decides what is computed, so it may hold nothing but the arithmetic of a network. Sizes may
not depend on the numbers that flow through it, so all of them are known before it runs.
"""

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from attnaudit.core.random import stream_keys, uniform

EXPECTED = "a graph from pooled, float32 (n, Q), to logits, float32 (n, C)"
# Operators without subgraphs, random numbers, files, texts or states.
OPERATORS = {
    "Abs", "Add", "And", "ArgMax", "BatchNormalization", "Cast", "Ceil", "Celu", "Clip", "Concat",
    "Constant", "ConstantOfShape", "Cos", "CumSum", "Div", "Elu", "Equal", "Erf", "Exp", "Expand",
    "Flatten", "Floor", "Gather", "GatherElements", "GatherND", "Gelu", "Gemm", "Greater",
    "GreaterOrEqual", "HardSigmoid", "HardSwish", "Identity", "LayerNormalization", "LeakyRelu",
    "Less", "LessOrEqual", "Log", "LogSoftmax", "MatMul", "Max", "Mean", "Min", "Mish", "Mod",
    "Mul", "Neg", "Not", "Or", "PRelu", "Pow", "RMSNormalization", "Range", "Reciprocal",
    "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
    "ReduceProd", "ReduceSum", "ReduceSumSquare", "Relu", "Reshape", "Round", "Selu", "Shape",
    "Sigmoid", "Sign", "Sin", "Size", "Slice", "Softmax", "Softplus", "Softsign", "Split", "Sqrt",
    "Squeeze", "Sub", "Sum", "Swish", "Tanh", "ThresholdedRelu", "Tile", "Transpose", "Trilu",
    "Unsqueeze", "Where", "Xor",
}  # fmt: skip
# Inputs that are sizes: these may follow from shapes and constants only.
SIZES = {
    "ConstantOfShape": (0,),
    "Expand": (1,),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "Unsqueeze": (1,),
    **{name: (1,) for name in OPERATORS if name.startswith("Reduce")},
}
MOST_ROWS = 1 << 14
MOST_NODES = 10_000
MOST_NUMBERS = 1 << 28  # in all values of a call: 1 GB of float32
MOST_STEPS = 1 << 42  # multiplications of a call, about a minute of a core
TOLERANCE = 1e-4  # of the largest logit: what the rounding of other rows may change


class Refused(ValueError):
    """A graph that is not run.

    Attributes:
        got: What was found.
        expected: What was expected.
    """

    def __init__(self, got: str, expected: str = EXPECTED) -> None:
        super().__init__(got)
        self.got, self.expected = " ".join(got.split()), expected


def read_graph(content: bytes) -> Any:
    """Read a graph with its weights.

    Raises:
        Refused: It cannot be read, or holds more than the arithmetic of a network.
    """
    import onnx

    try:
        model = onnx.load_from_string(content)
    except Exception as error:  # an error class of protobuf, which is no direct dependency
        raise Refused(str(error)) from error
    for tensor in _tensors(model.graph):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise Refused(f"weights {tensor.name!r} in another file", "all weights in the graph")
    domains = [one.domain or "ai.onnx" for one in model.opset_import]
    if len(set(domains)) < len(domains):
        raise Refused(f"operator sets {', '.join(domains)}", "each set once")
    nodes = model.graph.node
    foreign = sorted({_name(node) for node in nodes} - OPERATORS)
    if foreign or model.functions or model.graph.sparse_initializer:
        got = f"operators {', '.join(foreign[:5])}" if foreign else "functions or sparse weights"
        raise Refused(got, "the operators of a feed-forward network (docs/trace.md)")
    if len(nodes) > MOST_NODES:
        raise Refused(f"{len(nodes):,} operators", f"at most {MOST_NODES:,}")
    ends = [*model.graph.input, *model.graph.output]
    kinds = [one.type.tensor_type for one in ends]
    if (
        len(model.graph.input) != 1
        or len(model.graph.output) != 1
        or any(
            kind.elem_type != onnx.TensorProto.FLOAT or len(kind.shape.dim) != 2 for kind in kinds
        )
    ):
        raise Refused(f"inputs and outputs {', '.join(one.name for one in ends) or 'missing'}")
    return model


def rows_of(model: Any, usual: int) -> int:
    """Return the rows of a call: those that a graph asks for, else the usual number.

    Raises:
        Refused: It asks for none, or for too many.
    """
    dimension = model.graph.input[0].type.tensor_type.shape.dim[0]
    rows = dimension.dim_value if dimension.HasField("dim_value") else usual
    if not 1 <= rows <= MOST_ROWS:
        raise Refused(f"a call of {rows:,} rows", f"1 to {MOST_ROWS:,} rows, or any number")
    return rows


def check_sizes(model: Any, rows: int, width: int) -> None:
    """Bound the memory and work of a call, from the sizes of all values.

    Args:
        model: The graph; the sizes of its input are set.
        rows: Rows of a call.
        width: Numbers of a row.

    Raises:
        Refused: A size depends on the numbers of a row, or the call would be too large.
    """
    import onnx

    graph = model.graph
    dimensions = graph.input[0].type.tensor_type.shape.dim
    for dimension, size in zip(dimensions, (rows, width), strict=True):
        if dimension.HasField("dim_value") and dimension.dim_value != size:
            raise Refused(f"a width of {dimension.dim_value}", f"{width}, as in the trace")
        dimension.dim_value = size
    of_rows = {graph.input[0].name}
    for node in graph.node:
        sizes = [node.input[k] for k in SIZES.get(node.op_type, ()) if k < len(node.input)]
        if of_rows & set(sizes):
            raise Refused(f"a {node.op_type} whose size depends on the rows", "fixed sizes")
        if node.op_type not in ("Shape", "Size") and of_rows & set(node.input):
            of_rows.update(node.output)
    try:
        found = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph
    except Exception as error:  # onnx has no common base class for its errors
        raise Refused(str(error)) from error
    shapes = {
        one.name: [
            size.dim_value if size.HasField("dim_value") else -1
            for size in one.type.tensor_type.shape.dim
        ]
        for one in (*found.value_info, *found.input, *found.output)
    } | {one.name: list(one.dims) for one in graph.initializer}
    numbers = steps = 0
    for node in graph.node:
        for name in filter(None, node.output):
            size = shapes.get(name)
            if size is None or min(size, default=1) < 0:
                raise Refused(f"a {node.op_type} of unknown size", "sizes that follow from n")
            numbers += prod(size)
            if node.op_type in ("MatMul", "Gemm"):
                steps += prod(size) * max(shapes.get(node.input[0], [1])[-2:], default=1)
    if numbers > MOST_NUMBERS or steps > MOST_STEPS:
        got = f"{numbers:.2g} numbers and {steps:.2g} multiplications in a call of {rows} rows"
        raise Refused(got, f"at most {MOST_NUMBERS:.2g} and {MOST_STEPS:.2g}")


def session_of(model: Any) -> Any:
    """Return a session of onnxruntime.

    Raises:
        Refused: onnxruntime cannot run the graph.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # One thread per call, because calls run in parallel. Severity 4 logs fatal errors only; others
    # are raised.
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = 1, 1, 4
    try:
        return onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # onnxruntime has no common base class for its errors
        raise Refused(str(error)) from error


def run(session: Any, part: np.ndarray) -> np.ndarray:
    """Run a graph.

    Raises:
        Refused: onnxruntime cannot run it, or it returns other rows.
    """
    try:
        (logits,) = session.run(None, {session.get_inputs()[0].name: part})
    except Exception as error:
        raise Refused(str(error)) from error
    if logits.ndim != 2 or len(logits) != len(part):
        raise Refused(f"logits of shape {logits.shape} from {len(part)} rows")
    return logits


def check_rows(session: Any, rows: int, width: int) -> None:
    """Check that the logits of a row depend on that row only.

    The numbers of any two rows differ in some bit. So for each bit, the rows that have it change
    and the others stay; then the other way round.

    Raises:
        Refused: The logits of a row that stays change, or are not finite.
    """
    keys = stream_keys(0, "rows of a graph", np.arange(2 * rows))
    drawn = 4.0 * uniform(keys[:, None], np.arange(width)) - 2.0
    first, second = drawn.astype(np.float32).reshape(2, rows, width)
    usual = run(session, first)
    if not np.isfinite(usual).all():
        raise Refused("logits that are no finite numbers", "finite logits for any numbers")
    limit = TOLERANCE * max(float(np.abs(usual).max(initial=0.0)), 1e-6)
    for bit in range((rows - 1).bit_length()):
        for side in (0, 1):
            stays = (np.arange(rows) >> bit & 1) == side
            changed = run(session, np.where(stays[:, None], first, second))
            if not (np.abs(changed - usual)[stays] <= limit).all():
                raise Refused("logits of a row that depend on other rows", "each row by itself")


def _name(node: Any) -> str:
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


def _tensors(graph: Any) -> Iterator[Any]:
    """Yield every tensor of a graph, also those of its attributes and inner graphs."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            yield attribute.t
            yield from attribute.tensors
            for inner in (attribute.g, *attribute.graphs):
                yield from _tensors(inner)
