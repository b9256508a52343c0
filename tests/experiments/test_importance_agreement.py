"""Agreement of measures of importance with each other: against loops over pairs and over every way to break ties."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import pytest

from attnaudit.core.errors import TraceError
from attnaudit.experiments import audit, facts, measure_label
from attnaudit.experiments.agreement import TOP, Agreement
from attnaudit.report.card import verdict
from attnaudit.report.cards import card
from attnaudit.report.cards.card import WITHHELD
from attnaudit.report.charts.instances import draw_summaries
from attnaudit.results import summary_row
from attnaudit.results.summary import SummaryRows
from attnaudit.trace import Trace
from tests.oracles.agreement import naive_overlap, plain_overlap
from tests.oracles.kendall import naive_kendall
from tests.traces import make_trace

IMPORTANCE = ("rollout", "value_zeroing")
COLUMNS = {"attention": "alpha", "gradient": "gradient", "loo": "loo"} | {
    name: f"importance_{name}" for name in IMPORTANCE
}


def with_columns(trace: Trace, **columns: Any) -> Trace:
    table = trace.table
    for name, values in columns.items():
        lists = values if isinstance(values, list) else [row.tolist() for row in values]
        table = table.with_columns(pl.Series(name, lists))
    return Trace(table, trace.metadata, trace.tail)


def scores_of(trace: Trace, row: int) -> dict[str, np.ndarray]:
    """Every score of a row, over its tokens that are not special."""
    words = (
        ~trace.ragged("special")[row].astype(bool)
        if trace.has("special")
        else np.ones(len(trace.alpha[row]), bool)
    )
    return {
        name: trace.ragged(column)[row][words].astype(np.float64)
        for name, column in COLUMNS.items()
        if trace.has(column)
    }


def assert_naive(trace: Trace, overlap: Any) -> pl.DataFrame:
    table = Agreement()(trace)
    for row in range(len(trace)):
        scores = scores_of(trace, row)
        for a, b in combinations(scores, 2):
            for kind, expected in (
                ("tau", naive_kendall(scores[a], scores[b])[0]),
                ("precision", overlap(scores[a], scores[b], TOP)),
            ):
                found = table[f"{kind}_{a}_and_{b}"][row]
                assert found == (
                    None if np.isnan(expected) else pytest.approx(expected, abs=1e-12)
                ), (kind, a, b, row)
    return table


def rounded(trace: Trace) -> Trace:
    """The same trace with scores of few values, and so with ties."""
    return with_columns(trace, **{
        name: trace.ragged(name).with_values(np.round(4 * trace.ragged(name).values)) for name in ("gradient", "loo", "importance_rollout")
    })  # fmt: skip


def test_every_row_is_the_plain_comparison_of_its_scores():
    table = assert_naive(make_trace(120, (1, 25), seed=1, importance=IMPORTANCE), plain_overlap)
    assert table.columns[:3] == ["split", "instance", "predicted"]
    assert len(table.columns) == 3 + 2 * 10 + 1


def test_ties_count_as_every_way_to_break_them():
    table = assert_naive(
        rounded(make_trace(40, (1, 6), seed=2, importance=IMPORTANCE)), naive_overlap
    )
    tied = table["precision_gradient_and_loo"].drop_nulls()
    assert (tied % 0.5 != 0).any()  # k is 1 or 2


def test_special_tokens_are_no_words():
    trace = make_trace(60, (3, 20), seed=3, importance=IMPORTANCE)
    special = [
        [t in (0, length - 1) for t in range(length)] for length in trace.alpha.lengths.tolist()
    ]
    table = assert_naive(with_columns(trace, special=special), plain_overlap)
    short = np.array([length - 2 for length in trace.alpha.lengths.tolist()]) < 2
    assert table["precision_by_chance"].is_null().to_list() == short.tolist()


def test_chance_is_the_mean_over_random_orders():
    trace = make_trace(200, (2, 20), seed=4, importance=IMPORTANCE)
    random = np.random.default_rng(0)
    shuffled = [
        with_columns(trace, importance_rollout=[random.permutation(row) for row in trace.alpha])
        for _ in range(40)
    ]
    tables = [Agreement()(one) for one in shuffled]
    drawn = np.array([table["precision_attention_and_rollout"].mean() for table in tables], float)
    assert drawn.mean() == pytest.approx(
        tables[0]["precision_by_chance"].mean(), abs=4 * drawn.std() / len(drawn) ** 0.5
    )


def test_only_the_order_that_a_measure_gives_counts():
    trace = make_trace(60, (1, 20), seed=5, importance=IMPORTANCE)
    same = with_columns(trace, importance_rollout=trace.ragged("importance_rollout").with_values(
        np.exp(3.0 * trace.ragged("importance_rollout").values.astype(np.float64))
    ))  # fmt: skip
    assert Agreement()(same).equals(Agreement()(trace))


def test_a_measure_agrees_with_itself_and_not_with_its_reverse():
    trace = make_trace(60, (8, 20), seed=6, importance=IMPORTANCE)
    alpha = trace.ragged("alpha")
    table = Agreement()(
        with_columns(
            trace,
            importance_rollout=alpha,
            importance_value_zeroing=alpha.with_values(-alpha.values),
        )
    )
    assert table["tau_attention_and_rollout"].to_list() == pytest.approx([1.0] * 60)
    assert table["precision_attention_and_rollout"].to_list() == pytest.approx([1.0] * 60)
    assert table["tau_rollout_and_value_zeroing"].to_list() == pytest.approx([-1.0] * 60)
    assert table["precision_rollout_and_value_zeroing"].to_list() == [0.0] * 60


def test_other_attention_changes_only_what_is_compared_with_attention():
    trace = make_trace(60, (2, 20), seed=7, importance=IMPORTANCE)
    reversed_alpha = [row[::-1] for row in trace.ragged("alpha")]
    table, other = Agreement()(trace), Agreement()(with_columns(trace, alpha=reversed_alpha))
    with_attention = [name for name in table.columns if "attention" in name]
    assert other.drop(with_attention).equals(table.drop(with_attention))
    assert not any(other[name].equals(table[name]) for name in with_attention)


def test_correlation_and_agreement_have_the_same_tau():
    trace = rounded(make_trace(80, (1, 20), seed=8, importance=IMPORTANCE))
    ours, theirs = (audit(trace, [name])[name].table for name in ("agreement", "correlation"))
    names = {name: f"attention_and_{name}" for name in COLUMNS if name != "attention"} | {
        "gradient_loo": "gradient_and_loo"
    }
    assert all(
        ours[f"tau_{ours_name}"].equals(theirs[f"tau_{name}"], check_names=False)
        for name, ours_name in names.items()
    )


def test_heads_are_compared_by_their_attention_and_texts_are_resampled():
    trace = make_trace(24, (3, 9), seed=10, importance=IMPORTANCE)
    heads = {
        "instance": np.arange(24) // 2,
        "layer": np.zeros(24, np.int32),
        "head": (np.arange(24) % 2).astype(np.int32),
    }
    trace = with_columns(trace, **{name: values.tolist() for name, values in heads.items()})
    summary = audit(trace, ["agreement"])["agreement"].summary
    of_heads = summary.filter(pl.col("group").str.starts_with("head:"))
    assert of_heads.group_by("group").len()["len"].to_list() == [8, 8]
    assert of_heads["measure"].str.contains("_attention_and_").all()
    assert summary.filter(group="all")["texts"].max() == len(np.unique(trace.instance)) < len(trace)
    card = verdict(summary)
    assert card.unit == "row"
    assert len(card.rows) == 1


def test_what_a_trace_needs():
    few = make_trace(5, importance=("rollout",))
    assert (
        audit(few).left_out["agreement"]
        == "for traces with several importance scores only, 2 columns importance_<name> or more"
    )
    with pytest.raises(TraceError, match="several importance scores"):
        audit(few, ["agreement"])
    assert "importance_a_and_b has _and_ in it" in (
        Agreement().refuses(make_trace(5, importance=("a_and_b", "c"))) or ""
    )
    assert "importance_loo is taken" in (
        Agreement().refuses(make_trace(5, importance=("loo", "c"))) or ""
    )
    alone = Agreement()(make_trace(5, importance=("a", "b"), gradient=False, loo=False))
    assert [name for name in alone.columns if name.startswith("tau")] == [
        "tau_attention_and_a",
        "tau_attention_and_b",
        "tau_a_and_b",
    ]


def test_names_of_measures():
    assert (
        measure_label("tau_attention_and_value_zeroing", "agreement")
        == "Kendall τ, attention – value zeroing"
    )
    assert (
        measure_label("precision_gradient_and_loo", "agreement")
        == "share of the top quarter in common, gradient – leave-one-out"
    )
    trace = make_trace(30, importance=IMPORTANCE)
    summary = audit(trace, ["agreement"])["agreement"].summary
    assert all(
        any(one.label_for(name) for one in facts("agreement").measures)
        for name in summary["measure"]
    )


def summary_of(taus: dict[str, tuple[float, float, float]], accuracy: float = 0.9) -> pl.DataFrame:
    rows = [summary_row("agreement", f"tau_{pair}", *row, n=100) for pair, row in taus.items()]
    rows += [
        summary_row("prediction", "accuracy", accuracy, accuracy - 0.05, accuracy + 0.05, n=100)
    ]
    return pl.DataFrame(
        [*rows, summary_row("prediction", "majority", 0.5, n=100)], infer_schema_length=None
    )


def said(summary: pl.DataFrame) -> str:
    (row,) = [row for row in verdict(summary).rows if row.experiment == "agreement"]
    return row.sentence


APART = {
    "attention_and_a": (0.1, 0.05, 0.15),
    "attention_and_b": (0.3, 0.25, 0.35),
    "a_and_b": (0.8, 0.75, 0.85),
}


def test_the_sentence_names_the_ends():
    assert (
        said(summary_of(APART))
        == "Of 3 pairs of measures a and b agree most (τ 0.80) and attention and a agree least (τ 0.10)."
    )


def test_the_sentence_counts_pairs_within_overlapping_intervals():
    close = APART | {"attention_and_b": (0.2, 0.14, 0.26)}
    assert said(summary_of(close)).endswith(
        "attention and a agree least (τ 0.10; 1 other pair within overlapping intervals)."
    )


def test_no_conclusion_where_intervals_overlap_or_nothing_was_learned():
    overlapping = {pair: (value, 0.0, 0.9) for pair, (value, *_) in APART.items()}
    assert "none is shown to agree better than another" in said(summary_of(overlapping))
    assert said(summary_of(APART, accuracy=0.5)) == WITHHELD


def test_the_matrix_has_every_pair_twice_and_a_number_in_each_cell():
    trace = make_trace(60, (2, 20), seed=9, importance=IMPORTANCE)
    summary = audit(trace, ["agreement"])["agreement"].summary
    (spec,) = card("agreement").summary_figures(SummaryRows.of(summary))
    for panel, kind in zip(spec.panels, ("tau", "precision"), strict=True):
        cells = {(a, b): value for a, b, value in panel.chart.rows.iter_rows()}  # type: ignore[union-attr]
        assert len(cells) == 20
        assert all(cells[b, a] == value for (a, b), value in cells.items())
        expected = summary.filter(measure=f"{kind}_gradient_and_value_zeroing", group="all")[
            "value"
        ].item()
        assert cells["value zeroing", "gradient"] == expected
    (figure,) = draw_summaries(summary, "row")
    assert [panel.svg.count(">value zeroing</text>") for panel in figure.panels] == [2, 2]
    assert f">{expected:.2f}</text>" in figure.panels[1].svg
    assert "Mean over rows" in figure.caption
    assert draw_summaries(audit(make_trace(5), ["correlation"]).summary) == []
