"""AUC over constructions, on made-up values, and the check."""

from dataclasses import replace
from statistics import NormalDist
from types import SimpleNamespace
from typing import cast

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnaudit.calibration import CONSTRUCTIONS
from attnaudit.calibration.check import checked
from attnaudit.calibration.score import auc_interval, scores, share_larger
from attnaudit.calibration.verdicts import confusion
from attnaudit.report.calibration_page import write_calibration
from attnaudit.trace import Trace
from tests.oracles.auc import every_pair, over_constructions
from tests.traces import make_trace

NUMBERS = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=8)
TRUE = {
    truth: [one for one in CONSTRUCTIONS.values() if one.truth == truth]
    for truth in ("faithful", "unfaithful")
}
HALVES = ("held", "fit")


def made(value, measure="m", direction="higher", seeds=2, names=None):
    """Values of all constructions, ``value(construction, seed)``."""
    return [
        {
            "construction": one.name, "truth": one.truth, "half": one.half, "corpus": "c", "encoder": "e", "seed": seed,
            "confirmed": True, "experiment": "x", "measure": measure, "direction": direction, "value": value(one, seed),
        }
        for one in names or CONSTRUCTIONS.values()
        for seed in range(seeds)
    ]  # fmt: skip


def scored(value, **options):
    return scores(pl.DataFrame(made(value, **options)))


def noisy(gap, key):
    """Values that are ``gap`` larger where attention is faithful, with noise of its own for each construction."""
    return lambda one, seed: (
        (one.truth == "faithful") * gap
        + float(np.random.default_rng([key, *one.name.encode(), seed]).normal())
    )


@given(NUMBERS, NUMBERS)
def test_the_share_of_pairs_is_counted_pair_by_pair(ours, theirs):
    assert share_larger(np.array(ours), np.array(theirs)) == pytest.approx(every_pair(ours, theirs))


@pytest.mark.parametrize("direction", ["higher", "lower"])
def test_the_auc_is_that_of_pairs_of_constructions(direction):
    rows = made(noisy(1.0, 1), direction=direction)
    sign = -1.0 if direction == "lower" else 1.0
    found = scores(pl.DataFrame(rows))
    assert found["half"].to_list() == list(HALVES)
    for row in found.iter_rows(named=True):
        faithful, unfaithful = (
            {
                one.name: [sign * row["value"] for row in rows if row["construction"] == one.name]
                for one in TRUE[truth]
                if one.half == row["half"]
            }
            for truth in TRUE
        )
        assert row["auc"] == pytest.approx(over_constructions(faithful, unfaithful))
        assert row["low"] <= row["auc"] <= row["high"]
        assert (row["faithful"], row["unfaithful"]) == (len(faithful), len(unfaithful))


def test_a_half_says_nothing_of_the_other():
    table = pl.DataFrame(
        made(lambda one, seed: float(one.truth == "faithful") * (one.half == "fit"))
    )
    assert scores(table).select("half", "auc").rows() == [("held", 0.5), ("fit", 1.0)]
    assert scores(table.filter(half="fit"))["half"].to_list() == ["fit"]


def test_answers_are_right_wrong_or_neither_for_each_truth():
    def answers(*rows):
        columns = ("truth", "confirmed", "code", "first", "second")
        table = pl.DataFrame(rows, columns, orient="row").with_columns(half=pl.lit("fit"))
        return {row["truth"]: row for row in confusion(table).to_dicts()}

    found = answers(
        ("faithful", True, "show", "show", "where"),
        ("faithful", True, "where", "show", "show"),
        ("faithful", True, "none", "none", "show"),
        ("faithful", True, "mixed", "none", "none"),
        ("faithful", False, "where", "where", "where"),
        ("unfaithful", True, "where", "where", "where"),
        ("none", True, "none", "none", "none"),
        ("none", True, "show", "show", "show"),
        ("between", True, "show", "show", "show"),
    )
    assert found.keys() == {"faithful", "unfaithful", "none"}
    shares = {truth: (row["models"], row["right"], row["wrong"]) for truth, row in found.items()}
    assert shares == {
        "faithful": (4, 0.25, 0.25),
        "unfaithful": (1, 1.0, 0.0),
        "none": (2, 0.5, 0.5),
    }
    assert [found["faithful"][code] for code in ("show", "mixed", "where", "none")] == [1] * 4
    assert found["faithful"]["agree"] == 0.5


