"""Stored tails that nobody should run: each is refused in one line, in bounded time, without reading another file."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from attnaudit.core import TraceError
from attnaudit.trace.graphs import OPERATORS
from attnaudit.trace.tails import GRAPH_FILE, GraphTail

WIDTH, OUTPUTS = 4, 2
WEIGHT = np.random.default_rng(0).normal(size=(WIDTH, OUTPUTS)).astype(np.float32)
node = helper.make_node


def constant(name, values):
    return node("Constant", [], [name], value=numpy_helper.from_array(np.array(values), name))


def product(pooled="pooled", logits="logits"):
    return node("MatMul", [pooled, "weight"], [logits])


def tail_of(
    folder, *nodes, rows="n", width=WIDTH, outputs=OUTPUTS, kind=TensorProto.FLOAT, change=None
):
    """A tail in a file, whose nodes lead from ``pooled`` to ``logits``."""
    ends = [
        [helper.make_tensor_value_info(name, kind, [rows, size])]
        for name, size in (("pooled", width), ("logits", outputs))
    ]
    held = [numpy_helper.from_array(WEIGHT, "weight")]
    graph = helper.make_graph(nodes or [product()], "tail", ends[0], ends[1], held)
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("org.example", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    if change is not None:
        change(model)
    (folder / GRAPH_FILE).write_bytes(model.SerializeToString())
    return GraphTail.of(folder / GRAPH_FILE)


def call(tail, width=WIDTH, n=3):
    return tail(np.ones((n, width)), np.arange(n))


def branch(*nodes):
    out = helper.make_tensor_value_info("logits_of_branch", TensorProto.FLOAT, None)
    return helper.make_graph([*nodes], "branch", [], [out])


def chosen(*nodes):
    """The nodes in the branches of an If."""
    condition = constant("yes", True)
    inner = branch(*nodes)
    return condition, node("If", ["yes"], ["logits"], then_branch=inner, else_branch=inner)


def move_out(tensor):
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights.bin")


def outside(model):
    move_out(model.graph.initializer[0])


def outside_of_constant(model):
    move_out(model.graph.node[0].attribute[0].t)


def twice(model):
    model.opset_import.add(domain="ai.onnx", version=18)


def loop():
    body = helper.make_graph(
        [node("Identity", ["go"], ["still"])],
        "body",
        [
            helper.make_tensor_value_info("k", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info("still", TensorProto.BOOL, [])],
    )
    return (
        constant("times", 10**12),
        constant("yes", True),
        node("Loop", ["times", "yes"], [], body=body),
        product(),
    )


def sum_of_rows():
    return (
        constant("axis", [0]),
        node("ReduceMean", ["pooled", "axis"], ["mean"], keepdims=1),
        node("Sub", ["pooled", "mean"], ["x"]),
        product("x"),
    )


def previous_row():
    return (
        constant("end", [-1]),
        constant("start", [0]),
        constant("axis", [0]),
        node("Slice", ["pooled", "start", "end", "axis"], ["rest"]),
        constant("first", [[0.0] * WIDTH]),
        node("Cast", ["first"], ["zero"], to=TensorProto.FLOAT),
        node("Concat", ["zero", "rest"], ["x"], axis=0),
        product("x"),
    )


def as_many_as_it_says():
    return (
        constant("axes", [0, 1]),
        node("ReduceMax", ["pooled", "axes"], ["most"], keepdims=0),
        constant("two", [2]),
        node("Cast", ["most"], ["size"], to=TensorProto.INT64),
        node("Expand", ["size", "two"], ["sizes"]),
        node("ConstantOfShape", ["sizes"], ["zeros"]),
        product(),
    )


def gigabytes():
    return constant("size", [40_000, 40_000]), node("ConstantOfShape", ["size"], ["x"]), product()


def endless():
    big = [constant("size", [16_000, 16_000]), node("ConstantOfShape", ["size"], ["x0"])]
    return *big, *(node("MatMul", ["x0", f"x{k}"], [f"x{k + 1}"]) for k in range(30)), product()


KINDS = {
    "weights in another file": ({"change": outside}, "in another file"),
    "a constant in another file": (
        {"nodes": (constant("unused", [1.0]), product()), "change": outside_of_constant},
        "in another file",
    ),
    "operator sets twice": ({"change": twice}, "operator sets ai.onnx, org.example, ai.onnx;"),
    "a branch": ({"nodes": chosen(product(logits="logits_of_branch"))}, "operators If;"),
    "a loop": ({"nodes": loop()}, "operators Loop;"),
    "another domain": (
        {"nodes": (node("Run", ["pooled"], ["logits"], domain="org.example"),)},
        "operators org.example.Run;",
    ),
    "random numbers": (
        {"nodes": (node("RandomNormalLike", ["pooled"], ["x"]), product("x"))},
        "operators RandomNormalLike;",
    ),
    "gigabytes": ({"nodes": gigabytes()}, "1.6e+09 numbers"),
    "endless": ({"nodes": endless()}, "multiplications in a call"),
    "sizes by the rows": ({"nodes": as_many_as_it_says()}, "whose size depends on the rows"),
    "no rows": ({"rows": 0}, "a call of 0 rows"),
    "many rows": ({"rows": 10**9}, "a call of 1,000,000,000 rows"),
    "negative rows": ({"rows": -5}, "a call of -5 rows"),
    "another width": ({"width": WIDTH + 1}, "a width of 5; expected 4, as in the trace"),
    "whole numbers": ({"kind": TensorProto.INT64}, "inputs and outputs pooled, logits; expected a graph from pooled"),
    "no numbers": (
        {"nodes": (node("Sub", ["pooled", "pooled"], ["x"]), node("Div", ["x", "x"], ["z"]), product("z"))},
        "logits that are no finite numbers",
    ),
    "a sum of rows": ({"nodes": sum_of_rows()}, "logits of a row that depend on other rows"),
    "the row before": ({"nodes": previous_row()}, "logits of a row that depend on other rows"),
    "the row before, fixed": (
        {"nodes": previous_row(), "rows": 8},
        "logits of a row that depend on other rows",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_graph_that_should_not_run_is_refused_in_a_line(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights.bin").write_bytes(WEIGHT.tobytes())
    options, message = KINDS[kind]
    options = dict(options)
    with pytest.raises(TraceError) as refusal:
        call(tail_of(tmp_path, *options.pop("nodes", ()), **options))
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert GRAPH_FILE in str(refusal.value)


@pytest.mark.parametrize("rows", ["n", 1, 8])
def test_rows_by_themselves_pass_with_any_size_of_calls(tmp_path, rows):
    given = np.random.default_rng(1).normal(size=(11, WIDTH)).astype(np.float32)
    logits = tail_of(tmp_path, rows=rows)(given, np.arange(11))
    assert logits == pytest.approx(given.astype(float) @ WEIGHT, abs=1e-5)


def test_bytes_that_are_no_graph_are_refused(tmp_path):
    for content in (b"", b"not a graph", b"\x00" * 100, tail_of(tmp_path).path.read_bytes()[:-7]):
        (tmp_path / GRAPH_FILE).write_bytes(content)
        with pytest.raises(TraceError):
            call(GraphTail.of(tmp_path / GRAPH_FILE))


def logits_or_line(tail):
    try:
        return call(tail)
    except TraceError as error:
        return str(error)


OTHERS = ("If", "Loop", "Scan", "RandomNormal", "Bernoulli", "Dropout", "NonZero", "StringConcat", "Unknown")  # fmt: skip
ATTRIBUTES = st.dictionaries(
    st.sampled_from(["axis", "alpha", "to", "perm", "keepdims", "value_float"]),
    st.integers(-3, 20) | st.floats(width=32, allow_nan=False) | st.lists(st.integers(-2, 3), min_size=1, max_size=3),
    max_size=2,
)  # fmt: skip


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.data())
def test_any_graph_gives_the_logits_of_rows_or_a_line(tmp_path_factory, data):
    draw, nodes, names = data.draw, [], ["pooled", "weight"]
    for k in range(draw(st.integers(1, 4))):
        operator = draw(st.sampled_from([*sorted(OPERATORS), *OTHERS]))
        inputs = draw(st.lists(st.sampled_from(names), max_size=3))
        nodes.append(node(operator, inputs, [f"x{k}"], **draw(ATTRIBUTES)))
        names.append(f"x{k}")
    last = product(draw(st.sampled_from(names)))
    rows = draw(st.sampled_from(["n", 0, 1, 5, 10**12, -1]))
    tail = tail_of(tmp_path_factory.mktemp("graph"), *nodes, last, rows=rows)
    found = logits_or_line(tail)
    assert "\n" not in found if isinstance(found, str) else found.shape == (3, OUTPUTS)


def test_the_operators_exist():
    schemas = {one.name for one in onnx.defs.get_all_schemas() if one.domain == ""}
    assert schemas >= OPERATORS - {"Mish", "RMSNormalization", "Swish"}  # newer than some versions
