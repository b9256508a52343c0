"""The trace format: what is written comes back, what other programs write is read, what breaks the schema is refused by row."""

import json
import math
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.special import expit, softmax

from attnaudit.core import TraceError
from attnaudit.core.ragged import Ragged
from attnaudit.experiments import audit
from attnaudit.trace import COLUMNS, LinearTail, TanhTail, Trace, concatenate, write_shards
from attnaudit.trace.files import METADATA_KEY
from attnaudit.trace.readout import readout_of
from attnaudit.trace.schema import column_of
from tests.oracles.readout import naive_prediction
from tests.trace.test_faults import put, refused
from tests.traces import make_trace, trace_of, with_columns

DOCS = Path(__file__).parents[2] / "docs/trace.md"


def files(folder):
    return sorted(file.name for file in folder.iterdir())


@pytest.mark.parametrize(("outputs", "hidden"), [(1, None), (2, None), (5, None), (3, 7)])
def test_what_is_written_comes_back(tmp_path, outputs, hidden):
    trace = make_trace(
        30, (1, 12), outputs, seed=1, hidden=hidden, importance=("ig",), candidates=outputs > 2
    )
    path = trace.write(tmp_path / "trace")
    assert files(path.parent) == ["part-00000.parquet", *(["tail.safetensors"] if hidden else [])]
    for source in (tmp_path, path.parent, path):
        again = Trace.read(source)
        assert again.table.equals(trace.table)
        assert again.metadata == trace.metadata
        np.testing.assert_array_equal(again.readout(again.alpha), trace.readout(trace.alpha))


@pytest.mark.parametrize("hidden", [None, 7])
def test_a_trace_replaces_one_that_is_there(tmp_path, hidden):
    write_shards(
        tmp_path,
        [make_trace(5, outputs=3, hidden=5, first_instance=5 * shard) for shard in range(3)],
    )
    trace = make_trace(9, outputs=3, hidden=hidden)
    trace.write(tmp_path)
    assert files(tmp_path) == ["part-00000.parquet", *(["tail.safetensors"] if hidden else [])]
    assert Trace.read(tmp_path).table.equals(trace.table)


def test_shards_are_the_whole_in_order(tmp_path):
    trace = make_trace(25, (1, 9), seed=2, importance=("ig",))
    paths = write_shards(
        tmp_path, (trace.take(np.arange(start, min(start + 10, 25))) for start in range(0, 25, 10))
    )
    assert [path.name for path in paths] == [f"part-0000{shard}.parquet" for shard in range(3)]
    assert [len(shard) for shard in Trace.shards(tmp_path)] == [10, 10, 5]
    whole = Trace.read(tmp_path)
    assert whole.table.equals(trace.table)
    assert whole.metadata == trace.metadata
    assert concatenate(
        [trace.take(np.array([3, 1])), trace.take(np.array([0]))]
    ).instance.tolist() == [3, 1, 0]


@pytest.mark.parametrize(("outputs", "hidden"), [(1, None), (4, None), (3, 6)])
def test_the_readout_is_the_loop_over_positions(outputs, hidden):
    trace = make_trace(20, (1, 9), outputs, seed=3, hidden=hidden, candidates=outputs > 1)
    found = trace.readout(trace.alpha)
    for row, alpha in enumerate(trace.alpha):
        np.testing.assert_allclose(found[row], naive_prediction(trace, row, alpha), atol=1e-12)


def test_the_schema_is_the_first_that_has_all_of_a_trace(tmp_path):
    """So that programs that read version 1 read every trace that needs no more."""
    for hidden in (None, 4):
        assert make_trace(3, hidden=hidden).metadata["schema"] == 1
    made = Trace.from_arrays(
        activation="sigmoid", class_names=["a", "b"], instance=[0], tokens=[["[CLS]", "b"]], alpha=[[0.5, 0.5]], readout=[[[0.0], [0.0]]],
        offset=[[0.0]], prediction=[[0.5]], special=[[True, False]],
    )  # fmt: skip
    made.write(tmp_path)
    assert made.metadata["schema"] == Trace.read(tmp_path).metadata["schema"] == 2


def test_null_labels_and_rationales(tmp_path):
    trace = make_trace(3, [2, 3, 1], seed=5)
    (zero, _, two), (_, *rationale) = (
        trace.table[name].to_list() for name in ("label", "rationale")
    )
    trace = with_columns(trace, label=[zero, None, two], rationale=[None, *rationale])
    trace.checked("test").write(tmp_path)
    again = Trace.read(tmp_path)
    assert again.array("label")[1] == -1
    assert again.ragged("rationale").lengths.tolist() == [0, 3, 1]


