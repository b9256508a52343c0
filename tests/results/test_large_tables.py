"""Tables of many texts: groups of texts are drawn, in pieces of any size, with the same answers."""

from itertools import pairwise

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from scipy.stats import norm

from attnaudit.experiments import audit, make_experiment
from attnaudit.report.run_page import write_report
from attnaudit.results import by_group, record, summarise_means, summarise_ratio, table, table_file
from attnaudit.stats import bootstrap
from attnaudit.stats.bootstrap import GROUPS, RESAMPLES, expanded_tail
from tests.traces import make_trace

pytestmark = pytest.mark.slow

ROWS = 3000
EXPERIMENTS = ("prediction", "correlation", "permutation", "adversary", "erasure", "plausibility")
NUMBERS = ("value", "std", "low", "high")
KEYS = ("experiment", "measure", "group", "n", "undefined", "texts")
ALL_TEXTS = 1 << 40  # more groups than there are texts, so that each text is a unit


def end_error(tail=0.025):
    """Standard error of the end of an interval that leaves out ``tail``, in widths.

    A quantile of B draws has the standard error √(tail (1 − tail) / B) over the density there.
    """
    distance = -norm.ppf(tail)
    return np.sqrt(tail * (1.0 - tail) / RESAMPLES) / norm.pdf(distance) / (2.0 * distance)


@pytest.fixture(scope="module")
def audited():
    return dict(
        audit(
            make_trace(ROWS, (1, 9), zeros=0.1), EXPERIMENTS, {"permutation": {"permutations": 20}}
        )
    )


def gaps_of(one, other):
    """Differences of the numbers of two summaries in widths of the interval, ``(rows, 4)``."""
    assert one.select(KEYS).equals(other.select(KEYS))
    a, b = (summary.select(NUMBERS).to_numpy().astype(float) for summary in (one, other))
    assert np.array_equal(np.isnan(a), np.isnan(b))
    width = a[:, 3] - a[:, 2]
    width[~(width > 0.0)] = 1.0
    return np.nan_to_num(b - a) / width[:, None]


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_groups_of_texts_and_pieces_change_no_more_than_the_draws_do(
    audited, experiment, monkeypatch
):
    """Each text a unit, or groups of texts: values are equal, ends within the noise of the draws."""
    rows = audited[experiment].rows
    texts = make_experiment(experiment).summarise(rows)
    monkeypatch.setattr(bootstrap, "GROUPS", 1024)
    groups = make_experiment(experiment).summarise(rows)
    gaps = gaps_of(texts, groups)
    assert np.abs(gaps[:, :2]).max() < 1e-9
    # Both summaries draw their ends. A standard error from G groups has a relative error of
    # 1/√(2 G), of which each end takes half.
    noise = np.hypot(np.sqrt(2.0) * end_error(), 0.5 / np.sqrt(2.0 * 1024))
    # The largest of up to 180 pairs of ends.
    assert np.abs(gaps[:, 2:]).max() < 4.0 * noise
    # Groups make intervals neither wider nor narrower.
    assert abs((gaps[:, 3] - gaps[:, 2]).mean()) < noise
    monkeypatch.setattr("attnaudit.results.groups.PIECE", 99)
    assert make_experiment(experiment).summarise(rows).equals(groups)


def means(rows, *names):
    return summarise_means("e", by_group(rows.lazy(), lambda table: table.select(names)), 0)


@pytest.mark.parametrize("groups", [GROUPS, 512])
def test_several_rows_of_a_text_are_counted_and_drawn_together(groups, monkeypatch):
    """Rows of heads, in any order; half of the variance of a row is that of its text."""
    monkeypatch.setattr(bootstrap, "GROUPS", groups)
    random, texts, heads = np.random.default_rng(0), 3000, 4
    level = np.repeat(random.normal(size=texts), heads)
    rows = pl.DataFrame({
        "instance": np.repeat(np.arange(texts), heads), "layer": 0, "head": np.tile(np.arange(heads), texts), "predicted": "a",
        "x": level + random.normal(size=texts * heads), "y": level > 0.5,
    }).with_columns(x=pl.when(pl.col("instance") % 7 > 0).then("x"))  # fmt: skip
    found = means(rows, "x", "y")
    all_rows = found.filter(group="all")
    known = rows.drop_nulls("x").group_by("instance").agg(pl.col("x").mean())["x"]
    assert all_rows["texts"].to_list() == [len(known), texts]
    spread = np.array([known.std(), np.std(level > 0.5)]) / np.sqrt(all_rows["texts"].to_numpy())
    width = all_rows["high"] - all_rows["low"]
    np.testing.assert_allclose(width, 2 * 1.96 * spread, rtol=0.12)
    again = means(rows.sample(fraction=1.0, shuffle=True, seed=0), "x", "y")
    assert np.abs(gaps_of(found, again)).max() < 1e-9


