"""Runs compared with each other: on which texts, with which numbers, and what is said of them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import attnaudit
from attnaudit.core import AttnauditError, InputError, RunError
from attnaudit.recipes.audit import audit_into
from attnaudit.recipes.compare import compare_runs
from attnaudit.recipes.work import write_report
from attnaudit.report.sections.differences import deciding, statements
from attnaudit.results.paired import HIGHER, LOWER, NOT_SHOWN, TOO_FEW, WITHHELD, MeasuredRun, pair
from attnaudit.stats.measures import jsd
from attnaudit.stats.paired import paired_means
from attnaudit.trace import write_shards
from tests.cli.test_cli import answers
from tests.traces import make_trace, with_columns

EXPERIMENTS_RUN = ("prediction", "correlation", "permutation", "plausibility")


def audited(folder, *shards, settings=None, experiments=EXPERIMENTS_RUN):
    write_shards(folder / "trace", shards)
    return audit_into(folder / "audit", folder / "trace", experiments, settings or {})


def model(sharpness=1.5, n=60):
    """Models of other sharpness read the same texts."""
    return make_trace(n, (1, 20), sharpness=sharpness)


def with_tokens(trace, changed):
    tokens = trace.table["tokens"].to_list()
    for row in range(changed):
        tokens[row][0] += "!"
    return with_columns(trace, tokens=tokens)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return audited(folder / "one", model()), audited(folder / "two", model(0.2))


@pytest.mark.slow
def test_differences_are_those_computed_instance_by_instance(runs):
    found = attnaudit.compare(runs)
    for experiment, column, measure in (
        ("correlation", "tau_gradient", "tau_gradient"), ("permutation", "median_delta_y", "median_delta_y"),
        ("prediction", "correct", "accuracy"), ("plausibility", "auprc_loo", "auprc_loo"),
    ):  # fmt: skip
        # A text of one word says nothing of attention, and its prediction counts.
        counts = pl.lit(True) if experiment == "prediction" else ~pl.col("one_word")
        chosen = ("instance", pl.when(counts).then(column).cast(pl.Float64))
        one, two = (
            pl.read_parquet(run / "results" / f"{experiment}.parquet").select(*chosen)
            for run in runs
        )
        both = one.join(two, on="instance").drop_nulls().drop("instance")
        row = found.filter(experiment=experiment, measure=measure).row(0, named=True)
        assert (row["n"], row["undefined"]) == (both.height, 60 - both.height)
        a, b = both.mean().row(0)
        assert (row["a"], row["b"], row["difference"]) == pytest.approx((a, b, b - a))
        assert row["low"] <= row["difference"] <= row["high"]
    assert found.select("shared", "only_a", "only_b").unique().rows() == [(60, 0, 0)]


@pytest.mark.slow
def test_neither_the_order_of_rows_nor_shards_change_anything(runs, tmp_path):
    trace = model(0.2)
    order = np.random.default_rng(0).permutation(len(trace))
    other = audited(tmp_path, *(trace.take(part) for part in np.array_split(order, 3)))
    one, two = (attnaudit.compare([runs[0], run]).drop("run_b") for run in (runs[1], other))
    assert one.equals(two)


def test_measures_of_the_card_say_for_which_run_they_speak(runs, capsys):
    """A higher correlation speaks for a run, and so does a lower divergence of the adversary."""
    [one], [two] = compare_runs(runs), compare_runs(runs[::-1])
    exchanged = {"a": "b", "b": "a"}
    said = {row[0]: row[-1] for row in deciding(one)}
    assert {label: exchanged.get(side, side) for label, side in said.items()} == {
        row[0]: row[-1] for row in deciding(two)
    }
    higher = one.differences.filter(measure="tau_gradient")["conclusion"].item()
    assert said["Kendall τ, attention – gradient"] == {HIGHER: "b", LOWER: "a"}.get(higher, higher)
    lower = replace(one, differences=one.differences.with_columns(
        experiment=pl.lit("adversary"), measure=pl.lit("matched_emax_jsd"), conclusion=pl.lit(LOWER)
    ))  # fmt: skip
    assert {row[-1] for row in deciding(lower)} == {"b"}
    assert [side for side, _ in statements(one)] == ["a", "b"]
    brief, every = (answers(capsys, "compare", *runs, *more) for more in ((), ("--all",)))
    assert len(every.splitlines()) > len(brief.splitlines())


def test_exchanging_the_runs_negates_the_differences(runs):
    one, two = attnaudit.compare(runs), attnaudit.compare(runs[::-1])
    numbers = ("a", "b", "difference", "low", "high")
    a, b, difference, low, high = (one[name].to_numpy() for name in numbers)
    for expected, name in zip((b, a, -difference, -high, -low), numbers, strict=True):
        np.testing.assert_allclose(two[name].to_numpy(), expected, rtol=1e-12, atol=1e-15)
    opposite = {HIGHER: LOWER, LOWER: HIGHER, NOT_SHOWN: NOT_SHOWN}
    assert two["conclusion"].to_list() == [opposite[said] for said in one["conclusion"]]
    assert {HIGHER, NOT_SHOWN} <= set(one["conclusion"])


@pytest.mark.slow
def test_instances_of_another_text_or_id_are_not_shared(runs, tmp_path):
    part = with_tokens(model(0.2).take(np.arange(10, 60)), 4)
    [found] = compare_runs([runs[0], audited(tmp_path, part)])
    assert found.differences.select("shared", "only_a", "only_b").unique().rows() == [(46, 14, 4)]
    assert (found.instances.height, found.changed) == (46, 4)
    assert found.instances["instance"].min() == 14
    ids = make_trace(60, (1, 20), first_instance=100)
    for same, trace in ((60, with_tokens(model(), 60)), (0, ids)):
        other = audited(tmp_path / f"{same}", trace)
        with pytest.raises(InputError, match=f"no text in common: of 60 and 60 rows, {same} have"):
            compare_runs([runs[0], other])


@pytest.mark.parametrize(("same", "noted"), [(30, False), (29, True)])
def test_few_shared_instances_are_noted_with_what_to_do(runs, tmp_path, same, noted):
    [found] = compare_runs([runs[0], audited(tmp_path, with_tokens(model(0.2), 60 - same))])
    notes = [note for note in found.notes if "few rows in common" in note]
    assert len(notes) == noted
    assert all(f"{same} of 60 and 60; run both with the same corpus" in note for note in notes)


def test_what_cannot_be_compared_is_one_line(runs, tmp_path):
    twice = model().take(np.array([0, 1, 1, 2]))
    with pytest.raises(InputError, match="instance 1: several rows alike in split, instance"):
        compare_runs([audited(tmp_path / "twice", twice), runs[0]])
    without_labels = replace(model(), table=model().table.drop(["label"]))
    alone = audited(tmp_path / "alone", without_labels, experiments=("permutation",))
    only = audited(tmp_path / "only", model(), experiments=("prediction",))
    with pytest.raises(InputError, match="no measure in common"):
        compare_runs([alone, only])
    with pytest.raises(AttnauditError, match="no such folder"):
        compare_runs([runs[0], tmp_path / "nowhere"])


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("results/permutation.parquet", "; .*; repeat the command that made it"),
        ("summary.json", ""),
        ("trace", "audit it again"),
    ],
)
def test_results_that_were_changed_since_are_neither_compared_nor_reported(
    runs, file, line, tmp_path
):
    made = audited(tmp_path / "made", model(), experiments=("prediction", "permutation"))
    page = (made / "report.html").read_bytes()
    if file == "trace":
        model().take(np.arange(60)[::-1]).write(tmp_path / "made/trace")
        line = f"trace: a trace that was changed since; expected the one that .* audited; {line}"
    else:
        (made / file).write_bytes((made / file).read_bytes() + b"\n")
        line = f"{Path(file).name}: another file than the manifest lists{line}"
    for ask in (
        lambda: compare_runs([runs[0], made]),
        lambda: write_report(made),
        lambda: attnaudit.compare(made, to="jain2019"),
    ):
        with pytest.raises(RunError, match=line):
            ask()
    assert (made / "report.html").read_bytes() == page


def made_run(instance, values, **keys):
    """A run with two measures of each text, of one word."""
    texts = {"tokens": [["w"]], "question": [None], "alpha": [[1.0]], "predicted": ["x"]}
    columns = {name: value * len(instance) for name, value in texts.items()}
    names = ("p.accuracy", "c.tau")
    measured = dict(zip(names, values.T, strict=True))
    schema = {"question": pl.List(pl.String)}
    rows = pl.DataFrame(
        {**keys, "instance": instance, **columns, **measured}, schema_overrides=schema
    )
    measures = (("prediction", "accuracy"), ("correlation", "tau_loo"))
    return MeasuredRun("run", rows, dict(zip(names, measures, strict=True)))


def test_nothing_is_concluded_from_the_attention_of_a_model_that_learned_nothing():
    one, two = (made_run(np.arange(40), np.full((40, 2), value)) for value in (0.0, 1.0))
    assert set(pair(one, two).differences["conclusion"]) == {HIGHER}
    found = pair(one, replace(two, notice="Claim nothing."))
    assert found.differences["conclusion"].to_list() == [HIGHER, WITHHELD]
    assert found.notes == ("run: Claim nothing.",)
    few = pair(replace(one, rows=one.rows.head(5)), two).differences
    assert few.select("conclusion", "low").unique().rows() == [(TOO_FEW, None)]


def test_rows_of_a_text_are_drawn_together_and_texts_of_two_splits_with_one_number_are_two():
    one, other = np.random.default_rng(0).normal(size=(2, 48, 2))
    texts = np.arange(48) // 2
    keys = {"split": np.repeat(["dev", "test"], 24), "head": np.arange(48) % 2}
    found = pair(*(made_run(texts % 12, values, **keys) for values in (one, other)))
    expected = paired_means(one, other, texts)
    assert found.differences.select("low", "high").row(0) == (expected.low[0], expected.high[0])


def test_the_command_prints_and_writes_the_comparison(runs, tmp_path, capsys):
    out = tmp_path / "comparison"
    for given, rows in (([*runs, runs[0]], 120), (runs, 60)):
        assert str(out / "report.html") in answers(capsys, "compare", *given, "--out", out)
        page = (out / "report.html").read_text()
        assert page.count("<code>tau_gradient</code>") == rows // 60
        assert pl.read_parquet(out / "differences.parquet").equals(attnaudit.compare(given))
        assert pl.read_parquet(out / "instances.parquet").height == rows
    [told] = json.loads(answers(capsys, "compare", *runs, "--json"))
    assert told["differences"] == attnaudit.compare(runs).to_dicts()
    assert len(told["most_different"]) == 10


def test_the_instances_that_differ_most_come_first(runs):
    [found] = compare_runs(runs)
    divergence = found.instances["jsd"].to_list()
    assert divergence == sorted(divergence, reverse=True)
    one, two = model(), model(0.2)
    for row in found.instances.head(5).iter_rows(named=True):
        k = int(np.flatnonzero(one.instance == row["instance"])[0])
        assert row["jsd"] == pytest.approx(jsd(one.alpha[k][None], two.alpha[k][None])[0], abs=1e-6)