WIDE = {
    "alpha": pa.large_list(pa.float64()), "readout": pa.large_list(pa.large_list(pa.float64())),
    "tokens": pa.large_list(pa.large_string()), "offset": pa.large_list(pa.float32()),
    "prediction": pa.list_(pa.float64(), 3), "instance": pa.uint16(), "label": pa.int64(),
}  # fmt: skip


@pytest.mark.parametrize("types", [{}, WIDE], ids=["lists as pyarrow makes them", "large lists"])
def test_a_trace_of_another_program_is_read(tmp_path, types):
    trace = make_trace(12, (1, 9), 3, seed=6, importance=("ig", "lime"), candidates=True)
    columns = trace.table.to_dict(as_series=False).items()
    put(tmp_path, pa.table({name: pa.array(rows, types.get(name)) for name, rows in columns}))
    for source in (tmp_path, tmp_path / "a.parquet"):
        again = Trace.read(source)
        assert again.table.equals(trace.table)
        assert again.class_names == ["0", "1", "2"]
    assert list(audit(again, ["permutation"])) == ["permutation"]


def test_further_columns_are_kept(tmp_path):
    trace = make_trace(4, seed=9)
    scores = [[0.5, math.inf], [], None, [1.0]]
    with_columns(trace, note=["a", "b", None, "d"], scores=scores).write(tmp_path)
    assert Trace.read(tmp_path).table["note"].to_list() == ["a", "b", None, "d"]
    assert Trace.read(tmp_path).table["scores"].to_list() == scores


def test_the_same_checks_stand_before_writing(tmp_path):
    trace = make_trace(4, [3] * 4, seed=12)
    with pytest.raises(TraceError, match="column alpha"):
        with_columns(trace, alpha=[[0.9, 0.9, 0.9]] * 4).write(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("second", "part"),
    [
        (
            make_trace(3, outputs=2),
            "activation softmax; expected activation sigmoid, as in part-00000.parquet",
        ),
        (
            make_trace(3, class_names=["yes", "no"]),
            "class names yes, no; expected class names no, yes",
        ),
        (
            make_trace(3, hidden=4, class_names=["no", "yes"]),
            "tail tanh_mlp; expected tail identity",
        ),
        (make_trace(3, label=False, class_names=["no", "yes"]), "columns alpha, gradient"),
    ],
)
def test_shards_are_of_one_model(tmp_path, second, part):
    make_trace(3, class_names=["no", "yes"]).write(tmp_path)
    second.write(tmp_path / "other").rename(tmp_path / "part-00001.parquet")
    if (tail := tmp_path / "other/tail.safetensors").exists():
        tail.rename(tmp_path / "tail.safetensors")
    refused(tmp_path, "part-00001.parquet", part)


def test_places_without_a_trace(tmp_path):
    refused(tmp_path, "no .parquet file there")
    refused(tmp_path / "absent", "no such file or folder")
    pq.write_table(
        pa.table(make_trace(3).table.to_dict(as_series=False)), tmp_path / "plain.parquet"
    )
    refused(tmp_path, "plain.parquet", "no metadata key")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and nothing more")
    refused(tmp_path, "broken.parquet")


def test_no_row_is_refused():
    trace = make_trace(3)
    with pytest.raises(TraceError, match="no row"):
        Trace(trace.table.clear(), trace.metadata).checked("test")


def test_the_residual_is_the_largest_and_is_kept(tmp_path):
    trace = make_trace(10, seed=13)
    moved = trace.array("prediction").copy()
    moved[4, 0] += 5e-5 if moved[4, 0] < 0.5 else -5e-5
    table = trace.table.with_columns(pl.Series("prediction", moved))
    written = Trace(table, {**trace.metadata, "residual": 0.0}).write(tmp_path)
    assert Trace.read(tmp_path).metadata["residual"] == pytest.approx(5e-5, rel=0.02)
    claimed = json.dumps({**trace.metadata, "residual": "small"})
    pq.write_table(pq.read_table(written).replace_schema_metadata({METADATA_KEY: claimed}), written)
    assert Trace.read(tmp_path).metadata["residual"] == pytest.approx(5e-5, rel=0.02)


def _arrays():
    """Two rows of two and one positions."""
    alpha = [np.array([0.25, 0.75]), np.array([1.0])]
    readout = [np.array([[0.0], [2.0]]), np.array([[-1.0]])]
    prediction = 1 / (1 + np.exp(-np.array([[1.5], [-1.0]])))
    return {
        "instance": [4, 7], "tokens": [["a", "masterpiece"], ["dull"]], "alpha": alpha, "readout": readout, "offset": np.zeros((2, 1)),
        "prediction": prediction,
    }  # fmt: skip


def _of(**changed):
    return Trace.from_arrays(
        activation="sigmoid", class_names=["no", "yes"], **{**_arrays(), **changed}
    )


