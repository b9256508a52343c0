"""Large tables are read piece by piece: the same means and shares, intervals that differ by less than a tenth of their width."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from attnaudit.experiments import audit, make_experiment
from attnaudit.report.run_page import write_report
from attnaudit.results import Result, record, summarise_means, summarise_ratios, table
from attnaudit.results.groups import by_group
from attnaudit.results.table import table_file
from attnaudit.stats.bootstrap import bootstrap_clusters, bootstrap_means
from attnaudit.stats.classification import classification_scores
from attnaudit.stats.counted_scores import CountedScores
from attnaudit.stats.inference import benjamini_hochberg, benjamini_hochberg_counted
from attnaudit.stats.sums import GROUPS, METHOD, OF_INSTANCES, GroupedSums, merged
from attnaudit.stats.survival import area_contributions
from tests.traces import make_trace

ROWS = 3000
EXPERIMENTS = ("prediction", "correlation", "permutation", "adversary", "erasure", "plausibility")
NUMBERS = ("value", "std", "low", "high")
Both = tuple[pl.DataFrame, pl.DataFrame]


@pytest.fixture(scope="module")
def audited() -> dict[str, Result]:
    return dict(
        audit(
            make_trace(ROWS, (1, 9), zeros=0.1), EXPERIMENTS, {"permutation": {"permutations": 20}}
        )
    )


def both(experiment: str, rows: pl.LazyFrame) -> Both:
    """The summary of a table that is read whole, and of the same table piece by piece."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attnaudit.results.groups.LARGE", rows.select(pl.len()).collect().item())
        patch.setattr("attnaudit.results.groups.PIECE", 999)
        large = make_experiment(experiment).summarise(rows)
    return make_experiment(experiment).summarise(rows), large


def differences(whole: pl.DataFrame, large: pl.DataFrame) -> Iterator[tuple[str, float]]:
    """Of every number of a summary, how far the two are apart, in widths of the interval."""
    keys = ["experiment", "measure", "group", "n", "undefined", "texts"]
    assert whole.select(keys).equals(large.select(keys))
    for one, other in zip(whole.iter_rows(named=True), large.iter_rows(named=True), strict=True):
        for name in NUMBERS:
            assert (one[name] is None) == (other[name] is None), (one, other)
            if one[name] is not None:
                width = (
                    one["high"] - one["low"]
                    if one["high"] is not None and one["high"] > one["low"]
                    else 1.0
                )
                yield name, abs(one[name] - other[name]) / width


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_both_ways_agree(audited: dict[str, Result], experiment: str) -> None:
    whole, large = both(experiment, audited[experiment].rows)
    apart = list(differences(whole, large))
    assert max(gap for name, gap in apart if name in ("value", "std")) < 2e-3
    assert max(gap for name, gap in apart if name in ("low", "high")) < 0.1
    assert set(large["interval"].unique()) <= {METHOD, OF_INSTANCES, "Wilson", None}
    assert large["interval"].is_null().equals(large["low"].is_null())
    assert "interval" not in whole.columns  # a small summary is as it was


def test_several_rows_of_a_text() -> None:
    """Rows of heads: texts are counted and drawn whole; out of order they are read whole, as no piece would hold a text."""
    random = np.random.default_rng(0)
    texts, heads = 3000, 4
    level = np.repeat(random.normal(size=texts), heads)
    rows = pl.DataFrame({
        "instance": np.repeat(np.arange(texts), heads), "layer": 0, "head": np.tile(np.arange(heads), texts), "predicted": "a",
        "x": level + random.normal(size=texts * heads), "y": level > 0.5,
    }).with_columns(x=pl.when(pl.col("instance") % 7 > 0).then("x"))  # fmt: skip
    whole, large = (
        summarise_means("e", by_group(rows, lambda table: table.select("x", "y")), 0)
        for _ in _large(rows.height + 1, rows.height)
    )
    apart = list(differences(whole, large))
    assert max(gap for name, gap in apart if name in ("value", "std")) < 1e-9
    assert max(gap for name, gap in apart if name in ("low", "high")) < 0.1
    for _ in _large(1):
        assert not by_group(
            rows.sample(fraction=1.0, shuffle=True, seed=0), lambda table: table
        ).is_large


