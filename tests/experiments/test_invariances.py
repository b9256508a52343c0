"""What no experiment's answer may depend on."""

from dataclasses import replace
from functools import cache

import numpy as np
import polars as pl
import pytest

from attnaudit.core import TraceError
from attnaudit.experiments import EXPERIMENTS, audit, facts, make_experiment, refusal
from attnaudit.results import measure_of
from attnaudit.trace import TanhTail, Trace, write_shards
from tests.tails import layer_trace, opaque
from tests.threads import two_threads
from tests.traces import make_trace, trace_of, with_columns

SCORES = {"importance": ("rollout", "norm"), "copies": 20}
PIECES = {
    "class_evidence.NUMBERS": 400,
    "through_tail.NUMBERS": 400,
    "through_tail.OF_FORMULA": 100,
    "adversary.search.BLOCK": 20,
    "erasure.removal.NUMBERS": 400,
    "maximal_change.bounds.NUMBERS": 100,
    "shuffles.BLOCK": 300,
}


def of_translator(trace):
    """The same rows as the gold tokens of a translator, each the first of its pair."""
    corpus = {"corpus": {"name": "random", "task": "translation"}}
    found = with_columns(trace, query=np.zeros(len(trace), np.int32))
    return replace(found, metadata=trace.metadata | corpus)


TRACES = {
    "one sigmoid": make_trace(60, (1, 20), seed=9, zeros=0.05, **SCORES),
    "gold tokens": of_translator(make_trace(20, (1, 9), seed=9)),
    "several classes": make_trace(10, (1, 9), 4, seed=9, candidates=True, **SCORES),
    "a tanh tail": make_trace(8, (2, 7), 3, seed=5, hidden=6, **SCORES),
    "a network": opaque(make_trace(10, (1, 12), 3, seed=9, hidden=5, **SCORES)),
    "a layer": layer_trace(8, (1, 9), 3, seed=3),
}


def applies(kind, name):
    return kind != "gold tokens" if name != "alignment" else kind == "gold tokens"


CASES = [
    (kind, name)
    for kind, trace in TRACES.items()
    for name in EXPERIMENTS
    if applies(kind, name) and refusal(make_experiment(name), trace) is None
]


@cache
def whole(kind, name):
    return make_experiment(name)(TRACES[kind])