def test_a_perfect_measure_has_an_auc_of_one_and_more_seeds_make_no_interval_narrower():
    perfect = scored(lambda one, seed: float(one.truth == "faithful")).row(0, named=True)
    assert [perfect[name] for name in ("auc", "high")] == pytest.approx([1.0] * 2)
    assert perfect["low"] < 0.95, "the next construction may be another one"
    few, many = (
        scored(lambda one, seed: noisy(1, 2)(one, 0), seeds=n).select("auc", "low", "high").row(0)
        for n in (1, 9)
    )
    assert few == pytest.approx(many)


@pytest.mark.parametrize("truth", [0.5, 0.76, 0.98])
@pytest.mark.parametrize(("first", "second"), [(3, 3), (5, 6), (9, 11)])
def test_the_interval_holds_the_auc_of_a_population_of_constructions(truth, first, second):
    """Of constructions drawn from two normal distributions it holds the true AUC as often as it says, also of few and next to 1."""
    rng, held = np.random.default_rng(0), 0
    for _ in range(300):
        ours, theirs = (
            rng.normal(2**0.5 * NormalDist().inv_cdf(truth), 1, first),
            rng.normal(0, 1, second),
        )
        _, low, high, *_ = auc_interval((ours[:, None] > theirs).astype(float))
        held += low is not None and high is not None and low <= truth <= high
    assert held / 300 >= 0.92 or (
        truth == 0.5 and first == 3 and held / 300 > 0.8
    )  # of 9 pairs the outermost two results are 10 % likely


def test_fewer_than_three_constructions_on_a_side_have_an_auc_without_an_interval():
    pairs = np.array([[1.0, 0.5, 0.0], [1.0, 1.0, 0.5], [1.0, 0.5, 0.5]])
    for rows, columns in ((1, 1), (1, 3), (3, 2)):
        auc, *ends = auc_interval(pairs[:rows, :columns])
        assert auc == pytest.approx(pairs[:rows, :columns].mean())
        assert ends == [None, None]
    assert None not in auc_interval(pairs)
    found = scored(noisy(1.0, 1), names=[TRUE["faithful"][0], TRUE["unfaithful"][0]])
    assert (found["low"].to_list(), found["low"].dtype) == ([None], pl.Float64)


def interventions(trace, **figures):
    """Of a model that decides by the deciding words only, but for ``figures``."""
    right = {"accuracy": 1.0, "masked": 0.5, "inserted": 1.0}
    right |= {"changed_by_decisive": 1.0, "changed_by_others": 0.0, **figures}
    plain = {name: [value] * len(trace) for name, value in right.items()}
    rows = range(len(trace))
    return {**plain, "instance": trace.instance.tolist(), "label": [row % 2 for row in rows]}


def test_a_model_that_is_not_what_its_construction_says_is_not_confirmed():
    trace = make_trace(20, (5, 9), seed=1)
    on, off = attending(trace, 1.0, 0.0), attending(trace, 0.0, 1.0)
    for truth, shown, wrong in (("faithful", on, off), ("unfaithful", off, on)):
        own = TRUE[truth][0]
        done = checked(own, interventions(trace), trace, shown)
        assert all(one["confirmed"] for one in (done, *done["classes"], *done["texts"]))
        figures = {"changed_by_decisive": 0.5, "changed_by_others": 0.3, "inserted": 0.8}
        for seen, other in (
            *((seen, {}) for seen in (wrong, attending(trace, 0.5, 0.5))),
            *((shown, {name: value}) for name, value in figures.items()),
        ):
            assert not checked(own, interventions(trace, **other), trace, seen)["confirmed"]