def test_arrays_may_come_as_lists_of_arrays_lists_or_ragged():
    arrays, trace = _arrays(), _of()
    ragged = _of(**{name: Ragged.from_rows(arrays[name]) for name in ("alpha", "readout")})
    lists = _of(
        **{
            name: [row.tolist() for row in arrays[name]]
            for name in ("alpha", "readout", "offset", "prediction")
        }
    )
    rows = _of(
        **{name: list(arrays[name]) for name in ("offset", "prediction")},
        instance=np.array([4, 7], np.int32),
    )
    assert trace.table.equals(ragged.table)
    assert trace.table.equals(lists.table)
    assert trace.table.equals(rows.table)
    assert trace.table.schema["alpha"] == pl.List(pl.Float32)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"offset": None}, "also offset"),
        ({"instance": [4]}, "column tokens: 2 rows; expected 1, as instance has"),
        ({"label": ["good", "bad"]}, "column label"),
        ({"instance": [4, 2**70]}, "column instance"),
        ({"alpha": [np.array([0.5, 0.5]), np.array([[1.0]])]}, "column alpha"),
        ({"readout": [np.array([0.0, 2.0]), np.array([-1.0])]}, "column readout"),
        ({"offset": np.zeros(2)}, "column offset"),
        ({"alpha": 3}, "column alpha"),
    ],
)
def test_arrays_that_make_no_trace_are_refused_in_one_line(changed, said):
    with pytest.raises(TraceError) as refused:
        _of(**changed)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


NAMES = {
    pl.Int64: "int64", pl.Int32: "int32", pl.Float32: "float32", pl.Float64: "float64", pl.String: "string",
    pl.Boolean: "bool",
}  # fmt: skip


def type_in_docs(kind, width):
    if isinstance(kind, pl.List):
        return f"list\\<{type_in_docs(kind.inner, width)}\\>"
    if isinstance(kind, pl.Array):
        return f"fixed_size_list\\<{type_in_docs(kind.inner, width)}\\>[{width}]"
    return next(name for known, name in NAMES.items() if kind == known)


@pytest.mark.parametrize("name", [*COLUMNS, "importance_<name>"])
def test_the_docs_have_the_columns_of_the_schema(name):
    column = column_of(name)
    assert column is not None
    kind = type_in_docs(column.type, "C" if name.endswith("prediction") else "P")
    length = " [T]" if column.per_position else " [C]" if name == "candidates" else ""
    marks = [
        "required" if column.required else "null allowed" if column.nullable else "",
        "schema 2" if column.since == 2 else "",
    ]
    line = f"| `{name}` | {', '.join([kind + length, *filter(None, marks)])} | {column.meaning} |"
    assert line in DOCS.read_text().splitlines()


def test_heads_of_one_query_stand_side_by_side_in_a_wide_offset():
    """As of a stored graph that takes all heads of a layer: each head has its own part of the sum."""
    rng = np.random.default_rng(0)
    alpha, parts = rng.dirichlet(np.ones(4), 3), rng.normal(size=(3, 4, 2))
    tail = TanhTail(rng.normal(size=(3, 6)), rng.normal(size=3))
    sums = np.einsum("ht,htp->hp", alpha, parts)
    others = np.where(np.eye(3, dtype=bool)[..., None], 0.0, sums).reshape(3, 6)
    kinds = {"readout": pl.List(pl.Array(pl.Float64, 2)), "offset": pl.Array(pl.Float64, 6)}
    columns = {"head": [0, 1, 2], "readout": parts.tolist(), "offset": others.tolist()}
    columns["prediction"] = [[1.0, 0.0, 0.0]] * 3
    readout = readout_of(pl.DataFrame(columns, schema_overrides=kinds), "softmax", tail)
    expected = softmax(tail.weight @ np.tanh(sums.ravel()) + tail.bias)
    found = readout(Ragged.from_rows([*alpha]))
    np.testing.assert_allclose(found, [expected] * 3, atol=1e-12)


@pytest.mark.parametrize("shape", [(1, 1), (3, 4)])
@pytest.mark.parametrize(("tail", "inner"), [(LinearTail, np.asarray), (TanhTail, np.tanh)])
def test_a_tail_that_is_read_again_is_its_formula(tmp_path, tail, inner, shape):
    rng = np.random.default_rng(1)
    weight, bias, parts = (
        rng.normal(size=size).astype(np.float32) for size in (shape, shape[:1], (3, shape[1]))
    )
    alpha = np.array([0.5, 0.25, 0.25])
    written = trace_of([alpha], parts, tail=tail(*(x.astype(float) for x in (weight, bias))))
    again = Trace.read(written.write(tmp_path))
    logits = weight @ inner(alpha @ parts) + bias
    expected = expit(logits) if len(logits) == 1 else softmax(logits)
    np.testing.assert_allclose(again.readout(again.alpha), [expected], atol=1e-6)
