"""Published numbers beside ours: the right cell, the right class, and an honest judgement."""

import re

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from attnaudit.core import InputError
from attnaudit.papers import PAPERS
from attnaudit.papers.comparison import AGREEMENTS, compare_runs, judge, with_references
from attnaudit.papers.published import match_groups, published
from attnaudit.report.sections.comparison import (
    comparison_section,
    comparison_sentence,
    print_comparison,
)
from attnaudit.results import SUMMARY_SCHEMA, About, RunRecord, summary_row


def _record(corpus="sst", classes=("negative", "positive"), **values):
    """A run whose summary has ``measure__group`` = value, underscores in groups for nothing else."""
    rows = []
    for name, value in values.items():
        measure, group = name.split("__")
        group = group if group == "all" else f"predicted:{group}"
        rows.append(summary_row("x", measure, value, value, value, group=group, std=0.2, n=9))
    about = About.of({"corpus": {"name": corpus}, "model": {"encoder": "bilstm", "attention": "additive"}}, {"class_names": list(classes)})  # fmt: skip
    return RunRecord("run", pl.DataFrame(rows, schema=SUMMARY_SCHEMA), about)


def _cell(frame, measure, group, statistic="mean"):
    return frame.filter(measure=measure, group=group, statistic=statistic).row(0, named=True)


def judged(measure, value):
    frame = compare_runs([_record(**{f"{measure}__negative": value})])
    return _cell(frame, measure, "predicted:negative")


def test_sst_numbers_are_those_of_the_published_tables():
    frame = compare_runs([_record(tau_gradient__negative=0.36)])
    tau = _cell(frame, "tau_gradient", "predicted:negative")
    assert (tau["paper"], tau["rerun"], tau["ours"]) == (0.395443, 0.343248, 0.36)
    assert tau["spread"] == pytest.approx(0.052195)
    assert tau["agreement"] == "between"
    assert _cell(frame, "significant_gradient", "predicted:negative", "share")["paper"] == 0.59
    assert _cell(frame, "f1", "all")["rerun"] == 0.7835
    assert _cell(frame, "emax_jsd", "predicted:positive")["paper"] == 0.48232
    assert _cell(frame, "tau_gradient_loo", "all")["paper"] is None
    assert _cell(frame, "tau_gradient_loo_minus_tau_gradient", "all")["rerun"] == 0.304715
    assert set(frame["measure"]) >= {"accuracy", "roc_auc", "median_delta_y", "tau_loo"}


@pytest.mark.parametrize(
    ("ours", "agreement"),
    [
        (0.37, "between"),
        (0.343248 - 0.0521, "spread"),
        (0.343248 - 0.0523, "corpus"),
        (0.395443 + 0.143, "corpus"),
        (0.395443 + 0.144, "farther"),
    ],
)
def test_spread_means_no_farther_outside_than_the_two_are_from_each_other(ours, agreement):
    row = judged("tau_gradient", ours)
    assert row["agreement"] == agreement
    means = published("jain2019").filter(pl.col("measure").str.starts_with("tau_"), corpus="sst")
    spreads = means.filter(statistic="mean").select(pl.col("paper") - pl.col("rerun"))
    assert row["corpus_spread"] == pytest.approx(np.nanmax(np.abs(spreads.to_numpy())))


@pytest.mark.parametrize(
    ("value", "low", "high", "rerun", "expected"),
    [
        (0.5, 0.4, 0.6, None, "inside"),
        (0.5, 0.1, 0.9, None, "near"),
        (0.56, 0.54, 0.58, None, "farther"),
        (0.54, 0.53, 0.55, None, "near"),
        (0.55, 0.50, 0.60, 0.49, "inside"),
        (0.55, 0.49, 0.98, 0.49, "inside"),
        (0.55, 0.49, 0.999, 0.49, "farther"),
        (None, None, None, None, "unknown"),
    ],
)
def test_an_interval_agrees_unless_it_is_wider_than_half_of_what_the_measure_can_be(
    value, low, high, rerun, expected
):
    """A wide interval holds nothing, so that only the distance counts."""
    theirs = {"measure": "f1_base", "statistic": "mean", "paper": 0.5, "rerun": rerun}
    ours = {"value": value, "low": low, "high": high}
    assert judge(theirs | {"corpus_spread": 0.01}, ours) == expected


def test_an_exact_maximum_above_their_search_is_called_that_and_a_lower_one_is_not():
    above = judged("emax_jsd", 0.65)
    assert above["agreement"] == "above"
    assert "exact maximum" in above["note"]
    assert judged("emax_jsd", 0.2)["agreement"] == "farther"


