import math

import numpy as np
import polars as pl
import pytest

from attnaudit.experiments import audit
from attnaudit.experiments.comprehensiveness import WAYS, Comprehensiveness
from attnaudit.experiments.rows import row_streams
from tests.experiments.test_erasure import KINDS
from tests.oracles.erasure import after_removal, decided
from tests.oracles.random_orders import keyed_order
from tests.oracles.readout import naive_prediction
from tests.traces import known, make_trace, with_columns


def fall(trace, row, gone):
    """How much the probability of the predicted class falls; NaN where the removal leaves no weight."""
    before, after = naive_prediction(trace, row, trace.alpha[row]), after_removal(trace, row, gone)
    if after is None:
        return np.nan
    if len(before) == 1:
        before, after = [1 - before[0], before[0]], [1 - after[0], after[0]]
    chosen = decided(before)
    return before[chosen] - after[chosen]


def naive_falls(trace, row, order):
    """Comprehensiveness and sufficiency at the five shares as they are defined."""
    counts = [max(math.ceil(share * len(order)), 1) for share in (0.01, 0.05, 0.1, 0.2, 0.5)]
    return np.array(
        [
            [fall(trace, row, order[:count]) for count in counts],
            [fall(trace, row, order[count:]) for count in counts],
        ]
    )


@pytest.mark.parametrize("kind", KINDS)
def test_both_measures_as_they_are_defined(kind):
    """The baseline is the mean over random orders."""
    trace = make_trace(30, (1, 25), seed=6, importance=("norm",), **KINDS[kind])
    table, streams = Comprehensiveness(orders=4)(trace), row_streams(trace, 0, "comprehensiveness")
    columns = {
        "attention": "alpha",
        "gradient": "gradient",
        "loo": "loo",
        "norm": "importance_norm",
    }
    for row, length in enumerate(trace.alpha.lengths):
        walks = [keyed_order(length, streams[row], number) for number in range(4)]
        falls = {"random": np.mean([naive_falls(trace, row, walk) for walk in walks], axis=0)}
        for name, column in columns.items():
            order = np.argsort(-trace.ragged(column)[row], kind="stable").tolist()
            falls[name] = naive_falls(trace, row, order)
            for k, way in enumerate(WAYS if length > 1 else ()):
                found = table[f"{way}_at_{name}"][row].to_numpy()
                np.testing.assert_allclose(found, falls[name][k], atol=1e-12)
        for name, each in falls.items():
            for k, way in enumerate(WAYS):
                expected = each[k].mean() if length > 1 else None
                assert table[f"{way}_{name}"][row] == known(expected)


def with_input(values, kind):
    column = pl.Series("input_sufficiency_mine", values, kind)
    return with_columns(make_trace(6, (3, 6), seed=0), input_sufficiency_mine=column)


@pytest.mark.parametrize(
    "kind", [pl.List(pl.Float32), pl.Array(pl.Float32, 5), pl.List(pl.Float64)], ids=str
)
def test_falls_in_the_input_may_be_lists_of_any_kind(kind):
    falls = np.random.default_rng(0).random((6, 5)).astype(np.float32)
    table = Comprehensiveness()(with_input(falls.tolist(), kind))
    expected = falls.mean(axis=1).tolist()
    assert table["input_sufficiency_mine"].to_list() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("values", "kind"), [([0.5] * 6, pl.Float32()), ([["a"]] * 6, pl.List(pl.String))]
)
def test_a_column_of_anything_else_is_named(values, kind):
    reason = audit(with_input(values, kind)).left_out["comprehensiveness"]
    assert "column input_sufficiency_mine" in reason
    assert "a list of numbers for every row" in reason
