"""What no experiment's answer may depend on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from attnaudit.core.errors import InputError, TraceError
from attnaudit.experiments import EXPERIMENTS, audit
from attnaudit.results import Results
from attnaudit.trace import Trace, write_shards
from attnaudit.trace.tails import TanhTail
from tests.threads import two_threads
from tests.traces import make_trace

SETTINGS = {"adversary": {"method": "relaxed", "steps": 15}}
CASES = [(name, {}) for name in EXPERIMENTS if name != "joint"] + [
    ("adversary", SETTINGS)
]  # joint: rows of several heads, test_joint.py


@pytest.fixture(scope="module")
def trace() -> Trace:
    return make_trace(60, (1, 20), seed=9, importance=("rollout", "norm"))


def one(trace: Trace | Path, name: str, settings: dict) -> tuple[pl.DataFrame, pl.DataFrame]:
    if isinstance(trace, Trace) and name == "alignment" and not trace.has("query"):
        trace = of_translator(trace)
    result = audit(trace, [name], settings)[name]
    return result.table, result.summary


def of_translator(trace: Trace) -> Trace:
    """The same rows as the gold tokens of a translator, each the first of its pair."""
    table = trace.table.with_columns(pl.lit(0, pl.Int32).alias("query"))
    return Trace(
        table, trace.metadata | {"corpus": {"name": "random", "task": "translation"}}, trace.tail
    )


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_the_order_of_rows(trace: Trace, name: str, settings: dict):
    order = np.random.default_rng(0).permutation(len(trace))
    table, summary = one(trace, name, settings)
    shuffled, other = one(trace.take(order), name, settings)
    assert shuffled.equals(table[order])
    for column in ("value", "low", "high", "std"):
        np.testing.assert_allclose(
            other[column].cast(pl.Float64), summary[column].cast(pl.Float64), rtol=1e-12
        )


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_sharding(tmp_path: Path, trace: Trace, name: str, settings: dict):
    trace = of_translator(trace) if name == "alignment" else trace
    write_shards(
        tmp_path, [trace.take(np.arange(start, min(start + 23, 60))) for start in range(0, 60, 23)]
    )
    assert len(list(tmp_path.glob("*.parquet"))) == 3
    for whole, sharded in zip(
        one(trace, name, settings), one(tmp_path, name, settings), strict=True
    ):
        assert sharded.equals(whole)


@pytest.fixture(scope="module")
def saved(trace: Trace, tmp_path_factory: pytest.TempPathFactory) -> tuple[Results, Path]:
    """All experiments on the trace at once, and their tables in a folder, of small row groups."""
    results, folder = audit(trace), tmp_path_factory.mktemp("saved")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attnaudit.results.table.ROW_GROUP", 7)
        results.save(folder)
    return results, folder / "results"


@pytest.mark.parametrize("piece", [1, 3000, 1 << 30])
def test_a_file_in_pieces_and_tables_on_disk(
    tmp_path: Path,
    trace: Trace,
    saved: tuple[Results, Path],
    piece: int,
    monkeypatch: pytest.MonkeyPatch,
):
    """One file read a row, some rows, or all rows at a time, its tables written as they come: the same tables, byte for byte."""
    trace.write(tmp_path / "trace")
    monkeypatch.setattr("attnaudit.trace.files.PIECE", piece)
    monkeypatch.setattr("attnaudit.results.table.ROW_GROUP", 7)
    told: list[str] = []
    results = audit(
        tmp_path / "trace",
        folder=tmp_path / "streamed",
        progress=lambda what, done, total: told.append(what),
    )
    pieces = told.count("audit: prediction")
    assert (
        pieces
        == len(list(Trace.shards(tmp_path / "trace")))
        == {1: 60, 1 << 30: 1}.get(piece, pieces)
    )
    whole, folder = saved
    assert list(results) == list(whole)
    for name, result in whole.items():
        assert results[name].table.equals(result.table)
        assert results[name].summary.equals(result.summary)
        assert (tmp_path / "streamed" / f"{name}.parquet").read_bytes() == (
            folder / f"{name}.parquet"
        ).read_bytes()


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_the_number_of_threads(trace: Trace, name: str, settings: dict):
    alone = one(trace, name, settings)
    with two_threads():
        whole = one(trace, name, settings)
    assert all(a.equals(b) for a, b in zip(whole, alone, strict=True))


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name != "joint"])
def test_a_row_per_trace_row_with_its_keys_first(trace: Trace, name: str):
    table, _ = one(trace, name, {})
    expected = ["split", "instance", *(["query"] if name == "alignment" else []), "predicted"]
    assert table.columns[: len(expected)] == expected
    assert table["instance"].to_list() == trace.instance.tolist()


def test_an_experiment_whose_columns_are_missing_is_left_out_and_named():
    trace = make_trace(10, gradient=False, rationale=False)
    results = audit(trace)
    assert list(results) == [
        "prediction", "permutation", "maximal_change", "adversary", "ranges", "identifiability", "erasure", "comprehensiveness",
    ]  # fmt: skip
    assert results.left_out == {
        "correlation": "the trace has no column gradient",
        "plausibility": "the trace has no column rationale",
        "agreement": "for traces with several importance scores only, 2 columns importance_<name> or more",
        "alignment": "for traces of translations with reference alignments only",
        "joint": "for traces of several heads only",
    }
    with pytest.raises(TraceError, match="correlation: the trace has no column gradient"):
        audit(trace, ["correlation"])


def test_unknown_names_are_answered_with_the_nearest():
    with pytest.raises(InputError, match="did you mean adversary"):
        audit(make_trace(3), ["adversery"])
    with pytest.raises(InputError, match="did you mean epsilon"):
        audit(make_trace(3), settings={"adversary": {"epsilom": 0.1}})


def test_a_row_by_itself_is_the_row_among_others_behind_a_tail(tmp_path: Path):
    names, every = (
        ["permutation", "adversary", "ranges", "erasure", "maximal_change", "identifiability"],
        {"ranges": {"share": 1.0}},
    )
    trace = make_trace(8, (2, 6), 3, seed=5, hidden=6)
    whole = audit(trace, names, every)
    write_shards(tmp_path, [trace.take(np.array([row])) for row in range(len(trace))])
    apart = audit(tmp_path, names, every)
    assert list(apart) == names
    for name in names:
        assert apart[name].table.equals(whole[name].table), name


def with_classes_reversed(trace: Trace) -> Trace:
    """The same rows with their classes in the opposite order."""
    readout, tail = trace.readout, trace.tail
    contribution, offset = readout.contribution.values, readout.offset
    if isinstance(tail, TanhTail):
        tail = TanhTail(tail.weight[::-1], tail.bias[::-1])
    else:
        contribution, offset = contribution[:, ::-1], offset[:, ::-1]
    return Trace.from_arrays(
        activation="softmax", class_names=trace.class_names[::-1], tail=tail, instance=trace.instance,
        tokens=[trace.tokens(row) for row in range(len(trace))], alpha=trace.ragged("alpha"),
        readout=readout.contribution.with_values(contribution), offset=offset, prediction=readout(trace.alpha)[:, ::-1],
        candidates=None if trace.candidates is None else trace.candidates[:, ::-1].tolist(),
    )  # fmt: skip


@pytest.mark.parametrize("hidden", [None, 6])
@pytest.mark.parametrize("name", ["permutation", "erasure"])
def test_the_order_of_the_classes(name: str, hidden: int | None):
    """Of several smallest sets that flip the decision it may select another, which has another attention."""
    trace = make_trace(150, (6, 14), 5, seed=6, hidden=hidden, candidates=True)
    (table, _), (other, _) = one(trace, name, {}), one(with_classes_reversed(trace), name, {})
    np.testing.assert_array_equal(other["predicted"], table["predicted"])
    for column in table.select(
        pl.selectors.float() - pl.selectors.by_name("mass_minimum", require_all=False)
    ).columns:
        np.testing.assert_allclose(
            other[column].cast(pl.Float64),
            table[column].cast(pl.Float64),
            atol=1e-9,
            err_msg=column,
        )