def test_texts_of_two_splits_with_one_number_are_two() -> None:
    random, texts = np.random.default_rng(0), 200
    rows = pl.DataFrame({
        "split": np.repeat(["test", "train"], texts), "instance": np.tile(np.repeat(np.arange(texts // 2), 2), 2), "layer": 0,
        "head": np.tile([0, 1], texts), "predicted": "a", "x": random.normal(size=2 * texts),
    })  # fmt: skip
    found = summarise_means("e", by_group(rows, lambda table: table.select("x")), 0)
    apart = rows.drop("split").with_columns(instance=pl.int_range(2 * texts) // 2)
    assert found.equals(summarise_means("e", by_group(apart, lambda table: table.select("x")), 0))
    assert found["texts"][0] == texts
    assert record.RunRecord("run", found, tables={"e": rows.lazy()}).documents(rows) == texts
    for _ in _large(1):
        assert not by_group(rows.sort("instance", "split"), lambda table: table).is_large


@pytest.mark.parametrize("heads", [1, 3])
def test_a_class_or_a_measure_of_few_rows_of_many(heads: int) -> None:
    """Six texts of 10,000 have the interval of a table that is read whole: groups that are drawn hold none, or several, of them."""
    random, texts = np.random.default_rng(5), 10_000
    instance = np.repeat(np.arange(texts), heads)
    rows = pl.DataFrame({
        "instance": instance, "predicted": np.where(instance >= texts - 6, "rare", np.where(instance % 2, "b", "a")),
        "x": random.exponential(size=len(instance)), "y": random.random(len(instance)) < 0.3, "low": 0.0, "high": 1.0,
    }).with_columns(few=pl.when(pl.col("instance") % 1000 == 0).then("x"))  # fmt: skip
    rows = rows.with_columns(head=0, layer=pl.int_range(pl.len()) % heads) if heads > 1 else rows
    pair: list[pl.DataFrame] = []
    for _ in _large(rows.height + 1, rows.height):
        groups = by_group(rows.lazy(), lambda table: table.select("x", "y", "few", "low", "high"))
        ratio = {"r": ("few", "low", "high"), "all": ("x", "low", "high")}
        pair.append(
            pl.concat([summarise_means("e", groups, 0), summarise_ratios("e", groups, ratio, 0)])
        )
    whole, large = pair
    assert max(gap for _, gap in differences(whole, large)) < 0.1
    rare = large.filter(group="predicted:rare", measure="x")
    assert rare["interval"].item() == OF_INSTANCES
    if heads == 1:
        assert rare.select(NUMBERS).row(0) == pytest.approx(
            whole.filter(group="predicted:rare", measure="x").select(NUMBERS).row(0)
        )
    assert large.filter(group="all", measure="x")["interval"].item() == METHOD
    for _ in _large(1):
        assert (
            by_group(rows.lazy(), lambda table: table.select("x")).sums().keys()
            == dict(by_group(rows, lambda table: table)).keys()
        )


def test_the_order_of_groups_is_that_of_small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnaudit.results.groups.PIECE", 20)
    rows = pl.DataFrame(
        {
            "instance": np.arange(60),
            "predicted": ["b"] * 20 + ["c"] * 20 + ["a"] * 20,
            "x": np.arange(60.0),
        }
    )
    for _ in _large(1):
        found = summarise_means("e", by_group(rows, lambda table: table.select("x")), 0)
    assert found["group"].to_list() == ["all", "predicted:a", "predicted:b", "predicted:c"]


@pytest.mark.parametrize(
    ("positives", "hits", "alarms"), [(6, 5, 1), (6, 6, 0), (20, 18, 3), (60, 40, 10)]
)
def test_scores_of_a_rare_class(positives: int, hits: int, alarms: int) -> None:
    rows, random = 20_000, np.random.default_rng(0)
    label = (np.arange(rows) < positives).astype(np.int64)
    p = np.minimum(1 / (1 + np.exp(5 - 2 * label - random.normal(size=rows))), 0.49)
    p[:hits], p[positives : positives + alarms] = 0.9, 0.8
    whole, large = both("prediction", _predictions(label, p))
    assert max(gap for _, gap in differences(whole, large)) < 0.1
    assert large.select(pl.col("low", "high").drop_nulls().is_between(0.0, 1.0).all()).row(0) == (
        True,
        True,
    )
    labels = dict(large.select("measure", "interval").iter_rows())
    assert labels == {
        "accuracy": "Wilson",
        "f1": METHOD,
        "roc_auc": METHOD,
        "roc_auc_chance": None,
        "majority": None,
    }


def test_scores_of_few_labels() -> None:
    """Where a few of many rows have a label, they are scored as in a small table."""
    rows, random = 20_000, np.random.default_rng(1)
    label = np.where(np.arange(rows) % 1000 == 0, random.integers(0, 2, rows), -1)
    whole, large = both("prediction", _predictions(label, random.random(rows)))
    assert whole.equals(large.drop("interval"))
    assert large["interval"].to_list() == ["Wilson", OF_INSTANCES, OF_INSTANCES, None, None]


def _predictions(label: np.ndarray, p: np.ndarray) -> pl.LazyFrame:
    """Rows of `prediction` of a model with one logit; a label of -1 is unknown."""
    labels = pl.Series("label", label, dtype=pl.Int32).replace(-1, None)
    return pl.LazyFrame({
        "instance": np.arange(len(p)), "predicted": np.where(p > 0.5, "1", "0"), "label": labels,
        "correct": labels == (p > 0.5).astype(int), "probability": np.maximum(p, 1 - p), "probabilities": pl.Series(p[:, None].tolist()),
    })  # fmt: skip


def _large(*sizes: int) -> Iterator[int]:
    """Within the loop tables of so many rows are large."""
    for size in sizes:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("attnaudit.results.groups.LARGE", size)
            yield size


def test_sums_depend_neither_on_the_order_nor_on_the_pieces() -> None:
    random = np.random.default_rng(1)
    values, instance = random.normal(1e3, 1.0, (5000, 3)), random.permutation(5000)
    values[random.random(values.shape) < 0.1] = np.nan
    one, parts = GroupedSums.of(3), [GroupedSums.of(3), GroupedSums.of(3)]
    one.add(values, instance)
    for start in range(0, 5000, 700):
        parts[start > 2000].add(values[start : start + 700], instance[start : start + 700])
    other, order = merged(*parts), random.permutation(5000)
    shuffled = GroupedSums.of(3)
    shuffled.add(values[order], instance[order])
    for found in (other, shuffled):
        assert np.array_equal(found.n, one.n)
        assert np.allclose(
            [found.value(k) for k in range(3)], np.nanmean(values, axis=0), rtol=1e-13
        )
        assert np.allclose(np.sqrt(found.squares / found.n), np.nanstd(values, axis=0), rtol=1e-10)
        assert np.allclose(found.intervals(0), one.intervals(0), rtol=1e-13)
    assert other.rows == 5000
    assert np.array_equal(other.texts, one.n)


@pytest.mark.parametrize("several", [False, True])
def test_merged_sums_of_few_instances_have_the_interval_of_a_small_table(several: bool) -> None:
    """Three parts in a row, of 300 instances of one or two rows each; one in seven has the second measure. No rows add nothing."""
    random, of_each = np.random.default_rng(4), 2 if several else 1
    instance = np.repeat(np.arange(300), of_each)
    values = random.normal(size=(len(instance), 2))
    values[instance % 7 > 0, 1] = np.nan
    parts = [GroupedSums.of(2, several) for _ in range(3)]
    for part, rows in zip(
        parts, np.split(np.arange(len(instance)), [100 * of_each, 170 * of_each]), strict=True
    ):
        part.add(values[rows], instance[rows])
        part.add(values[:0], instance[:0])
    together = merged(merged(parts[0], parts[1]), parts[2])
    expected = (
        bootstrap_clusters(values, instance, seed=3) if several else bootstrap_means(values, seed=3)
    )
    assert np.array_equal(together.intervals(3), expected)
    assert together.instances == 300
    assert together.texts.tolist() == [300, 43]


def test_the_standard_error_is_that_of_independent_rows() -> None:
    """Half the width over 1.96 is s/√n to a few percent, the error that so many groups have."""
    values = np.random.default_rng(2).exponential(size=(40_000, 8))
    sums = GroupedSums.of(8)
    sums.add(values, np.arange(40_000))
    low, high = sums.intervals(0)
    ratio = (high - low) / (2 * 1.96) / (values.std(axis=0) / np.sqrt(len(values)))
    assert np.abs(ratio - 1.0).max() < 4.0 / np.sqrt(2.0 * GROUPS)
    assert np.abs(ratio - 1.0).mean() < 2.0 / np.sqrt(2.0 * GROUPS)


@pytest.mark.parametrize("classes", [1, 2, 4])
def test_counted_scores(classes: int) -> None:
    random = np.random.default_rng(classes)
    label = random.integers(0, max(classes, 2), 3000)
    odds = random.normal(size=(3000, classes)) + (
        np.eye(max(classes, 2))[label] if classes > 1 else label[:, None]
    )
    score = (
        np.exp(odds) / np.exp(odds).sum(axis=1, keepdims=True)
        if classes > 1
        else 1 / (1 + np.exp(-odds))
    )
    predicted = score.argmax(axis=1) if classes > 1 else (score[:, 0] > 0.5).astype(np.int64)
    counted = CountedScores.of(classes)
    for start in range(0, 3000, 1100):
        part = slice(start, start + 1100)
        counted.add(label[part], predicted[part], score[part], np.arange(3000)[part])
    counted.add_ranks(label, score, np.arange(3000))
    known = classification_scores(label, predicted, score, seed=0)
    assert counted.f1 == pytest.approx(known.f1, abs=1e-12)
    assert counted.roc_auc == pytest.approx(known.roc_auc, abs=1e-5)
    width = (known.high - known.low)[1:]
    assert (
        np.abs(np.stack(counted.intervals(0)) - np.stack([known.low, known.high])[:, 1:]).max()
        < 0.1 * width.min()
    )


def test_counted_tests_and_times_are_those_of_the_repeated_rows() -> None:
    random = np.random.default_rng(3)
    distinct, times = random.random(50) ** 3, random.integers(1, 9, 50).astype(float)
    repeated = np.repeat(distinct, times.astype(int))
    assert np.allclose(
        np.repeat(benjamini_hochberg_counted(distinct, times), times.astype(int)),
        benjamini_hochberg(repeated),
        rtol=1e-12,
    )
    event = random.random(50) < 0.7
    found = area_contributions(distinct, event, times)
    assert np.allclose(
        np.repeat(found, times.astype(int)),
        area_contributions(repeated, np.repeat(event, times.astype(int))),
        atol=1e-12,
    )


def test_a_file_of_many_rows_has_few_row_groups_and_its_bytes_depend_on_the_rows_alone(
    tmp_path: Path,
) -> None:
    rows = pl.DataFrame({"x": np.arange(3 * table.ROW_GROUP + 5)})
    for name, sizes in (("one", [rows.height]), ("many", [7, 100_000, 30_000, rows.height])):
        with table_file(tmp_path / name) as add:
            for start, stop in zip(
                [0, *np.cumsum(sizes)], np.minimum(np.cumsum(sizes), rows.height), strict=False
            ):
                add(rows[int(start) : int(stop)])
    assert (tmp_path / "one").read_bytes() == (tmp_path / "many").read_bytes()
    assert pq.ParquetFile(tmp_path / "one").metadata.num_row_groups == 4
    assert pl.read_parquet(tmp_path / "one").equals(rows)


def test_the_page_of_a_large_trace_draws_a_sample(tmp_path: Path) -> None:
    trace = make_trace(300, (2, 9))
    trace.write(tmp_path / "trace")
    audit(trace, ["prediction", "adversary", "erasure"]).save(tmp_path)
    whole = record.read_record(tmp_path)
    columns, rows = whole.columns(["emax_jsd"]), whole.rows(np.arange(300))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record, "LARGE", 100)
        large = record.read_record(tmp_path)
        assert large.sample is not None
        assert np.array_equal(
            np.unique(large.sample // 3), np.arange(100)
        )  # one of each of 100 equal parts
        assert large.columns(["emax_jsd"]).equals(columns[large.sample])
        picks = large.sample[:70]
        assert large.rows(picks).equals(rows[picks])
        assert large.rows(picks[:3]).equals(rows[picks[:3]])
        page = write_report(tmp_path).read_text()
    assert "Figures show a random sample of 100 instances of 300" in page
    assert "Figures show a random sample" not in write_report(tmp_path).read_text()
