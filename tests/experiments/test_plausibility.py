from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau
from sklearn.metrics import average_precision_score

from attnaudit.core.ragged import Ragged
from attnaudit.experiments.plausibility import Plausibility
from attnaudit.stats.agreement import chance_rationale_agreement, rationale_agreement
from tests.oracles.scores import expected_precision
from tests.traces import known, make_trace, with_columns


def one(score, rationale):
    scores = Ragged.from_rows([np.array(score, float)])
    known = Ragged.from_rows([np.array(rationale, bool)], bool)
    precision, auprc = rationale_agreement(scores, known)
    return (
        float(precision[0]),
        float(auprc[0]),
        float(chance_rationale_agreement(known).precision[0]),
    )


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=2, max_size=6))
def test_ties_count_in_expectation(pairs):
    score, rationale = [float(s) for s, _ in pairs], [r for _, r in pairs]
    precision, auprc, chance = one(score, rationale)
    if not 0 < sum(rationale) < len(rationale):
        assert np.isnan([precision, auprc, chance]).all()
        return
    assert precision == pytest.approx(expected_precision(np.array(score), np.array(rationale)))
    assert auprc == pytest.approx(average_precision_score(rationale, score))
    assert chance == pytest.approx(np.mean(rationale))


@pytest.mark.parametrize(
    "rationale", [[1, 0], [0, 0, 1, 0], [1, 1, 0, 0, 1], [1, 1, 1, 0, 0, 0], [0, 1, 0, 0, 0, 1]]
)
def test_chance_is_the_mean_over_all_orders(rationale):
    """Of an order only the places of the marked tokens count."""
    places, order = sorted(set(permutations(rationale))), np.arange(len(rationale), dtype=float)
    known = Ragged.from_rows([np.array(rationale, bool)], bool)
    precision, average = chance_rationale_agreement(known)
    assert precision[0] == pytest.approx(
        np.mean([expected_precision(order, np.array(marks, bool)) for marks in places])
    )
    assert average[0] == pytest.approx(
        np.mean([average_precision_score(marks, order) for marks in places])
    )


def test_all_scores_of_the_trace_are_compared():
    trace = make_trace(60, (1, 20), seed=1, importance=("ig",))
    table, rationale = Plausibility()(trace), trace.ragged("rationale")
    columns = {"attention": "alpha", "gradient": "gradient", "loo": "loo", "ig": "importance_ig"}
    for row, marks in enumerate(rationale):
        for name, column in columns.items():
            score, tau, average = trace.ragged(column)[row], np.nan, np.nan
            if 0 < marks.sum() < len(marks):
                tau = np.array(kendalltau(score, marks))[0]
                average = float(average_precision_score(marks, score))
            assert table[f"auprc_{name}"][row] == known(average)
            assert table[f"rationale_tau_{name}"][row] == known(tau)
    summary = Plausibility().summarise(table).filter(group="all")
    values = dict(summary.select("measure", "value").iter_rows())
    gap = (table["rationale_tau_attention"] - table["rationale_tau_ig"]).mean()
    assert values["rationale_tau_attention_minus_rationale_tau_ig"] == known(gap)  # type: ignore[arg-type]
    assert set(summary["undefined"]) == {table["precision_chance"].null_count()}
    assert values["precision_attention"] > values["precision_chance"]


def test_rows_whose_rationale_is_unknown_are_undefined():
    trace = make_trace(10, (2, 8), seed=2)
    rationale = trace.table["rationale"].to_list()
    rationale[0] = None
    unknown = with_columns(trace, rationale=rationale).checked("test")
    assert Plausibility()(unknown)["precision_attention"][0] is None
    assert Plausibility()(unknown)[1:].equals(Plausibility()(trace)[1:])


def test_only_attention_is_needed():
    trace = make_trace(10, gradient=False, loo=False, seed=3)
    scores = ("precision", "auprc", "rationale_tau")
    assert {name for name in Plausibility()(trace).columns if name.startswith(scores)} == {
        *(f"{score}_attention" for score in scores),
        "precision_chance",
        "auprc_chance",
    }
