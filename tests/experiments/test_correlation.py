import numpy as np
import polars as pl
import pytest
from scipy.stats import false_discovery_control, kendalltau

from attnaudit.experiments.correlation import Correlation
from tests.oracles.scores import attention_on
from tests.traces import known, make_trace, trace_of, with_columns


@pytest.fixture(scope="module")
def trace():
    return make_trace(150, (1, 25), seed=1, importance=("ig",), zeros=0.3)


@pytest.fixture(scope="module")
def table(trace):
    return Correlation()(trace)


def test_every_row_matches_scipy(trace, table):
    pairs = {
        "gradient": ("alpha", "gradient"),
        "loo": ("alpha", "loo"),
        "gradient_loo": ("gradient", "loo"),
        "ig": ("alpha", "importance_ig"),
    }
    kinds = ("tau", "p", "attention_on")
    expected = [f"{kind}_{name}" for name in pairs for kind in kinds]
    assert table.columns[4:] == [name for name in expected if name != "attention_on_gradient_loo"]
    for name, (one, other) in pairs.items():
        for row in range(len(trace)):
            x, y = trace.ragged(one)[row], trace.ragged(other)[row]
            found = table[f"tau_{name}"][row], table[f"p_{name}"][row]
            if min(len(set(x)), len(set(y))) < 2:
                assert found == (None, None)
            elif len(x) > 2:  # scipy knows no p of two
                assert found == pytest.approx(kendalltau(x, y, method="asymptotic"), abs=1e-12)


def test_the_summary_counts_what_is_undefined(table):
    summary = Correlation().summarise(table)
    undefined = table["tau_loo"].null_count()
    assert undefined > 0
    for measure in ("tau_loo", "significant_loo", "significant_loo_bh"):
        row = summary.row(
            by_predicate=(pl.col("measure") == measure) & (pl.col("group") == "all"), named=True
        )
        assert (row["n"], row["undefined"]) == (len(table) - undefined, undefined)
        assert row["low"] <= row["value"] <= row["high"]
    mean = summary.filter(measure="tau_loo", group="all")["value"].item()
    assert mean == pytest.approx(table["tau_loo"].drop_nulls().mean())


def test_significance_is_adjusted_within_the_group(table):
    summary = Correlation().summarise(table)
    for group in ("all", "predicted:negative", "predicted:positive"):
        rows = table if group == "all" else table.filter(predicted=group.removeprefix("predicted:"))
        p = rows["p_gradient"].drop_nulls().to_numpy()
        share = summary.filter(measure="significant_gradient", group=group)["value"].item()
        adjusted = summary.filter(measure="significant_gradient_bh", group=group)["value"].item()
        assert share == pytest.approx((p <= 0.05).mean())
        assert adjusted == pytest.approx((false_discovery_control(p) <= 0.05).mean())


def test_attention_on_importance_is_the_mean_of_words_drawn_by_attention(trace, table):
    signed = trace.ragged("importance_ig")
    signed = signed.with_values(signed.values * np.resize([1, -1, -1], len(signed.values)))
    for own, found in (
        (trace, table),
        (changed := with_columns(trace, importance_ig=signed), Correlation()(changed)),
    ):
        for name, column in (("gradient", "gradient"), ("loo", "loo"), ("ig", "importance_ig")):
            for row in range(len(own)):
                value = attention_on(own.alpha[row], own.ragged(column)[row])
                assert found[f"attention_on_{name}"][row] == known(value, 1e-6)


def test_attention_on_importance_where_it_is_known():
    """All attention on the only word that matters, on another, uniform; no score; one word."""
    alpha = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.25] * 4, [0.25] * 4, [1.0]]
    loo = [[0.3, 0.0, 0.0, 0.0]] * 3 + [[0.0] * 4, [0.5]]
    trace = trace_of(alpha, np.ones(17), loo=loo, gradient=loo)
    found = Correlation()(trace)["attention_on_loo"].to_list()
    assert found == [0.75, -0.25, 0.0, None, None]


def test_special_tokens_take_no_part_in_attention_on_importance():
    """Attention on [CLS] counts for no word, and T is the number of words."""
    trace = trace_of([[0.5, 0.5, 0.0]], np.ones(3), loo=[[0.9, 0.2, 0.0]], gradient=[[1.0] * 3])
    marked = with_columns(trace, special=[[True, False, False]])
    assert Correlation()(marked)["attention_on_loo"].item() == pytest.approx(0.5)


def test_the_heatmap_shown_is_compared_with_every_score_as_attention_is(trace):
    table = Correlation()(with_columns(trace, importance_shown=trace.table["alpha"]))
    for name in ("gradient", "loo", "ig"):
        assert table[f"tau_shown_{name}"].equals(table[f"tau_{name}"])
        own, same = (table[f"{kind}_on_{name}"].to_numpy() for kind in ("shown", "attention"))
        assert own == pytest.approx(same, abs=1e-6, nan_ok=True)
    heads = table.with_columns(layer=pl.lit(0), head=pl.col("instance") % 2)
    summary = Correlation().summarise(heads)
    assert set(summary.filter(measure="tau_shown_loo")["group"]) >= {"all"}
    measures = summary.filter(pl.col("group").str.starts_with("head:"))["measure"]
    assert not measures.str.contains("^shown_on|tau_shown_").any()
    assert "tau_shown" in measures  # of one head with the heatmap
