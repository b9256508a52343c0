from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.stats import kendalltau

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
    assert table.columns[3:] == [f"{kind}_{name}" for name in pairs for kind in ("tau", "p")]
    for name, (one, other) in pairs.items():
        for row in range(len(trace)):
            x, y = trace.ragged(one)[row], trace.ragged(other)[row]
            found = table[f"tau_{name}"][row], table[f"p_{name}"][row]
            if min(len(set(x)), len(set(y))) < 2:
                assert found == (None, None)
            elif len(x) > 2:  # scipy knows no p of two
                assert found == pytest.approx(kendalltau(x, y, method="asymptotic"), abs=1e-12)


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
        tau, p = rows.drop_nulls("tau_gradient").select("tau_gradient", "p_gradient").to_numpy().T
        above = summary.filter(measure="above_chance_gradient", group=group)["value"].item()
        assert above == pytest.approx((0.5 + np.sign(tau) * (0.5 - p / 2)).mean())