@pytest.mark.parametrize("heads", [1, 3])
def test_a_class_or_a_measure_of_few_rows_of_many(heads, monkeypatch):
    """Six texts of a class have the interval of a table that has only these.

    Ten texts that have a measure have the interval that 10,000 texts as units give.
    """
    random, texts = np.random.default_rng(5), 10_000
    instance = np.repeat(np.arange(texts), heads)
    rows = pl.DataFrame({
        "instance": instance, "predicted": np.where(instance >= texts - 6, "rare", np.where(instance % 2, "b", "a")),
        "x": random.exponential(size=len(instance)), "y": random.random(len(instance)) < 0.3, "low": 0.0, "high": 1.0,
    }).with_columns(few=pl.when(pl.col("instance") % 1000 == 0).then("x"))  # fmt: skip
    rows = rows.with_columns(head=0, layer=pl.int_range(pl.len()) % heads) if heads > 1 else rows
    names = ("x", "y", "few", "low", "high")

    def ratio_of(top):
        return lambda rows: rows.select(top=top, bottom="high")

    def summary(table):
        pairs = {"r": "few", "all": "x"}
        ratios = [
            summarise_ratio("e", name, by_group(table.lazy(), ratio_of(top)), 0)
            for name, top in pairs.items()
        ]
        return pl.concat([means(table, *names), *ratios])

    whole = summary(rows)
    own = whole.filter(group="predicted:rare")
    assert own.equals(summary(rows.filter(predicted="rare")).filter(group="predicted:rare"))
    monkeypatch.setattr(bootstrap, "GROUPS", ALL_TEXTS)
    few = pl.col("group") == "all", pl.col("measure").is_in(["few", "r"])
    gaps = gaps_of(summary(rows).filter(few), whole.filter(few))
    assert np.abs(gaps).max() < 4.0 * np.sqrt(2.0) * end_error(expanded_tail(10))


def test_the_order_of_groups_is_that_of_their_names(monkeypatch):
    monkeypatch.setattr("attnaudit.results.groups.PIECE", 20)
    rows = pl.DataFrame({"instance": range(60), "predicted": np.repeat(["b", "c", "a"], 20)})
    found = means(rows.with_columns(x=1.0), "x")
    assert found["group"].to_list() == ["all", "predicted:a", "predicted:b", "predicted:c"]


@pytest.mark.parametrize(
    ("positives", "hits", "alarms"), [(6, 5, 1), (6, 6, 0), (20, 18, 3), (60, 40, 10)]
)
def test_scores_of_a_rare_class(positives, hits, alarms):
    """F1 and ROC-AUC of many texts against every resample of rows written out."""
    rows, random = 20_000, np.random.default_rng(0)
    label = (np.arange(rows) < positives).astype(np.int64)
    p = np.minimum(1 / (1 + np.exp(5 - 2 * label - random.normal(size=rows))), 0.49)
    p[:hits], p[positives : positives + alarms] = 0.9, 0.8
    found = make_experiment("prediction").summarise(_predictions(label, p))
    ends = found.select(pl.col("low", "high").drop_nulls())
    assert ends.select(pl.all().is_between(0.0, 1.0).all()).row(0) == (True, True)
    f1 = found.filter(measure="f1").row(0, named=True)
    if f1["value"] == 1.0:
        assert f1["low"] < 1.0
        return
    draws = random.poisson(1.0, (20_000, rows // 100))[:, : positives + alarms]
    right, positive = ((p > 0.5), label == 1)
    hit = right & positive
    both = draws @ right[: positives + alarms] + draws @ positive[: positives + alarms]
    naive = 2 * draws @ hit[: positives + alarms] / np.maximum(both, 1)
    low, high = np.percentile(naive, [2.5, 97.5])
    # The naive ends come from so many draws that only ours have an error.
    error = 4.0 * end_error() * (high - low)
    assert (f1["low"], f1["high"]) == pytest.approx((low, high), abs=error)


def test_scores_of_few_labels():
    """If few of many rows have a label, they are scored like a table of these."""
    rows, random = 20_000, np.random.default_rng(1)
    label = np.where(np.arange(rows) % 1000 == 0, random.integers(0, 2, rows), -1)
    predictions = _predictions(label, random.random(rows))
    prediction = make_experiment("prediction")
    found = prediction.summarise(predictions).drop("undefined")
    labelled = prediction.summarise(predictions.drop_nulls("label")).drop("undefined")
    assert found.equals(labelled)


def _predictions(label, p):
    """Rows of `prediction` of a model with one logit; a label of -1 is unknown."""
    labels = pl.Series("label", label, dtype=pl.Int32).replace(-1, None)
    return pl.LazyFrame({
        "instance": np.arange(len(p)), "predicted": np.where(p > 0.5, "1", "0"), "label": labels,
        "correct": labels == (p > 0.5).astype(int), "probability": np.maximum(p, 1 - p), "probabilities": pl.Series(p[:, None].tolist()),
    })  # fmt: skip


def test_a_file_of_many_rows_has_few_row_groups_and_its_bytes_depend_on_the_rows_alone(tmp_path):
    rows = pl.DataFrame({"x": np.arange(3 * table.ROW_GROUP + 5)})
    for name, ends in (("one", []), ("many", [7, 100_007, 130_007])):
        with table_file(tmp_path / name) as add:
            for start, stop in pairwise([0, *ends, rows.height]):
                add(rows[start:stop])
    assert (tmp_path / "one").read_bytes() == (tmp_path / "many").read_bytes()
    assert pq.ParquetFile(tmp_path / "one").metadata.num_row_groups == 4
    assert pl.read_parquet(tmp_path / "one").equals(rows)


def test_the_page_of_a_large_trace_draws_a_sample(tmp_path):
    trace = make_trace(300, (2, 9))
    trace.write(tmp_path / "trace")
    audit(trace, ["prediction", "adversary", "erasure"]).save(tmp_path)
    whole = record.read_record(tmp_path)
    columns, rows = whole.columns(["emax_jsd"]), whole.rows(np.arange(300))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record, "LARGE", 100)
        patch.setattr("attnaudit.results.groups.PIECE", 64)
        large = record.read_record(tmp_path)
        assert large.sample is not None
        # One of each of 100 equal parts.
        assert np.array_equal(np.unique(large.sample // 3), np.arange(100))
        assert large.columns(["emax_jsd"]).equals(columns[large.sample])
        for picks in (large.sample[:70], large.sample[:3]):
            assert large.rows(picks).equals(rows[picks])
        page = write_report(tmp_path).read_text()
    assert "Figures show a random sample of 100 texts of 300" in page
    assert "Figures show a random sample" not in write_report(tmp_path).read_text()
