from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import polars as pl
import pytest

from attnaudit.core.errors import InputError
from attnaudit.core.ragged import Ragged
from attnaudit.experiments import audit
from attnaudit.experiments.comprehensiveness import WAYS, Comprehensiveness
from attnaudit.experiments.erasure.falls import extreme_means
from attnaudit.experiments.rows import row_streams
from attnaudit.stats.measures import ERASED_SHARES as SHARES
from attnaudit.trace import Trace
from tests.experiments.test_erasure import KINDS, some_trace
from tests.oracles.erasure import after_removal, decided
from tests.oracles.random_orders import keyed_order
from tests.oracles.readout import naive_prediction
from tests.traces import make_trace, sigmoid_rows


def means_of(weights: np.ndarray, value: np.ndarray, kept: int) -> tuple[float, float]:
    """The smallest and the largest weighted mean of ``kept`` values of one row."""
    means = np.full((1, 1, 2), np.nan)
    extreme_means(0, 1, np.array([0, len(value)]), weights, value, np.array([[kept]]), means)
    return float(means[0, 0, 0]), float(means[0, 0, 1])


def of_class(prediction: list[float], chosen: int) -> float:
    return (
        (prediction[0] if chosen == 1 else 1 - prediction[0])
        if len(prediction) == 1
        else prediction[chosen]
    )


def naive_falls(trace: Trace, row: int, order: list[int]) -> np.ndarray:
    """Comprehensiveness and sufficiency at the five shares as they are defined; NaN where a removal leaves no weight."""
    before = naive_prediction(trace, row, trace.alpha[row])
    chosen, found = decided(before), np.full((2, len(SHARES)), np.nan)
    for k, share in enumerate((0.01, 0.05, 0.1, 0.2, 0.5)):
        count = max(math.ceil(share * len(order)), 1)
        for way, gone in enumerate((order[:count], order[count:])):
            after = after_removal(trace, row, gone)
            if after is not None:
                found[way, k] = of_class(before, chosen) - of_class(after, chosen)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_both_measures_as_they_are_defined(kind: str) -> None:
    trace = make_trace(30, (1, 25), seed=6, importance=("norm",), **KINDS[kind])
    table = Comprehensiveness()(trace)
    scores = {
        "attention": trace.alpha,
        "gradient": trace.ragged("gradient"),
        "loo": trace.ragged("loo"),
        "norm": trace.ragged("importance_norm"),
    }
    for row, length in enumerate(trace.alpha.lengths):
        for name, score in scores.items():
            falls = (
                naive_falls(trace, row, np.argsort(-score[row], kind="stable").tolist())
                if length > 1
                else np.full((2, 5), np.nan)
            )
            for k, way in enumerate(WAYS):
                np.testing.assert_allclose(
                    table[f"{way}_at_{name}"][row].to_numpy(), falls[k], atol=1e-12
                )
                mean = falls[k].mean()
                assert table[f"{way}_{name}"][row] == (
                    None if np.isnan(mean) else pytest.approx(mean, abs=1e-12)
                )


@pytest.mark.parametrize("kind", ["sigmoid", "tail"])
def test_the_baseline_is_the_mean_over_random_orders(kind: str) -> None:
    trace = make_trace(20, (2, 25), seed=7, **KINDS[kind])
    table, streams = Comprehensiveness(orders=4)(trace), row_streams(trace, 0, "comprehensiveness")
    for row, length in enumerate(trace.alpha.lengths):
        walks = [keyed_order(length, streams[row], number) for number in range(4)]
        falls = np.mean([naive_falls(trace, row, walk) for walk in walks], axis=0)
        assert table["comprehensiveness_random"][row] == pytest.approx(falls[0].mean(), abs=1e-12)
        assert table["sufficiency_random"][row] == pytest.approx(falls[1].mean(), abs=1e-12)


@pytest.mark.parametrize("zeros", [0.0, 0.5])
def test_the_extreme_means_are_those_of_exhaustive_search(zeros: float) -> None:
    random = np.random.default_rng(8)
    for size in (2, 3, 5, 9):
        for _ in range(20):
            weights, value = (
                random.random(size) ** 3 * (random.random(size) >= zeros),
                random.normal(size=size),
            )
            weights[random.integers(size)] = 0.1
            for kept in range(1, size):
                sets = [
                    list(chosen)
                    for chosen in combinations(range(size), kept)
                    if weights[list(chosen)].sum() > 0
                ]
                means = [weights[chosen] @ value[chosen] / weights[chosen].sum() for chosen in sets]
                assert means_of(weights, value, kept) == pytest.approx(
                    (min(means), max(means)), abs=1e-12
                )


def test_the_extreme_means_are_exact_where_weights_differ_by_many_orders_of_magnitude() -> None:
    random = np.random.default_rng(11)
    for size in (4, 7):
        for _ in range(30):
            weights, value = 10.0 ** random.uniform(-30, 0, size), random.normal(size=size)
            weights[random.integers(size)] = 1.0
            exact = [
                (Fraction(w), Fraction(v))
                for w, v in zip(weights.tolist(), value.tolist(), strict=True)
            ]
            for kept in range(1, size):
                means = [
                    float(sum(w * v for w, v in chosen) / sum(w for w, _ in chosen)) for chosen in combinations(exact, kept)
                ]  # fmt: skip
                assert means_of(weights, value, kept) == pytest.approx(
                    (min(means), max(means)), abs=1e-9
                )


