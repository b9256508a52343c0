"""Published numbers beside ours: the right cell, the right class, and an honest judgement."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from rich.console import Console
from scipy.stats import binom

from attnaudit.core.errors import InputError
from attnaudit.published.compare import (
    ABOVE_SEARCH,
    FARTHER,
    NOT_MEASURED,
    PUBLISHED_ONCE,
    WITHIN_CELL,
    WITHIN_CORPUS,
    WITHIN_OURS,
    compare,
)
from attnaudit.published.reference import (
    largest_difference,
    match_classes,
    published_cell,
    published_corpus,
    published_numbers,
)
from attnaudit.report.sections.comparison import (
    comparison_section,
    comparison_sentence,
    print_comparison,
)
from attnaudit.results import SUMMARY_SCHEMA
from attnaudit.results.about import About
from attnaudit.results.record import RunRecord
from attnaudit.stats.inference import median_interval
from tests.report.runs import write_run
from tests.traces import make_trace

DATA = Path(__file__).parents[2] / "src" / "attnaudit" / "published" / "data"


def _record(
    corpus: str = "sst",
    classes: tuple[str, ...] = ("negative", "positive"),
    method: str = "exact",
    **values: float,
) -> RunRecord:
    """A run whose summary has ``measure__group`` = value, underscores in groups for nothing else."""
    rows = []
    for name, value in values.items():
        measure, group = name.split("__")
        group = group if group == "all" else f"predicted:{group}"
        rows.append(
            {
                "experiment": "x",
                "measure": measure,
                "group": group,
                "value": value,
                "std": 0.2,
                "low": value,
                "high": value,
                "n": 9,
            }
        )
    about = About.of({"corpus": {"name": corpus}, "model": {"encoder": "bilstm", "attention": "additive"},
                      "experiments": {"adversary": {"method": method}}}, {"class_names": list(classes)})  # fmt: skip
    return RunRecord("run", pl.DataFrame(rows, schema=SUMMARY_SCHEMA), about)


def _cell(frame: pl.DataFrame, measure: str, group: str, statistic: str = "mean") -> dict:
    return frame.row(
        by_predicate=(pl.col("measure") == measure)
        & (pl.col("group") == group)
        & (pl.col("statistic") == statistic),
        named=True,
    )


def test_sst_numbers_are_those_of_the_published_tables():
    frame = compare([_record(tau_gradient__negative=0.36)])
    tau = _cell(frame, "tau_gradient", "predicted:negative")
    assert (tau["paper"], tau["rerun"], tau["ours"]) == (0.395443, 0.343248, 0.36)
    assert tau["spread"] == pytest.approx(0.052195)
    assert tau["within"] is True
    assert _cell(frame, "significant_gradient", "predicted:negative", "share")["paper"] == 0.59
    assert _cell(frame, "f1", "all")["rerun"] == 0.7835
    assert _cell(frame, "emax_jsd", "predicted:positive")["paper"] == 0.48232
    assert _cell(frame, "tau_gradient_loo", "all")["paper"] is None
    assert _cell(frame, "tau_gradient_loo_minus_tau_gradient", "all")["rerun"] == 0.304715
    assert set(frame["measure"]) >= {"accuracy", "roc_auc", "median_delta_y", "tau_loo"}


@pytest.mark.parametrize(
    ("ours", "within", "agreement"),
    [
        (0.37, True, WITHIN_CELL),
        (0.343248 - 0.0521, True, WITHIN_CELL),
        (0.343248 - 0.0523, False, WITHIN_CORPUS),
        (0.395443 + 0.143, False, WITHIN_CORPUS),
        (0.395443 + 0.144, False, FARTHER),
    ],
)
def test_within_means_no_farther_outside_than_the_two_are_from_each_other(
    ours: float, within: bool, agreement: str
):
    row = _cell(
        compare([_record(tau_gradient__negative=ours)]), "tau_gradient", "predicted:negative"
    )
    assert (row["within"], row["agreement"]) == (within, agreement)
    assert row["corpus_spread"] == pytest.approx(largest_difference("sst", "tau_gradient", "mean"))


def test_a_number_published_once_is_not_judged_by_its_own_spread():
    row = _cell(compare([_record(tau_gradient__all=0.36)]), "tau_gradient", "all")
    assert row["within"] is None
    assert row["agreement"] == PUBLISHED_ONCE
    assert _cell(compare([_record()]), "tau_gradient", "all")["agreement"] == NOT_MEASURED


def test_a_number_farther_off_whose_interval_holds_a_published_value_is_told_apart():
    record = _record(roc_auc__all=0.88)
    wide = RunRecord(
        "run", record.summary.with_columns(low=pl.lit(0.85), high=pl.lit(0.91)), record.about
    )
    row = _cell(compare([wide]), "roc_auc", "all")
    assert (row["within"], row["agreement"]) == (False, WITHIN_OURS)
    assert _cell(compare([record]), "roc_auc", "all")["agreement"] == FARTHER


def test_an_interval_of_half_of_what_a_measure_can_be_agrees_with_nothing():
    record = _record(roc_auc__all=0.5)
    judged = {}
    for high in (0.98, 0.999):
        summary = record.summary.with_columns(low=pl.lit(0.49), high=pl.lit(high))
        judged[high] = _cell(compare([RunRecord("run", summary, record.about)]), "roc_auc", "all")[
            "agreement"
        ]
    assert judged == {0.98: WITHIN_OURS, 0.999: FARTHER}


def test_an_exact_maximum_above_their_search_is_called_that_and_a_lower_one_is_not():
    above = _cell(compare([_record(emax_jsd__negative=0.65)]), "emax_jsd", "predicted:negative")
    assert (above["within"], above["agreement"]) == (False, ABOVE_SEARCH)
    assert "exact maximum" in above["note"]
    assert (
        _cell(compare([_record(emax_jsd__negative=0.2)]), "emax_jsd", "predicted:negative")[
            "agreement"
        ]
        == FARTHER
    )
    searched = _cell(
        compare([_record(method="relaxed", emax_jsd__negative=0.65)]),
        "emax_jsd",
        "predicted:negative",
    )
    assert (searched["agreement"], searched["note"]) == (FARTHER, "")


def test_every_published_row_that_is_mapped_keeps_its_value():
    ours, theirs = (
        published_numbers(),
        pl.read_csv(
            DATA / "jain2019_correlations.csv", infer_schema_length=None, null_values=["nan"]
        ),
    )
    row = ours.filter(
        corpus="imdb",
        encoder="cnn",
        attention="dot",
        measure="tau_loo",
        statistic="std",
        revision="rerun_head",
    )
    raw = theirs.filter(
        corpus="imdb", encoder="cnn", attention="dot", statistic="tau_loo", revision="rerun_head"
    ).sort("predicted_class")
    assert row.sort("class")["value"].to_list() == raw["std"].to_list()
    keys = ["corpus", "encoder", "attention", "measure", "statistic", "class", "bin", "revision"]
    assert not ours.select(keys).is_duplicated().any()


def test_snli_classes_are_matched_by_name_although_the_revisions_order_them_differently():
    names = ("contradiction", "entailment", "neutral")
    frame = compare([_record("snli", names, emax_jsd__contradiction=0.48, emax_jsd__neutral=0.41)])
    row = _cell(frame, "emax_jsd", "predicted:contradiction")
    assert (row["paper"], row["rerun"]) == (0.48818, 0.49067)
    assert _cell(frame, "emax_jsd", "predicted:neutral")["paper"] == 0.40255
    assert "median_delta_y" not in set(frame["measure"])


def test_classes_match_by_name_first_and_by_order_with_a_note():
    assert match_classes(("negative", "positive"), ("pos", "neg")) == ({"0": "neg", "1": "pos"}, "")
    by_order, note = match_classes(("negative", "positive"), ("0", "1"))
    assert by_order == {"0": "0", "1": "1"}
    assert "by order" in note
    assert match_classes((), ("a", "b"))[0] == {"0": "a", "1": "b"}
    assert match_classes(("negative", "positive"), ())[0] == {"0": "negative", "1": "positive"}


def test_names_of_corpora_are_found_however_they_are_written():
    assert published_corpus("ag_news") == "agnews"
    assert published_corpus("babi_qa1_10k") == "babi1"
    assert published_corpus("mr") is None
    assert published_cell("ag_news", "cnn", "dot").corpus == "agnews"


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
def test_what_cannot_be_compared_is_refused_in_one_line(record: RunRecord, to: str, message: str):
    with pytest.raises(InputError, match=message) as refusal:
        compare([record], to)
    assert "\n" not in str(refusal.value)


def test_a_run_folder_gives_medians_by_bin_computed_from_its_tables(tmp_path: Path):
    folder = write_run(tmp_path / "run", make_trace(200, (6, 30), sharpness=1.0))
    frame = compare([folder])
    row = frame.filter(
        measure="median_delta_y", group="predicted:positive", max_alpha="[.25, .5)"
    ).row(0, named=True)
    table = pl.read_parquet(folder / "results" / "permutation.parquet")
    kept = table.filter(
        pl.col("predicted") == "positive", pl.col("max_alpha") >= 0.25, pl.col("max_alpha") < 0.5
    )["median_delta_y"]
    assert row["ours"] == kept.median()
    assert row["n"] == len(kept)
    assert row["low"] <= row["ours"] <= row["high"]
    assert frame["run"].unique().to_list() == ["run"]


def test_median_interval_covers_as_promised():
    assert median_interval(np.arange(5.0)) == (None, None)
    assert median_interval(np.arange(6.0)) == (0.0, 5.0)
    for n in (6, 17, 100):
        low, high = median_interval(np.arange(float(n)))
        assert low is not None
        assert high is not None
        covered = binom.cdf(high, n, 0.5) - binom.cdf(
            low, n, 0.5
        )  # the k-th value lies below the median when more than k-1 are below
        assert covered >= 0.95


def test_the_comparison_is_told_in_a_sentence_and_a_table():
    frame = compare([_record(tau_gradient__negative=0.37, f1__all=0.99, emax_jsd__negative=0.65)])
    sentence = comparison_sentence(frame)
    # a mean and its deviation of 0.2, twice, and an F1: of these the first mean keeps to its own spread
    assert (
        "Of 5 numbers published from two runs of the authors, 1 of ours lie between their two values and 0 more outside"
        in sentence
    )
    assert "1 more exceed what their search" in sentence
    assert "as much as 0.14 in mean τ" in sentence
    console = Console(record=True, width=160)
    print_comparison(frame, console)
    text = console.export_text()
    assert "0.40" in text
    assert ABOVE_SEARCH in text


def test_the_sentence_counts_each_number_once_and_none_that_was_published_once():
    record = _record(
        tau_gradient__negative=0.37,
        tau_gradient__all=0.36,
        tau_gradient_loo__all=0.3,
        f1__all=0.99,
        roc_auc__all=0.1,
    )
    frame = compare([record])
    sentence = comparison_sentence(frame)
    judged, once = (
        frame.filter(chosen, pl.col("ours").is_not_null())
        for chosen in (pl.col("spread").is_not_null(), pl.col("spread").is_null())
    )
    whole, *parts = map(
        int,
        re.findall(
            r"\d+(?= numbers? published| of ours| lies? | more )", sentence.partition(".")[0]
        ),
    )
    assert (whole, sum(parts)) == (judged.height, judged.height)
    assert once.height > 1
    assert f"{once.height} further numbers were published only once" in sentence
    only = frame.filter(pl.col("spread").is_null())
    assert comparison_sentence(only).startswith(
        f"{once.height} further numbers were published only once"
    )


def test_a_corpus_of_nobody_has_no_comparison_and_a_wrong_one_has_a_reason():
    assert comparison_section(_record("planted-decisive")) is None
    section = comparison_section(_record("agnews", ("a", "b", "c")))
    assert section is not None
    assert "3 classes" in section.content["reason"]
