"""A graph where one head is replaced gives what the whole graph gives, whatever the other rows, and only graphs that allow it are cut."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from attnaudit.core.ragged import Ragged
from attnaudit.trace.graph import GraphTail
from attnaudit.trace.head_graph import GROUP
from attnaudit.trace.readout import Readout

HEADS, WIDTH, INNER, OUTER, ROWS = 3, 4, 5, 7, 2 * GROUP
TAKEN = HEADS * WIDTH + INNER


def graph_of(path: Path, behind: str = "normal", before: str = "Identity") -> GraphTail:
    """pooled → projection and what was there → normalisation → feed-forward with what was normalised → three logits."""
    rng = np.random.default_rng(0)
    shapes = {
        "project": (HEADS * WIDTH, INNER),
        "gain": (INNER,),
        "shift": (INNER,),
        "up": (INNER, OUTER),
        "down": (OUTER, INNER),
    }
    weights = {
        name: rng.normal(size=shape).astype(np.float32)
        for name, shape in {**shapes, "out": (INNER, 3), "bias": (OUTER,)}.items()
    }
    weights |= {
        "zero": np.array([0]),
        "split": np.array([HEADS * WIDTH]),
        "end": np.array([TAKEN]),
        "one": np.array([1]),
    }
    nodes = [
        helper.make_node("Slice", ["pooled", "zero", "split", "one"], ["sums"]),
        helper.make_node("Slice", ["pooled", "split", "end", "one"], ["hidden"]),
        helper.make_node(before, ["sums"], ["made"]),
        helper.make_node("MatMul", ["made", "project"], ["projected"]),
        helper.make_node("Add", ["projected", "hidden"], ["added"]),
        helper.make_node(
            "LayerNormalization", ["added", "gain", "shift"], ["normal"], axis=-1, epsilon=1e-5
        ),
        helper.make_node("MatMul", ["normal", "up"], ["product"]),
        helper.make_node("Add", ["product", "bias"], ["inner"]),
        helper.make_node("Tanh", ["inner"], ["active"]),
        helper.make_node("MatMul", ["active", "down"], ["fed"]),
        helper.make_node("Add", ["fed", behind], ["sum"]),
        helper.make_node("MatMul", ["sum", "out"], ["logits"]),
    ]
    stored = [numpy_helper.from_array(values, name) for name, values in weights.items()]
    pooled, logits = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [ROWS, number])
        for name, number in (("pooled", TAKEN), ("logits", 3))
    )
    known = [helper.make_tensor_value_info("added", TensorProto.FLOAT, [ROWS, INNER])]
    graph = helper.make_graph(nodes, "tail", [pooled], [logits], stored, value_info=known)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10),
        str(path),
    )
    return GraphTail.of(path)


def readout_of(tail: GraphTail, texts: int = 4) -> Readout:
    """A row for each head of some texts; the offset of a row has the sums of the other heads."""
    rng, rows = np.random.default_rng(1), texts * HEADS
    start = WIDTH * (np.arange(rows) % HEADS)
    offset = rng.normal(size=(rows, TAKEN))
    offset[np.arange(rows)[:, None], start[:, None] + np.arange(WIDTH)] = 0.0
    lengths = rng.integers(2, 6, rows)
    contribution = Ragged.from_lengths(3.0 * rng.normal(size=(int(lengths.sum()), WIDTH)), lengths)
    return Readout(contribution, offset, "softmax", tail, start=start)


def drawn(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Sums, and the row of each."""
    rng = np.random.default_rng(2)
    return 3.0 * rng.normal(size=(number, WIDTH)), rng.integers(4 * HEADS, size=number)


@pytest.mark.parametrize("behind", ["normal", "added"])
def test_one_replaced_head_gives_what_the_whole_graph_gives(behind: str, tmp_path: Path) -> None:
    readout = readout_of(graph_of(tmp_path / "tail.onnx", behind))
    sums, rows = drawn(300)
    pooled = readout.offset[rows]
    assert readout.start is not None
    pooled[np.arange(300)[:, None], readout.start[rows, None] + np.arange(WIDTH)] += sums
    logits = readout.tail(pooled)
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert readout.by_head is not None
    assert np.abs(readout.of_sums(sums, rows) - expected).max() < 2e-6
    assert expected.std(axis=0).max() > 0.1


@pytest.mark.parametrize(("behind", "before"), [("normal", "Identity"), ("hidden", "Tanh")])
def test_a_part_of_the_positions_gives_what_all_give(
    behind: str, before: str, tmp_path: Path
) -> None:
    """The others hold their weights, whether the graph is cut at the head or not."""
    readout = readout_of(graph_of(tmp_path / "tail.onnx", behind, before))
    rng = np.random.default_rng(3)
    alpha, other = (
        readout.contribution.with_values(rng.random(len(readout.contribution.values)))
        for _ in range(2)
    )
    part = rng.random(len(alpha.values)) < 0.5
    of_part, own = readout.of_part(alpha, part)
    expected = readout(alpha.with_values(np.where(part, other.values, alpha.values)))
    assert np.abs(of_part(other.where(part)) - expected).max() < 2e-6
    assert np.abs(of_part(own) - readout(alpha)).max() < 2e-6
    sums = other.where(part)
    sums = sums.with_values(sums.values[:, None] * of_part.contribution.values).sum()
    assert np.abs(of_part.of_sums(sums, np.arange(len(alpha))) - expected).max() < 2e-6


def test_predictions_do_not_depend_on_the_other_rows(tmp_path: Path) -> None:
    readout = readout_of(graph_of(tmp_path / "tail.onnx"))
    sums, rows = drawn(150)
    every = readout.of_sums(sums, rows)
    assert np.array_equal(readout.of_sums(sums[::-7], rows[::-7]), every[::-7])
    assert np.array_equal(readout.of_sums(sums[:1], rows[:1]), every[:1])
    assert readout.of_sums(sums[:0], rows[:0]).shape == (0, 3)


@pytest.mark.parametrize(("behind", "before"), [("hidden", "Identity"), ("normal", "Tanh")])
def test_a_graph_that_needs_more_than_is_added_up_is_computed_whole(
    behind: str, before: str, tmp_path: Path
) -> None:
    readout = readout_of(graph_of(tmp_path / "tail.onnx", behind, before))
    assert readout.by_head is None
    sums, rows = drawn(5)
    assert readout.of_sums(sums, rows).shape == (5, 3)
