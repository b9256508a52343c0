"""A trace small enough to enumerate: exact τ, permutation medians and ε-max JSD against counting by hand-sized loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from attnaudit.core.ragged import Ragged
from attnaudit.experiments import audit
from attnaudit.trace import Trace
from tests.oracles.adversary import brute_force_adversary
from tests.oracles.kendall import naive_kendall
from tests.oracles.permutation import all_permutations
from tests.traces import sigmoid_rows

# Words that say "yes" with +2, "no" with −2, and fillers that say nothing; attention finds the cue, splits over two cues, or misses it.
ALPHA = [
    [0.7, 0.1, 0.1, 0.1],
    [0.4, 0.4, 0.1, 0.05, 0.05],
    [0.05, 0.05, 0.05, 0.05, 0.05, 0.75],
    [0.5, 0.5],
    [1.0],
]
RELEVANCE = [
    [2.0, 0.1, -0.1, 0.0],
    [2.0, -2.0, 0.1, -0.1, 0.0],
    [-2.0, 0.1, -0.1, 0.2, -0.2, 0.0],
    [2.0, -2.0],
    [2.0],
]


@pytest.fixture(scope="module")
def trace() -> Trace:
    base = sigmoid_rows(Ragged.from_rows(ALPHA), np.concatenate(RELEVANCE))
    columns: dict[str, Any] = {name: base.table[name].to_list() for name in ("tokens", "instance")}
    gradient = Ragged.from_rows([np.abs(row) for row in RELEVANCE])
    loo = Ragged.from_rows(
        [np.abs(row) * np.array(alpha) for row, alpha in zip(RELEVANCE, ALPHA, strict=True)]
    )
    columns |= {
        "alpha": base.ragged("alpha"),
        "readout": base.ragged("readout"),
        "gradient": gradient,
        "loo": loo,
    }
    columns |= {name: base.array(name) for name in ("offset", "prediction")}
    columns |= {
        "rationale": [[abs(r) == 2.0 for r in row] for row in RELEVANCE],
        "label": [1, 0, 0, 0, 1],
    }
    return Trace.from_arrays(activation="sigmoid", class_names=["no", "yes"], **columns)


def test_correlation(trace: Trace):
    table = audit(trace, ["correlation"])["correlation"].table
    for row, alpha in enumerate(ALPHA):
        expected = naive_kendall(np.array(alpha), trace.ragged("gradient")[row])
        found = (table["tau_gradient"][row], table["p_gradient"][row])
        assert found == (
            (None, None) if np.isnan(expected[0]) else pytest.approx(expected, abs=1e-12)
        )
    by_hand = [
        3 / np.sqrt(3 * 5),
        7 / np.sqrt(8 * 8),
    ]  # pairs in order, over the root of the pairs not tied in one and in the other
    assert table["tau_gradient"].to_list()[:2] == pytest.approx(by_hand, abs=1e-12)


def test_permutation(trace: Trace):
    """With enough shuffles the sampled median is that of all orders wherever the two middle ones agree."""
    table = audit(trace, ["permutation"], {"permutation": {"permutations": 4001}})[
        "permutation"
    ].table
    for row in range(len(trace)):
        every = all_permutations(trace, row)
        near = np.quantile(every, [0.46, 0.54])
        assert near[0] - 1e-12 <= table["median_delta_y"][row] <= near[1] + 1e-12
    assert table["median_delta_y"].to_list()[3:] == [0.0, 0.0]


def test_adversary(trace: Trace):
    table = audit(trace, ["adversary"])["adversary"].table
    for row in range(len(trace)):
        assert table["emax_jsd"][row] == pytest.approx(
            brute_force_adversary(trace, row, 0.01)[0], abs=1e-9
        )
    assert table["certified"].all()
    assert table["emax_jsd"][4] == 0


def test_plausibility_and_prediction(trace: Trace):
    results = audit(trace)
    assert results["plausibility"].table["precision_attention"].to_list() == pytest.approx(
        [1.0, 1.0, 0.0, None, None]
    )
    assert results["prediction"].table["correct"].to_list() == [True, False, True, False, True]
    known = results.summary.filter(pl.col("value").is_not_null())
    without = known.filter(pl.col("low").is_null() | pl.col("high").is_null())
    assert set(without["measure"]) == {
        "majority",
        "roc_auc_chance",
    }  # baselines are no estimates (docs/statistics.md)
    assert list(results) == [
        "prediction", "correlation", "permutation", "maximal_change", "adversary", "ranges", "identifiability", "erasure",
        "comprehensiveness", "plausibility",
    ]  # fmt: skip
    assert results.left_out == {
        "alignment": "for traces of translations with reference alignments only", "joint": "for traces of several heads only",
        "agreement": "for traces with several importance scores only, 2 columns importance_<name> or more",
    }  # fmt: skip