def assert_same(found, expected, kind, name):
    """To 1e-9; of a float32 network to the noise by which its outputs vary with the batch."""
    for column in expected.select(pl.selectors.float()).columns:
        tolerance = 2e-3 if kind == "a layer" else 1e-9
        differ = ~np.isclose(found[column], expected[column], atol=tolerance, equal_nan=True)
        # Of two ways that gain alike a climb takes one by the last digits.
        assert differ.sum() <= (kind == "a layer" and name == "adversary"), column


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_neither_order_nor_company_nor_threads_matter(kind, name):
    """To the last digit where the tail computes each row by itself; and the trace stays as it is."""
    trace, experiment = TRACES[kind], make_experiment(name)
    own, table = trace.alpha.values.copy(), whole(kind, name)
    np.testing.assert_array_equal(trace.alpha.values, own)
    keys = ["split", "instance", "predicted"]
    assert [column for column in table.columns if column in keys] == keys
    assert table["instance"].to_list() == trace.instance.tolist()
    order = np.random.default_rng(0).permutation(len(trace))
    with two_threads():
        parts = pl.concat(experiment(trace.take(rows)) for rows in np.split(order, [1, 5]))
    if kind == "a layer":
        assert_same(parts, table[order], kind, name)
        return
    assert parts.equals(table[order])
    one, other = (experiment.summarise(rows.lazy()) for rows in (table, parts))
    for column in ("value", "low", "high", "std"):
        numbers = (summary[column].cast(pl.Float64) for summary in (other, one))
        np.testing.assert_allclose(*numbers, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_calls_of_any_size_give_the_same(kind, name, monkeypatch):
    table = whole(kind, name)
    for constant, size in PIECES.items():
        monkeypatch.setattr(f"attnaudit.experiments.{constant}", size)
    assert_same(make_experiment(name)(TRACES[kind]), table, kind, name)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """All experiments on a trace at once, and their tables in a folder, of small row groups."""
    results, folder = audit(TRACES["one sigmoid"]), tmp_path_factory.mktemp("saved")
    known = results.summary.drop_nulls("value")
    without = known.filter(pl.col("low").is_null() | pl.col("high").is_null())
    # Baselines are no estimates, and three texts may carry the spread of a measure without a range.
    assert {
        name
        for experiment, name in without.select("experiment", "measure").iter_rows()
        if measure_of(facts(experiment).measures, name).range is not None
    } == {"majority"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attnaudit.results.table.ROW_GROUP", 7)
        results.save(folder)
    return results, folder / "results"


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["shards", 1, 3000, 1 << 30])
def test_a_trace_in_pieces_and_tables_on_disk(tmp_path, saved, piece, monkeypatch):
    """Shards, or a file read a row, some rows, or all rows at a time, its tables written as they come: the same tables, byte for byte."""
    trace, told = TRACES["one sigmoid"], []
    monkeypatch.setattr("attnaudit.results.table.ROW_GROUP", 7)
    if piece == "shards":
        write_shards(tmp_path / "trace", [trace.take(np.arange(k, k + 20)) for k in (0, 20, 40)])
    else:
        monkeypatch.setattr("attnaudit.trace.files.PIECE", piece)
        trace.write(tmp_path / "trace")
    results = audit(
        tmp_path / "trace",
        folder=tmp_path / "streamed",
        progress=lambda what, done, total: told.append(what),
    )
    pieces = told.count("audit: prediction")
    assert pieces == {"shards": 3, 1: 60, 1 << 30: 1}.get(piece, pieces)
    for name, result in saved[0].items():
        assert results[name].table.equals(result.table)
        assert results[name].summary.equals(result.summary)
        streamed = (tmp_path / "streamed" / f"{name}.parquet").read_bytes()
        assert streamed == (saved[1] / f"{name}.parquet").read_bytes()
    assert list(results) == list(saved[0])


def test_an_experiment_whose_columns_are_missing_is_left_out_and_named():
    trace = make_trace(10, gradient=False, rationale=False)
    left_out = audit(trace).left_out
    assert left_out.keys() == {
        *("replacement", "surrogate", "correlation", "plausibility", "agreement"),
        *("alignment", "joint"),
    }
    assert left_out["correlation"] == "the trace has no column gradient"
    with pytest.raises(TraceError, match="correlation: the trace has no column gradient"):
        audit(trace, ["correlation"])
    scope = audit(make_trace(5, importance=("rollout",))).left_out["agreement"]
    assert scope.startswith("for traces with several importance scores only")


@pytest.mark.parametrize(("name", "column"), [
    ("correlation", "loo"), ("comprehensiveness", "loo"), ("comprehensiveness", "at_attention"),
    ("plausibility", "chance"), ("agreement", "loo"), ("agreement", "a_and_b"),
])  # fmt: skip
def test_a_name_that_is_taken_is_refused(name, column):
    refused = refusal(make_experiment(name), make_trace(5, importance=(column, "c")))
    assert f"importance_{column}" in (refused or "")
    assert refusal(make_experiment(name), make_trace(5, importance=("ig", "c"))) is None


def with_classes_reversed(trace):
    """The same rows with their classes in the opposite order."""
    readout, tail, turn = trace.readout, trace.tail, np.s_[:, ::-1]
    if isinstance(tail, TanhTail):
        tail, turn = TanhTail(tail.weight[::-1], tail.bias[::-1]), np.s_[:]
    assert readout.candidates is not None
    return trace_of(
        trace.ragged("alpha"),
        readout.contribution.values[turn],
        readout.offset[turn],
        tail,  # type: ignore[arg-type]
        class_names=trace.class_names[::-1],
        candidates=readout.candidates[:, ::-1],
    )


@pytest.mark.parametrize("name", ["adversary", "erasure"])
def test_several_sigmoids_are_refused(name):
    base = make_trace(3, (2, 4), 2)
    tail = opaque(base).tail if name == "erasure" else base.tail
    trace = Trace(base.table, base.metadata | {"activation": "sigmoid"}, tail)
    assert "several sigmoid outputs" in (refusal(make_experiment(name), trace) or "")


@pytest.mark.parametrize("hidden", [None, 6])
@pytest.mark.parametrize("name", ["permutation", "erasure"])
def test_the_order_of_the_classes(name, hidden):
    """Of several smallest sets that flip the decision it may select another, which has another attention."""
    trace = make_trace(150, (6, 14), 5, seed=6, hidden=hidden, candidates=True)
    table, other = (make_experiment(name)(one) for one in (trace, with_classes_reversed(trace)))
    assert other["predicted"].equals(table["predicted"])
    for column in table.select(pl.selectors.float()).columns:
        numbers = (one[column].to_numpy() for one in (other, table))
        if column != "mass_minimum":
            np.testing.assert_allclose(*numbers, atol=1e-9, err_msg=column)