@pytest.mark.parametrize("kind", ["sigmoid", "two", "zeros"])
def test_normalised_measures_lie_between_the_bounds_of_exhaustive_search(kind: str) -> None:
    trace = some_trace(kind, 25, (1, 8), seed=9)
    table = Comprehensiveness()(trace)
    for row, length in enumerate(trace.alpha.lengths):
        if length < 2:
            assert table["normalised_comprehensiveness_attention"][row] is None
            continue
        least, greatest = np.zeros(2), np.zeros(2)
        for share in SHARES:
            count = max(math.ceil(share * length), 1)
            for way, removed in enumerate((count, length - count)):
                after = [
                    after_removal(trace, row, gone) for gone in combinations(range(length), removed)
                ]
                before = naive_prediction(trace, row, trace.alpha[row])
                falls = [
                    of_class(before, decided(before)) - of_class(p, decided(before))
                    for p in after
                    if p is not None
                ]
                least[way] += min(falls) / len(SHARES)
                greatest[way] += max(falls) / len(SHARES)
        for k, way in enumerate(WAYS):
            plain, found = table[f"{way}_attention"][row], table[f"normalised_{way}_attention"][row]
            if plain is not None and greatest[k] - least[k] > 1e-9:
                assert found == pytest.approx(
                    (plain - least[k]) / (greatest[k] - least[k]), abs=1e-6
                )
    for way in WAYS:
        known = table[f"normalised_{way}_gradient"].drop_nulls()
        assert ((known >= -1e-9) & (known <= 1 + 1e-9)).all()


def test_no_bounds_where_they_are_not_known() -> None:
    for trace in (
        make_trace(5, outputs=3),
        make_trace(5, outputs=3, hidden=4),
        make_trace(5, outputs=2, candidates=True),
    ):
        assert not [
            name for name in Comprehensiveness()(trace).columns if name.startswith("normalised")
        ]


def test_an_output_that_nothing_moves_has_nothing_to_normalise() -> None:
    table = Comprehensiveness()(
        sigmoid_rows(Ragged.from_rows([[0.5, 0.3, 0.2], [1.0]]), np.full(4, 1.5))
    )
    assert table["comprehensiveness_attention"].to_list() == [pytest.approx(0.0, abs=1e-12), None]
    assert table["normalised_comprehensiveness_attention"].to_list() == [None, None]
    summary = Comprehensiveness().summarise(table).filter(pl.col("group") == "all")
    assert summary.filter(measure="comprehensiveness_attention")["undefined"].to_list() == [1]


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match=r"comprehensiveness\.orders"):
        Comprehensiveness(orders=0)
    left_out = audit(make_trace(5, importance=("loo",))).left_out
    assert "importance_loo is taken" in left_out["comprehensiveness"]


def with_column(trace: Trace, name: str, values: list, kind: pl.DataType) -> Trace:
    return replace(trace, table=trace.table.with_columns(pl.Series(name, values, kind)))


def test_falls_in_the_input_may_be_lists_of_any_kind() -> None:
    trace = make_trace(6, (3, 6), seed=0)
    falls = np.random.default_rng(0).random((6, 5)).astype(np.float32)
    for kind in (pl.List(pl.Float32), pl.Array(pl.Float32, 5), pl.List(pl.Float64)):
        table = Comprehensiveness()(
            with_column(trace, "input_sufficiency_mine", falls.tolist(), kind)
        )
        assert table["input_sufficiency_mine"].to_list() == pytest.approx(
            falls.mean(axis=1).tolist(), rel=1e-6
        )


@pytest.mark.parametrize(
    ("values", "kind"), [([0.5] * 6, pl.Float32()), ([["a"]] * 6, pl.List(pl.String))]
)
def test_a_column_of_anything_else_is_named(values: list, kind: pl.DataType) -> None:
    left_out = audit(
        with_column(make_trace(6, (3, 6), seed=0), "input_sufficiency_mine", values, kind)
    ).left_out
    assert "column input_sufficiency_mine holds" in left_out["comprehensiveness"]
    assert "a list of numbers for every row" in left_out["comprehensiveness"]


def test_a_score_named_as_what_is_worked_out_of_another_is_refused() -> None:
    left_out = audit(make_trace(6, (3, 6), importance=("at_attention",))).left_out
    assert "importance_at_attention is taken" in left_out["comprehensiveness"]


@pytest.mark.parametrize("experiment", ["erasure", "comprehensiveness"])
def test_too_many_orders_are_refused(experiment: str) -> None:
    with pytest.raises(
        InputError,
        match=rf"{experiment}\.orders: 99999999999999999999; expected 1 to 10,000 random orders",
    ):
        audit(make_trace(6, (3, 6)), [experiment], {experiment: {"orders": 99999999999999999999}})