def test_the_heatmap_of_a_transformer_is_what_is_checked_and_not_the_attention_of_a_head():
    trace = make_trace(20, (5, 9), seed=1)
    heads = replace(trace, table=pl.concat([trace.table, trace.table]))
    own, done = TRUE["faithful"][0], interventions(trace)
    weights = {on: attending(heads, on, 1.0 - on).shown for on in (0.0, 1.0)}
    for judged, confirmed in ((1.0, True), (0.0, False)):
        shown = SimpleNamespace(
            shown=weights[judged], alpha=weights[1.0 - judged], instance=heads.instance
        )
        found = checked(own, done, heads, cast("Trace", shown))
        assert (found["confirmed"], found["mass"], len(found["texts"])) == (confirmed, judged, 20)


def test_a_class_that_is_read_from_absence_is_named_and_its_model_is_not_confirmed():
    """The mean over both classes is ½, and every decision changes with the words."""
    trace = make_trace(20, (5, 9), seed=1)
    shown = attending(trace, 0.0, 1.0)
    done = interventions(trace)
    done["masked"] = [1.0 if label else 0.0 for label in done["label"]]
    found = checked(TRUE["unfaithful"][0], done, trace, shown)
    assert not found["confirmed"]
    assert (found["masked_least"], found["masked_most"]) == (0.0, 1.0)
    one_sided = interventions(trace)
    one_sided["masked"] = [0.9 if label else 0.5 for label in one_sided["label"]]
    found = checked(TRUE["unfaithful"][0], one_sided, trace, shown)
    assert [one["confirmed"] for one in found["classes"]] == [True, False]
    assert [one["confirmed"] for one in found["texts"]] == [k % 2 == 0 for k in range(20)]


def attending(trace, on, off):
    """A trace with these shares of attention on the words that decide and on others; only it is read."""
    marked = trace.ragged("rationale")
    number = marked.with_values(marked.values.astype(float)).sum()
    others = np.maximum(marked.lengths - number, 1.0)
    weights = np.where(
        marked.values, on / marked.spread(np.maximum(number, 1.0)), off / marked.spread(others)
    )
    shown = SimpleNamespace(shown=marked.with_values(weights), instance=trace.instance)
    return cast("Trace", shown)


def test_each_truth_has_many_constructions_and_every_construction_a_reason():
    assert all(len(found) >= 8 for found in TRUE.values())
    assert all(one.reason.endswith(".") and one.title for one in CONSTRUCTIONS.values())
    assert {one.half for one in CONSTRUCTIONS.values()} == {"fit", "held"}


def write_calibrated(folder, names=None):
    """The page of values that are not of any model."""
    folder.mkdir(exist_ok=True)
    every = (made(noisy(3.0 - key, key), name, names=names) for key, name in enumerate("abc", 1))
    values = pl.DataFrame([row for rows in every for row in rows])
    figures = (
        "accuracy",
        "masked_least",
        "masked_most",
        "changed_by_decisive",
        "changed_by_others",
    )
    checks = values.filter(measure="a").with_columns(
        pl.lit(0.5).alias(name) for name in (*figures, "mass")
    )
    verdicts = values.filter(measure="a").with_columns(
        first=pl.lit("show"), second=pl.lit("none"), code=pl.lit("show"), score=1.0
    )
    tables = {"scores": scores(values), "checks": checks, "verdicts": verdicts}
    for name, table in tables.items():
        table.write_parquet(folder / f"{name}.parquet")
    return write_calibration(folder)


@pytest.mark.slow
def test_the_page_has_the_verdicts_first_and_both_halves_apart(tmp_path):
    page = write_calibrated(tmp_path).read_text()
    titles = ("verdicts of confirmed", "of the half held", "of the half fit", "the check of every")
    places = [page.index(title) for title in titles]
    assert places == sorted(places)
    for words in ("the last word decides", "random halves of the texts"):
        assert words in page, words


def test_cells_that_are_not_confirmed_and_undefined_values_are_left_out():
    rows = made(lambda one, seed: float(one.truth == "faithful"))
    for row in rows:
        if row["seed"] == 1:
            row |= {"value": 1.0 - row["value"], "confirmed": row["truth"] == "none"}
    assert scores(pl.DataFrame(rows))["auc"].to_list() == [1.0, 1.0]
    rows[0] |= {"value": float("nan")}
    assert scores(pl.DataFrame(rows))["undefined"].to_list() == [0, 1]