@pytest.mark.parametrize("paper", PAPERS)
def test_no_number_is_published_twice(paper):
    numbers = published(paper)
    keys = ["corpus", "study", "model", "measure", "statistic", "group", "max_alpha"]
    assert not numbers.select(keys).is_duplicated().any()
    assert numbers.select(pl.any_horizontal(pl.col("paper", "rerun").is_not_null()).all()).item()
    assert numbers["where"].is_not_null().all()


def test_snli_classes_are_matched_by_name_although_the_revisions_order_them_differently():
    names = ("contradiction", "entailment", "neutral")
    frame = compare_runs(
        [_record("snli", names, emax_jsd__contradiction=0.48, emax_jsd__neutral=0.41)]
    )
    row = _cell(frame, "emax_jsd", "predicted:contradiction")
    assert (row["paper"], row["rerun"]) == (0.48818, 0.49067)
    assert _cell(frame, "emax_jsd", "predicted:neutral")["paper"] == 0.40255
    assert "median_delta_y" not in set(frame["measure"])


@pytest.mark.parametrize(
    ("theirs", "ours", "matched", "note"),
    [
        (("negative", "positive"), ("pos", "neg"), ("neg", "pos"), ""),
        (("negative", "positive"), ("0", "1"), ("0", "1"), "negative = 0, positive = 1"),
        (("0", "1"), ("a", "b"), ("a", "b"), "0 = a, 1 = b"),
        (("negative", "positive"), (), ("negative", "positive"), ""),
    ],
)
def test_classes_match_by_name_first_and_by_order_with_a_note(theirs, ours, matched, note):
    groups, said = match_groups(["all", *(f"predicted:{name}" for name in theirs)], ours)
    assert [groups[f"predicted:{name}"] for name in theirs] == [f"predicted:{k}" for k in matched]
    assert said.endswith(note)
    assert bool(said) == bool(note)


def test_a_summary_has_the_reruns_numbers_beside_it_where_there_are_some():
    rows = [summary_row("prediction", "f1", 0.8, n=9), summary_row("prediction", "own", 0.8, n=9)]
    summary = pl.DataFrame(rows, schema=SUMMARY_SCHEMA)
    cell = {"corpus": "sst", "study": "", "model": "bilstm additive"}
    known = with_references(summary, ["jain2019"], cell, ("negative", "positive"))
    assert known.select("reference", "source").rows() == [(0.7835, "jain2019 rerun"), (None, None)]
    assert with_references(summary, PAPERS, cell | {"corpus": "mr"}).equals(summary)
    assert with_references(summary, PAPERS, cell, ("a", "b", "c")).equals(summary)  # another task
    study = pl.DataFrame([summary_row("uniform", "f1_base", 0.8, n=9)], schema=SUMMARY_SCHEMA)
    known = with_references(study, PAPERS, {"corpus": "sst", "study": "uniform", "model": ""})
    assert known.select("reference", "source").rows() == [(0.831, "wiegreffe2019")]


@pytest.mark.parametrize(
    ("record", "to", "message"),
    [
        (_record("sts"), "jain2019", "did you mean sst"),
        (_record(), "jain2018", "did you mean jain2019"),
        (
            _record("agnews", ("world", "sports", "business", "science")),
            "jain2019",
            "4 classes; expected 2",
        ),
        (
            RunRecord(
                "run",
                pl.DataFrame(schema=SUMMARY_SCHEMA),
                About(corpus="sst", encoder="bilstn", attention="dot"),
            ),
            "jain2019",
            "mean bilstm",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(record, to, message):
    with pytest.raises(InputError, match=message) as refusal:
        compare_runs([record], to)
    assert "\n" not in str(refusal.value)


def test_the_comparison_is_told_in_a_sentence_and_a_table():
    record = _record(tau_gradient__negative=0.37, f1__all=0.99, emax_jsd__negative=0.65)
    frame = compare_runs([record])
    # A mean and its deviation of 0.2, twice, and an F1.
    sentence = comparison_sentence(frame)
    counted = [int(number) for number in re.findall(r"\d+", sentence)]
    assert (counted[0], sum(counted[1:])) == (5, 5)
    console = Console(record=True, width=160)
    print_comparison(frame, console)
    assert sentence in console.export_text()
    assert not re.search(r"\d", comparison_sentence(frame.with_columns(ours=None)))
    assert set(frame["agreement"]) <= AGREEMENTS.keys()


def test_a_corpus_of_nobody_has_no_comparison_and_a_wrong_one_has_a_reason():
    assert comparison_section(_record("planted-decisive")) is None
    section = comparison_section(_record("agnews", ("a", "b", "c")))
    assert section is not None
    assert "3 classes" in section.content["reason"]
