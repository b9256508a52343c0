"""Agreement of measures of importance with each other: against loops over pairs and over every way to break ties."""

from itertools import combinations

import numpy as np
import polars as pl

from attnaudit.experiments import audit, facts
from attnaudit.experiments.agreement import TOP, Agreement
from tests.oracles.agreement import naive_overlap, plain_overlap
from tests.oracles.kendall import naive_kendall
from tests.traces import known, make_trace, with_columns

IMPORTANCE = ("rollout", "value_zeroing")
COLUMNS = {"attention": "alpha", "gradient": "gradient", "loo": "loo"} | {
    name: f"importance_{name}" for name in IMPORTANCE
}


def assert_naive(trace, overlap):
    """Every pair of scores of a row, over its tokens that are not special."""
    table = Agreement()(trace)
    for row, length in enumerate(trace.alpha.lengths):
        words = np.ones(length, bool)
        if trace.has("special"):
            words = ~trace.ragged("special")[row].astype(bool)
        scores = {
            name: trace.ragged(column)[row][words].astype(float) for name, column in COLUMNS.items()
        }
        for a, b in combinations(scores, 2):
            tau, top = table[f"tau_{a}_and_{b}"][row], table[f"precision_{a}_and_{b}"][row]
            assert tau == known(naive_kendall(scores[a], scores[b])[0]), (a, b, row)
            assert top == known(overlap(scores[a], scores[b], TOP)), (a, b, row)
    return table


def rounded(trace):
    """The same trace with scores of few values, and so with ties."""
    return with_columns(trace, **{
        name: trace.ragged(name).with_values(np.round(4 * trace.ragged(name).values)) for name in ("gradient", "loo", "importance_rollout")
    })  # fmt: skip


def test_every_row_is_the_plain_comparison_of_its_scores():
    trace = make_trace(120, (1, 25), seed=1, importance=IMPORTANCE)
    table, lengths = assert_naive(trace, plain_overlap), trace.alpha.lengths
    assert len(table.columns) == 4 + 2 * 10 + 1
    chance = np.where(lengths > 1, np.ceil(lengths / 4) / lengths, np.nan)
    np.testing.assert_allclose(table["precision_by_chance"].to_numpy(), chance, atol=1e-12)


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


def test_heads_are_compared_by_their_attention_and_texts_are_resampled():
    trace = make_trace(24, (3, 9), seed=10, importance=IMPORTANCE)
    trace = with_columns(
        trace, instance=(np.arange(24) // 2).tolist(), layer=[0] * 24, head=[0, 1] * 12
    )
    summary = audit(trace, ["agreement"])["agreement"].summary
    of_heads = summary.filter(pl.col("group").str.starts_with("head:"))
    assert of_heads.group_by("group").len()["len"].to_list() == [8, 8]
    assert of_heads["measure"].str.contains("_attention_and_").all()
    assert summary.filter(group="all")["texts"].max() == 12
    measures = facts("agreement").measures
    assert all(any(one.label_for(name) for one in measures) for name in summary["measure"])


def test_only_attention_is_needed_of_the_scores_that_have_a_column():
    alone = Agreement()(make_trace(5, importance=("a", "b"), gradient=False, loo=False))
    taus = [name for name in alone.columns if name.startswith("tau")]
    assert taus == ["tau_attention_and_a", "tau_attention_and_b", "tau_a_and_b"]
