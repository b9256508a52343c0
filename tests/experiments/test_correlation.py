from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.stats import kendalltau

from attnaudit.core.ragged import Ragged
from attnaudit.experiments.correlation import Correlation
from tests.oracles.scores import naive_benjamini_hochberg
from tests.traces import make_trace


@pytest.fixture(scope="module")
def trace():
    return make_trace(150, (1, 25), seed=1, importance=("ig",), zeros=0.3)


@pytest.fixture(scope="module")
def table(trace) -> pl.DataFrame:
    return Correlation()(trace)


def test_every_row_matches_scipy(trace, table: pl.DataFrame):
    pairs = {
        "gradient": ("alpha", "gradient"),
        "loo": ("alpha", "loo"),
        "gradient_loo": ("gradient", "loo"),
        "ig": ("alpha", "importance_ig"),
    }
    for name, (one, other) in pairs.items():
        for row in range(len(trace)):
            x, y = trace.ragged(one)[row], trace.ragged(other)[row]
            tau, p_value = table[f"tau_{name}"][row], table[f"p_{name}"][row]
            if len(x) < 3:
                assert (tau is None) == (len(x) < 2 or len(set(x)) == 1 or len(set(y)) == 1)
                continue
            expected = np.array(kendalltau(x, y, method="asymptotic"))
            if np.isnan(expected[0]):
                assert tau is None
                assert p_value is None
            else:
                assert (tau, p_value) == pytest.approx(expected, abs=1e-12)


def test_the_columns_that_others_rely_on(table: pl.DataFrame):
    expected = [
        "split",
        "instance",
        "predicted",
        "tau_gradient",
        "p_gradient",
        "tau_loo",
        "p_loo",
        "tau_gradient_loo",
        "p_gradient_loo",
    ]
    assert table.columns == [*expected, "tau_ig", "p_ig"]


def test_the_summary_counts_what_is_undefined(table: pl.DataFrame):
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


def test_significance_is_adjusted_within_the_group(table: pl.DataFrame):
    summary = Correlation().summarise(table)
    for group in ("all", "predicted:negative", "predicted:positive"):
        rows = table if group == "all" else table.filter(predicted=group.removeprefix("predicted:"))
        p = rows["p_gradient"].drop_nulls().to_numpy()
        share = summary.filter(measure="significant_gradient", group=group)["value"].item()
        adjusted = summary.filter(measure="significant_gradient_bh", group=group)["value"].item()
        assert share == pytest.approx((p <= 0.05).mean())
        assert adjusted == pytest.approx(naive_benjamini_hochberg(p, 0.05).mean())


def test_differences_are_paired(table: pl.DataFrame):
    summary = Correlation().summarise(table)
    both = table.drop_nulls(["tau_gradient_loo", "tau_gradient"])
    row = summary.row(
        by_predicate=(pl.col("measure") == "tau_gradient_loo_minus_tau_gradient")
        & (pl.col("group") == "all"),
        named=True,
    )
    assert row["n"] == len(both)
    assert row["value"] == pytest.approx((both["tau_gradient_loo"] - both["tau_gradient"]).mean())


def test_undefined_everywhere_is_null_and_not_zero():
    summary = Correlation().summarise(Correlation()(make_trace(5, (1, 1), seed=0)))
    row = summary.row(
        by_predicate=(pl.col("measure") == "tau_gradient") & (pl.col("group") == "all"), named=True
    )
    assert (row["value"], row["low"], row["n"], row["undefined"]) == (None, None, 0, 5)


def test_a_name_that_is_taken_is_refused():
    assert "importance_loo" in (Correlation().refuses(make_trace(5, importance=("loo",))) or "")
    assert Correlation().refuses(make_trace(5, importance=("ig",))) is None


def test_attention_that_is_the_importance_has_tau_1():
    trace = make_trace(20, (3, 20), seed=2)
    same = trace.ragged("alpha")
    table = pl.DataFrame(
        Correlation()(_with(trace, gradient=same, loo=same.with_values(-same.values)))
    )
    assert table["tau_gradient"].to_list() == pytest.approx([1.0] * 20)
    assert table["tau_loo"].to_list() == pytest.approx([-1.0] * 20)


def _with(trace, **columns: Ragged):
    names = [name for name in ("instance", "tokens", "split") if name in trace.table.columns]
    kept = {name: trace.table[name].to_list() for name in names}
    kept |= {name: trace.ragged(name) for name in ("alpha", "readout")}
    kept |= {name: trace.array(name) for name in ("offset", "prediction")}
    return type(trace).from_arrays(
        activation=trace.metadata["activation"], class_names=trace.class_names, **(kept | columns)
    )
